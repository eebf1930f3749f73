//! A route a line:
//!
//! ```text
//! # prefix      as-path ...       what else is known, in any order
//! 192.0.2.0/24  as-path 65001 65002 {65003,65004} communities 65001:100 no-export local-pref 200 next-hop 198.51.100.1
//! 2001:db8::/32 as-path           # of this AS itself
//! ```
//!
//! After the prefix come words with their values: `as-path` (AS numbers, sets in braces), `communities` (`A:B`, a
//! number, or a well-known name of RFC 1997, RFC 3765, RFC 7999), `local-pref`, `med`, `next-hop`, `origin` (`igp`,
//! `egp`, `incomplete`). `#` starts a comment.

use core::net::IpAddr;
use core::str::FromStr;

use crate::net::Net;
use crate::path::{Origin, PathAttributes, PathBuilder, SegmentKind};

const KEYS: [&str; 6] = [
    "as-path",
    "communities",
    "local-pref",
    "med",
    "next-hop",
    "origin",
];

/// Communities by name: what the registry calls them, in lower case.
const NAMED: [(&str, u32); 5] = [
    ("no-export", 0xFFFF_FF01),
    ("no-advertise", 0xFFFF_FF02),
    ("no-export-subconfed", 0xFFFF_FF03),
    ("no-peer", 0xFFFF_FF04),
    ("blackhole", 0xFFFF_029A),
];

/// Reads a line; `None` when there is nothing on it.
///
/// # Errors
/// A sentence that names the word that is wrong and what may stand there.
pub fn parse_line(
    line: &str,
    b: &mut PathBuilder,
) -> Result<Option<(Net, PathAttributes)>, String> {
    let line = line.split('#').next().unwrap_or_default();
    let mut words = line.split_ascii_whitespace().peekable();
    let Some(net) = words.next() else {
        return Ok(None);
    };
    let net: Net = net.parse()?;
    b.clear();
    let mut rest = Scalars::default();
    let mut seen: Vec<&str> = Vec::new();
    while let Some(key) = words.next() {
        if seen.contains(&key) {
            return Err(format!("{key} stands twice"));
        }
        seen.push(key);
        let mut values = Vec::new();
        while let Some(v) = words.next_if(|w| !KEYS.contains(w)) {
            values.push(v);
        }
        take(key, &values, &mut rest, b)?;
    }
    let mut path = b.build();
    path.next_hop = rest.next_hop;
    path.local_pref = rest.local_pref;
    path.med = rest.med;
    path.origin = rest.origin;
    Ok(Some((net, path)))
}

/// Everything but path and communities, which a [`PathBuilder`] collects.
struct Scalars {
    next_hop: Option<IpAddr>,
    local_pref: Option<u32>,
    med: Option<u32>,
    origin: Origin,
}

impl Default for Scalars {
    /// Whoever writes a route down by hand has it from an interior source, if nothing else is said.
    fn default() -> Self {
        Scalars {
            next_hop: None,
            local_pref: None,
            med: None,
            origin: Origin::Igp,
        }
    }
}

fn take(key: &str, values: &[&str], rest: &mut Scalars, b: &mut PathBuilder) -> Result<(), String> {
    match key {
        "as-path" => as_path(values, b),
        "communities" => {
            let all: Vec<u32> = values
                .iter()
                .flat_map(|v| v.split(','))
                .filter(|v| !v.is_empty())
                .map(community)
                .collect::<Result<_, _>>()?;
            b.communities(all.into_iter()).map_err(|e| e.to_string())
        }
        "local-pref" => one(key, values).map(|v| rest.local_pref = Some(v)),
        "med" => one(key, values).map(|v| rest.med = Some(v)),
        "next-hop" => one(key, values).map(|v| rest.next_hop = Some(v)),
        "origin" => {
            rest.origin = match values {
                ["igp"] => Origin::Igp,
                ["egp"] => Origin::Egp,
                ["incomplete"] => Origin::Incomplete,
                _ => return Err("origin is igp, egp or incomplete".to_owned()),
            };
            Ok(())
        }
        _ => Err(format!(
            "{key:?} is not known here; a line is PREFIX and then any of {}",
            KEYS.join(", ")
        )),
    }
}

fn one<T: FromStr>(key: &str, values: &[&str]) -> Result<T, String> {
    match values {
        [v] => v.parse().map_err(|_| format!("{v:?} is no {key}")),
        _ => Err(format!("{key} takes one value")),
    }
}

