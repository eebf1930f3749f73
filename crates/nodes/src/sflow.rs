//! `sflow`: takes packet samples on receive, before anything else looks at the packet.
//!
//! A feature of `device-input`. A frame is not walked: its length is subtracted from the interface's
//! skip count, and only a packet that is to be sampled is touched. Its first bytes are written once, in
//! place, into a slot of the worker's ring; a full ring is counted per interface and costs no more.

use std::any::Any;

use parshall_buffer::{BufferIndex, Frame, IF_MIXED};
use parshall_graph::{CONTINUE, Ctx, Dispatch, Feature, Node, NodeSpec};
use parshall_ring::Producer;
use parshall_sample::{MAX_HEADER, SampleSlot, Sampler};

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("sflow", &[])
    .feature(Feature {
        arc: "device-input",
        before: &["pcap-rx"],
        after: &[],
    })
    .by_interface()
    .in_passing();

/// Sampling on one interface: a message to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SflowSettings {
    /// Interface.
    pub if_index: u32,
    /// 1-in-N; 0 = off.
    pub rate: u32,
    /// Header bytes to keep, at most [`MAX_HEADER`].
    pub header_bytes: u16,
}

struct Port {
    sampler: Sampler,
    header_bytes: usize,
}

/// The node.
pub struct Sflow {
    ports: Vec<Port>,
    ring: Producer<SampleSlot>,
}

impl Sflow {
    /// A sampler for each of `interfaces`, all off; samples go to `ring`. `seed` fixes the sequences.
    pub fn new(interfaces: usize, ring: Producer<SampleSlot>, seed: u64) -> Sflow {
        let port = |i: usize| Port {
            sampler: Sampler::new(0, seed.wrapping_mul(0x9E37_79B9).wrapping_add(i as u64)),
            header_bytes: 128,
        };
        Sflow {
            ports: (0..interfaces).map(port).collect(),
            ring,
        }
    }

    /// Takes `packets`, all of one interface, past its sampler.
    #[inline]
    fn pass(&mut self, cx: &mut Ctx<'_>, if_index: u32, packets: &[BufferIndex]) {
        let Some(port) = self.ports.get_mut(if_index as usize) else {
            return;
        };
        if let Some(c) = cx.counters.interface(if_index) {
            c.sample_pool.add(packets.len() as u64);
        }
        let mut rest = packets;
        while let Some(at) = port.sampler.advance(rest.len() as u32) {
            take(&mut self.ring, port, cx, if_index, rest[at as usize]);
            rest = &rest[at as usize + 1..];
        }
    }
}

#[cold]
fn take(
    ring: &mut Producer<SampleSlot>,
    port: &Port,
    cx: &mut Ctx<'_>,
    if_index: u32,
    b: BufferIndex,
) {
    let pool = &*cx.pool;
    let meta = pool.meta(b);
    let taken = ring.write(|slot| {
        slot.rx_if = if_index;
        slot.tx_if = u32::MAX;
        slot.rate = port.sampler.rate();
        slot.frame_len = meta.total_len();
        slot.header_len = pool.copy_out(b, &mut slot.header[..port.header_bytes]) as u16;
    });
    if let Some(c) = cx.counters.interface(if_index) {
        if taken {
            c.samples.add(1)
        } else {
            c.sample_drops.add(1)
        }
    }
}

impl Node for Sflow {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        if frame.rx_if != IF_MIXED {
            self.pass(cx, frame.rx_if, frame.packets());
            return Dispatch::All(CONTINUE);
        }
        let mut rest = frame.packets();
        while let Some(&first) = rest.first() {
            let if_index = cx.pool.meta(first).rx_if;
            let run = rest
                .iter()
                .position(|&b| cx.pool.meta(b).rx_if != if_index)
                .unwrap_or(rest.len());
            self.pass(cx, if_index, &rest[..run]);
            rest = &rest[run..];
        }
        Dispatch::All(CONTINUE)
    }

    fn message(&mut self, _cx: &mut Ctx<'_>, message: &mut (dyn Any + Send)) {
        let Some(s) = message.downcast_ref::<SflowSettings>() else {
            return;
        };
        if let Some(port) = self.ports.get_mut(s.if_index as usize) {
            port.header_bytes = usize::from(s.header_bytes).min(MAX_HEADER);
            if port.sampler.rate() != s.rate {
                port.sampler.set_rate(s.rate);
            }
        }
    }
}
