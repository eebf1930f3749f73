//! The data side of a generator interface: receive queues that make packets, and the sink.
//!
//! Control talks to a queue through a ring. After it has put a message in it wakes the worker through
//! an event descriptor and then raises a counter; the worker looks at the counter only (one load from a
//! line that hardly ever changes), and reads ring and descriptor when it has moved. In that order the
//! descriptor is never left readable with nothing to read. Streams that are taken away go back through
//! a second ring: a worker frees no memory.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use nix::sys::eventfd::EventFd;
use parshall_buffer::{BufferIndex, Flags, Frame, Pool};
use parshall_device::{RxBurst, RxQueue, TxBurst, TxKnown, TxQueue};
use parshall_ring::{Consumer, Producer};

use super::runner::Runner;
use crate::pcap::CaptureTap;

/// Streams one receive queue can hold.
pub const MAX_STREAMS: usize = 64;

/// Message to a receive queue.
#[derive(Default)]
pub(super) enum RxMessage {
    #[default]
    None,
    Add(Box<Runner>),
    Remove(u32),
    Start(u32, u64),
    Stop(u32, u64),
}

/// What both sides of one receive queue see.
#[derive(Debug)]
pub(super) struct Signal {
    wake: EventFd,
    count: AtomicU32,
    up: AtomicBool,
}

impl Signal {
    pub fn new(wake: EventFd, up: bool) -> Signal {
        Signal {
            wake,
            count: AtomicU32::new(0),
            up: AtomicBool::new(up),
        }
    }

    /// Tells the worker to look. Called by control, after what it is to see has been published.
    pub fn raise(&self) {
        // A full counter means that the descriptor is readable already, which is all that is wanted.
        let _ = self.wake.write(1);
        self.count.fetch_add(1, Ordering::Release);
    }

    pub fn set_up(&self, up: bool) {
        self.up.store(up, Ordering::Relaxed);
        self.raise();
    }
}

/// Receive queue: makes the packets of the streams placed on its worker.
pub(super) struct PgRx {
    pub rx_if: u32,
    pub signal: Arc<Signal>,
    pub messages: Consumer<RxMessage>,
    pub retired: Producer<Option<Box<Runner>>>,
    seen: u32,
    up: bool,
    /// Never longer than [`MAX_STREAMS`], which is its capacity from the start.
    #[expect(
        clippy::vec_box,
        reason = "the box goes back to control to be freed there"
    )]
    streams: Vec<Box<Runner>>,
    /// Stream that is asked first.
    turn: usize,
}

impl PgRx {
    pub fn new(
        rx_if: u32,
        signal: Arc<Signal>,
        messages: Consumer<RxMessage>,
        retired: Producer<Option<Box<Runner>>>,
    ) -> PgRx {
        let (up, streams) = (
            signal.up.load(Ordering::Relaxed),
            Vec::with_capacity(MAX_STREAMS),
        );
        PgRx {
            rx_if,
            signal,
            messages,
            retired,
            seen: 0,
            up,
            streams,
            turn: 0,
        }
    }

    #[cold]
    fn obey(&mut self, count: u32) {
        self.seen = count;
        // Not blocking; fails only when there is nothing to read.
        let _ = self.signal.wake.read();
        let up = self.signal.up.load(Ordering::Relaxed);
        if up != self.up {
            self.up = up;
            self.streams.iter_mut().for_each(|s| s.pause());
        }
        while let Some(message) = self.messages.pop() {
            self.take(message);
        }
    }

    fn take(&mut self, message: RxMessage) {
        match message {
            RxMessage::None => {}
            RxMessage::Add(stream) => self.streams.push(stream),
            RxMessage::Remove(id) => {
                if let Some(at) = self.streams.iter().position(|s| s.id == id) {
                    // The handle keeps the streams of a queue below the size of this ring.
                    let returned = self.retired.push(Some(self.streams.swap_remove(at)));
                    debug_assert!(returned.is_ok());
                }
            }
            RxMessage::Start(id, epoch) => self.with(id, |s| s.start(epoch)),
            RxMessage::Stop(id, epoch) => self.with(id, |s| s.stop(epoch)),
        }
    }

    fn with(&mut self, id: u32, f: impl FnOnce(&mut Runner)) {
        if let Some(stream) = self.streams.iter_mut().find(|s| s.id == id) {
            f(stream);
        }
    }
}

