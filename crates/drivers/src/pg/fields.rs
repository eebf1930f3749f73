//! The fields of a frame that change from packet to packet, and those that follow from the rest.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use super::spec::{MAX_HEADERS, SpecError, ensure};

/// A field that changes from packet to packet: `bits` bits of the big-endian integer of `bytes` bytes
/// at offset `at`, above its lowest `shift` bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Offset in the frame.
    pub at: usize,
    /// Bytes of the integer the field lies in, 1 to 16.
    pub bytes: usize,
    /// Bits below the field.
    pub shift: u32,
    /// Bits of the field.
    pub bits: u32,
    /// What it takes.
    pub values: Values,
}

/// Values a field takes from packet to packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// `first` to `last` and again from `first`.
    Increment {
        /// First value.
        first: u128,
        /// Last value, included.
        last: u128,
    },
    /// Drawn evenly from `first` to `last` by the stream's seeded generator.
    Random {
        /// Lowest value.
        first: u128,
        /// Highest value, included.
        last: u128,
    },
    /// These, in order, and again from the first.
    List(Vec<u128>),
}

impl Values {
    /// The same range, drawn at random.
    #[must_use]
    pub fn random(self) -> Values {
        match self {
            Values::Increment { first, last } => Values::Random { first, last },
            other => other,
        }
    }

    /// A list of values, walked in order.
    pub fn list<T: FieldValue>(values: impl IntoIterator<Item = T>) -> Values {
        Values::List(values.into_iter().map(FieldValue::number).collect())
    }

    fn bounds(&self) -> Option<(u128, u128)> {
        match self {
            Values::Increment { first, last } | Values::Random { first, last } => {
                Some((*first, *last))
            }
            Values::List(list) => Some((*list.iter().min()?, *list.iter().max()?)),
        }
    }
}

/// Something that can be put into a field.
pub trait FieldValue {
    /// Its bits as a number, in host order.
    fn number(self) -> u128;
}
impl FieldValue for Ipv4Addr {
    fn number(self) -> u128 {
        u128::from(u32::from(self))
    }
}
impl FieldValue for Ipv6Addr {
    fn number(self) -> u128 {
        u128::from(self)
    }
}
impl FieldValue for u16 {
    fn number(self) -> u128 {
        u128::from(self)
    }
}
impl FieldValue for u32 {
    fn number(self) -> u128 {
        u128::from(self)
    }
}
impl FieldValue for [u8; 6] {
    fn number(self) -> u128 {
        self.iter().fold(0, |n, &b| n << 8 | u128::from(b))
    }
}

impl<T: FieldValue + Clone> From<RangeInclusive<T>> for Values {
    fn from(range: RangeInclusive<T>) -> Values {
        let (first, last) = range.into_inner();
        Values::Increment {
            first: first.number(),
            last: last.number(),
        }
    }
}

/// A length or checksum that follows from the rest of the frame. Offsets count from the frame's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fixup {
    /// IPv4 total length of the header at `ip` (RFC 791).
    Ipv4Length {
        /// Offset of the IPv4 header.
        ip: usize,
    },
    /// IPv6 payload length of the header at `ip` (RFC 8200).
    Ipv6Length {
        /// Offset of the IPv6 header.
        ip: usize,
    },
    /// UDP length of the header at `udp` (RFC 768).
    UdpLength {
        /// Offset of the UDP header.
        udp: usize,
    },
    /// Header checksum of the IPv4 header at `ip`, `len` bytes long with options.
    Ipv4Checksum {
        /// Offset of the IPv4 header.
        ip: usize,
        /// Its length in bytes.
        len: usize,
    },
    /// Checksum over everything from `at` to `end`, written `field` bytes behind `at`.
    Checksum {
        /// Offset of the transport header.
        at: usize,
        /// Where in it the checksum is.
        field: usize,
        /// End of what it covers; `None` = end of the frame.
        end: Option<usize>,
        /// Pseudo header it also covers.
        pseudo: Pseudo,
    },
}

