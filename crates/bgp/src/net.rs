//! Networks, and how they lie in messages (RFC 4271 section 4.3, RFC 4760 section 5, RFC 7911 section 3).

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use crate::error::{BgpError, Result};
use crate::reader::Reader;

/// A network: an address whose bits beyond the length are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Net {
    addr: IpAddr,
    len: u8,
}

impl Net {
    /// The network of `len` bits that `addr` lies in; `None` when the family has fewer bits.
    pub fn new(addr: IpAddr, len: u8) -> Option<Net> {
        let addr = match addr {
            IpAddr::V4(a) if len <= 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                Ipv4Addr::from(u32::from(a) & mask).into()
            }
            IpAddr::V6(a) if len <= 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                Ipv6Addr::from(u128::from(a) & mask).into()
            }
            _ => return None,
        };
        Some(Net { addr, len })
    }

    /// Its first address.
    pub fn addr(&self) -> IpAddr {
        self.addr
    }

    /// Bits that count.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u8 {
        self.len
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl FromStr for Net {
    type Err = String;

    /// `address/length`; bits beyond the length are refused, since one of the two is a slip then.
    fn from_str(s: &str) -> core::result::Result<Net, String> {
        let wrong = || format!("{s:?} is no prefix; write ADDRESS/LENGTH");
        let (addr, len) = s.split_once('/').ok_or_else(wrong)?;
        let given: IpAddr = addr.parse().map_err(|_| wrong())?;
        let len = len.parse().map_err(|_| wrong())?;
        let net = Net::new(given, len).ok_or_else(wrong)?;
        if net.addr != given {
            return Err(format!("{s} has host bits set; the network is {net}"));
        }
        Ok(net)
    }
}

/// Networks as they lie in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nlri<'a> {
    bytes: &'a [u8],
    v6: bool,
    add_path: bool,
}

impl<'a> Nlri<'a> {
    /// The networks in `bytes`; with `add_path`, each behind a path identifier.
    pub(crate) fn new(bytes: &'a [u8], v6: bool, add_path: bool) -> Nlri<'a> {
        Nlri {
            bytes,
            v6,
            add_path,
        }
    }

    /// No network.
    pub(crate) const NONE: Nlri<'static> = Nlri {
        bytes: &[],
        v6: false,
        add_path: false,
    };

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Walks them all to the end once, so that iterating afterwards meets no error.
    pub(crate) fn checked(self) -> Result<Nlri<'a>> {
        let mut r = Reader(self.bytes);
        while !r.0.is_empty() {
            self.read(&mut r)?;
        }
        Ok(self)
    }

    /// Path identifier (0 without) and network, as far as they can be read.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Net)> + use<'a> {
        let (all, mut r) = (*self, Reader(self.bytes));
        core::iter::from_fn(move || {
            if r.0.is_empty() {
                return None;
            }
            all.read(&mut r).ok()
        })
    }

    fn read(&self, r: &mut Reader<'a>) -> Result<(u32, Net)> {
        let id = if self.add_path {
            r.u32("path identifier")?
        } else {
            0
        };
        read_net(r, self.v6).map(|net| (id, net))
    }
}

/// A length in bits, then as many bytes as hold them.
pub(crate) fn read_net(r: &mut Reader<'_>, v6: bool) -> Result<Net> {
    const WHAT: &str = "prefix length";
    let len = r.u8(WHAT)?;
    let bits = if v6 { 128 } else { 32 };
    if len > bits {
        return Err(BgpError::Value {
            what: WHAT,
            value: len.into(),
        });
    }
    let given = r.take(usize::from(len).div_ceil(8), "prefix")?;
    let mut whole = [0u8; 16];
    for (to, from) in whole.iter_mut().zip(given) {
        *to = *from;
    }
    let [a, b, c, d, ..] = whole;
    let addr = if v6 {
        Ipv6Addr::from(whole).into()
    } else {
        Ipv4Addr::new(a, b, c, d).into()
    };
    // The length was checked; RFC 4271 says of the bits beyond it that their value does not matter.
    Net::new(addr, len).ok_or(BgpError::Value {
        what: WHAT,
        value: len.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(s: &str) -> Net {
        s.parse().unwrap()
    }

    #[test]
    fn networks_are_read_whatever_lies_beyond_their_length() {
        let bytes = [0, 12, 10, 0xFF, 32, 192, 0, 2, 1];
        let all: Vec<_> = Nlri::new(&bytes, false, false)
            .checked()
            .unwrap()
            .iter()
            .collect();
        assert_eq!(
            all,
            [
                (0, net("0.0.0.0/0")),
                (0, net("10.240.0.0/12")),
                (0, net("192.0.2.1/32"))
            ]
        );
        let bytes = [0, 0, 0, 7, 29, 0x20, 0x01, 0x0D, 0xBF];
        let all: Vec<_> = Nlri::new(&bytes, true, true).iter().collect();
        assert_eq!(all, [(7, net("2001:db8::/29"))]);
    }

    #[test]
    fn broken_networks_are_refused() {
        let check = |b: &[u8], v6| Nlri::new(b, v6, false).checked().map(|_| ());
        assert_eq!(
            check(&[33, 1, 2, 3, 4, 5], false).unwrap_err().to_string(),
            "prefix length cannot be 33"
        );
        assert!(check(&[129], true).is_err());
        assert!(check(&[24, 10, 0], false).is_err());
        assert!(Nlri::new(&[0, 0, 0], false, true).checked().is_err());
    }

    #[test]
    fn text_without_slips() {
        assert_eq!(net("2001:db8::/32").to_string(), "2001:db8::/32");
        assert_eq!(
            "10.0.0.1/8".parse::<Net>().unwrap_err(),
            "10.0.0.1/8 has host bits set; the network is 10.0.0.0/8"
        );
        for bad in ["10.0.0.0", "10.0.0.0/33", "x/8", "::/129", "10.0.0.0/-1"] {
            assert!(bad.parse::<Net>().is_err(), "{bad}");
        }
    }
}
