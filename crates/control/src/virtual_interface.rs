//! Interfaces without a device: their kinds, and what each kind is to the rest of the router.
//!
//! A kind is a variant of [`VirtualKind`] and a line in each of its methods; `docs/architecture.md` says how to add one.

use parshall_nodes::vlan::{TagRewrite, Tags, VlanMatch};

use crate::error::{Error, Result};
use crate::tunnel::TunnelSpec;

/// What an interface without a device is.
#[derive(Clone, Debug, PartialEq)]
pub enum VirtualKind {
    /// The part of an interface's traffic that has certain VLAN tags.
    Sub(SubSpec),
    /// An end of a tunnel.
    Tunnel(TunnelSpec),
    /// Several interfaces as one.
    Bond(BondSpec),
}

impl VirtualKind {
    /// What the names of its interfaces start with.
    pub fn stem(&self) -> &'static str {
        match self {
            VirtualKind::Sub(_) => "sub",
            VirtualKind::Tunnel(t) => t.stem(),
            VirtualKind::Bond(_) => "BondEthernet",
        }
    }
    /// Its type's name in messages about configurations.
    pub fn type_name(&self) -> &'static str {
        match self {
            VirtualKind::Sub(_) => "sub-interface",
            VirtualKind::Tunnel(_) => "tunnel",
            VirtualKind::Bond(_) => "bond",
        }
    }
    /// The node that what is sent through it is handed to.
    pub fn output_node(&self) -> &'static str {
        match self {
            VirtualKind::Sub(_) => "sub-interface-output",
            VirtualKind::Tunnel(_) => "tunnel-output",
            VirtualKind::Bond(_) => "bond-output",
        }
    }
    /// The node that receives packets on it.
    pub fn input_node(&self) -> &'static str {
        match self {
            VirtualKind::Sub(_) => "ethernet-input",
            VirtualKind::Tunnel(_) => "tunnel-input",
            VirtualKind::Bond(_) => "bond-input",
        }
    }
    /// The words of the command that deletes one.
    pub fn delete_words(&self) -> &'static str {
        match self {
            VirtualKind::Sub(_) => "delete sub-interface",
            VirtualKind::Tunnel(t) => t.delete_words(),
            VirtualKind::Bond(_) => "delete bond",
        }
    }
    /// VPP's word for its kind; `None` = that of its parent.
    pub fn word(&self) -> Option<&'static str> {
        match self {
            VirtualKind::Sub(_) => None,
            VirtualKind::Tunnel(t) => Some(t.word()),
            VirtualKind::Bond(_) => Some("bond"),
        }
    }
    /// ifType (IANAifType-MIB).
    pub fn if_type(&self) -> u32 {
        match self {
            VirtualKind::Sub(_) => 135,
            VirtualKind::Tunnel(_) => 131,
            VirtualKind::Bond(_) => 161,
        }
    }
    /// The interface that it is a part of: with it go link, Ethernet address and sizes, and it goes with that.
    pub fn parent(&self) -> Option<u32> {
        match self {
            VirtualKind::Sub(s) => Some(s.parent),
            VirtualKind::Tunnel(_) => None,
            VirtualKind::Bond(_) => None,
        }
    }
    /// What a bond does, if it is one.
    pub fn bond(&self) -> Option<&BondSpec> {
        match self {
            VirtualKind::Bond(b) => Some(b),
            VirtualKind::Sub(_) | VirtualKind::Tunnel(_) => None,
        }
    }
    /// What a sub-interface takes.
    pub fn sub(&self) -> Option<&SubSpec> {
        match self {
            VirtualKind::Sub(s) => Some(s),
            VirtualKind::Tunnel(_) | VirtualKind::Bond(_) => None,
        }
    }
    /// What a tunnel is.
    pub fn tunnel(&self) -> Option<&TunnelSpec> {
        match self {
            VirtualKind::Tunnel(t) => Some(t),
            VirtualKind::Sub(_) => None,
            VirtualKind::Bond(_) => None,
        }
    }
}

/// A sub-interface.
#[derive(Clone, Debug, PartialEq)]
pub struct SubSpec {
    /// Number of its parent.
    pub parent: u32,
    /// Its number at the parent, which its name ends with.
    pub id: u32,
    /// The frames that are its.
    pub takes: VlanMatch,
}

/// A bond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BondSpec {
    /// Number in its name; `None` = the lowest free one.
    pub id: Option<u32>,
    /// How a member is chosen for what is sent.
    pub mode: BondMode,
    /// What keeps packets on one member.
    pub balance: BondBalance,
}

/// How a member of a bond is chosen for what is sent. The numbers are VPP's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum BondMode {
    /// One after the other.
    RoundRobin = 1,
    /// The first that can.
    ActiveBackup = 2,
    /// By addresses.
    Xor = 3,
    /// All of them.
    Broadcast = 4,
    /// By addresses, among those that LACP found fit (IEEE 802.1AX).
    Lacp = 5,
}

impl BondMode {
    /// VPP's word.
    pub fn word(self) -> &'static str {
        match self {
            BondMode::RoundRobin => "round-robin",
            BondMode::ActiveBackup => "active-backup",
            BondMode::Xor => "xor",
            BondMode::Broadcast => "broadcast",
            BondMode::Lacp => "lacp",
        }
    }
}

/// What keeps packets on one member. The numbers are VPP's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum BondBalance {
    /// Ethernet addresses.
    L2 = 0,
    /// IP addresses and ports.
    L34 = 1,
    /// Ethernet and IP addresses.
    L23 = 2,
}

