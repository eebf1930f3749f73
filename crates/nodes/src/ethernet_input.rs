//! `ethernet-input`: who a frame is for and what it carries (IEEE 802.3, RFC 894, RFC 2464).
//!
//! Frames of a cross-connected or bridged interface go on whole and unread. Otherwise the destination must be the
//! interface's own address or a group address (unless the interface is promiscuous), and the Ethernet
//! type chooses the next node. Usually every packet of a frame agrees, so the first pass assumes that:
//! it strips the header of each packet and collects any difference from the first; only a frame with
//! differences is classified packet by packet.
//!
//! Where an interface has sub-interfaces each frame is given to the one that its tags say (IEEE 802.1Q, 802.1ad; see
//! [`vlan`](crate::vlan)) and counted there too; frames that none takes stay with the interface itself, if it switches
//! or they have no VLAN.
//!
//! Drop reasons: `ethernet_too_short`, `l3_mac_mismatch`, `src_mac_multicast`, `unknown_ethertype`,
//! `unknown_vlan`, `llc_unsupported`, `interface_gone`, `interface_down`, `vlan_tag_missing`, `uc_dip_over_mc_dmac`.

use std::any::Any;
use std::sync::Arc;

use parshall_buffer::{BufferIndex, Frame, IF_MIXED, IF_NONE, Pool};
use parshall_counters::{DropReason, WorkerCounters};
use parshall_graph::wide::{Isa, WideNode};
use parshall_graph::{CONTINUE, Ctx, Dispatch, NodeSpec, TraceRecord};
use parshall_sample::HeaderProtocol;

use crate::sflow_virtual::VirtualSflow;
use crate::state::{IfTable, IfView, Shared, if_flags};
use crate::vlan::{FrameTags, is_tag};

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new(
    "ethernet-input",
    &["ip4-input", "ip6-input", "mpls-input", "arp-input"],
)
.starting("l2-input")
.by_interface()
.format(format_ethernet);

const IP4_INPUT: u16 = 0;
const IP6_INPUT: u16 = 1;
const MPLS_INPUT: u16 = 2;
const ARP_INPUT: u16 = 3;
/// Layer 2: the arc of its features, which ends at `l2-input`.
const L2_INPUT: u16 = CONTINUE;

/// Bytes of an Ethernet header without tags.
const HEADER: u16 = 14;
/// The low six bytes of a little-endian word: a MAC address.
const MAC_MASK: u64 = (1 << 48) - 1;
/// The group bit of an address so read.
const GROUP: u64 = 1;

/// The node.
pub struct EthernetInput {
    shared: Arc<Shared>,
    /// Sampling of sub-interfaces.
    sampling: VirtualSflow,
}

impl EthernetInput {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> EthernetInput {
        EthernetInput {
            shared,
            sampling: VirtualSflow::default(),
        }
    }
}

impl WideNode for EthernetInput {
    #[inline(always)]
    fn process<I: Isa>(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let interfaces = self.shared.interfaces(cx.rcu);
        if frame.rx_if == IF_MIXED {
            give(cx, interfaces, &mut self.sampling, frame);
            return Dispatch::Each;
        }
        let view = interfaces.view(frame.rx_if);
        if view.flags & if_flags::SPECIAL != 0 {
            if view.flags & (if_flags::SUBS | if_flags::RETAG) == 0 {
                return Dispatch::All(L2_INPUT);
            }
            give(cx, interfaces, &mut self.sampling, frame);
            return Dispatch::Each;
        }
        if let Some(next) = strip_alike(cx, frame, &view) {
            return Dispatch::All(next);
        }
        for (i, &b) in frame.packets().iter().enumerate() {
            let m = cx.pool.meta_mut(b);
            let header = u64::from(HEADER);
            m.set_head(m.head().wrapping_add(header << 16).wrapping_sub(header));
            classify(cx, i, b, &view);
        }
        Dispatch::Each
    }

    fn message(&mut self, _cx: &mut Ctx<'_>, message: &mut (dyn Any + Send)) {
        self.sampling.message(message);
    }
}

/// Packets of one sub-interface that are still to be counted there.
struct Batch {
    interface: u32,
    packets: u64,
    bytes: u64,
}

impl Batch {
    fn count(&mut self, cx: &Ctx<'_>) {
        if self.packets != 0
            && let Some(c) = cx.counters.interface(self.interface)
        {
            c.rx_packets.add(self.packets);
            c.rx_bytes.add(self.bytes);
        }
        (self.packets, self.bytes) = (0, 0);
    }
}

