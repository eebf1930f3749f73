//! Single values: text to number, name, address and so on, as the schema says.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use parshall_agent::CollectorConfig;
use parshall_command::{Mac, Prefix, shown};

use crate::record::Checked;
use crate::schema::{Kind, one_of};
use crate::yaml::Scalar;

/// Longest text of several lines.
const MAX_TEXT: usize = 64 << 10;

/// Reads a scalar as `kind`.
///
/// # Errors
/// What is wrong and, where the kind alone does not say it, what is allowed.
pub fn read(kind: &Kind, unit: &str, scalar: &Scalar) -> Result<Checked, String> {
    let text = scalar.text.trim();
    let wants = || {
        format!(
            "{} will not do; allowed is {}",
            quoted(&scalar.text),
            kind.allowed(unit)
        )
    };
    if !scalar.plain && matches!(kind, Kind::Bool | Kind::Uint { .. } | Kind::Float { .. }) {
        return Err(format!("{}; write it without quotes", wants()));
    }
    match kind {
        Kind::Bool => truth(text).map(Checked::Bool).ok_or_else(wants),
        Kind::Uint { min, max } => {
            let n = whole(text).filter(|n| (min..=max).contains(&n));
            n.map(Checked::Uint).ok_or_else(wants)
        }
        Kind::Float { min, max } => {
            let n = text.parse().ok().filter(|n: &f64| (min..=max).contains(&n));
            n.map(Checked::Float).ok_or_else(wants)
        }
        Kind::Choice(words) => choice(words, text).ok_or_else(wants),
        Kind::Name { max, .. } => name(text, *max).ok_or_else(wants),
        Kind::Namespace if text.starts_with('/') => path(text, true, 4095).ok_or_else(wants),
        Kind::Namespace => name(text, 255).ok_or_else(wants),
        Kind::Interface => interface(text).ok_or_else(wants),
        Kind::Address => address(text).map(Checked::Address).ok_or_else(wants),
        Kind::IfAddress => prefix(text)
            .ok_or_else(wants)
            .and_then(own_address)
            .map(Checked::Prefix),
        Kind::Prefix => prefix(text)
            .ok_or_else(wants)
            .and_then(network)
            .map(Checked::Prefix),
        Kind::Rule => prefix(text.strip_prefix('!').unwrap_or(text))
            .ok_or_else(wants)
            .and_then(network)
            .map(|_| Checked::Text(text.into())),
        Kind::Mac => mac(text).ok_or_else(wants),
        Kind::Collector => match text.parse::<CollectorConfig>() {
            Ok(_) => Ok(Checked::Text(text.into())),
            Err(e) => Err(format!("{e}; allowed is {}", kind.allowed(unit))),
        },
        Kind::Sizes => sizes(text).ok_or_else(wants),
        Kind::Path { absolute, max } => path(&scalar.text, *absolute, *max).ok_or_else(wants),
        Kind::Text => long_text(&scalar.text),
        Kind::List { .. } | Kind::Record(_) | Kind::Interfaces(_) | Kind::Either(_) => Err(wants()),
    }
}

/// A value as a message shows it.
pub fn quoted(text: &str) -> String {
    format!("`{}`", shown(text))
}

fn truth(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

fn whole(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) if !hex.starts_with('+') => u64::from_str_radix(hex, 16).ok(),
        Some(_) => None,
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    }
}

fn choice(words: &[&'static str], text: &str) -> Option<Checked> {
    let word = words.iter().find(|w| **w == text)?;
    Some(Checked::Text((*word).into()))
}

fn name(text: &str, max: usize) -> Option<Checked> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._:-".contains(&b);
    let good = !text.is_empty()
        && text.len() <= max
        && text.bytes().all(fits)
        && !matches!(text, "." | "..")
        && !text.starts_with('-');
    good.then(|| Checked::Text(text.into()))
}

/// The name of an interface. Only memif's have a slash: `memif0/0`.
fn interface(text: &str) -> Option<Checked> {
    let memif = |t: &str| crate::translate::memif::numbers(t).is_some();
    if text.strip_prefix("memif").is_some_and(memif) {
        return Some(Checked::Text(text.into()));
    }
    // VPP's names of hardware have slashes: GigabitEthernet3/0/0, and those of their parts too.
    if crate::translate::vppcfg::is_hardware(text) {
        name(&text.replace('/', "."), 63)?;
        return Some(Checked::Text(text.into()));
    }
    name(text, 63)
}

