//! Captures: packets copied by workers into rings, written to a pcap file by a thread of its own.
//!
//! A worker never waits for the disk: a [`CaptureTap`] copies a packet into a slot of its ring or counts
//! that there was none. [`CaptureWriter`] drains any number of sources, be they taps or rings of other
//! records (a graph's traces), in turn. Packets of one source stay in order; those of two workers may
//! be out of order by as much as the rings hold.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use parshall_buffer::{BufferIndex, Pool};
use parshall_device::DeviceError;
use parshall_ring::{Consumer, Producer, ring};

use super::file::{LINK_ETHERNET, Writer};
use super::ng::{NgPacket, NgWriter};

/// Most bytes of a packet a tap copies: a jumbo frame with its tags.
pub const SLOT_BYTES: usize = 9_728;
/// Packets a tap's ring holds.
pub const SLOTS: usize = 1_024;

/// Packets taken from one source before the next has its turn.
const TURN: usize = 256;
/// How long the writer sleeps when no source has anything.
const IDLE: Duration = Duration::from_millis(5);

/// How long somebody waits for what was recorded to be in the file.
const SYNC_PATIENCE: Duration = Duration::from_secs(1);

/// A packet as a source hands it to the writer.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// The worker's clock when it passed (monotonic nanoseconds).
    pub at: u64,
    /// Its whole length in bytes.
    pub wire_len: u32,
    /// What was kept of it.
    pub bytes: &'a [u8],
    /// Interface it is counted to; only pcapng files have room for that, and for the next.
    pub if_index: u32,
    /// What is said about it, if anything.
    pub comment: &'a str,
}

