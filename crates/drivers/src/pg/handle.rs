//! The control side of a generator interface: its streams, its sink, its capture.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parshall_device::{DeviceError, Queues};
use parshall_ring::{Consumer, Producer, ring};

use super::expand::Frames;
use super::queue::{self, MAX_STREAMS, PgRx, PgTx, RxMessage, Signal, SinkStats, TxMessage};
use super::runner::{Pace, Packets, Runner, StreamStats};
use super::spec::{Size, Source, Speed, StreamSpec};
use crate::pcap::{CaptureOptions, CaptureReport, CaptureTap, CaptureWriter, Recording};

/// Messages that may wait for a worker.
const MESSAGES: usize = 4 * MAX_STREAMS;

/// Controls the streams and the sink of one generator interface. Clones control the same one.
#[derive(Clone)]
pub struct PgHandle(Arc<Mutex<Control>>);

/// A stream as `show packet-generator` shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamInfo {
    /// What was asked for.
    pub spec: StreamSpec,
    /// Whether it still sends.
    pub enabled: bool,
    /// Packets made since it was last enabled.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets it will make in all; `None` = no end.
    pub limit: Option<u64>,
    /// Shortest and longest frame.
    pub sizes: (usize, usize),
    /// Different frames it walks through.
    pub variants: usize,
    /// The ranges have more combinations than that and start again early.
    pub truncated: bool,
}

/// What the sink has swallowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkTotals {
    /// Packets.
    pub packets: u64,
    /// Bytes, without FCS.
    pub bytes: u64,
}

/// Changes to a stream; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamChange {
    /// New limit.
    pub limit: Option<u64>,
    /// New rate.
    pub rate: Option<f64>,
    /// New frame lengths.
    pub size: Option<Size>,
}

struct RxLink {
    signal: Arc<Signal>,
    messages: Producer<RxMessage>,
    retired: Consumer<Option<Box<Runner>>>,
    /// Streams handed over and not come back.
    held: usize,
}

struct TxLink {
    stats: Arc<SinkStats>,
    messages: Producer<TxMessage>,
    retired: Consumer<Option<Box<CaptureTap>>>,
}

struct Entry {
    id: u32,
    info: StreamInfo,
    stats: Arc<StreamStats>,
    /// Number of the last start; it still runs while `stats.finished` is below.
    epoch: u64,
    /// That start was told to stop, which the worker may not have heard yet.
    stopped: bool,
}

pub(super) struct Control {
    pub mac: [u8; 6],
    pub max_frame: u32,
    pub up: bool,
    rx: Vec<RxLink>,
    tx: Vec<TxLink>,
    streams: Vec<Entry>,
    next_id: u32,
    capture: Option<CaptureWriter>,
}

impl PgHandle {
    pub(super) fn new(mac: [u8; 6], max_frame: u32) -> PgHandle {
        PgHandle(Arc::new(Mutex::new(Control {
            mac,
            max_frame,
            up: true,
            rx: Vec::new(),
            tx: Vec::new(),
            streams: Vec::new(),
            next_id: 1,
            capture: None,
        })))
    }

    /// Only control threads come here; a worker never waits for this lock.
    pub(super) fn control(&self) -> MutexGuard<'_, Control> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a stream's frames and hands them to its worker, stopped. A stream of the same name is
    /// replaced.
    ///
    /// # Errors
    /// When the stream is not possible, its file cannot be read, or its worker does not exist.
    pub fn add(&self, spec: &StreamSpec) -> Result<(), DeviceError> {
        self.control().add(spec)
    }