fn asn(word: &str) -> Result<u32, String> {
    let refuse = || format!("{word:?} is no AS number (0 to 4294967295)");
    word.parse().map_err(|_| refuse())
}

/// Runs of AS numbers are sequences; a set may have blanks or commas inside.
fn as_path(values: &[&str], b: &mut PathBuilder) -> Result<(), String> {
    let joined = values.join(" ");
    let mut left = joined.as_str();
    let mut add = |kind, text: &str| -> Result<(), String> {
        let split = |c: char| c == ' ' || (kind == SegmentKind::Set && c == ',');
        let ases: Vec<u32> = text
            .split(split)
            .filter(|w| !w.is_empty())
            .map(asn)
            .collect::<Result<_, _>>()?;
        b.segment(kind, ases.into_iter()).map_err(|e| e.to_string())
    };
    while let Some((before, after)) = left.split_once('{') {
        let (set, after) = after.split_once('}').ok_or("the AS set after { has no }")?;
        add(SegmentKind::Sequence, before)?;
        add(SegmentKind::Set, set)?;
        left = after;
    }
    add(SegmentKind::Sequence, left)
}

fn community(word: &str) -> Result<u32, String> {
    if let Some((_, value)) = NAMED.iter().find(|n| n.0 == word) {
        return Ok(*value);
    }
    let halves = word.split_once(':').and_then(|(a, b)| {
        let (a, b): (u16, u16) = (a.parse().ok()?, b.parse().ok()?);
        Some(u32::from(a) << 16 | u32::from(b))
    });
    halves
        .or_else(|| word.parse().ok())
        .ok_or_else(|| format!("{word:?} is no community; write A:B with numbers up to 65535"))
}

/// A community as it is usually written.
pub fn show_community(word: u32) -> String {
    match NAMED.iter().find(|n| n.1 == word) {
        Some((name, _)) => (*name).to_owned(),
        None => format!("{}:{}", word >> 16, word & 0xFFFF),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<(Net, PathAttributes)>, String> {
        parse_line(line, &mut PathBuilder::default())
    }

    #[test]
    fn lines_of_every_kind() {
        let (net, p) = parse(
            "192.0.2.0/24 as-path 65001 65002 {65003, 65004} communities 65001:100,7 no-export \
             local-pref 200 next-hop 198.51.100.1 med 5 origin egp # why",
        )
        .unwrap()
        .unwrap();
        assert_eq!(net.to_string(), "192.0.2.0/24");
        assert_eq!(p.to_string(), "65001 65002 {65003,65004}");
        assert_eq!(p.communities(), [65_001 << 16 | 100, 7, 0xFFFF_FF01]);
        assert_eq!(
            (p.local_pref, p.med, p.origin),
            (Some(200), Some(5), Origin::Egp)
        );
        assert_eq!(p.next_hop.unwrap().to_string(), "198.51.100.1");
        let (_, p) = parse("::/0").unwrap().unwrap();
        assert_eq!(p.origin_as(), None);
        let (_, p) = parse("::/0 as-path {1 2} 3 {4}").unwrap().unwrap();
        assert_eq!(p.to_string(), "{1,2} 3 {4}");
        assert_eq!(parse("  # nothing"), Ok(None));
        assert_eq!(parse(""), Ok(None));
    }

    #[test]
    fn slips_are_named() {
        for (line, why) in [
            ("10.0.0.0 as-path 1", "is no prefix"),
            ("10.0.0.0/8 as-path x", "\"x\" is no AS number"),
            ("10.0.0.0/8 as-path 4294967296", "is no AS number"),
            ("10.0.0.0/8 as-path {1", "has no }"),
            ("10.0.0.0/8 communities 65536:1", "is no community"),
            ("10.0.0.0/8 local-pref", "takes one value"),
            ("10.0.0.0/8 next-hop 1 2", "takes one value"),
            ("10.0.0.0/8 med 1 med 2", "stands twice"),
            ("10.0.0.0/8 aspath 1", "\"aspath\" is not known here"),
            ("10.0.0.0/8 origin bgp", "igp, egp or incomplete"),
        ] {
            let e = parse(line).unwrap_err();
            assert!(e.contains(why), "{line}: {e}");
        }
    }

    #[test]
    fn communities_are_shown_as_they_are_written() {
        for word in ["65001:100", "no-export", "blackhole", "0:0"] {
            assert_eq!(show_community(community(word).unwrap()), word);
        }
    }
}