/// Something the writer takes packets from.
pub trait CaptureSource: Send {
    /// Hands up to `most` waiting packets to `put`, and says how many.
    fn drain(&mut self, most: usize, put: &mut dyn FnMut(Captured<'_>)) -> usize;
    /// Packets lost so far because the writer was too slow.
    fn lost(&self) -> u64;
}

/// One slot of a tap's ring.
pub struct CaptureSlot {
    at: u64,
    wire_len: u32,
    len: u32,
    bytes: Box<[u8]>,
}

impl Default for CaptureSlot {
    fn default() -> Self {
        CaptureSlot {
            at: 0,
            wire_len: 0,
            len: 0,
            bytes: vec![0; SLOT_BYTES].into(),
        }
    }
}

impl CaptureSource for Consumer<CaptureSlot> {
    fn drain(&mut self, most: usize, put: &mut dyn FnMut(Captured<'_>)) -> usize {
        let mut one = |slot: &mut CaptureSlot| {
            let bytes = &slot.bytes[..(slot.len as usize).min(SLOT_BYTES)];
            put(Captured {
                at: slot.at,
                wire_len: slot.wire_len,
                bytes,
                if_index: 0,
                comment: "",
            });
        };
        (0..most)
            .take_while(|_| self.read(&mut one).is_some())
            .count()
    }
    fn lost(&self) -> u64 {
        self.overflows()
    }
}

/// The worker's end of a capture.
pub struct CaptureTap {
    ring: Producer<CaptureSlot>,
    snaplen: usize,
    stop: Arc<AtomicBool>,
}

impl CaptureTap {
    /// Makes a tap that keeps `snaplen` bytes of each packet, and the source that goes to the writer.
    /// Takes the stop sign of the writer the source will go to.
    pub fn new(snaplen: usize, stop: Arc<AtomicBool>) -> (CaptureTap, Consumer<CaptureSlot>) {
        let (producer, consumer) = ring(SLOTS);
        (
            CaptureTap {
                ring: producer,
                snaplen: snaplen.min(SLOT_BYTES),
                stop,
            },
            consumer,
        )
    }

    /// Whether the capture is over; nothing need be recorded any more.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Copies a packet (the chain too) into the ring; counts it as lost when there is no slot.
    pub fn record(&mut self, pool: &Pool, b: BufferIndex, now: u64) {
        let snaplen = self.snaplen;
        self.ring.write(|slot| {
            slot.at = now;
            slot.wire_len = pool.meta(b).total_len();
            slot.len = pool.copy_out(b, &mut slot.bytes[..snaplen]) as u32;
        });
    }
}

/// Where and how much to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureOptions {
    /// The file; one that exists is replaced.
    pub path: PathBuf,
    /// Most packets, 0 = no limit.
    pub limit: u64,
    /// Most bytes of each packet.
    pub snaplen: usize,
    /// Names of interfaces, for pcapng.
    pub names: BTreeMap<u32, String>,
}

impl CaptureOptions {
    /// Whole packets, without limit, to this file: pcapng if its name says so, else pcap.
    pub fn new(path: impl Into<PathBuf>) -> CaptureOptions {
        CaptureOptions {
            path: path.into(),
            limit: 0,
            snaplen: SLOT_BYTES,
            names: BTreeMap::new(),
        }
    }
}

impl CaptureOptions {
    fn is_ng(&self) -> bool {
        self.path.extension().is_some_and(|e| e == "pcapng")
    }
}

/// A file of either format.
enum Output {
    Classic(Writer<BufWriter<File>>),
    Ng(NgWriter<BufWriter<File>>),
}

impl Output {
    fn create(options: &CaptureOptions) -> io::Result<Output> {
        let file = BufWriter::new(File::create(&options.path)?);
        let snaplen = u32::try_from(options.snaplen).unwrap_or(u32::MAX);
        if options.is_ng() {
            NgWriter::new(file, snaplen, options.names.clone()).map(Output::Ng)
        } else {
            Writer::new(file, LINK_ETHERNET, snaplen).map(Output::Classic)
        }
    }

    fn write(&mut self, time_ns: u64, p: &Captured<'_>) -> io::Result<()> {
        match self {
            Output::Classic(w) => w.write(time_ns, p.wire_len, p.bytes),
            Output::Ng(w) => w.write(NgPacket {
                time_ns,
                wire_len: p.wire_len,
                bytes: p.bytes,
                if_index: p.if_index,
                comment: p.comment,
            }),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Classic(w) => w.flush(),
            Output::Ng(w) => w.flush(),
        }
    }
}

/// What a capture has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureReport {
    /// The file.
    pub path: PathBuf,
    /// Packets in it.
    pub written: u64,
    /// Packets that were to be in it and are not, because the disk was too slow.
    pub lost: u64,
}

#[derive(Debug, Default)]
struct Progress {
    written: AtomicU64,
    lost: AtomicU64,
    /// Number of the last wish that all be in the file, and of the last one that was met.
    wished: AtomicU64,
    met: AtomicU64,
}

/// A thread that writes what its sources bring to a file with nanosecond time stamps.
pub struct CaptureWriter {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl CaptureWriter {
    /// Creates the file and starts the thread. `stop` is the sign that ends it, shared with its taps.
    ///
    /// # Errors
    /// When the file cannot be created or the system gives no thread.
    pub fn start(
        options: &CaptureOptions,
        stop: Arc<AtomicBool>,
        sources: Vec<Box<dyn CaptureSource>>,
    ) -> Result<CaptureWriter, DeviceError> {
        let path = options.path.clone();
        let output = Output::create(options).map_err(|e| refused(&path, &e))?;
        let progress = Arc::<Progress>::default();
        let limit = if options.limit == 0 {
            u64::MAX
        } else {
            options.limit
        };
        let session = Session {
            output,
            sources,
            limit,
            stop: stop.clone(),
            progress: progress.clone(),
            to_wall: wall_offset(),
        };
        let thread = std::thread::Builder::new()
            .name("pcap-writer".into())
            .spawn(move || session.run());
        let thread = Some(thread.map_err(|e| refused(&path, &e))?);
        Ok(CaptureWriter {
            path,
            stop,
            progress,
            thread,
        })
    }

