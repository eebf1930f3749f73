//! Prefixes: an address and how many of its first bits count (RFC 4632, RFC 4291).

use crate::addr::Addr;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use thiserror::Error;

/// A prefix whose bits after the length are zero: it cannot be made otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Prefix<A: Addr> {
    addr: A,
    len: u8,
}

/// An IPv4 prefix. Ordered by address, then by length.
pub type Ip4Prefix = Prefix<u32>;
/// An IPv6 prefix. Ordered by address, then by length.
pub type Ip6Prefix = Prefix<u128>;

/// Text or numbers that are no prefix.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PrefixError {
    /// The length exceeds the address.
    #[error("length {len} is over {max}")]
    Length {
        /// The length given.
        len: u32,
        /// The longest of the family.
        max: u8,
    },
    /// Bits after the length are set; names the prefix that was probably meant.
    #[error("host bits set: {given} (the network is {network})")]
    HostBits {
        /// The text given.
        given: String,
        /// With the host bits cleared.
        network: String,
    },
    /// Not an address of the family before the slash.
    #[error("{0:?} is not an {1} address")]
    Address(String, &'static str),
    /// No number after the slash.
    #[error("{0:?} is not a prefix length")]
    NotALength(String),
    /// No slash.
    #[error("{0:?} has no prefix length (address/length)")]
    NoLength(String),
}

impl<A: Addr> Prefix<A> {
    /// Bits of an address, which is the longest length.
    pub const BITS: u8 = A::WIDTH;

    /// The first `len` bits of `addr`; the others are cleared.
    ///
    /// # Errors
    /// [`PrefixError::Length`] when `len` exceeds the address.
    pub fn new(addr: A, len: u8) -> Result<Self, PrefixError> {
        if len > A::WIDTH {
            return Err(PrefixError::Length {
                len: u32::from(len),
                max: A::WIDTH,
            });
        }
        Ok(Self::masked(addr, len))
    }

    /// The same for a length that is known to fit; a larger one counts as a host prefix.
    #[must_use]
    pub fn masked(addr: A, len: u8) -> Self {
        let len = len.min(A::WIDTH);
        Prefix {
            addr: addr.masked(len),
            len,
        }
    }

    /// The prefix of one address alone.
    #[must_use]
    pub fn host(addr: A) -> Self {
        Prefix {
            addr,
            len: A::WIDTH,
        }
    }

    /// The address, as a word with its first bit on top.
    #[inline]
    #[must_use]
    pub fn addr(&self) -> A {
        self.addr
    }

    /// The length in bits.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u8 {
        self.len
    }

    /// Whether `addr` lies inside.
    #[inline]
    #[must_use]
    pub fn contains(&self, addr: A) -> bool {
        addr.masked(self.len) == self.addr
    }

    /// Whether all of `other` lies inside (a prefix covers itself).
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.len <= other.len && self.contains(other.addr)
    }
}

impl Ip4Prefix {
    /// The first address, as the standard library's type.
    #[must_use]
    pub fn ip(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.addr)
    }
}

impl Ip6Prefix {
    /// The first address, as the standard library's type.
    #[must_use]
    pub fn ip(&self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.addr)
    }
}

fn split(text: &str, max: u8) -> Result<(&str, u8), PrefixError> {
    let (addr, len) = text
        .split_once('/')
        .ok_or_else(|| PrefixError::NoLength(text.into()))?;
    let digits = !len.is_empty() && len.bytes().all(|b| b.is_ascii_digit());
    let number = if digits {
        len.parse::<u32>().ok()
    } else {
        None
    };
    let len = number.ok_or_else(|| PrefixError::NotALength(len.into()))?;
    match u8::try_from(len) {
        Ok(len) if len <= max => Ok((addr, len)),
        _ => Err(PrefixError::Length { len, max }),
    }
}

macro_rules! text {
    ($prefix:ty, $ip:ty, $family:expr) => {
        impl FromStr for $prefix {
            type Err = PrefixError;

            fn from_str(text: &str) -> Result<Self, PrefixError> {
                let (ip, len) = split(text, Self::BITS)?;
                let ip: $ip = ip
                    .parse()
                    .map_err(|_| PrefixError::Address(ip.into(), $family))?;
                let prefix = Self::masked(ip.to_bits(), len);
                if prefix.addr != ip.to_bits() {
                    let network = prefix.to_string();
                    return Err(PrefixError::HostBits {
                        given: text.into(),
                        network,
                    });
                }
                Ok(prefix)
            }
        }
    };
}

text!(Ip4Prefix, Ipv4Addr, "IPv4");
text!(Ip6Prefix, Ipv6Addr, "IPv6");

impl<A: Addr> fmt::Display for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.addr.ip(), self.len))
    }
}

impl<A: Addr> fmt::Debug for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_goes_both_ways() {
        for text in ["0.0.0.0/0", "10.0.0.0/8", "192.0.2.128/25", "192.0.2.1/32"] {
            assert_eq!(text.parse::<Ip4Prefix>().unwrap().to_string(), text);
        }
        for text in ["::/0", "2001:db8::/32", "2001:db8::1/128"] {
            assert_eq!(text.parse::<Ip6Prefix>().unwrap().to_string(), text);
        }
        let p: Ip4Prefix = "10.0.0.0/8".parse().unwrap();
        assert_eq!(format!("[{p:>12}]"), "[  10.0.0.0/8]");
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let e4 = |s: &str| s.parse::<Ip4Prefix>().unwrap_err().to_string();
        assert_eq!(
            e4("10.0.0.1/8"),
            "host bits set: 10.0.0.1/8 (the network is 10.0.0.0/8)"
        );
        assert_eq!(e4("10.0.0.0/33"), "length 33 is over 32");
        assert_eq!(
            e4("10.0.0.0/99999999999"),
            "\"99999999999\" is not a prefix length"
        );
        assert_eq!(e4("10.0.0.0/+8"), "\"+8\" is not a prefix length");
        assert_eq!(e4("10.0.0/8"), "\"10.0.0\" is not an IPv4 address");
        assert_eq!(
            e4("10.0.0.0"),
            "\"10.0.0.0\" has no prefix length (address/length)"
        );
        let e6 = |s: &str| s.parse::<Ip6Prefix>().unwrap_err().to_string();
        assert_eq!(
            e6("::1/127"),
            "host bits set: ::1/127 (the network is ::/127)"
        );
        assert_eq!(e6("::/129"), "length 129 is over 128");
        assert_eq!(e6("1.2.3.4/8"), "\"1.2.3.4\" is not an IPv6 address");
    }

    #[test]
    fn construction_masks() {
        let p = Ip4Prefix::new(0x0a01_0203, 8).unwrap();
        assert_eq!(p, "10.0.0.0/8".parse().unwrap());
        assert!(p.contains(0x0aff_ffff) && !p.contains(0x0b00_0000));
        assert!(p.covers(&Ip4Prefix::host(0x0a00_0001)) && p.covers(&p));
        assert!(!Ip4Prefix::host(0x0a00_0000).covers(&p));
        assert_eq!(
            Ip4Prefix::new(0, 33),
            Err(PrefixError::Length { len: 33, max: 32 })
        );
    }
}
