//! The flow hash: one number for all packets of a flow, so that load balancing keeps it on one path.
//!
//! Over addresses, protocol and, for unfragmented TCP, UDP and SCTP, ports. Fragments hash without
//! ports, all of them alike. Not symmetric, not cryptographic, the same in every worker.

use parshall_buffer::{BufferIndex, Pool, PoolView};

/// Multiplies and folds (the finisher of wyhash, Wang Yi, public domain): every input bit reaches every
/// output bit.
#[inline(always)]
fn mix(a: u64, b: u64) -> u64 {
    let p = u128::from(a ^ 0xA076_1D64_78BD_642F) * u128::from(b ^ 0xE703_7ED1_A0B4_28DB);
    (p as u64) ^ ((p >> 64) as u64)
}

/// 32 bits that are never 0 (0 means "not computed" in the metadata).
#[inline(always)]
fn finish(h: u64) -> u32 {
    ((h >> 32) as u32 ^ h as u32) | 1 << 31
}

/// Hash of two words that name a flow.
#[inline(always)]
pub fn mix_flow(a: u64, b: u64) -> u32 {
    finish(mix(a, b))
}

/// Hash of the IP packet at `at`, IPv6 or IPv4; its fixed header is there.
pub fn rehash(pool: &Pool, b: BufferIndex, at: usize, ip6: bool) -> u32 {
    if ip6 {
        hash_ip6(pool, b, at)
    } else {
        hash_ip4(pool, b, at)
    }
}

/// The same for the loop of a node: of the IP packet `at` bytes from the current header on, in one buffer, where
/// `head` is what [`Meta::head`](parshall_buffer::Meta::head) says of it.
#[inline(always)]
pub fn rehash_plain(view: &PoolView<'_>, b: BufferIndex, head: u64, at: u16, ip6: bool) -> u32 {
    let (start, len) = ((head as u16).wrapping_add(at), (head >> 16) as u16);
    let ports_at = |upper: u16| match u32::from(at) + u32::from(upper) + 4 <= u32::from(len) {
        true => u32::from_le_bytes(*view.peek(b, start.wrapping_add(upper))),
        false => 0,
    };
    if ip6 {
        return hash6(view.peek(b, start), |_| ports_at(40));
    }
    hash4(view.peek(b, start), ports_at)
}

/// Bytes of an IPv4 header without options, and of ports.
const WITH_PORTS: usize = 24;

/// Hash of the packet that most are: IPv4 without options, unfragmented, TCP or UDP. `None` = it is another, or is shorter
/// than what is given, which the caller has to know.
#[inline(always)]
pub fn hash4_usual(h: &[u8; WITH_PORTS]) -> Option<u32> {
    const PORTS: u64 = 1 << 6 | 1 << 17;
    let word = |i: usize| u64::from(u32::from_le_bytes([h[i], h[i + 1], h[i + 2], h[i + 3]]));
    // What says that there are more fragments, and where this one belongs.
    let fragment = word(4) as u32 & 0xFF3F_0000;
    let protocol = u32::from(h[9]);
    let has_ports = PORTS.checked_shr(protocol).unwrap_or(0) & 1 != 0;
    if fragment | u32::from(h[0] ^ 0x45) != 0 || !has_ports {
        return None;
    }
    let ports = word(20) << 8 | u64::from(protocol);
    Some(finish(mix(word(12) << 32 | word(16), ports)))
}

fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 132)
}

/// Hash of the IPv4 packet at the current header.
pub fn flow_hash4(pool: &Pool, b: BufferIndex) -> u32 {
    hash_ip4(pool, b, 0)
}

fn hash_ip4(pool: &Pool, b: BufferIndex, at: usize) -> u32 {
    hash4(pool.peek(b, at), |upper| {
        ports(pool, b, at + usize::from(upper))
    })
}

/// Hash of an IPv4 packet by its header; `ports` reads those that lie so many bytes behind where it begins.
#[inline(always)]
fn hash4(h: &[u8; 20], ports: impl FnOnce(u16) -> u32) -> u32 {
    let word = |i: usize| u64::from(u32::from_le_bytes([h[i], h[i + 1], h[i + 2], h[i + 3]]));
    let addresses = word(12) << 32 | word(16);
    let fragment = u16::from_be_bytes([h[6], h[7]]) & 0x3FFF != 0;
    let ports = if has_ports(h[9]) && !fragment {
        ports(u16::from(h[0] & 15) * 4)
    } else {
        0
    };
    finish(mix(addresses, u64::from(ports) << 8 | u64::from(h[9])))
}