    /// Takes a stream away.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn delete(&self, name: &str) -> Result<(), DeviceError> {
        self.control().delete(name)
    }

    /// Changes a stream; it is stopped by that.
    ///
    /// # Errors
    /// When there is none of that name or the change is not possible; then nothing is changed.
    pub fn configure(&self, name: &str, change: &StreamChange) -> Result<(), DeviceError> {
        let mut control = self.control();
        let at = control.find(name)?;
        let mut spec = control.streams[at].info.spec.clone();
        spec.limit = change.limit.unwrap_or(spec.limit);
        spec.rate = change.rate.unwrap_or(spec.rate);
        if let Some(size) = change.size {
            spec = spec.sized(size).map_err(refuse)?;
        }
        control.add(&spec)
    }

    /// Starts a stream (`None` = all) from its first packet.
    ///
    /// # Errors
    /// When there is none of that name or its worker does not answer.
    pub fn enable(&self, name: Option<&str>) -> Result<(), DeviceError> {
        self.control().switch(name, true)
    }

    /// Stops a stream (`None` = all).
    ///
    /// # Errors
    /// As [`enable`](Self::enable).
    pub fn disable(&self, name: Option<&str>) -> Result<(), DeviceError> {
        self.control().switch(name, false)
    }

    /// All streams, in the order they were made.
    pub fn streams(&self) -> Vec<StreamInfo> {
        self.control().streams.iter().map(Entry::show).collect()
    }

    /// What has been transmitted on the interface.
    pub fn sink(&self) -> SinkTotals {
        let control = self.control();
        let sum = |f: fn(&SinkStats) -> u64| control.tx.iter().map(|t| f(&t.stats)).sum();
        SinkTotals {
            packets: sum(|s| s.packets.load(Ordering::Relaxed)),
            bytes: sum(|s| s.bytes.load(Ordering::Relaxed)),
        }
    }

    /// Writes what is transmitted to a pcap file from now on.
    ///
    /// # Errors
    /// When a capture is running, the file cannot be made, or a worker does not answer.
    pub fn capture(&self, options: &CaptureOptions) -> Result<(), DeviceError> {
        self.control().capture(options)
    }

    /// Ends the capture and says what is in the file; `None` when there was none.
    ///
    /// # Errors
    /// When the file could not be written.
    pub fn capture_off(&self) -> Result<Option<CaptureReport>, DeviceError> {
        let writer = self.control().capture.take();
        writer.map(CaptureWriter::finish).transpose()
    }

    /// Waits until what was transmitted so far is in the capture's file. False when that takes too long.
    pub fn sync_capture(&self) -> bool {
        self.control()
            .capture
            .as_ref()
            .is_none_or(CaptureWriter::sync)
    }

    /// How far the capture is.
    pub fn capture_report(&self) -> Option<CaptureReport> {
        self.control().capture.as_ref().map(CaptureWriter::report)
    }
}

fn refuse(error: impl std::fmt::Display) -> DeviceError {
    DeviceError(error.to_string())
}

impl Entry {
    fn enabled(&self) -> bool {
        self.epoch > self.stats.finished.load(Ordering::Acquire)
    }

    fn show(&self) -> StreamInfo {
        let mut info = self.info.clone();
        info.enabled = self.enabled();
        info.packets = self.stats.packets.load(Ordering::Relaxed);
        info.bytes = self.stats.bytes.load(Ordering::Relaxed);
        info
    }
}

impl RxLink {
    /// Frees what the worker has given back.
    fn collect(&mut self) {
        while let Some(runner) = self.retired.pop() {
            self.held -= usize::from(runner.is_some());
        }
    }

    fn send(&mut self, message: RxMessage) -> Result<(), DeviceError> {
        self.collect();
        let sent = self.messages.push(message);
        self.signal.raise();
        sent.map_err(|_| {
            DeviceError(format!(
                "the worker has {MESSAGES} commands waiting and does not answer"
            ))
        })
    }
}

impl Control {
    /// Makes the queues of `workers` workers.
    pub fn queues(&mut self, rx_if: u32, workers: usize) -> Result<Queues, DeviceError> {
        if !self.rx.is_empty() {
            return Err(DeviceError(
                "the queues of this interface were already taken".into(),
            ));
        }
        let mut queues = Queues::default();
        for _ in 0..workers {
            let wake = queue::event().map_err(|e| DeviceError(format!("eventfd: {e}")))?;
            let signal = Arc::new(Signal::new(wake, self.up));
            let (messages, at_worker) = ring(MESSAGES);
            let (back, retired) = ring(MAX_STREAMS);
            queues
                .rx
                .push(Box::new(PgRx::new(rx_if, signal.clone(), at_worker, back)));
            self.rx.push(RxLink {
                signal,
                messages,
                retired,
                held: 0,
            });
            let stats = Arc::<SinkStats>::default();
            let (messages, at_worker) = ring(MESSAGES);
            let (back, retired) = ring(MESSAGES);
            queues
                .tx
                .push(Box::new(PgTx::new(stats.clone(), at_worker, back)));
            self.tx.push(TxLink {
                stats,
                messages,
                retired,
            });
        }
        Ok(queues)
    }

    pub fn set_up(&mut self, up: bool) {
        self.up = up;
        self.rx.iter().for_each(|link| link.signal.set_up(up));
    }

    /// Streams, and how many of them are enabled.
    pub fn counts(&self) -> (usize, usize) {
        (
            self.streams.len(),
            self.streams.iter().filter(|s| s.enabled()).count(),
        )
    }

    pub fn queue_count(&self) -> usize {
        self.rx.len()
    }

    fn find(&self, name: &str) -> Result<usize, DeviceError> {
        let at = self.streams.iter().position(|s| s.info.spec.name == name);
        at.ok_or_else(|| DeviceError(format!("no stream is called {name}")))
    }

