//! The links of the router: mutated frames come in, what goes out is looked at.

use std::sync::{Arc, Mutex};

use parshall_buffer::{BufferIndex, Frame, Pool};
use parshall_device::{RxBurst, RxQueue, TxBurst, TxQueue};
use parshall_graph::harness::Sent;
use parshall_wire::checksum;

use crate::corpus::router_mac;
use crate::mutate::{Rng, mutate};

/// The two interfaces that are connected to each other, and the ports of a bridge: what they send is what came in.
pub const CROSS: [u32; 5] = [6, 7, 12, 13, 14];

/// Both ends of an interface: gives out mutated frames, looks at what is sent.
#[derive(Clone)]
pub struct Link {
    rng: Rng,
    corpus: Arc<Vec<Vec<u8>>>,
    scratch: Vec<u8>,
    n: u32,
    bad: Arc<Mutex<Vec<Sent>>>,
}

impl Link {
    /// The link of interface `n`; what is sent that should not be goes to `bad`.
    pub fn new(n: u32, rng: Rng, corpus: Arc<Vec<Vec<u8>>>, bad: Arc<Mutex<Vec<Sent>>>) -> Link {
        Link {
            rng,
            corpus,
            scratch: Vec::with_capacity(10_000),
            n,
            bad,
        }
    }

    /// Makes the next frame.
    fn frame(&mut self) {
        let rng = &mut self.rng;
        self.scratch.clear();
        self.scratch.extend(rng.pick(&self.corpus[..]));
        if !rng.one_in(16) {
            // First octet of the destination: of IPv4, of IPv6.
            let group = [30, 38]
                .iter()
                .any(|at| self.scratch.get(*at).is_some_and(|b| *b >= 0xE0));
            let dst = match rng.below(8) {
                0 if group => [0x33, 0x33, 0, 0, 0, 1],
                1 => [0xFF; 6],
                _ => router_mac(self.n).0,
            };
            self.scratch[..6].copy_from_slice(&dst);
        }
        if !rng.one_in(3) {
            let other = rng.pick(&self.corpus[..]).clone();
            mutate(rng, &mut self.scratch, &other);
        }
    }
}

impl RxQueue for Link {
    fn poll(&mut self, pool: &mut Pool, frame: &mut Frame, _now: u64) -> RxBurst {
        let mut burst = RxBurst::default();
        let many = match self.rng.below(8) {
            0 => 0,
            1 => 256,
            _ => self.rng.below(40),
        };
        for _ in 0..many {
            self.frame();
            match pool.packet_from(&self.scratch, self.n) {
                Some(b) => {
                    frame.push(b);
                    burst.bytes += self.scratch.len() as u64;
                }
                None => burst.no_buffer += 1,
            }
        }
        burst
    }
}

impl TxQueue for Link {
    fn transmit(&mut self, pool: &mut Pool, packets: &[BufferIndex], _now: u64) -> TxBurst {
        if !CROSS.contains(&self.n) {
            let bad = packets.iter().filter(|b| !is_good(pool, **b));
            let mut seen = self.bad.lock().unwrap();
            seen.extend(bad.map(|b| (self.n, pool.to_vec(*b))));
        }
        // Now and then the queue is full, or the device refuses some.
        let taken = match self.rng.below(16) {
            0 => self.rng.below(packets.len() + 1),
            _ => packets.len(),
        };
        let errors = match self.rng.below(16) {
            0 => self.rng.below(taken + 1),
            _ => 0,
        };
        pool.free_bulk(&packets[..taken]);
        TxBurst { taken, errors }
    }
}

/// Whether what the router sends has the header of a packet that was forwarded or made right.
fn is_good(pool: &Pool, b: BufferIndex) -> bool {
    let mut bytes = pool.bytes(b);
    let mut total = pool.meta(b).total_len() as usize;
    // What leaves by the sub-interface has its tag.
    if bytes.get(12..16) == Some(&[0x81, 0, 0, 7]) {
        (bytes, total) = (&bytes[4..], total - 4);
    }
    let Some((link, packet)) = bytes.split_at_checked(14) else {
        return false;
    };
    match link[12..14] {
        [0x08, 0x00] => {
            let len = usize::from(packet[0] & 15) * 4;
            packet[0] >> 4 == 4
                && usize::from(u16::from_be_bytes([packet[2], packet[3]])) + 14 == total
                && packet[8] != 0
                && packet.len() >= len
                && checksum::checksum(&packet[..len]) == 0
        }
        [0x86, 0xDD] => {
            packet.len() >= 40
                && packet[0] >> 4 == 6
                && usize::from(u16::from_be_bytes([packet[4], packet[5]])) + 54 == total
                && packet[7] != 0
        }
        [0x88, 0x47] => packet.len() >= 4 && packet[3] != 0,
        [0x08, 0x06] => packet.len() == 28,
        _ => false,
    }
}
