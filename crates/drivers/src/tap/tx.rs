//! Sending to a tap queue: one writev per frame, straight from pool buffers.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::errno::Errno;
use parshall_buffer::{BufferIndex, Pool};
use parshall_device::{TxBurst, TxQueue};

use super::sys;

/// One transmit queue. Keeps no buffers: a frame is the kernel's copy once writev returns.
pub(super) struct TapTx {
    fd: Arc<OwnedFd>,
}

impl TapTx {
    pub fn new(fd: Arc<OwnedFd>) -> TapTx {
        TapTx { fd }
    }

    fn send(&self, pool: &Pool, b: BufferIndex) -> Result<(), Errno> {
        loop {
            match sys::write_frame(&self.fd, pool, b) {
                Err(Errno::EINTR) => {}
                other => return other,
            }
        }
    }
}

impl TxQueue for TapTx {
    fn transmit(&mut self, pool: &mut Pool, packets: &[BufferIndex], _now: u64) -> TxBurst {
        let mut burst = TxBurst::default();
        for &b in packets {
            match self.send(pool, b) {
                Ok(()) => {}
                Err(Errno::EAGAIN) => break,
                // The host side is down, or the frame is none: it will not get better by waiting.
                Err(_) => burst.errors += 1,
            }
            burst.taken += 1;
        }
        pool.free_bulk(&packets[..burst.taken]);
        burst
    }
}
