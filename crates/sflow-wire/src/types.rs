//! Values that several sFlow structures share: tags, addresses, data sources, interfaces.
//!
//! Follows `sflow_version_5.txt` section 5 and its errata (internal interface, ACL drop code).

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::xdr::{ErrorKind, Reader, Result, put_u32};

/// The number that names a sample or record format: 20 bits of enterprise, 12 of format.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub u32);

impl Tag {
    /// Packs an enterprise (0 is sflow.org) and a format (0 to 4095).
    pub const fn new(enterprise: u32, format: u32) -> Self {
        Tag(enterprise << 12 | format & 0xFFF)
    }

    /// The enterprise, an SMI private enterprise number; 0 for sflow.org.
    pub const fn enterprise(self) -> u32 {
        self.0 >> 12
    }

    /// The format number within the enterprise.
    pub const fn format(self) -> u32 {
        self.0 & 0xFFF
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.enterprise(), self.format())
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// An address as sFlow carries it; the agent may not know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Address {
    /// Type 0: not known, no bytes follow.
    Unknown,
    /// Type 1.
    V4(Ipv4Addr),
    /// Type 2.
    V6(Ipv6Addr),
}

impl Address {
    /// Reads the type word and the address.
    pub fn read(r: &mut Reader<'_>) -> Result<Self> {
        let here = *r;
        match r.u32()? {
            0 => Ok(Address::Unknown),
            1 => Ok(Address::V4(Ipv4Addr::from(r.array::<4>()?))),
            2 => Ok(Address::V6(Ipv6Addr::from(r.array::<16>()?))),
            other => Err(here.error(ErrorKind::AddressType(other))),
        }
    }

    /// Appends the type word and the address.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Address::Unknown => put_u32(out, 0),
            Address::V4(a) => {
                put_u32(out, 1);
                out.extend_from_slice(&a.octets());
            }
            Address::V6(a) => {
                put_u32(out, 2);
                out.extend_from_slice(&a.octets());
            }
        }
    }

    /// The address, if it is known.
    pub const fn ip(&self) -> Option<IpAddr> {
        match self {
            Address::Unknown => None,
            Address::V4(a) => Some(IpAddr::V4(*a)),
            Address::V6(a) => Some(IpAddr::V6(*a)),
        }
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(a) => Address::V4(a),
            IpAddr::V6(a) => Address::V6(a),
        }
    }
}

impl From<Ipv4Addr> for Address {
    fn from(ip: Ipv4Addr) -> Self {
        Address::V4(ip)
    }
}

impl From<Ipv6Addr> for Address {
    fn from(ip: Ipv6Addr) -> Self {
        Address::V6(ip)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unknown => f.write_str("-"),
            Address::V4(a) => a.fmt(f),
            Address::V6(a) => a.fmt(f),
        }
    }
}

/// What a sample is about: a class and an index within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DataSource {
    /// 0 ifIndex, 1 VLAN, 2 physical entity, 3 logical entity.
    pub class: u32,
    /// The ifIndex, VLAN or entity number.
    pub index: u32,
}

impl DataSource {
    /// The host itself, as hsflowd names it: physical entity 1.
    pub const HOST: DataSource = DataSource { class: 2, index: 1 };
    /// The whole agent, the source of discarded packet samples.
    pub const AGENT: DataSource = DataSource { class: 0, index: 0 };

    /// The data source of one interface.
    pub const fn interface(if_index: u32) -> Self {
        DataSource {
            class: 0,
            index: if_index,
        }
    }

    /// Unpacks the compact form: 8 bits of class, 24 of index.
    pub const fn from_compact(word: u32) -> Self {
        DataSource {
            class: word >> 24,
            index: word & 0x00FF_FFFF,
        }
    }
}

impl fmt::Display for DataSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.class, self.index)
    }
}

/// Where a packet came from or went, as a format and a value (the expanded form).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Interface {
    /// 0 single interface, 1 discarded, 2 multiple destinations, 3 not defined.
    pub format: u32,
    /// The ifIndex, the drop reason or the number of destinations.
    pub value: u32,
}

/// The meaning of an [`Interface`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InterfaceKind {
    /// Not known.
    Unknown,
    /// One interface, by ifIndex.
    Index(u32),
    /// The device itself sent or received the packet.
    Internal,
    /// Dropped, for this reason (see [`crate::reason`]).
    Discarded(u32),
    /// Sent to so many destinations; 0 says more than one, number unknown.
    Multiple(u32),
    /// A format that the specification does not define.
    Undefined(u32),
}

impl Interface {
    /// Not known.
    pub const UNKNOWN: Interface = Interface::index(0);
    /// The device itself. The value is the one of the compact form, since collectors look for it in both forms.
    pub const INTERNAL: Interface = Interface::index(0x3FFF_FFFF);

    /// One interface.
    pub const fn index(if_index: u32) -> Self {
        Interface {
            format: 0,
            value: if_index,
        }
    }

    /// Dropped for the reason `code`.
    pub const fn discarded(code: u32) -> Self {
        Interface {
            format: 1,
            value: code,
        }
    }

    /// Sent to `n` destinations, 0 if the number is not known.
    pub const fn multiple(n: u32) -> Self {
        Interface {
            format: 2,
            value: n,
        }
    }

    /// Unpacks the compact form: 2 bits of format, 30 of value.
    pub const fn from_compact(word: u32) -> Self {
        Interface {
            format: word >> 30,
            value: word & 0x3FFF_FFFF,
        }
    }

    /// What the pair means. Both spellings of the internal interface are understood.
    pub const fn kind(self) -> InterfaceKind {
        match (self.format, self.value) {
            (0, 0) => InterfaceKind::Unknown,
            (0, 0x3FFF_FFFF | 0xFFFF_FFFF) => InterfaceKind::Internal,
            (0, n) => InterfaceKind::Index(n),
            (1, n) => InterfaceKind::Discarded(n),
            (2, n) => InterfaceKind::Multiple(n),
            (_, n) => InterfaceKind::Undefined(n),
        }
    }

    /// The ifIndex, if this is one known interface.
    pub const fn if_index(self) -> Option<u32> {
        match self.kind() {
            InterfaceKind::Index(n) => Some(n),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_pack_enterprise_and_format() {
        assert_eq!(Tag::new(4300, 1002).0, 4300 << 12 | 1002);
        assert_eq!(Tag(4300 << 12 | 1002).to_string(), "4300:1002");
    }

    #[test]
    fn compact_interfaces() {
        assert_eq!(
            Interface::from_compact(0x4000_0102).kind(),
            InterfaceKind::Discarded(258)
        );
        assert_eq!(
            Interface::from_compact(0x8000_0000).kind(),
            InterfaceKind::Multiple(0)
        );
        assert_eq!(
            Interface::from_compact(0x3FFF_FFFF).kind(),
            InterfaceKind::Internal
        );
        assert_eq!(Interface::index(u32::MAX).kind(), InterfaceKind::Internal);
        assert_eq!(Interface::index(7).if_index(), Some(7));
        assert_eq!(Interface::UNKNOWN.if_index(), None);
    }

    #[test]
    fn address_types() {
        for a in [
            Address::Unknown,
            Address::V4(Ipv4Addr::new(192, 0, 2, 1)),
            Address::V6(Ipv6Addr::LOCALHOST),
        ] {
            let mut out = Vec::new();
            a.write(&mut out);
            assert_eq!(Address::read(&mut Reader::new(&out)).unwrap(), a);
        }
        let e = Address::read(&mut Reader::new(&[0, 0, 0, 3])).unwrap_err();
        assert_eq!(e.kind, ErrorKind::AddressType(3));
    }
}
