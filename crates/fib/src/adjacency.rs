//! Adjacencies: how to reach one neighbour over one link. One cache line each.
//!
//! The link-layer header stands right-aligned in the rewrite space, so that one store of
//! 16 (or 32) bytes that ends where the packet's network header begins writes it: for
//! Ethernet the two bytes too many fall into headroom.

use parshall_rcu::Slab;
use std::net::{Ipv4Addr, Ipv6Addr};
use thiserror::Error;

/// The table of adjacencies; its indices are those of [`crate::DpoKind::Adjacency`].
pub type Adjacencies = Slab<Adjacency>;

/// Longest link-layer header.
pub const REWRITE_MAX: usize = 32;

/// Whether the link-layer address is known.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum AdjState {
    /// Not yet: packets go to neighbour resolution.
    #[default]
    Incomplete = 0,
    /// The rewrite is valid.
    Complete = 1,
}

/// What is above the link-layer header that the rewrite ends with.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum LinkType {
    /// IPv4 packets.
    #[default]
    Ip4 = 0,
    /// IPv6 packets.
    Ip6 = 1,
    /// MPLS packets.
    Mpls = 2,
}

/// A neighbour on a link. Immutable once published: a change replaces it whole.
#[repr(C, align(64))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adjacency {
    state: AdjState,
    rewrite_len: u8,
    mtu: u16,
    tx_if: u32,
    link: LinkType,
    ip6_next_hop: bool,
    _reserved: [u8; 6],
    next_hop: [u8; 16],
    /// Last, so that it ends with the cache line.
    rewrite: [u8; REWRITE_MAX],
}

const _: () = assert!(size_of::<Adjacency>() == 64);

/// A header that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("link-layer header of {0} bytes: the limit is 32")]
pub struct AdjacencyError(pub usize);

