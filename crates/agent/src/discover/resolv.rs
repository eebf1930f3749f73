//! Which name servers to ask: `/etc/resolv.conf` (resolv.conf(5)), or that of a network namespace (ip-netns(8)).

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// The port of name servers.
pub const PORT: u16 = 53;
/// Bytes of the file that are read; what a resolver honours is in the first few lines.
const MAX_FILE: u64 = 64 << 10;
/// Name servers and domains that are tried.
const MAX_SERVERS: usize = 3;
const MAX_DOMAINS: usize = 6;

/// How to look names up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolver {
    /// Name servers, in the order in which they are asked.
    pub servers: Vec<SocketAddr>,
    /// Domains to look in when none is given.
    pub search: Vec<String>,
    /// How long to wait for one answer.
    pub timeout: Duration,
    /// How often to ask each server.
    pub attempts: u32,
}

impl Resolver {
    /// As the text of a resolv.conf says; what it does not say is as resolv.conf(5) has it.
    pub fn parse(text: &str) -> Resolver {
        let mut r = Resolver {
            servers: Vec::new(),
            search: Vec::new(),
            timeout: Duration::from_secs(5),
            attempts: 2,
        };
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let ip = words.next().and_then(|w| w.parse::<IpAddr>().ok());
                    r.servers.extend(ip.map(|ip| SocketAddr::new(ip, PORT)));
                }
                // The last of these lines counts.
                Some("search" | "domain") => {
                    r.search = words.take(MAX_DOMAINS).map(str::to_owned).collect();
                }
                Some("options") => words.for_each(|w| r.option(w)),
                _ => {}
            }
        }
        r.servers.truncate(MAX_SERVERS);
        if r.servers.is_empty() {
            r.servers
                .push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT));
        }
        r
    }

    fn option(&mut self, word: &str) {
        let number = |prefix: &str| word.strip_prefix(prefix)?.parse::<u32>().ok();
        if let Some(n) = number("timeout:") {
            self.timeout = Duration::from_secs(u64::from(n.clamp(1, 30)));
        }
        if let Some(n) = number("attempts:") {
            self.attempts = n.clamp(1, 5);
        }
    }

    /// As this system says, in the network namespace `namespace` where that has a file of its own.
    pub fn system(namespace: Option<&str>) -> Resolver {
        let own = namespace
            .filter(|n| !n.contains('/'))
            .map(|n| Path::new("/etc/netns").join(n).join("resolv.conf"))
            .filter(|p| p.is_file());
        let path = own.unwrap_or_else(|| "/etc/resolv.conf".into());
        let mut text = Vec::new();
        // Without a file the defaults hold.
        let _ = File::open(path).and_then(|f| f.take(MAX_FILE).read_to_end(&mut text));
        Resolver::parse(&String::from_utf8_lossy(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resolv_conf_is_read_as_its_manual_says() {
        let r = Resolver::parse(
            "# comment\nnameserver 192.0.2.1\n nameserver 2001:db8::1\nnameserver rubbish\n\
             domain old.example\nsearch a.example b.example\noptions timeout:2 attempts:9 ndots:2\n",
        );
        let servers: Vec<String> = r.servers.iter().map(ToString::to_string).collect();
        assert_eq!(servers, ["192.0.2.1:53", "[2001:db8::1]:53"]);
        assert_eq!(r.search, ["a.example", "b.example"]);
        assert_eq!((r.timeout, r.attempts), (Duration::from_secs(2), 5));
        let r = Resolver::parse("");
        assert_eq!(r.servers, ["127.0.0.1:53".parse().unwrap()]);
        assert_eq!((r.timeout, r.attempts), (Duration::from_secs(5), 2));
        assert_eq!(
            Resolver::parse(&"nameserver ::1\n".repeat(9)).servers.len(),
            3
        );
    }
}
