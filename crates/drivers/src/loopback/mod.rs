//! `loopN`: the loopback interface, as VPP has it.
//!
//! What is transmitted on it is received on it again by the same worker, at `ethernet-input` of the
//! same interface. The packet itself goes round: nothing is copied. The way back is a ring between the
//! transmit and the receive queue of the same number; both belong to one worker, because a packet is a
//! buffer of that worker's pool. Receive queue `n` must therefore be polled by worker `n`; a packet
//! from another worker's pool is noticed and counted as an error, not received.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use parshall_buffer::{BufferIndex, Flags, Frame, Meta, Pool};
use parshall_device::{
    Device, DeviceError, DeviceInfo, Duplex, Queues, RxBurst, RxQueue, TxBurst, TxQueue,
};
use parshall_ring::{Consumer, Producer, ring};

/// Highest instance number, as in VPP.
pub const MAX_INSTANCE: u32 = 16 * 1024 - 1;
/// Speed it reports, in bits per second.
pub const SPEED: u64 = 1_000_000_000;

/// Packets that may be on their way round, for each worker.
const WAITING: usize = 1_024;
const MIN_FRAME: u32 = 14;
const MAX_FRAME: u32 = 65_535;

/// A loopback interface.
pub struct LoopbackDevice {
    mac: [u8; 6],
    max_frame: u32,
    up: bool,
    queues: usize,
}

impl LoopbackDevice {
    /// Makes `loop<instance>` with the address `de:ad:00:00:00:<instance>` (its lower 16 bits: instances
    /// above 255 differ too).
    ///
    /// # Errors
    /// When the number is above [`MAX_INSTANCE`].
    pub fn new(instance: u32) -> Result<LoopbackDevice, DeviceError> {
        if instance > MAX_INSTANCE {
            return Err(DeviceError(format!(
                "loopback instance {instance} is not from 0 to {MAX_INSTANCE}"
            )));
        }
        let [.., high, low] = instance.to_be_bytes();
        Ok(LoopbackDevice {
            mac: [0xde, 0xad, 0, 0, high, low],
            max_frame: 9_216,
            up: false,
            queues: 0,
        })
    }
}

impl Device for LoopbackDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            kind: "Loopback",
            mac: self.mac,
            max_frame: self.max_frame,
            speed: SPEED,
            duplex: Duplex::Full,
            link_up: self.up,
            os_index: None,
            rx_queues: self.queues,
            tx_queues: self.queues,
            detail: String::new(),
        }
    }

    fn queues(&mut self, if_index: u32, workers: usize) -> Result<Queues, DeviceError> {
        let mut queues = Queues::default();
        for _ in 0..workers {
            let (rx, tx) = pair(if_index);
            queues.rx.push(Box::new(rx));
            queues.tx.push(Box::new(tx));
        }
        self.queues = workers;
        Ok(queues)
    }

    fn set_admin(&mut self, up: bool) -> Result<(), DeviceError> {
        self.up = up;
        Ok(())
    }

    fn set_mac(&mut self, mac: [u8; 6]) -> Result<(), DeviceError> {
        self.mac = mac;
        Ok(())
    }

    fn set_max_frame(&mut self, bytes: u32) -> Result<(), DeviceError> {
        if !(MIN_FRAME..=MAX_FRAME).contains(&bytes) {
            return Err(DeviceError(format!(
                "a largest frame of {bytes} bytes is not within {MIN_FRAME} to {MAX_FRAME}"
            )));
        }
        self.max_frame = bytes;
        Ok(())
    }

    fn set_promiscuous(&mut self, _on: bool) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// A packet on its way round, with the address of its bytes as proof of the pool it belongs to.
type Turn = (BufferIndex, usize);

/// What both queues of a worker share.
#[derive(Default)]
struct Shared {
    /// Packets in the ring. Written by the one worker that has both ends.
    waiting: AtomicUsize,
    /// The reading end, left here by a receive queue that has gone, so that the transmit queue can free
    /// what is still in the ring. Locked only then.
    left: Mutex<Option<Consumer<Turn>>>,
}

struct LoopbackRx {
    rx_if: u32,
    /// `None` only while it is dropped.
    ring: Option<Consumer<Turn>>,
    shared: Arc<Shared>,
}

struct LoopbackTx {
    ring: Producer<Turn>,
    shared: Arc<Shared>,
}

fn pair(rx_if: u32) -> (LoopbackRx, LoopbackTx) {
    let (producer, consumer) = ring(WAITING);
    let shared = Arc::<Shared>::default();
    (
        LoopbackRx {
            rx_if,
            ring: Some(consumer),
            shared: shared.clone(),
        },
        LoopbackTx {
            ring: producer,
            shared,
        },
    )
}

impl RxQueue for LoopbackRx {
    fn poll(&mut self, pool: &mut Pool, frame: &mut Frame, _now: u64) -> RxBurst {
        let mut burst = RxBurst::default();
        let Some(ring) = &mut self.ring else {
            return burst;
        };
        let mut came = 0;
        while frame.room() > 0
            && let Some((b, address)) = ring.pop()
        {
            came += 1;
            if pool.data_ptr(b) as usize != address {
                // Another worker's buffer: neither ours to read nor to free.
                burst.errors += 1;
            } else if u32::from(pool.meta(b).len) < MIN_FRAME {
                burst.errors += 1;
                pool.free(b);
            } else {
                burst.bytes += u64::from(pool.meta(b).total_len());
                receive(pool.meta_mut(b), self.rx_if);
                frame.push(b);
            }
        }
        if came > 0 {
            let left = self
                .shared
                .waiting
                .load(Ordering::Relaxed)
                .saturating_sub(came);
            self.shared.waiting.store(left, Ordering::Relaxed);
        }
        burst
    }