/// Gives each packet of a frame to the interface that its tags say, and judges it there.
#[inline(never)]
fn give(cx: &mut Ctx<'_>, interfaces: &IfTable, sampling: &mut VirtualSflow, frame: &mut Frame) {
    let mut batch = Batch {
        interface: IF_NONE,
        packets: 0,
        bytes: 0,
    };
    let mut common = None;
    let mut last = Last::default();
    for (i, &b) in frame.packets().iter().enumerate() {
        let m = *cx.pool.meta(b);
        let tags = FrameTags::of(cx.pool.peek(b, 0), m.len);
        let to = last.find(interfaces, m.rx_if, &tags);
        if to != m.rx_if {
            if to != batch.interface {
                batch.count(cx);
                batch.interface = to;
            }
            cx.pool.meta_mut(b).rx_if = to;
            batch.packets += 1;
            batch.bytes += u64::from(m.total_len());
            sampling.look(cx, b, to, HeaderProtocol::Ethernet);
        }
        take(cx, interfaces, (i, b), to, (to == m.rx_if, &tags));
        common = match common {
            None => Some(to),
            Some(c) if c == to => common,
            Some(_) => Some(IF_MIXED),
        };
    }
    batch.count(cx);
    frame.rx_if = common.unwrap_or(IF_MIXED);
}

/// Where the packet before went: often the next one goes there too.
#[derive(Default)]
struct Last {
    key: Option<(u32, FrameTags)>,
    to: u32,
}

impl Last {
    /// The interface that a frame with these tags belongs to: a sub-interface, or the one it came in on.
    #[inline(always)]
    fn find(&mut self, interfaces: &IfTable, rx_if: u32, tags: &FrameTags) -> u32 {
        let key = Some((rx_if, *tags));
        if self.key != key {
            self.key = key;
            let demux = interfaces.vlan(rx_if).demux.as_ref();
            self.to = demux.and_then(|d| d.find(tags)).unwrap_or(rx_if);
        }
        self.to
    }
}

/// Judges a packet of interface `of`; `own`: it is the one that the frame came in on.
#[inline(always)]
fn take(
    cx: &mut Ctx<'_>,
    interfaces: &IfTable,
    (i, b): (usize, BufferIndex),
    of: u32,
    (own, tags): (bool, &FrameTags),
) {
    let view = interfaces.view(of);
    if !own && !view.has(if_flags::UP) {
        return cx.drop_packet(i, b, DropReason::InterfaceDown);
    }
    if view.flags & if_flags::L2 != 0 {
        if view.has(if_flags::RETAG)
            && let Err(reason) = interfaces.vlan(of).rewrite_in.apply(cx.pool, b)
        {
            return cx.drop_packet(i, b, reason);
        }
        cx.next[i] = L2_INPUT;
        return;
    }
    if own && tags.count != 0 {
        return cx.drop_packet(i, b, DropReason::UnknownVlan);
    }
    classify_behind(cx, i, b, &view, 4 * u16::from(tags.present));
}

/// Strips the header of every packet; `Some` when all are for us and of one well-known type.
#[inline(always)]
fn strip_alike(cx: &mut Ctx<'_>, frame: &Frame, view: &IfView) -> Option<u16> {
    let first = ethertype(cx.pool.peek(*frame.packets().first()?, 0));
    // What the first two words of a frame shall be, where it matters: destination and group bit of the
    // source in the one, the type in the other.
    let expected = [view.mac, u64::from(first.swap_bytes()) << 32];
    let matters = [MAC_MASK | GROUP << 48, 0xFFFF << 32];
    const STRIPPED: u64 = HEADER as u64;
    let (mut differs, mut heads) = ([0; 2], 0);
    let mut pool = cx.pool.view();
    for &b in frame.packets() {
        let head = pool.meta(b).head();
        let (low, high) = halves(pool.peek(b, head as u16));
        differs[0] |= low ^ expected[0];
        differs[1] |= high ^ expected[1];
        // A frame that is too short borrows from its flags, which then are not zero.
        let head = head.wrapping_add(STRIPPED).wrapping_sub(STRIPPED << 16);
        heads |= head;
        let m = pool.meta_mut(b);
        m.set_head(head);
        m.l3 = head as u16;
    }
    if differs[0] & matters[0] | differs[1] & matters[1] | heads >> 32 != 0 {
        return None;
    }
    match first {
        0x0800 => Some(IP4_INPUT),
        0x86DD => Some(IP6_INPUT),
        0x8847 => Some(MPLS_INPUT),
        _ => None,
    }
}

