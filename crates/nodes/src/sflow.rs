//! `sflow`: takes packet samples on receive, before anything else looks at the packet.
//!
//! A feature of `device-input`. A frame is not walked: the dispatcher subtracts its length from the
//! skip that it was lent, and only a packet that is to be sampled is touched. Its first bytes are written once, in
//! place, into a slot of the worker's ring; a full ring is counted per interface and costs no more.

use std::any::Any;
use std::mem::offset_of;

use parshall_buffer::{BufferIndex, Frame, IF_MIXED, PoolView};
use parshall_graph::wide::{Isa, WideNode};
use parshall_graph::{CONTINUE, Ctx, Dispatch, Feature, NodeSpec};
use parshall_ring::Producer;
use parshall_sample::{MAX_HEADER, SampleSlot, Sampler};

/// How many samples before it is written a slot of the ring is fetched: a frame's samples are taken one
/// right after the other, and at 1 in 100 two or three are usual.
const AHEAD: usize = 4;

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

    /// Takes `packets`, all of one interface, past its sampler, and before them `unseen` ones that it need not see.
    /// Says how many more need not be seen.
    #[inline(always)]
    fn look(
        &mut self,
        cx: &mut Ctx<'_>,
        if_index: u32,
        unseen: u64,
        packets: &[BufferIndex],
    ) -> u64 {
        let Some(port) = self.ports.get_mut(if_index as usize) else {
            return u64::MAX;
        };
        port.sampler.pass(unseen);
        let mut rest = packets;
        let (mut taken, mut lost) = (0, 0);
        while let Some(at) = port.sampler.advance(rest.len() as u32) {
            match take(&mut self.ring, port, cx, if_index, rest[at as usize]) {
                true => taken += 1,
                false => lost += 1,
            }
            rest = &rest[at as usize + 1..];
        }
        if let Some(c) = cx.counters.interface(if_index) {
            c.sample_pool.add(unseen + packets.len() as u64);
            c.samples.add(taken);
            c.sample_drops.add(lost);
        }
        port.sampler.skip()
    }
}

/// Writes a sample of packet `b` into the ring, if there is room.
#[inline(always)]
fn take(
    ring: &mut Producer<SampleSlot>,
    port: &Port,
    cx: &mut Ctx<'_>,
    if_index: u32,
    b: BufferIndex,
) -> bool {
    let view = cx.pool.view();
    let m = view.meta(b);
    // A header longer than its buffer is one of a chain whose first buffer is short: it ends there.
    let wanted = port.header_bytes.min(usize::from(m.len));
    let taken = ring.write(|slot| {
        slot.rx_if = if_index;
        slot.tx_if = u32::MAX;
        slot.rate = port.sampler.rate();
        slot.frame_len = m.total_len();
        slot.time = cx.now;
        slot.header_len = wanted as u16;
        copy_header(&mut slot.header, &view, b, m.data, wanted);
    });
    // The next packets are likely to be of the same length.
    ring.claim(AHEAD, offset_of!(SampleSlot, header) + wanted);
    taken
}

/// Copies `n` bytes of a packet, and some that do not matter behind them: sizes that are known when this is
/// compiled cost a few instructions, others a call.
#[inline(always)]
pub(crate) fn copy_header(
    to: &mut [u8; MAX_HEADER],
    view: &PoolView<'_>,
    b: BufferIndex,
    at: u16,
    n: usize,
) {
    match n {
        0..=64 => to[..64].copy_from_slice(view.peek::<64>(b, at)),
        65..=128 => to[..128].copy_from_slice(view.peek::<128>(b, at)),
        _ => *to = *view.peek(b, at),
    }
}

impl WideNode for Sflow {
    const IN_PASSING: bool = true;

    #[inline(always)]
    fn process<I: Isa>(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        if frame.rx_if != IF_MIXED {
            self.look(cx, frame.rx_if, 0, frame.packets());
            return Dispatch::All(CONTINUE);
        }
        let mut rest = frame.packets();
        while let Some(&first) = rest.first() {
            let if_index = cx.pool.meta(first).rx_if;
            let run = rest
                .iter()
                .position(|&b| cx.pool.meta(b).rx_if != if_index)
                .unwrap_or(rest.len());
            self.look(cx, if_index, 0, &rest[..run]);
            rest = &rest[run..];
        }
        Dispatch::All(CONTINUE)
    }

    #[inline(always)]
    fn pass<I: Isa>(
        &mut self,
        cx: &mut Ctx<'_>,
        rx_if: u32,
        passed: u64,
        frame: Option<&mut Frame>,
    ) -> u64 {
        let packets = frame.map_or(&[][..], |f| f.packets());
        self.look(cx, rx_if, passed, packets)
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