impl BondSpec {
    /// VPP's number of the balance, where some modes have one of their own (`bond_lb_algo`).
    pub fn balance_number(&self) -> u32 {
        match self.mode {
            BondMode::RoundRobin => 3,
            BondMode::Broadcast => 4,
            BondMode::ActiveBackup => 5,
            _ => self.balance as u32,
        }
    }
    /// VPP's word for the balance.
    pub fn balance_word(&self) -> &'static str {
        [
            "l2",
            "l34",
            "l23",
            "round-robin",
            "broadcast",
            "active-backup",
        ][self.balance_number() as usize]
    }
}

/// What an interface is to the bond that it is a member of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The bond.
    pub bond: u32,
    /// LACP: speaks only when spoken to.
    pub passive: bool,
    /// LACP: wants to hear every 30 seconds, not every second.
    pub long_timeout: bool,
    /// LACP found it fit.
    pub active: bool,
}

/// Bits that VPP's API tells of a sub-interface (`sub_if_flags`).
pub mod sub_flags {
    /// No tags.
    pub const NO_TAGS: u32 = 1;
    /// One tag.
    pub const ONE_TAG: u32 = 2;
    /// Two tags.
    pub const TWO_TAGS: u32 = 4;
    /// The outer tag is a service tag.
    pub const DOT1AD: u32 = 8;
    /// No further tags.
    pub const EXACT_MATCH: u32 = 16;
    /// What no other takes.
    pub const DEFAULT: u32 = 32;
    /// Any outer VLAN.
    pub const OUTER_ANY: u32 = 64;
    /// Any inner VLAN.
    pub const INNER_ANY: u32 = 128;
}

impl SubSpec {
    /// Outer and inner VLAN, 0 where there is none or any.
    pub fn vlans(&self) -> (u16, u16) {
        use parshall_nodes::vlan::VlanId::Is;
        let VlanMatch::Tagged { outer, inner, .. } = self.takes else {
            return (0, 0);
        };
        let id = |v| if let Some(Is(id)) = v { id } else { 0 };
        (id(Some(outer)), id(inner))
    }
    /// Tags that it matches.
    pub fn tag_count(&self) -> u8 {
        match self.takes {
            VlanMatch::Tagged { inner, .. } => 1 + u8::from(inner.is_some()),
            _ => 0,
        }
    }
    /// As VPP's API tells it: bits of [`sub_flags`].
    pub fn flags(&self) -> u32 {
        use parshall_nodes::vlan::VlanId::Any;
        use sub_flags::*;
        let bit = |on: bool, bit: u32| if on { bit } else { 0 };
        match self.takes {
            VlanMatch::Default => DEFAULT,
            VlanMatch::Untagged => NO_TAGS | EXACT_MATCH,
            VlanMatch::Tagged {
                dot1ad,
                outer,
                inner,
                exact,
            } => {
                (if inner.is_some() { TWO_TAGS } else { ONE_TAG })
                    | bit(dot1ad, DOT1AD)
                    | bit(exact, EXACT_MATCH)
                    | bit(outer == Any, OUTER_ANY)
                    | bit(inner == Some(Any), INNER_ANY)
            }
        }
    }
}

/// A tag rewrite as it was asked for (VPP's `l2 tag-rewrite`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vtr {
    /// Tags to take off what comes in.
    pub pop: u8,
    /// Tags to put on it: VLANs, the outermost first.
    pub push: [Option<u16>; 2],
    /// The outer one of them is a service tag.
    pub dot1ad: bool,
}

impl Vtr {
    /// VPP's number of the operation (`vtr_op`).
    pub fn op(&self) -> u32 {
        let pushes = self.push.iter().flatten().count();
        match (self.pop, pushes) {
            (0, 1) => 1,
            (0, 2) => 2,
            (1, 0) => 3,
            (2, 0) => 4,
            (1, 1) => 5,
            (1, 2) => 6,
            (2, 1) => 7,
            (2, 2) => 8,
            _ => 0,
        }
    }
    /// In words, as the command has them.
    pub fn words(&self) -> String {
        let kind = if self.dot1ad { "dot1ad" } else { "dot1q" };
        let mut ids = String::new();
        for id in self.push.iter().flatten() {
            ids.push_str(&format!(" {id}"));
        }
        match self.op() {
            0 => "disable".into(),
            1 | 2 => format!("push {kind}{ids}"),
            3 | 4 => format!("pop {}", self.pop),
            op => {
                let into = if matches!(op, 5 | 7) { 1 } else { 2 };
                format!("translate {}-{into} {kind}{ids}", self.pop)
            }
        }
    }
    /// What is done to what comes in, and to what goes out of an interface whose frames begin with `own`.
    ///
    /// # Errors
    /// When it takes off more tags than the interface is known to have.
    pub fn rewrites(&self, own: &Tags) -> Result<(TagRewrite, TagRewrite)> {
        let tpid = if self.dot1ad {
            parshall_nodes::vlan::DOT1AD
        } else {
            parshall_nodes::vlan::DOT1Q
        };
        let push = match self.push {
            [Some(a), Some(b)] => Tags::two(tpid, a, b),
            [Some(a), None] => Tags::one(tpid, a),
            _ => Tags::NONE,
        };
        let into = TagRewrite {
            pop: self.pop,
            push,
        };
        let out = into.inverse(own).ok_or_else(|| {
            Error::refused(format!(
                "it is known to have {} tags, so {} cannot be taken off and put on again",
                own.count(),
                self.pop
            ))
        })?;
        Ok((into, out))
    }
}
