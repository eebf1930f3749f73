//! The kinds of argument: what text each takes, what it says when the text is nearly right, and how it
//! introduces itself in help.

use crate::error::shown;
use crate::token::{Token, TokenKind};
use crate::value::{Mac, Prefix, Value};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What the running system can name. `class` is `"interface"` or what `<x:name CLASS>` says.
pub trait Names {
    /// All names of a class, for completion. Order is kept.
    fn list(&self, class: &str) -> Vec<String>;

    /// Whether `name` exists: a known name wins over the abbreviation of a literal word.
    fn contains(&self, class: &str, name: &str) -> bool {
        self.list(class).iter().any(|known| known == name)
    }
}

/// A system without any names: matching then goes by form alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl Names for NoNames {
    fn list(&self, _class: &str) -> Vec<String> {
        Vec::new()
    }
}

/// The kinds an argument `<name:kind>` can have.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// `interface`, `name CLASS`: a name of the running system. Whether it exists is the handler's to say.
    Name(&'static str),
    /// `u8`, `u16`, `u32`, `u64`, each optionally with a range: `u32 1..=100`. Decimal or `0x` hexadecimal.
    Uint {
        /// Least value allowed.
        min: u64,
        /// Greatest value allowed.
        max: u64,
    },
    /// `f64`, optionally with a range: `f64 0..=1e9`.
    Float {
        /// Least value allowed.
        min: f64,
        /// Greatest value allowed.
        max: f64,
    },
    /// `ip4`.
    Ip4,
    /// `ip6`.
    Ip6,
    /// `ip`: either family.
    Ip,
    /// `prefix`: address and length of either family.
    Prefix,
    /// `prefix4`.
    Prefix4,
    /// `prefix6`.
    Prefix6,
    /// `mac`.
    Mac,
    /// `word`: one word, quoted or not.
    Word,
    /// `string`: the same as a word, shown in help as free text that may need quotes.
    Text,
    /// `path`: a file.
    Path,
    /// `{a|b|c}`: one of these words, abbreviable.
    Choice(Vec<&'static str>),
    /// `rest`: everything up to the end of the line, raw.
    Rest,
    /// `block`: `{ ... }`, raw, without the outer braces.
    Block,
}

/// How sure it is that a token is what the grammar expects; the least wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Exact,
    Specific,
    Prefix,
    Generic,
}

/// The judgement of a kind about a token.
pub(crate) enum Accept {
    /// Not of this kind.
    No,
    /// Of this kind, but not allowed; why.
    Bad(String),
    /// One of these choices is meant, but which?
    Ambiguous(Vec<&'static str>),
    Yes(Rank, Value),
}

impl Kind {
    /// Parses the part of `<name:kind>` behind the colon.
    pub(crate) fn parse(text: &'static str) -> Result<Kind, String> {
        let text = text.trim();
        if let Some(inner) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
            let words: Vec<&'static str> = inner.split('|').map(str::trim).collect();
            if words.iter().any(|w| w.is_empty()) {
                return Err(format!("empty choice in '{text}'"));
            }
            return Ok(Kind::Choice(words));
        }
        let (head, tail) = text
            .split_once(' ')
            .map_or((text, ""), |(h, t)| (h, t.trim()));
        let kind = match head {
            "u8" => return uint(tail, u64::from(u8::MAX)),
            "u16" => return uint(tail, u64::from(u16::MAX)),
            "u32" => return uint(tail, u64::from(u32::MAX)),
            "u64" => return uint(tail, u64::MAX),
            "f64" => {
                let (min, max) = range(tail, f64::MIN, f64::MAX)?;
                return Ok(Kind::Float { min, max });
            }
            "name" if !tail.is_empty() => return Ok(Kind::Name(tail)),
            "interface" => Kind::Name("interface"),
            "ip4" => Kind::Ip4,
            "ip6" => Kind::Ip6,
            "ip" => Kind::Ip,
            "prefix" => Kind::Prefix,
            "prefix4" => Kind::Prefix4,
            "prefix6" => Kind::Prefix6,
            "mac" => Kind::Mac,
            "word" => Kind::Word,
            "string" => Kind::Text,
            "path" => Kind::Path,
            "rest" => Kind::Rest,
            "block" => Kind::Block,
            _ => return Err(format!("unknown kind '{text}'")),
        };
        if tail.is_empty() {
            Ok(kind)
        } else {
            Err(format!("'{head}' takes no range"))
        }
    }

