//! The forwarding tables: longest-prefix match for IPv4 and IPv6, MPLS labels,
//! adjacencies, load-balances, label impositions; the MAC addresses of bridge domains.
//!
//! Owns the data that says where a packet goes next, in the form that workers read, and
//! the control-side map of prefixes. Knows nothing of packets, interfaces, neighbours or
//! protocols: an answer is a [`Dpo`] (a data-plane object: kind and index), and what to
//! do with it is a node's business.
//!
//! All tables are read wait-free through a [`parshall_rcu::Reader`] and changed by
//! control one entry at a time. A lookup during a change returns the old or the new
//! answer, never a third.
#![allow(unsafe_code)]

mod addr;
mod adjacency;
mod arena;
mod change;
mod dpo;
mod error;
mod imposition;
mod ip4;
mod ip6;
mod label;
mod load_balance;
mod lpm;
mod mac;
mod mac_writer;
mod node;
mod prefix;
mod rib;
mod tables;

pub use addr::Addr;
pub use adjacency::{AdjState, Adjacencies, Adjacency, AdjacencyError, LinkType, REWRITE_MAX};
pub use dpo::{Dpo, DpoKind};
pub use error::FibError;
pub use imposition::{
    Disposition, Dispositions, ImposeError, Imposition, Impositions, LABELS_MAX, Payload, TtlMode,
};
pub use ip4::Ip4Fib;
pub use ip6::Ip6Fib;
pub use label::{LABEL_MAX, MplsFib};
pub use load_balance::{BUCKETS_MAX, LoadBalance, LoadBalanceError, LoadBalances, Path};
pub use lpm::{FibMemory, Lpm, View};
pub use mac::{MAC_DOMAINS, MAC_INTERFACES, MacEntry, MacKey, MacSpot, MacTable};
pub use mac_writer::{MacFull, MacRecord, MacWriter};
pub use prefix::{Ip4Prefix, Ip6Prefix, Prefix, PrefixError};
pub use rib::{Rib, RibIter};
pub use tables::{Ip4Tables, Ip6Tables, IpTables, MplsTables};

#[cfg(test)]
mod lpm_tests;
