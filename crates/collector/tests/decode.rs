//! The command end to end: files, pipes and sockets in, bytes out.

use std::io::{self, Write};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::Parser;
use parshall_collector::decode::run_with;
use parshall_collector::{DecodeArgs, DecodeError};

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: DecodeArgs,
}

fn args(list: &[&str]) -> DecodeArgs {
    Command::try_parse_from(["decode"].iter().chain(list))
        .expect("good arguments")
        .args
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../sflow-wire/tests/data")
        .join(name)
}

/// Runs the command to its end; gives its result, output and messages.
fn run(list: &[&str]) -> (Result<(), DecodeError>, String, String) {
    let (mut out, mut log) = (Vec::new(), Vec::new());
    let stop = AtomicBool::new(false);
    let result = run_with(&args(list), &mut out, &mut log, &stop, |_| {});
    let text = |b| String::from_utf8(b).expect("text");
    (result, text(out), text(log))
}

fn without_times(text: &str) -> Vec<&str> {
    // Local times depend on where the test runs.
    text.lines()
        .filter(|l| !l.starts_with("localtime") && !l.starts_with("pcapTimestamp "))
        .collect()
}

#[test]
fn files_print_as_sflowtool_prints_them() {
    for name in ["sflow-records", "sflow-edge"] {
        let file = data(&format!("{name}.pcap"));
        let (result, out, log) = run(&["-r", file.to_str().unwrap()]);
        result.unwrap();
        let want = std::fs::read_to_string(data(&format!("{name}.txt"))).unwrap();
        assert_eq!(without_times(&out), without_times(&want));
        assert!(log.contains("packet at byte "), "{log}");
        let (_, out, _) = run(&["-l", "-r", file.to_str().unwrap()]);
        assert_eq!(
            out,
            std::fs::read_to_string(data(&format!("{name}.csv"))).unwrap()
        );
    }
}

#[test]
fn several_files_a_count_and_a_port() {
    let file = data("sflow-records.pcap");
    let file = file.to_str().unwrap();
    let lines = |list: &[&str]| run(list).1.lines().count();
    assert_eq!(lines(&["-j", "-r", file, "-r", file]), 14);
    assert_eq!(lines(&["-j", "-r", file, "--count", "3"]), 3);
    assert_eq!(lines(&["-j", "-r", file, "-p", "6343"]), 7);
    assert_eq!(lines(&["-j", "-r", file, "-p", "9999"]), 0);
}

#[test]
fn errors_name_the_file_and_the_byte() {
    let (result, _, _) = run(&["-r", "no-such.pcap"]);
    assert!(
        result
            .unwrap_err()
            .to_string()
            .starts_with("cannot open no-such.pcap: No such file")
    );

    let dir = tempfile::tempdir().unwrap();
    let cut = dir.path().join("cut.pcap");
    let whole = std::fs::read(data("sflow-records.pcap")).unwrap();
    std::fs::write(&cut, &whole[..whole.len() - 1]).unwrap();
    let (result, out, _) = run(&["-j", "-r", cut.to_str().unwrap()]);
    let text = result.unwrap_err().to_string();
    assert!(
        text.contains("cut.pcap") && text.contains("packet at byte"),
        "{text}"
    );
    assert_eq!(out.lines().count(), 6);

    let (result, out, log) = run(&[
        "-k",
        "-j",
        "-r",
        cut.to_str().unwrap(),
        "-r",
        data("sflow-edge.pcap").to_str().unwrap(),
    ]);
    result.unwrap();
    assert!(out.lines().count() > 6);
    assert!(log.contains("cut short"), "{log}");

    let other = dir.path().join("text");
    std::fs::write(&other, "hello, world").unwrap();
    let (result, _, _) = run(&["-r", other.to_str().unwrap()]);
    assert!(
        result
            .unwrap_err()
            .to_string()
            .contains("not a pcap or pcapng file")
    );
}

