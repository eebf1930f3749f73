//! `ip4-rewrite`: TTL, size and link-layer header of a packet whose next hop is known.
//!
//! RFC 1812 section 5.3.1 (TTL is decremented, a packet that would reach 0 is answered with Time
//! Exceeded), RFC 1191 (too big with DF set: Fragmentation Needed with the MTU), RFC 1624 (checksum
//! update). Packets the router made itself keep their TTL.
//!
//! Drop reasons: `ip4_ttl_expired`, `fragmentation_needed`, `no_adjacency`, `no_headroom`.

use parshall_buffer::{BufferIndex, Flags, PoolView};
use parshall_counters::DropReason;
use parshall_fib::Adjacency;
use parshall_graph::{Ctx, NodeSpec};

use crate::icmp_error::{IcmpAsk, ask};
use crate::rewrite::{Rewrite, Sent};
use crate::trace::format_ip4;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("ip4-rewrite", &["ip4-arp", "ip4-icmp-error", "ip4-frag"])
    .starting("interface-output")
    .format(format_ip4);

const IP4_ARP: u16 = 0;
const ICMP_ERROR: u16 = 1;
const FRAG: u16 = 2;

/// The node.
pub type Ip4Rewrite = Rewrite<Ip4Sent>;

/// Sending IPv4.
pub struct Ip4Sent;

impl Sent for Ip4Sent {
    fn unresolved(_adj: &Adjacency) -> u16 {
        IP4_ARP
    }

    #[inline(always)]
    fn forward(view: &mut PoolView<'_>, b: BufferIndex, at: u16) -> bool {
        // TTL, protocol and checksum, the TTL lowest.
        let word: &mut [u8; 4] = view.peek_mut(b, at + 8);
        let old = u32::from_le_bytes(*word);
        if old as u8 <= 1 {
            return false;
        }
        // RFC 1624 equation 3 for a TTL one lower: the checksum grows by 0x0100, with end-around carry.
        // Read with its bytes swapped it grows by one, and the carries are the same (RFC 1071 section
        // 2(B)). 0xFFFF carries, too: a checksum is never that, since no header is all zeros.
        let new = u64::from(old) + 0x1_0000 - 1;
        let new = if new >= 0xFFFF_0000 {
            new + 0x1_0000
        } else {
            new
        };
        *word = (new as u32).to_le_bytes();
        true
    }

    fn look(cx: &mut Ctx<'_>, i: usize, b: BufferIndex, adj: &Adjacency) -> bool {
        let m = *cx.pool.meta(b);
        let originated = m.flags.has(Flags::ORIGINATED);
        let h: &mut [u8; 12] = cx.pool.peek_mut(b, 0);
        if !originated && h[8] <= 1 {
            ask(cx, b, DropReason::Ip4TtlExpired, IcmpAsk::time_exceeded4());
            cx.next[i] = ICMP_ERROR;
            return false;
        }
        if m.total_len() > u32::from(adj.mtu()) {
            if h[6] & 0x40 != 0 {
                // The link it does not fit is part of what is told of the drop.
                cx.pool.meta_mut(b).tx_if = adj.tx_if();
                let error = IcmpAsk::fragmentation_needed4(adj.mtu());
                ask(cx, b, DropReason::FragmentationNeeded, error);
                cx.next[i] = ICMP_ERROR;
            } else {
                // Fragments come back here one by one, each with the header it was given.
                cx.pool.meta_mut(b).scratch[0] = u32::from(adj.mtu());
                cx.next[i] = FRAG;
            }
            return false;
        }
        if !originated {
            parshall_wire::Ipv4Packet::new_unchecked(&mut h[..]).decrement_ttl();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_buffer::Pool;
    use parshall_wire::Ipv4Packet;

    #[test]
    fn the_word_at_once_is_the_checksum_update_of_the_codec_for_every_checksum() {
        let mut pool = Pool::new(1).unwrap();
        let b = pool.packet_from(&[0x45; 20], 0).unwrap();
        let at = pool.meta(b).data;
        for ttl in [2, 3, 64, 255] {
            for checksum in 0..=u16::MAX {
                let h: &mut [u8; 20] = pool.peek_mut(b, 0);
                h[8] = ttl;
                [h[10], h[11]] = checksum.to_be_bytes();
                let mut expected = *h;
                Ipv4Packet::new_unchecked(&mut expected[..]).decrement_ttl();
                assert!(Ip4Sent::forward(&mut pool.view(), b, at));
                assert_eq!(*pool.peek::<20>(b, 0), expected, "{ttl} {checksum:#x}");
            }
        }
        pool.peek_mut::<9>(b, 0)[8] = 1;
        assert!(!Ip4Sent::forward(&mut pool.view(), b, at));
    }
}
