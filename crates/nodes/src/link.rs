//! Pushing a link-layer header from an adjacency: the common end of every rewrite.

use parshall_buffer::{BufferIndex, Pool};
use parshall_fib::Adjacency;
use parshall_wire::{EthernetFrame, EthernetRepr, MacAddr};

/// Bytes of an Ethernet header.
pub const HEADER: u16 = 14;

/// Puts the adjacency's Ethernet header in front of the packet and sets its sending interface. The
/// packet has at least [`HEADER`] + 2 bytes of headroom (every driver leaves 128).
#[inline(always)]
pub fn push_header(pool: &mut Pool, b: BufferIndex, adj: &Adjacency) {
    let m = pool.meta_mut(b);
    m.data = m.data.wrapping_sub(HEADER);
    m.len = m.len.wrapping_add(HEADER);
    m.tx_if = adj.tx_if();
    let header: &mut [u8; 14] = pool.peek_mut(b, 0);
    if let Some(rewrite) = adj.rewrite().last_chunk::<14>() {
        *header = *rewrite;
    }
}

/// Puts an Ethernet header in front of an answer made in a received packet; false without room.
pub fn answer_header(pool: &mut Pool, b: BufferIndex, header: &EthernetRepr) -> bool {
    let Some(_room) = pool.push(b, HEADER) else {
        return false;
    };
    let m = pool.meta_mut(b);
    (m.l2, m.l3) = (m.data, m.data + HEADER);
    header
        .emit(&mut EthernetFrame::new_unchecked(pool.bytes_mut(b)))
        .is_ok()
}

/// Source address of the frame a packet came in; its header must be in place still.
pub fn sender_mac(pool: &Pool, b: BufferIndex) -> MacAddr {
    let (m, room) = pool.parts(b);
    let at = usize::from(m.l2) + 6;
    room.get(at..at + 6)
        .and_then(|s| s.first_chunk())
        .map_or(MacAddr::ZERO, |mac| MacAddr(*mac))
}
