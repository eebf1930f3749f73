//! The kinds of value a record is made of: how each is read, written and shown.
//!
//! A record is a list of fields; [`Field`] is what a type needs to be one. [`Layout`] is the same list as data, which the
//! printers walk without building the record.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

pub use super::list::{List, ListIter};
use crate::types::Address;
use crate::xdr::{DecodeError, Reader, Result, put_opaque, put_u32, put_u64};

/// A value that can stand in a record.
pub trait Field<'a>: Copy {
    /// The fewest bytes a value of this type takes.
    const MIN: usize;
    /// How the value is shown unless the record says otherwise.
    const SHOW: Show;

    /// Takes a value from the reader.
    fn read(r: &mut Reader<'a>) -> Result<Self>;
    /// Appends the value.
    fn write(&self, out: &mut Vec<u8>);
}

/// How a printer shows a field. The strings carry the number of bytes that sflowtool shows at most.
#[derive(Debug, Clone, Copy)]
pub enum Show {
    /// Unsigned 32-bit number.
    U32,
    /// Signed 32-bit number; sflowtool shows it unsigned.
    I32,
    /// Unsigned 64-bit number.
    U64,
    /// 64-bit number as 16 hexadecimal digits.
    Hex64,
    /// 32-bit float with three decimals.
    Float,
    /// Hundredths of a percent with two decimals, all ones is `unknown`.
    Percent,
    /// Ethernet address, 8 bytes with padding.
    Mac,
    /// IPv4 address without type word.
    Ip4,
    /// IPv6 address without type word.
    Ip6,
    /// Address with type word.
    Address,
    /// String, left out when empty.
    Name(usize),
    /// String, shown even when empty.
    Text(usize),
    /// Opaque bytes, shown in hexadecimal.
    Bytes,
    /// 16 bytes in the 8-4-4-4-12 form.
    Uuid,
    /// Memcache key: a string that is shown URL-encoded.
    UrlEncoded(usize),
    /// The four LACP port states, a byte each.
    PortStates,
    /// Direction of a packet at a socket: unknown, received, sent.
    Direction,
    /// Status of an application operation, by name.
    AppStatus,
    /// MPLS label stack.
    Labels,
    /// Stack of VLAN tags.
    VlanTags,
    /// BGP AS path.
    AsPath,
    /// BGP communities.
    Communities,
    /// List of Ethernet addresses.
    Macs,
    /// Fields that only records longer than this many bytes have.
    Tail(u32, &'static [Item]),
    /// A list of records.
    Rows(&'static [Item]),
    /// Has no general form: the printers have a function for the record that contains it.
    Special,
}

/// One field of a [`Layout`].
#[derive(Debug, Clone, Copy)]
pub struct Item {
    /// The name that sflowtool prints, or one in its style for records that it does not know.
    pub key: &'static str,
    /// The same as a JSON member begins: `,"key":`.
    pub json_key: &'static str,
    /// How it is shown.
    pub show: Show,
    /// Bytes that must be left before the field and those after it are shown: sflowtool reads some runs of fields
    /// as a whole, which shows in where it stops on a record that is cut short. 0 if it reads field by field.
    pub need: usize,
}

/// A record as a list of fields.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The line that comes first, if any: `extendedType` or `flowSampleType` and its value.
    pub title: Option<(&'static str, &'static str)>,
    /// The fields in wire order.
    pub items: &'static [Item],
}

macro_rules! word {
    ($ty:ty, $len:literal, $show:expr, $read:ident, $put:ident, $wire:ty) => {
        impl<'a> Field<'a> for $ty {
            const MIN: usize = $len;
            const SHOW: Show = $show;

            #[inline]
            fn read(r: &mut Reader<'a>) -> Result<Self> {
                r.$read().map(|w| w as $ty)
            }

            #[inline]
            fn write(&self, out: &mut Vec<u8>) {
                $put(out, *self as $wire);
            }
        }
    };
}

word!(u32, 4, Show::U32, u32, put_u32, u32);
word!(i32, 4, Show::I32, u32, put_u32, u32);
word!(u64, 8, Show::U64, u64, put_u64, u64);

impl<'a> Field<'a> for f32 {
    const MIN: usize = 4;
    const SHOW: Show = Show::Float;

