//! The cases: what is sent, and what the tables hold. Descriptions only, so that a rig of our own and a
//! peer's command line can both be set up from them.

use std::net::{Ipv4Addr, Ipv6Addr};

use parshall_acl::{Action, Rule};
use parshall_drivers::pg::{Field, StreamSpec, Values};
use parshall_fib::{Ip4Prefix, Ip6Prefix};
use parshall_wire::{MacAddr, PacketBuilder};

use crate::BenchError;
use crate::internet::{self, Random};
use crate::rig::{PEER_MAC, ROUTER_MAC};

/// A case.
pub struct Case {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, for people.
    pub what: &'static str,
    /// What the router does.
    pub work: Work,
    /// What the tables hold.
    pub routes: fn() -> Result<Routes, BenchError>,
    /// What is sent: the destinations, in order.
    pub traffic: fn() -> Result<Traffic, BenchError>,
}

/// What the router does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Sends it out of the other interface.
    CrossConnect,
    /// Bridges, and learns.
    Bridge,
    /// Routes IPv4.
    Ip4,
    /// Routes IPv6.
    Ip6,
    /// Swaps a label.
    Mpls,
    /// Routes IPv4 that [`ACL_RULES`] rules let pass.
    Acl,
    /// Cross-connects into a VXLAN tunnel over IPv4.
    VxlanOut,
    /// Cross-connects what comes out of a VXLAN tunnel over IPv4.
    VxlanIn,
}

/// What the tables hold.
#[derive(Debug)]
pub enum Routes {
    /// Nothing.
    None,
    /// IPv4 routes, each to the neighbour of [`Neighbours`].
    Ip4(Vec<Ip4Prefix>, Neighbours),
    /// IPv6 routes, each to the neighbour of [`Neighbours`].
    Ip6(Vec<Ip6Prefix>, Neighbours),
    /// [`LABEL_IN`] becomes [`LABEL_OUT`].
    Swap,
}

/// Which neighbour a route leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbours {
    /// All to one.
    One,
    /// Spread over [`internet::NEXT_HOPS`] by [`internet::next_hop`].
    Many,
}

/// What is sent.
#[derive(Debug)]
pub enum Traffic {
    /// 14 Ethernet, 20 IPv4, 8 UDP, 22 payload, to these in turn.
    Ip4(Vec<u32>),
    /// 14 Ethernet, 20 IPv4, 8 UDP, 22 payload, from and to these stations in turn.
    Stations(Vec<([u8; 6], [u8; 6])>),
    /// 14 Ethernet, 40 IPv6, 8 UDP, 2 payload, to these in turn.
    Ip6(Vec<u128>),
    /// 14 Ethernet, 4 label, 20 IPv4, 8 UDP, 18 payload.
    Mpls,
    /// A frame as of [`Traffic::Ip4`] in VXLAN from [`FAR_END`] to [`NEAR_END`], of so many flows.
    Vxlan(u16),
}

/// Bytes of every frame, without FCS and without what a tunnel puts around it.
pub const FRAME_BYTES: usize = 64;
/// Random destinations of the cases with large tables.
const DESTINATIONS: usize = 16_384;
const SEED: u64 = 0x2545_F491_4F6C_DD1D;
/// Routes of `ip4-1m` and `ip6-500k`.
const ROUTES_4: usize = 1_000_000;
const ROUTES_6: usize = 500_000;
/// Routes of `ip4-grown` and `ip6-grown`.
const GROWN_4: usize = 1_200_000;
const GROWN_6: usize = 250_000;
/// Base of the routes: 10.0.0.0 and 2001:db8::.
const BASE_4: u32 = 0x0A00_0000;
const BASE_6: u128 = 0x2001_0db8 << 96;
/// The label that comes in, and the one that goes out.
pub const LABEL_IN: u32 = 100;
/// The label that goes out.
pub const LABEL_OUT: u32 = 200;

/// Rules of `ip4-acl200`: all but the last deny other traffic, the last permits the rest.
pub const ACL_RULES: u32 = 200;
/// VXLAN network of the tunnel cases.
pub const VNI: u32 = 10;
/// Our end and the other end of the tunnel that traffic comes out of; it comes in by the source.
pub const NEAR_END: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
/// The other end.
pub const FAR_END: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 2);

