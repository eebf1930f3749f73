//! `l2-fwd`: one pass of a bridge: sources are learned, destinations looked up (IEEE 802.1Q-2022 section 8.6). What
//! VPP does in `l2-learn`, `l2-fwd` and `l2-output`.
//!
//! The addresses of a whole frame are hashed first and their lines of the table fetched, then looked up; differences
//! from the usual are gathered without a branch. Usually there are none: every source is known here, every
//! destination elsewhere, and a packet costs two words looked up and one written. Otherwise packets are judged one by one.
//!
//! Drop reasons: `ethernet_too_short`, `src_mac_multicast`, `l2_no_bridge_domain`, `l2_reserved_mac`, `l2_filtered`,
//! `l2_mac_move_violation`, `interface_down`, `l2_same_port`, `l2_split_horizon`, `l2_unknown_unicast`, `l2_flood_off`, `l2_forward_off`.

use std::any::Any;
use std::sync::Arc;

use parshall_buffer::{BufferIndex, FRAME_SIZE, Frame, IF_MIXED, IF_NONE, Meta};
use parshall_counters::DropReason;
use parshall_fib::{MacEntry, MacKey, MacSpot, MacTable};
use parshall_graph::wide::{Isa, WideNode};
use parshall_graph::{CONTINUE, Ctx, Dispatch, NodeSpec};
use parshall_ring::Producer;
use parshall_sample::HeaderProtocol;

use crate::bridge::{BridgePort, PortRole, bridge_flags};
use crate::ethernet_input::{count_group, format_ethernet, halves};
use crate::event::Event;
use crate::l2_arp::{Arp, terminate};
use crate::l2_learn::Learner;
use crate::l2_nd;
use crate::sflow_virtual::VirtualSflow;
use crate::state::Shared;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("l2-fwd", &["l2-flood", "ethernet-input"])
    .starting("interface-output")
    .by_interface()
    .format(format_ethernet);

const L2_FLOOD: u16 = 0;
const ETHERNET_INPUT: u16 = 1;

const MAC_MASK: u64 = (1 << 48) - 1;
/// The group bits of a frame's first eight bytes: of destination and source.
const GROUPS: u64 = 1 | 1 << 48;
/// Addresses reserved for the link (IEEE 802.1Q-2022 table 8-1), but for the last byte's low half.
const RESERVED: u64 = u64::from_le_bytes([0x01, 0x80, 0xC2, 0, 0, 0, 0, 0]);
const RESERVED_MASK: u64 = MAC_MASK & !(0x0F << 40);

/// The node.
pub struct L2Fwd {
    bridging: Bridging,
}

/// The work, for frames that a port received and for those that the router sends into a domain.
pub struct Bridging {
    shared: Arc<Shared>,
    /// `None`: nothing is told.
    learner: Option<Learner>,
    src: Box<[MacSpot; FRAME_SIZE]>,
    dst: Box<[MacSpot; FRAME_SIZE]>,
    /// What the table says of sources and destinations, see [`MacEntry::bits`].
    from: Box<[u32; FRAME_SIZE]>,
    to: Box<[u32; FRAME_SIZE]>,
    /// Sampling of what the domains' routed interfaces receive.
    sampling: VirtualSflow,
}

/// Where a run of packets comes from.
#[derive(Clone, Copy)]
struct Ingress {
    if_index: u32,
    port: BridgePort,
}

impl Ingress {
    /// Whether sources are looked at.
    fn learns(&self) -> bool {
        self.port.has(bridge_flags::LEARN) && self.port.role == PortRole::Normal
    }
}

/// What is not as usual in a run.
struct Unusual {
    /// Packets must be judged one by one.
    any: bool,
    /// Some source is not marked as seen.
    unmarked: bool,
    /// Interface that all packets leave by, or [`IF_MIXED`].
    tx_if: u32,
}

impl Unusual {
    const ALL: Unusual = Unusual {
        any: true,
        unmarked: false,
        tx_if: IF_MIXED,
    };
}

impl L2Fwd {
    /// Over this state, telling new and moved stations.
    pub fn new(shared: Arc<Shared>, new: Producer<Event>, moved: Producer<Event>) -> L2Fwd {
        L2Fwd {
            bridging: Bridging::new(shared, Some(Learner::new(new, moved))),
        }
    }
}

impl WideNode for L2Fwd {
    #[inline(always)]
    fn process<I: Isa>(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        if frame.rx_if != IF_MIXED {
            return self.bridging.whole::<I>(cx, frame, frame.rx_if);
        }
        self.bridging.mixed::<I>(cx, frame, |m| m.rx_if)
    }

