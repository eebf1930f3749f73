//! The values of a matched command and how a handler reads them, without a panic anywhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use thiserror::Error;

/// An address and a prefix length. Host bits are kept as typed: an interface address needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The address as typed.
    pub addr: IpAddr,
    /// Length in bits, at most 32 or 128.
    pub len: u8,
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

/// An Ethernet address in transmission order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Reads `aa:bb:cc:dd:ee:ff`, `aa-bb-cc-dd-ee-ff` or `aabb.ccdd.eeff`.
    pub fn parse(text: &str) -> Option<Mac> {
        let (separator, width) = match text.len() {
            17 if text.contains(':') => (':', 2),
            17 => ('-', 2),
            14 => ('.', 4),
            _ => return None,
        };
        let mut bytes = Vec::with_capacity(6);
        for part in text.split(separator) {
            if part.len() != width || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            let number = u16::from_str_radix(part, 16).ok()?;
            let [high, low] = number.to_be_bytes();
            if width == 4 {
                bytes.push(high);
            }
            bytes.push(low);
        }
        bytes.try_into().ok().map(Mac)
    }
}

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// One argument's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `u8`, `u16`, `u32`, `u64`.
    Uint(u64),
    /// `f64`: finite.
    Float(f64),
    /// `ip4`, `ip6`, `ip`.
    Addr(IpAddr),
    /// `prefix`, `prefix4`, `prefix6`.
    Prefix(Prefix),
    /// `mac`.
    Mac(Mac),
    /// Names, words, strings, paths, choices (in full), blocks (raw) and the rest of a line.
    Text(String),
}

/// A handler asked for an argument that the command line does not have, or has as another type.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("argument '{name}' is missing")]
pub struct ArgError {
    /// The argument's name in the pattern.
    pub name: String,
}

/// Types that an argument can be read as; `None` where the value is of another kind or too large.
pub trait FromValue<'a>: Sized {
    /// The value as this type.
    fn from_value(value: &'a Value) -> Option<Self>;
}

macro_rules! from_uint {
    ($($int:ty),*) => {$(
        impl FromValue<'_> for $int {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Uint(n) => <$int>::try_from(*n).ok(),
                    _ => None,
                }
            }
        }
    )*};
}
from_uint!(u8, u16, u32, u64, usize);

macro_rules! from_variant {
    ($($variant:ident => $kind:ty),*) => {$(
        impl FromValue<'_> for $kind {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::$variant(inner) => Some(inner.clone()),
                    _ => None,
                }
            }
        }
    )*};
}
from_variant!(Float => f64, Addr => IpAddr, Prefix => Prefix, Mac => Mac, Text => String);

impl<'a> FromValue<'a> for &'a str {
    fn from_value(value: &'a Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl FromValue<'_> for Ipv4Addr {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Addr(IpAddr::V4(addr)) => Some(*addr),
            _ => None,
        }
    }
}

impl FromValue<'_> for Ipv6Addr {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Addr(IpAddr::V6(addr)) => Some(*addr),
            _ => None,
        }
    }
}

/// What a command line said: the literal words that were there, the arguments, the named groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Args {
    words: Vec<&'static str>,
    values: Vec<(&'static str, usize, Value)>,
    groups: Vec<(&'static str, Args)>,
}

impl Args {
    pub(crate) fn push_word(&mut self, word: &'static str) {
        self.words.push(word);
    }

    pub(crate) fn push_value(&mut self, name: &'static str, offset: usize, value: Value) {
        self.values.push((name, offset, value));
    }

    pub(crate) fn push_group(&mut self, name: &'static str, args: Args) {
        self.groups.push((name, args));
    }

    /// Whether the literal `word` of the pattern was on the line, in full or abbreviated.
    pub fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    /// The first value of argument `name`; `None` when it was left out or is of another type.
    pub fn get<'a, T: FromValue<'a>>(&'a self, name: &str) -> Option<T> {
        self.values
            .iter()
            .find(|v| v.0 == name)
            .and_then(|v| T::from_value(&v.2))
    }

    /// Like [`Args::get`] for an argument that the pattern demands.
    ///
    /// # Errors
    /// [`ArgError`] when it is not there as a `T`, which means pattern and handler disagree.
    pub fn need<'a, T: FromValue<'a>>(&'a self, name: &str) -> Result<T, ArgError> {
        self.get(name).ok_or_else(|| ArgError {
            name: name.to_owned(),
        })
    }

    /// All values of an argument inside `(+ ...)` or `(* ...)`, in order.
    pub fn all<'a, T: FromValue<'a>>(&'a self, name: &str) -> Vec<T> {
        self.values
            .iter()
            .filter(|v| v.0 == name)
            .filter_map(|v| T::from_value(&v.2))
            .collect()
    }

    /// The turns of the named repetition `(+name ...)`, in order.
    pub fn group(&self, name: &str) -> Vec<&Args> {
        self.groups
            .iter()
            .filter(|g| g.0 == name)
            .map(|g| &g.1)
            .collect()
    }

    /// Byte offset of argument `name` in the line, for an error that only the handler can find.
    pub fn offset(&self, name: &str) -> Option<usize> {
        self.values.iter().find(|v| v.0 == name).map(|v| v.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_forms() {
        let want = Some(Mac([0x02, 0xfe, 0, 0xab, 0xcd, 0xef]));
        for text in ["02:fe:00:ab:cd:ef", "02-FE-00-AB-CD-EF", "02fe.00ab.cdef"] {
            assert_eq!(Mac::parse(text), want, "{text}");
        }
        for text in [
            "",
            "02:fe:00:ab:cd",
            "02:fe:00:ab:cd:e+",
            "02fe.00ab.cdefa",
            "02:fe-00:ab:cd:ef",
            "é2:fe:00:ab:cd:e",
        ] {
            assert_eq!(Mac::parse(text), None, "{text}");
        }
        assert_eq!(
            want.map(|m| m.to_string()).as_deref(),
            Some("02:fe:00:ab:cd:ef")
        );
    }

    #[test]
    fn getters_never_lie_about_types() {
        let mut args = Args::default();
        args.push_value("n", 3, Value::Uint(300));
        args.push_value("n", 7, Value::Uint(1));
        args.push_word("del");
        assert_eq!(args.get::<u16>("n"), Some(300));
        assert_eq!(args.get::<u8>("n"), None);
        assert_eq!(args.get::<&str>("n"), None);
        assert_eq!(args.all::<u64>("n"), [300, 1]);
        assert_eq!(args.offset("n"), Some(3));
        assert!(args.has("del") && !args.has("add"));
        assert_eq!(
            args.need::<u32>("m").unwrap_err().to_string(),
            "argument 'm' is missing"
        );
    }
}
