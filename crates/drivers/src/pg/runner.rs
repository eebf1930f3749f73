//! A stream as the worker runs it: how many packets are due now, and which comes next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parshall_buffer::{BufferIndex, Frame, Pool};

use super::expand::Frames;
use super::fill::{self, Isa};
use crate::pcap::Recording;

/// A stream that falls behind by more than this (the worker was stopped) does not catch up on the rest.
const MAX_BACKLOG_NS: u64 = 1_000_000_000;

/// What control sees of a running stream; only the worker writes it.
#[derive(Debug, Default)]
pub(super) struct StreamStats {
    pub packets: AtomicU64,
    pub bytes: AtomicU64,
    /// The last start that has come to its end (see [`Runner::start`]).
    pub finished: AtomicU64,
}

/// What a stream sends.
#[derive(Debug)]
pub(super) enum Packets {
    Made(Frames),
    Recorded(Arc<Recording>),
}

/// When a stream sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pace {
    Fast,
    /// Packets per nanosecond.
    Rate(f64),
    /// As recorded, this many times as fast.
    Recorded(f64),
}

/// A stream on its worker.
#[derive(Debug)]
pub(super) struct Runner {
    pub id: u32,
    pub packets: Packets,
    pub pace: Pace,
    /// Packets a start makes; `u64::MAX` = no end.
    pub limit: u64,
    pub max_frame: usize,
    pub stats: Arc<StreamStats>,
    pub isa: Isa,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    /// Number of the start that is running; 0 = stopped.
    epoch: u64,
    /// Packets made since the start, and of them those before `anchor`.
    sent: u64,
    anchored: u64,
    bytes: u64,
    /// Clock from which the pace counts; `None` = the next poll.
    anchor: Option<u64>,
    /// Variant or recorded packet that comes next.
    next: usize,
}

impl Runner {
    pub fn new(id: u32, packets: Packets, pace: Pace, limit: u64, max_frame: usize) -> Runner {
        let (stats, isa) = (Arc::default(), Isa::detect());
        Runner {
            id,
            packets,
            pace,
            limit,
            max_frame,
            stats,
            isa,
            state: State::default(),
        }
    }

    /// Starts from the first packet; `epoch` numbers the start, from 1.
    pub fn start(&mut self, epoch: u64) {
        self.state = State {
            epoch,
            ..State::default()
        };
        self.publish();
    }

    /// Stops, and reports the running start and start number `epoch` as ended.
    pub fn stop(&mut self, epoch: u64) {
        self.state.epoch = 0;
        self.stats.finished.store(epoch, Ordering::Release);
    }

    /// Forgets how much is due, so that a pause is not caught up on.
    pub fn pause(&mut self) {
        self.state.anchor = None;
    }

    /// Whether it sends, or waits to.
    pub fn is_running(&self) -> bool {
        self.state.epoch != 0
    }

    /// When the next packet is due; `now` when it already is. Only for a running stream.
    pub fn due(&self, now: u64) -> u64 {
        let Some(anchor) = self.state.anchor else {
            return now;
        };
        let after = match self.pace {
            Pace::Fast => return now,
            Pace::Rate(per_ns) => {
                ((self.state.sent - self.state.anchored) as f64 / per_ns).ceil() as u64
            }
            Pace::Recorded(factor) => {
                (self.recorded_at(self.state.sent) as f64 / factor).ceil() as u64
            }
        };
        anchor.saturating_add(after)
    }

    /// Adds what is due to the frame and says how many bytes that is.
    pub fn run(&mut self, pool: &mut Pool, frame: &mut Frame, rx_if: u32, now: u64) -> u64 {
        let most = self.max_frame.min(frame.room()) as u64;
        let want = self.due_count(now, most) as usize;
        if want == 0 {
            return 0;
        }
        let mut bytes = 0;
        frame.fill(|free| {
            let got = pool.alloc_bulk(&mut free[..want]);
            let (made, n) = self.write(pool, &mut free[..got], rx_if);
            bytes = n;
            self.state.sent += made as u64;
            made
        });
        self.state.bytes += bytes;
        self.publish();
        if self.state.sent >= self.limit {
            self.stop(self.state.epoch);
        }
        bytes
    }

