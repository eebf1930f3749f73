//! Paths: where a route sends packets, as it was asked for; and legs, what that comes to now.

use std::net::IpAddr;

use crate::prefix::Family;

/// What is routed: what the packet looks like when the route is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Payload {
    /// An IPv4 packet.
    Ip4,
    /// An IPv6 packet.
    Ip6,
    /// What is under the bottom label of an MPLS stack.
    MplsEos,
    /// An MPLS packet with labels left.
    MplsNonEos,
}

impl Payload {
    /// Packets of an IP family.
    pub fn of(family: Family) -> Payload {
        match family {
            Family::Ip4 => Payload::Ip4,
            Family::Ip6 => Payload::Ip6,
        }
    }
}

/// What an adjacency carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Link {
    /// IPv4 packets.
    Ip4,
    /// IPv6 packets.
    Ip6,
    /// MPLS packets.
    Mpls,
}

impl Link {
    /// Ethernet type.
    pub fn ethertype(self) -> u16 {
        match self {
            Link::Ip4 => 0x0800,
            Link::Ip6 => 0x86DD,
            Link::Mpls => 0x8847,
        }
    }
    /// The word VPP shows.
    pub fn word(self) -> &'static str {
        match self {
            Link::Ip4 => "ipv4",
            Link::Ip6 => "ipv6",
            Link::Mpls => "mpls",
        }
    }
}

/// One way out of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Via {
    /// To the neighbour that is the packet's own destination.
    Attached {
        /// Interface.
        if_index: u32,
    },
    /// To a next hop; without an interface, wherever the route to that next hop leads.
    NextHop {
        /// Next hop.
        ip: IpAddr,
        /// Interface.
        if_index: Option<u32>,
    },
    /// To the router itself.
    Receive {
        /// Interface that has the address.
        if_index: u32,
    },
    /// Dropped in silence.
    Blackhole,
    /// Dropped with "administratively prohibited".
    Prohibit,
    /// Dropped with "unreachable".
    Unreachable,
    /// Looked up once more in another table.
    Lookup {
        /// Family.
        family: Family,
        /// Table number.
        table: u32,
    },
    /// The next label is looked up.
    LookupMpls,
}

/// A path as asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    /// Way out.
    pub via: Via,
    /// Share of the traffic, relative to the other paths.
    pub weight: u32,
    /// Labels to push, outermost first.
    pub labels: Vec<u32>,
    /// The labelled stretch counts as one hop (RFC 3443 pipe model) instead of all its hops.
    pub pipe: bool,
}

impl Path {
    /// A path of weight 1 without labels.
    pub fn new(via: Via) -> Path {
        Path {
            via,
            weight: 1,
            labels: Vec::new(),
            pipe: false,
        }
    }
    /// Whether it leads the same way, whatever its weight.
    pub fn same_way(&self, other: &Path) -> bool {
        self.via == other.via && self.labels == other.labels
    }
}

/// Where a leg ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// A neighbour.
    Neighbor {
        /// Interface.
        if_index: u32,
        /// Its address.
        ip: IpAddr,
    },
    /// Any of the other ways.
    Other(Via),
}

/// A path followed to its end: through routes to next hops, over interfaces that are up.
#[derive(Clone, Debug, PartialEq)]
pub struct Leg {
    /// Where it ends.
    pub target: Target,
    /// Share of the traffic, relative to the other legs.
    pub weight: u32,
    /// Labels to push, outermost first.
    pub labels: Vec<u32>,
    /// They count as one hop.
    pub pipe: bool,
}

/// A leg with its share as a fraction of the whole.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Share {
    pub target: Target,
    pub share: f64,
    pub labels: Vec<u32>,
    pub pipe: bool,
}

impl Share {
    /// Everything goes to `target`.
    pub fn whole(target: Target) -> Share {
        Share {
            target,
            share: 1.0,
            labels: Vec::new(),
            pipe: false,
        }
    }
}

/// Puts the ends of several weighted paths together, equal ends as one. The shares add up to 1.
pub(crate) fn merge(paths: Vec<(f64, Vec<Share>)>) -> Vec<Share> {
    let total: f64 = paths.iter().map(|p| p.0).sum();
    let mut merged: Vec<Share> = Vec::new();
    for (weight, ends) in paths {
        for mut end in ends {
            end.share *= weight / total;
            let same = |m: &&mut Share| {
                m.target == end.target && m.labels == end.labels && m.pipe == end.pipe
            };
            match merged.iter_mut().find(same) {
                Some(m) => m.share += end.share,
                None => merged.push(end),
            }
        }
    }
    merged
}

/// Makes whole weights of the shares: the least becomes 1.
pub(crate) fn settle(shares: &[Share]) -> Vec<Leg> {
    let least = shares.iter().map(|s| s.share).fold(f64::MAX, f64::min);
    let leg = |s: &Share| Leg {
        target: s.target,
        weight: ((s.share / least).round() as u32).max(1),
        labels: s.labels.clone(),
        pipe: s.pipe,
    };
    shares.iter().map(leg).collect()
}
