//! `bench decode`: samples a second that a collector gets out of datagrams, by form of output.
//!
//! The datagrams are those that collectors are commonly measured with: six expanded flow samples, each with a header of
//! 128 bytes and an extended switch record. Times are processor time of one thread, so that a figure is of a core whatever
//! else runs. Forms are decoded from memory, and CSV and JSON from a live socket as well, receiving included. Besides,
//! with `--peer`, sflowtool and this program each read the same capture file as processes of their own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use parshall_agent::{CollectorConfig, Transport, UdpTransport};
use parshall_linux::udp::{UdpOptions, UdpReceiver};
use parshall_sflow_wire::print::{Format, Meta, Printer, Selection, Stamp};
use parshall_sflow_wire::record::{ExtendedSwitch, RawHeader};
use parshall_sflow_wire::{
    Address, DataSource, Datagram, DatagramBuilder, FlowRecord, FlowSampleHead, Interface, Tracker,
};
use parshall_wire::{MacAddr, PacketBuilder, TcpFlags};
use serde::Serialize;

use crate::report::short;
use crate::stats::median;
use crate::{Bar, BenchError, Report, Table};

/// Datagrams, all different; few enough to lie in a cache as received ones do.
const DATAGRAMS: usize = 512;
/// Flow samples in each, and header bytes of a sample.
const SAMPLES: usize = 6;
const HEADER: usize = 128;
/// Where in a datagram of an IPv4 agent its number is.
const SEQUENCE_AT: usize = 16;
/// Datagrams in the capture file that the processes read.
const FILE_DATAGRAMS: usize = 40_000;
/// Output is thrown away when so much has gathered, as a collector writes it.
const WRITE_AT: usize = 1 << 16;

/// `parshall bench decode`.
#[derive(clap::Args, Clone, Debug)]
pub struct DecodeArgs {
    /// Windows a form is measured in; the median counts.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Length of a window in milliseconds.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub window_ms: u64,
    /// sflowtool, to read the same file in the same run.
    #[arg(long, value_name = "PATH")]
    pub peer: Option<PathBuf>,
}

/// One form of output.
struct Form {
    name: &'static str,
    format: Format,
    /// Samples a second a core that it must reach.
    bar: Option<f64>,
    /// The option that gives it, here and in sflowtool.
    option: Option<&'static str>,
    /// Measured from a socket as well.
    live: bool,
}

/// All forms.
fn forms() -> [Form; 5] {
    let form = |name, format, bar, option, live| Form {
        name,
        format,
        bar,
        option,
        live,
    };
    let json = Format::Json { indented: false };
    [
        form("csv", Format::Csv, Some(2e6), Some("-l"), true),
        form("json", json, Some(1e6), Some("-j"), true),
        form("text", Format::Text, None, Some(""), false),
        form("binary", Format::Packets, Some(2e6), None, false),
        form("count", Format::Nothing, None, None, false),
    ]
}

/// A measured form, for machines.
#[derive(Clone, Debug, Serialize)]
struct Row {
    form: &'static str,
    /// From memory.
    samples_per_second: f64,
    /// From a socket, where measured: samples a second of processor time of the receiving thread.
    live_samples_per_second: Option<f64>,
    /// Datagrams that the socket lost meanwhile, for the sender does not wait.
    live_lost_datagrams: Option<u64>,
    /// As a process that reads a file.
    file_samples_per_second: Option<f64>,
    /// The peer on the same file.
    peer_samples_per_second: Option<f64>,
    /// How many times the peer's.
    peer_ratio: Option<f64>,
}

#[derive(Serialize)]
struct Figures<'a> {
    datagram_bytes: usize,
    samples_in_datagram: usize,
    header_bytes: usize,
    /// Of the form with the bar of 2,000,000: CSV.
    samples_per_second: f64,
    forms: &'a [Row],
}

