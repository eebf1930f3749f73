//! A rule, as VPP's `acl_rule` has it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::key::{Key, L4, UpperLayer};

/// What a rule does with a packet that matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Action {
    /// Drops it.
    Deny,
    /// Lets it go on.
    Permit,
    /// Lets it go on, and what answers it too. There is no table of sessions: [`Rule::check`] refuses it.
    PermitReflect,
}

/// One rule. Everything it says must hold for a packet to match.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Rule {
    /// What happens on a match.
    pub action: Action,
    /// Source prefix: address and length.
    pub src: (IpAddr, u8),
    /// Destination prefix, of the same family.
    pub dst: (IpAddr, u8),
    /// Protocol; 0 = any, and then neither ports nor flags are looked at.
    pub proto: u8,
    /// Source ports, or ICMP types: first and last.
    pub sport: (u16, u16),
    /// Destination ports, or ICMP codes: first and last.
    pub dport: (u16, u16),
    /// TCP flags looked at.
    pub tcp_mask: u8,
    /// What they must be.
    pub tcp_value: u8,
}

/// Why a rule cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRule(pub String);

impl fmt::Display for BadRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Every port.
pub(crate) const ALL: (u16, u16) = (0, u16::MAX);

impl Rule {
    /// A rule for every packet of a family.
    pub fn any(action: Action, ip6: bool) -> Rule {
        let all: (IpAddr, u8) = match ip6 {
            false => (Ipv4Addr::UNSPECIFIED.into(), 0),
            true => (Ipv6Addr::UNSPECIFIED.into(), 0),
        };
        Rule {
            action,
            src: all,
            dst: all,
            proto: 0,
            sport: ALL,
            dport: ALL,
            tcp_mask: 0,
            tcp_value: 0,
        }
    }

    /// Whether it is about IPv6.
    pub fn is_ip6(&self) -> bool {
        self.src.0.is_ipv6()
    }

    /// Checks that the rule says something that can be.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), BadRule> {
        let fail = |why: String| Err(BadRule(why));
        if self.action == Action::PermitReflect {
            return fail(
                "permit+reflect needs a table of sessions, which there is none: say permit, and permit the \
                 answers by a rule of their own"
                    .into(),
            );
        }
        let (src, dst) = (self.src.0, self.dst.0);
        if src.is_ipv6() != dst.is_ipv6() {
            return fail(format!(
                "source {src} and destination {dst} are of different families"
            ));
        }
        for (addr, len) in [self.src, self.dst] {
            let bits = if addr.is_ipv6() { 128 } else { 32 };
            if len > bits {
                return fail(format!("{addr}/{len}: a prefix length is at most {bits}"));
            }
        }
        for (what, (first, last)) in [("source", self.sport), ("destination", self.dport)] {
            if first > last {
                return fail(format!(
                    "{what} ports {first}-{last}: the first is above the last"
                ));
            }
        }
        Ok(())
    }

    /// Whether it looks at ports or types.
    pub(crate) fn has_ports(&self) -> bool {
        self.proto != 0 && (self.sport != ALL || self.dport != ALL)
    }

    /// Whether it looks at TCP flags.
    pub(crate) fn has_flags(&self) -> bool {
        self.proto == 6 && self.tcp_mask != 0
    }

    /// Whether a packet with this key matches, worked out slowly: what a [`crate::Classifier`] must agree with.
    /// `later` says whether a fragment beyond the first matches by addresses and protocol alone.
    pub fn matches(&self, key: &Key, later: bool) -> bool {
        let (src, dst, l4): (IpAddr, IpAddr, L4) = match key {
            Key::Ip4(k) => (k.src().into(), k.dst().into(), k.l4),
            Key::Ip6(k) => (k.src().into(), k.dst().into(), k.l4),
        };
        let inside = contains(self.src, src) && contains(self.dst, dst);
        inside && self.matches_upper(&l4, later)
    }

    fn matches_upper(&self, l4: &L4, later: bool) -> bool {
        if self.proto == 0 {
            return true;
        }
        if self.proto != l4.proto {
            return false;
        }
        let within = |(first, last): (u16, u16), port| (first..=last).contains(&port);
        match l4.kind {
            UpperLayer::Later => later,
            UpperLayer::Plain => !self.has_ports(),
            UpperLayer::Ports => {
                let flags = l4.flags & self.tcp_mask == self.tcp_value;
                within(self.sport, l4.sport)
                    && within(self.dport, l4.dport)
                    && (!self.has_flags() || flags)
            }
        }
    }
}

fn contains((net, len): (IpAddr, u8), addr: IpAddr) -> bool {
    let len = u32::from(len);
    match (net, addr) {
        (IpAddr::V4(n), IpAddr::V4(a)) => {
            let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
            (u32::from(n) ^ u32::from(a)) & mask == 0
        }
        (IpAddr::V6(n), IpAddr::V6(a)) => {
            let mask = u128::MAX.checked_shl(128 - len).unwrap_or(0);
            (u128::from(n) ^ u128::from(a)) & mask == 0
        }
        _ => false,
    }
}
