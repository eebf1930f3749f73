//! The one list of reasons for which a packet is dropped.
//!
//! Each has a number (stable within a release), a name for machines, a text for people, the sFlow discard code it
//! is exported as (sFlow Version 5 and "sFlow Dropped Packet Notification Structures", its registry) and the group
//! that the kernel's devlink-trap would count it in. A code says what happened, never 256 ("unknown").

/// What part of forwarding a reason belongs to: the group of a hardware trap record (devlink-trap, "Generic Packet
/// Trap Groups").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum DropGroup {
    /// Layer 2.
    L2,
    /// Layer 3: the packet may not be forwarded.
    L3,
    /// Layer 3: forwarding it did not work out.
    L3Exceptions,
    /// Labels and tunnels.
    Tunnel,
    /// Access lists.
    Acl,
    /// Buffers, queues and devices.
    Buffer,
}

impl DropGroup {
    /// The kernel's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            DropGroup::L2 => "l2_drops",
            DropGroup::L3 => "l3_drops",
            DropGroup::L3Exceptions => "l3_exceptions",
            DropGroup::Tunnel => "tunnel_drops",
            DropGroup::Acl => "acl_drops",
            DropGroup::Buffer => "buffer_drops",
        }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident, $name:literal, $text:literal, $group:ident, $sflow:literal;)*) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum DropReason { $(#[doc = $text] $variant,)* }

        impl DropReason {
            /// Every reason, in the order of its number.
            pub const ALL: &[DropReason] = &[$(DropReason::$variant,)*];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();
            const INFO: &[(&str, &str, DropGroup, u32)] = &[$(($name, $text, DropGroup::$group, $sflow),)*];
        }
    };
}

