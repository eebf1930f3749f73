//! What IPv4 and IPv6 share: the protocol number (IANA "Assigned Internet Protocol Numbers").

use core::fmt;

/// An IP protocol number, which IPv6 calls Next Header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpProtocol(pub u8);

impl IpProtocol {
    /// IPv6 hop-by-hop options (RFC 8200).
    pub const HOP_BY_HOP: IpProtocol = IpProtocol(0);
    /// ICMP for IPv4 (RFC 792).
    pub const ICMP: IpProtocol = IpProtocol(1);
    /// IGMP (RFC 3376).
    pub const IGMP: IpProtocol = IpProtocol(2);
    /// IPv4 in IP (RFC 2003).
    pub const IPV4: IpProtocol = IpProtocol(4);
    /// TCP (RFC 9293).
    pub const TCP: IpProtocol = IpProtocol(6);
    /// UDP (RFC 768).
    pub const UDP: IpProtocol = IpProtocol(17);
    /// IPv6 in IP (RFC 2473).
    pub const IPV6: IpProtocol = IpProtocol(41);
    /// IPv6 routing header (RFC 8200).
    pub const ROUTING: IpProtocol = IpProtocol(43);
    /// IPv6 fragment header (RFC 8200).
    pub const FRAGMENT: IpProtocol = IpProtocol(44);
    /// GRE (RFC 2784).
    pub const GRE: IpProtocol = IpProtocol(47);
    /// Encapsulating security payload (RFC 4303).
    pub const ESP: IpProtocol = IpProtocol(50);
    /// Authentication header (RFC 4302).
    pub const AH: IpProtocol = IpProtocol(51);
    /// ICMP for IPv6 (RFC 4443).
    pub const ICMPV6: IpProtocol = IpProtocol(58);
    /// Nothing follows (RFC 8200).
    pub const NO_NEXT_HEADER: IpProtocol = IpProtocol(59);
    /// IPv6 destination options (RFC 8200).
    pub const DESTINATION_OPTIONS: IpProtocol = IpProtocol(60);
    /// OSPF (RFC 2328).
    pub const OSPF: IpProtocol = IpProtocol(89);
    /// SCTP (RFC 9260).
    pub const SCTP: IpProtocol = IpProtocol(132);
    /// Mobility header (RFC 6275).
    pub const MOBILITY: IpProtocol = IpProtocol(135);
    /// UDP-Lite (RFC 3828).
    pub const UDP_LITE: IpProtocol = IpProtocol(136);
    /// MPLS in IP (RFC 4023).
    pub const MPLS: IpProtocol = IpProtocol(137);
    /// Host identity protocol (RFC 7401).
    pub const HIP: IpProtocol = IpProtocol(139);
    /// Shim6 (RFC 5533).
    pub const SHIM6: IpProtocol = IpProtocol(140);
    /// Use for experimentation and testing (RFC 3692).
    pub const EXPERIMENTAL: IpProtocol = IpProtocol(253);

    /// Whether this is an IPv6 extension header whose length can be read, so that a walker can
    /// step over it. ESP is not: what follows it is encrypted.
    #[inline]
    pub const fn is_ipv6_extension(self) -> bool {
        matches!(
            self,
            Self::HOP_BY_HOP
                | Self::ROUTING
                | Self::FRAGMENT
                | Self::AH
                | Self::DESTINATION_OPTIONS
                | Self::MOBILITY
                | Self::HIP
                | Self::SHIM6
        )
    }

    /// Whether the first four payload bytes are a source and a destination port.
    #[inline]
    pub const fn has_ports(self) -> bool {
        matches!(self, Self::TCP | Self::UDP | Self::SCTP | Self::UDP_LITE)
    }

    /// The customary name, or `None` for numbers without one here.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::HOP_BY_HOP => "hop-by-hop",
            Self::ICMP => "ICMP",
            Self::IGMP => "IGMP",
            Self::IPV4 => "IPv4",
            Self::TCP => "TCP",
            Self::UDP => "UDP",
            Self::IPV6 => "IPv6",
            Self::ROUTING => "routing",
            Self::FRAGMENT => "fragment",
            Self::GRE => "GRE",
            Self::ESP => "ESP",
            Self::AH => "AH",
            Self::ICMPV6 => "ICMPv6",
            Self::NO_NEXT_HEADER => "no-next-header",
            Self::DESTINATION_OPTIONS => "destination-options",
            Self::OSPF => "OSPF",
            Self::SCTP => "SCTP",
            Self::UDP_LITE => "UDP-Lite",
            Self::MPLS => "MPLS",
            _ => return None,
        })
    }
}

impl From<u8> for IpProtocol {
    fn from(number: u8) -> IpProtocol {
        IpProtocol(number)
    }
}

impl fmt::Display for IpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_print() {
        assert_eq!(IpProtocol::from(6).to_string(), "TCP");
        assert_eq!(IpProtocol(200).to_string(), "200");
    }

    #[test]
    fn esp_and_upper_layers_are_not_walkable() {
        let walkable: Vec<u8> = (0..=255)
            .filter(|n| IpProtocol(*n).is_ipv6_extension())
            .collect();
        assert_eq!(walkable, [0, 43, 44, 51, 60, 135, 139, 140]);
        assert!(IpProtocol::SCTP.has_ports() && !IpProtocol::ICMP.has_ports());
    }
}