    /// Starts a capture of `n` queues, and gives the tap of each.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn with_taps(
        options: &CaptureOptions,
        n: usize,
    ) -> Result<(CaptureWriter, Vec<CaptureTap>), DeviceError> {
        let stop = Arc::<AtomicBool>::default();
        let (taps, sources): (Vec<_>, Vec<_>) = (0..n)
            .map(|_| CaptureTap::new(options.snaplen, stop.clone()))
            .map(|(tap, source)| (tap, Box::new(source) as Box<dyn CaptureSource>))
            .unzip();
        Ok((CaptureWriter::start(options, stop, sources)?, taps))
    }

    /// How far it is.
    pub fn report(&self) -> CaptureReport {
        CaptureReport {
            path: self.path.clone(),
            written: self.progress.written.load(Ordering::Relaxed),
            lost: self.progress.lost.load(Ordering::Relaxed),
        }
    }

    /// Waits until what has been recorded so far is in the file, as far as others can see it: for a second at most.
    /// Says whether it is.
    pub fn sync(&self) -> bool {
        let wish = self.progress.wished.fetch_add(1, Ordering::AcqRel) + 1;
        let start = Instant::now();
        while self.is_running() && self.progress.met.load(Ordering::Acquire) < wish {
            if start.elapsed() > SYNC_PATIENCE {
                return false;
            }
            self.thread.iter().for_each(|t| t.thread().unpark());
            std::thread::sleep(Duration::from_micros(50));
        }
        true
    }

    /// Whether it still takes packets: no for one that has reached its limit or failed.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }

    /// Writes what still waits in the rings, closes the file and says what is in it.
    ///
    /// # Errors
    /// When the file could not be written.
    pub fn finish(mut self) -> Result<CaptureReport, DeviceError> {
        self.join()?;
        Ok(self.report())
    }

    fn join(&mut self) -> Result<(), DeviceError> {
        self.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        thread.thread().unpark();
        match thread.join() {
            Ok(result) => result.map_err(|e| refused(&self.path, &e)),
            Err(_) => Err(DeviceError(format!(
                "the writer of {} ended unexpectedly",
                self.path.display()
            ))),
        }
    }
}

impl Drop for CaptureWriter {
    fn drop(&mut self) {
        // Nobody is left to hear of an error.
        let _ = self.join();
    }
}

fn refused(path: &Path, e: &io::Error) -> DeviceError {
    DeviceError(format!("cannot write pcap file {}: {e}", path.display()))
}

/// Nanoseconds to add to the workers' monotonic clock to get the time of day.
fn wall_offset() -> i128 {
    let now = |clock| {
        clock_gettime(clock).map_or(0, |t| {
            i128::from(t.tv_sec()) * 1_000_000_000 + i128::from(t.tv_nsec())
        })
    };
    now(ClockId::CLOCK_REALTIME) - now(ClockId::CLOCK_MONOTONIC)
}

/// The thread's state.
struct Session {
    output: Output,
    sources: Vec<Box<dyn CaptureSource>>,
    limit: u64,
    stop: Arc<AtomicBool>,
    progress: Arc<Progress>,
    to_wall: i128,
}

impl Session {
    fn run(mut self) -> io::Result<()> {
        let result = self.write_until_stopped();
        // Also on an error and at the limit: the taps stop copying.
        self.stop.store(true, Ordering::Release);
        result.and(self.output.flush())
    }

    fn write_until_stopped(&mut self) -> io::Result<()> {
        loop {
            // Asked before the rings are read: what was recorded before the stop is then still written.
            let last = self.stop.load(Ordering::Acquire);
            let wished = self.progress.wished.load(Ordering::Acquire);
            let moved = self.round()?;
            if self.limit == 0 || last && moved == 0 {
                return Ok(());
            }
            if moved == 0 {
                self.output.flush()?;
                self.progress.met.store(wished, Ordering::Release);
                std::thread::park_timeout(IDLE);
            }
        }
    }

