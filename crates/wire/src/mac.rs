//! Ethernet hardware addresses (IEEE 802 MAC-48) and their text forms.
//!
//! Also the address mappings that need nothing but bits: IPv4 multicast (RFC 1112 section 6.4),
//! IPv6 multicast (RFC 2464 section 7) and the EUI-64 link-local address (RFC 4291 appendix A).

use core::fmt;
use core::str::FromStr;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A 48-bit hardware address, bytes in wire order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);
    /// `00:00:00:00:00:00`, "unknown" in an ARP request.
    pub const ZERO: MacAddr = MacAddr([0; 6]);

    /// Whether the group bit is set; the broadcast address is a group address too.
    #[inline]
    pub const fn is_multicast(&self) -> bool {
        self.0[0] & 0x01 != 0
    }

    /// Whether this is the all-ones address.
    #[inline]
    pub const fn is_broadcast(&self) -> bool {
        u64::from_be_bytes([
            0xff, 0xff, self.0[0], self.0[1], self.0[2], self.0[3], self.0[4], self.0[5],
        ]) == u64::MAX
    }

    /// Whether a station may own this address: neither a group address nor all zeros.
    #[inline]
    pub fn is_unicast(&self) -> bool {
        !self.is_multicast() && *self != MacAddr::ZERO
    }

    /// Whether the address was assigned locally rather than by a vendor.
    #[inline]
    pub const fn is_local(&self) -> bool {
        self.0[0] & 0x02 != 0
    }

    /// The address an IPv4 multicast group is sent to: the group's low 23 bits.
    pub const fn from_ipv4_multicast(group: Ipv4Addr) -> MacAddr {
        let [_, b, c, d] = group.octets();
        MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// The address an IPv6 multicast group is sent to: the group's low 32 bits.
    pub const fn from_ipv6_multicast(group: Ipv6Addr) -> MacAddr {
        let o = group.octets();
        MacAddr([0x33, 0x33, o[12], o[13], o[14], o[15]])
    }

    /// The link-local IPv6 address that modified EUI-64 derives from this address.
    pub const fn link_local(&self) -> Ipv6Addr {
        let m = self.0;
        Ipv6Addr::new(
            0xfe80,
            0,
            0,
            0,
            u16::from_be_bytes([m[0] ^ 0x02, m[1]]),
            u16::from_be_bytes([m[2], 0xff]),
            u16::from_be_bytes([0xfe, m[3]]),
            u16::from_be_bytes([m[4], m[5]]),
        )
    }
}

impl From<[u8; 6]> for MacAddr {
    fn from(bytes: [u8; 6]) -> MacAddr {
        MacAddr(bytes)
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The text is not a MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a MAC address: expected aa:bb:cc:dd:ee:ff or aabb.ccdd.eeff")]
pub struct ParseMacError;

impl FromStr for MacAddr {
    type Err = ParseMacError;

    /// Accepts `aa:bb:cc:dd:ee:ff`, `aa-bb-cc-dd-ee-ff` and the dotted `aabb.ccdd.eeff`. A group
    /// may drop its leading zeros, as in `2:fe:0:0:0:1`.
    fn from_str(text: &str) -> Result<MacAddr, ParseMacError> {
        let mut bytes = [0u8; 6];
        if text.contains('.') {
            let groups = hex_groups::<3>(text, '.', 4)?;
            for (pair, group) in bytes.chunks_exact_mut(2).zip(groups) {
                pair.copy_from_slice(&group.to_be_bytes());
            }
        } else {
            let separator = if text.contains('-') { '-' } else { ':' };
            let groups = hex_groups::<6>(text, separator, 2)?;
            for (byte, group) in bytes.iter_mut().zip(groups) {
                *byte = group as u8;
            }
        }
        Ok(MacAddr(bytes))
    }
}

/// Splits `text` into exactly `N` groups of 1 to `digits` hexadecimal digits.
fn hex_groups<const N: usize>(
    text: &str,
    separator: char,
    digits: usize,
) -> Result<[u16; N], ParseMacError> {
    let mut groups = [0u16; N];
    let mut parts = text.split(separator);
    for group in &mut groups {
        let part = parts.next().ok_or(ParseMacError)?;
        // from_str_radix would also take a sign.
        if part.is_empty() || part.len() > digits || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(ParseMacError);
        }
        *group = u16::from_str_radix(part, 16).map_err(|_| ParseMacError)?;
    }
    match parts.next() {
        None => Ok(groups),
        Some(_) => Err(ParseMacError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAC: MacAddr = MacAddr([0x02, 0xfe, 0x00, 0x12, 0xab, 0xcd]);

    #[test]
    fn reads_colon_dash_and_dot_forms() {
        for text in [
            "02:fe:00:12:ab:cd",
            "02-FE-00-12-AB-CD",
            "02fe.0012.abcd",
            "2:fe:0:12:ab:cd",
            "2fe.12.abcd",
        ] {
            assert_eq!(text.parse(), Ok(MAC), "{text}");
        }
        assert_eq!(MAC.to_string(), "02:fe:00:12:ab:cd");
    }

    #[test]
    fn refuses_other_text() {
        for text in [
            "",
            ":",
            "02:fe:00:12:ab",
            "02:fe:00:12:ab:cd:ef",
            "02fe.0012",
            "02fe.0012.abcd.0000",
            "02:fe:00:12:ab:xx",
            "+2:fe:00:12:ab:cd",
            "002:fe:00:12:ab:cd",
            "02:fe-00:12:ab:cd",
            "02fe.0012.abcde",
            "02::fe:00:12:ab",
            "\u{e9}2:fe:00:12:ab:cd",
        ] {
            assert_eq!(text.parse::<MacAddr>(), Err(ParseMacError), "{text}");
        }
    }

    #[test]
    fn tells_kinds_apart() {
        assert!(MacAddr::BROADCAST.is_multicast() && MacAddr::BROADCAST.is_broadcast());
        assert!(!MacAddr([0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]).is_broadcast());
        assert!(MAC.is_unicast() && MAC.is_local() && !MAC.is_multicast());
        assert!(!MacAddr::ZERO.is_unicast());
        assert!(!MacAddr([0x00, 0x1b, 0x21, 0, 0, 1]).is_local());
    }

    #[test]
    fn maps_multicast_and_link_local() {
        let v4 = MacAddr::from_ipv4_multicast(Ipv4Addr::new(239, 129, 2, 3));
        assert_eq!(v4.to_string(), "01:00:5e:01:02:03");
        let v6 = MacAddr::from_ipv6_multicast("ff02::1:ff28:9c5a".parse().unwrap());
        assert_eq!(v6.to_string(), "33:33:ff:28:9c:5a");
        // The example of RFC 4291 appendix A in its modern form.
        let mac: MacAddr = "34:56:78:9a:bc:de".parse().unwrap();
        assert_eq!(mac.link_local().to_string(), "fe80::3656:78ff:fe9a:bcde");
    }

    proptest! {
        #[test]
        fn text_round_trips(bytes: [u8; 6]) {
            prop_assert_eq!(MacAddr(bytes).to_string().parse(), Ok(MacAddr(bytes)));
        }

        #[test]
        fn any_text_is_answered(text in "\\PC{0,24}") {
            let _ = text.parse::<MacAddr>();
        }
    }
}