reasons! {
    // Before there is a packet: what devices tell of frames that they or the driver lost.
    RxMissed, "rx_missed", "lost by the device before it was read", Buffer, 259;
    RxNoBuffer, "rx_no_buffer", "received, and no packet buffer free", Buffer, 259;
    RxError, "rx_error", "received broken or shorter than an Ethernet header", L2, 324;
    // Buffers and devices.
    NoBufferSpace, "no_buffer_space", "no packet buffer free", Buffer, 259;
    TxQueueFull, "tx_queue_full", "transmit queue full", Buffer, 259;
    TxError, "tx_error", "device refused the packet", Buffer, 287;
    InterfaceDown, "interface_down", "interface is down", Buffer, 331;
    InterfaceGone, "interface_gone", "interface was removed", Buffer, 331;
    LinkMtuExceeded, "link_mtu_exceeded", "frame longer than the interface carries", L2, 262;
    NoTunnel, "no_tunnel", "no tunnel of this kind between these addresses", Tunnel, 288;
    VxlanMalformed, "vxlan_malformed", "UDP or VXLAN header of a tunnel wrong", Tunnel, 307;
    GreMalformed, "gre_malformed", "GRE header wrong, or with options that are not understood", Tunnel, 315;
    TunnelPayload, "tunnel_payload", "a tunnel does not carry such packets", Tunnel, 325;
    NestedTooDeep, "nested_too_deep", "went out through too many tunnels or virtual interfaces in each other", Tunnel, 286;
    // Ethernet.
    EthernetTooShort, "ethernet_too_short", "frame shorter than an Ethernet header", L2, 324;
    NotOurMac, "l3_mac_mismatch", "destination MAC is not ours", L2, 305;
    SourceMacMulticast, "src_mac_multicast", "source MAC is multicast", L2, 263;
    UnicastInGroupFrame, "uc_dip_over_mc_dmac", "unicast IP packet in a multicast or broadcast frame", L3, 271;
    UnknownEthertype, "unknown_ethertype", "unknown Ethernet type", L2, 270;
    UnknownVlan, "unknown_vlan", "no sub-interface for this VLAN", L2, 265;
    VlanTagMissing, "vlan_tag_missing", "fewer VLAN tags than are to be taken off", L2, 264;
    LlcUnsupported, "llc_unsupported", "LLC/SNAP frame not handled", L2, 308;
    // Layer 2.
    L2NoPeer, "l2_no_peer", "cross-connect has no peer", L2, 267;
    L2Reserved, "l2_reserved_mac", "destination is reserved for the link and not bridged", L2, 294;
    L2NoBridge, "l2_no_bridge_domain", "interface is in no bridge domain any more", L2, 331;
    L2Filtered, "l2_filtered", "source or destination MAC has a filter entry", L2, 305;
    L2MacMoved, "l2_mac_move_violation", "source MAC is static on another interface", L2, 304;
    L2SamePort, "l2_same_port", "destination is behind the interface it came from", L2, 268;
    L2SplitHorizon, "l2_split_horizon", "source and destination are in one split-horizon group", L2, 303;
    L2UnknownUnicast, "l2_unknown_unicast", "unknown destination MAC, and unknown unicast is not flooded", L2, 305;
    L2FloodOff, "l2_flood_off", "broadcast or multicast, and the bridge domain does not flood", L2, 267;
    L2ForwardOff, "l2_forward_off", "unicast, and the bridge domain does not forward", L2, 267;
    L2NoMember, "l2_no_member", "no other interface of the bridge domain to flood to", L2, 267;
    BondNoMember, "bond_no_member", "no member of the bond can send", L2, 267;
    // IPv4 input (RFC 1812 section 5.2.2).
    Ip4TooShort, "ip4_too_short", "shorter than an IPv4 header", L3, 324;
    Ip4BadVersion, "ip4_bad_version", "IPv4 version is not 4", L3, 275;
    Ip4BadHeaderLength, "ip4_bad_header_length", "IPv4 header length wrong", L3, 275;
    Ip4BadLength, "ip4_bad_length", "IPv4 total length wrong", L3, 275;
    Ip4BadChecksum, "ip4_bad_checksum", "IPv4 header checksum wrong", L3, 275;
    Ip4TtlExpired, "ip4_ttl_expired", "IPv4 TTL expired", L3Exceptions, 257;
    Ip4NotEnabled, "ip4_not_enabled", "IPv4 is not enabled on the interface", L3, 325;
    Ip4SourceUnspecified, "ip4_source_unspecified", "IPv4 source is of 0.0.0.0/8", L3, 290;
    Ip4SourceLoopback, "ip4_source_loopback", "IPv4 source is loopback", L3, 274;
    Ip4SourceMulticast, "ip4_source_multicast", "IPv4 source is multicast", L3, 273;
    Ip4SourceClassE, "ip4_source_class_e", "IPv4 source is of 240.0.0.0/4", L3, 295;
    Ip4SourceBroadcast, "ip4_source_broadcast", "IPv4 source is the limited broadcast", L3, 276;
    Ip4DestinationUnspecified, "ip4_destination_unspecified", "IPv4 destination is of 0.0.0.0/8", L3, 298;
    Ip4DestinationLoopback, "ip4_destination_loopback", "IPv4 destination is loopback", L3, 272;
    Ip4DestinationClassE, "ip4_destination_class_e", "IPv4 destination is of 240.0.0.0/4", L3, 281;
    Ip4Multicast, "ip4_multicast", "IPv4 multicast is not forwarded", L3, 281;
    // IPv6 input (RFC 8200).
    Ip6TooShort, "ip6_too_short", "shorter than an IPv6 header", L3, 324;
    Ip6BadVersion, "ip6_bad_version", "IPv6 version is not 6", L3, 275;
    Ip6BadLength, "ip6_bad_length", "IPv6 payload length or extension headers wrong", L3, 275;
    Ip6HopLimitExpired, "ip6_hop_limit_expired", "IPv6 hop limit expired", L3Exceptions, 257;
    Ip6NotEnabled, "ip6_not_enabled", "IPv6 is not enabled on the interface", L3, 326;
    Ip6SourceUnspecified, "ip6_source_unspecified", "IPv6 source is unspecified", L3, 290;
    Ip6SourceLoopback, "ip6_source_loopback", "IPv6 source is loopback", L3, 274;
    Ip6SourceMulticast, "ip6_source_multicast", "IPv6 source is multicast", L3, 273;
    Ip6SourceLinkLocal, "ip6_source_link_local", "IPv6 source may not leave its link", L3, 281;
    Ip6DestinationUnspecified, "ip6_destination_unspecified", "IPv6 destination is unspecified", L3, 281;
    Ip6DestinationLoopback, "ip6_destination_loopback", "IPv6 destination is loopback", L3, 272;
    Ip6Multicast, "ip6_multicast", "IPv6 multicast is not forwarded", L3, 281;
    Ip6LinkLocal, "ip6_link_local", "IPv6 link-local addresses are not forwarded", L3, 299;
    // Lookup results.
    NoRoute, "no_route", "no route to the destination", L3Exceptions, 6;
    RouteBlackhole, "route_blackhole", "blackhole route", L3, 269;
    RouteProhibit, "route_prohibit", "prohibit route", L3Exceptions, 13;
    RouteUnreachable, "route_unreachable", "unreachable route", L3Exceptions, 1;
    NoAdjacency, "no_adjacency", "route leads to a next hop that is gone", L3Exceptions, 306;
    LookupLoop, "lookup_loop", "too many lookups for one packet", L3Exceptions, 286;
    // Neighbours.
    UnresolvedNeighbor, "unresolved_neighbor", "neighbour did not resolve", L3Exceptions, 279;
    NeighborQueueFull, "neighbor_queue_full", "hold queue of the neighbour is full", L3Exceptions, 279;
    ArpMalformed, "arp_malformed", "ARP packet malformed", L2, 312;
    ArpNotForUs, "arp_not_for_us", "ARP for an address that is not ours", L2, 284;
    NdMalformed, "nd_malformed", "neighbour discovery packet malformed", L3, 361;
    NdBadHopLimit, "nd_bad_hop_limit", "neighbour discovery hop limit is not 255", L3, 359;
    NdNotForUs, "nd_not_for_us", "neighbour solicitation for an address that is not ours", L3, 362;
    // Rewrite.
    FragmentationNeeded, "fragmentation_needed", "too big for the link and must not be fragmented", L3Exceptions, 4;
    PacketTooBig, "packet_too_big", "IPv6 packet too big for the link", L3Exceptions, 262;
    NoHeadroom, "no_headroom", "no room to push a header", Buffer, 259;
    // Local delivery.
    LocalNoProtocol, "local_no_protocol", "no handler for this protocol", L3, 2;
    LocalNoPort, "local_no_port", "no listener on this port", L3, 3;
    LocalBadChecksum, "local_bad_checksum", "ICMP checksum of a local packet wrong", L3, 336;
    IcmpUnhandled, "icmp_unhandled", "ICMP message without a use for us", L3, 325;
    FragmentMalformed, "fragment_malformed", "fragment for the router of an impossible length or place", L3, 275;
    FragmentOverlap, "fragment_overlap", "fragment for the router overlaps another or came twice", L3, 333;
    ReassemblyTimeout, "reassembly_timeout", "other fragments of its packet did not come in time", L3Exceptions, 257;
    ReassemblyFull, "reassembly_full", "too many fragments for the router wait for others", Buffer, 259;
    NdFragmented, "nd_fragmented", "neighbour discovery in fragments", L3, 358;
    // MPLS (RFC 3031, 3032, 3443).
    MplsNotEnabled, "mpls_not_enabled", "MPLS is not enabled on the interface", Tunnel, 325;
    MplsTooShort, "mpls_too_short", "label stack cut short", Tunnel, 311;
    MplsTtlExpired, "mpls_ttl_expired", "MPLS TTL expired", Tunnel, 257;
    MplsNoLabel, "mpls_no_label", "no entry for the label", Tunnel, 6;
    MplsBadStack, "mpls_bad_stack", "label stack or payload not what the label says", Tunnel, 311;
    // Policy and engine.
    AclDeny, "acl_deny", "an access list denies it", Acl, 258;
    NodeFault, "node_fault", "a node left the packet without a verdict", L3Exceptions, 286;
}

