//! Routes of a file of commands, many at a time.
//!
//! Lines that only add a new route are put off and done together: the forwarding tables take thousands of
//! routes at once far faster than one by one. What a line says after its prefix is understood by the
//! grammar when it is first met, and known from then on, since files of routes repeat it. Everything else
//! is left to the grammar: another command ends the run, a route that is there already has paths added, and
//! if the routes cannot be added together they are added line by line, so that the first that fails is named.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::route;
use super::shell::RouterNames;
use crate::error::Result;
use crate::path::Path;
use crate::prefix::{Family, IpNet};
use crate::rib::Source;
use crate::router::Router;

/// Routes added together at most: workers have their turn in between.
const TOGETHER: usize = 8192;
/// Different endings that are remembered.
const ENDINGS: usize = 4096;

/// What the words after a prefix mean.
struct Ending {
    table: u32,
    paths: Vec<Path>,
}

/// A line that is put off.
struct Pending<'l, P> {
    place: P,
    line: &'l str,
    net: IpNet,
    ending: usize,
}

/// Lines that are put off.
pub(super) struct Bulk<'l, P> {
    /// By the line's first words, the prefix's family, and all that follows the prefix.
    known: HashMap<(&'l str, Family, &'l str), usize>,
    endings: Vec<Ending>,
    pending: Vec<Pending<'l, P>>,
}

/// A line's first words, its prefix, and the rest.
fn parts(line: &str) -> Option<(&str, IpNet, &str)> {
    let at = ["ip route add ", "ip6 route add "]
        .into_iter()
        .find(|h| line.starts_with(h))?
        .len();
    let (head, rest) = line.split_at(at);
    let (prefix, rest) = rest.split_once(' ')?;
    Some((head, net(prefix)?, rest))
}

/// A unicast prefix in its plain form; any other form is for the grammar to judge.
fn net(text: &str) -> Option<IpNet> {
    let (addr, len) = text.split_once('/')?;
    let digits = matches!(len.len(), 1..=3) && len.bytes().all(|b| b.is_ascii_digit());
    let len: u8 = len.parse().ok().filter(|_| digits)?;
    let addr = match addr.parse::<Ipv4Addr>() {
        Ok(v4) => v4.into(),
        Err(_) => addr.parse::<Ipv6Addr>().ok()?.into(),
    };
    let net = IpNet::new(addr, len);
    let plain = net.addr() == addr && net.prefix_len() == len && !addr.is_multicast();
    plain.then_some(net)
}

impl<'l, P> Bulk<'l, P> {
    pub(super) fn new() -> Self {
        Bulk {
            known: HashMap::new(),
            endings: Vec::new(),
            pending: Vec::new(),
        }
    }

    /// Puts a line off if it adds a route that is not there; gives its place back if it does not.
    pub(super) fn put_off(
        &mut self,
        r: &Router,
        place: P,
        line: &'l str,
    ) -> std::result::Result<(), P> {
        let found = parts(line).and_then(|(head, net, rest)| {
            let ending = self.ending(r, line, (head, net.family(), rest))?;
            let at = (net.family(), self.endings.get(ending)?.table, net);
            r.rib
                .wanted(at, Source::Static)
                .is_none()
                .then_some((net, ending))
        });
        let Some((net, ending)) = found else {
            return Err(place);
        };
        self.pending.push(Pending {
            place,
            line,
            net,
            ending,
        });
        Ok(())
    }

    fn ending(&mut self, r: &Router, line: &str, key: (&'l str, Family, &'l str)) -> Option<usize> {
        if let Some(known) = self.known.get(&key) {
            return Some(*known);
        }
        if self.endings.len() == ENDINGS {
            return None;
        }
        let found = r.commands().parse(line, &RouterNames(r)).ok()?;
        let (table, paths) = route::addition(r, &found)?;
        self.endings.push(Ending { table, paths });
        self.known.insert(key, self.endings.len() - 1);
        Some(self.endings.len() - 1)
    }

    /// Whether it is time to [`flush`](Self::flush).
    pub(super) fn is_full(&self) -> bool {
        self.pending.len() >= TOGETHER
    }

    /// Another command comes, and may change what lines mean.
    pub(super) fn forget(&mut self) {
        self.known.clear();
        self.endings.clear();
    }

    /// Adds what was put off. `single` does one line by itself.
    ///
    /// # Errors
    /// That of the first line that fails.
    pub(super) fn flush(
        &mut self,
        r: &mut Router,
        mut single: impl FnMut(&mut Router, P, &'l str) -> Result<()>,
    ) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let later = repeated(&pending, &self.endings);
        let together = self.together(r, &pending, &later);
        for (p, again) in pending.into_iter().zip(later) {
            if again || !together {
                single(r, p.place, p.line)?;
            }
        }
        Ok(())
    }

