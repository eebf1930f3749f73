//! `sflow-output`: takes packet samples on transmit, when all that the router does to a packet is done.
//!
//! A feature of `interface-output`. What goes by is subtracted from the skip that it has lent to the dispatcher, as on
//! the way in; only a packet that is to be sampled is touched. A sample says where the packet came
//! in, how long it was in the router, and which transmit queue it goes to. It is taken before the queue: a packet
//! that the queue then refuses was sampled, as with VPP's sFlow plugin and the egress hook of Linux.

use std::any::Any;

use parshall_buffer::{BufferIndex, Flags, Frame, IF_MIXED, IF_NONE, Meta};
use parshall_graph::{CONTINUE, Ctx, Dispatch, Feature, Node, NodeSpec};
use parshall_linux::clock::{tsc, tsc_hz};
use parshall_ring::Producer;
use parshall_sample::{
    Direction, HeaderProtocol, MAX_HEADER, NO_QUEUE, NO_TRANSIT, SampleSlot, Sampler,
};

use crate::hold;
use crate::sflow::{SflowSettings, copy_header};

/// Bytes of an Ethernet header.
const ETHERNET: u16 = 14;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("sflow-output", &[])
    .feature(Feature {
        arc: "interface-output",
        before: &["pcap-tx"],
        after: &[],
    })
    .in_passing();

/// Sampling of what one interface sends: a message to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SflowTxSettings {
    /// Interface, rate and header bytes.
    pub sampling: SflowSettings,
    /// Transmit queue that this worker's packets go to.
    pub queue: u16,
    /// It sends packets, not frames: their Ethernet header says no more than what they are, as that of a tunnel's does.
    pub bare: bool,
}

struct Port {
    sampler: Sampler,
    header_bytes: usize,
    queue: u16,
    bare: bool,
}

/// The node.
pub struct SflowOutput {
    ports: Vec<Port>,
    ring: Producer<SampleSlot>,
    /// Nanoseconds a tick of the time-stamp counter takes.
    tick: f64,
}

impl SflowOutput {
    /// A sampler for each of `interfaces`, all off; samples go to `ring`. `seed` fixes the sequences, which are others
    /// than those of the receive sampler with the same seed.
    pub fn new(interfaces: usize, ring: Producer<SampleSlot>, seed: u64) -> SflowOutput {
        let first = seed.wrapping_mul(0xD1B5_4A32_D192_ED03).rotate_left(32);
        let port = |i: usize| Port {
            sampler: Sampler::new(0, first.wrapping_add(i as u64)),
            header_bytes: 128,
            queue: NO_QUEUE,
            bare: false,
        };
        SflowOutput {
            ports: (0..interfaces).map(port).collect(),
            ring,
            tick: 1e9 / tsc_hz() as f64,
        }
    }

    /// Takes `packets`, all of one interface, past its sampler, and before them `unseen` ones that it need not see.
    /// Says how many more need not be seen.
    #[inline]
    fn look(&mut self, cx: &mut Ctx<'_>, tx_if: u32, unseen: u64, packets: &[BufferIndex]) -> u64 {
        let Some(port) = self.ports.get_mut(tx_if as usize) else {
            return u64::MAX;
        };
        port.sampler.pass(unseen);
        if let Some(c) = cx.counters.interface(tx_if) {
            c.tx_sample_pool.add(unseen + packets.len() as u64);
        }
        let mut rest = packets;
        while let Some(at) = port.sampler.advance(rest.len() as u32) {
            let since = (tsc().wrapping_sub(cx.turn_tsc) as f64 * self.tick) as u64;
            take(&mut self.ring, port, cx, tx_if, rest[at as usize], since);
            rest = &rest[at as usize + 1..];
        }
        port.sampler.skip()
    }
}

