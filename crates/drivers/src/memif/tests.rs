//! What the tests of both kinds share: ends, and waiting for what the control thread does.

mod honest;
mod hostile;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parshall_buffer::{Frame, Pool};
use parshall_device::{Device, Queues, TxBurst};
use proptest::prelude::*;

use super::channel::{Channel, Incoming, Listener};
use super::message::{AddRegion, AddRing, Init, MODE_ETHERNET, Message, Text, VERSION};
use super::region::Region;
use super::ring::{Filled, Ring};
use super::{Hub, Memif, MemifConfig, Role, session};

/// Waits up to 10 s for something that the control thread does in its own time.
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("no {what} after 10 s");
}

/// One end: an interface with its queues, and a pool as its worker has one.
struct End {
    memif: Memif,
    queues: Queues,
    pool: Pool,
    before: usize,
}

impl End {
    fn new(hub: &Hub, config: MemifConfig, workers: usize) -> End {
        let mut memif = Memif::open(hub, config).unwrap();
        let queues = memif.queues(7, workers).unwrap();
        memif.set_admin(true).unwrap();
        let pool = Pool::new(2048).unwrap();
        End {
            memif,
            queues,
            before: pool.available(),
            pool,
        }
    }

    fn wait_up(&self) {
        wait_for("connection", || self.memif.info().link_up);
    }

    /// Sends packets through a worker's queue.
    fn send(&mut self, queue: usize, packets: &[Vec<u8>]) -> TxBurst {
        let pool = &mut self.pool;
        let made: Vec<_> = packets
            .iter()
            .map(|p| pool.packet_from(p, 0).unwrap())
            .collect();
        let burst = self.queues.tx[queue].transmit(pool, &made, 0);
        pool.free_bulk(&made[burst.taken..]);
        burst
    }

    /// Takes what waits in a queue.
    fn take(&mut self, queue: usize) -> (Vec<Vec<u8>>, u64) {
        let mut frame = Frame::default();
        let burst = self.queues.rx[queue].poll(&mut self.pool, &mut frame, 0);
        let packets = frame.packets();
        let bytes: Vec<_> = packets.iter().map(|&b| self.pool.to_vec(b)).collect();
        for &b in packets {
            let m = *self.pool.meta(b);
            assert_eq!((m.rx_if, m.reason, m.dpo), (7, 0, 0));
        }
        assert_eq!(
            burst.bytes,
            bytes.iter().map(|b| b.len() as u64).sum::<u64>()
        );
        self.pool.free_bulk(packets);
        (bytes, burst.errors)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.pool.available(), self.before, "buffers leaked");
        }
    }
}

fn socket(dir: &tempfile::TempDir) -> String {
    dir.path().join("memif.sock").display().to_string()
}

fn config(socket: &str, role: Role) -> MemifConfig {
    MemifConfig {
        ring_size: 64,
        ..MemifConfig::new("memif0/0", socket, 0, role)
    }
}

/// A master and a slave that are connected.
fn ends(change: impl Fn(MemifConfig) -> MemifConfig) -> (tempfile::TempDir, Hub, [End; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let hub = Hub::start().unwrap();
    let path = socket(&dir);
    let workers = change(config(&path, Role::Master)).tx_queues;
    let pair = [Role::Master, Role::Slave]
        .map(|role| End::new(&hub, change(config(&path, role)), workers));
    pair.iter().for_each(End::wait_up);
    (dir, hub, pair)
}

/// A packet of `len` bytes that differs from others.
fn packet(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + seed * 13 + len) as u8).collect()
}
