//! Tunnels as control keeps them: which there are, and what workers are told of each.

use std::net::IpAddr;

use parshall_nodes::tunnel::{Encap, TunnelKey};

use crate::error::{Error, Result};
use crate::prefix::Family;

/// UDP port of VXLAN (RFC 7348).
pub const VXLAN_PORT: u16 = 4789;
/// Largest VXLAN network identifier.
pub const VNI_MAX: u32 = (1 << 24) - 1;

/// What a tunnel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelKind {
    /// VXLAN (RFC 7348): Ethernet frames in UDP.
    Vxlan {
        /// VXLAN network identifier.
        vni: u32,
        /// Source port as it was asked for; what is sent has one by the flow inside.
        src_port: u16,
        /// Destination port.
        dst_port: u16,
    },
    /// IP packets in IP (RFC 2003, 4213, 2473).
    Ipip,
    /// IP and MPLS packets in GRE (RFC 2784).
    Gre,
    /// Ethernet frames in GRE.
    GreTeb,
}

/// A tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelSpec {
    /// What it is.
    pub kind: TunnelKind,
    /// Our end.
    pub src: IpAddr,
    /// The other end.
    pub dst: IpAddr,
    /// Number of the table that its packets are routed by.
    pub table: u32,
}

impl TunnelSpec {
    /// Family of its ends.
    pub fn family(&self) -> Family {
        Family::of(self.src)
    }
    /// What the names of its interfaces start with.
    pub fn stem(&self) -> &'static str {
        match self.kind {
            TunnelKind::Vxlan { .. } => "vxlan_tunnel",
            TunnelKind::Ipip => "ipip",
            TunnelKind::Gre | TunnelKind::GreTeb => "gre",
        }
    }
    /// The words of the command that deletes one.
    pub fn delete_words(&self) -> &'static str {
        match self.kind {
            TunnelKind::Vxlan { .. } => "delete vxlan tunnel",
            TunnelKind::Ipip => "delete ipip tunnel",
            TunnelKind::Gre | TunnelKind::GreTeb => "delete gre tunnel",
        }
    }
    /// VPP's word for the kind of its interface.
    pub fn word(&self) -> &'static str {
        match self.kind {
            TunnelKind::Vxlan { .. } => "VXLAN",
            TunnelKind::Ipip => "IPIP",
            TunnelKind::Gre | TunnelKind::GreTeb => "GRE",
        }
    }
    /// Whether what is sent into it has one place to go, and no Ethernet address.
    pub fn is_point_to_point(&self) -> bool {
        matches!(self.kind, TunnelKind::Ipip | TunnelKind::Gre)
    }
    /// What workers know it by; `table` is the index of its table.
    pub fn key(&self, table: u32) -> TunnelKey {
        TunnelKey {
            local: self.src,
            remote: self.dst,
            table,
            encap: match self.kind {
                TunnelKind::Vxlan { vni, dst_port, .. } => Encap::Vxlan {
                    vni,
                    port: dst_port,
                },
                TunnelKind::Ipip => Encap::Ip,
                TunnelKind::Gre => Encap::Gre,
                TunnelKind::GreTeb => Encap::GreTeb,
            },
        }
    }
    /// Checks that there can be such a tunnel.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<()> {
        let (src, dst) = (self.src, self.dst);
        let wrong = match self.kind {
            _ if src.is_ipv6() != dst.is_ipv6() => "its ends are of different families",
            _ if src == dst => "both ends have the same address",
            _ if src.is_unspecified() || dst.is_unspecified() => "an end has no address",
            _ if dst.is_multicast() => "tunnels to groups are not there: name the other end",
            _ if src.is_multicast() => "a group cannot be a source",
            TunnelKind::Vxlan { vni, .. } if vni > VNI_MAX => "a VNI is at most 16777215",
            TunnelKind::Vxlan { dst_port: 0, .. } => "port 0 cannot be sent to",
            _ => return Ok(()),
        };
        Err(Error::refused(format!("tunnel {src} to {dst}: {wrong}")))
    }
}
