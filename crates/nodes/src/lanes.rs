//! Eight packets side by side: their metadata and the words of their headers, one packet a lane.
//!
//! Checks that are short for one packet are shorter for eight at once, but the compiler does not find
//! the way there through the pool's addresses; so the words are brought together here, by hand.

use parshall_buffer::BufferIndex;

/// Packets side by side.
pub const LANES: usize = 8;

/// The packets from `at` on, the last one again and again where there are fewer. `at` is a position of
/// `packets`.
#[inline(always)]
pub fn block(packets: &[BufferIndex], at: usize) -> [BufferIndex; LANES] {
    let rest = &packets[at..];
    match rest.first_chunk() {
        Some(block) => *block,
        None => std::array::from_fn(|i| rest[i.min(rest.len() - 1)]),
    }
}

/// Bits of the lanes that hold a packet of their own, when `left` packets are left.
#[inline(always)]
pub fn mask(left: usize) -> u32 {
    if left >= LANES {
        (1 << LANES) - 1
    } else {
        (1 << left) - 1
    }
}

#[cfg(target_arch = "x86_64")]
pub use avx2::{gather, lanes_not_zero, swap16_high, swap16_low};

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use parshall_buffer::{BufferIndex, PoolView};

    use super::LANES;

    /// Words of eight packets, lane by lane. Header words are as they lie in memory, read little-endian.
    pub struct Words {
        /// Data offset (low half) and length (high half).
        pub place: __m256i,
        /// Flags and drop reason: zero for plain packets.
        pub flags: __m256i,
        /// The first 16 bytes of the header.
        pub head: [__m256i; 4],
        /// Another word of it.
        pub other: __m256i,
    }

    /// Gathers the words of eight packets; `other` is the word at byte `OTHER` of the header.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    pub unsafe fn gather<const OTHER: u16>(
        view: &PoolView<'_>,
        packets: &[BufferIndex; LANES],
    ) -> Words {
        let meta = packets.map(|b| std::ptr::from_ref(view.meta(b)));
        let head = packets.map(|b| view.peek::<16>(b, view.meta(b).data).as_ptr());
        let word = packets.map(|b| {
            let at = view.meta(b).data.wrapping_add(OTHER);
            i32::from_le_bytes(*view.peek::<4>(b, at))
        });
        // SAFETY: each pointer is that of at least the bytes read; the caller vouches for AVX2.
        unsafe {
            let pair = |a: usize, b: usize| {
                let low = _mm_castsi128_pd(_mm_loadl_epi64(meta[a].cast()));
                _mm_loadh_pd(low, meta[b].cast())
            };
            let four = |a, b, c, d| {
                _mm256_castpd_ps(_mm256_insertf128_pd::<1>(
                    _mm256_castpd128_pd256(pair(a, b)),
                    pair(c, d),
                ))
            };
            let (m0, m1) = (four(0, 1, 4, 5), four(2, 3, 6, 7));
            let two = |a: usize, b: usize| {
                let low = _mm256_castsi128_si256(_mm_loadu_si128(head[a].cast()));
                _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(head[b].cast()))
            };
            let (h0, h1, h2, h3) = (two(0, 4), two(1, 5), two(2, 6), two(3, 7));
            // Four rows of four words become four columns, in both halves.
            let (a0, a1) = (_mm256_unpacklo_epi32(h0, h1), _mm256_unpackhi_epi32(h0, h1));
            let (b0, b1) = (_mm256_unpacklo_epi32(h2, h3), _mm256_unpackhi_epi32(h2, h3));
            let [w0, w1, w2, w3, w4, w5, w6, w7] = word;
            Words {
                place: _mm256_castps_si256(_mm256_shuffle_ps::<0x88>(m0, m1)),
                flags: _mm256_castps_si256(_mm256_shuffle_ps::<0xDD>(m0, m1)),
                head: [
                    _mm256_unpacklo_epi64(a0, b0),
                    _mm256_unpackhi_epi64(a0, b0),
                    _mm256_unpacklo_epi64(a1, b1),
                    _mm256_unpackhi_epi64(a1, b1),
                ],
                other: _mm256_setr_epi32(w0, w1, w2, w3, w4, w5, w6, w7),
            }
        }
    }

    /// The high halves of all words, from network byte order.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    pub unsafe fn swap16_high(v: __m256i) -> __m256i {
        // SAFETY: the caller vouches for AVX2.
        unsafe { _mm256_shuffle_epi8(v, _mm256_set_epi64x(HIGH1, HIGH0, HIGH1, HIGH0)) }
    }

    /// The low halves of all words, from network byte order.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    pub unsafe fn swap16_low(v: __m256i) -> __m256i {
        // SAFETY: the caller vouches for AVX2.
        unsafe { _mm256_shuffle_epi8(v, _mm256_set_epi64x(LOW1, LOW0, LOW1, LOW0)) }
    }

    // Which byte comes where, for words 0 and 1, and 2 and 3, of a half vector; 0x80 = zero.
    const HIGH0: i64 = 0x8080_0607_8080_0203_u64 as i64;
    const HIGH1: i64 = 0x8080_0E0F_8080_0A0B_u64 as i64;
    const LOW0: i64 = 0x8080_0405_8080_0001_u64 as i64;
    const LOW1: i64 = 0x8080_0C0D_8080_0809_u64 as i64;

    /// A bit for each lane that is not zero.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    pub unsafe fn lanes_not_zero(v: __m256i) -> u32 {
        // SAFETY: the caller vouches for AVX2.
        unsafe {
            let zero = _mm256_cmpeq_epi32(v, _mm256_setzero_si256());
            !_mm256_movemask_ps(_mm256_castsi256_ps(zero)) as u32 & 0xFF
        }
    }
}
