//! What the nodes read and control publishes: interfaces and forwarding tables.
//!
//! [`Shared`] is made once and lives as long as the process. Everything in it is read wait-free by
//! workers and changed only by the control thread, which publishes a new value and retires the old.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parshall_acl::{AclTables, MacipTables};
use parshall_buffer::IF_NONE;
use parshall_fib::{
    Adjacencies, Disposition, Dispositions, Dpo, DpoKind, FibError, Impositions, Ip4Tables,
    Ip6Tables, LoadBalances, MacTable, MplsFib, MplsTables, Payload, TtlMode,
};
use parshall_rcu::{Domain, Published, Reader};

use crate::bond::BondViews;
use crate::bridge::BridgeTable;
use crate::tunnel::Tunnels;
use crate::vlan::{VlanView, VlanViews};

/// Bits of [`IfView::flags`].
pub mod if_flags {
    /// The interface exists.
    pub const EXISTS: u32 = 1;
    /// It is administratively up.
    pub const UP: u32 = 1 << 1;
    /// Frames are cross-connected to [`super::IfView::peer`], not looked into.
    pub const XCONNECT: u32 = 1 << 2;
    /// IPv4 is spoken (it has an address, or is enabled).
    pub const IP4: u32 = 1 << 3;
    /// IPv6 is spoken.
    pub const IP6: u32 = 1 << 4;
    /// MPLS is enabled.
    pub const MPLS: u32 = 1 << 5;
    /// Frames for other stations are accepted.
    pub const PROMISC: u32 = 1 << 6;
    /// It has sub-interfaces, which frames are given to by their tags.
    pub const SUBS: u32 = 1 << 7;
    /// The tags of its frames are changed as they come in.
    pub const RETAG: u32 = 1 << 8;
    /// Frames are bridged: the interface is a port of a bridge domain.
    pub const BRIDGE: u32 = 1 << 15;
    /// Frames are switched, not routed.
    pub const L2: u32 = XCONNECT | BRIDGE;
    /// `ethernet-input` must look closer.
    pub const SPECIAL: u32 = L2 | SUBS | RETAG;
}

/// What a worker needs to know of an interface for every frame: half a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct IfView {
    /// See [`if_flags`].
    pub flags: u32,
    /// Cross-connect peer, [`IF_NONE`] = none.
    pub peer: u32,
    /// Index of its IPv4 table.
    pub ip4_table: u32,
    /// Index of its IPv6 table.
    pub ip6_table: u32,
    /// Ethernet address, first byte lowest: as eight bytes read little-endian, top two zero.
    pub mac: u64,
    /// Largest IP packet in bytes.
    pub mtu: u32,
}

impl Default for IfView {
    fn default() -> Self {
        IfView {
            flags: 0,
            peer: IF_NONE,
            ip4_table: 0,
            ip6_table: 0,
            mac: 0,
            mtu: 0,
        }
    }
}

impl IfView {
    /// Whether all these flags are set.
    #[inline(always)]
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }
    /// The Ethernet address in wire order.
    pub fn mac_bytes(&self) -> [u8; 6] {
        let b = self.mac.to_le_bytes();
        [b[0], b[1], b[2], b[3], b[4], b[5]]
    }
    /// An Ethernet address as [`IfView::mac`] holds it.
    pub fn mac_word(mac: [u8; 6]) -> u64 {
        let [a, b, c, d, e, f] = mac;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }
}

/// Addresses of an interface: for the slow paths (ARP, neighbour discovery, ICMP sources).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IfAddresses {
    /// IPv4 addresses with prefix length, the primary one first.
    pub ip4: Vec<(Ipv4Addr, u8)>,
    /// IPv6 addresses with prefix length, without the link-local one.
    pub ip6: Vec<(Ipv6Addr, u8)>,
    /// Link-local address, when IPv6 is spoken.
    pub link_local: Option<Ipv6Addr>,
}

/// All interfaces, by index. Absent ones have no flags.
#[derive(Clone, Debug, Default)]
pub struct IfTable {
    views: Vec<IfView>,
    addresses: Vec<IfAddresses>,
    vlans: VlanViews,
    bonds: BondViews,
}

impl IfTable {
    /// A table of these interfaces.
    pub fn new(interfaces: impl IntoIterator<Item = (IfView, IfAddresses)>) -> IfTable {
        let (views, addresses) = interfaces.into_iter().unzip();
        IfTable {
            views,
            addresses,
            vlans: VlanViews::default(),
            bonds: BondViews::default(),
        }
    }
    /// The same, where some interfaces have to do with tags.
    #[must_use]
    pub fn with_vlans(mut self, vlans: VlanViews) -> IfTable {
        self.vlans = vlans;
        self
    }
    /// The same, where some interfaces are bonds.
    #[must_use]
    pub fn with_bonds(mut self, bonds: BondViews) -> IfTable {
        self.bonds = bonds;
        self
    }
    /// The bonds.
    #[inline]
    pub fn bonds(&self) -> &BondViews {
        &self.bonds
    }
    /// What an interface has to do with tags.
    #[inline]
    pub fn vlan(&self, if_index: u32) -> &VlanView {
        const NOTHING: &VlanView = &VlanView::NONE;
        self.vlans.get(&if_index).unwrap_or(NOTHING)
    }
    /// What is known of an interface; of an absent one, nothing.
    #[inline(always)]
    pub fn view(&self, if_index: u32) -> IfView {
        self.views
            .get(if_index as usize)
            .copied()
            .unwrap_or_default()
    }
    /// Its addresses.
    pub fn addresses(&self, if_index: u32) -> Option<&IfAddresses> {
        self.addresses.get(if_index as usize)
    }
    /// Every index and its addresses.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &IfView, &IfAddresses)> {
        self.views
            .iter()
            .zip(&self.addresses)
            .enumerate()
            .map(|(i, (v, a))| (i as u32, v, a))
    }
}

