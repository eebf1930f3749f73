//! `ip4-icmp-error` and `ip6-icmp-error`: answer a packet that is dropped with the ICMP error it deserves.
//!
//! RFC 792, RFC 1812 section 4.3.2 (what may be answered, with what source and how often), RFC 4443
//! section 2.4. Another node decides that a packet is dropped and [`ask`]s; here the error is built in a
//! buffer of its own, unless it is not allowed, too many were sent or no buffer is free. Either way the
//! packet goes on to be dropped, for the reason given and as that node's drop: who watches drops sees it.

use std::any::Any;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use parshall_buffer::{BufferIndex, Flags, Frame, HEADROOM, IF_NONE, Meta};
use parshall_counters::DropReason;
use parshall_graph::{Ctx, DROP, Dispatch, Node, NodeSpec};
use parshall_wire::{
    EtherType, EthernetRepr, Icmpv4ErrorBuilder, Icmpv4ErrorKind, Icmpv4TimeExceeded,
    Icmpv4Unreachable, Icmpv6ErrorBuilder, Icmpv6ErrorKind, Icmpv6ParamProblem, Icmpv6TimeExceeded,
    Icmpv6Unreachable, MacAddr,
};

use crate::link::{answer_header, sender_mac};
use crate::state::{IfTable, Shared};
use crate::trace::{format_ip4, format_ip6};

/// Description of the IPv4 node.
pub const SPEC4: NodeSpec = NodeSpec::new("ip4-icmp-error", &["ip4-lookup"])
    .on_behalf()
    .format(format_ip4);
/// Description of the IPv6 node.
pub const SPEC6: NodeSpec = NodeSpec::new("ip6-icmp-error", &["ip6-lookup", "interface-output"])
    .on_behalf()
    .format(format_ip6);

const LOOKUP: u16 = 0;
const INTERFACE_OUTPUT: u16 = 1;
/// TTL and hop limit of errors.
const TTL: u8 = 64;
/// Errors a worker sends at most, per second and at once (RFC 1812 section 4.3.2.8).
const RATE: u64 = 1000;
const BURST: u64 = 100;
/// Time between two errors at that rate, in ns.
const INTERVAL: u64 = 1_000_000_000 / RATE;
/// Longest error: an IPv6 packet that fits every link (RFC 4443 section 2.4 (c)).
const LONGEST: usize = 1280;

/// Which error to send: written into the packet's scratch words by [`ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpAsk {
    kind: u32,
    data: u32,
}

macro_rules! asks {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty)?) = $kind:literal;)*) => {
        impl IcmpAsk {
            $($(#[$doc])* pub fn $name($($arg: $ty)?) -> IcmpAsk {
                #[allow(unused_mut, unused_assignments)]
                let mut data = 0;
                $(data = u32::from($arg);)?
                IcmpAsk { kind: $kind, data }
            })*
        }
    };
}

asks! {
    /// IPv4: no route.
    net_unreachable4() = 0;
    /// IPv4: the last hop does not resolve, or an unreachable route.
    host_unreachable4() = 1;
    /// IPv4: nobody here speaks that protocol.
    protocol_unreachable4() = 2;
    /// IPv4: nobody listens on that port.
    port_unreachable4() = 3;
    /// IPv4: too big for a link of this MTU.
    fragmentation_needed4(mtu: u16) = 4;
    /// IPv4: prohibited by configuration.
    prohibited4() = 5;
    /// IPv4: TTL expired on the way.
    time_exceeded4() = 6;
    /// IPv4: not all fragments came in time.
    reassembly_time_exceeded4() = 7;
    /// IPv6: no route.
    no_route6() = 10;
    /// IPv6: prohibited by configuration.
    prohibited6() = 11;
    /// IPv6: the source may not leave its link.
    beyond_scope6() = 12;
    /// IPv6: the last hop does not resolve, or an unreachable route.
    address_unreachable6() = 13;
    /// IPv6: nobody listens on that port.
    port_unreachable6() = 14;
    /// IPv6: too big for a link of this MTU.
    packet_too_big6(mtu: u16) = 15;
    /// IPv6: hop limit expired on the way.
    time_exceeded6() = 16;
    /// IPv6: the next header at this offset is not known here.
    unknown_next_header6(offset: u16) = 17;
    /// IPv6: not all fragments came in time.
    reassembly_time_exceeded6() = 18;
}

impl IcmpAsk {
    fn kind4(self) -> Icmpv4ErrorKind {
        use Icmpv4Unreachable::{FragmentationNeeded, Host, Net, Port, Prohibited, Protocol};
        let unreachable = match self.kind {
            0 => Net,
            2 => Protocol,
            3 => Port,
            4 => FragmentationNeeded {
                mtu: self.data as u16,
            },
            5 => Prohibited,
            6 => return Icmpv4ErrorKind::TimeExceeded(Icmpv4TimeExceeded::Ttl),
            7 => return Icmpv4ErrorKind::TimeExceeded(Icmpv4TimeExceeded::Reassembly),
            _ => Host,
        };
        Icmpv4ErrorKind::Unreachable(unreachable)
    }