    /// How many packets are due now, `most` at most. Sets or moves the anchor.
    fn due_count(&mut self, now: u64, most: u64) -> u64 {
        let most = most.min(self.limit - self.state.sent);
        if self.pace == Pace::Fast {
            return most;
        }
        let state = &mut self.state;
        let anchor = *state.anchor.get_or_insert_with(|| {
            state.anchored = state.sent;
            now
        });
        match self.pace {
            Pace::Fast => most,
            Pace::Rate(per_ns) => {
                let due = (now.saturating_sub(anchor) as f64 * per_ns) as u64 + 1;
                let behind = due.saturating_sub(state.sent - state.anchored);
                if behind as f64 > MAX_BACKLOG_NS as f64 * per_ns + 1.0 {
                    state.anchor = Some(now);
                    state.anchored = state.sent;
                    return most.min(1);
                }
                most.min(behind)
            }
            Pace::Recorded(factor) => self.recorded_due(now, anchor, factor, most),
        }
    }

    fn recorded_due(&mut self, now: u64, anchor: u64, factor: f64, most: u64) -> u64 {
        let elapsed = (now.saturating_sub(anchor) as f64 * factor) as u64;
        let sent = self.state.sent;
        (0..most)
            .find(|i| self.recorded_at(sent + i) > elapsed)
            .unwrap_or(most)
    }

    /// When packet `n` of a replay comes, in nanoseconds of the recording after the anchor.
    fn recorded_at(&self, n: u64) -> u64 {
        let Packets::Recorded(file) = &self.packets else {
            return 0;
        };
        file.time_of(n)
            .saturating_sub(file.time_of(self.state.anchored))
    }

    /// Fills fresh buffers with the next packets; says how many packets (from the front) and bytes it
    /// made. Buffers it could not fill are given back.
    fn write(&mut self, pool: &mut Pool, fresh: &mut [BufferIndex], rx_if: u32) -> (usize, u64) {
        if let Packets::Made(frames) = &self.packets
            && let Some(len) = frames.fixed_len()
            && write_short(
                self.isa,
                pool,
                fresh,
                rx_if,
                frames,
                &mut self.state.next,
                len,
            )
        {
            return (fresh.len(), (len * fresh.len()) as u64);
        }
        let mut bytes = 0;
        for (i, &b) in fresh.iter().enumerate() {
            let (ok, len) = self.write_one(pool, b, rx_if);
            if !ok {
                // No buffer for a chain: what is left of this burst comes another time.
                pool.free_unchained(&fresh[i + 1..]);
                return (i, bytes);
            }
            bytes += len as u64;
        }
        (fresh.len(), bytes)
    }

    fn write_one(&mut self, pool: &mut Pool, b: BufferIndex, rx_if: u32) -> (bool, usize) {
        let i = self.state.next;
        let (ok, len, count) = match &self.packets {
            Packets::Made(frames) => (
                fill::long(pool, b, rx_if, frames, i),
                frames.len(i),
                frames.count,
            ),
            Packets::Recorded(file) => {
                let bytes = file.packet(i);
                (fill::bytes(pool, b, rx_if, bytes), bytes.len(), file.len())
            }
        };
        if ok {
            self.state.next = if i + 1 < count { i + 1 } else { 0 };
        }
        (ok, len)
    }

    fn publish(&self) {
        self.stats.packets.store(self.state.sent, Ordering::Relaxed);
        self.stats.bytes.store(self.state.bytes, Ordering::Relaxed);
    }
}

/// Fills all of `fresh` with variants from `next` on, starting again at the end of the list.
#[inline]
fn write_short(
    isa: Isa,
    pool: &mut Pool,
    fresh: &[BufferIndex],
    rx_if: u32,
    frames: &Frames,
    next: &mut usize,
    len: usize,
) -> bool {
    if frames.count == 1 {
        return fill::short(isa, pool, fresh, rx_if, frames, 0, len);
    }
    let mut done = 0;
    while done < fresh.len() {
        let n = (frames.count - *next).min(fresh.len() - done);
        if !fill::short(isa, pool, &fresh[done..done + n], rx_if, frames, *next, len) {
            return false;
        }
        *next = if *next + n < frames.count {
            *next + n
        } else {
            0
        };
        done += n;
    }
    true
}