/// All cases.
pub const CASES: &[Case] = &[
    Case {
        name: "l2xc",
        what: "L2 cross-connect",
        work: Work::CrossConnect,
        routes: || Ok(Routes::None),
        traffic: || Ok(Traffic::Ip4((0..250).map(|i| BASE_4 + i).collect())),
    },
    Case {
        name: "l2bridge-16k",
        what: "bridge domain, learning on, 16,384 MACs, random",
        work: Work::Bridge,
        routes: || Ok(Routes::None),
        traffic: || Ok(stations(16_384)),
    },
    Case {
        name: "l2bridge-100k",
        what: "bridge domain, learning on, 100,000 MACs, random",
        work: Work::Bridge,
        routes: || Ok(Routes::None),
        traffic: || Ok(stations(100_000)),
    },
    Case {
        name: "ip4",
        what: "IPv4, 250 destinations, one /24",
        work: Work::Ip4,
        routes: || {
            Ok(Routes::Ip4(
                vec![Ip4Prefix::masked(BASE_4, 24)],
                Neighbours::One,
            ))
        },
        traffic: || Ok(Traffic::Ip4((0..250).map(|i| BASE_4 + i).collect())),
    },
    Case {
        name: "ip4-acl200",
        what: "as ip4, and an input access list of 200 rules, of which the last matches",
        work: Work::Acl,
        routes: || {
            Ok(Routes::Ip4(
                vec![Ip4Prefix::masked(BASE_4, 24)],
                Neighbours::One,
            ))
        },
        traffic: || Ok(Traffic::Ip4((0..250).map(|i| BASE_4 + i).collect())),
    },
    Case {
        name: "ip4-1m",
        what: "IPv4, 1,000,000 /32 routes, 16,384 random destinations",
        work: Work::Ip4,
        routes: || Ok(Routes::Ip4(million(), Neighbours::One)),
        traffic: || {
            Ok(Traffic::Ip4(internet::destinations(
                &million(),
                DESTINATIONS,
                SEED,
            )))
        },
    },
    Case {
        name: "ip4-full",
        what: "IPv4, the Internet's 901,899 routes, 16,384 random destinations",
        work: Work::Ip4,
        routes: || Ok(Routes::Ip4(internet::ip4()?, Neighbours::Many)),
        traffic: || to4(&internet::ip4()?),
    },
    Case {
        name: "ip4-grown",
        what: "IPv4, 1,200,000 routes grown from the Internet's, 16,384 random destinations",
        work: Work::Ip4,
        routes: || Ok(Routes::Ip4(internet::grown4(GROWN_4)?, Neighbours::Many)),
        traffic: || to4(&internet::grown4(GROWN_4)?),
    },
    Case {
        name: "ip6",
        what: "IPv6, 250 destinations, one /48",
        work: Work::Ip6,
        routes: || {
            Ok(Routes::Ip6(
                vec![Ip6Prefix::masked(BASE_6, 48)],
                Neighbours::One,
            ))
        },
        traffic: || Ok(Traffic::Ip6((0..250).map(|i| BASE_6 + i).collect())),
    },
    Case {
        name: "ip6-500k",
        what: "IPv6, 500,000 /64 routes, 16,384 random destinations",
        work: Work::Ip6,
        routes: || {
            let of = |i| Ip6Prefix::masked(BASE_6 + ((i as u128) << 64), 64);
            Ok(Routes::Ip6(
                (0..ROUTES_6).map(of).collect(),
                Neighbours::One,
            ))
        },
        traffic: || {
            let mut random = Random::new(SEED);
            let mut to = || BASE_6 + ((random.below(ROUTES_6) as u128) << 64) + 1;
            Ok(Traffic::Ip6((0..DESTINATIONS).map(|_| to()).collect()))
        },
    },
    Case {
        name: "ip6-full",
        what: "IPv6, the Internet's 160,147 routes, 16,384 random destinations",
        work: Work::Ip6,
        routes: || Ok(Routes::Ip6(internet::ip6()?, Neighbours::Many)),
        traffic: || to6(&internet::ip6()?),
    },
    Case {
        name: "ip6-grown",
        what: "IPv6, 250,000 routes grown from the Internet's, 16,384 random destinations",
        work: Work::Ip6,
        routes: || Ok(Routes::Ip6(internet::grown6(GROWN_6)?, Neighbours::Many)),
        traffic: || to6(&internet::grown6(GROWN_6)?),
    },
    Case {
        name: "mpls-swap",
        what: "MPLS swap of one label",
        work: Work::Mpls,
        routes: || Ok(Routes::Swap),
        traffic: || Ok(Traffic::Mpls),
    },
    Case {
        name: "vxlan4-encap",
        what: "cross-connect into VXLAN over IPv4, 250 flows",
        work: Work::VxlanOut,
        // To the other end of the tunnel, which is the sink's first neighbour.
        routes: || {
            Ok(Routes::Ip4(
                vec![Ip4Prefix::masked(0xC0A8_0102, 32)],
                Neighbours::One,
            ))
        },
        traffic: || Ok(Traffic::Ip4((0..250).map(|i| BASE_4 + i).collect())),
    },
    Case {
        name: "vxlan4-decap",
        what: "cross-connect out of VXLAN over IPv4, 250 flows, 114-byte frames",
        work: Work::VxlanIn,
        routes: || Ok(Routes::None),
        traffic: || Ok(Traffic::Vxlan(250)),
    },
];

