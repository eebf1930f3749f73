//! `ip6-input`: the header checks of RFC 8200 section 3 and the address rules of RFC 4291.
//!
//! Version and payload length must be right; link-layer padding is cut off; packets with impossible
//! addresses are dropped. Link-local and multicast destinations are for the router itself or for nobody,
//! and so is what comes from the unspecified address. A hop limit of 0 is no fault here: the packet may be
//! for the router.
//!
//! Drop reasons: `ip6_too_short`, `ip6_bad_version`, `ip6_bad_length`, `ip6_source_...`, `ip6_destination_...`,
//! `ip6_not_enabled`.

use parshall_buffer::{BufferIndex, Pool, PoolView};
use parshall_counters::DropReason;
use parshall_graph::NodeSpec;

use crate::ip_input::{Header, IpInput};
#[cfg(target_arch = "x86_64")]
use crate::lanes::{self, LANES};
use crate::state::if_flags;
use crate::trace::format_ip6;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("ip6-input", &["ip6-local"])
    .starting("ip6-unicast")
    .by_interface()
    .format(format_ip6);

/// The node.
pub type Ip6Input = IpInput<Ip6Header>;

/// The checks of IPv6. A plain packet is one between two addresses of 2000::/3 or fc00::/7.
pub struct Ip6Header;

impl Header for Ip6Header {
    const ENABLED: u32 = if_flags::IP6;
    const NOT_ENABLED: DropReason = DropReason::Ip6NotEnabled;

    #[inline(always)]
    fn wrong(view: &PoolView<'_>, b: BufferIndex) -> u32 {
        let m = view.meta(b);
        let h: &[u8; 40] = view.peek(b, m.data);
        let total = 40 + u64::from(u16::from_be_bytes([h[4], h[5]]));
        u32::from(h[0] & 0xF0 ^ 0x60)
            | u32::from(m.head() >> 16 != total)
            | u32::from(!is_unicast(h[8]))
            | u32::from(!is_unicast(h[24]))
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn wrong_lanes(view: &PoolView<'_>, packets: &[BufferIndex; LANES]) -> u32 {
        use std::arch::x86_64::*;
        // SAFETY: the caller vouches for AVX2.
        unsafe {
            let words = lanes::gather::<24>(view, packets);
            let [w0, w1, src, _] = words.head;
            let version = _mm256_xor_si256(
                _mm256_and_si256(w0, _mm256_set1_epi32(0xF0)),
                _mm256_set1_epi32(0x60),
            );
            let payload = lanes::swap16_low(w1);
            let total = _mm256_add_epi32(payload, _mm256_set1_epi32(40));
            let length = _mm256_xor_si256(total, _mm256_srli_epi32::<16>(words.place));
            // Both addresses' first octets, in 16 bits each.
            let octet = _mm256_set1_epi32(0xFF);
            let first = _mm256_or_si256(
                _mm256_and_si256(src, octet),
                _mm256_slli_epi32::<16>(_mm256_and_si256(words.other, octet)),
            );
            let begins = |mask, with| {
                let top = _mm256_and_si256(first, _mm256_set1_epi16(mask));
                _mm256_cmpeq_epi16(top, _mm256_set1_epi16(with))
            };
            let unicast = _mm256_or_si256(begins(0xE0, 0x20), begins(0xFE, 0xFC));
            let other = _mm256_xor_si256(unicast, _mm256_set1_epi32(-1));
            let wrong = _mm256_or_si256(
                _mm256_or_si256(version, length),
                _mm256_or_si256(other, words.flags),
            );
            lanes::lanes_not_zero(wrong)
        }
    }

    #[inline(always)]
    fn told_len(view: &PoolView<'_>, b: BufferIndex) -> u32 {
        let h: &[u8; 6] = view.peek(b, view.meta(b).data);
        40 + u32::from(u16::from_be_bytes([h[4], h[5]]))
    }

    fn check(pool: &mut Pool, b: BufferIndex) -> Result<bool, DropReason> {
        check(pool, b)
    }
}

/// By first octet: global unicast (2000::/3) or unique local (fc00::/7). Everything else is looked at
/// closely.
#[inline(always)]
fn is_unicast(first: u8) -> bool {
    first & 0xE0 == 0x20 || first & 0xFE == 0xFC
}

/// All checks one by one; cuts padding off. `Ok(true)` = for the link: multicast or link-local.
pub fn check(pool: &mut Pool, b: BufferIndex) -> Result<bool, DropReason> {
    let h: [u8; 40] = *pool.head(b, 0).ok_or(DropReason::Ip6TooShort)?;
    if h[0] >> 4 != 6 {
        return Err(DropReason::Ip6BadVersion);
    }
    let total = 40 + u32::from(u16::from_be_bytes([h[4], h[5]]));
    if total > pool.meta(b).total_len() {
        return Err(DropReason::Ip6BadLength);
    }
    pool.trim(b, total);
    let loopback = |a: &[u8]| a[..15] == [0; 15] && a[15] == 1;
    let (src, dst) = (&h[8..24], &h[24..40]);
    if src[0] == 0xFF {
        return Err(DropReason::Ip6SourceMulticast);
    }
    if loopback(src) {
        return Err(DropReason::Ip6SourceLoopback);
    }
    if loopback(dst) {
        return Err(DropReason::Ip6DestinationLoopback);
    }
    if dst == [0; 16] {
        return Err(DropReason::Ip6DestinationUnspecified);
    }
    let for_the_link = dst[0] == 0xFF || dst[0] == 0xFE && dst[1] & 0xC0 == 0x80;
    // RFC 4291 section 2.5.2: who has no address yet may speak to its link only.
    if *src == [0; 16] && !for_the_link {
        return Err(DropReason::Ip6SourceUnspecified);
    }
    Ok(for_the_link)
}
