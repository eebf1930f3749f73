//! The frame: up to 256 packets on their way to the same node.

use crate::BufferIndex;

/// Packets a frame can hold.
pub const FRAME_SIZE: usize = 256;

/// Interface hint of a frame whose packets do not share one.
pub const IF_MIXED: u32 = u32::MAX - 1;

/// A vector of packets. `rx_if` and `tx_if` are hints kept by whoever fills the frame: a real index
/// promises that all packets share it, [`IF_MIXED`] promises nothing. They let a per-interface
/// decision be made once a frame instead of once a packet.
#[repr(C, align(64))]
pub struct Frame {
    len: u32,
    /// Common receiving interface, or [`IF_MIXED`].
    pub rx_if: u32,
    /// Common sending interface, or [`IF_MIXED`].
    pub tx_if: u32,
    /// At least one packet may be traced.
    pub traced: bool,
    idx: [BufferIndex; FRAME_SIZE],
}

impl Default for Frame {
    fn default() -> Self {
        Frame {
            len: 0,
            rx_if: IF_MIXED,
            tx_if: IF_MIXED,
            traced: false,
            idx: [BufferIndex(0); FRAME_SIZE],
        }
    }
}

impl Frame {
    /// Number of packets.
    #[inline(always)]
    pub fn len(&self) -> usize {
        // The invariant `len <= FRAME_SIZE` said aloud, so that slicing costs no second check.
        (self.len as usize).min(FRAME_SIZE)
    }
    /// Whether there is no packet.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Packets that still fit.
    #[inline(always)]
    pub fn room(&self) -> usize {
        FRAME_SIZE - self.len()
    }
    /// The packets.
    #[inline(always)]
    pub fn packets(&self) -> &[BufferIndex] {
        &self.idx[..self.len()]
    }
    /// Removes all packets and forgets the hints.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.len = 0;
        self.rx_if = IF_MIXED;
        self.tx_if = IF_MIXED;
        self.traced = false;
    }
    /// Adds one packet; false when full. Leaves the hints alone.
    #[inline(always)]
    pub fn push(&mut self, b: BufferIndex) -> bool {
        let n = self.len();
        if n == FRAME_SIZE {
            return false;
        }
        self.idx[n] = b;
        self.len = n as u32 + 1;
        true
    }
    /// Adds as many of `more` as fit and says how many. Leaves the hints alone.
    #[inline(always)]
    pub fn extend(&mut self, more: &[BufferIndex]) -> usize {
        let n = self.len();
        let k = more.len().min(FRAME_SIZE - n);
        self.idx[n..n + k].copy_from_slice(&more[..k]);
        self.len = (n + k) as u32;
        k
    }
    /// Lets `fill` write packets into the free part; it returns how many it wrote.
    #[inline(always)]
    pub fn fill(&mut self, fill: impl FnOnce(&mut [BufferIndex]) -> usize) -> usize {
        let n = self.len();
        let k = fill(&mut self.idx[n..]).min(FRAME_SIZE - n);
        self.len = (n + k) as u32;
        k
    }
    /// Keeps the first `n` packets.
    #[inline(always)]
    pub fn truncate(&mut self, n: usize) {
        self.len = self.len.min(n as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extend_stops_at_the_size() {
        let mut f = Frame::default();
        assert_eq!(f.extend(&[BufferIndex(7); 200]), 200);
        assert_eq!(f.extend(&[BufferIndex(8); 200]), 56);
        assert_eq!(f.room(), 0);
        assert!(!f.push(BufferIndex(9)));
        assert_eq!(f.packets()[199], BufferIndex(7));
        assert_eq!(f.packets()[200], BufferIndex(8));
    }
}