    fn kind6(self) -> Icmpv6ErrorKind {
        use Icmpv6Unreachable::{Address, BeyondScope, NoRoute, Port, Prohibited};
        let unreachable = match self.kind {
            10 => NoRoute,
            11 => Prohibited,
            12 => BeyondScope,
            14 => Port,
            15 => return Icmpv6ErrorKind::PacketTooBig { mtu: self.data },
            16 => return Icmpv6ErrorKind::TimeExceeded(Icmpv6TimeExceeded::HopLimit),
            18 => return Icmpv6ErrorKind::TimeExceeded(Icmpv6TimeExceeded::Reassembly),
            17 => {
                let problem = Icmpv6ParamProblem::NextHeader;
                return Icmpv6ErrorKind::ParamProblem {
                    problem,
                    pointer: self.data,
                };
            }
            _ => Address,
        };
        Icmpv6ErrorKind::Unreachable(unreachable)
    }
}

/// What the error nodes can be told by a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpSettings {
    /// Packets that have no route, or whose next hop does not answer, are dropped without a word, as VPP does; else with
    /// Destination Unreachable (RFC 1812 section 4.3.3.1, RFC 4443 section 3.1).
    pub silent: bool,
}

impl IcmpSettings {
    /// What routers do that are told nothing.
    const DEFAULT: IcmpSettings = IcmpSettings { silent: false };

    fn is_silent_about(self, meta: &Meta) -> bool {
        let no_way = [DropReason::NoRoute, DropReason::UnresolvedNeighbor];
        self.silent && no_way.iter().any(|r| r.code() == meta.reason)
    }

    fn take(&mut self, message: &mut (dyn Any + Send)) {
        if let Some(s) = message.downcast_ref() {
            *self = *s;
        }
    }
}

/// Says why packet `b` is dropped and which error it deserves; the caller sends it to the error node.
pub fn ask(cx: &mut Ctx<'_>, b: BufferIndex, reason: DropReason, error: IcmpAsk) {
    cx.give_up(b, reason);
    cx.pool.meta_mut(b).scratch = [error.kind, error.data];
}

/// A token bucket on the worker's clock.
struct Limit {
    tokens: u64,
    filled: u64,
}

impl Limit {
    fn new() -> Limit {
        Limit {
            tokens: BURST,
            filled: 0,
        }
    }

    fn take(&mut self, now: u64) -> bool {
        let more = now.saturating_sub(self.filled) / INTERVAL;
        self.tokens = BURST.min(self.tokens.saturating_add(more));
        // The part of an interval that is left over counts next time.
        self.filled += more * INTERVAL;
        let ok = self.tokens != 0;
        self.tokens -= u64::from(ok);
        ok
    }
}

/// Whether the packet may be answered as far as the link is concerned: received, not made by the router
/// itself, and not in a frame to a group.
fn came_alone(cx: &Ctx<'_>, b: BufferIndex) -> bool {
    let (m, room) = cx.pool.parts(b);
    let group = room
        .get(usize::from(m.l2))
        .is_some_and(|first| first & 1 != 0);
    let forbidden = m.flags.has(Flags::ORIGINATED);
    m.rx_if != IF_NONE && !forbidden && (m.l2 == m.l3 || !group)
}

/// Makes a packet of the router that `emit` writes, `headers` bytes and the first `keep` bytes of packet `b` behind
/// them; `None` when there is no buffer, or `emit` fails.
fn error_about<E>(
    cx: &mut Ctx<'_>,
    b: BufferIndex,
    (headers, keep): (usize, usize),
    emit: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Option<BufferIndex> {
    let mut bytes = [0; LONGEST];
    let error = bytes.get_mut(..headers + keep)?;
    cx.pool.copy_out(b, &mut error[headers..]);
    emit(error).ok()?;
    let original = *cx.pool.meta(b);
    let made = cx.pool.packet_from(error, original.rx_if)?;
    // The table it is looked up in, and its identity in a trace, are those of the packet.
    let mut flags = original.flags;
    flags.clear(Flags::CHAINED);
    flags.set(Flags::ORIGINATED);
    *cx.pool.meta_mut(made) = Meta {
        flags,
        table: original.table,
        trace: original.trace,
        ..Meta::received(HEADROOM as u16, error.len() as u16, original.rx_if)
    };
    cx.count_originated(1);
    Some(made)
}

/// The IPv4 node.
pub struct Ip4IcmpError {
    shared: Arc<Shared>,
    limit: Limit,
    settings: IcmpSettings,
    ident: u16,
}

impl Ip4IcmpError {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> Ip4IcmpError {
        Ip4IcmpError {
            shared,
            limit: Limit::new(),
            settings: IcmpSettings::DEFAULT,
            ident: 0,
        }
    }

    /// Sends the error, unless there must not be one.
    fn answer(&mut self, cx: &mut Ctx<'_>, b: BufferIndex) -> Option<()> {
        let m = *cx.pool.meta(b);
        if self.settings.is_silent_about(&m) {
            return None;
        }
        let original = cx.pool.bytes(b);
        let length = original.len();
        let src_addr = source4(self.shared.interfaces(cx.rcu), m.rx_if)?;
        let allowed = Icmpv4ErrorBuilder::may_be_sent_about(original) && came_alone(cx, b);
        if !allowed || !self.limit.take(cx.now) {
            return None;
        }
        self.ident = self.ident.wrapping_add(1);
        let [kind, data] = m.scratch;
        let error = Icmpv4ErrorBuilder {
            src_addr,
            kind: IcmpAsk { kind, data }.kind4(),
            ttl: TTL,
            ident: self.ident,
        };
        let keep = Icmpv4ErrorBuilder::quoted_len(length);
        let made = error_about(cx, b, (Icmpv4ErrorBuilder::HEADERS_LEN, keep), |p| {
            error.emit_in_place(p)
        })?;
        cx.emit(LOOKUP, made);
        Some(())
    }
}

impl Node for Ip4IcmpError {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        for &b in frame.packets() {
            self.answer(cx, b);
        }
        Dispatch::All(DROP)
    }

    fn message(&mut self, _cx: &mut Ctx<'_>, message: &mut (dyn Any + Send)) {
        self.settings.take(message);
    }
}

