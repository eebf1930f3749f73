//! The words of a stream's text that stand for numbers, with VPP's names.

use super::scan::{ParseError, Scanner};

pub(super) const IP4: u16 = 0x0800;
pub(super) const ARP: u16 = 0x0806;
pub(super) const VLAN: u16 = 0x8100;
pub(super) const IP6: u16 = 0x86dd;
pub(super) const MPLS: u16 = 0x8847;

type Result<T> = std::result::Result<T, ParseError>;

/// Protocols a header can name, with VPP's names.
pub(super) const PROTOCOLS: [(&str, u8); 14] = [
    ("ICMP", 1),
    ("IGMP", 2),
    ("IP_IN_IP", 4),
    ("TCP", 6),
    ("UDP", 17),
    ("IPV6", 41),
    ("GRE", 47),
    ("IPSEC_ESP", 50),
    ("IPSEC_AH", 51),
    ("ICMP6", 58),
    ("IP6_NONXT", 59),
    ("OSPF", 89),
    ("VRRP", 112),
    ("SCTP", 132),
];

/// ICMP types (RFC 792) with VPP's names.
pub(super) const ICMP4_TYPES: [(&str, u8); 12] = [
    ("echo_reply", 0),
    ("destination_unreachable", 3),
    ("source_quench", 4),
    ("redirect", 5),
    ("echo_request", 8),
    ("router_advertisement", 9),
    ("router_solicitation", 10),
    ("time_exceeded", 11),
    ("parameter_problem", 12),
    ("timestamp_request", 13),
    ("timestamp_reply", 14),
    ("information_request", 15),
];

/// ICMPv6 types (RFC 4443, 4861) with VPP's names.
pub(super) const ICMP6_TYPES: [(&str, u8); 12] = [
    ("destination_unreachable", 1),
    ("packet_too_big", 2),
    ("time_exceeded", 3),
    ("parameter_problem", 4),
    ("echo_request", 128),
    ("echo_reply", 129),
    ("multicast_listener_request", 130),
    ("router_solicitation", 133),
    ("router_advertisement", 134),
    ("neighbor_solicitation", 135),
    ("neighbor_advertisement", 136),
    ("redirect", 137),
];

/// TCP flags (RFC 9293 section 3.1).
pub(super) const TCP_FLAGS: [(&str, u8); 8] = [
    ("FIN", 1),
    ("SYN", 2),
    ("RST", 4),
    ("PSH", 8),
    ("ACK", 16),
    ("URG", 32),
    ("ECE", 64),
    ("CWR", 128),
];

/// What a word stands for.
pub(super) fn named<T: Copy>(table: &[(&str, T)], word: &str) -> Option<T> {
    table
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(word))
        .map(|&(_, value)| value)
}

/// All words of a table, for messages.
pub(super) fn names<T>(table: &[(&str, T)]) -> String {
    table
        .iter()
        .map(|(name, _)| *name)
        .collect::<Vec<_>>()
        .join(", ")
}

/// `IP4:` and its like, or a number.
pub(super) fn ether_type(s: &mut Scanner<'_>) -> Result<u16> {
    const TYPES: [(&str, u16); 5] = [
        ("IP4", IP4),
        ("IP6", IP6),
        ("ARP", ARP),
        ("MPLS", MPLS),
        ("VLAN", VLAN),
    ];
    let what = || {
        format!(
            "an Ethernet type ({} or a number) and `:`, or `hex 0x...`",
            names(&TYPES)
        )
    };
    let Some(word) = s.peek().strip_suffix(':') else {
        return Err(s.expected(&what()));
    };
    let kind = match named(&TYPES, word) {
        Some(kind) => kind,
        None => s.number_of(16).map_err(|_| s.expected(&what()))? as u16,
    };
    if named(&TYPES, word).is_some() {
        s.at += word.len();
    }
    s.expect(":")?;
    Ok(kind)
}

/// `UDP:` and its like, or a number.
pub(super) fn protocol(s: &mut Scanner<'_>) -> Result<u8> {
    let what = || format!("an IP protocol ({} or a number) and `:`", names(&PROTOCOLS));
    let Some((word, _)) = s.peek().split_once(':') else {
        return Err(s.expected(&what()));
    };
    let protocol = match named(&PROTOCOLS, word) {
        Some(protocol) => {
            s.at += word.len();
            protocol
        }
        None => s.number_of(8).map_err(|_| s.expected(&what()))? as u8,
    };
    s.expect(":")?;
    Ok(protocol)
}

/// The IPv4 flag that comes next, as byte and bit; VPP calls the reserved one `ce`.
pub(super) fn flag4(s: &mut Scanner<'_>, ip: usize) -> Option<(usize, u8)> {
    let flags = [("mf", 0x20), ("df", 0x40), ("ce", 0x80)];
    flags
        .into_iter()
        .find(|(name, _)| s.keyword(name))
        .map(|(_, bit)| (ip + 6, bit))
}