/// Rule `i` of `ip4-acl200` as VPP's command has it, and as ours: half of those that deny are about other destinations,
/// half about other ports.
pub fn acl_rule(i: u32) -> Rule {
    let net = |a: u32, len| (Ipv4Addr::from(a).into(), len);
    let udp = Rule {
        proto: 17,
        src: net(0xC0A8_0000, 16),
        ..Rule::any(Action::Deny, false)
    };
    match i {
        _ if i + 1 == ACL_RULES => Rule::any(Action::Permit, false),
        _ if i.is_multiple_of(2) => Rule {
            dst: net(BASE_4 + (i + 1) * 256, 24),
            ..udp
        },
        _ => Rule {
            dst: net(BASE_4, 16),
            dport: (10_000 + i as u16, 10_000 + i as u16),
            ..udp
        },
    }
}

/// Half of `n` stations speak to the other half: each to one drawn at random, in a random order.
fn stations(n: usize) -> Traffic {
    let mut random = Random::new(SEED);
    let side = |half: u8, random: &mut Random| {
        let mac = |i: usize| {
            let [.., a, b, c] = i.to_be_bytes();
            [2, 0xBD, half, a, b, c]
        };
        let mut all: Vec<[u8; 6]> = (0..n / 2).map(mac).collect();
        for i in (1..all.len()).rev() {
            all.swap(i, random.below(i + 1));
        }
        all
    };
    let (from, to) = (side(1, &mut random), side(2, &mut random));
    Traffic::Stations(from.into_iter().zip(to).collect())
}

fn million() -> Vec<Ip4Prefix> {
    (0..ROUTES_4 as u32)
        .map(|i| Ip4Prefix::masked(BASE_4 + i, 32))
        .collect()
}

fn to4(prefixes: &[Ip4Prefix]) -> Result<Traffic, BenchError> {
    Ok(Traffic::Ip4(internet::destinations(
        prefixes,
        DESTINATIONS,
        SEED,
    )))
}

fn to6(prefixes: &[Ip6Prefix]) -> Result<Traffic, BenchError> {
    Ok(Traffic::Ip6(internet::destinations(
        prefixes,
        DESTINATIONS,
        SEED,
    )))
}

/// The cases called `names`, all if none is named.
///
/// # Errors
/// When there is no case of a name; says which there are.
pub fn chosen(names: &[String]) -> Result<Vec<&'static Case>, BenchError> {
    if let Some(unknown) = names.iter().find(|n| CASES.iter().all(|c| c.name != **n)) {
        let known: Vec<_> = CASES.iter().map(|c| c.name).collect();
        return Err(BenchError(format!(
            "no case {unknown}; there are {}",
            known.join(", ")
        )));
    }
    let wanted = |c: &&Case| names.is_empty() || names.iter().any(|n| n == c.name);
    Ok(CASES.iter().filter(wanted).collect())
}

impl Traffic {
    /// The generator's stream.
    ///
    /// # Errors
    /// When the generator does not take it.
    pub fn stream(&self) -> Result<StreamSpec, BenchError> {
        let (field, values) = match self {
            Traffic::Ip4(to) => (
                Field::Ip4Destination,
                Values::list(to.iter().copied().map(Ipv4Addr::from)),
            ),
            Traffic::Ip6(to) => (
                Field::Ip6Destination,
                Values::list(to.iter().copied().map(Ipv6Addr::from)),
            ),
            Traffic::Stations(pairs) => return bridged(self, pairs),
            Traffic::Mpls => return base_stream(&self.frame(0, MacAddr(ROUTER_MAC))),
            // The other end tells flows apart by the source port (RFC 7348 section 5).
            Traffic::Vxlan(flows) => (Field::SourcePort, Values::list((0..*flows).map(vxlan_port))),
        };
        base_stream(&self.frame(0, MacAddr(ROUTER_MAC)))?
            .vary(field, values)
            .map_err(|e| BenchError::of("stream", e))
    }

    /// How many stations there are, where frames are bridged.
    pub fn stations(&self) -> usize {
        match self {
            Traffic::Stations(pairs) => 2 * pairs.len(),
            _ => 0,
        }
    }