/// The pseudo header a checksum covers, with the protocol number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pseudo {
    /// None (ICMP).
    None,
    /// That of the IPv4 header at this offset.
    V4(usize, u8),
    /// That of the IPv6 header at this offset (RFC 8200 section 8.1).
    V6(usize, u8),
}

/// A field that [`StreamSpec::vary`](super::StreamSpec::vary) finds in the template by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Ethernet source address.
    EthSource,
    /// Ethernet destination address.
    EthDestination,
    /// Id of the outer VLAN tag.
    VlanId,
    /// The outermost MPLS label.
    MplsLabel,
    /// IPv4 source address.
    Ip4Source,
    /// IPv4 destination address.
    Ip4Destination,
    /// IPv6 source address.
    Ip6Source,
    /// IPv6 destination address.
    Ip6Destination,
    /// TCP or UDP source port.
    SourcePort,
    /// TCP or UDP destination port.
    DestinationPort,
}

impl Edit {
    pub(super) fn validate(&self) -> Result<(), SpecError> {
        let width = (self.bytes * 8) as u32;
        ensure(
            (1..=16).contains(&self.bytes) && self.bits >= 1 && self.shift + self.bits <= width,
            || {
                format!(
                    "a field of {} bits in {} bytes is not possible",
                    self.bits, self.bytes
                )
            },
        )?;
        let Some((low, high)) = self.values.bounds() else {
            return Err(SpecError("a list of values is empty".into()));
        };
        ensure(low <= high, || "a range ends before it starts".into())?;
        ensure(self.bits == 128 || high >> self.bits == 0, || {
            format!("{high} does not fit into {} bits", self.bits)
        })
    }
}

impl Fixup {
    /// Bytes of the frame it must find.
    pub(super) fn needs(&self) -> usize {
        match *self {
            Fixup::Ipv4Length { ip } => ip + 20,
            Fixup::Ipv6Length { ip } => ip + 40,
            Fixup::UdpLength { udp } => udp + 8,
            Fixup::Ipv4Checksum { ip, len } => ip + len,
            Fixup::Checksum {
                at,
                field,
                end,
                pseudo,
            } => {
                let ip = match pseudo {
                    Pseudo::None => 0,
                    Pseudo::V4(ip, _) => ip + 20,
                    Pseudo::V6(ip, _) => ip + 40,
                };
                // A fixed end lies in the frame as given; a size below it would cut what it covers.
                (at + field + 2)
                    .max(ip)
                    .max(end.map_or(0, |e| e.min(MAX_HEADERS)))
            }
        }
    }

    /// The bytes it writes.
    pub(super) fn field(&self) -> (usize, usize) {
        match *self {
            Fixup::Ipv4Length { ip } => (ip + 2, 2),
            Fixup::Ipv6Length { ip } => (ip + 4, 2),
            Fixup::UdpLength { udp } => (udp + 4, 2),
            Fixup::Ipv4Checksum { ip, .. } => (ip + 10, 2),
            Fixup::Checksum { at, field, .. } => (at + field, 2),
        }
    }

    /// Whether it writes the same value for frames of the same length.
    pub(super) fn is_length(&self) -> bool {
        matches!(
            self,
            Fixup::Ipv4Length { .. } | Fixup::Ipv6Length { .. } | Fixup::UdpLength { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_do_not_fit_are_refused() {
        let edit = |values| {
            Edit {
                at: 0,
                bytes: 2,
                shift: 0,
                bits: 12,
                values,
            }
            .validate()
        };
        assert!(edit(Values::from(1u16..=4095)).is_ok());
        assert_eq!(
            edit(Values::from(1u16..=4096)).unwrap_err().0,
            "4096 does not fit into 12 bits"
        );
        assert_eq!(
            edit(Values::Increment { first: 9, last: 8 }).unwrap_err().0,
            "a range ends before it starts"
        );
        assert_eq!(
            edit(Values::List(vec![])).unwrap_err().0,
            "a list of values is empty"
        );
    }
}
