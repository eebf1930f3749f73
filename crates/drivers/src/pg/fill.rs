//! The hot loop of the generator: metadata and frame bytes into fresh buffers.
//!
//! For frames of up to 64 bytes the work of one packet is one 64-byte metadata store, one 64-byte data
//! store and one store of the window; for those of up to 128 bytes one data store more. The loop is compiled once for each
//! vector width and the widest the CPU has is taken at start-up.

use parshall_buffer::{BufferIndex, DATA_SIZE, HEADROOM, Meta, Pool};

use super::expand::Frames;

/// Bytes of a frame that is copied in one piece, and in two.
const ONE: usize = 64;
const TWO: usize = 128;

/// Which build of the short-frame loop the CPU can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Isa {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The widest this CPU has.
    pub fn detect() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
                return Isa::Avx512;
            }
            if is_x86_feature_detected!("avx2") {
                return Isa::Avx2;
            }
        }
        Isa::Plain
    }
}

/// One run of frames of up to `N` bytes: as many windows as packets.
struct Short<'a, const N: usize> {
    meta: Meta,
    base: [u8; N],
    at: usize,
    windows: &'a [u8],
}

/// Writes `packets.len()` frames of variants `first..`, which must exist, all `len` bytes long.
/// Says false when frame or window is not one the loops are made for.
pub(super) fn short(
    isa: Isa,
    pool: &mut Pool,
    packets: &[BufferIndex],
    rx_if: u32,
    frames: &Frames,
    first: usize,
    len: usize,
) -> bool {
    let meta = Meta::received(HEADROOM as u16, len as u16, rx_if);
    if len <= ONE {
        pieces::<ONE>(isa, pool, packets, meta, frames, first)
    } else {
        len <= TWO && pieces::<TWO>(isa, pool, packets, meta, frames, first)
    }
}

#[inline(always)]
fn pieces<const N: usize>(
    isa: Isa,
    pool: &mut Pool,
    packets: &[BufferIndex],
    meta: Meta,
    frames: &Frames,
    first: usize,
) -> bool {
    let Some(&base) = frames.base.first_chunk() else {
        return false;
    };
    let width = frames.width;
    let run = Short::<N> {
        meta,
        base,
        at: frames.at,
        windows: frames
            .windows
            .get(first * width..(first + packets.len()) * width)
            .unwrap_or(&[]),
    };
    match (width, frames.at + width <= N) {
        (0, true) => copies::<0, N>(isa, pool, packets, &run),
        (16, true) => copies::<16, N>(isa, pool, packets, &run),
        (32, true) => copies::<32, N>(isa, pool, packets, &run),
        (64, true) => copies::<64, N>(isa, pool, packets, &run),
        _ => return false,
    }
    true
}

#[inline(always)]
fn copies<const W: usize, const N: usize>(
    isa: Isa,
    pool: &mut Pool,
    packets: &[BufferIndex],
    run: &Short<'_, N>,
) {
    match isa {
        Isa::Plain => body::<W, N>(pool, packets, run),
        // SAFETY: `Isa::detect` saw the feature on this CPU.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { body_avx2::<W, N>(pool, packets, run) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { body_avx512::<W, N>(pool, packets, run) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn body_avx2<const W: usize, const N: usize>(
    pool: &mut Pool,
    packets: &[BufferIndex],
    run: &Short<'_, N>,
) {
    body::<W, N>(pool, packets, run);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
fn body_avx512<const W: usize, const N: usize>(
    pool: &mut Pool,
    packets: &[BufferIndex],
    run: &Short<'_, N>,
) {
    body::<W, N>(pool, packets, run);
}

#[inline(always)]
fn body<const W: usize, const N: usize>(
    pool: &mut Pool,
    packets: &[BufferIndex],
    run: &Short<'_, N>,
) {
    // Copies on the stack: the compiler then knows that no buffer write changes them.
    let (meta, base) = (run.meta, run.base);
    let mut view = pool.view();
    if W == 0 {
        for &b in packets {
            *view.meta_mut(b) = meta;
            *view.peek_mut::<N>(b, HEADROOM as u16) = base;
        }
        return;
    }
    // Two stores for a line that a masked load could make one: masked loads are slower than that.
    let at = (HEADROOM + run.at.min(N - W)) as u16;
    for (&b, window) in packets.iter().zip(run.windows.chunks_exact(W)) {
        *view.meta_mut(b) = meta;
        *view.peek_mut::<N>(b, HEADROOM as u16) = base;
        view.peek_mut::<W>(b, at).copy_from_slice(window);
    }
}

/// Writes one frame of any length into the fresh buffer `b`, chained when it is long. False when
/// buffers ran out; `b` is then given back.
pub(super) fn long(pool: &mut Pool, b: BufferIndex, rx_if: u32, frames: &Frames, i: usize) -> bool {
    let len = frames.len(i);
    let head = len.min(DATA_SIZE);
    let (m, room) = pool.parts_mut(b);
    *m = Meta::received(HEADROOM as u16, head as u16, rx_if);
    // Whole cache lines: the base is padded to them, and the buffer's room is a multiple of 64.
    let lines = head.next_multiple_of(64);
    room[HEADROOM..HEADROOM + lines].copy_from_slice(&frames.base[..lines]);
    let window = frames.window(i);
    room[HEADROOM + frames.at..HEADROOM + frames.at + window.len()].copy_from_slice(window);
    if len <= DATA_SIZE || pool.append_chain(b, &frames.base[DATA_SIZE..len]) {
        return true;
    }
    pool.free(b);
    false
}

/// Writes captured bytes into the fresh buffer `b`, as [`long`] does.
pub(super) fn bytes(pool: &mut Pool, b: BufferIndex, rx_if: u32, bytes: &[u8]) -> bool {
    let (head, tail) = bytes.split_at(bytes.len().min(DATA_SIZE));
    let (m, room) = pool.parts_mut(b);
    *m = Meta::received(HEADROOM as u16, head.len() as u16, rx_if);
    room[HEADROOM..HEADROOM + head.len()].copy_from_slice(head);
    if tail.is_empty() || pool.append_chain(b, tail) {
        return true;
    }
    pool.free(b);
    false
}
