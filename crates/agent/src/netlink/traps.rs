//! By which name a drop goes to hsflowd, so that it exports the reason we mean.
//!
//! NET_DM carries no sFlow discard code, only names, and hsflowd makes a code of them: first of the kernel's drop reason
//! (`include/net/dropreason-core.h`), then of the trap's name, then of its group (devlink-trap, "Generic Packet Traps" and
//! "Generic Packet Trap Groups"). So each code goes by the kernel's own word for it. Where the kernel has none the trap
//! carries our reason's name, as VPP's plugin would write it, and its group says the code: unknown layer 2, layer 3, and so on.

use parshall_counters::DropReason;

/// What stands before a name that is ours and not the kernel's.
const PREFIX: &str = "vpp_";

/// Ethernet type of IPv6.
const IPV6: u16 = 0x86DD;

/// The kernel's word for an sFlow discard code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// A devlink trap.
    Trap(&'static str),
    /// A drop reason of the kernel's socket buffers.
    Reason(&'static str),
    /// None: the group must do.
    Nothing,
}

/// The names that an alert carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Group of the trap.
    pub group: &'static str,
    /// Name of the trap.
    pub trap: TrapName,
    /// The kernel's drop reason.
    pub reason: Option<&'static str>,
}

/// Name of a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrapName {
    /// One of devlink's.
    Kernel(&'static str),
    /// Our reason's, behind `vpp_`.
    Own(&'static str),
}

impl TrapName {
    /// The name in two parts, to be written one behind the other.
    pub fn parts(self) -> [&'static str; 2] {
        match self {
            TrapName::Kernel(name) => ["", name],
            TrapName::Own(name) => [PREFIX, name],
        }
    }
}

/// The names for a reason that dropped a packet of this Ethernet type.
pub fn names(reason: DropReason, ethertype: u16) -> Names {
    let word = match (word(reason.sflow_code()), ethertype) {
        (Word::Trap("ipv4_lpm_miss"), IPV6) => Word::Trap("ipv6_lpm_miss"),
        (word, _) => word,
    };
    Names {
        group: reason.group().name(),
        trap: match word {
            Word::Trap(name) => TrapName::Kernel(name),
            _ => TrapName::Own(reason.name()),
        },
        reason: match word {
            Word::Reason(name) => Some(name),
            _ => None,
        },
    }
}

/// The kernel's word for a code. Four codes go by a near one, for want of their own: "needs to be fragmented" (4) as "too
/// big" (262), "prohibited by administration" and its kin (10, 13) as "network prohibited" (9), unicast reverse path (302)
/// as reverse path (335), split horizon (303) as the isolation of ports that several switches share (291).
fn word(code: u32) -> Word {
    use Word::{Nothing, Reason, Trap};
    match code {
        0 => Reason("IP_INNOROUTES"),
        1 => Reason("IP_INADDRERRORS"),
        2 => Reason("IP_NOPROTO"),
        3 => Reason("NO_SOCKET"),
        4 | 262 => Trap("mtu_value_is_too_small"),
        6 => Trap("ipv4_lpm_miss"),
        7 => Reason("OTHERHOST"),
        9 | 10 | 13 => Trap("reject_route"),
        257 => Trap("ttl_value_is_too_small"),
        258 => Trap("ingress_flow_action_drop"),
        259 => Trap("tail_drop"),
        260 => Trap("early_drop"),
        261 => Reason("QDISC_DROP"),
        263 => Trap("source_mac_is_multicast"),
        264..=283 => Trap(DEVLINK[(code - 264) as usize]),
        290..=300 => Trap(DEVLINK_L3[(code - 290) as usize]),
        303 => Trap("mlag_port_isolation"),
        302 | 335 => Reason("IP_RPFILTER"),
        304 => Trap("locked_port"),
        305 => Trap("dmac_filter"),
        306 => Trap("blackhole_nexthop"),
        307..=322 => Trap(PARSING[(code - 307) as usize]),
        324 => Reason("PKT_TOO_SMALL"),
        325 => Reason("UNHANDLED_PROTO"),
        326 => Reason("IPV6DISABLED"),
        327 => Reason("INVALID_PROTO"),
        329 => Reason("SKB_CSUM"),
        331 => Reason("DEV_READY"),
        333 => Reason("DUP_FRAG"),
        336 => Reason("ICMP_CSUM"),
        357 => Reason("IPV6_BAD_EXTHDR"),
        358 => Reason("IPV6_NDISC_FRAG"),
        359 => Reason("IPV6_NDISC_HOP_LIMIT"),
        360 => Reason("IPV6_NDISC_BAD_CODE"),
        361 => Reason("IPV6_NDISC_BAD_OPTIONS"),
        362 => Reason("IPV6_NDISC_NS_OTHERHOST"),
        363 => Reason("TAP_FILTER"),
        364 => Reason("TAP_TXFILTER"),
        367 => Reason("XDP"),
        368 => Reason("CPU_BACKLOG"),
        370 => Reason("XFRM_POLICY"),
        371 => Reason("SOCKET_FILTER"),
        _ => Nothing,
    }
}

/// Traps of the codes from 264 on.
const DEVLINK: [&str; 20] = [
    "vlan_tag_mismatch",
    "ingress_vlan_filter",
    "ingress_spanning_tree_filter",
    "port_list_is_empty",
    "port_loopback_filter",
    "blackhole_route",
    "non_ip",
    "uc_dip_over_mc_dmac",
    "dip_is_loopback_address",
    "sip_is_mc",
    "sip_is_loopback_address",
    "ip_header_corrupted",
    "ipv4_sip_is_limited_bc",
    "ipv6_mc_dip_reserved_scope",
    "ipv6_mc_dip_interface_local_scope",
    "unresolved_neigh",
    "mc_reverse_path_forwarding",
    "non_routable_packet",
    "decap_error",
    "overlay_smac_is_mc",
];

/// Traps of the codes from 290 on.
const DEVLINK_L3: [&str; 11] = [
    "sip_is_unspecified",
    "mlag_port_isolation",
    "blackhole_arp_neigh",
    "src_mac_is_dmac",
    "dmac_is_reserved",
    "sip_is_class_e",
    "mc_dmac_mismatch",
    "sip_is_dip",
    "dip_is_local_network",
    "dip_is_link_local",
    "overlay_smac_is_dmac",
];

/// Traps of the codes from 307 on.
const PARSING: [&str; 16] = [
    "vxlan_parsing",
    "llc_snap_parsing",
    "vlan_parsing",
    "pppoe_ppp_parsing",
    "mpls_parsing",
    "arp_parsing",
    "ip_1_parsing",
    "ip_n_parsing",
    "gre_parsing",
    "udp_parsing",
    "tcp_parsing",
    "ipsec_parsing",
    "sctp_parsing",
    "dccp_parsing",
    "gtp_parsing",
    "esp_parsing",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_go_by_the_kernels_words() {
        for (reason, trap, kernel) in [
            (DropReason::NoRoute, "ipv4_lpm_miss", None),
            (DropReason::Ip4TtlExpired, "ttl_value_is_too_small", None),
            (DropReason::RouteBlackhole, "blackhole_route", None),
            (DropReason::RouteProhibit, "reject_route", None),
            (DropReason::PacketTooBig, "mtu_value_is_too_small", None),
            (DropReason::UnresolvedNeighbor, "unresolved_neigh", None),
            (DropReason::UnknownVlan, "ingress_vlan_filter", None),
            (DropReason::MplsTooShort, "mpls_parsing", None),
            (DropReason::TxQueueFull, "tail_drop", None),
            (
                DropReason::LocalNoPort,
                "vpp_local_no_port",
                Some("NO_SOCKET"),
            ),
            (
                DropReason::Ip6NotEnabled,
                "vpp_ip6_not_enabled",
                Some("IPV6DISABLED"),
            ),
            (
                DropReason::InterfaceDown,
                "vpp_interface_down",
                Some("DEV_READY"),
            ),
            (DropReason::LookupLoop, "vpp_lookup_loop", None),
        ] {
            let n = names(reason, 0x0800);
            assert_eq!(n.trap.parts().concat(), trap, "{reason:?}");
            assert_eq!(n.reason, kernel, "{reason:?}");
        }
        let n = names(DropReason::NoRoute, IPV6);
        assert_eq!(n.trap, TrapName::Kernel("ipv6_lpm_miss"));
        assert_eq!(names(DropReason::LookupLoop, 0).group, "l3_exceptions");
    }

    #[test]
    fn every_reason_is_said_by_a_word_or_by_its_group() {
        for &r in DropReason::ALL {
            let n = names(r, 0);
            // Groups stand for the codes 284 to 288; any other code needs a word of its own.
            if matches!(n.trap, TrapName::Own(_)) && n.reason.is_none() {
                assert!((284..=288).contains(&r.sflow_code()), "{r:?}");
            }
            assert!(n.trap.parts().concat().len() < 64, "{r:?}");
        }
    }
}