    /// What this kind wants, to follow "expected".
    pub(crate) fn describe(&self) -> String {
        match self {
            Kind::Name("interface") => "an interface name".into(),
            Kind::Name(class) => format!("the name of a {class}"),
            Kind::Uint { min, max } => format!("a number in {min}..={max}"),
            Kind::Float { min, max } if *min == f64::MIN && *max == f64::MAX => "a number".into(),
            Kind::Float { min, max } => format!("a number in {min}..={max}"),
            Kind::Ip4 => "an IPv4 address such as 192.0.2.1".into(),
            Kind::Ip6 => "an IPv6 address such as 2001:db8::1".into(),
            Kind::Ip => "an IPv4 or IPv6 address".into(),
            Kind::Prefix => "a prefix such as 192.0.2.0/24 or 2001:db8::/32".into(),
            Kind::Prefix4 => "an IPv4 prefix such as 192.0.2.0/24".into(),
            Kind::Prefix6 => "an IPv6 prefix such as 2001:db8::/32".into(),
            Kind::Mac => "a MAC address such as 02:fe:00:00:00:01".into(),
            Kind::Word => "a word".into(),
            Kind::Text => "text, in quotes if it has blanks".into(),
            Kind::Path => "a file name".into(),
            Kind::Choice(words) => words.join("|"),
            Kind::Rest => "text up to the end of the line".into(),
            Kind::Block => "{ ... }".into(),
        }
    }

    /// The word for this kind in the JSON listing.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Kind::Name(class) => class,
            Kind::Uint { .. } => "uint",
            Kind::Float { .. } => "float",
            Kind::Ip4 => "ip4",
            Kind::Ip6 => "ip6",
            Kind::Ip => "ip",
            Kind::Prefix => "prefix",
            Kind::Prefix4 => "prefix4",
            Kind::Prefix6 => "prefix6",
            Kind::Mac => "mac",
            Kind::Word => "word",
            Kind::Text => "string",
            Kind::Path => "path",
            Kind::Choice(_) => "choice",
            Kind::Rest => "rest",
            Kind::Block => "block",
        }
    }

    /// The choice that `value` is, as the pattern has it.
    pub(crate) fn choice(&self, value: &Value) -> Option<&'static str> {
        match (self, value) {
            (Kind::Choice(words), Value::Text(text)) => words.iter().copied().find(|w| w == text),
            _ => None,
        }
    }

    /// Judges one token. [`Kind::Rest`] is the matcher's own business: it needs the whole line.
    pub(crate) fn accept(&self, token: &Token<'_>, names: &dyn Names) -> Accept {
        let text: &str = &token.text;
        let is_block = token.kind == TokenKind::Block;
        match self {
            Kind::Block if is_block => Accept::Yes(Rank::Specific, Value::Text(text.to_owned())),
            Kind::Block => Accept::No,
            _ if is_block => Accept::No,
            Kind::Name(class) => {
                let known = names.contains(class, text);
                accept_text(token, if known { Rank::Specific } else { Rank::Generic })
            }
            Kind::Word | Kind::Text | Kind::Path | Kind::Rest => accept_text(token, Rank::Generic),
            Kind::Uint { min, max } => accept_uint(text, *min, *max),
            Kind::Float { min, max } => match text.parse::<f64>() {
                Ok(n) if !n.is_finite() => Accept::No,
                Ok(n) if n < *min || n > *max => {
                    Accept::Bad(format!("{} is outside {min}..={max}", shown(text)))
                }
                Ok(n) => Accept::Yes(Rank::Specific, Value::Float(n)),
                Err(_) => Accept::No,
            },
            Kind::Ip4 => specific(
                text.parse::<Ipv4Addr>()
                    .ok()
                    .map(|a| Value::Addr(IpAddr::V4(a))),
            ),
            Kind::Ip6 => specific(
                text.parse::<Ipv6Addr>()
                    .ok()
                    .map(|a| Value::Addr(IpAddr::V6(a))),
            ),
            Kind::Ip => specific(text.parse::<IpAddr>().ok().map(Value::Addr)),
            Kind::Prefix => accept_prefix(text, |_| true),
            Kind::Prefix4 => accept_prefix(text, IpAddr::is_ipv4),
            Kind::Prefix6 => accept_prefix(text, IpAddr::is_ipv6),
            Kind::Mac => specific(Mac::parse(text).map(Value::Mac)),
            Kind::Choice(words) => accept_choice(text, words),
        }
    }
}

fn uint(tail: &str, limit: u64) -> Result<Kind, String> {
    let (min, max) = range(tail, 0, limit)?;
    if max > limit {
        return Err(format!("'{tail}' does not fit the type"));
    }
    Ok(Kind::Uint { min, max })
}

fn range<T: std::str::FromStr + PartialOrd>(text: &str, min: T, max: T) -> Result<(T, T), String> {
    if text.is_empty() {
        return Ok((min, max));
    }
    let bad = || format!("bad range '{text}': write MIN..=MAX");
    let (low, high) = text.split_once("..=").ok_or_else(bad)?;
    let (low, high) = (
        low.parse::<T>().map_err(|_| bad())?,
        high.parse::<T>().map_err(|_| bad())?,
    );
    if low <= high {
        Ok((low, high))
    } else {
        Err(bad())
    }
}

fn accept_text(token: &Token<'_>, rank: Rank) -> Accept {
    let rank = if token.kind == TokenKind::Quoted {
        Rank::Specific
    } else {
        rank
    };
    Accept::Yes(rank, Value::Text(token.text.clone().into_owned()))
}

fn specific(value: Option<Value>) -> Accept {
    value.map_or(Accept::No, |v| Accept::Yes(Rank::Specific, v))
}