#[test]
fn a_closed_output_is_a_normal_end() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let file = data("sflow-records.pcap");
    let stop = AtomicBool::new(false);
    let list = args(&["-r", file.to_str().unwrap()]);
    run_with(&list, &mut Closed, &mut Vec::new(), &stop, |_| {}).unwrap();
}

#[test]
fn datagrams_from_the_network() {
    let capture = std::fs::read(data("sflow-records.pcap")).unwrap();
    let mut capture = parshall_sflow_wire::pcap::Capture::open(&capture[..]).unwrap();
    let packet = capture.next_packet().unwrap().unwrap();
    let udp = parshall_sflow_wire::pcap::find_udp(packet.link_type, packet.data).unwrap();

    for (list, to) in [
        (
            &[
                "-j",
                "--count",
                "2",
                "--listen",
                "127.0.0.1:0",
                "--sockets",
                "3",
            ][..],
            "127.0.0.1",
        ),
        (
            &["-p", "0", "-j", "--count", "2", "--sockets", "2"],
            "127.0.0.1",
        ),
        (
            &["-p", "0", "-j", "--count", "2", "--listen", "127.0.0.1"],
            "127.0.0.1",
        ),
        (&["-p", "0", "-j", "--count", "2"], "127.0.0.1"),
        (&["-p", "0", "-4", "-j", "--count", "2"], "127.0.0.1"),
    ] {
        let (mut out, stop) = (Vec::new(), AtomicBool::new(false));
        run_with(&args(list), &mut out, &mut Vec::new(), &stop, |addr| {
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            for _ in 0..2 {
                sender.send_to(udp.payload, (to, addr.port())).unwrap();
            }
        })
        .unwrap();
        let out = String::from_utf8(out).unwrap();
        assert_eq!(out.lines().count(), 2);
        assert!(out.contains("\"datagramSourceIP\":\"127.0.0.1\""), "{out}");
    }
}

#[test]
fn a_port_in_use_is_explained() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (result, _, _) = run(&["-p", &port, "--listen", "127.0.0.1"]);
    let text = result.unwrap_err().to_string();
    assert!(
        text.contains(&port) && text.contains("choose another"),
        "{text}"
    );
}

/// A datagram of agent 192.0.2.1 with flow samples by these numbers, drops being ten times the number.
fn datagram(number: u32, samples: &[u32]) -> Vec<u8> {
    use parshall_sflow_wire::{DataSource, DatagramBuilder, FlowSampleHead, Interface};
    let mut b = DatagramBuilder::new(1400);
    b.begin([192, 0, 2, 1].into(), 0, number, 1000);
    for sequence in samples {
        let head = FlowSampleHead {
            sequence: *sequence,
            source: DataSource::interface(1),
            rate: 1,
            pool: *sequence,
            drops: 10 * sequence,
            input: Interface::index(1),
            output: Interface::UNKNOWN,
        };
        b.push_flow_sample_expanded(&head, |_| {}).expect("room");
    }
    b.finish().to_vec()
}

#[test]
fn what_was_lost_is_told_at_the_end() {
    let send = |addr: std::net::SocketAddr| {
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for d in [
            datagram(1, &[1, 2]),
            datagram(2, &[3]),
            datagram(5, &[9]),
            vec![0; 9],
        ] {
            sender.send_to(&d, addr).unwrap();
        }
    };
    let run = |list: &[&str]| {
        let (mut out, mut log) = (Vec::new(), Vec::new());
        let stop = AtomicBool::new(false);
        run_with(&args(list), &mut out, &mut log, &stop, send).unwrap();
        (out, String::from_utf8(log).unwrap())
    };
    let (out, log) = run(&["-q", "--status", "--count", "4", "--listen", "127.0.0.1:0"]);
    assert!(out.is_empty());
    let last = log.lines().last().unwrap();
    let status: serde_json::Value = serde_json::from_str(last).unwrap();
    let n = |key: &str| status[key].as_u64().unwrap();
    assert_eq!((n("datagrams"), n("printed")), (4, 4));
    assert_eq!((n("lost_datagrams"), n("flow_samples")), (2, 4));
    assert_eq!((n("lost_flow_samples"), n("agent_drops")), (5, 80));
    assert_eq!((n("socket_drops"), n("sockets")), (0, 1));
    let (_, log) = run(&["-l", "--count", "3", "--listen", "127.0.0.1:0"]);
    assert!(
        log.contains("lost on the way: 2 datagrams, 5 flow samples"),
        "{log}"
    );
}

