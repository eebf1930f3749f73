//! USERSOCK: what VPP's sflow plugin tells hsflowd of itself and its ports, on multicast group 29 of `NETLINK_USERSOCK`.
//!
//! Two messages, without a generic netlink header: the state of the sampler every second, and the counters of a port, by
//! which hsflowd gets to know the port in the first place. The numbers are those of VPP's plugin and hsflowd's `mod_vpp`.

use parshall_counters::IfTotals;
use parshall_device::Duplex;

use super::attributes::{Head, Writer};
use crate::router::IfReport;

/// The multicast group.
pub const GROUP: u32 = 29;
/// Message types.
const VPP_STATUS: u16 = 1;
const IF_COUNTERS: u16 = 2;
/// What VPP calls the speed of links that have none.
const VIRTUAL_SPEED: u64 = 1_000_000_000;
/// `ifType` (IANAifType-MIB): ethernetCsmacd and softwareLoopback.
const ETHERNET: u32 = 6;
const LOOPBACK: u32 = 24;

mod attr {
    pub const PORTNAME: u16 = 0;
    pub const IFINDEX: u16 = 1;
    pub const IFTYPE: u16 = 2;
    pub const IFSPEED: u16 = 3;
    pub const IFDIRECTION: u16 = 4;
    pub const OPER_UP: u16 = 5;
    pub const ADMIN_UP: u16 = 6;
    /// The first of twelve counters, receive and transmit in turn.
    pub const COUNTERS: u16 = 7;
    pub const HW_ADDRESS: u16 = 19;
    pub const UPTIME_S: u16 = 20;
    pub const OSINDEX: u16 = 21;
    pub const DROPS: u16 = 22;
    pub const SEQ: u16 = 23;
}

/// Appends VPP_STATUS: seconds since the agent started, samples lost so far, and the number of the message.
pub fn encode_status(
    buffer: &mut Vec<u8>,
    sequence: u32,
    port: u32,
    uptime_seconds: u32,
    drops: u32,
) {
    let head = Head {
        kind: VPP_STATUS,
        sequence,
        port,
    };
    let mut w = Writer::new(buffer, head);
    w.u32(attr::UPTIME_S, uptime_seconds)
        .u32(attr::DROPS, drops)
        .u32(attr::SEQ, sequence);
    w.finish();
}

/// Appends IF_COUNTERS of one port.
///
/// OSINDEX is 0 for an interface without a Linux counterpart, as VPP sends it without its linux-cp plugin: to hsflowd an
/// OSINDEX that is missing means that a mapping is still to come, and until then it holds the port's samples back.
pub fn encode_counters(buffer: &mut Vec<u8>, sequence: u32, port: u32, r: &IfReport) {
    let head = Head {
        kind: IF_COUNTERS,
        sequence,
        port,
    };
    let mut w = Writer::new(buffer, head);
    w.bytes(attr::PORTNAME, r.name.as_bytes())
        .u32(attr::IFINDEX, r.if_index)
        .u32(attr::IFTYPE, if r.loopback { LOOPBACK } else { ETHERNET })
        .u64(attr::IFSPEED, speed(r))
        .u32(attr::IFDIRECTION, direction(r.duplex))
        .u32(attr::OPER_UP, u32::from(r.link_up))
        .u32(attr::ADMIN_UP, u32::from(r.admin_up));
    for (kind, n) in (attr::COUNTERS..).zip(counters(&r.totals)) {
        w.u64(kind, n);
    }
    w.bytes(attr::HW_ADDRESS, &r.mac)
        .u32(attr::OSINDEX, r.os_index)
        .u32(attr::SEQ, sequence);
    w.finish();
}

/// Octets, packets, broadcasts, multicasts, discards, errors; receive and transmit of each.
fn counters(t: &IfTotals) -> [u64; 12] {
    let rx_discards = t
        .rx_drops
        .wrapping_add(t.rx_missed)
        .wrapping_add(t.rx_no_buffer);
    [
        t.rx_bytes,
        t.tx_bytes,
        t.rx_packets,
        t.tx_packets,
        t.rx_broadcast,
        t.tx_broadcast,
        t.rx_multicast,
        t.tx_multicast,
        rx_discards,
        t.tx_drops,
        t.rx_errors,
        t.tx_errors,
    ]
}

