//! IP prefixes of either family as the control side orders and compares them.

use std::fmt;
use std::net::IpAddr;
use std::net::{Ipv4Addr, Ipv6Addr};

use parshall_command::Prefix;

/// Address family of a table or route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    Ip4,
    /// IPv6.
    Ip6,
}

impl Family {
    /// Family of an address.
    pub fn of(addr: IpAddr) -> Family {
        if addr.is_ipv4() {
            Family::Ip4
        } else {
            Family::Ip6
        }
    }
    /// Bits of an address.
    pub fn bits(self) -> u8 {
        match self {
            Family::Ip4 => 32,
            Family::Ip6 => 128,
        }
    }
    /// The word in commands: "ip" or "ip6".
    pub fn word(self) -> &'static str {
        match self {
            Family::Ip4 => "ip",
            Family::Ip6 => "ip6",
        }
    }
    /// The word in shown objects: "ip4" or "ip6".
    pub fn proto(self) -> &'static str {
        match self {
            Family::Ip4 => "ip4",
            Family::Ip6 => "ip6",
        }
    }
    /// The unspecified address.
    pub fn unspecified(self) -> IpAddr {
        match self {
            Family::Ip4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Family::Ip6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }
    }
}

/// A network: an address without host bits, and a length. Ordered by family, address, length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IpNet {
    addr: IpAddr,
    len: u8,
}

impl IpNet {
    /// The network of length `len` (cut to what the family has) that `addr` lies in.
    pub fn new(addr: IpAddr, len: u8) -> IpNet {
        let len = len.min(Family::of(addr).bits());
        IpNet {
            addr: from_bits(
                Family::of(addr),
                to_bits(addr) & mask(Family::of(addr), len),
            ),
            len,
        }
    }
    /// The network of this one host.
    pub fn host(addr: IpAddr) -> IpNet {
        IpNet {
            addr,
            len: Family::of(addr).bits(),
        }
    }
    /// Its first address.
    pub fn addr(&self) -> IpAddr {
        self.addr
    }
    /// Its length in bits.
    pub fn prefix_len(&self) -> u8 {
        self.len
    }
    /// Its family.
    pub fn family(&self) -> Family {
        Family::of(self.addr)
    }
    /// The upper half of the network that its first `len` - 1 bits name, unless it lies in that half itself.
    pub fn upper_half(&self, len: u8) -> Option<IpNet> {
        let f = self.family();
        let bit = 1u128 << f.bits().checked_sub(len)?;
        let bits = to_bits(self.addr);
        (bits & bit == 0).then(|| IpNet::new(from_bits(f, bits | bit), len))
    }
    /// Its last address.
    pub fn last(&self) -> IpAddr {
        let f = self.family();
        let all = mask(f, f.bits());
        from_bits(f, to_bits(self.addr) | (all & !mask(f, self.len)))
    }
    /// Whether `addr` lies in it.
    pub fn contains(&self, addr: IpAddr) -> bool {
        Family::of(addr) == self.family()
            && (to_bits(addr) ^ to_bits(self.addr)) & mask(self.family(), self.len) == 0
    }
    /// Whether one of the two contains the other.
    pub fn overlaps(&self, other: &IpNet) -> bool {
        self.contains(other.addr) || other.contains(self.addr)
    }
    /// Whether it is a single host.
    pub fn is_host(&self) -> bool {
        self.len == self.family().bits()
    }
}

impl From<Prefix> for IpNet {
    fn from(p: Prefix) -> IpNet {
        IpNet::new(p.addr, p.len)
    }
}

impl fmt::Display for IpNet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

fn mask(family: Family, len: u8) -> u128 {
    let all = u128::MAX >> (128 - u32::from(family.bits()));
    if len == 0 {
        0
    } else {
        all & (all << (family.bits() - len))
    }
}

fn to_bits(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(a) => u128::from(u32::from(a)),
        IpAddr::V6(a) => u128::from(a),
    }
}

fn from_bits(family: Family, bits: u128) -> IpAddr {
    match family {
        Family::Ip4 => IpAddr::V4(Ipv4Addr::from(bits as u32)),
        Family::Ip6 => IpAddr::V6(Ipv6Addr::from(bits)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        let (a, l) = text.split_once('/').expect("a prefix");
        IpNet::new(a.parse().expect("an address"), l.parse().expect("a length"))
    }

    #[test]
    fn host_bits_are_cut_and_ends_are_right() {
        for (text, first, last) in [
            ("10.1.2.3/8", "10.0.0.0", "10.255.255.255"),
            ("10.1.2.3/32", "10.1.2.3", "10.1.2.3"),
            ("10.1.2.3/0", "0.0.0.0", "255.255.255.255"),
            (
                "2001:db8::1/32",
                "2001:db8::",
                "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
            ),
            ("::1/0", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ] {
            let n = net(text);
            assert_eq!(n.addr().to_string(), first, "{text}");
            assert_eq!(n.last().to_string(), last, "{text}");
        }
    }

    #[test]
    fn containment_and_overlap() {
        assert!(net("10.0.0.0/8").contains("10.9.9.9".parse().unwrap()));
        assert!(!net("10.0.0.0/8").contains("11.0.0.0".parse().unwrap()));
        assert!(!net("0.0.0.0/0").contains("::".parse().unwrap()));
        assert!(net("10.0.0.0/24").overlaps(&net("10.0.0.128/25")));
        assert!(net("10.0.0.128/25").overlaps(&net("10.0.0.0/24")));
        assert!(!net("10.0.0.0/25").overlaps(&net("10.0.0.128/25")));
    }
}