/// The IPv6 node.
pub struct Ip6IcmpError {
    shared: Arc<Shared>,
    limit: Limit,
    settings: IcmpSettings,
}

impl Ip6IcmpError {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> Ip6IcmpError {
        Ip6IcmpError {
            shared,
            limit: Limit::new(),
            settings: IcmpSettings::DEFAULT,
        }
    }

    /// Sends the error, unless there must not be one.
    fn answer(&mut self, cx: &mut Ctx<'_>, b: BufferIndex) -> Option<()> {
        let m = *cx.pool.meta(b);
        if self.settings.is_silent_about(&m) {
            return None;
        }
        let interfaces = self.shared.interfaces(cx.rcu);
        let original = cx.pool.bytes(b);
        let length = original.len();
        let direct = from_link_local(original);
        let src_addr = source6(interfaces, m.rx_if, direct)?;
        let link = EthernetRepr {
            dst_addr: sender_mac(cx.pool, b),
            src_addr: MacAddr(interfaces.view(m.rx_if).mac_bytes()),
            ethertype: EtherType::IPV6,
        };
        let [kind, data] = m.scratch;
        let error = Icmpv6ErrorBuilder {
            src_addr,
            kind: IcmpAsk { kind, data }.kind6(),
            hop_limit: TTL,
        };
        // Path-MTU discovery works for multicast too (RFC 4443 section 2.4 (e.3)).
        let too_big = matches!(error.kind, Icmpv6ErrorKind::PacketTooBig { .. });
        let allowed = error.may_be_sent_about(original) && (too_big || came_alone(cx, b));
        if !allowed || !self.limit.take(cx.now) {
            return None;
        }
        let keep = Icmpv6ErrorBuilder::quoted_len(length);
        let made = error_about(cx, b, (Icmpv6ErrorBuilder::HEADERS_LEN, keep), |p| {
            error.emit_in_place(p)
        })?;
        if !direct {
            cx.emit(LOOKUP, made);
            return Some(());
        }
        // No table knows link-local addresses: the error goes to where the packet came from. A buffer of our own has
        // room for the header.
        cx.pool.meta_mut(made).tx_if = m.rx_if;
        answer_header(cx.pool, made, &link);
        cx.emit(INTERFACE_OUTPUT, made);
        Some(())
    }
}

impl Node for Ip6IcmpError {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        for &b in frame.packets() {
            self.answer(cx, b);
        }
        Dispatch::All(DROP)
    }

    fn message(&mut self, _cx: &mut Ctx<'_>, message: &mut (dyn Any + Send)) {
        self.settings.take(message);
    }
}

/// The source of errors about packets of an interface: its first address, else any of the router's
/// (RFC 1812 section 4.3.2.4).
fn source4(interfaces: &IfTable, rx_if: u32) -> Option<Ipv4Addr> {
    let own = interfaces.addresses(rx_if).and_then(|a| a.ip4.first());
    own.or_else(|| interfaces.iter().find_map(|(_, _, a)| a.ip4.first()))
        .map(|(a, _)| *a)
}

/// Whether an IPv6 packet has a link-local source.
fn from_link_local(original: &[u8]) -> bool {
    original
        .get(8..10)
        .is_some_and(|s| s[0] == 0xFE && s[1] & 0xC0 == 0x80)
}

/// As [`source4`]; a packet from a link-local source is answered from the link-local address.
fn source6(interfaces: &IfTable, rx_if: u32, from_link_local: bool) -> Option<Ipv6Addr> {
    let addresses = interfaces.addresses(rx_if)?;
    let global = addresses
        .ip6
        .first()
        .or_else(|| interfaces.iter().find_map(|(_, _, a)| a.ip6.first()));
    match global {
        Some((a, _)) if !from_link_local => Some(*a),
        _ => addresses.link_local,
    }
}