fn speed(r: &IfReport) -> u64 {
    match r.speed {
        0 if r.loopback => VIRTUAL_SPEED,
        known => known,
    }
}

fn direction(duplex: Duplex) -> u32 {
    match duplex {
        Duplex::Half => 2,
        // VPP knows no third state, and what has no duplex is virtual and does both at once.
        Duplex::Full | Duplex::Unknown => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn u16s(all: &[u16]) -> Vec<u8> {
        all.iter().flat_map(|n| n.to_ne_bytes()).collect()
    }
    fn number32(kind: u16, n: u32) -> Vec<u8> {
        [u16s(&[8, kind]), n.to_ne_bytes().to_vec()].concat()
    }
    fn number64(kind: u16, n: u64) -> Vec<u8> {
        [u16s(&[12, kind]), n.to_ne_bytes().to_vec()].concat()
    }
    fn head(length: u32, kind: u16, sequence: u32) -> Vec<u8> {
        let numbers = [sequence, 77].map(u32::to_ne_bytes).concat();
        [length.to_ne_bytes().to_vec(), u16s(&[kind, 0]), numbers].concat()
    }

    #[test]
    fn golden_status() {
        let mut b = Vec::new();
        encode_status(&mut b, 4, 77, 3600, 12);
        let want = [
            head(40, 1, 4),
            number32(20, 3600),
            number32(22, 12),
            number32(23, 4),
        ];
        assert_eq!(b, want.concat());
    }

    fn report() -> IfReport {
        IfReport {
            index: 5,
            if_index: 5,
            name: "tap0".into(),
            speed: 10_000_000_000,
            duplex: Duplex::Full,
            admin_up: true,
            link_up: true,
            mac: [2, 0xFE, 0, 0, 0, 1],
            os_index: 17,
            totals: IfTotals {
                rx_bytes: 1 << 33,
                tx_bytes: 2,
                rx_packets: 3,
                tx_packets: 4,
                rx_broadcast: 5,
                tx_broadcast: 6,
                rx_multicast: 7,
                tx_multicast: 8,
                rx_drops: 9,
                rx_missed: 90,
                rx_no_buffer: 900,
                tx_drops: 10,
                rx_errors: 11,
                tx_errors: 12,
                ..IfTotals::default()
            },
            ..IfReport::default()
        }
    }

    #[test]
    fn golden_counters() {
        let mut b = Vec::new();
        encode_counters(&mut b, 5, 77, &report());
        let counters = [1 << 33, 2, 3, 4, 5, 6, 7, 8, 999, 10, 11, 12];
        let want = [
            head(16 + 8 + 8 + 8 + 12 + 24 + 144 + 12 + 16, 2, 5),
            // The name has no zero at its end.
            [u16s(&[8, 0]), b"tap0".to_vec()].concat(),
            number32(1, 5),
            number32(2, 6),
            number64(3, 10_000_000_000),
            number32(4, 1),
            number32(5, 1),
            number32(6, 1),
            (7..)
                .zip(counters)
                .flat_map(|(k, n)| number64(k, n))
                .collect(),
            [u16s(&[10, 19]), vec![2, 0xFE, 0, 0, 0, 1, 0, 0]].concat(),
            number32(21, 17),
            number32(23, 5),
        ];
        assert_eq!(b, want.concat());
    }

    #[test]
    fn what_has_no_speed_duplex_or_counterpart_says_so_as_vpp_does() {
        let plain = IfReport {
            loopback: true,
            os_index: 0,
            ..report()
        };
        let r = IfReport {
            speed: 0,
            duplex: Duplex::Unknown,
            ..plain
        };
        let mut b = Vec::new();
        encode_counters(&mut b, 1, 77, &r);
        for part in [
            number32(2, 24),
            number64(3, 1_000_000_000),
            number32(4, 1),
            number32(21, 0),
        ] {
            assert!(b.windows(part.len()).any(|w| w == part), "{part:?}");
        }
    }
}