fn address(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

pub fn prefix(text: &str) -> Option<Prefix> {
    let (addr, len) = text.split_once('/')?;
    let addr = address(addr)?;
    let most = if addr.is_ipv4() { 32 } else { 128 };
    let digits = !len.is_empty() && len.bytes().all(|b| b.is_ascii_digit());
    let len = len.parse::<u8>().ok().filter(|l| digits && *l <= most)?;
    Some(Prefix { addr, len })
}

/// The network that an address with a length lies in.
pub fn network_of(p: Prefix) -> IpAddr {
    match p.addr {
        IpAddr::V4(a) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(p.len.min(32)));
            IpAddr::V4(Ipv4Addr::from(u32::from(a) & mask.unwrap_or(0)))
        }
        IpAddr::V6(a) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(p.len.min(128)));
            IpAddr::V6(Ipv6Addr::from(u128::from(a) & mask.unwrap_or(0)))
        }
    }
}

/// Whether `p` contains `addr`.
pub fn contains(p: Prefix, addr: IpAddr) -> bool {
    let same = Prefix { addr, len: p.len };
    p.addr.is_ipv4() == addr.is_ipv4() && network_of(same) == network_of(p)
}

fn network(p: Prefix) -> Result<Prefix, String> {
    let net = network_of(p);
    if net == p.addr {
        return Ok(p);
    }
    Err(format!(
        "{}/{} has bits set behind its length; the network is {net}/{}",
        p.addr, p.len, p.len
    ))
}

/// An address that an interface can have.
fn own_address(p: Prefix) -> Result<Prefix, String> {
    let subnet = network_of(p);
    let why = match p.addr {
        a if a.is_multicast() => "is a multicast address",
        a if a.is_unspecified() => "is the unspecified address",
        a if a.is_loopback() => "is a loopback address",
        _ if p.len == 0 => "has length 0 and would cover everything",
        IpAddr::V4(a) if a.octets()[0] == 0 || a.octets()[0] >= 240 => "is not a unicast address",
        IpAddr::V4(_) if p.len < 31 && p.addr == subnet => "is the address of the subnet itself",
        IpAddr::V4(a) if p.len < 31 && u32::from(a) | u32::MAX << (32 - p.len) == u32::MAX => {
            "is the broadcast address of the subnet"
        }
        IpAddr::V6(a) if a.is_unicast_link_local() => "is link-local, which is made by itself",
        _ => return Ok(p),
    };
    let address = Kind::IfAddress.allowed("");
    Err(format!("{}/{} {why}; allowed is {address}", p.addr, p.len))
}

fn mac(text: &str) -> Option<Checked> {
    let mac = Mac::parse(text)?;
    (mac.0[0] & 1 == 0 && mac.0 != [0; 6]).then_some(Checked::Mac(mac))
}

fn sizes(text: &str) -> Option<Checked> {
    let (first, last) = match text.split_once(['-', '+']) {
        Some((first, last)) => (whole(first)?, whole(last)?),
        None => (whole(text)?, whole(text)?),
    };
    (first <= last && last <= 65_535).then(|| Checked::Text(text.into()))
}

fn path(text: &str, absolute: bool, max: usize) -> Option<Checked> {
    let good = !text.is_empty()
        && text.len() <= max
        && !text.chars().any(char::is_control)
        && (!absolute || text.starts_with('/'));
    good.then(|| Checked::Text(text.into()))
}

