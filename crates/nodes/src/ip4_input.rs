//! `ip4-input`: the header checks of RFC 1812 section 5.2.2 and the address checks of section 5.3.7.
//!
//! Version, header length, total length and checksum must be right; link-layer padding is cut off; packets
//! with impossible addresses are dropped. A TTL of 0 is no fault here: the packet may be for the router
//! (section 4.2.2.9). All checks of a plain 20-byte header are gathered in one value, so a good packet
//! takes one branch.
//!
//! Drop reasons: `ip4_too_short`, `ip4_bad_version`, `ip4_bad_header_length`, `ip4_bad_length`,
//! `ip4_bad_checksum`, `ip4_source_...`, `ip4_destination_...`, `ip4_not_enabled`.

use parshall_buffer::{BufferIndex, Pool, PoolView};
use parshall_counters::DropReason;
use parshall_graph::NodeSpec;

use crate::ip_input::{Header, IpInput};
#[cfg(target_arch = "x86_64")]
use crate::lanes::{self, LANES};
use crate::state::if_flags;
use crate::trace::format_ip4;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("ip4-input", &["ip4-local"])
    .starting("ip4-unicast")
    .by_interface()
    .format(format_ip4);

const SRC_BAD: u8 = 1;
const DST_BAD: u8 = 2;
const DST_GROUP: u8 = 4;

/// By first octet, what an address may not be (RFC 1122 section 3.2.1.3, RFC 5735).
const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    class[0] = SRC_BAD | DST_BAD;
    class[127] = SRC_BAD | DST_BAD;
    let mut i = 224;
    while i < 256 {
        class[i] = SRC_BAD | if i < 240 { DST_GROUP } else { DST_BAD };
        i += 1;
    }
    class
};

/// The node.
pub type Ip4Input = IpInput<Ip4Header>;

/// The checks of IPv4.
pub struct Ip4Header;

impl Header for Ip4Header {
    const ENABLED: u32 = if_flags::IP4;
    const NOT_ENABLED: DropReason = DropReason::Ip4NotEnabled;

