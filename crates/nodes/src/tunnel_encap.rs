//! Outer IPv4 headers in front of many packets: what `tunnel-output` does with runs of plain ones.
//!
//! A plain packet lies in one buffer, was received, and is of a kind whose flow is found without a search. The header is put
//! together in words that hold all that is the same for every packet of the tunnel, and stored in as few pieces.

use std::net::IpAddr;

use parshall_buffer::{BufferIndex, IF_NONE, PoolView};
use parshall_fib::{Dpo, LoadBalance};

use crate::flow_hash::rehash_plain;
use crate::tunnel::{Encap, GRE_TEB, PROTO_GRE, PROTO_IP4, PROTO_IP6, PROTO_UDP, TTL, TunnelKey};

/// Bytes of an Ethernet header without tags.
const ETHERNET: u16 = 14;
/// Bytes that a link-layer header is written by.
const LINK_ROOM: u16 = 16;
/// Bytes of an IPv4 header without options.
const IP4: u16 = 20;
/// Longer packets are looked at one by one: with the longest header they may be more than an IPv4 packet can be.
const LONGEST: u64 = u16::MAX as u64 - 64;

/// How the outer packets of a tunnel go on.
pub enum Way<'r> {
    /// They are looked up one by one.
    Lookup,
    /// All out by this adjacency.
    Adjacency(Dpo),
    /// Each out by the adjacency of its flow.
    Spread(&'r LoadBalance),
}

impl Way<'_> {
    /// The adjacency of a flow.
    #[inline(always)]
    pub fn of(&self, hash: u32) -> Dpo {
        match self {
            Way::Lookup => Dpo::MISS,
            Way::Adjacency(dpo) => *dpo,
            Way::Spread(choice) => choice.pick(hash),
        }
    }
}

/// What is the same in all outer IPv4 headers of a tunnel: words as on the wire, read big-endian, what differs zero.
#[derive(Clone, Copy, Debug)]
pub struct Outer4 {
    encap: Encap,
    /// Index of the table that the outer packets are routed by.
    table: u32,
    /// Sum of the fixed 16-bit words of the IPv4 header.
    sum: u32,
    /// Version, class, length, identification, flags.
    first: u64,
    /// TTL, protocol, checksum, source.
    second: u64,
    /// Destination, and the first four bytes behind the IPv4 header.
    third: u64,
    /// Of VXLAN: network identifier.
    last: u32,
}

impl Outer4 {
    /// The headers of a tunnel between IPv4 addresses; `sum` is that of its IPv4 header's fixed words.
    pub fn new(key: &TunnelKey, sum: u32) -> Option<Outer4> {
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (key.local, key.remote) else {
            return None;
        };
        let (protocol, behind, last) = match key.encap {
            Encap::Vxlan { vni, port } => (PROTO_UDP, u32::from(port), vni << 8),
            Encap::Ip => (0, 0, 0),
            Encap::Gre => (PROTO_GRE, 0, 0),
            Encap::GreTeb => (PROTO_GRE, u32::from(GRE_TEB), 0),
        };
        Some(Outer4 {
            encap: key.encap,
            table: key.table,
            sum,
            first: 0x45 << 56,
            second: u64::from(TTL) << 56 | u64::from(protocol) << 48 | u64::from(u32::from(src)),
            third: u64::from(u32::from(dst)) << 32 | u64::from(behind),
            last,
        })
    }

    /// Puts headers in front of the plain packets that `packets` begins with; says how many. Identifications go on from
    /// `ident`.
    #[inline(always)]
    pub fn run(
        &self,
        view: &mut PoolView<'_>,
        packets: &[BufferIndex],
        way: &Way<'_>,
        ident: &mut u16,
    ) -> usize {
        match self.encap {
            Encap::Vxlan { .. } => self.each::<Vxlan>(view, packets, way, ident),
            Encap::GreTeb => self.each::<GreFrames>(view, packets, way, ident),
            Encap::Gre => self.each::<GrePackets>(view, packets, way, ident),
            Encap::Ip => self.each::<IpPackets>(view, packets, way, ident),
        }
    }

