//! Outer IPv4 headers in front of many packets: what `tunnel-output` does with runs of plain ones.
//!
//! A plain packet lies in one buffer, was received, and is of a kind whose flow is found without a search. The header is put
//! together in words that hold all that is the same for every packet of the tunnel, and stored in as few pieces.

use std::net::IpAddr;

use parshall_buffer::{BufferIndex, IF_NONE, Meta, PoolView};
use parshall_fib::{Adjacency, Dpo, LoadBalance};

use crate::flow_hash::{hash4_usual, rehash_plain};
use crate::link;
use crate::tunnel::{Encap, GRE_TEB, PROTO_GRE, PROTO_IP4, PROTO_IP6, PROTO_UDP, TTL, TunnelKey};

/// Bytes of an Ethernet header without tags.
const ETHERNET: u16 = 14;
/// Bytes that a link-layer header is written by.
const LINK_ROOM: u16 = 16;
/// Bytes of an IPv4 header without options.
const IP4: u16 = 20;
/// Bytes that headers are written to: the link-layer header, then the longest of a tunnel.
const ROOM: usize = LINK_ROOM as usize + 36;
/// Where in them the IPv4 header begins, and where it ends.
const AT4: usize = LINK_ROOM as usize;
const BEHIND4: usize = AT4 + IP4 as usize;
/// How many packets before it comes to one the loop fetches what it will read and write of it, as if it lay where this one
/// does.
const AHEAD: usize = 8;
/// How the outer packets of a tunnel go on.
pub enum Way<'r> {
    /// They are looked up one by one.
    Lookup,
    /// All out by this adjacency.
    Adjacency(Dpo),
    /// The same, its link-layer address known: plain packets need no further node.
    Link(Dpo, &'r Adjacency),
    /// Each out by the adjacency of its flow.
    Spread(&'r LoadBalance),
}

impl Way<'_> {
    /// The adjacency of a flow.
    #[inline(always)]
    pub fn of(&self, hash: u32) -> Dpo {
        match self {
            Way::Lookup => Dpo::MISS,
            Way::Adjacency(dpo) | Way::Link(dpo, _) => *dpo,
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
        if let Way::Link(_, adj) = way {
            let out = Out {
                header: *adj.rewrite16(),
                tx_if: adj.tx_if(),
                mtu: adj.mtu(),
            };
            return self.sent().of(view, packets, &out, ident);
        }
        self.of(view, packets, way, ident)
    }

    /// The headers as they are sent, not as they are made: with the TTL that the rewrite would leave.
    #[inline(always)]
    fn sent(&self) -> Outer4 {
        Outer4 {
            second: self.second - (1 << 56),
            sum: self.sum - 0x100,
            ..*self
        }
    }

    #[inline(always)]
    fn of<G: Going>(
        &self,
        view: &mut PoolView<'_>,
        packets: &[BufferIndex],
        going: &G,
        ident: &mut u16,
    ) -> usize {
        match self.encap {
            Encap::Vxlan { .. } => self.each::<Vxlan, G>(view, packets, going, ident),
            Encap::GreTeb => self.each::<GreFrames, G>(view, packets, going, ident),
            Encap::Gre => self.each::<GrePackets, G>(view, packets, going, ident),
            Encap::Ip => self.each::<IpPackets, G>(view, packets, going, ident),
        }
    }

    #[inline(always)]
    fn each<C: Carried, G: Going>(
        &self,
        view: &mut PoolView<'_>,
        packets: &[BufferIndex],
        going: &G,
        ident: &mut u16,
    ) -> usize {
        // A copy on the stack: the compiler then knows that no write to a buffer changes it.
        let outer = *self;
        let mut id = *ident;
        let longest = going
            .longest()
            .saturating_sub(u64::from(C::HEADER - C::STRIPPED));
        for (i, &b) in packets.iter().enumerate() {
            let head = view.meta(b).head();
            let start = (head as u16).wrapping_add(C::STRIPPED);
            // Flags and reason lie above the length: a packet with any of them is longer than any.
            let room = C::HEADER + LINK_ROOM;
            let inner = match head >> 16 <= longest && start >= room {
                true => C::look(view, b, head),
                false => None,
            };
            let Some(inner) = inner else {
                *ident = id;
                return i;
            };
            let at = start - C::HEADER;
            if let Some(&later) = packets.get(i + AHEAD) {
                view.prefetch(later, start);
                view.prefetch(later, at);
            }
            let total = (head >> 16) as u16 + C::HEADER - C::STRIPPED;
            let room: &mut [u8; ROOM] = view.peek_mut(b, at - LINK_ROOM);
            outer.write4(room, (total, id), &inner);
            C::write(&outer, room, total - IP4, &inner);
            going.link(room);
            let m = view.meta_mut(b);
            // As many bytes more in front as the packet is longer; flags and reason stay zero.
            let more = u64::from(C::HEADER - C::STRIPPED + G::LINK);
            m.set_head(head + (more << 16) - more);
            (m.l2, m.l3) = (at, at);
            // A path for the outer flow is chosen by what tells inner flows apart.
            m.flow_hash = inner.hash;
            going.go(m, outer.table, inner.hash);
            id = id.wrapping_add(1);
        }
        *ident = id;
        packets.len()
    }

    /// Writes the IPv4 header, as [`TunnelView::write`](crate::tunnel::TunnelView::write) does.
    #[inline(always)]
    fn write4(&self, room: &mut [u8; ROOM], (total, ident): (u16, u16), inner: &Plain) {
        let sum = self.sum
            + u32::from(inner.class)
            + u32::from(total)
            + u32::from(ident)
            + u32::from(inner.ip);
        // Both halves added, with the carry (RFC 1071 section 4.1), come out in the upper one.
        let sum = sum.wrapping_add(sum.rotate_left(16)) >> 16;
        let first = self.first
            | u64::from(inner.class) << 48
            | u64::from(total) << 32
            | u64::from(ident) << 16;
        let second = self.second | u64::from(inner.ip) << 48 | u64::from(!sum as u16) << 32;
        room[AT4..AT4 + 8].copy_from_slice(&first.to_be_bytes());
        room[AT4 + 8..AT4 + 16].copy_from_slice(&second.to_be_bytes());
    }
}

/// What becomes of a packet that has its outer IPv4 header.
trait Going {
    /// Bytes of the link-layer header that is written here.
    const LINK: u16;
    /// Longest packet that may go so.
    fn longest(&self) -> u64;
    /// Writes the link-layer header.
    fn link(&self, room: &mut [u8; ROOM]);
    /// Writes down where a packet of flow `hash` goes, which belongs to `table`.
    fn go(&self, m: &mut Meta, table: u32, hash: u32);
}

impl Going for Way<'_> {
    const LINK: u16 = 0;
    #[inline(always)]
    fn longest(&self) -> u64 {
        u64::from(u16::MAX)
    }
    #[inline(always)]
    fn link(&self, _room: &mut [u8; ROOM]) {}
    #[inline(always)]
    fn go(&self, m: &mut Meta, table: u32, hash: u32) {
        (m.tx_if, m.table, m.dpo) = (IF_NONE, table, self.of(hash).bits());
    }
}

