//! Flow records of the sFlow version 5 document: the packet itself and what the device knew about it.
//!
//! `sflow_version_5.txt` sections 5.3.3 to 5.3.5, `sflow_nat_port.txt`, `sflow_tunnels.txt`, `sflow_pktlen.txt` conventions.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::field::{List, Mac, Show, Text, records};
use crate::types::Address;

records! {
    /// The first bytes of the sampled packet (0:1).
    RawHeader<'a> ["flowSampleType" "HEADER"] {
        /// What the bytes begin with: 1 Ethernet, 11 IPv4, 12 IPv6, 13 MPLS, ... (see [`header_protocol`]).
        protocol: u32 => "headerProtocol";
        /// Bytes of the whole frame on the wire, frame check sequence included.
        frame_length: u32 => "sampledPacketSize";
        /// Bytes removed from the frame before `header` was taken: 4 for a missing frame check sequence.
        stripped: u32 => "strippedBytes";
        /// The bytes.
        header: &'a [u8] => "headerBytes" show Show::Special;
    }

    /// Addresses and type of an Ethernet frame (0:2, tunnels 0:1021 and 0:1022).
    SampledEthernet ["flowSampleType" "ETHERNET"] {
        /// Bytes of the frame.
        length: u32 => "ethernet_len" show Show::Special;
        /// Source address.
        src: Mac => "ethernet_src" show Show::Special;
        /// Destination address.
        dst: Mac => "ethernet_dst" show Show::Special;
        /// EtherType.
        ether_type: u32 => "ethernet_type" show Show::Special;
    }

    /// Fields of an IPv4 packet (0:3, tunnels 0:1023 and 0:1024).
    SampledIpv4 ["flowSampleType" "IPV4"] {
        /// Bytes of the IP packet.
        length: u32 => "IPSize" show Show::Special;
        /// IP protocol.
        protocol: u32 => "IPProtocol" show Show::Special;
        /// Source address.
        src: Ipv4Addr => "srcIP" show Show::Special;
        /// Destination address.
        dst: Ipv4Addr => "dstIP" show Show::Special;
        /// Source port.
        src_port: u32 => "TCPSrcPort" show Show::Special;
        /// Destination port.
        dst_port: u32 => "TCPDstPort" show Show::Special;
        /// TCP flags.
        tcp_flags: u32 => "TCPFlags" show Show::Special;
        /// Type of service.
        tos: u32 => "IPTOS" show Show::Special;
    }

    /// Fields of an IPv6 packet (0:4, tunnels 0:1025 and 0:1026).
    SampledIpv6 ["flowSampleType" "IPV6"] {
        /// Bytes of the IP packet.
        length: u32 => "IPSize" show Show::Special;
        /// IP protocol.
        protocol: u32 => "IPProtocol" show Show::Special;
        /// Source address.
        src: Ipv6Addr => "srcIP6" show Show::Special;
        /// Destination address.
        dst: Ipv6Addr => "dstIP6" show Show::Special;
        /// Source port.
        src_port: u32 => "TCPSrcPort" show Show::Special;
        /// Destination port.
        dst_port: u32 => "TCPDstPort" show Show::Special;
        /// TCP flags.
        tcp_flags: u32 => "TCPFlags" show Show::Special;
        /// Traffic class.
        priority: u32 => "priority" show Show::Special;
    }

    /// VLANs that the device assigned to the packet (0:1001). All ones is unknown.
    ExtendedSwitch ["extendedType" "SWITCH"] {
        /// VLAN it came in on.
        in_vlan: u32 => "in_vlan", need 16;
        /// 802.1p priority it came in with.
        in_priority: u32 => "in_priority";
        /// VLAN it went out on.
        out_vlan: u32 => "out_vlan";
        /// 802.1p priority it went out with.
        out_priority: u32 => "out_priority";
    }

    /// The route taken (0:1002).
    ExtendedRouter ["extendedType" "ROUTER"] {
        /// The next hop.
        next_hop: Address => "nextHop" show Show::Special;
        /// Prefix length of the route to the source.
        src_mask_len: u32 => "srcSubnetMask" show Show::Special;
        /// Prefix length of the route to the destination.
        dst_mask_len: u32 => "dstSubnetMask" show Show::Special;
    }

    /// BGP attributes of the route (0:1003).
    ExtendedGateway<'a> ["extendedType" "GATEWAY"] {
        /// The border router towards the destination.
        next_hop: Address => "bgp_nexthop";
        /// AS of this router.
        router_as: u32 => "my_as", need 12;
        /// Origin AS of the route to the source.
        src_as: u32 => "src_as";
        /// AS of the neighbour towards the source.
        src_peer_as: u32 => "src_peer_as";
        /// AS path to the destination, as segments.
        dst_as_path: List<'a, AsSegment<'a>> => "dst_as_path" show Show::AsPath;
        /// Communities of the route to the destination.
        communities: List<'a, u32> => "BGP_communities" show Show::Communities;
        /// Local preference.
        local_pref: u32 => "BGP_localpref";
    }

    /// One segment of an AS path.
    AsSegment<'a> {
        /// 1 set, 2 sequence.
        kind: u32 => "type";
        /// AS numbers.
        asns: List<'a, u32> => "asns" show Show::Special;
    }

    /// Users at both ends (0:1004). Character sets are IANA MIBenum, 106 is UTF-8.
    ExtendedUser<'a> ["extendedType" "USER"] {
        /// Character set of `src_user`.
        src_charset: u32 => "src_user_charset" show Show::Special;
        /// User at the source.
        src_user: Text<'a> => "src_user" show Show::Special;
        /// Character set of `dst_user`.
        dst_charset: u32 => "dst_user_charset" show Show::Special;
        /// User at the destination.
        dst_user: Text<'a> => "dst_user" show Show::Special;
    }

    /// URL in the packet (0:1005).
    ExtendedUrl<'a> ["extendedType" "URL"] {
        /// 1 the source is the server, 2 the destination is.
        direction: u32 => "url_direction";
        /// The URL.
        url: Text<'a> => "url" show Show::Text(199);
        /// The host.
        host: Text<'a> => "host" show Show::Text(199);
    }

    /// MPLS label stacks (0:1006). A label is a word of RFC 3032.
    ExtendedMpls<'a> ["extendedType" "MPLS"] {
        /// The next hop.
        next_hop: Address => "mpls_nexthop";
        /// Label stack received.
        in_stack: List<'a, u32> => "mpls_input_stack" show Show::Labels;
        /// Label stack sent.
        out_stack: List<'a, u32> => "mpls_output_stack" show Show::Labels;
    }

    /// Translated addresses (0:1007).
    ExtendedNat ["extendedType" "NAT"] {
        /// Source.
        src: Address => "nat_src";
        /// Destination.
        dst: Address => "nat_dst";
    }

    /// MPLS tunnel (0:1008).
    ExtendedMplsTunnel<'a> {
        /// Name of the label switched path.
        lsp_name: Text<'a> => "mpls_tunnel_lsp_name" show Show::Name(99);
        /// Tunnel number.
        tunnel_id: u32 => "mpls_tunnel_id";
        /// Class of service.
        cos: u32 => "mpls_tunnel_cos";
    }

    /// MPLS virtual circuit (0:1009).
    ExtendedMplsVc<'a> {
        /// Name of the instance.
        name: Text<'a> => "mpls_vc_name" show Show::Name(99);
        /// Circuit number.
        vll_vc_id: u32 => "mpls_vll_vc_id";
        /// Class of service.
        cos: u32 => "mpls_vc_cos";
    }

    /// MPLS forwarding equivalence class to next hop (0:1010).
    ExtendedMplsFtn<'a> {
        /// Description.
        descr: Text<'a> => "mpls_ftn_descr" show Show::Name(99);
        /// Mask.
        mask: u32 => "mpls_ftn_mask";
    }

    /// MPLS LDP forwarding equivalence class (0:1011).
    ExtendedMplsLdpFec {
        /// Prefix length.
        prefix_len: u32 => "mpls_fec_addr_prefix_len";
    }

    /// Outer VLAN tags stripped before sampling (0:1012): TPID in the upper, TCI in the lower half.
    ExtendedVlanTunnel<'a> {
        /// Tags, outermost first.
        tags: List<'a, u32> => "vlan_tunnel" show Show::VlanTags;
    }

    /// Translated ports (0:1020).
    ExtendedNatPort ["extendedType" "NAT PORT"] {
        /// Source.
        src_port: u32 => "nat_src_port";
        /// Destination.
        dst_port: u32 => "nat_dst_port";
    }

    /// Where the inner header begins once the egress tunnel is taken off (0:1027).
    DecapsulateEgress ["extendedType" "out_decap"] {
        /// Bytes from the start of the sampled header.
        inner_header_offset: u32 => "out_decap_inner_header_offset";
    }

    /// Where the inner header begins once the ingress tunnel is taken off (0:1028).
    DecapsulateIngress ["extendedType" "in_decap"] {
        /// Bytes from the start of the sampled header.
        inner_header_offset: u32 => "in_decap_inner_header_offset";
    }

    /// Virtual network identifier on egress (0:1029).
    VniEgress ["extendedType" "out_VNI"] {
        /// The identifier.
        vni: u32 => "out_VNI";
    }

    /// Virtual network identifier on ingress (0:1030).
    VniIngress ["extendedType" "in_VNI"] {
        /// The identifier.
        vni: u32 => "in_VNI";
    }

    /// VLAN tags of the packet as received (0:1034): TPID in the upper, TCI in the lower half.
    ExtendedVlanIn<'a> ["extendedType" "vlan_in"] {
        /// Tags, outermost first.
        tags: List<'a, u32> => "vlan_in" show Show::VlanTags;
    }

    /// VLAN tags of the packet as sent (0:1035).
    ExtendedVlanOut<'a> ["extendedType" "vlan_out"] {
        /// Tags, outermost first.
        tags: List<'a, u32> => "vlan_out" show Show::VlanTags;
    }

    /// Queue chosen on egress (0:1036).
    EgressQueue ["extendedType" "egress_queue"] {
        /// Queue number.
        queue: u32 => "egress_queue_id";
    }

    /// Access list entry that matched (0:1037).
    ExtendedAcl<'a> ["extendedType" "acl"] {
        /// Number of the list, 0 if it has none.
        number: u32 => "acl_number";
        /// Name of the list.
        name: Text<'a> => "acl_name";
        /// 0 unknown, 1 ingress, 2 egress.
        direction: u32 => "acl_direction";
    }

    /// Code location that dropped the packet (0:1038).
    ExtendedFunction<'a> ["extendedType" "function"] {
        /// Symbol.
        symbol: Text<'a> => "symbol" show Show::Name(63);
    }

    /// Time in the device (0:1039).
    TransitDelay ["extendedType" "transit_delay"] {
        /// Nanoseconds; all ones is at least that much.
        delay_ns: u32 => "transit_delay_nS";
    }

    /// Depth of the egress queue when the packet came (0:1040).
    QueueDepth ["extendedType" "queue_depth"] {
        /// Bytes.
        bytes: u32 => "queue_depth_bytes";
    }

    /// Hardware trap that reported the drop (0:1041).
    HardwareTrap<'a> ["extendedType" "hw_trap"] {
        /// Trap group.
        group: Text<'a> => "hw_trap_group" show Show::Name(63);
        /// Trap.
        name: Text<'a> => "hw_trap_name" show Show::Name(63);
    }

    /// Reason of the Linux kernel (0:1042).
    LinuxDropReason<'a> ["extendedType" "linux_reason"] {
        /// Name without `SKB_DROP_REASON_`.
        reason: Text<'a> => "linux_drop_reason" show Show::Name(63);
    }

    /// When the packet was seen (0:1043).
    Timestamp ["extendedType" "timestamp"] {
        /// Nanoseconds since 1970-01-01 UTC.
        unix_ns: u64 => "timestamp_nS";
    }

    /// Egress queue of a Broadcom Trident class device (4413:1).
    BstEgressQueue ["extendedType" "bst_egress_queue"] {
        /// Queue number.
        queue: u32 => "bst_egress_queue";
    }
}

/// What the bytes of a [`RawHeader`] begin with.
pub mod header_protocol {
    /// Ethernet, ISO 8802-3.
    pub const ETHERNET: u32 = 1;
    /// PPP.
    pub const PPP: u32 = 7;
    /// IPv4.
    pub const IPV4: u32 = 11;
    /// IPv6.
    pub const IPV6: u32 = 12;
    /// MPLS label stack.
    pub const MPLS: u32 = 13;
    /// IEEE 802.11 MAC.
    pub const IEEE80211: u32 = 15;
}