    #[inline(always)]
    fn each<C: Carried>(
        &self,
        view: &mut PoolView<'_>,
        packets: &[BufferIndex],
        way: &Way<'_>,
        ident: &mut u16,
    ) -> usize {
        // A copy on the stack: the compiler then knows that no write to a buffer changes it.
        let outer = *self;
        let mut id = *ident;
        for (i, &b) in packets.iter().enumerate() {
            let head = view.meta(b).head();
            let start = (head as u16).wrapping_add(C::STRIPPED);
            // Flags and reason lie above the length: a packet with any of them is longer than any.
            let room = C::HEADER + LINK_ROOM;
            let inner = match head >> 16 <= LONGEST && start >= room {
                true => C::look(view, b, head),
                false => None,
            };
            let Some(inner) = inner else {
                *ident = id;
                return i;
            };
            let at = start - C::HEADER;
            let total = (head >> 16) as u16 + C::HEADER - C::STRIPPED;
            outer.write4(view, b, at, (total, id), &inner);
            C::write(&outer, view, b, at + IP4, total - IP4, &inner);
            let m = view.meta_mut(b);
            m.set_head(u64::from(at) | u64::from(total) << 16);
            (m.l2, m.l3) = (at, at);
            // A path for the outer flow is chosen by what tells inner flows apart.
            (m.tx_if, m.flow_hash) = (IF_NONE, inner.hash);
            (m.dpo, m.table) = (way.of(inner.hash).bits(), outer.table);
            id = id.wrapping_add(1);
        }
        *ident = id;
        packets.len()
    }

    /// Writes the IPv4 header at offset `at`, as [`TunnelView::write`](crate::tunnel::TunnelView::write) does.
    #[inline(always)]
    fn write4(
        &self,
        view: &mut PoolView<'_>,
        b: BufferIndex,
        at: u16,
        (total, ident): (u16, u16),
        inner: &Plain,
    ) {
        let sum = self.sum
            + u32::from(inner.class)
            + u32::from(total)
            + u32::from(ident)
            + u32::from(inner.ip);
        let sum = (sum & 0xFFFF) + (sum >> 16);
        let sum = (sum & 0xFFFF) + (sum >> 16);
        let first = self.first
            | u64::from(inner.class) << 48
            | u64::from(total) << 32
            | u64::from(ident) << 16;
        let second = self.second | u64::from(inner.ip) << 48 | u64::from(!sum as u16) << 32;
        *view.peek_mut(b, at) = first.to_be_bytes();
        *view.peek_mut(b, at + 8) = second.to_be_bytes();
    }
}

/// What differs from packet to packet.
struct Plain {
    /// Hash of the flow inside.
    hash: u32,
    /// DSCP in the upper six bits.
    class: u8,
    /// IP protocol, where that depends on what is carried; else zero.
    ip: u8,
    /// GRE protocol, the same.
    gre: u16,
}