/// Sixteen bytes as two words, read little-endian.
#[inline(always)]
pub fn halves(h: &[u8; 16]) -> (u64, u64) {
    let whole = u128::from_le_bytes(*h);
    (whole as u64, (whole >> 64) as u64)
}

#[inline(always)]
fn ethertype(h: &[u8; 16]) -> u16 {
    u16::from_be_bytes([h[12], h[13]])
}

/// Judges one packet of an interface that routes, whatever its tags.
#[inline(never)]
fn classify(cx: &mut Ctx<'_>, i: usize, b: BufferIndex, view: &IfView) {
    let tags = FrameTags::of(cx.pool.peek(b, 0), cx.pool.meta(b).len);
    if tags.count != 0 {
        // Not before the checks that hold for any frame.
        return classify_behind(cx, i, b, view, 0);
    }
    classify_behind(cx, i, b, view, 4 * u16::from(tags.present));
}

/// Judges one packet with `tags` bytes of tags that are no longer needed.
#[inline(always)]
fn classify_behind(cx: &mut Ctx<'_>, i: usize, b: BufferIndex, view: &IfView, tags: u16) {
    let m = cx.pool.meta_mut(b);
    if m.len < HEADER + tags {
        return cx.drop_packet(i, b, DropReason::EthernetTooShort);
    }
    let rx_if = m.rx_if;
    let h: [u8; 16] = *cx.pool.peek(b, 0);
    let dst = u64::from_le_bytes([h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]]) & MAC_MASK;
    let group = dst & GROUP != 0;
    let [a, z] = *cx.pool.peek(b, usize::from(tags) + 12);
    let ethertype = u16::from_be_bytes([a, z]);
    let header = HEADER + tags;
    if group {
        count_group(cx.counters, rx_if, dst == MAC_MASK);
    }
    if !view.has(if_flags::EXISTS) {
        return cx.drop_packet(i, b, DropReason::InterfaceGone);
    }
    if dst != view.mac && !group && !view.has(if_flags::PROMISC) {
        return cx.drop_packet(i, b, DropReason::NotOurMac);
    }
    if u64::from(h[6]) & GROUP != 0 {
        return cx.drop_packet(i, b, DropReason::SourceMacMulticast);
    }
    if group && is_unicast_ip(cx.pool, b, ethertype, usize::from(header)) {
        return cx.drop_packet(i, b, DropReason::UnicastInGroupFrame);
    }
    let m = cx.pool.meta_mut(b);
    m.data += header;
    m.len -= header;
    m.l3 = m.data;
    match ethertype {
        0x0800 => cx.next[i] = IP4_INPUT,
        0x86DD => cx.next[i] = IP6_INPUT,
        0x8847 => cx.next[i] = MPLS_INPUT,
        0x0806 => cx.next[i] = ARP_INPUT,
        t if is_tag(t) => cx.drop_packet(i, b, DropReason::UnknownVlan),
        ..0x0600 => cx.drop_packet(i, b, DropReason::LlcUnsupported),
        _ => cx.drop_packet(i, b, DropReason::UnknownEthertype),
    }
}

/// Whether a frame holds an IP packet to one host: in a frame to a group that is nobody's to forward (RFC
/// 1812 section 5.3.4), nor to answer.
fn is_unicast_ip(pool: &Pool, b: BufferIndex, ethertype: u16, at: usize) -> bool {
    match ethertype {
        0x0800 => pool.head::<1>(b, at + 16).is_some_and(|a| a[0] < 224),
        0x86DD => pool.head::<1>(b, at + 24).is_some_and(|a| a[0] != 0xFF),
        _ => false,
    }
}

/// Counts a frame received for a group.
pub fn count_group(counters: &WorkerCounters, rx_if: u32, broadcast: bool) {
    if let Some(c) = counters.interface(rx_if) {
        if broadcast {
            c.rx_broadcast.add(1)
        } else {
            c.rx_multicast.add(1)
        }
    }
}

/// A packet of a trace as an Ethernet frame.
pub fn format_ethernet(r: &TraceRecord) -> String {
    match parshall_wire::EthernetFrame::new_checked(r.bytes()) {
        Ok(f) => format!(
            "{} -> {} type 0x{:04x} length {}",
            f.src_addr(),
            f.dst_addr(),
            f.ethertype().0,
            r.total_len
        ),
        Err(_) => parshall_graph::hex_line(r),
    }
}