impl RxQueue for PgRx {
    fn poll(&mut self, pool: &mut Pool, frame: &mut Frame, now: u64) -> RxBurst {
        let count = self.signal.count.load(Ordering::Acquire);
        if count != self.seen {
            self.obey(count);
        }
        let mut bytes = 0;
        if !self.up {
            return RxBurst::default();
        }
        let n = self.streams.len();
        for i in 0..n {
            let at = self.turn + i;
            let stream = &mut self.streams[if at < n { at } else { at - n }];
            if stream.is_running() {
                bytes += stream.run(pool, frame, self.rx_if, now);
            }
        }
        // Another stream is first next time, so that one without a rate does not starve the others.
        self.turn = if self.turn + 1 < n { self.turn + 1 } else { 0 };
        RxBurst {
            bytes,
            ..RxBurst::default()
        }
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.signal.wake.as_fd().as_raw_fd())
    }

    fn due(&self, now: u64) -> Option<u64> {
        if !self.up {
            return None;
        }
        self.streams
            .iter()
            .filter(|s| s.is_running())
            .map(|s| s.due(now))
            .min()
    }
}

/// Message to a transmit queue.
#[derive(Default)]
pub(super) enum TxMessage {
    #[default]
    None,
    Capture(Box<CaptureTap>),
}

/// What a sink counts; only its worker writes it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct SinkStats {
    pub packets: AtomicU64,
    pub bytes: AtomicU64,
    /// Raised by control after it has put a message into the ring.
    pub signal: AtomicU32,
}

/// Transmit queue: counts, copies to a capture when there is one, frees.
pub(super) struct PgTx {
    pub stats: Arc<SinkStats>,
    pub messages: Consumer<TxMessage>,
    /// Captures that are over, for control to free. As long as the message ring, so never full before it.
    pub retired: Producer<Option<Box<CaptureTap>>>,
    seen: u32,
    packets: u64,
    bytes: u64,
    capture: Option<Box<CaptureTap>>,
}

impl PgTx {
    pub fn new(
        stats: Arc<SinkStats>,
        messages: Consumer<TxMessage>,
        retired: Producer<Option<Box<CaptureTap>>>,
    ) -> PgTx {
        PgTx {
            stats,
            messages,
            retired,
            seen: 0,
            packets: 0,
            bytes: 0,
            capture: None,
        }
    }

    #[cold]
    fn obey(&mut self, signal: u32) {
        self.seen = signal;
        while let Some(message) = self.messages.pop() {
            if let TxMessage::Capture(tap) = message {
                self.retire();
                self.capture = Some(tap);
            }
        }
    }

    #[cold]
    fn retire(&mut self) {
        if let Some(old) = self.capture.take()
            && let Err(back) = self.retired.push(Some(old))
        {
            self.capture = back;
        }
    }

    #[cold]
    fn record(&mut self, pool: &Pool, packets: &[BufferIndex], now: u64) {
        let Some(tap) = &mut self.capture else { return };
        if tap.is_stopped() {
            return self.retire();
        }
        for &b in packets {
            tap.record(pool, b, now);
        }
    }

    #[inline]
    fn look(&mut self) {
        let signal = self.stats.signal.load(Ordering::Acquire);
        if signal != self.seen {
            self.obey(signal);
        }
    }
}

impl TxQueue for PgTx {
    fn transmit(&mut self, pool: &mut Pool, packets: &[BufferIndex], now: u64) -> TxBurst {
        let mut known = TxKnown::default();
        for &b in packets {
            let m = pool.meta(b);
            known.bytes += u64::from(m.total_len());
            known.chained |= m.flags.has(Flags::CHAINED);
        }
        self.transmit_known(pool, packets, known, now)
    }

    fn transmit_known(
        &mut self,
        pool: &mut Pool,
        packets: &[BufferIndex],
        known: TxKnown,
        now: u64,
    ) -> TxBurst {
        self.look();
        if self.capture.is_some() {
            self.record(pool, packets, now);
        }
        if known.chained {
            pool.free_bulk(packets);
        } else {
            pool.free_unchained(packets);
        }
        self.packets += packets.len() as u64;
        self.bytes += known.bytes;
        self.stats.packets.store(self.packets, Ordering::Relaxed);
        self.stats.bytes.store(self.bytes, Ordering::Relaxed);
        TxBurst::all(packets.len())
    }

    fn flush(&mut self, _pool: &mut Pool) {
        self.look();
        if self.capture.as_ref().is_some_and(|tap| tap.is_stopped()) {
            self.retire();
        }
    }
}

/// Makes an event descriptor that never blocks.
pub(super) fn event() -> nix::Result<EventFd> {
    use nix::sys::eventfd::EfdFlags;
    EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
}