    /// Gives each source one turn, and says how many packets came.
    fn round(&mut self) -> io::Result<usize> {
        let (mut moved, mut lost, mut result) = (0, 0, Ok(()));
        let (output, to_wall, progress) = (&mut self.output, self.to_wall, &self.progress);
        for source in &mut self.sources {
            let most = TURN.min(usize::try_from(self.limit).unwrap_or(TURN));
            let n = source.drain(most, &mut |packet| {
                if result.is_ok() {
                    let time = (i128::from(packet.at) + to_wall).max(0) as u64;
                    result = output.write(time, &packet);
                }
            });
            self.limit -= n as u64;
            moved += n;
            lost += source.lost();
        }
        progress.written.fetch_add(moved as u64, Ordering::Relaxed);
        progress.lost.store(lost, Ordering::Relaxed);
        result.map(|()| moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcap::file::Reader;

    fn packets(path: &Path) -> Vec<(u32, Vec<u8>)> {
        let mut reader = Reader::new(File::open(path).unwrap()).unwrap();
        let (mut out, mut bytes) = (Vec::new(), Vec::new());
        while let Some(record) = reader.next(&mut bytes).unwrap() {
            out.push((record.wire_len, bytes.clone()));
        }
        out
    }

    #[test]
    fn two_workers_packets_land_in_the_file_chains_joined() {
        let dir = tempfile::tempdir().unwrap();
        let options = CaptureOptions {
            snaplen: 3000,
            ..CaptureOptions::new(dir.path().join("c.pcap"))
        };
        let (writer, mut taps) = CaptureWriter::with_taps(&options, 2).unwrap();
        let mut pool = Pool::new(8).unwrap();
        let jumbo: Vec<u8> = (0..9000u32).map(|i| (i / 7) as u8).collect();
        let (long, short) = (
            pool.packet_from(&jumbo, 0).unwrap(),
            pool.packet_from(&[9; 60], 0).unwrap(),
        );
        taps[0].record(&pool, long, 1);
        taps[1].record(&pool, short, 2);
        let report = writer.finish().unwrap();
        assert_eq!((report.written, report.lost), (2, 0));
        assert!(taps[0].is_stopped());
        let got = packets(&options.path);
        assert!(got.contains(&(9000, jumbo[..3000].to_vec())));
        assert!(got.contains(&(60, vec![9; 60])));
        pool.free_bulk(&[long, short]);
        assert_eq!(pool.available(), 8);
    }

    #[test]
    fn the_limit_ends_it_and_overflow_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let options = CaptureOptions {
            limit: 3,
            ..CaptureOptions::new(dir.path().join("c.pcap"))
        };
        let stop = Arc::<AtomicBool>::default();
        let (mut tap, source) = CaptureTap::new(100, stop.clone());
        let mut pool = Pool::new(2).unwrap();
        let b = pool.packet_from(&[1; 64], 0).unwrap();
        for _ in 0..SLOTS + 10 {
            tap.record(&pool, b, 5);
        }
        let writer = CaptureWriter::start(&options, stop, vec![Box::new(source)]).unwrap();
        while writer.is_running() {
            std::thread::yield_now();
        }
        assert!(tap.is_stopped());
        let report = writer.finish().unwrap();
        assert_eq!((report.written, report.lost), (3, 10));
        assert_eq!(packets(&options.path).len(), 3);
        pool.free(b);
    }

    #[test]
    fn what_was_recorded_is_in_the_file_after_a_sync() {
        let dir = tempfile::tempdir().unwrap();
        let options = CaptureOptions::new(dir.path().join("c.pcap"));
        let (writer, mut taps) = CaptureWriter::with_taps(&options, 1).unwrap();
        let mut pool = Pool::new(2).unwrap();
        let b = pool.packet_from(&[1; 64], 0).unwrap();
        for n in 1..=20 {
            taps[0].record(&pool, b, n);
            assert!(writer.sync());
            assert_eq!(packets(&options.path).len() as u64, n);
        }
        pool.free(b);
    }

    #[test]
    fn a_file_that_cannot_be_made_is_named() {
        let options = CaptureOptions::new("/nonexistent/c.pcap");
        let error = CaptureWriter::with_taps(&options, 1).err().unwrap();
        assert!(
            error
                .0
                .starts_with("cannot write pcap file /nonexistent/c.pcap: No such file")
        );
    }
}