impl Adjacency {
    /// A neighbour whose link-layer address is not known yet.
    #[must_use]
    pub fn incomplete_ip4(tx_if: u32, link: LinkType, mtu: u16, next_hop: Ipv4Addr) -> Self {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&next_hop.octets());
        Self::incomplete(tx_if, link, mtu, bytes, false)
    }

    /// The same for an IPv6 neighbour.
    #[must_use]
    pub fn incomplete_ip6(tx_if: u32, link: LinkType, mtu: u16, next_hop: Ipv6Addr) -> Self {
        Self::incomplete(tx_if, link, mtu, next_hop.octets(), true)
    }

    fn incomplete(tx_if: u32, link: LinkType, mtu: u16, next_hop: [u8; 16], v6: bool) -> Self {
        Adjacency {
            state: AdjState::Incomplete,
            rewrite_len: 0,
            mtu,
            tx_if,
            link,
            ip6_next_hop: v6,
            _reserved: [0; 6],
            next_hop,
            rewrite: [0; REWRITE_MAX],
        }
    }

    /// The same adjacency with its header known: complete.
    ///
    /// # Errors
    /// [`AdjacencyError`] when the header is longer than [`REWRITE_MAX`].
    pub fn with_rewrite(&self, header: &[u8]) -> Result<Self, AdjacencyError> {
        let start = REWRITE_MAX
            .checked_sub(header.len())
            .ok_or(AdjacencyError(header.len()))?;
        let mut adj = Adjacency {
            state: AdjState::Complete,
            rewrite_len: header.len() as u8,
            rewrite: [0; REWRITE_MAX],
            ..self.clone()
        };
        adj.rewrite[start..].copy_from_slice(header);
        Ok(adj)
    }

    /// The same adjacency with its link-layer address unknown again.
    #[must_use]
    pub fn without_rewrite(&self) -> Self {
        Self::incomplete(
            self.tx_if,
            self.link,
            self.mtu,
            self.next_hop,
            self.ip6_next_hop,
        )
    }

    /// The same adjacency with another MTU.
    #[must_use]
    pub fn with_mtu(&self, mtu: u16) -> Self {
        Adjacency {
            mtu,
            ..self.clone()
        }
    }

    /// Whether the rewrite is valid.
    #[inline]
    #[must_use]
    pub fn state(&self) -> AdjState {
        self.state
    }

    /// Whether the rewrite is valid.
    #[inline]
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.state == AdjState::Complete
    }

    /// Largest network-layer packet, in bytes.
    #[inline]
    #[must_use]
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// The interface to transmit on.
    #[inline]
    #[must_use]
    pub fn tx_if(&self) -> u32 {
        self.tx_if
    }

    /// What the packets are.
    #[inline]
    #[must_use]
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// Length of the link-layer header in bytes.
    #[inline]
    #[must_use]
    pub fn rewrite_len(&self) -> usize {
        usize::from(self.rewrite_len)
    }

    /// The whole rewrite space; the header is its last [`Adjacency::rewrite_len`] bytes.
    #[inline]
    #[must_use]
    pub fn rewrite(&self) -> &[u8; REWRITE_MAX] {
        &self.rewrite
    }

    /// The last 16 bytes of the rewrite space: all of a header of up to 16 bytes.
    #[inline]
    #[must_use]
    pub fn rewrite16(&self) -> &[u8; 16] {
        self.rewrite.last_chunk().unwrap_or(&[0; 16])
    }

    /// Only the header.
    #[inline]
    #[must_use]
    pub fn header(&self) -> &[u8] {
        &self.rewrite[REWRITE_MAX - usize::from(self.rewrite_len).min(REWRITE_MAX)..]
    }

    /// Whether the neighbour's address is an IPv6 one (the packets may be other).
    #[inline]
    #[must_use]
    pub fn next_hop_is_ip6(&self) -> bool {
        self.ip6_next_hop
    }

    /// The neighbour's address; an IPv4 one is in the first four bytes.
    #[inline]
    #[must_use]
    pub fn next_hop(&self) -> &[u8; 16] {
        &self.next_hop
    }

    /// The neighbour's address as IPv4.
    #[inline]
    #[must_use]
    pub fn next_hop_ip4(&self) -> Ipv4Addr {
        let [a, b, c, d, ..] = self.next_hop;
        Ipv4Addr::new(a, b, c, d)
    }

    /// The neighbour's address as IPv6.
    #[inline]
    #[must_use]
    pub fn next_hop_ip6(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.next_hop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETHERNET: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];

    #[test]
    fn a_fixed_store_that_ends_at_the_network_header_writes_ethernet() {
        let hop = Ipv4Addr::new(192, 0, 2, 1);
        let adj = Adjacency::incomplete_ip4(7, LinkType::Ip4, 1500, hop);
        assert!(!adj.is_complete());
        let adj = adj.with_rewrite(&ETHERNET).unwrap();
        assert!(adj.is_complete());
        let mut packet = [0xffu8; 40];
        packet[4..20].copy_from_slice(adj.rewrite16());
        assert_eq!(packet[6..20], ETHERNET);
        assert_eq!((adj.header(), adj.rewrite_len()), (&ETHERNET[..], 14));
        assert_eq!((adj.tx_if(), adj.mtu(), adj.next_hop_ip4()), (7, 1500, hop));
    }

    #[test]
    fn losing_the_neighbour_keeps_the_rest() {
        let hop: Ipv6Addr = "2001:db8::1".parse().unwrap();
        let fresh = Adjacency::incomplete_ip6(9, LinkType::Ip6, 9000, hop);
        let adj = fresh.with_rewrite(&ETHERNET).unwrap();
        assert_eq!(adj.without_rewrite(), fresh);
        assert_eq!(adj.with_mtu(1280).mtu(), 1280);
        assert_eq!(adj.next_hop_ip6(), hop);
        assert!(adj.next_hop_is_ip6());
    }

    #[test]
    fn a_header_may_be_empty_but_not_too_long() {
        let adj = Adjacency::incomplete_ip4(0, LinkType::Mpls, 1500, Ipv4Addr::UNSPECIFIED);
        assert_eq!(adj.with_rewrite(&[]).unwrap().header(), &[] as &[u8]);
        assert_eq!(adj.with_rewrite(&[1; 32]).unwrap().header(), &[1; 32]);
        assert_eq!(adj.with_rewrite(&[1; 33]), Err(AdjacencyError(33)));
    }
}