    fn message(&mut self, _cx: &mut Ctx<'_>, message: &mut (dyn Any + Send)) {
        self.bridging.sampling.message(message);
    }
}

impl Bridging {
    /// Over this state.
    pub fn new(shared: Arc<Shared>, learner: Option<Learner>) -> Bridging {
        Bridging {
            shared,
            learner,
            src: Box::new([MacSpot::default(); FRAME_SIZE]),
            dst: Box::new([MacSpot::default(); FRAME_SIZE]),
            from: Box::new([0; FRAME_SIZE]),
            to: Box::new([0; FRAME_SIZE]),
            sampling: VirtualSflow::default(),
        }
    }

    /// Bridges a frame that came in by the port `if_index`.
    #[inline(always)]
    pub fn whole<I: Isa>(
        &mut self,
        cx: &mut Ctx<'_>,
        frame: &mut Frame,
        if_index: u32,
    ) -> Dispatch {
        let unusual = self.run::<I>(cx, frame.packets(), 0, if_index);
        frame.tx_if = unusual.tx_if;
        if !unusual.any {
            return Dispatch::All(CONTINUE);
        }
        // Some may have gone up into the router, received on another interface now.
        frame.rx_if = IF_MIXED;
        Dispatch::Each
    }

    /// Bridges a frame of packets that came in by several ports, which `came_by` says.
    #[inline(always)]
    pub fn mixed<I: Isa>(
        &mut self,
        cx: &mut Ctx<'_>,
        frame: &mut Frame,
        came_by: impl Fn(&Meta) -> u32,
    ) -> Dispatch {
        let mut at = 0;
        while at < frame.len() {
            let rest = &frame.packets()[at..];
            let port = came_by(cx.pool.meta(rest[0]));
            let run = rest.iter().position(|&b| came_by(cx.pool.meta(b)) != port);
            let run = run.unwrap_or(rest.len());
            if !self.run::<I>(cx, &rest[..run], at, port).any {
                cx.next[at..at + run].fill(CONTINUE);
            }
            at += run;
        }
        (frame.rx_if, frame.tx_if) = (IF_MIXED, IF_MIXED);
        Dispatch::Each
    }

    /// Bridges packets that came in by the port `if_index`, the first of them at position `at` of the frame. Writes
    /// verdicts if the frame is not whole or anything is unusual.
    #[inline(always)]
    fn run<I: Isa>(
        &mut self,
        cx: &mut Ctx<'_>,
        packets: &[BufferIndex],
        at: usize,
        if_index: u32,
    ) -> Unusual {
        let shared = self.shared.clone();
        let ingress = Ingress {
            if_index,
            port: shared.bridges.load(cx.rcu).port(if_index),
        };
        if ingress.port.domain == 0 {
            for (i, &b) in packets.iter().enumerate() {
                cx.drop_packet(at + i, b, DropReason::L2NoBridge);
            }
            return Unusual::ALL;
        }
        let odd = self.hash_all(cx, packets, ingress.port.domain);
        let unusual = self.find_all::<I>(cx, packets, &ingress);
        let n = packets.len();
        if odd || unusual.any {
            cx.next[at..at + n].fill(CONTINUE);
            for (i, &b) in packets.iter().enumerate() {
                self.judge(cx, (at + i, i), b, &ingress);
            }
            return Unusual::ALL;
        }
        if unusual.unmarked {
            self.mark(n);
        }
        unusual
    }

    /// Marks those of the first `n` sources as seen that are not: known ones, of this port.
    #[inline(never)]
    fn mark(&self, n: usize) {
        for (from, src) in self.from.iter().zip(self.src.iter()).take(n) {
            if !MacEntry::from_bits(*from).has(MacEntry::SEEN) {
                self.shared.macs.touch(*src);
            }
        }
    }

    /// Hashes the addresses of all packets and fetches what the table has of them. Says whether there is a frame to or
    /// from a group, or one that is too short.
    #[inline(always)]
    fn hash_all(&mut self, cx: &mut Ctx<'_>, packets: &[BufferIndex], domain: u16) -> bool {
        let macs: &MacTable = &self.shared.macs;
        let view = cx.pool.view();
        let (mut groups, mut short) = (0, false);
        let spots = self.src.iter_mut().zip(self.dst.iter_mut());
        for ((src, dst), &b) in spots.zip(packets) {
            let m = view.meta(b);
            let (low, high) = halves(view.peek(b, m.data));
            groups |= low;
            short |= m.len < 14;
            *src = macs.spot(MacKey::of_word(domain, low >> 48 | high << 16));
            *dst = macs.spot(MacKey::of_word(domain, low));
            macs.prefetch(*src);
            macs.prefetch(*dst);
        }
        short | (groups & GROUPS != 0)
    }

