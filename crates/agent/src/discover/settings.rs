//! Settings in hsflowd's words: what a TXT record or a hsflowd.conf says beside the collectors.
//!
//! The words and their ranges are those of hsflowd (`hsflowtokens.h` and `dynamic_config_line` in `hsflowconfig.c`); upper
//! and lower case are the same.

use std::collections::BTreeMap;
use std::net::IpAddr;

use parshall_linux::IpPrefix;
use serde::Serialize;

use crate::elect::{Election, Rule};

/// What was said. What was not is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// Sample one of so many packets on interfaces whose speed is not known, 0 = none.
    pub sampling: Option<u32>,
    /// The same by speed of the interface, in bits a second.
    pub sampling_by_speed: BTreeMap<u64, u32>,
    /// Sample one of speed / ratio packets, 0 = `sampling` counts for all.
    pub bps_ratio: Option<u32>,
    /// Seconds between two reports of counters, 0 = none.
    pub polling: Option<u32>,
    /// The agent's address.
    pub agent_address: Option<IpAddr>,
    /// How the agent's address is elected.
    pub election: Election,
    /// Dropped packets reported a second.
    pub drop_limit: Option<u32>,
    /// Bytes of each sampled packet.
    pub header_bytes: Option<u32>,
}

/// Most that one packet of can be sampled.
const MAX_SAMPLING: u64 = 10_000_000;
/// Longest time between two reports, in seconds.
const MAX_POLLING: u64 = 300;
/// Most bytes of a sampled packet.
const MAX_HEADER: u64 = 256;
/// Most reports of dropped packets a second.
const MAX_DROPS: u64 = 10_000;
/// Speeds that are told apart.
pub const MAX_SPEEDS: usize = 64;

impl Settings {
    /// Takes `key` = `value` in. Says whether it knows such a key.
    ///
    /// # Errors
    /// When it knows the key and the value will not do: says why.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        let key = key.to_ascii_lowercase();
        let small = |max| number(value, max).map(|n| n as u32);
        match key.as_str() {
            // The version of these words is the only one there is.
            "txtvers" => {}
            "sampling" | "packetsamplingrate" => self.sampling = Some(small(MAX_SAMPLING)?),
            "sampling.bps_ratio" => self.bps_ratio = Some(small(u64::from(u32::MAX))?),
            "polling" | "counterpollinginterval" => self.polling = Some(small(MAX_POLLING)?),
            "agentip" => {
                let ip: IpAddr = value.parse().map_err(|_| "not an IP address".to_owned())?;
                if ip.is_unspecified() || ip.is_multicast() {
                    return Err("not the address of one host".into());
                }
                self.agent_address = Some(ip);
            }
            "agent" => self.election.device = Some(device(value)?),
            "agent.cidr" => {
                if self.election.rules.len() == Election::MAX_RULES {
                    return Err(format!("at most {} networks", Election::MAX_RULES));
                }
                self.election.rules.push(rule(value)?);
            }
            "droplimit" => self.drop_limit = Some(small(MAX_DROPS)?),
            "headerbytes" => self.header_bytes = Some(small(MAX_HEADER)?),
            key => {
                let Some(speed) = key.strip_prefix("sampling.").and_then(speed) else {
                    return Ok(false);
                };
                let rate = small(MAX_SAMPLING)?;
                let full = self.sampling_by_speed.len() >= MAX_SPEEDS;
                if full && !self.sampling_by_speed.contains_key(&speed) {
                    return Err(format!("at most {MAX_SPEEDS} speeds"));
                }
                self.sampling_by_speed.insert(speed, rate);
            }
        }
        Ok(true)
    }
}

/// A whole number from 0 to `max`, in decimal, with or without `K`, `M` or `G` behind it.
pub fn number(text: &str, max: u64) -> Result<u64, String> {
    let wrong = || format!("not a number from 0 to {max}");
    let (digits, times) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let n = plain.then(|| digits.parse::<u64>().ok()).flatten();
    n.and_then(|n| n.checked_mul(times))
        .filter(|n| *n <= max)
        .ok_or_else(wrong)
}

/// A speed such as `100M`, `10G` or `2.5G`, in bits a second. hsflowd compares the text; so does this, where it can be
/// read as one speed only. The letter may be of either case.
pub fn speed(text: &str) -> Option<u64> {
    let times: u64 = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => 1_000,
        b'm' => 1_000_000,
        b'g' => 1_000_000_000,
        b't' => 1_000_000_000_000,
        b'p' => 1_000_000_000_000_000,
        _ => return None,
    };
    let digits = &text[..text.len() - 1];
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    let plain = |t: &str| !t.is_empty() && t.len() <= 6 && t.bytes().all(|b| b.is_ascii_digit());
    if !plain(whole) || !plain(part) {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(times)?;
    let ten = 10u64.checked_pow(u32::try_from(part.len()).ok()?)?;
    let part = part.parse::<u64>().ok()?.checked_mul(times / ten)?;
    whole.checked_add(part).filter(|s| *s > 0)
}