/// Runs the bench.
///
/// # Errors
/// When a socket, a file or the peer cannot be had.
pub fn measure(args: &DecodeArgs) -> Result<Report, BenchError> {
    let datagrams = datagrams()?;
    let forms = forms();
    let mut windows = vec![Vec::new(); forms.len()];
    let window = Duration::from_millis(args.window_ms);
    for _ in 0..args.repeats {
        for (form, rates) in forms.iter().zip(&mut windows) {
            rates.push(from_memory(&form.format, &datagrams, window)?);
        }
    }
    let mut rows = Vec::new();
    for (form, rates) in forms.iter().zip(windows) {
        let mut row = Row {
            form: form.name,
            samples_per_second: median(rates).round(),
            live_samples_per_second: None,
            live_lost_datagrams: None,
            file_samples_per_second: None,
            peer_samples_per_second: None,
            peer_ratio: None,
        };
        if form.live {
            let (rate, lost) = from_socket(&form.format, &datagrams, window * args.repeats)?;
            row.live_samples_per_second = Some(rate.round());
            row.live_lost_datagrams = Some(lost);
        }
        rows.push(row);
    }
    if let Some(peer) = &args.peer {
        against(peer, args, &forms, &datagrams, &mut rows)?;
    }
    report(&forms, &rows, &datagrams)
}

fn report(forms: &[Form], rows: &[Row], datagrams: &[Vec<u8>]) -> Result<Report, BenchError> {
    let columns = [
        "form",
        "from memory",
        "from a socket",
        "from a file",
        "sflowtool",
        "ratio",
    ];
    let mut table = Table::new("Samples a second a core", &columns);
    let cell = |x: Option<f64>| x.map_or("-".to_owned(), short);
    for r in rows {
        table.push([
            r.form.to_owned(),
            short(r.samples_per_second),
            cell(r.live_samples_per_second),
            cell(r.file_samples_per_second),
            cell(r.peer_samples_per_second),
            cell(r.peer_ratio),
        ]);
    }
    let bar = |(f, r): (&Form, &Row)| {
        let measure = format!("decode to {}", f.name);
        f.bar
            .map(|least| Bar::at_least(measure, r.samples_per_second, least, "samples/s a core"))
    };
    let bars: Vec<Bar> = forms.iter().zip(rows).filter_map(bar).collect();
    let bytes = datagrams.first().map_or(0, Vec::len);
    let figures = Figures {
        datagram_bytes: bytes,
        samples_in_datagram: SAMPLES,
        header_bytes: HEADER,
        samples_per_second: rows.first().map_or(0.0, |r| r.samples_per_second),
        forms: rows,
    };
    let of = format!(
        "datagrams of {bytes} bytes with {SAMPLES} expanded flow samples ({HEADER}-byte headers, switch record), one thread, by its processor time"
    );
    let report = Report::new("decode", of, &figures)?;
    Ok(report.with_table(table).with_bars(bars))
}

/// Datagrams of packets of many senders.
fn datagrams() -> Result<Vec<Vec<u8>>, BenchError> {
    let mut builder = DatagramBuilder::new(1400);
    (0..DATAGRAMS as u32)
        .map(|n| {
            builder.begin(Ipv4Addr::new(192, 0, 2, 1).into(), 0, n + 1, n);
            for k in 0..SAMPLES as u32 {
                let header = packet(n * SAMPLES as u32 + k);
                let interface = 1 + k % 4;
                let head = FlowSampleHead {
                    sequence: n + 1,
                    source: DataSource::interface(interface),
                    rate: 1000,
                    pool: n * 6000,
                    drops: 0,
                    input: Interface::index(interface),
                    output: Interface::index(5),
                };
                let pushed = builder.push_flow_sample_expanded(&head, |w| {
                    w.push(&FlowRecord::Switch(ExtendedSwitch {
                        in_vlan: 10 + k,
                        in_priority: 0,
                        out_vlan: 20,
                        out_priority: 0,
                    }));
                    w.push(&FlowRecord::RawHeader(RawHeader {
                        protocol: 1,
                        frame_length: 1518,
                        stripped: 4,
                        header: &header,
                    }));
                });
                pushed.map_err(|e| BenchError::of("datagram", e))?;
            }
            Ok(builder.finish().to_vec())
        })
        .collect()
}

/// The first bytes of a sampled packet, every fourth of UDP, the others of TCP.
fn packet(n: u32) -> Vec<u8> {
    let address = |net: u32| Ipv4Addr::from(net << 24 | n.wrapping_mul(0x9E37_79B9) >> 8);
    let b = PacketBuilder::ethernet(MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]))
        .ipv4(address(10), address(203));
    let port = 1024 + (n % 50_000) as u16;
    let b = match n % 4 {
        0 => b.udp(port, 53),
        _ => b.tcp(port, 443, TcpFlags(0x18)),
    };
    let mut bytes = b.payload_len(200).build();
    bytes.truncate(HEADER);
    bytes
}