/// How large the tables may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLimits {
    /// Adjacencies (a next hop on an interface, per link type).
    pub adjacencies: u32,
    /// Load-balance objects.
    pub load_balances: u32,
    /// Label stacks to impose.
    pub impositions: u32,
    /// Label dispositions.
    pub dispositions: u32,
    /// Tables of each address family.
    pub tables: u32,
    /// Bytes that the nodes of an address family's tables may take together.
    pub table_bytes: usize,
    /// MAC addresses of all bridge domains together, at least 131,072.
    pub macs: u32,
}

impl Default for TableLimits {
    fn default() -> Self {
        TableLimits {
            adjacencies: 1 << 20,
            load_balances: 1 << 20,
            impositions: 1 << 18,
            dispositions: 1 << 18,
            tables: 1 << 13,
            table_bytes: 1 << 30,
            macs: 1 << 17,
        }
    }
}

/// Everything that nodes read and control publishes.
pub struct Shared {
    /// Where replaced values are retired to.
    pub domain: Arc<Domain>,
    /// Interfaces.
    pub interfaces: Published<IfTable>,
    /// IPv4 tables by index.
    pub ip4: Ip4Tables,
    /// IPv6 tables by index.
    pub ip6: Ip6Tables,
    /// MPLS tables by index.
    pub mpls: MplsTables,
    /// Adjacencies.
    pub adjacencies: Adjacencies,
    /// Load-balance objects.
    pub load_balances: LoadBalances,
    /// Label stacks to impose.
    pub impositions: Impositions,
    /// What to do with packets whose label was popped.
    pub dispositions: Dispositions,
    /// Access lists of interfaces.
    pub acls: Published<AclTables>,
    /// MAC-IP lists of interfaces.
    pub macips: Published<MacipTables>,
    /// Tunnels.
    pub tunnels: Published<Tunnels>,
    /// Workers whose nodes were made.
    seats: AtomicUsize,
    /// Bridge domains and their ports.
    pub bridges: Published<BridgeTable>,
    /// Stations of the bridge domains.
    pub macs: Arc<MacTable>,
}

impl Shared {
    /// Empty tables; table 0 of IPv4, IPv6 and MPLS exists.
    ///
    /// # Errors
    /// When the system gives no address space for them.
    pub fn new(limits: TableLimits) -> Result<Arc<Shared>, FibError> {
        let domain = Domain::new();
        let dispositions = Dispositions::with_limit(&domain, limits.dispositions.max(3));
        reserve_pops(&dispositions);
        let ip4 = Ip4Tables::new(&domain, limits.tables, limits.table_bytes)?;
        let ip6 = Ip6Tables::new(&domain, limits.tables, limits.table_bytes)?;
        let mpls = MplsTables::with_limit(&domain, limits.tables);
        // The main tables are wide from the start: a router with ten routes is to be fast, too.
        let (main4, main6) = (ip4.create()?, ip6.create()?);
        ip4.control(main4)?.widen();
        ip6.control(main6)?.widen();
        // A new slab has room for a first table.
        let _ = mpls.insert(MplsFib::new(&domain));
        Ok(Arc::new(Shared {
            interfaces: Published::new(IfTable::default()),
            ip4,
            ip6,
            mpls,
            adjacencies: Adjacencies::with_limit(&domain, limits.adjacencies),
            load_balances: LoadBalances::with_limit(&domain, limits.load_balances),
            impositions: Impositions::with_limit(&domain, limits.impositions),
            dispositions,
            acls: Published::new(AclTables::default()),
            macips: Published::new(MacipTables::default()),
            tunnels: Published::new(Tunnels::default()),
            seats: AtomicUsize::new(0),
            bridges: Published::new(BridgeTable::default()),
            macs: Arc::new(MacTable::new(limits.macs, hash_seed())),
            domain,
        }))
    }

    /// Makes both sides of what is published whole the same, after all workers have changed sides.
    pub fn even(&self) {
        self.interfaces.even(&self.domain);
        self.acls.even(&self.domain);
        self.tunnels.even(&self.domain);
        self.bridges.even(&self.domain);
    }

    /// A number for a new worker, which no other has: from 0.
    pub(crate) fn take_seat(&self) -> usize {
        self.seats.fetch_add(1, Ordering::Relaxed)
    }

    /// The interfaces now.
    #[inline(always)]
    pub fn interfaces<'r>(&'r self, r: &'r Reader) -> &'r IfTable {
        self.interfaces.load(r)
    }
}

/// A number that nobody outside can know: who could tell which line of the table an address lies in could fill it.
fn hash_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0u8)
}

/// Disposition of IPv4 explicit null, made with the tables.
pub const POP_IP4: u32 = 0;
/// Disposition of IPv6 explicit null.
pub const POP_IP6: u32 = 1;
/// Disposition of an explicit null above other labels.
pub const POP_MPLS: u32 = 2;

/// Fills in the dispositions that reserved labels mean; their indices are the first ones of a new table.
fn reserve_pops(dispositions: &Dispositions) {
    let pops = [
        (POP_IP4, Payload::Ip4, Dpo::new(DpoKind::LookupIp4, 0)),
        (POP_IP6, Payload::Ip6, Dpo::new(DpoKind::LookupIp6, 0)),
        (POP_MPLS, Payload::Mpls, Dpo::new(DpoKind::LookupMpls, 0)),
    ];
    for (index, payload, next) in pops {
        let made = dispositions.insert(Disposition {
            payload,
            mode: TtlMode::Uniform,
            next,
        });
        debug_assert_eq!(
            made.ok(),
            Some(index),
            "a new table gives out indices from 0"
        );
    }
}
