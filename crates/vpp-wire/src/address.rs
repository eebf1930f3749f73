//! Addresses as VPP sends them, and as the rest of the program has them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::msg::{Address, AddressFamily, AddressUnion, Prefix};

impl AddressUnion {
    /// An address of either family, the shorter one to the left.
    pub fn new(ip: IpAddr) -> AddressUnion {
        let mut out = [0; 16];
        match ip {
            IpAddr::V4(a) => out[..4].copy_from_slice(&a.octets()),
            IpAddr::V6(a) => out = a.octets(),
        }
        AddressUnion(out)
    }
    /// The IPv4 address in it.
    pub fn ip4(&self) -> Ipv4Addr {
        let [a, b, c, d, ..] = self.0;
        Ipv4Addr::new(a, b, c, d)
    }
    /// The IPv6 address in it.
    pub fn ip6(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.0)
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Address {
        Address {
            af: if ip.is_ipv4() {
                AddressFamily::ADDRESS_IP4
            } else {
                AddressFamily::ADDRESS_IP6
            },
            un: AddressUnion::new(ip),
        }
    }
}

impl Address {
    /// The address, where its family is one.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.af {
            AddressFamily::ADDRESS_IP4 => Some(self.un.ip4().into()),
            AddressFamily::ADDRESS_IP6 => Some(self.un.ip6().into()),
            _ => None,
        }
    }
}

impl Prefix {
    /// An address and how many of its bits count.
    pub fn new(ip: IpAddr, len: u8) -> Prefix {
        Prefix {
            address: ip.into(),
            len,
        }
    }
    /// Address and length, where the family is one and has so many bits.
    pub fn parts(&self) -> Option<(IpAddr, u8)> {
        let ip = self.address.ip()?;
        let bits = if ip.is_ipv4() { 32 } else { 128 };
        (self.len <= bits).then_some((ip, self.len))
    }
}