/// Processor time of this thread in seconds.
fn thread_seconds() -> Result<f64, BenchError> {
    let t = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_err(|e| BenchError::of("processor time", e))?;
    Ok(t.tv_sec() as f64 + t.tv_nsec() as f64 / 1e9)
}

/// What a collector does with a datagram: follows the numbers, prints, and writes now and then.
struct Sink {
    printer: Printer,
    tracker: Tracker,
    out: Vec<u8>,
}

impl Sink {
    fn new(format: &Format) -> Sink {
        Sink {
            printer: Printer::new(format, Selection::default()),
            tracker: Tracker::default(),
            out: Vec::with_capacity(2 * WRITE_AT),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        let meta = Meta {
            source: Address::V4(Ipv4Addr::LOCALHOST),
            read_time: Stamp {
                seconds: 1_700_000_000,
                micros: 0,
                utc_offset: 0,
            },
            capture_time: None,
        };
        let d = Datagram::parse(bytes).map_err(|e| BenchError::of("decode", e))?;
        self.tracker.observe(&d);
        self.printer
            .print(&meta, bytes, &mut self.out)
            .map_err(|e| BenchError::of("decode", e))?;
        if self.out.len() >= WRITE_AT {
            std::hint::black_box(&self.out);
            self.out.clear();
        }
        Ok(())
    }
}

/// Samples a second of processor time.
fn from_memory(
    format: &Format,
    datagrams: &[Vec<u8>],
    window: Duration,
) -> Result<f64, BenchError> {
    let mut sink = Sink::new(format);
    let (end, before) = (Instant::now() + window, thread_seconds()?);
    let mut samples = 0;
    while Instant::now() < end {
        for d in datagrams {
            sink.take(d)?;
        }
        samples += datagrams.len() * SAMPLES;
    }
    Ok(samples as f64 / (thread_seconds()? - before))
}

/// The same from a socket that a sender fills as fast as it can; and the datagrams lost.
fn from_socket(
    format: &Format,
    datagrams: &[Vec<u8>],
    time: Duration,
) -> Result<(f64, u64), BenchError> {
    let fail = |e| BenchError::of("receiving", e);
    let options = UdpOptions {
        dual: false,
        shared: false,
        buffer_bytes: 64 << 20,
    };
    let here = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let mut receiver = UdpReceiver::bind(here, options).map_err(fail)?;
    let to = receiver.local_addr().map_err(fail)?;
    let done = AtomicBool::new(false);
    let mut sink = Sink::new(format);
    let seconds = thread::scope(|s| {
        s.spawn(|| flood(to, datagrams, &done));
        let end = Instant::now() + time;
        let before = thread_seconds();
        let mut work = || {
            while Instant::now() < end {
                if !receiver.receive().map_err(fail)? {
                    receiver.wait(Duration::from_millis(10)).map_err(fail)?;
                }
                for (bytes, _) in receiver.datagrams() {
                    sink.take(bytes)?;
                }
            }
            Ok(())
        };
        let worked = work();
        done.store(true, Ordering::Relaxed);
        worked.and(Ok(thread_seconds()? - before?))
    })?;
    let seen = sink.tracker.agents();
    let received: u64 = seen.iter().map(|a| a.datagrams.received).sum();
    let lost = seen.iter().map(|a| a.datagrams.lost).sum();
    Ok((received as f64 * SAMPLES as f64 / seconds, lost))
}

/// Sends until told to stop, each datagram with a number of its own.
fn flood(to: SocketAddr, datagrams: &[Vec<u8>], done: &AtomicBool) {
    let mut transport = UdpTransport::new();
    transport.set_collectors(1, &[CollectorConfig::from(to)]);
    let mut datagrams = datagrams.to_vec();
    let mut number = 0u32;
    while !done.load(Ordering::Relaxed) {
        for batch in datagrams.chunks_mut(64) {
            for d in batch.iter_mut() {
                number = number.wrapping_add(1);
                d[SEQUENCE_AT..SEQUENCE_AT + 4].copy_from_slice(&number.to_be_bytes());
            }
            let slices: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
            transport.send(1, &slices);
        }
    }
}

/// Lets both programs read the same file, in turns.
fn against(
    peer: &Path,
    args: &DecodeArgs,
    forms: &[Form],
    datagrams: &[Vec<u8>],
    rows: &mut [Row],
) -> Result<(), BenchError> {
    let fail = |e| BenchError::of("capture file", e);
    let own = std::env::current_exe().map_err(|e| BenchError::of("this program", e))?;
    let dir = tempfile::tempdir().map_err(fail)?;
    let file = dir.path().join("sflow.pcap");
    std::fs::write(&file, capture(datagrams)).map_err(fail)?;
    for (form, row) in forms.iter().zip(rows) {
        let Some(option) = form.option else {
            continue;
        };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..args.repeats {
            ours.push(read_file(&own, &["sflow", "decode"], option, &file)?);
            theirs.push(read_file(peer, &[], option, &file)?);
        }
        let (ours, theirs) = (median(ours), median(theirs));
        row.file_samples_per_second = Some(ours.round());
        row.peer_samples_per_second = Some(theirs.round());
        row.peer_ratio = Some((ours / theirs * 10.0).round() / 10.0);
    }
    Ok(())
}

/// Samples a second of processor time of a process that reads the file.
fn read_file(
    program: &Path,
    command: &[&str],
    option: &str,
    file: &Path,
) -> Result<f64, BenchError> {
    let name = program.display().to_string();
    let used = || {
        let u = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|e| BenchError::of("usage", e))?;
        let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
        Ok::<f64, BenchError>(seconds(u.user_time()) + seconds(u.system_time()))
    };
    let before = used()?;
    let status = Command::new(program)
        .args(command)
        .args(Some(option).filter(|o| !o.is_empty()))
        .arg("-r")
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|e| BenchError::of(&name, e))?;
    if !status.success() {
        return Err(BenchError(format!("{name} {option} -r: {status}")));
    }
    Ok((FILE_DATAGRAMS * SAMPLES) as f64 / (used()? - before))
}

