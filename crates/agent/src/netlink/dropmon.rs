//! NET_DM: dropped packets on generic netlink, as the kernel's drop monitor reports them
//! (`include/uapi/linux/net_dropmon.h`).
//!
//! An alert is what the kernel would send for a trap of its own: names in place of a code (see [`super::traps`]), the port
//! the packet came in on, and its first bytes from the Ethernet header on. The node that dropped it goes as the symbol.

use parshall_counters::DropReason;

use super::attributes::{Head, Writer};
use super::traps;

/// Name of the family.
pub const FAMILY: &str = "NET_DM";
/// Number of its one multicast group, `NET_DM_GRP_ALERT`.
pub const GROUP: u32 = 1;
/// `NET_DM_CFG_VERSION`.
const VERSION: u8 = 0;
const CMD_PACKET_ALERT: u8 = 5;
/// `NET_DM_ORIGIN_SW`.
const ORIGIN_SOFTWARE: u16 = 0;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Ethernet types that the kernel gives to frames without one: 802.2 by length, and not known (`if_ether.h`).
const ETH_P_802_2: u16 = 0x0004;
const ETH_P_ALL: u16 = 0x0003;

mod attr {
    pub const SYMBOL: u16 = 3;
    pub const IN_PORT: u16 = 4;
    pub const TIMESTAMP: u16 = 5;
    pub const PROTO: u16 = 6;
    pub const PAYLOAD: u16 = 7;
    pub const TRUNC_LEN: u16 = 9;
    pub const ORIG_LEN: u16 = 10;
    pub const ORIGIN: u16 = 14;
    pub const HW_TRAP_GROUP_NAME: u16 = 15;
    pub const HW_TRAP_NAME: u16 = 16;
    pub const REASON: u16 = 23;
    /// Inside of IN_PORT.
    pub const PORT_NETDEV_IFINDEX: u16 = 0;
    pub const PORT_NETDEV_NAME: u16 = 1;
}

/// A dropped packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropAlert<'a> {
    /// Why.
    pub reason: DropReason,
    /// The node that dropped it.
    pub node: &'a str,
    /// Interface it came in on: index and name. `None` = not known, or the router's own packet.
    pub input: Option<(u32, &'a str)>,
    /// What `header` begins with if not with an Ethernet header: an Ethernet type.
    pub ethertype: Option<u16>,
    /// First bytes of the packet.
    pub header: &'a [u8],
    /// Bytes of the whole packet from the first of `header` on, without FCS.
    pub length: u32,
    /// When, in nanoseconds since the UNIX epoch.
    pub timestamp: Option<u64>,
}

/// Appends the alert to `buffer`. Attributes come in the order of their numbers. A packet without an Ethernet header gets
/// one without addresses, because receivers take it for granted.
pub fn encode(buffer: &mut Vec<u8>, head: Head, d: &DropAlert<'_>) {
    let protocol = d.ethertype.unwrap_or_else(|| protocol(d.header));
    let names = traps::names(d.reason, protocol);
    let mut missing = [0; ETHERNET];
    let missing: &[u8] = match d.ethertype {
        Some(t) => {
            missing[12..].copy_from_slice(&t.to_be_bytes());
            &missing
        }
        None => &[],
    };
    let captured = missing.len() + d.header.len();
    let mut w = Writer::new(buffer, head);
    w.generic(CMD_PACKET_ALERT, VERSION)
        .string(attr::SYMBOL, &[d.node]);
    if let Some((index, name)) = d.input {
        w.nested(attr::IN_PORT, |w| {
            w.u32(attr::PORT_NETDEV_IFINDEX, index)
                .string(attr::PORT_NETDEV_NAME, &[name]);
        });
    }
    if let Some(t) = d.timestamp {
        w.u64(attr::TIMESTAMP, t);
    }
    w.u16(attr::PROTO, protocol)
        .parts(attr::PAYLOAD, &[missing, d.header])
        .u32(attr::TRUNC_LEN, u32::try_from(captured).unwrap_or(u32::MAX))
        .u32(
            attr::ORIG_LEN,
            d.length.saturating_add(missing.len() as u32),
        )
        .u16(attr::ORIGIN, ORIGIN_SOFTWARE)
        .string(attr::HW_TRAP_GROUP_NAME, &[names.group])
        .string(attr::HW_TRAP_NAME, &names.trap.parts());
    if let Some(reason) = names.reason {
        w.string(attr::REASON, &[reason]);
    }
    w.finish();
}