    #[inline(always)]
    fn wrong(view: &PoolView<'_>, b: BufferIndex) -> u32 {
        let m = view.meta(b);
        let h: &[u8; 20] = view.peek(b, m.data);
        let total = u64::from(u16::from_be_bytes([h[2], h[3]]));
        u32::from(h[0] ^ 0x45)
            | u32::from(m.head() >> 16 != total)
            | u32::from(total < 20)
            | u32::from(CLASS[usize::from(h[12])] & SRC_BAD)
            | u32::from(CLASS[usize::from(h[16])] & (DST_BAD | DST_GROUP))
            | u32::from(fold(h) ^ 0xFFFF)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn wrong_lanes(view: &PoolView<'_>, packets: &[BufferIndex; LANES]) -> u32 {
        use std::arch::x86_64::*;
        // SAFETY: the caller vouches for AVX2.
        unsafe {
            let words = lanes::gather::<16>(view, packets);
            let [w0, w1, w2, src] = words.head;
            let dst = words.other;
            let octet = _mm256_set1_epi32(0xFF);
            let version = _mm256_xor_si256(_mm256_and_si256(w0, octet), _mm256_set1_epi32(0x45));
            let total = lanes::swap16_high(w0);
            let length = _mm256_xor_si256(total, _mm256_srli_epi32::<16>(words.place));
            let short = _mm256_cmpgt_epi32(_mm256_set1_epi32(20), total);
            // Both addresses' first octets, in 16 bits each.
            let first = _mm256_or_si256(
                _mm256_and_si256(src, octet),
                _mm256_slli_epi32::<16>(_mm256_and_si256(dst, octet)),
            );
            let class = _mm256_or_si256(
                _mm256_or_si256(
                    _mm256_cmpeq_epi16(first, _mm256_setzero_si256()),
                    _mm256_cmpeq_epi16(first, _mm256_set1_epi16(127)),
                ),
                _mm256_cmpgt_epi16(first, _mm256_set1_epi16(223)),
            );
            // The ten 16-bit words, made signed by taking 0x8000 off each, are summed up in pairs.
            let pairs = |w| {
                let signed = _mm256_xor_si256(w, _mm256_set1_epi16(i16::MIN));
                _mm256_madd_epi16(signed, _mm256_set1_epi16(1))
            };
            let sum = _mm256_add_epi32(
                _mm256_add_epi32(
                    _mm256_add_epi32(pairs(w0), pairs(w1)),
                    _mm256_add_epi32(pairs(w2), pairs(src)),
                ),
                _mm256_add_epi32(pairs(dst), _mm256_set1_epi32(10 * 0x8000)),
            );
            let half = _mm256_set1_epi32(0xFFFF);
            let folded =
                _mm256_add_epi32(_mm256_and_si256(sum, half), _mm256_srli_epi32::<16>(sum));
            let checksum = _mm256_xor_si256(folded, half);
            let wrong = _mm256_or_si256(
                _mm256_or_si256(
                    _mm256_or_si256(version, length),
                    _mm256_or_si256(short, class),
                ),
                _mm256_or_si256(checksum, words.flags),
            );
            lanes::lanes_not_zero(wrong)
        }
    }

    #[inline(always)]
    fn told_len(view: &PoolView<'_>, b: BufferIndex) -> u32 {
        let h: &[u8; 4] = view.peek(b, view.meta(b).data);
        u32::from(u16::from_be_bytes([h[2], h[3]]))
    }

    fn check(pool: &mut Pool, b: BufferIndex) -> Result<bool, DropReason> {
        check(pool, b)
    }
}

/// Ones' complement sum of a 20-byte header, folded to 16 bits: 0xFFFF when the checksum is right.
/// Order of bytes does not matter to that (RFC 1071 section 2(B)).
#[inline(always)]
fn fold(h: &[u8; 20]) -> u16 {
    let word = |i: usize| u64::from(u32::from_le_bytes([h[i], h[i + 1], h[i + 2], h[i + 3]]));
    let sum = word(0) + word(4) + word(8) + word(12) + word(16);
    let sum = (sum & 0xFFFF_FFFF) + (sum >> 32);
    let sum = (sum & 0xFFFF) + ((sum >> 16) & 0xFFFF) + (sum >> 32);
    let sum = (sum & 0xFFFF) + (sum >> 16);
    ((sum & 0xFFFF) + (sum >> 16)) as u16
}

/// All checks one by one; cuts padding off. `Ok(true)` = limited broadcast or multicast.
pub fn check(pool: &mut Pool, b: BufferIndex) -> Result<bool, DropReason> {
    let h: [u8; 20] = *pool.head(b, 0).ok_or(DropReason::Ip4TooShort)?;
    if h[0] >> 4 != 4 {
        return Err(DropReason::Ip4BadVersion);
    }
    let header_len = usize::from(h[0] & 15) * 4;
    if header_len < 20 {
        return Err(DropReason::Ip4BadHeaderLength);
    }
    let header = pool
        .bytes(b)
        .get(..header_len)
        .ok_or(DropReason::Ip4BadHeaderLength)?;
    if parshall_wire::checksum::checksum(header) != 0 {
        return Err(DropReason::Ip4BadChecksum);
    }
    let total = u32::from(u16::from_be_bytes([h[2], h[3]]));
    if total < header_len as u32 || total > pool.meta(b).total_len() {
        return Err(DropReason::Ip4BadLength);
    }
    pool.trim(b, total);
    check_source([h[12], h[13], h[14], h[15]])?;
    match h[16] {
        224..=239 => Ok(true),
        255 if h[16..20] == [255; 4] => Ok(true),
        0 => Err(DropReason::Ip4DestinationUnspecified),
        127 => Err(DropReason::Ip4DestinationLoopback),
        240.. => Err(DropReason::Ip4DestinationClassE),
        _ => Ok(false),
    }
}

/// Whether a source can be a host's.
fn check_source(src: [u8; 4]) -> Result<(), DropReason> {
    match src {
        [0, ..] => Err(DropReason::Ip4SourceUnspecified),
        [127, ..] => Err(DropReason::Ip4SourceLoopback),
        [224..=239, ..] => Err(DropReason::Ip4SourceMulticast),
        [255, 255, 255, 255] => Err(DropReason::Ip4SourceBroadcast),
        [240..=255, ..] => Err(DropReason::Ip4SourceClassE),
        _ => Ok(()),
    }
}
