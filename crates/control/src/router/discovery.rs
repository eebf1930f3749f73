//! Collectors and settings that the DNS names, laid over those that were configured.
//!
//! What the DNS says counts while it says so: polling interval, agent address, limit of drops, default sampling rate and header bytes take the
//! place of the configured ones, and its collectors come beside them. What an interface was told by itself stays. Nothing of
//! it is written into the configuration, so without discovery all is as configured.

use parshall_agent::discover::{Discovery, DiscoveryStatus, Place, Settings, ThreadAsk};
use parshall_agent::elect::Election;
use parshall_agent::{AgentConfig, CollectorConfig, CollectorHost};

use super::Router;
use crate::error::{Error, Result};
use crate::interface::Interface;

impl Router {
    /// Asks the DNS for collectors from now on; `None` stops it and forgets what it said.
    ///
    /// # Errors
    /// When the place is none.
    pub fn set_discovery(&mut self, place: Option<Place>) -> Result<()> {
        if let Some(p) = &place {
            check(p)?;
        }
        let (now, seed) = (self.now(), self.sflow.seed);
        let new = place.map(|p| Discovery::new(p, Box::<ThreadAsk>::default(), seed, now));
        self.put_discovery(new)
    }

    fn put_discovery(&mut self, new: Option<Discovery>) -> Result<()> {
        let was = std::mem::replace(&mut self.sflow.discovery, new);
        self.undo(move |r| r.put_discovery(was));
        self.apply_discovered()
    }

    /// Asks when it is time, and follows what is answered.
    pub(super) fn discover(&mut self) {
        if self.is_model() {
            return;
        }
        let now = self.now();
        let changed = self.sflow.discovery.as_mut().is_some_and(|d| d.tick(now));
        if changed && let Err(e) = self.apply_discovered() {
            tracing::error!("discovery of collectors: {e}");
        }
    }

    /// What the DNS says beside the collectors.
    fn discovered(&self) -> Option<&Settings> {
        Some(&self.sflow.discovery.as_ref()?.found()?.settings)
    }

    /// The state of the discovery, if there is one.
    pub fn discovery_status(&self) -> Option<DiscoveryStatus> {
        let now = self.now();
        self.sflow.discovery.as_ref().map(|d| d.status(now))
    }

    /// The agent's settings in force: those configured, and over them what the DNS says.
    pub fn agent_config(&self) -> AgentConfig {
        let mut config = self.sflow.config.clone();
        let Some(found) = self.sflow.discovery.as_ref().and_then(Discovery::found) else {
            return config;
        };
        for c in &found.collectors {
            let room = config.collectors.len() < AgentConfig::MAX_COLLECTORS;
            // One that is configured keeps the options it was given.
            if room && !config.collectors.iter().any(|x| is_there(x, c)) && c.validate().is_ok() {
                config.collectors.push(c.clone());
            }
        }
        let s = &found.settings;
        config.polling_interval = s.polling.unwrap_or(config.polling_interval);
        config.drop_limit = s.drop_limit.unwrap_or(config.drop_limit);
        config.agent_address = s.agent_address.or(config.agent_address);
        if s.election != Election::default() {
            config.election = s.election.clone();
        }
        config
    }

    /// 1-in-N for an interface without a rate of its own, where the DNS says one; 0 = none.
    pub(super) fn discovered_rate(&self, i: &Interface) -> Option<u32> {
        rate(self.discovered()?, i.speed)
    }

    /// The same for header bytes.
    pub(super) fn discovered_header(&self) -> Option<u16> {
        let (min, max) = super::header_range();
        let bytes = self.discovered()?.header_bytes?;
        Some(u16::try_from(bytes).unwrap_or(max).clamp(min, max))
    }
}

/// The rate for an interface of a speed in bits a second, 0 = not known: what is said of the speed, else what follows from
/// the ratio, else what is said of all (hsflowd, `lookupPacketSamplingRate`).
fn rate(s: &Settings, speed: u64) -> Option<u32> {
    let by_speed = s.sampling_by_speed.get(&speed).copied();
    let by_ratio = s
        .bps_ratio
        .filter(|r| *r > 0 && speed > 0)
        .map(|r| u32::try_from(speed / u64::from(r)).unwrap_or(u32::MAX));
    by_speed
        .or(by_ratio.map(|n| n.clamp(1, parshall_sample::MAX_RATE)))
        .or(s.sampling)
}

/// Whether a collector that the DNS names is configured too.
fn is_there(configured: &CollectorConfig, found: &CollectorConfig) -> bool {
    let same_host = match (&configured.host, &found.host) {
        (CollectorHost::Name(a), CollectorHost::Name(b)) => a.eq_ignore_ascii_case(b),
        (a, b) => a == b,
    };
    same_host && (configured.port, &configured.namespace) == (found.port, &found.namespace)
}

fn check(p: &Place) -> Result<()> {
    if let Some(domain) = &p.domain {
        // A name server is asked for a host of this domain.
        let host = domain.trim_start_matches('.').parse::<CollectorConfig>();
        if !matches!(host.map(|c| c.host), Ok(CollectorHost::Name(_))) {
            return Err(Error::refused(format!(
                "`{}` is not a domain; write one such as example.net, auto for those of /etc/resolv.conf, or off",
                parshall_command::shown(domain)
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_speed_then_ratio_then_what_is_said_of_all() {
        let mut s = Settings::default();
        assert_eq!(rate(&s, 1_000_000_000), None);
        for (key, value) in [("sampling", "400"), ("sampling.10G", "5000")] {
            s.set(key, value).unwrap();
        }
        assert_eq!(rate(&s, 10_000_000_000), Some(5000));
        assert_eq!(rate(&s, 1_000_000_000), Some(400));
        assert_eq!(rate(&s, 0), Some(400));
        s.set("sampling.bps_ratio", "1000000").unwrap();
        assert_eq!(rate(&s, 10_000_000_000), Some(5000));
        assert_eq!(rate(&s, 1_000_000_000), Some(1000));
        assert_eq!(rate(&s, 10_000), Some(1));
        assert_eq!(rate(&s, 0), Some(400));
        s.set("sampling.bps_ratio", "0").unwrap();
        assert_eq!(rate(&s, 1_000_000_000), Some(400));
    }
}