/// What differs by what a tunnel carries and how.
trait Carried {
    /// Bytes in front of what is carried.
    const HEADER: u16;
    /// Bytes that are taken off before: a link-layer header that stands for the kind of packet.
    const STRIPPED: u16;
    /// Looks at a packet in one buffer; `None` = it needs a closer look.
    fn look(view: &PoolView<'_>, b: BufferIndex, head: u64) -> Option<Plain>;
    /// Writes destination and what follows the IPv4 header, the latter `len` bytes with the packet, at offset `at`.
    fn write(
        outer: &Outer4,
        view: &mut PoolView<'_>,
        b: BufferIndex,
        at: u16,
        len: u16,
        inner: &Plain,
    );
}

struct Vxlan;
struct GreFrames;
struct GrePackets;
struct IpPackets;

impl Carried for Vxlan {
    const HEADER: u16 = IP4 + 16;
    const STRIPPED: u16 = 0;
    #[inline(always)]
    fn look(view: &PoolView<'_>, b: BufferIndex, head: u64) -> Option<Plain> {
        look_at_frame(view, b, head)
    }
    #[inline(always)]
    fn write(
        outer: &Outer4,
        view: &mut PoolView<'_>,
        b: BufferIndex,
        at: u16,
        len: u16,
        inner: &Plain,
    ) {
        // RFC 7348 section 5: of the dynamic ports, so that links and queues tell flows apart.
        let port = 0xC000 | inner.hash as u16 & 0x3FFF;
        let third = outer.third | u64::from(port) << 16;
        // Length, no checksum, the flag that there is a network identifier.
        let fourth = u64::from(len) << 48 | 0x08 << 24;
        *view.peek_mut(b, at - 4) = third.to_be_bytes();
        *view.peek_mut(b, at + 4) = fourth.to_be_bytes();
        *view.peek_mut(b, at + 12) = outer.last.to_be_bytes();
    }
}

impl Carried for GreFrames {
    const HEADER: u16 = IP4 + 4;
    const STRIPPED: u16 = 0;
    #[inline(always)]
    fn look(view: &PoolView<'_>, b: BufferIndex, head: u64) -> Option<Plain> {
        look_at_frame(view, b, head)
    }
    #[inline(always)]
    fn write(outer: &Outer4, view: &mut PoolView<'_>, b: BufferIndex, at: u16, _: u16, _: &Plain) {
        *view.peek_mut(b, at - 4) = outer.third.to_be_bytes();
    }
}

impl Carried for GrePackets {
    const HEADER: u16 = IP4 + 4;
    const STRIPPED: u16 = ETHERNET;
    #[inline(always)]
    fn look(view: &PoolView<'_>, b: BufferIndex, head: u64) -> Option<Plain> {
        look_at_packet(view, b, head).map(|p| Plain { ip: 0, ..p })
    }
    #[inline(always)]
    fn write(
        outer: &Outer4,
        view: &mut PoolView<'_>,
        b: BufferIndex,
        at: u16,
        _: u16,
        inner: &Plain,
    ) {
        let third = outer.third | u64::from(inner.gre);
        *view.peek_mut(b, at - 4) = third.to_be_bytes();
    }
}

impl Carried for IpPackets {
    const HEADER: u16 = IP4;
    const STRIPPED: u16 = ETHERNET;
    #[inline(always)]
    fn look(view: &PoolView<'_>, b: BufferIndex, head: u64) -> Option<Plain> {
        look_at_packet(view, b, head)
    }
    #[inline(always)]
    fn write(outer: &Outer4, view: &mut PoolView<'_>, b: BufferIndex, at: u16, _: u16, _: &Plain) {
        *view.peek_mut(b, at - 4) = ((outer.third >> 32) as u32).to_be_bytes();
    }
}

/// An Ethernet frame of an IP packet; others are looked at one by one, as are those with VLAN tags.
#[inline(always)]
fn look_at_frame(view: &PoolView<'_>, b: BufferIndex, head: u64) -> Option<Plain> {
    let ip6 = kind(view, b, head)?;
    Some(Plain {
        hash: rehash_plain(view, b, head, ETHERNET, ip6),
        class: 0,
        ip: 0,
        gre: 0,
    })
}

/// An IP packet behind an Ethernet header that stands for its family.
#[inline(always)]
fn look_at_packet(view: &PoolView<'_>, b: BufferIndex, head: u64) -> Option<Plain> {
    let ip6 = kind(view, b, head)?;
    let h: &[u8; 2] = view.peek(b, (head as u16).wrapping_add(ETHERNET));
    let (class, ip, gre) = match ip6 {
        true => (h[0] << 4 | h[1] >> 4, PROTO_IP6, 0x86DD),
        false => (h[1], PROTO_IP4, 0x0800),
    };
    Some(Plain {
        hash: rehash_plain(view, b, head, ETHERNET, ip6),
        class: class & 0xFC,
        ip,
        gre,
    })
}

/// Whether a frame holds an IPv6 packet, or an IPv4 packet; `None` = neither whole header is there.
#[inline(always)]
fn kind(view: &PoolView<'_>, b: BufferIndex, head: u64) -> Option<bool> {
    let len = (head >> 16) as u16;
    let kind: &[u8; 2] = view.peek(b, (head as u16).wrapping_add(ETHERNET - 2));
    match u16::from_be_bytes(*kind) {
        0x0800 if len >= ETHERNET + 20 => Some(false),
        0x86DD if len >= ETHERNET + 40 => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_hash::rehash;
    use crate::tunnel::{Inner, Tunnels, frame_hash};
    use parshall_buffer::{Flags, Pool};
    use parshall_wire::{MacAddr, PacketBuilder};

    const ENCAPS: [Encap; 4] = [
        Encap::Vxlan {
            vni: 0x0102_FFFE,
            port: 4789,
        },
        Encap::GreTeb,
        Encap::Gre,
        Encap::Ip,
    ];

    fn key(encap: Encap) -> TunnelKey {
        TunnelKey {
            local: "203.0.113.255".parse().unwrap(),
            remote: "255.254.253.252".parse().unwrap(),
            table: 7,
            encap,
        }
    }

    /// Frames that differ in what the headers depend on: family, class, ports or none, options, length.
    fn frames() -> Vec<Vec<u8>> {
        let eth = || PacketBuilder::ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
        let four = |i: u8| eth().ipv4([10, 0, 0, i].into(), [10, 1, 2, 3].into());
        let six = |i: u8| {
            let to = std::net::Ipv6Addr::from([i; 16]);
            eth().ipv6("2001:db8::1".parse().unwrap(), to)
        };
        let mut all = Vec::new();
        for i in 0..250u8 {
            let len = usize::from(i) * 8 % 1500;
            all.push(four(i).class(i).udp(u16::from(i), 9).payload_len(len));
            all.push(six(i).class(i).udp(u16::from(i), 9).payload_len(len));
            all.push(four(i).protocol(89.into()).payload_len(len));
        }
        let mut all: Vec<_> = all.iter().map(PacketBuilder::build).collect();
        let mut odd = all[600].clone();
        odd[14] = 0x4F;
        all.push(odd);
        let mut fragment = all[0].clone();
        fragment[21] = 1;
        all.push(fragment);
        all.push(all[0][..34].to_vec());
        all
    }

    #[test]
    fn a_run_is_what_one_by_one_would_be() {
        let mut pool = Pool::new(1024).unwrap();
        let frames = frames();
        for encap in ENCAPS {
            let tunnels = Tunnels::new([(3, key(encap))]);
            let view = tunnels.view(3).unwrap();
            let outer = view.outer4.unwrap();
            let packets: Vec<_> = frames
                .iter()
                .map(|f| pool.packet_from(f, 9).unwrap())
                .collect();
            let hash = |b, f: &[u8]| match encap.is_ethernet() {
                true => frame_hash(&pool, b),
                false => rehash(&pool, b, 14, f[12] == 0x86),
            };
            let hashes: Vec<_> = packets
                .iter()
                .zip(&frames)
                .map(|(&b, f)| hash(b, f))
                .collect();
            let mut ident = 0xFFF0;
            let way = Way::Adjacency(Dpo::from_bits(0x1000_0042));
            let done = outer.run(&mut pool.view(), &packets, &way, &mut ident);
            assert_eq!(done, packets.len());
            assert_eq!(ident, 0xFFF0u16.wrapping_add(done as u16));
            for (i, (&b, f)) in packets.iter().zip(&frames).enumerate() {
                let ip6 = f[12] == 0x86;
                let class = if ip6 { f[14] << 4 | f[15] >> 4 } else { f[15] };
                let (class, protocol) = match (encap, ip6) {
                    (Encap::Ip, false) => (class & 0xFC, 4),
                    (Encap::Ip, true) => (class & 0xFC, 41),
                    (Encap::Gre, false) => (class & 0xFC, 0x0800),
                    (Encap::Gre, true) => (class & 0xFC, 0x86DD),
                    _ => (0, 0),
                };
                let inner = Inner {
                    hash: hashes[i],
                    class,
                    protocol,
                    ident: 0xFFF0u16.wrapping_add(i as u16),
                };
                let carried = &f[if encap.is_ethernet() { 0 } else { 14 }..];
                let mut want = vec![0; usize::from(view.header_len())];
                let total = want.len() + carried.len();
                view.write(&mut want, total as u16, inner);
                want.extend(carried);
                assert_eq!(pool.bytes(b), want, "{encap:?} {i}");
                let m = pool.meta(b);
                assert_eq!((m.l2, m.l3, m.reason), (m.data, m.data, 0));
                assert_eq!(
                    (m.tx_if, m.rx_if, m.table, m.dpo),
                    (IF_NONE, 9, 7, 0x1000_0042)
                );
                assert_eq!((m.flow_hash, m.flags), (hashes[i], Flags(0)));
            }
            pool.free_bulk(&packets);
        }
    }

    #[test]
    fn a_run_ends_at_what_needs_a_closer_look() {
        let mut pool = Pool::new(8).unwrap();
        let good = frames().swap_remove(0);
        let [arp, tagged, short] = [[8, 6], [0x81, 0], [8, 0]].map(|kind| {
            let mut f = good.clone();
            f[12..14].copy_from_slice(&kind);
            f
        });
        for encap in ENCAPS {
            let outer = Outer4::new(&key(encap), 0).unwrap();
            for bad in 0..5 {
                let bytes: &[u8] = [&arp, &tagged, &short[..33], &good, &good][bad];
                let packets = [&good, bytes, &good].map(|f: &[u8]| pool.packet_from(f, 1).unwrap());
                let m = pool.meta_mut(packets[1]);
                match bad {
                    3 => m.flags = Flags::CHAINED,
                    4 => m.data = C_ROOM[usize::from(encap.is_ethernet())],
                    _ => {}
                }
                let before = *pool.meta(packets[1]);
                let mut ident = 5;
                let done = outer.run(&mut pool.view(), &packets, &Way::Lookup, &mut ident);
                assert_eq!((done, ident), (1, 6), "{encap:?} {bad}");
                assert_eq!(*pool.meta(packets[1]), before);
                pool.meta_mut(packets[1]).flags = Flags(0);
                pool.free_bulk(&packets);
            }
        }
    }

    /// Headroom that is too short for any of them: by packets, by frames.
    const C_ROOM: [u16; 2] = [IP4 + LINK_ROOM - ETHERNET - 1, IP4 + 4 + LINK_ROOM - 1];
}