impl DropReason {
    /// The number carried in packet metadata.
    #[inline(always)]
    pub const fn code(self) -> u16 {
        self as u16
    }
    /// The reason with this number.
    pub fn from_code(code: u16) -> Option<DropReason> {
        Self::ALL.get(usize::from(code)).copied()
    }
    /// Name for machines: lower case with underscores.
    pub fn name(self) -> &'static str {
        Self::INFO[self as usize].0
    }
    /// Text for people.
    pub fn text(self) -> &'static str {
        Self::INFO[self as usize].1
    }
    /// Group it belongs to.
    pub fn group(self) -> DropGroup {
        Self::INFO[self as usize].2
    }
    /// sFlow discard code.
    pub fn sflow_code(self) -> u32 {
        Self::INFO[self as usize].3
    }
    /// The reason with this name.
    pub fn from_name(name: &str) -> Option<DropReason> {
        Self::ALL.iter().copied().find(|r| r.name() == name)
    }
    /// Whether the frame was lost before it was a packet: counted by reason, but neither as received nor as dropped.
    pub const fn is_before_receive(self) -> bool {
        matches!(self, Self::RxMissed | Self::RxNoBuffer | Self::RxError)
    }
    /// Whether nothing is left of the packet when the loss is known: there is no header to show.
    pub const fn has_no_header(self) -> bool {
        self.is_before_receive() || matches!(self, Self::TxError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_codes_round_trip() {
        let mut names: Vec<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DropReason::COUNT);
        for &r in DropReason::ALL {
            assert_eq!(DropReason::from_code(r.code()), Some(r));
            assert_eq!(DropReason::from_name(r.name()), Some(r));
        }
        assert_eq!(DropReason::from_name("nosuch"), None);
        assert_eq!(DropReason::from_code(DropReason::COUNT as u16), None);
    }

    #[test]
    fn every_code_says_something() {
        for &r in DropReason::ALL {
            // 256 is "unknown"; 332 and 366 are numbered wrongly in widely used tools.
            let code = r.sflow_code();
            assert!(!matches!(code, 256 | 332 | 366), "{}", r.name());
            assert!(code < 16 || (256..=371).contains(&code), "{}", r.name());
            // Names fit the strings of a hardware trap record.
            assert!(r.name().len() < 64);
        }
    }
}