fn accept_uint(text: &str, min: u64, max: u64) -> Accept {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let number_like = !digits.is_empty() && digits.bytes().all(|b| char::from(b).is_digit(radix));
    let negative = digits
        .strip_prefix('-')
        .is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()));
    if !number_like && !negative {
        return Accept::No;
    }
    match u64::from_str_radix(digits, radix) {
        Ok(n) if (min..=max).contains(&n) => Accept::Yes(Rank::Specific, Value::Uint(n)),
        _ => Accept::Bad(format!("{} is outside {min}..={max}", shown(text))),
    }
}

fn accept_prefix(text: &str, family: impl Fn(&IpAddr) -> bool) -> Accept {
    let Some((addr, len)) = text.split_once('/') else {
        return Accept::No;
    };
    let Ok(addr) = addr.parse::<IpAddr>() else {
        return Accept::No;
    };
    if !family(&addr) || len.is_empty() || !len.bytes().all(|b| b.is_ascii_digit()) {
        return Accept::No;
    }
    let limit = if addr.is_ipv4() { 32 } else { 128 };
    match len.parse::<u8>() {
        Ok(len) if len <= limit => Accept::Yes(Rank::Specific, Value::Prefix(Prefix { addr, len })),
        _ => Accept::Bad(format!(
            "prefix length {} is outside 0..={limit}",
            shown(len)
        )),
    }
}

fn accept_choice(text: &str, words: &[&'static str]) -> Accept {
    if let Some(word) = words.iter().find(|w| **w == text) {
        return Accept::Yes(Rank::Exact, Value::Text((*word).to_owned()));
    }
    let candidates: Vec<&'static str> = words
        .iter()
        .copied()
        .filter(|w| !text.is_empty() && w.starts_with(text))
        .collect();
    match candidates.as_slice() {
        [] => Accept::No,
        [word] => Accept::Yes(Rank::Prefix, Value::Text((*word).to_owned())),
        _ => Accept::Ambiguous(candidates),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::tokenize;

    fn judge(kind: &'static str, text: &str) -> Result<Value, String> {
        let kind = Kind::parse(kind).expect("a kind");
        let tokens = tokenize(text).expect("balanced");
        match kind.accept(&tokens[0], &NoNames) {
            Accept::Yes(_, value) => Ok(value),
            Accept::Bad(why) => Err(why),
            Accept::No => Err("no".into()),
            Accept::Ambiguous(words) => Err(words.join("?")),
        }
    }

    #[test]
    fn numbers() {
        assert_eq!(judge("u32 1..=10", "10"), Ok(Value::Uint(10)));
        assert_eq!(judge("u32", "0xff"), Ok(Value::Uint(255)));
        assert_eq!(
            judge("u64", "18446744073709551615"),
            Ok(Value::Uint(u64::MAX))
        );
        assert_eq!(
            judge("u64", "18446744073709551616"),
            Err("18446744073709551616 is outside 0..=18446744073709551615".into())
        );
        assert_eq!(judge("u8", "256"), Err("256 is outside 0..=255".into()));
        assert_eq!(judge("u8 1..=9", "-1"), Err("-1 is outside 1..=9".into()));
        for text in ["1x", "+1", "x", "0x", "-", "1e3"] {
            assert_eq!(judge("u32", text), Err("no".into()), "{text}");
        }
        assert_eq!(judge("f64 0..=1e9", "1e6"), Ok(Value::Float(1e6)));
        assert_eq!(
            judge("f64 0..=10", "11.5"),
            Err("11.5 is outside 0..=10".into())
        );
        assert_eq!(judge("f64", "nan"), Err("no".into()));
    }

    #[test]
    fn addresses() {
        assert!(judge("ip4", "10.0.0.1").is_ok() && judge("ip4", "::1").is_err());
        assert!(judge("ip", "::1").is_ok() && judge("ip6", "10.0.0.1").is_err());
        assert!(judge("prefix", "10.0.0.1/8").is_ok() && judge("prefix", "10.0.0.1").is_err());
        assert_eq!(
            judge("prefix4", "10.0.0.0/33"),
            Err("prefix length 33 is outside 0..=32".into())
        );
        assert_eq!(judge("prefix6", "10.0.0.0/8"), Err("no".into()));
        assert_eq!(
            judge("prefix", "::/999999"),
            Err("prefix length 999999 is outside 0..=128".into())
        );
        assert!(judge("mac", "02:fe:00:00:00:01").is_ok());
    }

    #[test]
    fn choices_are_abbreviated() {
        assert_eq!(judge("{up|down}", "d"), Ok(Value::Text("down".into())));
        assert_eq!(judge("{rx|rx-tx|tx}", "rx"), Ok(Value::Text("rx".into())));
        assert_eq!(judge("{rx|rx-tx|tx}", "r"), Err("rx?rx-tx".into()));
    }

    #[test]
    fn wrong_kinds_are_refused() {
        for kind in [
            "",
            "int",
            "u8 0..=256",
            "u32 5..=1",
            "u32 1-5",
            "mac 1..=2",
            "{a||b}",
            "name",
        ] {
            assert!(Kind::parse(kind).is_err(), "{kind}");
        }
    }
}