    fn add(&mut self, spec: &StreamSpec) -> Result<(), DeviceError> {
        spec.validate().map_err(refuse)?;
        let workers = self.rx.len();
        let Some(link) = self.rx.get_mut(spec.worker) else {
            let allowed = if workers == 0 {
                "the interface has no queues yet".into()
            } else {
                format!("0 to {}", workers - 1)
            };
            return Err(DeviceError(format!(
                "worker {} does not exist ({allowed})",
                spec.worker
            )));
        };
        link.collect();
        let replaced = self
            .streams
            .iter()
            .position(|s| s.info.spec.name == spec.name);
        if link.held >= MAX_STREAMS {
            return Err(DeviceError(format!(
                "worker {} has {MAX_STREAMS} streams already",
                spec.worker
            )));
        }
        let id = self.next_id;
        let (runner, info) = prepare(id, spec, self.mac)?;
        let stats = runner.stats.clone();
        link.send(RxMessage::Add(Box::new(runner)))?;
        link.held += 1;
        self.next_id += 1;
        self.streams.push(Entry {
            id,
            info,
            stats,
            epoch: 0,
            stopped: false,
        });
        replaced.map_or(Ok(()), |at| self.remove(at))
    }

    fn delete(&mut self, name: &str) -> Result<(), DeviceError> {
        let at = self.find(name)?;
        self.remove(at)
    }

    fn remove(&mut self, at: usize) -> Result<(), DeviceError> {
        let (id, worker) = (self.streams[at].id, self.streams[at].info.spec.worker);
        if let Some(link) = self.rx.get_mut(worker) {
            link.send(RxMessage::Remove(id))?;
        }
        self.streams.remove(at);
        Ok(())
    }

    fn switch(&mut self, name: Option<&str>, on: bool) -> Result<(), DeviceError> {
        let chosen = match name {
            Some(name) => {
                let at = self.find(name)?;
                at..at + 1
            }
            None => 0..self.streams.len(),
        };
        for entry in &mut self.streams[chosen] {
            if (entry.enabled() && !entry.stopped) == on {
                continue;
            }
            let Some(link) = self.rx.get_mut(entry.info.spec.worker) else {
                continue;
            };
            let epoch = entry.epoch + u64::from(on);
            let message = if on {
                RxMessage::Start(entry.id, epoch)
            } else {
                RxMessage::Stop(entry.id, epoch)
            };
            link.send(message)?;
            entry.epoch = epoch;
            entry.stopped = !on;
        }
        Ok(())
    }

    fn capture(&mut self, options: &CaptureOptions) -> Result<(), DeviceError> {
        if self.capture.as_ref().is_some_and(CaptureWriter::is_running) {
            return Err(DeviceError(
                "a capture is running on this interface already".into(),
            ));
        }
        let (writer, taps) = CaptureWriter::with_taps(options, self.tx.len())?;
        for (link, tap) in self.tx.iter_mut().zip(taps) {
            while link.retired.pop().is_some() {}
            let sent = link.messages.push(TxMessage::Capture(Box::new(tap)));
            link.stats.signal.fetch_add(1, Ordering::Release);
            sent.map_err(|_| DeviceError("a worker does not answer".into()))?;
        }
        self.capture = Some(writer);
        Ok(())
    }
}

/// Makes a stream ready for its worker.
fn prepare(id: u32, spec: &StreamSpec, mac: [u8; 6]) -> Result<(Runner, StreamInfo), DeviceError> {
    let unlimited = |n: u64| if n == 0 { u64::MAX } else { n };
    let rate = (spec.rate > 0.0).then_some(Pace::Rate(spec.rate / 1e9));
    let (packets, pace, limit, sizes, variants, truncated) = match &spec.source {
        Source::Generate(template) => {
            let frames =
                Frames::new(template, spec.seed, spec.max_variants, mac).map_err(refuse)?;
            let (count, truncated) = (frames.count, frames.truncated);
            let sizes = (template.size.min, template.size.max);
            (
                Packets::Made(frames),
                rate.unwrap_or(Pace::Fast),
                unlimited(spec.limit),
                sizes,
                count,
                truncated,
            )
        }
        Source::Replay {
            path,
            looping,
            speed,
        } => {
            let file = Recording::open(path, mac)?;
            let once = if *looping { 0 } else { file.len() as u64 };
            let limit = unlimited(if spec.limit == 0 { once } else { spec.limit });
            let pace = match speed {
                Speed::Fast => Pace::Fast,
                Speed::Recorded(factor) => Pace::Recorded(*factor),
            };
            let (sizes, count) = (file.sizes(), file.len());
            (
                Packets::Recorded(Arc::new(file)),
                rate.unwrap_or(pace),
                limit,
                sizes,
                count,
                false,
            )
        }
    };
    let info = StreamInfo {
        spec: spec.clone(),
        enabled: false,
        packets: 0,
        bytes: 0,
        limit: (limit != u64::MAX).then_some(limit),
        sizes,
        variants,
        truncated,
    };
    Ok((Runner::new(id, packets, pace, limit, spec.max_frame), info))
}
