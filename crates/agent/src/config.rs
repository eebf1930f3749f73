//! What the agent can be told: its address, its collectors, how often it reports.
//!
//! Owns the ranges of these settings. What a collector can be told is in [`crate::collector_config`].

use std::net::IpAddr;

use serde::Serialize;
use thiserror::Error;

use crate::collector_config::CollectorConfig;
use crate::elect::Election;
use crate::netlink::NetlinkConfig;
use crate::records::Records;

/// Settings of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentConfig {
    /// The address that names this agent; `None` leaves the choice to the election.
    pub agent_address: Option<IpAddr>,
    /// How it is elected then.
    pub election: Election,
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
    /// Records that samples carry.
    pub records: Records,
    /// Dropped packets reported a second at most, 0 = none.
    pub drop_limit: u32,
    /// What hsflowd on this machine is given over netlink; `None` = nothing.
    pub netlink: Option<NetlinkConfig>,
}

impl Default for AgentConfig {
    fn default() -> Self {
        AgentConfig {
            agent_address: None,
            election: Election::default(),
            sub_agent_id: 0,
            collectors: Vec::new(),
            polling_interval: 20,
            host_interval: 30,
            max_datagram: 1400,
            max_age_ms: 1000,
            records: Records::default(),
            drop_limit: 0,
            netlink: None,
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
    /// Largest [`drop_limit`](Self::drop_limit).
    pub const MAX_DROP_LIMIT: u32 = 10_000;
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
        within("drop_limit", self.drop_limit, (0, Self::MAX_DROP_LIMIT))?;
        let count = u32::try_from(self.collectors.len()).unwrap_or(u32::MAX);
        within("collectors", count, (0, Self::MAX_COLLECTORS as u32))?;
        if let Some(n) = self.netlink {
            within("netlink group", n.group, (1, NetlinkConfig::MAX_GROUP))?;
        }
        if self.election.rules.len() > Election::MAX_RULES {
            return Err(ConfigError::Rules(self.election.rules.len()));
        }
        if self
            .agent_address
            .is_some_and(|a| a.is_unspecified() || a.is_multicast())
        {
            return Err(ConfigError::AgentAddress);
        }
        for (i, c) in self.collectors.iter().enumerate() {
            c.validate()?;
            if self.collectors[..i].iter().any(|x| x.is_same(c)) {
                return Err(ConfigError::Twice(c.to_string()));
            }
        }
        Ok(())
    }
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
    /// More rules of an election than are looked at.
    #[error("{0} rules of an election, at most {max} are possible", max = Election::MAX_RULES)]
    Rules(usize),
    /// The agent address names no host.
    #[error("agent_address must be the address of one host")]
    AgentAddress,
    /// A collector that cannot be one.
    #[error("collector {text:?}: {why}")]
    Collector {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// The same collector is listed again.
    #[error("collector {0} is listed twice")]
    Twice(String),
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // The same address through two devices is two collectors.
        let through = |device: &str| CollectorConfig {
            device: Some(device.into()),
            ..one.clone()
        };
        let c = AgentConfig {
            collectors: vec![one.clone(), through("a"), through("b")],
            ..AgentConfig::default()
        };
        assert_eq!(c.validate(), Ok(()));
    }
}