    /// Looks all packets up and writes where they leave.
    #[inline(always)]
    fn find_all<I: Isa>(
        &mut self,
        cx: &mut Ctx<'_>,
        packets: &[BufferIndex],
        ingress: &Ingress,
    ) -> Unusual {
        let macs: &MacTable = &self.shared.macs;
        let bridges = self.shared.bridges.load(cx.rcu);
        let here = MacEntry::new(ingress.if_index, MacEntry::SEEN).bits();
        // Of sources nothing matters where they are not learned.
        let matters = match ingress.learns() {
            true => !MacEntry::STATIC,
            false => 0,
        };
        let mut view = cx.pool.view();
        let (mut differs, mut odd, mut split) = (0, 0, false);
        let first = find::<I>(macs, self.dst[0]).if_index();
        let mut others = 0;
        for (i, &b) in packets.iter().enumerate() {
            let i = i % FRAME_SIZE;
            let from = find::<I>(macs, self.src[i]);
            let to = find::<I>(macs, self.dst[i]);
            self.from[i] = from.bits();
            self.to[i] = to.bits();
            let tx_if = to.if_index();
            differs |= (from.bits() ^ here) & matters;
            odd |= to.bits() & (MacEntry::FILTER | MacEntry::BVI)
                | u32::from(!to.is_hit())
                | u32::from(tx_if == ingress.if_index);
            others |= tx_if ^ first;
            if ingress.port.shg != 0 {
                split |= ingress.port.is_split_from(bridges.port(tx_if).shg);
            }
            view.meta_mut(b).tx_if = tx_if;
        }
        let forwards = ingress.port.has(bridge_flags::FORWARD);
        Unusual {
            any: differs & !MacEntry::SEEN | odd != 0 || split || !forwards,
            unmarked: differs & MacEntry::SEEN != 0,
            tx_if: if others == 0 { first } else { IF_MIXED },
        }
    }

    /// The verdict for one packet, at position `i.0` of the frame and `i.1` of its run.
    #[inline(never)]
    fn judge(&mut self, cx: &mut Ctx<'_>, i: (usize, usize), b: BufferIndex, ingress: &Ingress) {
        let m = cx.pool.meta_mut(b);
        m.tx_if = IF_NONE;
        if m.len < 14 {
            return cx.drop_packet(i.0, b, DropReason::EthernetTooShort);
        }
        let at = m.data;
        let (low, high) = halves(cx.pool.view().peek(b, at));
        if low & 1 << 48 != 0 {
            return cx.drop_packet(i.0, b, DropReason::SourceMacMulticast);
        }
        if ingress.learns() {
            let key = MacKey::of_word(ingress.port.domain, low >> 48 | high << 16);
            if let Err(reason) = self.learn(cx, i.1, key, ingress) {
                return cx.drop_packet(i.0, b, reason);
            }
        }
        let done = match low & 1 != 0 {
            true => self.group(cx, i.0, b, low & MAC_MASK, ingress),
            false => self.unicast(cx, i.0, b, MacEntry::from_bits(self.to[i.1]), ingress),
        };
        if let Err(reason) = done {
            cx.drop_packet(i.0, b, reason);
        }
    }

    /// Looks at the source of the packet at position `i` of its run.
    fn learn(
        &mut self,
        cx: &mut Ctx<'_>,
        i: usize,
        key: MacKey,
        ingress: &Ingress,
    ) -> Result<(), DropReason> {
        let (entry, spot) = (MacEntry::from_bits(self.from[i]), self.src[i]);
        if entry.has(MacEntry::FILTER) {
            return Err(DropReason::L2Filtered);
        }
        if entry.is_hit() && entry.if_index() == ingress.if_index {
            if !entry.has(MacEntry::SEEN) {
                self.shared.macs.touch(spot);
            }
            return Ok(());
        }
        if entry.is_hit() && !entry.is_learned() {
            return Err(DropReason::L2MacMoved);
        }
        if let Some(learner) = &mut self.learner {
            learner.tell(key, spot, ingress.if_index, entry.is_hit(), cx.now);
        }
        Ok(())
    }