/// What the kernel calls the protocol of a frame. Never 0: that marks something that is no packet.
fn protocol(frame: &[u8]) -> u16 {
    match frame.get(12..14) {
        Some(&[high, low]) if high >= 6 => u16::from_be_bytes([high, low]),
        Some(_) => ETH_P_802_2,
        None => ETH_P_ALL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head = Head {
        kind: 27,
        sequence: 6,
        port: 0x0003_1234,
    };

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = (4 + value.len()) as u16;
        let mut a = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        a.extend(value);
        a.resize(a.len().next_multiple_of(4), 0);
        a
    }
    fn message(attributes: &[Vec<u8>]) -> Vec<u8> {
        let body = attributes.concat();
        let length = 20 + body.len() as u32;
        let mut m = length.to_ne_bytes().to_vec();
        m.extend([27u16.to_ne_bytes(), [0, 0]].concat());
        m.extend([6u32.to_ne_bytes(), 0x0003_1234u32.to_ne_bytes()].concat());
        m.extend([5, 0, 0, 0]);
        m.extend(body);
        m
    }

    #[test]
    fn golden_alert() {
        let mut frame = vec![0xAA; 18];
        frame[12..14].copy_from_slice(&[0x86, 0xDD]);
        let d = DropAlert {
            reason: DropReason::NoRoute,
            node: "ip6-lookup",
            input: Some((70_000, "tap0")),
            ethertype: None,
            header: &frame,
            length: 1514,
            timestamp: Some(1_700_000_000_000_000_001),
        };
        let mut b = Vec::new();
        encode(&mut b, HEAD, &d);
        let port = [
            attribute(0, &70_000u32.to_ne_bytes()),
            attribute(1, b"tap0\0"),
        ]
        .concat();
        let want = message(&[
            attribute(3, b"ip6-lookup\0"),
            attribute(4 | 0x8000, &port),
            attribute(5, &1_700_000_000_000_000_001u64.to_ne_bytes()),
            attribute(6, &0x86DDu16.to_ne_bytes()),
            attribute(7, &frame),
            attribute(9, &18u32.to_ne_bytes()),
            attribute(10, &1514u32.to_ne_bytes()),
            attribute(14, &[0, 0]),
            attribute(15, b"l3_exceptions\0"),
            attribute(16, b"ipv6_lpm_miss\0"),
        ]);
        assert_eq!(b, want);
    }

    #[test]
    fn golden_alert_of_a_packet_that_has_no_ethernet_header_and_no_port() {
        let d = DropAlert {
            reason: DropReason::LocalNoPort,
            node: "ip4-local",
            input: None,
            ethertype: Some(0x0800),
            header: &[0x45, 0],
            length: 60,
            timestamp: None,
        };
        let mut b = Vec::new();
        encode(&mut b, HEAD, &d);
        let mut payload = vec![0; 12];
        payload.extend([0x08, 0x00, 0x45, 0]);
        let group = format!("{}\0", DropReason::LocalNoPort.group().name());
        let want = message(&[
            attribute(3, b"ip4-local\0"),
            attribute(6, &0x0800u16.to_ne_bytes()),
            attribute(7, &payload),
            attribute(9, &16u32.to_ne_bytes()),
            attribute(10, &74u32.to_ne_bytes()),
            attribute(14, &[0, 0]),
            attribute(15, group.as_bytes()),
            attribute(16, b"vpp_local_no_port\0"),
            attribute(23, b"NO_SOCKET\0"),
        ]);
        assert_eq!(b, want);
    }

    #[test]
    fn frames_without_a_type_have_the_kernels_protocol() {
        let mut frame = [0u8; 14];
        assert_eq!(protocol(&frame), ETH_P_802_2);
        frame[12] = 0x08;
        assert_eq!(protocol(&frame), 0x0800);
        assert_eq!(protocol(&frame[..13]), ETH_P_ALL);
    }
}
