//! Bridge domains and their ports, as workers read them (IEEE 802.1Q-2022 clause 8).
//!
//! Published as a whole: there are few, and they change seldom. Their stations are not here but in
//! [`parshall_fib::MacTable`].

use std::collections::HashMap;

use parshall_buffer::IF_NONE;

/// What a bridge domain does: bits of [`BridgePort::flags`].
pub mod bridge_flags {
    /// Sources are learned.
    pub const LEARN: u8 = 1;
    /// Unicast frames are forwarded.
    pub const FORWARD: u8 = 1 << 1;
    /// Broadcast and multicast frames are flooded.
    pub const FLOOD: u8 = 1 << 2;
    /// Frames to unknown stations are flooded.
    pub const UU_FLOOD: u8 = 1 << 3;
    /// ARP requests and neighbour solicitations for known addresses are answered.
    pub const ARP_TERM: u8 = 1 << 4;
    /// ARP requests for known addresses are sent to their owner only.
    pub const ARP_UFWD: u8 = 1 << 5;
}

/// What a port is to its domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PortRole {
    /// Stations are behind it.
    #[default]
    Normal,
    /// The router itself is behind it.
    Bvi,
    /// Frames to unknown stations go to it, and to it only.
    UuFwd,
}

/// An interface as a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BridgePort {
    /// Number of its domain; 0 = it is no port.
    pub domain: u16,
    /// What the domain does, see [`bridge_flags`].
    pub flags: u8,
    /// Split-horizon group, 0 = none: frames do not go from one port of a group to another.
    pub shg: u8,
    /// What it is to the domain.
    pub role: PortRole,
}

impl BridgePort {
    /// Whether the domain does this.
    #[inline(always)]
    pub fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
    /// Whether frames may not go from this port to one of group `shg`.
    #[inline(always)]
    pub fn is_split_from(self, shg: u8) -> bool {
        self.shg != 0 && self.shg == shg
    }
}

/// A port that flooded frames go to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FloodMember {
    /// Interface.
    pub if_index: u32,
    /// Its split-horizon group.
    pub shg: u8,
}

/// A bridge domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BridgeDomain {
    /// Where flooded frames go: ports that are up, without the routed interface.
    pub members: Vec<FloodMember>,
    /// Its routed interface, [`IF_NONE`] = none or down.
    pub bvi: u32,
    /// Where frames to unknown stations go, [`IF_NONE`] = they are flooded.
    pub uu_fwd: u32,
    /// Who has an IPv4 address, as far as that was configured.
    pub arp: HashMap<[u8; 4], [u8; 6]>,
    /// The same of IPv6 addresses.
    pub nd: HashMap<[u8; 16], [u8; 6]>,
}

impl Default for BridgeDomain {
    fn default() -> Self {
        BridgeDomain {
            members: Vec::new(),
            bvi: IF_NONE,
            uu_fwd: IF_NONE,
            arp: HashMap::new(),
            nd: HashMap::new(),
        }
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct BridgeTable {
    ports: Vec<BridgePort>,
    domains: Vec<BridgeDomain>,
}

impl BridgeTable {
    /// Ports by interface index and domains by number; number 0 is not used.
    pub fn new(ports: Vec<BridgePort>, domains: Vec<BridgeDomain>) -> BridgeTable {
        BridgeTable { ports, domains }
    }
    /// What an interface is; of one that is no port, nothing.
    #[inline(always)]
    pub fn port(&self, if_index: u32) -> BridgePort {
        self.ports
            .get(if_index as usize)
            .copied()
            .unwrap_or_default()
    }
    /// A domain.
    #[inline(always)]
    pub fn domain(&self, number: u16) -> Option<&BridgeDomain> {
        self.domains.get(usize::from(number))
    }
}
