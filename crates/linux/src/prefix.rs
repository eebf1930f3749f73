//! An address with a prefix length, `192.0.2.1/24`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::{Error, Result};

/// An IP address and a prefix length that fits it. Host bits may be set: it serves interface
/// addresses as well as networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IpPrefix {
    addr: IpAddr,
    len: u8,
}

impl IpPrefix {
    /// `addr`/`len`; `None` when the length is more than 32 or 128 bits.
    pub fn new(addr: impl Into<IpAddr>, len: u8) -> Option<IpPrefix> {
        let addr = addr.into();
        (len <= bits(addr)).then_some(IpPrefix { addr, len })
    }
    /// `addr`/32 or `addr`/128.
    pub fn host(addr: impl Into<IpAddr>) -> IpPrefix {
        let addr = addr.into();
        IpPrefix {
            addr,
            len: bits(addr),
        }
    }
    /// 0.0.0.0/0.
    pub const DEFAULT_V4: IpPrefix = IpPrefix {
        addr: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        len: 0,
    };
    /// ::/0.
    pub const DEFAULT_V6: IpPrefix = IpPrefix {
        addr: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        len: 0,
    };

    /// The address, host bits included.
    pub fn addr(&self) -> IpAddr {
        self.addr
    }
    /// The prefix length in bits.
    pub fn prefix_len(&self) -> u8 {
        self.len
    }
    /// The address's bytes, 4 or 16.
    pub(crate) fn octets(&self) -> Vec<u8> {
        octets(self.addr)
    }
    /// The same with host bits cleared.
    #[must_use]
    pub fn network(&self) -> IpPrefix {
        let keep = |bits: u32, len: u8| bits - u32::from(len);
        let addr = match self.addr {
            IpAddr::V4(a) => {
                let mask = u32::MAX.checked_shl(keep(32, self.len)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(a.to_bits() & mask))
            }
            IpAddr::V6(a) => {
                let mask = u128::MAX.checked_shl(keep(128, self.len)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(a.to_bits() & mask))
            }
        };
        IpPrefix {
            addr,
            len: self.len,
        }
    }
}

/// The address's bytes, 4 or 16.
pub(crate) fn octets(addr: IpAddr) -> Vec<u8> {
    match addr {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

/// AF_INET or AF_INET6, as netlink headers carry it.
pub(crate) fn family(addr: IpAddr) -> u8 {
    (if addr.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    }) as u8
}

/// An address from 4 or 16 bytes.
pub(crate) fn addr_from(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(b) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(b));
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

fn bits(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}

impl fmt::Display for IpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl FromStr for IpPrefix {
    type Err = Error;

    /// Reads `ADDRESS/LENGTH`; a bare address is a host prefix.
    fn from_str(s: &str) -> Result<IpPrefix> {
        let bad = |why: &str| Error::other("read", format!("prefix \"{s}\""), why);
        let (addr, len) = s.split_once('/').map_or((s, None), |(a, l)| (a, Some(l)));
        let addr: IpAddr = addr
            .parse()
            .map_err(|_| bad("not an IPv4 or IPv6 address"))?;
        let Some(len) = len else {
            return Ok(IpPrefix::host(addr));
        };
        let len = len
            .parse()
            .map_err(|_| bad("the prefix length is not a number"))?;
        IpPrefix::new(addr, len)
            .ok_or_else(|| bad(&format!("the prefix length is 0 to {}", bits(addr))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_writes_and_masks() {
        let p: IpPrefix = "10.1.2.3/20".parse().unwrap();
        assert_eq!(p.to_string(), "10.1.2.3/20");
        assert_eq!(p.network().to_string(), "10.1.0.0/20");
        assert_eq!(
            "10.1.2.3/0".parse::<IpPrefix>().unwrap().network(),
            IpPrefix::DEFAULT_V4
        );
        let p: IpPrefix = "2001:db8::1/32".parse().unwrap();
        assert_eq!(p.network().to_string(), "2001:db8::/32");
        assert_eq!(
            "::1/0".parse::<IpPrefix>().unwrap().network(),
            IpPrefix::DEFAULT_V6
        );
        assert_eq!("::1".parse::<IpPrefix>().unwrap().prefix_len(), 128);
        for bad in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "x/8",
            "10.0.0.0/-1",
        ] {
            assert!(bad.parse::<IpPrefix>().is_err(), "{bad}");
        }
    }
}