fn long_text(text: &str) -> Result<Checked, String> {
    let control = |c: &char| c.is_control() && !matches!(c, '\n' | '\t' | '\r');
    if text.trim().is_empty() {
        return Err("there is nothing here; write a text or leave it out".into());
    }
    if text.len() > MAX_TEXT {
        return Err(format!(
            "the text has {} bytes; at most {MAX_TEXT} are allowed",
            text.len()
        ));
    }
    match text.chars().find(control) {
        Some(c) => Err(format!(
            "the text has a control character, {}; allowed are {}",
            c.escape_default(),
            one_of(&["line ends", "tabs"])
        )),
        None => Ok(Checked::Text(text.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Scalar {
        Scalar {
            text: text.into(),
            plain: true,
            literal: false,
        }
    }
    fn good(kind: &Kind, text: &str) -> bool {
        read(kind, "", &plain(text)).is_ok()
    }
    fn error(kind: &Kind, text: &str) -> String {
        read(kind, "bytes", &plain(text)).unwrap_err()
    }

    #[test]
    fn numbers_have_ranges_and_no_quotes() {
        let kind = Kind::Uint { min: 68, max: 9000 };
        assert_eq!(
            read(&kind, "", &plain("0x600")).ok(),
            Some(Checked::Uint(1536))
        );
        for text in [
            "67",
            "9001",
            "-1",
            "+70",
            "1500.0",
            "",
            "99999999999999999999",
            "0x+70",
        ] {
            assert!(!good(&kind, text), "{text}");
        }
        assert_eq!(
            error(&kind, "20"),
            "`20` will not do; allowed is a whole number from 68 to 9000 bytes"
        );
        let quoted = Scalar {
            plain: false,
            ..plain("1500")
        };
        let message = read(&kind, "", &quoted).unwrap_err();
        assert!(message.ends_with("write it without quotes"), "{message}");
        let kind = Kind::Float { min: 0.0, max: 1e9 };
        assert!(good(&kind, "1e6") && good(&kind, "0.5"));
        assert!(!good(&kind, "NaN") && !good(&kind, "inf") && !good(&kind, "-0.1"));
    }

    #[test]
    fn truth_has_two_words() {
        assert!(good(&Kind::Bool, "true") && good(&Kind::Bool, "false"));
        assert_eq!(
            error(&Kind::Bool, "yes"),
            "`yes` will not do; allowed is true or false"
        );
    }

    #[test]
    fn a_network_has_no_host_bits() {
        for text in [
            "10.0.0.0/8",
            "0.0.0.0/0",
            "::/0",
            "2001:db8::/32",
            "192.0.2.1/32",
        ] {
            assert!(good(&Kind::Prefix, text), "{text}");
        }
        assert_eq!(
            error(&Kind::Prefix, "192.0.2.7/24"),
            "192.0.2.7/24 has bits set behind its length; the network is 192.0.2.0/24"
        );
        for text in [
            "10.0.0.0",
            "10.0.0.0/33",
            "::/129",
            "10.0.0/8",
            "10.0.0.0/",
            "10.0.0.0/+8",
        ] {
            assert!(!good(&Kind::Prefix, text), "{text}");
        }
    }

    #[test]
    fn an_interface_address_is_that_of_a_host() {
        for text in [
            "192.0.2.1/24",
            "192.0.2.0/31",
            "192.0.2.1/32",
            "2001:db8::/64",
        ] {
            assert!(good(&Kind::IfAddress, text), "{text}");
        }
        for (text, why) in [
            ("192.0.2.0/24", "the subnet itself"),
            ("192.0.2.255/24", "broadcast"),
            ("224.0.0.1/24", "multicast"),
            ("0.0.0.0/8", "unspecified"),
            ("255.255.255.255/32", "not a unicast"),
            ("127.0.0.1/8", "loopback"),
            ("::1/128", "loopback"),
            ("fe80::1/64", "link-local"),
            ("10.0.0.1/0", "everything"),
        ] {
            assert!(error(&Kind::IfAddress, text).contains(why), "{text}");
        }
    }

    #[test]
    fn macs_are_of_one_station() {
        assert!(good(&Kind::Mac, "02:fe:00:00:00:01"));
        for text in ["03:fe:00:00:00:01", "00:00:00:00:00:00", "02:fe", "x"] {
            assert!(!good(&Kind::Mac, text), "{text}");
        }
    }

    #[test]
    fn names_cannot_be_mistaken_for_more_words() {
        let kind = Kind::Name {
            what: "a name",
            max: 15,
        };
        assert!(good(&kind, "eth0.100"));
        for text in [
            "",
            "a b",
            "a{",
            "-x",
            "..",
            "sixteen-letters-",
            "é",
            "a\"b",
            "#x",
        ] {
            assert!(!good(&kind, text), "{text}");
        }
    }

    #[test]
    fn containment() {
        let p = |t| prefix(t).unwrap();
        assert!(contains(p("10.1.2.3/8"), "10.9.9.9".parse().unwrap()));
        assert!(!contains(p("10.1.2.3/8"), "11.0.0.0".parse().unwrap()));
        assert!(contains(p("0.0.0.0/0"), "11.0.0.0".parse().unwrap()));
        assert!(!contains(p("0.0.0.0/0"), "::".parse().unwrap()));
    }
}
