//! The cases: what is sent, and what the tables hold.

use std::net::{Ipv4Addr, Ipv6Addr};

use parshall_drivers::pg::{Field, StreamSpec, Values};
use parshall_fib::{Dpo, DpoKind, Imposition, Ip4Prefix, Ip6Prefix, Payload, TtlMode};
use parshall_wire::{MacAddr, PacketBuilder};

use crate::BenchError;
use crate::rig::{PEER_MAC, ROUTER_MAC, Tables};

/// A case.
pub struct Case {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, for people.
    pub what: &'static str,
    /// The receiving interface is cross-connected.
    pub cross_connect: bool,
    /// Fills the tables; the adjacency to the sink is given.
    pub fill: fn(&Tables, Dpo) -> Result<(), BenchError>,
    /// The stream.
    pub stream: fn() -> Result<StreamSpec, BenchError>,
}

/// Random destinations of the cases with large tables.
const DESTINATIONS: usize = 16_384;
/// Routes of `ip4-1m` and `ip6-500k`.
const ROUTES_4: u32 = 1_000_000;
const ROUTES_6: u32 = 500_000;
/// Base of the routes: 10.0.0.0 and 2001:db8::.
const BASE_4: u32 = 0x0A00_0000;
const BASE_6: u128 = 0x2001_0db8 << 96;
const LABEL_IN: u32 = 100;
const LABEL_OUT: u32 = 200;

/// All cases.
pub const CASES: &[Case] = &[
    Case {
        name: "l2xc",
        what: "L2 cross-connect",
        cross_connect: true,
        fill: |_, _| Ok(()),
        stream: || ip4_stream((0..250).map(|i| BASE_4 + i).collect()),
    },
    Case {
        name: "ip4",
        what: "IPv4, 250 destinations, one /24",
        cross_connect: false,
        fill: |t, adj| t.route4(Ip4Prefix::new(BASE_4, 24), adj),
        stream: || ip4_stream((0..250).map(|i| BASE_4 + i).collect()),
    },
    Case {
        name: "ip4-1m",
        what: "IPv4, 1,000,000 /32 routes, 16,384 random destinations",
        cross_connect: false,
        fill: |t, adj| {
            (0..ROUTES_4).try_for_each(|i| t.route4(Ip4Prefix::new(BASE_4 + i, 32), adj))
        },
        stream: || {
            ip4_stream(random(DESTINATIONS, |r| {
                BASE_4 + (r % u64::from(ROUTES_4)) as u32
            }))
        },
    },
    Case {
        name: "ip6",
        what: "IPv6, 250 destinations, one /48",
        cross_connect: false,
        fill: |t, adj| t.route6(Ip6Prefix::new(BASE_6, 48), adj),
        stream: || ip6_stream((0..250).map(|i| BASE_6 + i).collect()),
    },
    Case {
        name: "ip6-500k",
        what: "IPv6, 500,000 /64 routes, 16,384 random destinations",
        cross_connect: false,
        fill: |t, adj| {
            (0..ROUTES_6)
                .try_for_each(|i| t.route6(Ip6Prefix::new(BASE_6 + (u128::from(i) << 64), 64), adj))
        },
        stream: || {
            ip6_stream(random(DESTINATIONS, |r| {
                BASE_6 + (u128::from(r % u64::from(ROUTES_6)) << 64) + 1
            }))
        },
    },
    Case {
        name: "mpls-swap",
        what: "MPLS swap of one label",
        cross_connect: false,
        fill: |t, adj| {
            let swap = Imposition::new(&[LABEL_OUT], Payload::Mpls, TtlMode::Uniform, 0, 0, adj);
            let swap = swap.map_err(|e| BenchError::of("imposition", e))?;
            let index = t
                .shared
                .impositions
                .insert(swap)
                .map_err(|e| BenchError::of("imposition", e))?;
            t.label(LABEL_IN, Dpo::new(DpoKind::MplsImpose, index))
        },
        stream: mpls_stream,
    },
];

/// Seeded numbers: every run sends the same packets.
fn random<T>(n: usize, mut f: impl FnMut(u64) -> T) -> Vec<T> {
    let mut x = 0x2545_F491_4F6C_DD1Du64;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    (0..n).map(|_| f(next() >> 16)).collect()
}

fn builder() -> PacketBuilder {
    PacketBuilder::ethernet(MacAddr(PEER_MAC), MacAddr(ROUTER_MAC))
}

fn stream(frame: &[u8], vary: Option<(Field, Values)>) -> Result<StreamSpec, BenchError> {
    let spec = StreamSpec::from_frame("bench", frame).map_err(|e| BenchError::of("stream", e))?;
    let Some((field, values)) = vary else {
        return Ok(spec);
    };
    spec.vary(field, values)
        .map_err(|e| BenchError::of("stream", e))
}

/// 64-byte frames: 14 Ethernet, 20 IPv4, 8 UDP, 22 payload.
fn ip4_stream(to: Vec<u32>) -> Result<StreamSpec, BenchError> {
    let frame = builder()
        .ipv4(Ipv4Addr::new(192, 168, 0, 1), Ipv4Addr::from(BASE_4))
        .udp(1234, 2345)
        .payload_len(22)
        .build();
    stream(
        &frame,
        Some((
            Field::Ip4Destination,
            Values::list(to.into_iter().map(Ipv4Addr::from)),
        )),
    )
}

/// 64-byte frames: 14 Ethernet, 40 IPv6, 8 UDP, 2 payload.
fn ip6_stream(to: Vec<u128>) -> Result<StreamSpec, BenchError> {
    let frame = builder()
        .ipv6(Ipv6Addr::from(BASE_6 + 1), Ipv6Addr::from(BASE_6))
        .udp(1234, 2345)
        .payload_len(2)
        .build();
    stream(
        &frame,
        Some((
            Field::Ip6Destination,
            Values::list(to.into_iter().map(Ipv6Addr::from)),
        )),
    )
}

/// 64-byte frames: 14 Ethernet, 4 label, 20 IPv4, 8 UDP, 18 payload.
fn mpls_stream() -> Result<StreamSpec, BenchError> {
    let frame = builder()
        .mpls(LABEL_IN)
        .ipv4(Ipv4Addr::new(192, 168, 0, 1), Ipv4Addr::from(BASE_4))
        .udp(1234, 2345)
        .payload_len(18)
        .build();
    stream(&frame, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_is_64_bytes() {
        for case in CASES {
            let spec = (case.stream)().unwrap();
            let parshall_drivers::pg::Source::Generate(t) = &spec.source else {
                panic!("{}", case.name)
            };
            assert_eq!(t.bytes.len(), 64, "{}", case.name);
        }
    }
}