/// Hash of the IPv6 packet at the current header. Extension headers are not walked: a flow that uses
/// them hashes by addresses, protocol and flow label (RFC 6437).
pub fn flow_hash6(pool: &Pool, b: BufferIndex) -> u32 {
    hash_ip6(pool, b, 0)
}

fn hash_ip6(pool: &Pool, b: BufferIndex, at: usize) -> u32 {
    hash6(pool.peek(b, at), |upper| {
        ports(pool, b, at + usize::from(upper))
    })
}

/// Hash of an IPv6 packet by its header; `ports` as of [`hash4`].
#[inline(always)]
fn hash6(h: &[u8; 40], ports: impl FnOnce(u16) -> u32) -> u32 {
    let word = |i: usize| {
        u64::from_le_bytes([
            h[i],
            h[i + 1],
            h[i + 2],
            h[i + 3],
            h[i + 4],
            h[i + 5],
            h[i + 6],
            h[i + 7],
        ])
    };
    let label = u64::from(u32::from_be_bytes([h[0], h[1], h[2], h[3]]) & 0xF_FFFF);
    let ports = if has_ports(h[6]) { ports(40) } else { 0 };
    let addresses = mix(
        word(8) ^ word(24).rotate_left(32),
        word(16) ^ word(32).rotate_left(32),
    );
    finish(mix(
        addresses ^ label << 40,
        u64::from(ports) << 8 | u64::from(h[6]),
    ))
}

/// Hash of a labelled packet, its top label popped: of the IP packet under the stack where one is seen
/// (first nibble 4 or 6, as RFC 4928 describes), else of the labels.
pub fn flow_hash_mpls(pool: &Pool, b: BufferIndex) -> u32 {
    let m = *pool.meta(b);
    let bytes = pool.bytes(b);
    let mut at = 0;
    let mut labels = u64::from(m.mpls_tc_s);
    let mut bottom = m.mpls_tc_s & 1 != 0;
    while !bottom && at < 4 * 16 {
        let Some(entry) = bytes.get(at..).and_then(|e| e.first_chunk::<4>()) else {
            break;
        };
        let entry = u32::from_be_bytes(*entry);
        labels = mix(labels, u64::from(entry >> 12));
        bottom = entry & 0x100 != 0;
        at += 4;
    }
    match bytes.get(at).map(|first| first >> 4) {
        Some(4) if bottom && bytes.len() >= at + 20 => hash_ip4(pool, b, at),
        Some(6) if bottom && bytes.len() >= at + 40 => hash_ip6(pool, b, at),
        _ => finish(mix(labels, u64::from(m.dpo))),
    }
}

#[inline(always)]
fn ports(pool: &Pool, b: BufferIndex, at: usize) -> u32 {
    pool.head::<4>(b, at).map_or(0, |p| u32::from_le_bytes(*p))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_wire::{MacAddr, PacketBuilder};

    #[test]
    fn flows_spread_evenly_and_fragments_stay_together() {
        let mut pool = Pool::new(4).unwrap();
        let mut buckets = [0u32; 8];
        for port in 0..8000u16 {
            let p = PacketBuilder::ethernet(MacAddr([2; 6]), MacAddr([4; 6]))
                .ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
                .udp(port, 53)
                .payload_len(8)
                .build();
            let b = pool.packet_from(&p[14..], 0).unwrap();
            let h = flow_hash4(&pool, b);
            assert_eq!(h, flow_hash4(&pool, b));
            buckets[(h & 7) as usize] += 1;
            pool.bytes_mut(b)[6] = 0x20;
            let first = flow_hash4(&pool, b);
            pool.bytes_mut(b)[7] = 9;
            assert_eq!(first, flow_hash4(&pool, b));
            pool.free(b);
        }
        assert!(
            buckets.iter().all(|n| (850..1150).contains(n)),
            "{buckets:?}"
        );
    }
}