/// The name of an interface.
fn device(text: &str) -> Result<String, String> {
    let good = !text.is_empty()
        && text.len() <= 63
        && text
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"/\"\\{}".contains(&b));
    good.then(|| text.to_owned())
        .ok_or_else(|| "not the name of an interface".into())
}

/// `[!]ADDRESS/LENGTH`, the length in bits or, of IPv4, as a mask.
fn rule(text: &str) -> Result<Rule, String> {
    let wrong = || "not a network such as 10.0.0.0/8 or !fd00::/8".to_owned();
    let (avoid, network) = match text.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (network, length) = network.split_once('/').ok_or_else(wrong)?;
    let network: IpAddr = network.parse().map_err(|_| wrong())?;
    let most = if network.is_ipv4() { 32 } else { 128 };
    let length = match length.parse::<std::net::Ipv4Addr>() {
        Ok(mask) if network.is_ipv4() => {
            let ones = mask.to_bits().leading_ones();
            (ones == mask.to_bits().count_ones()).then_some(u64::from(ones))
        }
        _ => number(length, most).ok(),
    };
    let length = length.ok_or_else(wrong)? as u8;
    let prefix = IpPrefix::new(network, length).ok_or_else(wrong)?;
    Ok(Rule {
        network: prefix.network().addr(),
        length,
        avoid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_word_is_known_in_any_case() {
        let mut s = Settings::default();
        for (key, value) in [
            ("txtvers", "1"),
            ("Sampling", "400"),
            ("SAMPLING.10G", "10K"),
            ("sampling.2.5g", "2500"),
            ("sampling.bps_ratio", "1000000"),
            ("polling", "20"),
            ("agentIP", "192.0.2.1"),
            ("agent", "eth0"),
            ("agent.cidr", "10.0.0.0/8"),
            ("agent.CIDR", "!fd00::/8"),
            ("agent.cidr", "192.168.7.7/255.255.0.0"),
            ("dropLimit", "100"),
            ("headerBytes", "128"),
        ] {
            assert_eq!(s.set(key, value), Ok(true), "{key}");
        }
        let rule = |network: &str, length, avoid| Rule {
            network: network.parse().unwrap(),
            length,
            avoid,
        };
        let want = Settings {
            sampling: Some(400),
            sampling_by_speed: [(10_000_000_000, 10_000), (2_500_000_000, 2500)].into(),
            bps_ratio: Some(1_000_000),
            polling: Some(20),
            agent_address: "192.0.2.1".parse().ok(),
            election: Election {
                device: Some("eth0".into()),
                rules: vec![
                    rule("10.0.0.0", 8, false),
                    rule("fd00::", 8, true),
                    rule("192.168.0.0", 16, false),
                ],
            },
            drop_limit: Some(100),
            header_bytes: Some(128),
        };
        assert_eq!(s, want);
        for key in [
            "sampling.http",
            "sampling.app.x",
            "polling.x",
            "datagramBytes",
            "",
            "sampling.",
            "sampling.0G",
        ] {
            assert_eq!(s.set(key, "1"), Ok(false), "{key}");
        }
        assert_eq!(s, want);
    }

    #[test]
    fn values_that_will_not_do_are_refused_and_change_nothing() {
        let mut s = Settings::default();
        for (key, value) in [
            ("sampling", "10000001"),
            ("sampling", "-1"),
            ("sampling", ""),
            ("sampling", "0x10"),
            ("sampling.1G", "x"),
            ("polling", "301"),
            ("agentIP", "host"),
            ("agentIP", "0.0.0.0"),
            ("agent", "a b"),
            ("agent.cidr", "10.0.0.0"),
            ("agent.cidr", "10.0.0.0/33"),
            ("agent.cidr", "10.0.0.0/255.0.255.0"),
            ("headerBytes", "257"),
            ("dropLimit", "1G"),
        ] {
            assert!(s.set(key, value).is_err(), "{key}={value}");
        }
        assert_eq!(s, Settings::default());
    }

    proptest! {
        #[test]
        fn whatever_is_said_does_no_harm(all in proptest::collection::vec(("\\PC{0,20}", "\\PC{0,20}"), 0..20)) {
            let mut s = Settings::default();
            for (key, value) in all {
                let _ = s.set(&key, &value);
                let _ = s.set("agent.cidr", &value);
                let _ = s.set(&format!("sampling.{key}"), &value);
            }
            prop_assert!(s.sampling_by_speed.keys().all(|k| *k > 0));
        }
    }
}
