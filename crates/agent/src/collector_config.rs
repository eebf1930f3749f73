//! What the agent can be told of a collector: where it is, how datagrams get there, and how many may.
//!
//! Owns the one spelling of a collector (`host`, `host:port`, `[v6]:port`) and the ranges of its options.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use serde::Serialize;

use crate::config::{AgentConfig, ConfigError};

/// The UDP port that IANA gave to sFlow.
pub const DEFAULT_PORT: u16 = 6343;

/// One collector.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CollectorConfig {
    /// Its address or name.
    pub host: CollectorHost,
    /// Its UDP port.
    pub port: u16,
    /// Address to send from; `None` = what the system's routing picks.
    pub source: Option<IpAddr>,
    /// Network namespace to send from: a name under /run/netns, a file or `pid:NUMBER`; `None` = the router's own.
    pub namespace: Option<String>,
    /// Interface to send through, whatever the routes say.
    pub device: Option<String>,
    /// Code point (RFC 2474) of the datagrams, 0 to 63.
    pub dscp: u8,
    /// Most datagrams a second; `None` = no limit.
    pub datagrams_per_second: Option<u32>,
    /// Most bits of UDP payload a second; `None` = no limit.
    pub bits_per_second: Option<u64>,
    /// Datagrams to it stay below this many bytes of UDP payload, where that is less than for all.
    pub max_datagram: Option<u32>,
    /// Who named it.
    pub origin: Origin,
}

/// How a collector is named.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum CollectorHost {
    /// By its address.
    Address(IpAddr),
    /// By a name that is looked up, again from time to time.
    Name(String),
}

/// Who named a collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A command or a file.
    #[default]
    Configured,
    /// The DNS.
    Dns,
}

impl CollectorConfig {
    /// The highest code point.
    pub const MAX_DSCP: u8 = 63;
    /// Range of [`datagrams_per_second`](Self::datagrams_per_second).
    pub const DATAGRAM_RATE: (u32, u32) = (1, 10_000_000);
    /// Range of [`bits_per_second`](Self::bits_per_second): from a small datagram a second.
    pub const BIT_RATE: (u64, u64) = (8_000, 1_000_000_000_000);
    /// Longest name of a namespace, or of its file.
    const MAX_NAMESPACE: usize = 4095;
    /// Longest name of an interface (`IFNAMSIZ` less the NUL).
    const MAX_DEVICE: usize = 15;

    /// A collector without options.
    pub fn new(host: CollectorHost, port: u16) -> CollectorConfig {
        CollectorConfig {
            host,
            port,
            source: None,
            namespace: None,
            device: None,
            dscp: 0,
            datagrams_per_second: None,
            bits_per_second: None,
            max_datagram: None,
            origin: Origin::Configured,
        }
    }

    /// Whether it is the same collector reached the same way, whatever the options.
    pub fn is_same(&self, other: &CollectorConfig) -> bool {
        (self.port, self.source) == (other.port, other.source)
            && self.host == other.host
            && self.namespace == other.namespace
            && self.device == other.device
    }

    /// Checks every setting against its range.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.why_not().map_or(Ok(()), |why| {
            Err(ConfigError::Collector {
                text: self.to_string(),
                why,
            })
        })
    }

    fn why_not(&self) -> Option<String> {
        let within = |value: u64, (min, max): (u64, u64)| (min..=max).contains(&value);
        if self.port == 0 {
            return Some("port must be 1 to 65535".into());
        }
        if let CollectorHost::Address(a) = self.host {
            if a.is_unspecified() {
                return Some("not an address to send to".into());
            }
            if self.source.is_some_and(|s| s.is_ipv4() != a.is_ipv4()) {
                return Some("source address is of the other IP version".into());
            }
        }
        if self
            .namespace
            .as_ref()
            .is_some_and(|n| !is_word(n, Self::MAX_NAMESPACE))
        {
            return Some("not the name of a network namespace".into());
        }
        if self
            .device
            .as_ref()
            .is_some_and(|d| !is_word(d, Self::MAX_DEVICE) || d.contains('/'))
        {
            return Some("not the name of an interface".into());
        }
        if self.dscp > Self::MAX_DSCP {
            return Some(format!("DSCP must be 0 to {}", Self::MAX_DSCP));
        }
        let (min, max) = Self::DATAGRAM_RATE;
        let datagrams = self.datagrams_per_second.map(u64::from);
        if datagrams.is_some_and(|n| !within(n, (min.into(), max.into()))) {
            return Some(format!(
                "{min} to {max} datagrams a second can be the limit"
            ));
        }
        let (min, max) = Self::BIT_RATE;
        if self.bits_per_second.is_some_and(|n| !within(n, (min, max))) {
            return Some(format!("{min} to {max} bits a second can be the limit"));
        }
        let (min, max) = AgentConfig::DATAGRAM_RANGE;
        if self.max_datagram.is_some_and(|n| !(min..=max).contains(&n)) {
            return Some(format!("datagrams can be of {min} to {max} bytes"));
        }
        None
    }
}

/// Whether a text can stand in a command and in a message.
fn is_word(text: &str, max: usize) -> bool {
    !text.is_empty()
        && text.len() <= max
        && !text.chars().any(|c| c.is_control() || c.is_whitespace())
}