    /// Adds those that are not to come `later`, all of them or none.
    fn together(&self, r: &mut Router, pending: &[Pending<'l, P>], later: &[bool]) -> bool {
        let table = |p: &Pending<'_, P>| (p.net.family(), self.endings[p.ending].table);
        let mut tables: Vec<_> = pending.iter().map(table).collect();
        tables.sort_unstable();
        tables.dedup();
        let added = r.atomically(|r| {
            for &at in &tables {
                let these = pending.iter().zip(later);
                let these = these.filter(|(p, later)| !**later && table(p) == at);
                let paths = |p: &Pending<'_, P>| (p.net, &*self.endings[p.ending].paths);
                r.change_routes(at, these.map(|(p, _)| paths(p)))?;
            }
            Ok(())
        });
        added.is_ok()
    }
}

/// Which lines are of a route that a line before them adds already.
fn repeated<P>(pending: &[Pending<'_, P>], endings: &[Ending]) -> Vec<bool> {
    let key = |i: usize| (endings[pending[i].ending].table, pending[i].net);
    let mut order: Vec<usize> = (0..pending.len()).collect();
    // Files are mostly in order: then there is nothing to sort. Stable, so the first line stays first.
    order.sort_by_key(|i| key(*i));
    let mut later = vec![false; pending.len()];
    for pair in order.windows(2) {
        later[pair[1]] = key(pair[0]) == key(pair[1]);
    }
    later
}

#[cfg(test)]
mod tests {
    use crate::engine::EngineConfig;
    use crate::prefix::Family;
    use crate::router::Router;

    const SETUP: &str = "create packet-generator interface pg0\nset interface state pg0 up\n\
        set interface ip address pg0 10.0.0.1/24\nip table add 7\n";

    /// Everything that `show ip fib` says after a file, or the error.
    fn after(text: &str, one_by_one: bool) -> Result<String, String> {
        let mut r = Router::model(&EngineConfig::default()).unwrap();
        r.run_script(SETUP, "setup").unwrap();
        if one_by_one {
            for line in text.lines() {
                r.run_line(line, false).map_err(|e| e.to_string())?;
            }
        } else {
            r.run_script(text, "f").map_err(|e| e.to_string())?;
        }
        let mut shown = String::new();
        for family in [Family::Ip4, Family::Ip6] {
            for (net, route) in r.rib.table(family, 0).unwrap().routes() {
                let list = r.rib.list(route.best().unwrap().1).unwrap();
                shown += &format!("{net} {:?}\n", list.paths());
            }
        }
        let in_7 = r.rib.table(Family::Ip4, 7).unwrap().routes();
        shown += &in_7
            .map(|(net, _)| format!("{net} in 7\n"))
            .collect::<String>();
        Ok(shown)
    }

    #[test]
    fn a_file_does_what_its_lines_do() {
        let mut text = String::new();
        for i in 0..9000 {
            let (a, b) = (i / 250, i % 250);
            text += &format!("ip route add 20.{a}.{b}.0/24 via 10.0.0.{}\n", 2 + i % 7);
        }
        text += "ip route add 30.0.0.0/8 via 10.0.0.9 pg0\n\
            ip route add 30.0.0.0/8 via 10.0.0.8 pg0 weight 3\n\
            ip route add 20.0.5.0/24 via 10.0.0.77\n\
            ip route add 31.0.0.0/8  via 10.0.0.9 pg0\n\
            ip route add 31.1.0.0/16 table 7 via 10.0.0.9 pg0\n\
            ip route add 31.1.0.0/16 via drop\n\
            ip route add 2001:db8::/32 via blackhole\n\
            ip6 route add 2001:db8:1::/48 via drop\n\
            ip route del 20.0.6.0/24\n\
            ip route add 20.0.6.0/24 via 10.0.0.66\n\
            ip route add 40.0.0.0/8 blackhole\n\
            ip route add 41.1.1.1/32 via 10.0.0.4\n";
        let seen = after(&text, false).unwrap();
        assert_eq!(seen, after(&text, true).unwrap());
        assert_eq!(seen.lines().filter(|l| l.starts_with("20.")).count(), 9000);
    }

    #[test]
    fn the_line_that_fails_is_named_and_nothing_is_done() {
        let bad = [
            (
                "ip route add 20.2.0.0/16 via 127.0.0.1",
                "is not the address of a neighbour",
            ),
            (
                "ip route add 20.2.0.1/16 via 10.0.0.2",
                "has bits behind its prefix length set",
            ),
            (
                "ip route add 20.2.0.0/16 table 9 via 10.0.0.2",
                "no ip table 9",
            ),
            ("ip route add 224.0.0.0/4 via 10.0.0.2", "multicast"),
            ("ip route add 20.2.0.0/16 via 10.0.0.2 nosuch", "nosuch"),
        ];
        for (line, why) in bad {
            let text = format!(
                "ip route add 20.1.0.0/16 via 10.0.0.2\n{line}\nip route add 20.3.0.0/16 via 10.0.0.2"
            );
            let error = after(&text, false).unwrap_err();
            assert!(error.starts_with("f:2: ") && error.contains(why), "{error}");
        }
        let mut r = Router::model(&EngineConfig::default()).unwrap();
        r.run_script(SETUP, "setup").unwrap();
        let before = r.rib.table(Family::Ip4, 0).unwrap().count();
        let text =
            "ip route add 20.1.0.0/16 via 10.0.0.2\nip route add 20.2.0.0/16 via 127.0.0.1\n";
        r.run_script(text, "f").unwrap_err();
        assert_eq!(r.rib.table(Family::Ip4, 0).unwrap().count(), before);
    }
}