/// The datagrams as a capture file, over and over.
fn capture(datagrams: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    let words = |file: &mut Vec<u8>, list: &[u32]| {
        list.iter().for_each(|w| file.extend(w.to_be_bytes()));
    };
    // Magic, version 2.4, times, snap length, Ethernet.
    words(&mut file, &[0xA1B2_C3D4, 2 << 16 | 4, 0, 0, 65_535, 1]);
    let frames: Vec<Vec<u8>> = datagrams
        .iter()
        .map(|d| {
            PacketBuilder::ethernet(MacAddr([2; 6]), MacAddr([4; 6]))
                .ipv4(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2))
                .udp(8888, 6343)
                .payload(d)
                .build()
        })
        .collect();
    for frame in frames.iter().cycle().take(FILE_DATAGRAMS) {
        let len = frame.len() as u32;
        words(&mut file, &[1_700_000_000, 0, len, len]);
        file.extend(frame);
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_of_the_shape_said_and_all_forms_decode_them() {
        let all = datagrams().unwrap();
        for d in &all {
            let parsed = Datagram::parse(d).unwrap();
            assert_eq!(parsed.samples().flatten().count(), SAMPLES);
            assert_eq!(d.len(), 28 + SAMPLES * (8 + 44 + 24 + 24 + HEADER));
        }
        let mut csv = Sink::new(&Format::Csv);
        csv.take(&all[0]).unwrap();
        let text = String::from_utf8(csv.out).unwrap();
        assert_eq!(text.lines().count(), SAMPLES);
        assert!(text.contains(",443,0x18,1518,1500,1000"), "{text}");
        let window = Duration::from_millis(1);
        for form in forms() {
            assert!(from_memory(&form.format, &all, window).unwrap() > 0.0);
        }
    }

    #[test]
    fn a_socket_is_read_while_it_is_filled() {
        let all = datagrams().unwrap();
        let (rate, _) = from_socket(&Format::Csv, &all, Duration::from_millis(200)).unwrap();
        assert!(rate > 0.0);
    }

    #[test]
    fn the_file_holds_the_datagrams() {
        let all = datagrams().unwrap();
        let file = capture(&all);
        let mut capture = parshall_sflow_wire::pcap::Capture::open(&file[..]).unwrap();
        let mut n = 0;
        while let Some(p) = capture.next_packet().unwrap() {
            let udp = parshall_sflow_wire::pcap::find_udp(p.link_type, p.data).unwrap();
            assert_eq!(udp.payload, all[n % DATAGRAMS]);
            n += 1;
        }
        assert_eq!(n, FILE_DATAGRAMS);
    }
}