/// Out of an interface, with this link-layer header: no table and no object are asked any more.
struct Out {
    header: [u8; LINK_ROOM as usize],
    tx_if: u32,
    mtu: u16,
}

impl Going for Out {
    const LINK: u16 = link::HEADER;
    #[inline(always)]
    fn longest(&self) -> u64 {
        self.mtu.into()
    }
    #[inline(always)]
    fn link(&self, room: &mut [u8; ROOM]) {
        // One store of 16 bytes, two of them into the headroom.
        room[..AT4].copy_from_slice(&self.header);
    }
    #[inline(always)]
    fn go(&self, m: &mut Meta, _table: u32, _hash: u32) {
        m.tx_if = self.tx_if;
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
    /// Writes destination and what follows the IPv4 header, the latter `len` bytes with the packet.
    fn write(outer: &Outer4, room: &mut [u8; ROOM], len: u16, inner: &Plain);
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
    fn write(outer: &Outer4, room: &mut [u8; ROOM], len: u16, inner: &Plain) {
        // RFC 7348 section 5: of the dynamic ports, so that links and queues tell flows apart.
        let port = 0xC000 | inner.hash as u16 & 0x3FFF;
        let third = outer.third | u64::from(port) << 16;
        // Length, no checksum, the flag that there is a network identifier.
        let fourth = u64::from(len) << 48 | 0x08 << 24;
        room[BEHIND4 - 4..BEHIND4 + 4].copy_from_slice(&third.to_be_bytes());
        room[BEHIND4 + 4..BEHIND4 + 12].copy_from_slice(&fourth.to_be_bytes());
        room[BEHIND4 + 12..].copy_from_slice(&outer.last.to_be_bytes());
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
    fn write(outer: &Outer4, room: &mut [u8; ROOM], _: u16, _: &Plain) {
        room[BEHIND4 - 4..BEHIND4 + 4].copy_from_slice(&outer.third.to_be_bytes());
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
    fn write(outer: &Outer4, room: &mut [u8; ROOM], _: u16, inner: &Plain) {
        let third = outer.third | u64::from(inner.gre);
        room[BEHIND4 - 4..BEHIND4 + 4].copy_from_slice(&third.to_be_bytes());
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
    fn write(outer: &Outer4, room: &mut [u8; ROOM], _: u16, _: &Plain) {
        let to = (outer.third >> 32) as u32;
        room[BEHIND4 - 4..BEHIND4].copy_from_slice(&to.to_be_bytes());
    }
}

/// Bytes of a frame that the usual packet is known by: Ethernet, IPv4 without options, ports.
const USUAL: u16 = ETHERNET + 24;

/// The hash of the flow in an IP packet behind an Ethernet header, and whether it is IPv6; `None` = there is none in sight.
#[inline(always)]
fn look_inside(view: &PoolView<'_>, b: BufferIndex, head: u64) -> Option<(u32, bool)> {
    let start = head as u16;
    let kind: [u8; 2] = *view.peek(b, start.wrapping_add(ETHERNET - 2));
    let usual = hash4_usual(view.peek(b, start.wrapping_add(ETHERNET)));
    match usual {
        Some(hash) if kind == [8, 0] && head >> 16 >= u64::from(USUAL) => Some((hash, false)),
        _ => look_closer(view, b, head),
    }
}

/// An Ethernet frame of an IP packet; others are looked at one by one, as are those with VLAN tags.
#[inline(always)]
fn look_at_frame(view: &PoolView<'_>, b: BufferIndex, head: u64) -> Option<Plain> {
    let (hash, _) = look_inside(view, b, head)?;
    Some(Plain {
        hash,
        class: 0,
        ip: 0,
        gre: 0,
    })
}

/// An IP packet behind an Ethernet header that stands for its family.
#[inline(always)]
fn look_at_packet(view: &PoolView<'_>, b: BufferIndex, head: u64) -> Option<Plain> {
    let (hash, ip6) = look_inside(view, b, head)?;
    let h: &[u8; 2] = view.peek(b, (head as u16).wrapping_add(ETHERNET));
    let (class, ip, gre) = match ip6 {
        true => (h[0] << 4 | h[1] >> 4, PROTO_IP6, 0x86DD),
        false => (h[1], PROTO_IP4, 0x0800),
    };
    Some(Plain {
        hash,
        class: class & 0xFC,
        ip,
        gre,
    })
}

/// As [`look_inside`], for any IP packet whose fixed header is there.
#[inline(never)]
fn look_closer(view: &PoolView<'_>, b: BufferIndex, head: u64) -> Option<(u32, bool)> {
    let len = (head >> 16) as u16;
    let kind: &[u8; 2] = view.peek(b, (head as u16).wrapping_add(ETHERNET - 2));
    let ip6 = match u16::from_be_bytes(*kind) {
        0x0800 if len >= ETHERNET + 20 => false,
        0x86DD if len >= ETHERNET + 40 => true,
        _ => return None,
    };
    Some((rehash_plain(view, b, head, ETHERNET, ip6), ip6))
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
