//! Packet codecs: bytes in, bytes out, one file per protocol.
//!
//! Every protocol file has the same two levels:
//!
//! - `Packet<T>`, a zero-copy view over bytes. It never judges:
//!   [`new_checked`](Ipv4Packet::new_checked) tests once that the header, and every length it
//!   claims, lies inside the bytes; after that no accessor panics, whatever the bytes say.
//!   `new_unchecked` skips the test for callers that have already made it; on bytes too short
//!   for the header its accessors panic.
//! - `Repr`, a small owned value that cannot express nonsense. `parse` refuses what the RFC
//!   forbids, `emit` writes `buffer_len` bytes and refuses a buffer that is too short.
//!
//! Inside a file the types are plainly `Packet` and `Repr`; here they are re-exported with the
//! protocol in front: [`Ipv4Packet`], [`Ipv4Repr`].
//!
//! The crate knows no clock, no socket and no router; addresses are those of `std::net`. All
//! integers that go in or out are in host order, all lengths are in bytes unless said otherwise.

mod arp;
mod builder;
pub mod checksum;
mod ethernet;
mod field;
mod flow_key;
mod icmp_error;
mod icmpv4;
mod icmpv6;
mod ip;
mod ipv4;
mod ipv6;
pub mod lacp;
mod mac;
mod mpls;
mod ndisc;
mod tcp;
mod udp;
mod view;
mod vlan;

pub use arp::{Operation as ArpOperation, Packet as ArpPacket, Repr as ArpRepr};
pub use builder::PacketBuilder;
pub use checksum::{Checksum, fill_l4_checksum};
pub use ethernet::{EtherType, Frame as EthernetFrame, Repr as EthernetRepr};
pub use flow_key::FlowKey;
pub use icmp_error::{Icmpv4ErrorBuilder, Icmpv6ErrorBuilder};
pub use icmpv4::{
    ErrorKind as Icmpv4ErrorKind, MessageType as Icmpv4Type, Packet as Icmpv4Packet,
    Repr as Icmpv4Repr, TimeExceeded as Icmpv4TimeExceeded, Unreachable as Icmpv4Unreachable,
};
pub use icmpv6::{
    ErrorKind as Icmpv6ErrorKind, MessageType as Icmpv6Type, Packet as Icmpv6Packet,
    ParamProblem as Icmpv6ParamProblem, Repr as Icmpv6Repr, TimeExceeded as Icmpv6TimeExceeded,
    Unreachable as Icmpv6Unreachable,
};
pub use ip::IpProtocol;
pub use ipv4::{
    Fragment as Ipv4Fragment, Ipv4Option, Options as Ipv4Options, Packet as Ipv4Packet,
    Repr as Ipv4Repr,
};
pub use ipv6::{
    ExtensionHeader as Ipv6ExtensionHeader, ExtensionHeaders as Ipv6ExtensionHeaders, FlowLabel,
    FragmentHeader as Ipv6FragmentHeader, MAX_EXTENSION_HEADERS, Packet as Ipv6Packet,
    Repr as Ipv6Repr, UpperLayer as Ipv6UpperLayer,
};
pub use mac::{MacAddr, ParseMacError};
pub use mpls::{
    Label as MplsLabel, LabelEntry as MplsLabelEntry, MAX_LABELS as MPLS_MAX_LABELS,
    Repr as MplsRepr, Stack as MplsStack, TrafficClass as MplsTrafficClass,
};
pub use ndisc::{
    NdOption as NdiscOption, NdOptions as NdiscOptions, Packet as NdiscPacket,
    PrefixInfo as NdiscPrefixInfo, Repr as NdiscRepr,
};
pub use tcp::{Flags as TcpFlags, Packet as TcpPacket, Repr as TcpRepr};
pub use udp::{Packet as UdpPacket, Repr as UdpRepr};
pub use vlan::{Priority as VlanPriority, Repr as VlanRepr, Tag as VlanTag, VlanId};

/// Why bytes were refused, or could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum WireError {
    /// Fewer bytes than the header needs, or than the caller's buffer must have.
    #[error("truncated")]
    Truncated,
    /// A version field that is not this protocol's.
    #[error("wrong version")]
    BadVersion,
    /// A length field that contradicts the bytes or the protocol's limits.
    #[error("bad length field")]
    BadLength,
    /// The checksum does not match.
    #[error("bad checksum")]
    BadChecksum,
    /// A field holds a value the RFC forbids.
    #[error("malformed")]
    Malformed,
    /// Well-formed, but a type, code or address family this codec has no `Repr` for.
    #[error("unsupported")]
    Unsupported,
}

/// The result of every codec function.
pub type Result<T> = core::result::Result<T, WireError>;
