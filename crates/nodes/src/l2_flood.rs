//! `l2-flood`: frames for everybody in a bridge domain: one copy a port (IEEE 802.1Q-2022 section 8.6.1).
//!
//! Never back to the port it came from, nor to one of the same split-horizon group, nor to ports that are down, which
//! control leaves out. The routed interface of the domain gets a copy, too. Copies are made port by port, so that each
//! port gets one frame of packets; the packet itself goes to the last one. Copies count as originated.
//!
//! Drop reasons: `l2_no_bridge_domain`, `l2_no_member`, `no_buffer_space` (of a copy).

use std::any::Any;
use std::sync::Arc;

use parshall_buffer::{BufferIndex, Frame, IF_MIXED, IF_NONE};
use parshall_counters::DropReason;
use parshall_graph::{CONTINUE, Ctx, Dispatch, Node, NodeSpec};
use parshall_sample::HeaderProtocol;

use crate::bridge::{BridgeDomain, BridgePort};
use crate::ethernet_input::format_ethernet;
use crate::sflow_virtual::VirtualSflow;
use crate::state::Shared;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("l2-flood", &["ethernet-input"])
    .starting("interface-output")
    .format(format_ethernet);

const ETHERNET_INPUT: u16 = 0;

/// Where a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// Out of a port.
    Port(u32),
    /// Up into the router, received on this interface.
    Router(u32),
}

/// The node.
pub struct L2Flood {
    shared: Arc<Shared>,
    /// Where the present run goes. Has room for all interfaces.
    targets: Vec<Target>,
    /// Sampling of what the domains' routed interfaces receive.
    sampling: VirtualSflow,
}

impl L2Flood {
    /// Over this state, with so many interfaces at most.
    pub fn new(shared: Arc<Shared>, interfaces: usize) -> L2Flood {
        L2Flood {
            shared,
            targets: Vec::with_capacity(interfaces + 1),
            sampling: VirtualSflow::default(),
        }
    }

    /// Finds where frames that came in by `if_index` go.
    fn aim(&mut self, domain: &BridgeDomain, if_index: u32, port: BridgePort) {
        self.targets.clear();
        let room = self.targets.capacity() - 1;
        let members = domain
            .members
            .iter()
            .filter(|m| m.if_index != if_index && !port.is_split_from(m.shg));
        if domain.bvi != IF_NONE && domain.bvi != if_index {
            self.targets.push(Target::Router(domain.bvi));
        }
        self.targets
            .extend(members.take(room).map(|m| Target::Port(m.if_index)));
    }

    /// Floods packets that came in by one port, the first of them at position `at`.
    fn run(&mut self, cx: &mut Ctx<'_>, packets: &[BufferIndex], at: usize, if_index: u32) {
        let shared = self.shared.clone();
        let bridges = shared.bridges.load(cx.rcu);
        let port = bridges.port(if_index);
        let domain = bridges.domain(port.domain).filter(|_| port.domain != 0);
        let Some(domain) = domain else {
            return drop_all(cx, packets, at, DropReason::L2NoBridge);
        };
        self.aim(domain, if_index, port);
        let Some((last, others)) = self.targets.split_last() else {
            return drop_all(cx, packets, at, DropReason::L2NoMember);
        };
        let sampling = &mut self.sampling;
        for target in others {
            copy_to(cx, sampling, packets, *target);
        }
        for (i, &b) in packets.iter().enumerate() {
            cx.next[at + i] = send(cx, sampling, b, *last);
        }
    }
}

/// Sends a copy of every packet to a target.
fn copy_to(cx: &mut Ctx<'_>, sampling: &mut VirtualSflow, packets: &[BufferIndex], target: Target) {
    let mut lost = 0;
    for &b in packets {
        let Some(copy) = cx.pool.duplicate(b) else {
            lost += 1;
            continue;
        };
        let next = send(cx, sampling, copy, target);
        cx.emit(next, copy);
    }
    cx.count_originated(packets.len() as u64);
    if lost != 0 {
        cx.counters.drop_unmade(cx.node, lost);
    }
}

/// Makes a packet one for a target, and says where it goes next.
fn send(cx: &mut Ctx<'_>, sampling: &mut VirtualSflow, b: BufferIndex, target: Target) -> u16 {
    match target {
        Target::Port(tx_if) => {
            cx.pool.meta_mut(b).tx_if = tx_if;
            CONTINUE
        }
        Target::Router(bvi) => {
            cx.receive(&[b], bvi);
            sampling.look(cx, b, bvi, HeaderProtocol::Ethernet);
            ETHERNET_INPUT
        }
    }
}

fn drop_all(cx: &mut Ctx<'_>, packets: &[BufferIndex], at: usize, reason: DropReason) {
    for (i, &b) in packets.iter().enumerate() {
        cx.drop_packet(at + i, b, reason);
    }
}

impl Node for L2Flood {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let mut at = 0;
        while at < frame.len() {
            let rest = &frame.packets()[at..];
            let came_by = |b: BufferIndex, cx: &Ctx<'_>| cx.pool.meta(b).scratch[0];
            let if_index = came_by(rest[0], cx);
            let run = rest.iter().position(|&b| came_by(b, cx) != if_index);
            let run = run.unwrap_or(rest.len());
            self.run(cx, &rest[..run], at, if_index);
            at += run;
        }
        (frame.rx_if, frame.tx_if) = (IF_MIXED, IF_MIXED);
        Dispatch::Each
    }

    fn message(&mut self, _cx: &mut Ctx<'_>, message: &mut (dyn Any + Send)) {
        self.sampling.message(message);
    }
}
