//! Receive sampling of interfaces that have no device: sub-interfaces, tunnels, bonds and the routed interfaces of bridge
//! domains.
//!
//! Their packets do not come by the arc that `sflow` is a feature of: the node that says "received here from now on"
//! shows its packets to a [`VirtualSflow`] of its own. Until control installs samplers in it, with the first such
//! interface that is to be sampled, that is a pointer that is looked at, and no memory.

use std::any::Any;

use parshall_buffer::BufferIndex;
use parshall_graph::Ctx;
use parshall_ring::{Consumer, Producer, ring};
use parshall_sample::{HeaderProtocol, MAX_HEADER, SampleSlot, Sampler};

use crate::sflow::{SflowSettings, copy_header};

/// Samples of one node that wait for the agent at most, per worker.
const RING: usize = 4_096;

/// The samplers of one node's interfaces: a message to that node, as `Option<Box<VirtualSamplers>>`, before the first
/// [`SflowSettings`].
pub struct VirtualSamplers {
    ports: Vec<Port>,
    ring: Producer<SampleSlot>,
}

struct Port {
    sampler: Sampler,
    header_bytes: usize,
}

impl VirtualSamplers {
    /// A sampler for each of `interfaces`, all off, and where their samples come out. `seed` fixes the sequences.
    pub fn new(interfaces: usize, seed: u64) -> (Box<VirtualSamplers>, Consumer<SampleSlot>) {
        let (producer, consumer) = ring(RING);
        let first = seed.wrapping_mul(0xA24B_AED4_963E_E407).rotate_left(17);
        let port = |i: usize| Port {
            sampler: Sampler::new(0, first.wrapping_add(i as u64)),
            header_bytes: 128,
        };
        let samplers = VirtualSamplers {
            ports: (0..interfaces).map(port).collect(),
            ring: producer,
        };
        (Box::new(samplers), consumer)
    }

    /// Takes `packets`, received on `if_index` and beginning with a header of `protocol`, past its sampler.
    #[inline]
    fn look(
        &mut self,
        cx: &mut Ctx<'_>,
        packets: &[BufferIndex],
        if_index: u32,
        protocol: HeaderProtocol,
    ) {
        let port = self.ports.get_mut(if_index as usize);
        let Some(port) = port.filter(|p| p.sampler.rate() != 0) else {
            return;
        };
        let (mut rest, mut taken, mut lost) = (packets, 0, 0);
        while let Some(at) = port.sampler.advance(rest.len() as u32) {
            let at = at as usize;
            match take(&mut self.ring, port, cx, rest[at], (if_index, protocol)) {
                true => taken += 1,
                false => lost += 1,
            }
            rest = &rest[at + 1..];
        }
        if let Some(c) = cx.counters.interface(if_index) {
            c.sample_pool.add(packets.len() as u64);
            c.samples.add(taken);
            c.sample_drops.add(lost);
        }
    }
}

/// Writes a sample of packet `b` into the ring, if there is room.
#[cold]
fn take(
    ring: &mut Producer<SampleSlot>,
    port: &Port,
    cx: &mut Ctx<'_>,
    b: BufferIndex,
    (if_index, protocol): (u32, HeaderProtocol),
) -> bool {
    let view = cx.pool.view();
    let m = view.meta(b);
    // A header longer than its buffer is one of a chain whose first buffer is short: it ends there.
    let wanted = port.header_bytes.min(usize::from(m.len));
    ring.write(|slot| {
        slot.rx_if = if_index;
        slot.tx_if = u32::MAX;
        slot.rate = port.sampler.rate();
        slot.frame_len = m.total_len();
        slot.time = cx.now;
        slot.header_len = wanted as u16;
        slot.protocol = protocol;
        copy_header(&mut slot.header, &view, b, m.data, wanted);
    })
}

/// A node's samplers, if it was given any.
#[derive(Default)]
pub(crate) struct VirtualSflow(Option<Box<VirtualSamplers>>);

impl VirtualSflow {
    /// Shows packet `b`, received on `if_index` from here on and beginning with a header of `protocol`.
    #[inline(always)]
    pub fn look(
        &mut self,
        cx: &mut Ctx<'_>,
        b: BufferIndex,
        if_index: u32,
        protocol: HeaderProtocol,
    ) {
        self.look_at_all(cx, &[b], if_index, protocol);
    }

    /// Shows packets as [`look`](Self::look) does; what is not sampled is not read.
    #[inline(always)]
    pub fn look_at_all(
        &mut self,
        cx: &mut Ctx<'_>,
        packets: &[BufferIndex],
        if_index: u32,
        protocol: HeaderProtocol,
    ) {
        if let Some(samplers) = &mut self.0 {
            samplers.look(cx, packets, if_index, protocol);
        }
    }

    /// Takes samplers, or what one of them is told.
    pub fn message(&mut self, message: &mut (dyn Any + Send)) {
        if let Some(samplers) = message.downcast_mut::<Option<Box<VirtualSamplers>>>() {
            return std::mem::swap(&mut self.0, samplers);
        }
        let settings = message.downcast_ref::<SflowSettings>();
        let (Some(s), Some(samplers)) = (settings, &mut self.0) else {
            return;
        };
        if let Some(port) = samplers.ports.get_mut(s.if_index as usize) {
            port.header_bytes = usize::from(s.header_bytes).min(MAX_HEADER);
            if port.sampler.rate() != s.rate {
                port.sampler.set_rate(s.rate);
            }
        }
    }
}
