//! Checksums over packets that may lie in several buffers.

use std::net::Ipv6Addr;

use parshall_buffer::{BufferIndex, Pool};
use parshall_wire::checksum::{Checksum, pseudo_v6};
use parshall_wire::{IpProtocol, Ipv6Packet};

/// Adds a packet's bytes from `offset` on to `sum`, piece by piece, and folds it.
fn add_parts(pool: &Pool, b: BufferIndex, offset: usize, sum: Checksum) -> u16 {
    let mut sum = sum;
    let mut skip = offset;
    let mut odd = false;
    pool.for_each_part(b, |part| {
        let part = &part[skip.min(part.len())..];
        skip = 0;
        // A piece that starts at an odd place has its bytes in the other half of the words: RFC 1071
        // section 2(B), byte order independence.
        let piece = !parshall_wire::checksum::checksum(part);
        sum.add_u16(if odd { piece.swap_bytes() } else { piece });
        odd ^= part.len() % 2 == 1;
    });
    sum.finish()
}

/// Whether the checksum over a packet's bytes from `offset` on is right.
pub fn checksum_ok(pool: &Pool, b: BufferIndex, offset: usize) -> bool {
    add_parts(pool, b, offset, Checksum::new()) == 0
}

/// The checksum of the UDP datagram behind an IPv6 header of 40 bytes, its field being zero.
pub fn udp6_checksum(pool: &Pool, b: BufferIndex) -> u16 {
    let header: &[u8; 40] = pool.peek(b, 0);
    let ip = Ipv6Packet::new_unchecked(&header[..]);
    let (src, dst): (Ipv6Addr, Ipv6Addr) = (ip.src_addr(), ip.dst_addr());
    let len = pool.meta(b).total_len().saturating_sub(40);
    match add_parts(pool, b, 40, pseudo_v6(&src, &dst, IpProtocol::UDP, len)) {
        // RFC 768: zero means that there is none.
        0 => 0xFFFF,
        sum => sum,
    }
}

/// Whether the checksum of the ICMP message behind an IPv4 header of `header_len` bytes is right.
pub fn icmp4_checksum_ok(pool: &Pool, b: BufferIndex, header_len: usize) -> bool {
    add_parts(pool, b, header_len, Checksum::new()) == 0
}

/// Whether the checksum of the ICMPv6 message at `offset` of an IPv6 packet is right.
pub fn icmp6_checksum_ok(pool: &Pool, b: BufferIndex, offset: usize) -> bool {
    let header: &[u8; 40] = pool.peek(b, 0);
    let ip = Ipv6Packet::new_unchecked(&header[..]);
    let (src, dst): (Ipv6Addr, Ipv6Addr) = (ip.src_addr(), ip.dst_addr());
    let len = pool.meta(b).total_len().saturating_sub(offset as u32);
    add_parts(
        pool,
        b,
        offset,
        pseudo_v6(&src, &dst, IpProtocol::ICMPV6, len),
    ) == 0
}
