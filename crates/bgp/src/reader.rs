//! Takes numbers and runs of bytes from the front of a slice, never past its end.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::{BgpError, Result};

/// What is left of some bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `n` bytes of a `what`.
    pub fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8]> {
        let short = BgpError::Short {
            what,
            need: n,
            have: self.0.len(),
        };
        let (head, rest) = self.0.split_at_checked(n).ok_or(short)?;
        self.0 = rest;
        Ok(head)
    }

    /// The next bytes as an array.
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let short = BgpError::Short {
            what,
            need: N,
            have: self.0.len(),
        };
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(short)?;
        self.0 = rest;
        Ok(*head)
    }

    pub fn u8(&mut self, what: &'static str) -> Result<u8> {
        self.array::<1>(what).map(|[b]| b)
    }

    pub fn u16(&mut self, what: &'static str) -> Result<u16> {
        self.array(what).map(u16::from_be_bytes)
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32> {
        self.array(what).map(u32::from_be_bytes)
    }

    pub fn u64(&mut self, what: &'static str) -> Result<u64> {
        self.array(what).map(u64::from_be_bytes)
    }

    /// An AS number of two or four bytes.
    pub fn asn(&mut self, four: bool, what: &'static str) -> Result<u32> {
        if four {
            self.u32(what)
        } else {
            self.u16(what).map(u32::from)
        }
    }

    /// An address of the family.
    pub fn ip(&mut self, v6: bool, what: &'static str) -> Result<IpAddr> {
        if v6 {
            self.array::<16>(what).map(|a| Ipv6Addr::from(a).into())
        } else {
            self.array::<4>(what).map(|a| Ipv4Addr::from(a).into())
        }
    }

    /// A run of bytes behind its length in two bytes.
    pub fn counted(&mut self, what: &'static str) -> Result<&'a [u8]> {
        let n = self.u16(what)?;
        self.take(usize::from(n), what)
    }
}