/// Writes a sample of packet `b`, `since` ns after the turn began, into the ring.
fn take(
    ring: &mut Producer<SampleSlot>,
    port: &Port,
    cx: &mut Ctx<'_>,
    tx_if: u32,
    b: BufferIndex,
    since: u64,
) {
    let now = cx.now;
    let view = cx.pool.view();
    let m = view.meta(b);
    let (protocol, skip) = match port.bare {
        true => bare(view.peek(b, m.data)),
        false => (HeaderProtocol::Ethernet, 0),
    };
    let len = m.len.saturating_sub(skip);
    let wanted = port.header_bytes.min(usize::from(len));
    let (rx_if, transit_ns) = origin(m, now, since);
    let taken = ring.write(|slot| {
        slot.rx_if = rx_if;
        slot.tx_if = tx_if;
        slot.rate = port.sampler.rate();
        slot.frame_len = m.total_len().saturating_sub(skip.into());
        slot.time = now.wrapping_add(since);
        slot.transit_ns = transit_ns;
        slot.queue = port.queue;
        slot.header_len = wanted as u16;
        slot.direction = Direction::Tx;
        slot.protocol = protocol;
        copy_header(&mut slot.header, &view, b, m.data + skip, wanted);
    });
    if let Some(c) = cx.counters.interface(tx_if) {
        if taken {
            c.tx_samples.add(1)
        } else {
            c.tx_sample_drops.add(1)
        }
    }
}

/// What a packet is whose Ethernet header only stands for that, and the length of that header.
fn bare(head: &[u8; 16]) -> (HeaderProtocol, u16) {
    match [head[12], head[13]] {
        [0x08, 0x00] => (HeaderProtocol::Ip4, ETHERNET),
        [0x86, 0xDD] => (HeaderProtocol::Ip6, ETHERNET),
        [0x88, 0x47] => (HeaderProtocol::Mpls, ETHERNET),
        _ => (HeaderProtocol::Ethernet, 0),
    }
}

/// Where a packet came in, and how long ago in ns. What the router made itself came in nowhere.
fn origin(m: &Meta, now: u64, since: u64) -> (u32, u32) {
    if m.flags.has(Flags::ORIGINATED) {
        return (IF_NONE, NO_TRANSIT);
    }
    let waited = if m.flags.has(Flags::HELD) {
        hold::waited(m, now)
    } else {
        0
    };
    let transit = waited.saturating_add(since).min(u64::from(NO_TRANSIT - 1));
    (m.rx_if, transit as u32)
}

impl Node for SflowOutput {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        if frame.tx_if != IF_MIXED {
            self.look(cx, frame.tx_if, 0, frame.packets());
            return Dispatch::All(CONTINUE);
        }
        let mut rest = frame.packets();
        while let Some(&first) = rest.first() {
            let tx_if = cx.pool.meta(first).tx_if;
            let run = rest
                .iter()
                .position(|&b| cx.pool.meta(b).tx_if != tx_if)
                .unwrap_or(rest.len());
            self.look(cx, tx_if, 0, &rest[..run]);
            rest = &rest[run..];
        }
        Dispatch::All(CONTINUE)
    }

    fn pass(
        &mut self,
        cx: &mut Ctx<'_>,
        tx_if: u32,
        passed: u64,
        frame: Option<&mut Frame>,
    ) -> u64 {
        let packets = frame.map_or(&[][..], |f| f.packets());
        self.look(cx, tx_if, passed, packets)
    }

    fn message(&mut self, _cx: &mut Ctx<'_>, message: &mut (dyn Any + Send)) {
        let Some(s) = message.downcast_ref::<SflowTxSettings>() else {
            return;
        };
        if let Some(port) = self.ports.get_mut(s.sampling.if_index as usize) {
            port.header_bytes = usize::from(s.sampling.header_bytes).min(MAX_HEADER);
            (port.queue, port.bare) = (s.queue, s.bare);
            if port.sampler.rate() != s.sampling.rate {
                port.sampler.set_rate(s.sampling.rate);
            }
        }
    }
}