    fn due(&self, now: u64) -> Option<u64> {
        (self.shared.waiting.load(Ordering::Relaxed) > 0).then_some(now)
    }
}

/// Makes the metadata that of a packet just received; only its bytes stay.
fn receive(m: &mut Meta, rx_if: u32) {
    let mut fresh = Meta::received(m.data, m.len, rx_if);
    if m.flags.has(Flags::CHAINED) {
        fresh.flags = Flags::CHAINED;
        fresh.tail_len = m.tail_len;
        fresh.next = m.next;
    }
    *m = fresh;
}

impl Drop for LoopbackRx {
    fn drop(&mut self) {
        *self
            .shared
            .left
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = self.ring.take();
    }
}

impl TxQueue for LoopbackTx {
    fn transmit(&mut self, pool: &mut Pool, packets: &[BufferIndex], _now: u64) -> TxBurst {
        let mut taken = 0;
        for &b in packets {
            if !self.ring.has_room() || self.ring.push((b, pool.data_ptr(b) as usize)).is_err() {
                break;
            }
            taken += 1;
        }
        let waiting = self.shared.waiting.load(Ordering::Relaxed);
        self.shared
            .waiting
            .store(waiting + taken, Ordering::Relaxed);
        TxBurst::all(taken)
    }

    /// Frees what is on its way round when the receive queue has gone before.
    fn close(&mut self, pool: &mut Pool) {
        let left = self
            .shared
            .left
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(mut ring) = left else { return };
        while let Some((b, address)) = ring.pop() {
            if pool.data_ptr(b) as usize == address {
                pool.free(b);
            }
        }
        self.shared.waiting.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_comes_back_as_received() {
        let mut device = LoopbackDevice::new(3).unwrap();
        assert_eq!(device.info().mac, [0xde, 0xad, 0, 0, 0, 3]);
        assert_eq!(
            (device.info().kind, device.info().speed),
            ("Loopback", 1_000_000_000)
        );
        let mut q = device.queues(7, 1).unwrap();
        let (mut pool, mut frame) = (Pool::new(16).unwrap(), Frame::default());
        let jumbo = vec![5; 5000];
        let packets = [
            pool.packet_from(&[1; 60], 1).unwrap(),
            pool.packet_from(&jumbo, 1).unwrap(),
        ];
        pool.meta_mut(packets[0]).flags.set(Flags::ORIGINATED);
        pool.pull(packets[0], 4);
        assert_eq!(q.rx[0].due(5), None);
        assert_eq!(q.tx[0].transmit(&mut pool, &packets, 0), TxBurst::all(2));
        assert_eq!(q.rx[0].due(5), Some(5));
        let burst = q.rx[0].poll(&mut pool, &mut frame, 0);
        assert_eq!((burst.bytes, burst.errors), (5056, 0));
        assert_eq!(q.rx[0].due(5), None);
        let m = *pool.meta(frame.packets()[0]);
        assert_eq!((m.rx_if, m.len, m.flags, m.l2), (7, 56, Flags(0), m.data));
        assert_eq!(pool.to_vec(frame.packets()[1]), jumbo);
        pool.free_bulk(frame.packets());
        assert_eq!(pool.available(), 16);
    }

    #[test]
    fn a_full_ring_takes_fewer_and_close_frees_the_rest() {
        let mut device = LoopbackDevice::new(0).unwrap();
        let mut q = device.queues(1, 1).unwrap();
        let mut pool = Pool::new(WAITING + 8).unwrap();
        let packets: Vec<_> = (0..WAITING + 8)
            .map(|_| pool.packet_from(&[0; 64], 1).unwrap())
            .collect();
        assert_eq!(
            q.tx[0].transmit(&mut pool, &packets, 0),
            TxBurst::all(WAITING)
        );
        pool.free_bulk(&packets[WAITING..]);
        q.rx.clear();
        q.tx[0].close(&mut pool);
        assert_eq!(pool.available(), WAITING + 8);
    }

    #[test]
    fn another_pools_packet_is_not_received() {
        let (mut rx, mut tx) = pair(1);
        let (mut mine, mut other) = (Pool::new(4).unwrap(), Pool::new(4).unwrap());
        let b = mine.packet_from(&[0; 64], 1).unwrap();
        tx.transmit(&mut mine, &[b], 0);
        let mut frame = Frame::default();
        let burst = rx.poll(&mut other, &mut frame, 0);
        assert_eq!((burst.errors, frame.len(), other.available()), (1, 0, 4));
        mine.free(b);
    }

    #[test]
    fn instances_end_somewhere() {
        assert!(LoopbackDevice::new(MAX_INSTANCE).is_ok());
        let error = LoopbackDevice::new(MAX_INSTANCE + 1).err().unwrap();
        assert_eq!(error.0, "loopback instance 16384 is not from 0 to 16383");
    }
}