#[test]
fn every_class_of_error_is_counted_and_named() {
    let words = |list: &[u32]| -> Vec<u8> { list.iter().flat_map(|w| w.to_be_bytes()).collect() };
    let header = |samples| [5, 1, 0xC000_0201, 0, 1, 1, samples];
    let bad = |rest: &[u32]| words(&[&header(1), rest].concat());
    // A flow sample with one record.
    let record = |tag, length, body: u32| bad(&[1, 44, 1, 7, 9, 9, 0, 7, 0, 1, tag, length, body]);
    let datagrams = [
        vec![0; 3],
        words(&[9]),
        bad(&[]),
        bad(&[1, 4, 1]),
        bad(&[1, 400, 1]),
        record(1002, 4, 9),
        record(1002, 99, 9),
        record(1006, 4, 1),
        record(1012, 4, u32::MAX),
        datagram(1, &[1]),
    ];
    for format in ["-q", "-j", "-l"] {
        let (mut out, mut log) = (Vec::new(), Vec::new());
        let list = args(&[format, "--count", "10", "--listen", "127.0.0.1:0"]);
        let stop = AtomicBool::new(false);
        run_with(&list, &mut out, &mut log, &stop, |addr| {
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            for d in &datagrams {
                sender.send_to(d, addr).unwrap();
            }
        })
        .unwrap();
        let log = String::from_utf8(log).unwrap();
        let want = "malformed: 9 (datagram_truncated 1, datagram_version 1, sample_truncated 2, sample_length 1, \
             record_truncated 1, record_address_type 1, record_count 1, record_length 1)";
        assert!(log.contains(want), "{format}: {log}");
    }
}

#[test]
fn a_request_to_stop_ends_all_sockets_after_what_has_arrived() {
    let stop = AtomicBool::new(false);
    let (mut out, mut log) = (Vec::new(), Vec::new());
    let list = args(&[
        "-l",
        "--status",
        "--sockets",
        "2",
        "--listen",
        "127.0.0.1:0",
    ]);
    run_with(&list, &mut out, &mut log, &stop, |addr| {
        for _ in 0..20 {
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            sender.send_to(&datagram(1, &[1]), addr).unwrap();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    })
    .unwrap();
    assert_eq!(String::from_utf8(out).unwrap().lines().count(), 20);
    let status: serde_json::Value =
        serde_json::from_slice(log.trim_ascii()).expect("one line of JSON");
    assert_eq!(status["datagrams"], 20);
}

#[test]
fn sampled_packets_become_a_capture_file() {
    let file = data("sflow-records.pcap");
    let (mut out, stop) = (Vec::new(), AtomicBool::new(false));
    let list = args(&["-t", "-r", file.to_str().unwrap()]);
    run_with(&list, &mut out, &mut Vec::new(), &stop, |_| {}).unwrap();
    let mut capture = parshall_sflow_wire::pcap::Capture::open(&out[..]).unwrap();
    let mut packets = 0;
    while let Some(p) = capture.next_packet().unwrap() {
        assert!(p.link_type == 1 && p.data.len() as u64 <= u64::from(p.wire_len));
        packets += 1;
    }
    assert!(packets > 0);
}

#[test]
fn two_ports_are_one_too_many() {
    let (result, ..) = run(&["-p", "1", "--listen", "127.0.0.1:2"]);
    let text = result.unwrap_err().to_string();
    assert!(
        text.contains("--port 1") && text.contains("--listen 2"),
        "{text}"
    );
}