    fn read(r: &mut Reader<'a>) -> Result<Self> {
        r.u32().map(f32::from_bits)
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_u32(out, self.to_bits());
    }
}

/// A share in hundredths of a percent, or not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percent(pub Option<u32>);

impl<'a> Field<'a> for Percent {
    const MIN: usize = 4;
    const SHOW: Show = Show::Percent;

    fn read(r: &mut Reader<'a>) -> Result<Self> {
        r.u32().map(|w| Percent((w != u32::MAX).then_some(w)))
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_u32(out, self.0.unwrap_or(u32::MAX));
    }
}

/// An Ethernet address; two bytes of padding follow it on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<'a> Field<'a> for Mac {
    const MIN: usize = 8;
    const SHOW: Show = Show::Mac;

    fn read(r: &mut Reader<'a>) -> Result<Self> {
        let [a, b, c, d, e, g, ..] = r.array::<8>()?;
        Ok(Mac([a, b, c, d, e, g]))
    }

    fn write(&self, out: &mut Vec<u8>) {
        let [a, b, c, d, e, g] = self.0;
        out.extend_from_slice(&[a, b, c, d, e, g, 0, 0]);
    }
}

impl<'a> Field<'a> for Ipv4Addr {
    const MIN: usize = 4;
    const SHOW: Show = Show::Ip4;

    fn read(r: &mut Reader<'a>) -> Result<Self> {
        r.array::<4>().map(Ipv4Addr::from)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.octets());
    }
}

impl<'a> Field<'a> for Ipv6Addr {
    const MIN: usize = 16;
    const SHOW: Show = Show::Ip6;

    fn read(r: &mut Reader<'a>) -> Result<Self> {
        r.array::<16>().map(Ipv6Addr::from)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.octets());
    }
}

impl<'a> Field<'a> for Address {
    const MIN: usize = 4;
    const SHOW: Show = Show::Address;

    fn read(r: &mut Reader<'a>) -> Result<Self> {
        Address::read(r)
    }

    fn write(&self, out: &mut Vec<u8>) {
        Address::write(self, out);
    }
}

/// 16 bytes that identify a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Uuid(pub [u8; 16]);

impl<'a> Field<'a> for Uuid {
    const MIN: usize = 16;
    const SHOW: Show = Show::Uuid;

    fn read(r: &mut Reader<'a>) -> Result<Self> {
        r.array().map(Uuid)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
}

/// A string: bytes that are UTF-8 by convention, but nothing on the wire promises it.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Text<'a>(pub &'a [u8]);

impl<'a> From<&'a str> for Text<'a> {
    fn from(s: &'a str) -> Self {
        Text(s.as_bytes())
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.0))
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.0))
    }
}

impl<'a> Field<'a> for Text<'a> {
    const MIN: usize = 4;
    const SHOW: Show = Show::Name(255);

    fn read(r: &mut Reader<'a>) -> Result<Self> {
        r.opaque().map(Text)
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_opaque(out, self.0);
    }
}

impl<'a> Field<'a> for &'a [u8] {
    const MIN: usize = 4;
    const SHOW: Show = Show::Bytes;

    fn read(r: &mut Reader<'a>) -> Result<Self> {
        r.opaque()
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_opaque(out, self);
    }
}

/// IEEE 802.1AX port states, one byte of flags each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortStates {
    /// Actor, administrative.
    pub actor_admin: u8,
    /// Actor, operational.
    pub actor_oper: u8,
    /// Partner, administrative.
    pub partner_admin: u8,
    /// Partner, operational.
    pub partner_oper: u8,
}

impl<'a> Field<'a> for PortStates {
    const MIN: usize = 4;
    const SHOW: Show = Show::PortStates;