    /// How many different frames there are.
    pub fn len(&self) -> usize {
        match self {
            Traffic::Ip4(to) => to.len(),
            Traffic::Ip6(to) => to.len(),
            Traffic::Stations(pairs) => pairs.len(),
            Traffic::Mpls => 1,
            Traffic::Vxlan(flows) => usize::from(*flows),
        }
    }

    /// Frame `i` below [`Traffic::len`], to the router's address `router`.
    pub fn frame(&self, i: usize, router: MacAddr) -> Vec<u8> {
        let ethernet = match self {
            Traffic::Stations(pairs) => {
                let (from, to) = pairs[i];
                PacketBuilder::ethernet(MacAddr(from), MacAddr(to))
            }
            _ => PacketBuilder::ethernet(MacAddr(PEER_MAC), router),
        };
        let from4 = Ipv4Addr::new(192, 168, 0, 1);
        let (ip, payload) = match self {
            Traffic::Ip4(to) => (ethernet.ipv4(from4, Ipv4Addr::from(to[i])), 22),
            Traffic::Ip6(to) => {
                let from = Ipv6Addr::from(BASE_6 + 1);
                (ethernet.ipv6(from, Ipv6Addr::from(to[i])), 2)
            }
            Traffic::Stations(_) => (ethernet.ipv4(from4, Ipv4Addr::from(BASE_4)), 22),
            Traffic::Mpls => (
                ethernet.mpls(LABEL_IN).ipv4(from4, Ipv4Addr::from(BASE_4)),
                18,
            ),
            Traffic::Vxlan(_) => return vxlan(ethernet, i as u16),
        };
        ip.udp(1234, 2345).payload_len(payload).build()
    }
}

fn vxlan_port(flow: u16) -> u16 {
    0xC000 | flow
}

/// A frame of 64 bytes in VXLAN.
fn vxlan(ethernet: PacketBuilder, flow: u16) -> Vec<u8> {
    let [_, v0, v1, v2] = VNI.to_be_bytes();
    let inner = Traffic::Ip4(vec![BASE_4]).frame(0, MacAddr(ROUTER_MAC));
    let payload = [&[8, 0, 0, 0, v0, v1, v2, 0][..], &inner].concat();
    let udp = ethernet.ipv4(FAR_END, NEAR_END).udp(vxlan_port(flow), 4789);
    let mut frame = udp.payload(&payload).build();
    // Ethernet, IPv4, and the checksum of UDP at its byte 6: none, as RFC 7348 section 4.1 has it.
    frame[40..42].fill(0);
    frame
}

/// The stream between stations.
fn bridged(traffic: &Traffic, pairs: &[([u8; 6], [u8; 6])]) -> Result<StreamSpec, BenchError> {
    let fail = |e| BenchError::of("stream", e);
    let mut spec = base_stream(&traffic.frame(0, MacAddr(ROUTER_MAC)))?;
    spec.max_variants = spec.max_variants.max(pairs.len());
    spec.vary(Field::EthSource, Values::list(pairs.iter().map(|p| p.0)))
        .map_err(fail)?
        .vary(
            Field::EthDestination,
            Values::list(pairs.iter().map(|p| p.1)),
        )
        .map_err(fail)
}

fn base_stream(frame: &[u8]) -> Result<StreamSpec, BenchError> {
    StreamSpec::from_frame("bench", frame).map_err(|e| BenchError::of("stream", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_is_64_bytes_and_what_is_around_it() {
        for case in CASES {
            let traffic = (case.traffic)().unwrap();
            let around = match traffic {
                Traffic::Vxlan(_) => 50,
                _ => 0,
            };
            for i in [0, traffic.len() / 2, traffic.len() - 1] {
                let frame = traffic.frame(i, MacAddr(ROUTER_MAC));
                assert_eq!(frame.len(), FRAME_BYTES + around, "{}", case.name);
            }
            let spec = traffic.stream().unwrap();
            let parshall_drivers::pg::Source::Generate(t) = &spec.source else {
                panic!("{}", case.name)
            };
            assert_eq!(t.bytes.len(), FRAME_BYTES + around, "{}", case.name);
        }
    }

    #[test]
    fn cases_are_chosen_by_name() {
        let names: Vec<_> = chosen(&["ip4".into()])
            .unwrap()
            .iter()
            .map(|c| c.name)
            .collect();
        assert_eq!(names, ["ip4"]);
        assert_eq!(chosen(&[]).unwrap().len(), CASES.len());
        let error = chosen(&["ipx".into()]).err().unwrap().to_string();
        assert!(
            error.starts_with("no case ipx; there are l2xc, l2bridge-16k, "),
            "{error}"
        );
    }
}
