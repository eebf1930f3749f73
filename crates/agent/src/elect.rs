//! Which address the agent calls its own when none is configured.
//!
//! The address names the agent to its collectors and must not change (sFlow Version 5, section 4.2.1, which prefers an
//! address of a loopback interface on a router), so it is chosen once, when the agent starts, and again only when the rules
//! of the election change. The order of classes, the weights of the rules and the tie-breaks are hsflowd's
//! (`agentAddressPriority` and `priorityHigher` in its `hsflowconfig.c`).

use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use serde::Serialize;

/// What an operator prefers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Election {
    /// The interface whose addresses count more than others of their class and the next one.
    pub device: Option<String>,
    /// Networks to prefer or to avoid, the most wanted first. Of several that contain an address the last one counts.
    pub rules: Vec<Rule>,
}

/// A network to prefer or to avoid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Its address; bits behind the length do not count.
    pub network: IpAddr,
    /// Its length in bits.
    pub length: u8,
    /// Its addresses are the last choice.
    pub avoid: bool,
}

impl Election {
    /// Most rules.
    pub const MAX_RULES: usize = 64;
}

impl Rule {
    fn contains(&self, address: IpAddr) -> bool {
        let same = |a: u128, b: u128, bits: u32| {
            let shift = bits.saturating_sub(u32::from(self.length));
            a.checked_shr(shift).unwrap_or(0) == b.checked_shr(shift).unwrap_or(0)
        };
        match (self.network, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
            _ => false,
        }
    }
}

/// An address that could stand for the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The address.
    pub address: IpAddr,
    /// Interface it is on.
    pub if_index: u32,
    /// That interface's name.
    pub device: String,
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

/// Ranks there are: what a rule or an interface lifts an address by is more than any class can.
const RANKS: u32 = 13;

/// Rank of an address by its class and by what the operator prefers.
fn score(c: &Candidate, election: &Election) -> u32 {
    let rules = election.rules.iter().rev().zip(1u32..);
    let found = rules.into_iter().find(|(rule, _)| rule.contains(c.address));
    let ranked = match found {
        Some((rule, _)) if rule.avoid => 0,
        Some((_, weight)) => rank(c) + weight * RANKS,
        None => rank(c),
    };
    let pegged = election.device.as_ref() == Some(&c.device);
    ranked + if pegged { RANKS } else { 0 }
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

/// Chooses the best candidate: class and rules first, then an address that stays, then the lower interface number, then the
/// first.
pub fn elect(candidates: &[Candidate], election: &Election) -> Option<IpAddr> {
    let key = |c: &Candidate| (score(c, election), !c.dynamic, u32::MAX - c.if_index);
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
                device: i.interface_name,
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
pub fn elect_or_loopback(candidates: &[Candidate], election: &Election) -> IpAddr {
    elect(candidates, election).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(candidates: &[Candidate]) -> Option<IpAddr> {
        elect(candidates, &Election::default())
    }

    fn on(address: &str, if_index: u32) -> Candidate {
        let address = address.parse().unwrap();
        Candidate {
            address,
            if_index,
            device: format!("eth{if_index}"),
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
                let (lower, higher) = (lower.clone(), higher.clone());
                let wins = Some(higher.address);
                assert_eq!(best(&[lower.clone(), higher.clone()]), wins);
                assert_eq!(best(&[higher, lower]), wins);
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
            best(&[moving, on("2001:db8::2", 9)]),
            Some("2001:db8::2".parse().unwrap())
        );
        let two = [on("192.0.2.9", 3), on("192.0.2.8", 2), on("192.0.2.7", 2)];
        assert_eq!(best(&two), Some("192.0.2.8".parse().unwrap()));
        assert_eq!(best(&[]), None);
    }

    fn rule(text: &str) -> Rule {
        let (avoid, text) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (network, length) = text.split_once('/').unwrap();
        Rule {
            network: network.parse().unwrap(),
            length: length.parse().unwrap(),
            avoid,
        }
    }

    fn elected(device: Option<&str>, rules: &[&str], candidates: &[Candidate]) -> String {
        let election = Election {
            device: device.map(str::to_owned),
            rules: rules.iter().map(|r| rule(r)).collect(),
        };
        let found = elect(candidates, &election);
        found.map_or(String::new(), |a| a.to_string())
    }

    #[test]
    fn rules_weigh_more_than_classes_and_the_first_weighs_most() {
        let all = [
            on("198.51.100.1", 1),
            on("10.0.0.1", 2),
            on("10.1.0.1", 3),
            on("fe80::1", 4),
        ];
        assert_eq!(elected(None, &[], &all), "198.51.100.1");
        assert_eq!(elected(None, &["10.0.0.0/8"], &all), "10.0.0.1");
        assert_eq!(elected(None, &["fe80::/10", "10.0.0.0/8"], &all), "fe80::1");
        assert_eq!(
            elected(None, &["10.0.0.0/8", "fe80::/10"], &all),
            "10.0.0.1"
        );
        // An address in two networks goes by the later one.
        assert_eq!(
            elected(None, &["10.0.0.0/8", "!10.0.0.0/16"], &all),
            "10.1.0.1"
        );
        assert_eq!(elected(None, &["!198.51.100.0/24"], &all), "10.0.0.1");
        assert_eq!(elected(None, &["0.0.0.0/0"], &all), "198.51.100.1");
        assert_eq!(elected(None, &["!10.1.0.1/32"], &all[2..3]), "10.1.0.1");
    }

    #[test]
    fn a_device_lifts_its_addresses_over_every_class_but_not_over_rules() {
        let all = [on("198.51.100.1", 1), on("fe80::2", 2), on("10.0.0.1", 3)];
        assert_eq!(elected(Some("eth2"), &[], &all), "fe80::2");
        assert_eq!(elected(Some("eth7"), &[], &all), "198.51.100.1");
        let heavy = ["10.0.0.0/8", "192.168.0.0/16"];
        assert_eq!(elected(Some("eth2"), &heavy, &all), "10.0.0.1");
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
