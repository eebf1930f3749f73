//! Bonds: several interfaces as one. `bond-input` makes what a member receives the bond's, `bond-output` gives each
//! packet to a member that can send it (the modes are those of Linux and VPP).
//!
//! LACPDUs (IEEE 802.1AX) stay with the member: control is told of them. Which members can send is control's to say;
//! here is only chosen among those.
//!
//! Drop reasons: `bond_no_member`, `no_buffer_space`.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use parshall_buffer::{BufferIndex, Flags, Frame, IF_MIXED, IF_NONE, Pool};
use parshall_counters::DropReason;
use parshall_graph::{CONTINUE, Ctx, Dispatch, Feature, Node, NodeSpec};
use parshall_ring::Producer;
use parshall_sample::HeaderProtocol;
use parshall_wire::lacp::{self, Lacp};

use crate::event::Event;
use crate::sflow_virtual::VirtualSflow;
use crate::state::Shared;
use crate::vlan::is_tag;

/// Description of the node that receives.
pub const INPUT: NodeSpec = NodeSpec::new("bond-input", &[])
    .feature(Feature {
        arc: "device-input",
        before: &[],
        after: &["sflow", "pcap-rx"],
    })
    .by_interface();

/// Description of the node that sends.
pub const OUTPUT: NodeSpec = NodeSpec::new("bond-output", &[]).starting("interface-output");

/// Longest frame that can be sent on several members.
const LONGEST: usize = 65_535 + 64;

/// How a member is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// One after the other.
    RoundRobin,
    /// The first.
    #[default]
    First,
    /// All.
    All,
    /// By Ethernet addresses.
    Layer2,
    /// By Ethernet and IP addresses.
    Layer23,
    /// By IP addresses and ports.
    Layer34,
}

/// A bond as workers see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BondView {
    /// How a member is chosen.
    pub choice: Choice,
    /// Members that can send.
    pub members: Vec<u32>,
}

/// All bonds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BondViews {
    /// By bond.
    pub bonds: HashMap<u32, BondView>,
    /// Bond of each member.
    pub of_member: HashMap<u32, u32>,
}

/// The node that receives.
pub struct BondInput {
    shared: Arc<Shared>,
    events: Producer<Event>,
    sampling: VirtualSflow,
}

impl BondInput {
    /// Over this state, telling `events`.
    pub fn new(shared: Arc<Shared>, events: Producer<Event>) -> BondInput {
        BondInput {
            shared,
            events,
            sampling: VirtualSflow::default(),
        }
    }
}

/// Whether the packet is a LACPDU, which then is told of.
fn is_lacp(cx: &Ctx<'_>, b: BufferIndex, events: &mut Producer<Event>) -> bool {
    let head: &[u8; 16] = cx.pool.peek(b, 0);
    if head[12..15] != [0x88, 0x09, lacp::SUBTYPE] {
        return false;
    }
    let body = cx.pool.bytes(b).get(14..);
    if let Some(Ok(pdu)) = body.map(Lacp::parse) {
        let if_index = cx.pool.meta(b).rx_if;
        // A full ring loses the news; the partner will speak again.
        let _ = events.push(Event::Lacp { if_index, pdu });
    }
    true
}

impl Node for BondInput {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let bonds = self.shared.interfaces(cx.rcu).bonds();
        let mut common = None;
        let mut punted = false;
        for (i, &b) in frame.packets().iter().enumerate() {
            cx.next[i] = CONTINUE;
            if is_lacp(cx, b, &mut self.events) {
                cx.punt(i, b);
                punted = true;
                continue;
            }
            let member = cx.pool.meta(b).rx_if;
            let bond = bonds.of_member.get(&member).copied().unwrap_or(member);
            if bond != member {
                cx.receive(&[b], bond);
                self.sampling.look(cx, b, bond, HeaderProtocol::Ethernet);
            }
            common = match common {
                None => Some(bond),
                Some(c) if c == bond => common,
                Some(_) => Some(IF_MIXED),
            };
        }
        frame.rx_if = common.unwrap_or(IF_MIXED);
        if punted {
            Dispatch::Each
        } else {
            Dispatch::All(CONTINUE)
        }
    }

    fn message(&mut self, _cx: &mut Ctx<'_>, message: &mut (dyn Any + Send)) {
        self.sampling.message(message);
    }
}

/// The node that sends.
pub struct BondOutput {
    shared: Arc<Shared>,
    sender: Sender,
}

/// What sending needs to remember.
struct Sender {
    /// Packets sent round-robin.
    turn: usize,
    /// A frame that is copied.
    copied: Box<[u8]>,
}

