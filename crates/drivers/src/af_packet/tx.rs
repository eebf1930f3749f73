//! Sending through the ring: copies a burst into slots, then one system call.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use parshall_buffer::{BufferIndex, Pool};
use parshall_device::{TxBurst, TxQueue};

use super::ring::{HEADER, Ring};
use super::sys;

/// Two VLAN tags, which a frame may carry beyond the largest frame.
const TAGS: usize = 8;
/// How long frames may wait for a device that takes none (ns). Older ones are thrown away: a link that
/// comes back after a minute must not send what was meant a minute ago.
const PATIENCE_NS: u64 = 10_000_000;

/// One send queue. Keeps no buffers: a frame is copied into its slot.
pub(super) struct PacketTx {
    ring: Ring,
    fd: OwnedFd,
    max_frame: Arc<AtomicU32>,
    /// Slots handed to the kernel that it may not have begun with.
    waiting: usize,
    /// Since when the kernel takes nothing.
    stuck_since: Option<u64>,
    /// Frames lost after their burst was reported; told with the next burst.
    lost: usize,
}

impl PacketTx {
    pub fn new(fd: OwnedFd, ring: Ring, max_frame: Arc<AtomicU32>) -> PacketTx {
        PacketTx {
            ring,
            fd,
            max_frame,
            waiting: 0,
            stuck_since: None,
            lost: 0,
        }
    }

    /// Longest frame that goes out: what the MTU allows, within what a slot holds.
    fn limit(&self) -> usize {
        let allowed = self.max_frame.load(Ordering::Relaxed) as usize + TAGS;
        allowed.min(self.ring.slot_size() - HEADER)
    }

    /// Copies a packet into the slot at our place, which is free.
    fn fill(&mut self, pool: &Pool, b: BufferIndex, len: usize) -> bool {
        let Some(slot) = self.ring.bytes_mut(HEADER, len) else {
            return false;
        };
        if pool.copy_out(b, slot) != len {
            return false;
        }
        self.ring.set_len(len as u32);
        self.ring.pass(libc::TP_STATUS_SEND_REQUEST);
        self.waiting = (self.waiting + 1).min(self.ring.slots());
        true
    }

    /// Has the kernel send what waits.
    fn kick(&mut self, now: Option<u64>) {
        if self.waiting == 0 {
            return;
        }
        let before = self.waiting;
        match sys::kick(&self.fd) {
            Ok(()) => self.waiting = 0,
            // Memory or the device's queue is full for now.
            Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR) => self.count_waiting(),
            // The interface is down or gone.
            Err(_) => self.withdraw(),
        }
        if self.waiting == 0 || self.waiting < before {
            self.stuck_since = None;
        } else if self.stuck_since.is_none() {
            self.stuck_since = now;
        }
    }

    /// Counts the slots the kernel has not begun with: it takes them in order.
    fn count_waiting(&mut self) {
        let requested =
            |back: &usize| self.ring.status_before(*back) == libc::TP_STATUS_SEND_REQUEST;
        self.waiting = (1..=self.waiting).take_while(requested).count();
    }

    /// Takes back all slots the kernel has not begun with, newest first.
    fn withdraw(&mut self) {
        while self.waiting > 0
            && self
                .ring
                .take_back(libc::TP_STATUS_SEND_REQUEST, libc::TP_STATUS_AVAILABLE)
        {
            self.waiting -= 1;
            self.lost += 1;
        }
        self.waiting = 0;
    }

    fn drop_stale(&mut self, now: u64) {
        if self
            .stuck_since
            .is_some_and(|since| now.saturating_sub(since) > PATIENCE_NS)
        {
            self.withdraw();
            self.stuck_since = None;
        }
    }
}

impl TxQueue for PacketTx {
    fn transmit(&mut self, pool: &mut Pool, packets: &[BufferIndex], now: u64) -> TxBurst {
        self.drop_stale(now);
        let mut taken = 0;
        let limit = self.limit();
        for &b in packets {
            let len = pool.meta(b).total_len() as usize;
            if len > limit {
                self.lost += 1;
            } else if self.ring.status() != libc::TP_STATUS_AVAILABLE {
                break;
            } else if !self.fill(pool, b, len) {
                self.lost += 1;
            }
            taken += 1;
        }
        self.kick(Some(now));
        pool.free_bulk(&packets[..taken]);
        // No more than were taken now: the rest is told with later bursts.
        let errors = self.lost.min(taken);
        self.lost -= errors;
        TxBurst { taken, errors }
    }

    fn flush(&mut self, _pool: &mut Pool) {
        self.kick(None);
    }
}