    fn read(r: &mut Reader<'a>) -> Result<Self> {
        let [actor_admin, actor_oper, partner_admin, partner_oper] = r.array()?;
        Ok(PortStates {
            actor_admin,
            actor_oper,
            partner_admin,
            partner_oper,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[
            self.actor_admin,
            self.actor_oper,
            self.partner_admin,
            self.partner_oper,
        ]);
    }
}

/// Fields that newer revisions of a record have at its end.
impl<'a, T: Field<'a>> Field<'a> for Option<T> {
    const MIN: usize = 0;
    const SHOW: Show = Show::Special;

    fn read(r: &mut Reader<'a>) -> Result<Self> {
        if r.left() < T::MIN.max(1) {
            return Ok(None);
        }
        T::read(r).map(Some)
    }

    fn write(&self, out: &mut Vec<u8>) {
        if let Some(v) = self {
            v.write(out);
        }
    }
}

/// Reads a whole record body. Bytes after the last known field belong to a newer revision and are left alone.
pub(crate) fn read_body<'a, T: Field<'a>>(
    body: &'a [u8],
    base: usize,
) -> core::result::Result<T, DecodeError> {
    T::read(&mut Reader::at(body, base))
}

/// Declares record structures: name, optional title line, and fields in wire order with the name they are shown under.
///
/// `show X` after the name overrides how the type is shown, `need N` sets [`Item::need`].
/// A flow record within a record, undecoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Framed<'a> {
    /// Its tag.
    pub tag: u32,
    /// Its bytes.
    pub body: &'a [u8],
}

impl<'a> Field<'a> for Framed<'a> {
    const MIN: usize = 8;
    const SHOW: Show = Show::Special;

    fn read(r: &mut Reader<'a>) -> Result<Self> {
        Ok(Framed {
            tag: r.u32()?,
            body: r.opaque()?,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_u32(out, self.tag);
        put_opaque(out, self.body);
    }
}

macro_rules! records {
    ($(
        $(#[$meta:meta])*
        $name:ident $(<$lt:lifetime>)? $([$tkey:literal $title:literal])? {
            $( $(#[$fmeta:meta])* $field:ident: $ty:ty => $key:literal $(show $show:expr)? $(, need $need:literal)?; )*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct $name $(<$lt>)? {
            $( #[doc = concat!("`", $key, "`")] #[doc = ""] $(#[$fmeta])* pub $field: $ty, )*
        }

        impl<'a> $crate::record::field::Field<'a> for $name $(<$lt>)? {
            const MIN: usize = 0 $(+ <$ty as $crate::record::field::Field<'a>>::MIN)*;
            const SHOW: $crate::record::field::Show = $crate::record::field::Show::Special;

            #[inline]
            fn read(r: &mut $crate::xdr::Reader<'a>) -> $crate::xdr::Result<Self> {
                Ok($name { $( $field: $crate::record::field::Field::read(r)?, )* })
            }

            #[inline]
            fn write(&self, out: &mut Vec<u8>) {
                $( $crate::record::field::Field::write(&self.$field, out); )*
            }
        }

        impl $(<$lt>)? $name $(<$lt>)? {
            /// The fields as the printers walk them.
            pub const LAYOUT: $crate::record::field::Layout = $crate::record::field::Layout {
                title: records!(@title $($tkey $title)?),
                items: &[ $( $crate::record::field::Item {
                    key: $key,
                    json_key: concat!(",\"", $key, "\":"),
                    show: records!(@show $ty $(, $show)?),
                    need: 0 $(+ $need)?,
                }, )* ],
            };
        }

        #[cfg(test)]
        impl $(<$lt>)? $crate::record::arbitrary::Arbitrary for $name $(<$lt>)? where $($lt: 'static)? {
            fn arbitrary(g: &mut $crate::record::arbitrary::Gen) -> Self {
                $name { $( $field: $crate::record::arbitrary::Arbitrary::arbitrary(g), )* }
            }
        }
    )*};
    (@title) => { None };
    (@title $k:literal $v:literal) => { Some(($k, $v)) };
    (@show $ty:ty, $show:expr) => { $show };
    (@show $ty:ty) => { <$ty as $crate::record::field::Field>::SHOW };
}

pub(crate) use records;