    /// A frame to one station, of which the table says `to`.
    fn unicast(
        &mut self,
        cx: &mut Ctx<'_>,
        i: usize,
        b: BufferIndex,
        to: MacEntry,
        ingress: &Ingress,
    ) -> Result<(), DropReason> {
        let port = &ingress.port;
        if !port.has(bridge_flags::FORWARD) {
            return Err(DropReason::L2ForwardOff);
        }
        if !to.is_hit() {
            return self.unknown(cx, i, b, ingress);
        }
        if to.has(MacEntry::FILTER) {
            return Err(DropReason::L2Filtered);
        }
        let tx_if = to.if_index();
        if tx_if == ingress.if_index {
            return Err(DropReason::L2SamePort);
        }
        let bridges = self.shared.bridges.load(cx.rcu);
        if to.has(MacEntry::BVI) {
            if bridges.domain(port.domain).map(|d| d.bvi) != Some(tx_if) {
                return Err(DropReason::InterfaceDown);
            }
            cx.receive(&[b], tx_if);
            self.sampling.look(cx, b, tx_if, HeaderProtocol::Ethernet);
            cx.next[i] = ETHERNET_INPUT;
            return Ok(());
        }
        if port.is_split_from(bridges.port(tx_if).shg) {
            return Err(DropReason::L2SplitHorizon);
        }
        cx.pool.meta_mut(b).tx_if = tx_if;
        Ok(())
    }

    /// A frame to a station that is not known.
    fn unknown(
        &mut self,
        cx: &mut Ctx<'_>,
        i: usize,
        b: BufferIndex,
        ingress: &Ingress,
    ) -> Result<(), DropReason> {
        let bridges = self.shared.bridges.load(cx.rcu);
        let uu_fwd = bridges
            .domain(ingress.port.domain)
            .map_or(IF_NONE, |d| d.uu_fwd);
        if uu_fwd != IF_NONE {
            if uu_fwd == ingress.if_index {
                return Err(DropReason::L2SamePort);
            }
            cx.pool.meta_mut(b).tx_if = uu_fwd;
            return Ok(());
        }
        if !ingress.port.has(bridge_flags::UU_FLOOD) {
            return Err(DropReason::L2UnknownUnicast);
        }
        flood(cx, i, b, ingress);
        Ok(())
    }

    /// A frame to a group.
    fn group(
        &mut self,
        cx: &mut Ctx<'_>,
        i: usize,
        b: BufferIndex,
        mac: u64,
        ingress: &Ingress,
    ) -> Result<(), DropReason> {
        count_group(cx.counters, ingress.if_index, mac == MAC_MASK);
        if mac & RESERVED_MASK == RESERVED {
            return Err(DropReason::L2Reserved);
        }
        let arp = bridge_flags::ARP_TERM | bridge_flags::ARP_UFWD;
        if ingress.port.has(arp) {
            let bridges = self.shared.bridges.load(cx.rcu);
            let domain = bridges.domain(ingress.port.domain);
            match terminate(cx, i, b, domain, ingress.port, ingress.if_index) {
                Arp::NotKnown if ingress.port.has(bridge_flags::ARP_TERM) => {
                    if l2_nd::terminate(cx, i, b, domain, ingress.if_index) {
                        return Ok(());
                    }
                }
                Arp::NotKnown => {}
                Arp::Answered => return Ok(()),
                Arp::Belongs(mac) => {
                    let spot = self.shared.macs.spot(MacKey::new(ingress.port.domain, mac));
                    let to = self.shared.macs.find(spot);
                    return self.unicast(cx, i, b, to, ingress);
                }
            }
        }
        if !ingress.port.has(bridge_flags::FLOOD) {
            return Err(DropReason::L2FloodOff);
        }
        flood(cx, i, b, ingress);
        Ok(())
    }
}

/// Sends a packet to `l2-flood`, which is told the port it came in by.
fn flood(cx: &mut Ctx<'_>, i: usize, b: BufferIndex, ingress: &Ingress) {
    cx.pool.meta_mut(b).scratch[0] = ingress.if_index;
    cx.next[i] = L2_FLOOD;
}

#[inline(always)]
fn find<I: Isa>(macs: &MacTable, spot: MacSpot) -> MacEntry {
    #[cfg(target_arch = "x86_64")]
    {
        if I::AVX512 {
            // SAFETY: this level is chosen only on CPUs that have it.
            return unsafe { macs.find_wide::<512>(spot) };
        }
        if I::AVX2 {
            // SAFETY: this level is chosen only on CPUs that have it.
            return unsafe { macs.find_wide::<256>(spot) };
        }
    }
    macs.find(spot)
}