impl BondOutput {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> BondOutput {
        BondOutput {
            shared,
            sender: Sender {
                turn: 0,
                copied: vec![0; LONGEST].into(),
            },
        }
    }
}

impl Sender {
    /// The member that sends a packet.
    #[inline(always)]
    fn choose(&mut self, pool: &Pool, b: BufferIndex, bond: &BondView) -> Option<u32> {
        let n = bond.members.len();
        let at = match bond.choice {
            _ if n < 2 => 0,
            Choice::First | Choice::All => 0,
            Choice::RoundRobin => {
                self.turn = self.turn.wrapping_add(1);
                self.turn % n
            }
            choice => ((u64::from(hash(pool, b, choice)) * n as u64) >> 32) as usize,
        };
        bond.members.get(at).copied()
    }

    /// Sends a copy on every member but the first.
    #[cold]
    fn copy(&mut self, cx: &mut Ctx<'_>, b: BufferIndex, bond: &BondView) {
        let m = *cx.pool.meta(b);
        let n = cx.pool.copy_out(b, &mut self.copied);
        for &member in bond.members.iter().skip(1) {
            cx.count_originated(1);
            let Some(copy) = cx.pool.packet_from(&self.copied[..n], m.rx_if) else {
                cx.counters.drop_unmade(cx.node, 1);
                continue;
            };
            let c = cx.pool.meta_mut(copy);
            (c.tx_if, c.nesting) = (member, m.nesting);
            c.flags.set(Flags::ORIGINATED);
            cx.emit(CONTINUE, copy);
        }
    }
}

impl Node for BondOutput {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let sender = &mut self.sender;
        let bonds = self.shared.interfaces(cx.rcu).bonds();
        let (mut common, mut dropped) = (None, false);
        let (mut last, mut bond) = (IF_NONE, None);
        for (i, &b) in frame.packets().iter().enumerate() {
            let tx_if = cx.pool.meta(b).tx_if;
            if tx_if != last || bond.is_none() {
                (last, bond) = (tx_if, bonds.bonds.get(&tx_if));
            }
            let Some((view, member)) = bond.and_then(|v| Some((v, sender.choose(cx.pool, b, v)?)))
            else {
                dropped = true;
                cx.drop_packet(i, b, DropReason::BondNoMember);
                continue;
            };
            if view.choice == Choice::All && view.members.len() > 1 {
                sender.copy(cx, b, view);
            }
            cx.pool.meta_mut(b).tx_if = member;
            cx.next[i] = CONTINUE;
            common = match common {
                None => Some(member),
                Some(c) if c == member => common,
                Some(_) => Some(IF_MIXED),
            };
        }
        frame.tx_if = common.unwrap_or(IF_MIXED);
        if dropped {
            Dispatch::Each
        } else {
            Dispatch::All(CONTINUE)
        }
    }
}

/// Mixes a word into a hash.
#[inline(always)]
fn mix(h: u64, word: u64) -> u64 {
    (h ^ word)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(29)
}

/// A number that the packets of a flow have in common.
#[inline]
fn hash(pool: &Pool, b: BufferIndex, choice: Choice) -> u32 {
    let frame = pool.bytes(b);
    let word = |at: usize, n: usize| {
        let bytes = frame.get(at..at + n).unwrap_or(&[]);
        bytes.iter().fold(0u64, |w, b| w << 8 | u64::from(*b))
    };
    let layer2 = mix(mix(1, word(0, 6)), word(6, 6));
    let mut at = 12;
    while frame
        .get(at..at + 2)
        .is_some_and(|t| is_tag(u16::from_be_bytes([t[0], t[1]])))
    {
        at += 4;
    }
    let ip = at + 2;
    let (addresses, ports) = match word(at, 2) {
        // Only the first fragment has ports, so none of a fragmented packet's are looked at.
        0x0800 => {
            let whole = word(ip + 6, 2) & 0x3FFF == 0;
            let header = 4 * (word(ip, 1) & 15) as usize;
            let has = whole && matches!(word(ip + 9, 1), 6 | 17 | 132);
            (mix(2, word(ip + 12, 8)), has.then_some(ip + header))
        }
        0x86DD => {
            let sum = (0..4).fold(3, |h, k| mix(h, word(ip + 8 + 8 * k, 8)));
            let has = matches!(word(ip + 6, 1), 6 | 17 | 132);
            (sum, has.then_some(ip + 40))
        }
        _ => (0, None),
    };
    let h = match (choice, addresses) {
        (Choice::Layer23, a) if a != 0 => mix(layer2, a),
        (Choice::Layer34, a) if a != 0 => ports.map_or(a, |p| mix(a, word(p, 4))),
        _ => layer2,
    };
    (mix(h, 0x5EED) >> 32) as u32
}
