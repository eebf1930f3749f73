//! Which address the agent calls its own when none is configured.
//!
//! The address names the agent to its collectors and must not change (sFlow Version 5, section 4.2.1, which prefers an
//! address of a loopback interface on a router), so it is chosen once, when the agent starts. The order of classes and the
//! tie-breaks are hsflowd's.

use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};

/// An address that could stand for the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The address.
    pub address: IpAddr,
    /// Interface it is on.
    pub if_index: u32,
    /// That interface is a loopback: the address does not depend on a link.
    pub loopback: bool,
    /// That interface is a VLAN.
    pub vlan: bool,
    /// The address was made by autoconfiguration and may change.
    pub dynamic: bool,
}

/// Rank of an address by its class; more is better.
fn rank(c: &Candidate) -> u32 {
    match c.address {
        _ if c.loopback && global(c.address) => 12,
        IpAddr::V4(a) if a.octets()[0] >= 240 || a.is_unspecified() => 0,
        IpAddr::V4(a) if a.is_multicast() => 1,
        IpAddr::V6(a) if a.is_multicast() || a.is_unspecified() => 1,
        IpAddr::V6(a) if a.is_loopback() => 2,
        IpAddr::V4(a) if a.is_loopback() => 3,
        IpAddr::V4(a) if a.is_link_local() => 4,
        IpAddr::V6(a) if a.is_unicast_link_local() => 5,
        IpAddr::V6(_) if c.vlan => 6,
        IpAddr::V4(_) if c.vlan => 7,
        IpAddr::V6(a) if a.is_unique_local() => 8,
        IpAddr::V6(_) => 9,
        IpAddr::V4(a) if a.is_private() => 10,
        IpAddr::V4(_) => 11,
    }
}

/// Whether an address means the same host to everybody.
fn global(a: IpAddr) -> bool {
    !a.is_loopback()
        && !a.is_multicast()
        && !a.is_unspecified()
        && match a {
            IpAddr::V4(a) => !a.is_link_local() && a.octets()[0] < 240,
            IpAddr::V6(a) => !a.is_unicast_link_local(),
        }
}

/// Chooses the best candidate: class first, then an address that stays, then the lower interface number, then the first.
pub fn elect(candidates: &[Candidate]) -> Option<IpAddr> {
    let key = |c: &Candidate| (rank(c), !c.dynamic, u32::MAX - c.if_index);
    let mut best: Option<&Candidate> = None;
    for c in candidates {
        if best.is_none_or(|b| key(c) > key(b)) {
            best = Some(c);
        }
    }
    best.map(|c| c.address)
}

/// The addresses of this host's interfaces that are up. Empty when the system does not tell.
pub fn host_candidates() -> Vec<Candidate> {
    let Ok(list) = getifaddrs() else {
        return Vec::new();
    };
    let inet6 = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let dynamic = dynamic_addresses(&inet6);
    list.filter(|i| i.flags.contains(InterfaceFlags::IFF_UP))
        .filter_map(|i| {
            let a = i.address?;
            let address = match (a.as_sockaddr_in(), a.as_sockaddr_in6()) {
                (Some(v4), _) => IpAddr::V4(v4.ip()),
                (_, Some(v6)) => IpAddr::V6(v6.ip()),
                _ => return None,
            };
            Some(Candidate {
                address,
                if_index: if_nametoindex(i.interface_name.as_str()).unwrap_or(u32::MAX),
                loopback: i.flags.contains(InterfaceFlags::IFF_LOOPBACK),
                vlan: fs::exists(format!("/proc/net/vlan/{}", i.interface_name)).unwrap_or(false),
                dynamic: matches!(address, IpAddr::V6(a) if dynamic.contains(&a)),
            })
        })
        .collect()
}

/// The addresses in the text of `/proc/net/if_inet6` that lack `IFA_F_PERMANENT` (0x80, `linux/if_addr.h`).
fn dynamic_addresses(text: &str) -> HashSet<Ipv6Addr> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let address = u128::from_str_radix(words.next()?, 16).ok()?;
            let flags = u32::from_str_radix(words.nth(3)?, 16).ok()?;
            (flags & 0x80 == 0).then(|| Ipv6Addr::from(address))
        })
        .collect()
}

/// The address to use: the best of `candidates`, or the IPv4 loopback address when there is none.
pub fn elect_or_loopback(candidates: &[Candidate]) -> IpAddr {
    elect(candidates).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(address: &str, if_index: u32) -> Candidate {
        let address = address.parse().unwrap();
        Candidate {
            address,
            if_index,
            loopback: false,
            vlan: false,
            dynamic: false,
        }
    }

    #[test]
    fn classes_are_ranked_as_hsflowd_does() {
        let vlan = |a| Candidate {
            vlan: true,
            ..on(a, 1)
        };
        let loopback = |a| Candidate {
            loopback: true,
            ..on(a, 1)
        };
        let order = [
            on("240.0.0.1", 1),
            on("224.0.0.1", 1),
            loopback("::1"),
            loopback("127.0.0.1"),
            on("169.254.1.1", 1),
            on("fe80::1", 1),
            vlan("2001:db8::1"),
            vlan("192.0.2.1"),
            on("fd00::1", 1),
            on("2001:db8::2", 1),
            on("10.0.0.1", 1),
            on("192.0.2.2", 1),
            loopback("10.255.0.1"),
        ];
        for (i, lower) in order.iter().enumerate() {
            for higher in &order[i + 1..] {
                assert_eq!(elect(&[*lower, *higher]), Some(higher.address));
                assert_eq!(elect(&[*higher, *lower]), Some(higher.address));
            }
        }
    }

    #[test]
    fn ties_go_to_what_stays_then_to_the_lower_interface_then_to_the_first() {
        let moving = Candidate {
            dynamic: true,
            ..on("2001:db8::1", 1)
        };
        assert_eq!(
            elect(&[moving, on("2001:db8::2", 9)]),
            Some("2001:db8::2".parse().unwrap())
        );
        let two = [on("192.0.2.9", 3), on("192.0.2.8", 2), on("192.0.2.7", 2)];
        assert_eq!(elect(&two), Some("192.0.2.8".parse().unwrap()));
        assert_eq!(elect(&[]), None);
    }

    #[test]
    fn if_inet6_tells_which_addresses_stay() {
        let text = "fd000000000000000000000000000002 04 40 00 82     eth0\n\
                    20010db8000000000000000000000001 04 40 00 00     eth0\nrubbish\n";
        let want: HashSet<Ipv6Addr> = ["2001:db8::1".parse().unwrap()].into();
        assert_eq!(dynamic_addresses(text), want);
    }

    #[test]
    fn this_host_has_some_address() {
        assert!(!host_candidates().is_empty());
    }
}
