//! Addresses, prefixes, sizes and rates on the command line.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use super::ToolError;

/// A receiver as it was named: host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    host: String,
    port: Option<u16>,
}

impl HostPort {
    /// Reads `HOST`, `HOST:PORT`, `[IPV6]`, `[IPV6]:PORT` or a bare IPv6 address.
    ///
    /// # Errors
    /// Says what is possible.
    pub fn parse(text: &str) -> Result<HostPort, String> {
        let wrong = || {
            format!(
                "'{text}' is not HOST, HOST:PORT, or an address such as 192.0.2.1:6343 or [2001:db8::1]:6343"
            )
        };
        let (host, port) = match text.strip_prefix('[').and_then(|t| t.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or_else(wrong)?)),
            None => match text.split_once(':') {
                Some((_, rest)) if rest.contains(':') => (text, None),
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match port {
            Some(p) => Some(p.parse().ok().filter(|n| *n != 0).ok_or_else(wrong)?),
            None => None,
        };
        if host.is_empty() || host.contains(['[', ']']) {
            return Err(wrong());
        }
        Ok(HostPort {
            host: host.to_owned(),
            port,
        })
    }

    /// The name with its port, for people.
    pub fn name(&self, default_port: u16) -> String {
        let port = self.port.unwrap_or(default_port);
        if self.host.contains(':') {
            format!("[{}]:{port}", self.host)
        } else {
            format!("{}:{port}", self.host)
        }
    }

    /// Its address: the first that the system finds.
    pub(crate) fn resolve(&self, default_port: u16) -> Result<SocketAddr, ToolError> {
        let port = self.port.unwrap_or(default_port);
        let found = (self.host.as_str(), port).to_socket_addrs();
        let none = || std::io::Error::other("it has no address");
        let address = found.and_then(|mut all| all.next().ok_or_else(none));
        address.map_err(|source| ToolError::Resolve {
            name: self.name(default_port),
            source,
        })
    }
}

/// When a file is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rotation {
    /// After so many bytes.
    Bytes(u64),
    /// After so long.
    Time(Duration),
}

impl Rotation {
    /// Reads `100M` (bytes, K, M or G) or `60s` (s, m or h).
    ///
    /// # Errors
    /// Says what is possible.
    pub fn parse(text: &str) -> Result<Rotation, String> {
        let wrong = || {
            format!(
                "'{text}' is neither a size such as 500K, 100M or 2G nor a time such as 60s, 10m or 1h"
            )
        };
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?;
        let (factor, time) = match unit {
            "K" | "k" | "KB" => (1000, false),
            "M" | "MB" => (1_000_000, false),
            "G" | "GB" => (1_000_000_000, false),
            "" | "B" => (1, false),
            "s" => (1, true),
            "m" | "min" => (60, true),
            "h" => (3600, true),
            _ => return Err(wrong()),
        };
        let total = number.checked_mul(factor).ok_or_else(wrong)?;
        Ok(if time {
            Rotation::Time(Duration::from_secs(total))
        } else {
            Rotation::Bytes(total)
        })
    }
}

/// Reads a positive, finite number such as 0.5 or 10.
///
/// # Errors
/// Says what is possible.
pub fn parse_factor(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    number
        .filter(|n| (1e-6..=1e9).contains(n))
        .ok_or_else(|| format!("'{text}' is not a number from 0.000001 to 1000000000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_with_and_without_port() {
        let name = |t: &str| HostPort::parse(t).map(|h| h.name(6343));
        assert_eq!(name("192.0.2.1").unwrap(), "192.0.2.1:6343");
        assert_eq!(name("192.0.2.1:99").unwrap(), "192.0.2.1:99");
        assert_eq!(name("collector.example:7").unwrap(), "collector.example:7");
        assert_eq!(name("2001:db8::1").unwrap(), "[2001:db8::1]:6343");
        assert_eq!(name("[2001:db8::1]").unwrap(), "[2001:db8::1]:6343");
        assert_eq!(name("[2001:db8::1]:5").unwrap(), "[2001:db8::1]:5");
        for bad in ["", ":7", "a:0", "a:b", "a:70000", "[::1", "[::1]x", "[]"] {
            assert!(
                HostPort::parse(bad).unwrap_err().contains("HOST:PORT"),
                "{bad}"
            );
        }
        let at = HostPort::parse("127.0.0.1").unwrap().resolve(9).unwrap();
        assert_eq!(at, "127.0.0.1:9".parse().unwrap());
        let nobody = HostPort::parse("no such host").unwrap().resolve(9);
        assert!(nobody.unwrap_err().to_string().contains("cannot resolve"));
    }

    #[test]
    fn sizes_and_times() {
        assert_eq!(Rotation::parse("100M"), Ok(Rotation::Bytes(100_000_000)));
        assert_eq!(Rotation::parse("64"), Ok(Rotation::Bytes(64)));
        assert_eq!(
            Rotation::parse("10m"),
            Ok(Rotation::Time(Duration::from_secs(600)))
        );
        for bad in ["", "0", "M", "5x", "-1s", "99999999999999999999G"] {
            assert!(Rotation::parse(bad).unwrap_err().contains("100M"), "{bad}");
        }
        assert_eq!(parse_factor("0.5"), Ok(0.5));
        assert!(parse_factor("0").is_err() && parse_factor("NaN").is_err());
    }
}
