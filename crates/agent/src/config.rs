//! What the agent can be told: its address, its collectors, how often it reports.
//!
//! Owns the ranges of these settings and the one spelling of a collector (`host`, `host:port`, `[v6]:port`).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;

/// The UDP port that IANA gave to sFlow.
pub const DEFAULT_PORT: u16 = 6343;

/// Settings of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentConfig {
    /// The address that names this agent; `None` leaves the choice to the election.
    pub agent_address: Option<IpAddr>,
    /// Tells several exporters behind one address apart.
    pub sub_agent_id: u32,
    /// Where datagrams go; each gets all of them.
    pub collectors: Vec<CollectorConfig>,
    /// Seconds between two counter reports of an interface, 0 = off.
    pub polling_interval: u32,
    /// Seconds between two reports of the host's counters, 0 = off.
    pub host_interval: u32,
    /// A datagram stays below this many bytes of UDP payload.
    pub max_datagram: u32,
    /// Milliseconds that a sample may wait for its datagram to fill.
    pub max_age_ms: u32,
}

impl Default for AgentConfig {
    fn default() -> Self {
        AgentConfig {
            agent_address: None,
            sub_agent_id: 0,
            collectors: Vec::new(),
            polling_interval: 20,
            host_interval: 30,
            max_datagram: 1400,
            max_age_ms: 1000,
        }
    }
}

impl AgentConfig {
    /// Longest interval between reports, in seconds.
    pub const MAX_INTERVAL: u32 = 3600;
    /// Range of [`max_datagram`](Self::max_datagram). The lower end holds any single record the agent makes; the upper
    /// one is what jumbo frames carry.
    pub const DATAGRAM_RANGE: (u32, u32) = (600, 9000);
    /// Range of [`max_age_ms`](Self::max_age_ms); sFlow allows a second.
    pub const AGE_RANGE: (u32, u32) = (10, 1000);
    /// Most collectors.
    pub const MAX_COLLECTORS: usize = 64;

    /// Checks every setting against its range.
    ///
    /// # Errors
    /// Names the first setting that is out of range, and the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let within = |field, value, (min, max)| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::Range {
                    field,
                    value,
                    min,
                    max,
                })
            }
        };
        within(
            "polling_interval",
            self.polling_interval,
            (0, Self::MAX_INTERVAL),
        )?;
        within("host_interval", self.host_interval, (0, Self::MAX_INTERVAL))?;
        within("max_datagram", self.max_datagram, Self::DATAGRAM_RANGE)?;
        within("max_age_ms", self.max_age_ms, Self::AGE_RANGE)?;
        let count = u32::try_from(self.collectors.len()).unwrap_or(u32::MAX);
        within("collectors", count, (0, Self::MAX_COLLECTORS as u32))?;
        if self
            .agent_address
            .is_some_and(|a| a.is_unspecified() || a.is_multicast())
        {
            return Err(ConfigError::AgentAddress);
        }
        for (i, c) in self.collectors.iter().enumerate() {
            c.validate()?;
            if self.collectors[..i].contains(c) {
                return Err(ConfigError::Twice(c.to_string()));
            }
        }
        Ok(())
    }
}

/// One collector.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CollectorConfig {
    /// Its address or name.
    pub host: CollectorHost,
    /// Its UDP port.
    pub port: u16,
    /// Address to send from; `None` = what the system's routing picks.
    pub source: Option<IpAddr>,
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

impl CollectorConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        let bad = |why| {
            Err(ConfigError::Collector {
                text: self.to_string(),
                why,
            })
        };
        if self.port == 0 {
            return bad("port must be 1 to 65535");
        }
        if let CollectorHost::Address(a) = self.host {
            if a.is_unspecified() {
                return bad("not an address to send to");
            }
            if self.source.is_some_and(|s| s.is_ipv4() != a.is_ipv4()) {
                return bad("source address is of the other IP version");
            }
        }
        Ok(())
    }
}

impl From<SocketAddr> for CollectorConfig {
    fn from(a: SocketAddr) -> Self {
        CollectorConfig {
            host: CollectorHost::Address(a.ip()),
            port: a.port(),
            source: None,
        }
    }
}

impl fmt::Display for CollectorConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            CollectorHost::Address(a) => SocketAddr::new(*a, self.port).fmt(f),
            CollectorHost::Name(n) => write!(f, "{n}:{}", self.port),
        }
    }
}

impl FromStr for CollectorConfig {
    type Err = ConfigError;

    /// Reads `192.0.2.1`, `192.0.2.1:6343`, `2001:db8::1`, `[2001:db8::1]:6343`, `name` or `name:6343`.
    fn from_str(s: &str) -> Result<Self, ConfigError> {
        let bad = |why| ConfigError::Collector {
            text: s.to_owned(),
            why,
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
        let c = CollectorConfig {
            host,
            port,
            source: None,
        };
        c.validate().map(|()| c)
    }
}

/// RFC 1123 section 2.1, and the underscore that is seen in practice.
fn is_host_name(s: &str) -> bool {
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

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A number out of its range.
    #[error("{field} is {value}, allowed is {min} to {max}")]
    Range {
        /// The setting.
        field: &'static str,
        /// What was given.
        value: u32,
        /// Least allowed.
        min: u32,
        /// Most allowed.
        max: u32,
    },
    /// The agent address names no host.
    #[error("agent_address must be the address of one host")]
    AgentAddress,
    /// A collector that cannot be one.
    #[error("collector {text:?}: {why}")]
    Collector {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The same collector is listed again.
    #[error("collector {0} is listed twice")]
    Twice(String),
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
    fn ranges_are_checked_and_named() {
        assert_eq!(AgentConfig::default().validate(), Ok(()));
        let c = AgentConfig {
            max_datagram: 100,
            ..AgentConfig::default()
        };
        let e = c.validate().unwrap_err();
        assert_eq!(e.to_string(), "max_datagram is 100, allowed is 600 to 9000");
        let c = AgentConfig {
            max_age_ms: 1001,
            ..AgentConfig::default()
        };
        assert!(c.validate().is_err());
        let c = AgentConfig {
            agent_address: Some("0.0.0.0".parse().unwrap()),
            ..AgentConfig::default()
        };
        assert_eq!(c.validate(), Err(ConfigError::AgentAddress));
        let one: CollectorConfig = "192.0.2.1".parse().unwrap();
        let c = AgentConfig {
            collectors: vec![one.clone(), one.clone()],
            ..AgentConfig::default()
        };
        assert_eq!(
            c.validate(),
            Err(ConfigError::Twice("192.0.2.1:6343".into()))
        );
        let mixed = CollectorConfig {
            source: Some("::1".parse().unwrap()),
            ..one
        };
        let c = AgentConfig {
            collectors: vec![mixed],
            ..AgentConfig::default()
        };
        assert!(c.validate().is_err());
    }
}