impl From<SocketAddr> for CollectorConfig {
    fn from(a: SocketAddr) -> Self {
        CollectorConfig::new(CollectorHost::Address(a.ip()), a.port())
    }
}

impl fmt::Display for CollectorConfig {
    /// Host and port, and what else tells it from another.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            CollectorHost::Address(a) => SocketAddr::new(*a, self.port).fmt(f)?,
            CollectorHost::Name(n) => write!(f, "{n}:{}", self.port)?,
        }
        if let Some(s) = self.source {
            write!(f, " source {s}")?;
        }
        if let Some(n) = &self.namespace {
            write!(f, " namespace {n}")?;
        }
        if let Some(d) = &self.device {
            write!(f, " device {d}")?;
        }
        Ok(())
    }
}

impl FromStr for CollectorConfig {
    type Err = ConfigError;

    /// Reads `192.0.2.1`, `192.0.2.1:6343`, `2001:db8::1`, `[2001:db8::1]:6343`, `name` or `name:6343`.
    fn from_str(s: &str) -> Result<Self, ConfigError> {
        let bad = |why: &str| ConfigError::Collector {
            text: s.to_owned(),
            why: why.to_owned(),
        };
        if let Ok(a) = s.parse::<SocketAddr>() {
            let c = CollectorConfig::from(a);
            return c.validate().map(|()| c);
        }
        let bare = s
            .strip_prefix('[')
            .and_then(|b| b.strip_suffix(']'))
            .unwrap_or(s);
        let (host, port) = match bare.parse::<IpAddr>() {
            Ok(a) => (CollectorHost::Address(a), DEFAULT_PORT),
            Err(_) => {
                let (name, port) = match s.rsplit_once(':') {
                    Some((n, p)) => (n, p.parse().map_err(|_| bad("port must be 1 to 65535"))?),
                    None => (s, DEFAULT_PORT),
                };
                if !is_host_name(name) {
                    return Err(bad("neither an address nor a host name"));
                }
                (CollectorHost::Name(name.to_owned()), port)
            }
        };
        let c = CollectorConfig::new(host, port);
        c.validate().map(|()| c)
    }
}

/// RFC 1123 section 2.1, and the underscore that is seen in practice.
pub(crate) fn is_host_name(s: &str) -> bool {
    let label = |l: &str| {
        !l.is_empty()
            && l.len() <= 63
            && !l.starts_with('-')
            && !l.ends_with('-')
            && l.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let s = s.strip_suffix('.').unwrap_or(s);
    // A name of digits alone is a mistyped address.
    s.len() <= 253 && s.split('.').all(label) && s.bytes().any(|b| b.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_are_read_in_every_spelling() {
        for (text, shown) in [
            ("192.0.2.1", "192.0.2.1:6343"),
            ("192.0.2.1:99", "192.0.2.1:99"),
            ("2001:db8::1", "[2001:db8::1]:6343"),
            ("[2001:db8::1]", "[2001:db8::1]:6343"),
            ("[2001:db8::1]:7", "[2001:db8::1]:7"),
            ("flows.example.net", "flows.example.net:6343"),
            ("flows.example.net:2055", "flows.example.net:2055"),
        ] {
            assert_eq!(text.parse::<CollectorConfig>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn nonsense_collectors_are_refused() {
        for text in [
            "",
            ":6343",
            "a b",
            "host:0",
            "host:70000",
            "192.0.2.300",
            "0.0.0.0",
            "-x",
            "a..b",
        ] {
            assert!(text.parse::<CollectorConfig>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_option_has_its_range() {
        let one: CollectorConfig = "192.0.2.1".parse().unwrap();
        type Change = fn(&mut CollectorConfig);
        let bad: [(Change, &str); 8] = [
            (|c| c.source = "::1".parse().ok(), "other IP version"),
            (|c| c.namespace = Some("a b".into()), "network namespace"),
            (|c| c.namespace = Some(String::new()), "network namespace"),
            (
                |c| c.device = Some("a-name-of-sixteen".into()),
                "an interface",
            ),
            (|c| c.dscp = 64, "0 to 63"),
            (|c| c.datagrams_per_second = Some(0), "1 to 10000000"),
            (|c| c.bits_per_second = Some(7999), "8000 to"),
            (|c| c.max_datagram = Some(599), "600 to 9000"),
        ];
        for (change, said) in bad {
            let mut c = one.clone();
            change(&mut c);
            let e = c.validate().unwrap_err().to_string();
            assert!(e.contains(said), "{e}");
        }
        let all = CollectorConfig {
            source: "192.0.2.9".parse().ok(),
            namespace: Some("/run/netns/mgmt".into()),
            device: Some("eth0.100".into()),
            dscp: 63,
            datagrams_per_second: Some(1),
            bits_per_second: Some(8000),
            max_datagram: Some(600),
            ..one.clone()
        };
        assert_eq!(all.validate(), Ok(()));
        assert_eq!(
            all.to_string(),
            "192.0.2.1:6343 source 192.0.2.9 namespace /run/netns/mgmt device eth0.100"
        );
        assert!(!all.is_same(&one));
        assert!(all.is_same(&CollectorConfig {
            dscp: 0,
            max_datagram: None,
            ..all.clone()
        }));
    }
}
