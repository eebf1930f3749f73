//! Random numbers, and what they do to a frame.

use parshall_wire::checksum;

/// splitmix64 (Steele, Lea, Flood 2014).
#[derive(Clone)]
pub struct Rng(u64);

impl Rng {
    /// Fixed by `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0xD134_2543_DE82_EF95))
    }
    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    /// One of a list that is not empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// Values that fields are compared with somewhere.
const EDGES: [u16; 14] = [
    0, 1, 4, 7, 8, 19, 20, 39, 40, 0x3FFF, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF,
];

/// Changes a frame in one to four ways; `other` is one to splice with.
pub fn mutate(rng: &mut Rng, frame: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..=rng.below(4) {
        change(rng, frame, other);
    }
    if rng.one_in(2) {
        mend(frame);
    }
}

fn change(rng: &mut Rng, frame: &mut Vec<u8>, other: &[u8]) {
    if frame.is_empty() {
        frame.extend(other);
        return;
    }
    // Most changes fall into the headers.
    let reach = if rng.one_in(4) {
        frame.len()
    } else {
        frame.len().min(80)
    };
    let at = rng.below(reach);
    match rng.below(8) {
        0 | 1 => frame[at] ^= 1 << rng.below(8),
        2 => frame[at] = rng.next() as u8,
        3 => {
            let value = rng.pick(&EDGES).to_be_bytes();
            frame[at] = value[0];
            if let Some(next) = frame.get_mut(at + 1) {
                *next = value[1];
            }
        }
        4 => frame.truncate(rng.below(frame.len() + 1)),
        5 => frame.resize(frame.len() + rng.below(100), rng.next() as u8),
        6 => {
            // The front of this frame and the back of another.
            frame.truncate(at);
            frame.extend(&other[rng.below(other.len())..]);
        }
        _ => {
            for byte in &mut frame[at..] {
                if rng.one_in(4) {
                    *byte = rng.next() as u8;
                }
            }
        }
    }
}

/// Makes the checksum of an IPv4 header behind Ethernet and labels right again, so that what is behind that
/// check is reached.
fn mend(frame: &mut [u8]) {
    let mut at = 14;
    match frame.get(12..14) {
        Some([0x08, 0x00]) => {}
        Some([0x88, 0x47]) => {
            while frame.get(at + 2).is_some_and(|b| b & 1 == 0) {
                at += 4;
            }
            at += 4;
        }
        _ => return,
    }
    let Some(first) = frame.get(at) else { return };
    let len = usize::from(first & 15) * 4;
    if let Some(header) = frame.get_mut(at..at + len).filter(|h| h.len() >= 20) {
        header[10..12].fill(0);
        let sum = checksum::checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}
