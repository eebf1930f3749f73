//! `parshall bench fib`: tables of routes through the control plane: how much memory a route takes, how
//! fast a table loads, is looked up in and changes.
//!
//! The router is whole but has no workers, so that nothing else runs: routes go through its checks, its
//! routing tables and its journal into the forwarding tables. Memory counts every structure. Lookups are
//! those of a forwarding node: frames of 256 random destinations, in batches, on the calling thread.

use std::hint::black_box;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parshall_control::{EngineConfig, Family, IpNet, Path, Router, Via};
use parshall_fib::{Addr, Dpo, DpoKind, IpTables, Lpm, Prefix};
use parshall_rcu::Reader;
use serde::Serialize;

use crate::internet::{self, Grow, NEXT_HOPS, Random};
use crate::{Bar, BenchError, Report, Table};

/// `parshall bench fib`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  parshall bench fib
  parshall bench fib --table ip4-grown --repeats 5
  parshall bench fib --json > fib.json")]
pub struct FibArgs {
    /// Table to measure, may be given again (default: all): ip4-real, ip6-real, ip4-grown, ip6-grown,
    /// ip4-hosts.
    #[arg(long = "table", value_name = "NAME")]
    pub tables: Vec<String>,
    /// Times each figure is taken; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeats: u32,
}

/// Routes of the grown tables.
const GROWN_4: usize = 1_200_000;
const GROWN_6: usize = 250_000;
/// Routes of the table of hosts.
const HOSTS: u32 = 1_000_000;
/// Random destinations of lookups.
const DESTINATIONS: usize = 16_384;
const FRAME: usize = 256;
/// How long one window of lookups or changes takes.
const WINDOW: Duration = Duration::from_millis(200);
/// Changes that are made together where they are made in batches.
const BATCH: usize = 1000;
/// Lines of the command file that is loaded as text.
const LINES: usize = 200_000;

/// The first interface.
const INTERFACE: u32 = 1;
const SETUP: &str = "
create packet-generator interface pg0
set interface state pg0 up
set interface ip address pg0 198.18.0.1/16
set interface ip address pg0 2001:2::1/64";

/// The tables, and what they are.
const TABLES: [(&str, &str); 5] = [
    ("ip4-real", "the Internet's IPv4 table"),
    ("ip6-real", "the Internet's IPv6 table"),
    ("ip4-grown", "1.2 M routes grown from it"),
    ("ip6-grown", "250 k routes grown from it"),
    ("ip4-hosts", "1 M host routes in a row"),
];

#[derive(Serialize)]
struct Figures {
    tables: Vec<Row>,
}

/// What one table showed.
#[derive(Clone, Debug, Serialize)]
struct Row {
    name: &'static str,
    routes: usize,
    /// All structures of both planes.
    bytes_per_route: f64,
    /// Of that, what lookups read.
    lookup_bytes_per_route: f64,
    /// All routes by one call.
    load_seconds: f64,
    /// The same in processor time: what else runs on the machine does not count.
    load_cpu_seconds: f64,
    /// By text, as a file of commands.
    command_routes_per_second: f64,
    /// Of one core: in processor time, since nothing is waited for.
    lookups_per_second: f64,
    /// One by one, each a transaction of its own.
    changes_per_second: f64,
    /// The same for a second of processor time.
    changes_per_cpu_second: f64,
    /// A thousand in a transaction.
    batched_changes_per_second: f64,
    /// All routes out again by one call.
    unload_seconds: f64,
}

/// What a family needs to be measured.
trait Measured: Grow {
    const OF: Family;
    fn tables(router: &Router) -> &IpTables<Self>;
    /// Next hop `n` of the routes.
    fn next_hop(n: u32) -> IpAddr;
    /// The word of the command.
    const WORD: &'static str;
}

impl Measured for u32 {
    const OF: Family = Family::Ip4;
    const WORD: &'static str = "ip";
    fn tables(router: &Router) -> &IpTables<u32> {
        &router.shared().ip4
    }
    fn next_hop(n: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(0xC612_0100 + n).into()
    }
}

impl Measured for u128 {
    const OF: Family = Family::Ip6;
    const WORD: &'static str = "ip6";
    fn tables(router: &Router) -> &IpTables<u128> {
        &router.shared().ip6
    }
    fn next_hop(n: u32) -> IpAddr {
        std::net::Ipv6Addr::from_bits((0x2001_0002 << 96) + 0x100 + u128::from(n)).into()
    }
}

/// Runs the bench.
///
/// # Errors
/// When a table is not known or does not load.
pub fn measure(args: &FibArgs) -> Result<Report, BenchError> {
    let known = |n: &String| TABLES.iter().any(|t| t.0 == n);
    if let Some(wrong) = args.tables.iter().find(|n| !known(n)) {
        let names = TABLES.map(|t| t.0).join(", ");
        return Err(BenchError(format!(
            "no table is called {wrong}: there are {names}"
        )));
    }
    let mut tables = Vec::new();
    for (name, what) in TABLES {
        if args.tables.is_empty() || args.tables.iter().any(|n| n == name) {
            eprintln!("{name}: {what}");
            tables.push(one(name, args.repeats)?);
        }
    }
    let of = format!(
        "routes through the control plane of a router without workers; lookups of {DESTINATIONS} random \
         destinations in frames of {FRAME}, one core"
    );
    let text = table(&tables);
    let bars = bars(&tables);
    Ok(Report::new("fib", of, &Figures { tables })?
        .with_table(text)
        .with_bars(bars))
}

fn one(name: &'static str, repeats: u32) -> Result<Row, BenchError> {
    match name {
        "ip4-real" => Bench::new(internet::ip4()?, repeats).row(name),
        "ip6-real" => Bench::new(internet::ip6()?, repeats).row(name),
        "ip4-grown" => Bench::new(internet::grown4(GROWN_4)?, repeats).row(name),
        "ip6-grown" => Bench::new(internet::grown6(GROWN_6)?, repeats).row(name),
        _ => {
            let host = |n| Prefix::host(0x0A00_0000 + n);
            Bench::new((0..HOSTS).map(host).collect(), repeats).row(name)
        }
    }
}

/// One table being measured.
struct Bench<A: Addr> {
    prefixes: Vec<Prefix<A>>,
    nets: Vec<IpNet>,
    /// A path list for each next hop.
    paths: Vec<[Path; 1]>,
    repeats: u32,
}

fn fail(e: parshall_control::Error) -> BenchError {
    BenchError::of("router", e)
}

impl<A: Measured> Bench<A> {
    fn new(prefixes: Vec<Prefix<A>>, repeats: u32) -> Bench<A> {
        let via = |n| Via::NextHop {
            ip: A::next_hop(n),
            if_index: Some(INTERFACE),
        };
        Bench {
            nets: prefixes
                .iter()
                .map(|p| IpNet::new(p.addr().ip(), p.len()))
                .collect(),
            prefixes,
            paths: (0..NEXT_HOPS).map(|n| [Path::new(via(n))]).collect(),
            repeats,
        }
    }

    fn row(&self, name: &'static str) -> Result<Row, BenchError> {
        let (mut loads, mut cpu) = (Vec::new(), Vec::new());
        let (mut router, mut unloads) = (router()?, Vec::new());
        let empty = router.route_memory();
        for i in 0..self.repeats {
            let (start, spent) = (Instant::now(), cpu_seconds()?);
            self.load(&mut router)?;
            loads.push(start.elapsed().as_secs_f64());
            cpu.push(cpu_seconds()? - spent);
            if i + 1 < self.repeats {
                let start = Instant::now();
                self.unload(&mut router)?;
                unloads.push(start.elapsed().as_secs_f64());
                router.turn();
            }
        }
        router.turn();
        let routes = self.nets.len() as f64;
        let usage = A::tables(&router).usage();
        let bytes = router.route_memory() - empty;
        eprintln!("  loaded in {:.3} s", median(&mut loads));
        let lookups = self.lookups(&router)?;
        eprintln!("  {:.1} M lookups/s", lookups / 1e6);
        let (single, single_cpu) = self.changes(&mut router, 1)?;
        let (batched, _) = self.changes(&mut router, BATCH)?;
        eprintln!("  {single:.0} changes/s, {batched:.0} in batches");
        drop(router);
        Ok(Row {
            name,
            routes: self.nets.len(),
            bytes_per_route: bytes as f64 / routes,
            lookup_bytes_per_route: (usage.nodes + usage.roots) as f64 / routes,
            load_seconds: median(&mut loads),
            load_cpu_seconds: median(&mut cpu),
            command_routes_per_second: self.text()?,
            lookups_per_second: lookups,
            changes_per_second: single,
            changes_per_cpu_second: single_cpu,
            batched_changes_per_second: batched,
            unload_seconds: median(&mut unloads),
        })
    }

    fn paths_of(&self, i: usize) -> &[Path] {
        &self.paths[internet::next_hop(self.prefixes[i]) as usize]
    }

    fn load(&self, router: &mut Router) -> Result<(), BenchError> {
        let all = self.nets.iter().enumerate();
        let all = all.map(|(i, net)| (*net, self.paths_of(i)));
        let done = router.atomically(|r| r.change_routes((A::OF, 0), all));
        match done.map_err(fail)? {
            n if n == self.nets.len() => Ok(()),
            n => Err(BenchError(format!("{n} of {} routes", self.nets.len()))),
        }
    }

    fn unload(&self, router: &mut Router) -> Result<(), BenchError> {
        let all = self.nets.iter().map(|net| (*net, &[][..]));
        let done = router.atomically(|r| r.change_routes((A::OF, 0), all));
        done.map(drop).map_err(fail)
    }

    /// Routes a second by a file of commands.
    fn text(&self) -> Result<f64, BenchError> {
        use std::fmt::Write;
        let mut text = String::new();
        for (i, net) in self.nets.iter().enumerate().take(LINES) {
            let hop = A::next_hop(internet::next_hop(self.prefixes[i]));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{} route add {net} via {hop} pg0", A::WORD);
        }
        let mut rates = Vec::new();
        for _ in 0..self.repeats {
            let mut router = router()?;
            let start = Instant::now();
            router.run_script(&text, "routes").map_err(fail)?;
            rates.push(self.nets.len().min(LINES) as f64 / start.elapsed().as_secs_f64());
        }
        let rate = median(&mut rates);
        eprintln!("  {rate:.0} routes/s by command file");
        Ok(rate)
    }

    /// Changes a second, and a second of processor time: a route goes, comes back another way, and gets its
    /// next hop again, so many at a time.
    fn changes(&self, router: &mut Router, together: usize) -> Result<(f64, f64), BenchError> {
        let mut random = Random::new(11);
        let (mut rates, mut cpu) = (Vec::new(), Vec::new());
        for _ in 0..self.repeats {
            let (start, spent, mut done) = (Instant::now(), cpu_seconds()?, 0);
            while start.elapsed() < WINDOW {
                let some: Vec<usize> = (0..together)
                    .map(|_| random.below(self.nets.len()))
                    .collect();
                let other = |i: usize| &self.paths[(i * 7 + 3) % self.paths.len()][..];
                let none = |_: usize| &[][..];
                let back = |i: usize| self.paths_of(i);
                self.turn(router, &some, none)?;
                self.turn(router, &some, other)?;
                self.turn(router, &some, back)?;
                done += 3 * together;
            }
            rates.push(f64::from(done as u32) / start.elapsed().as_secs_f64());
            cpu.push(f64::from(done as u32) / (cpu_seconds()? - spent));
        }
        Ok((median(&mut rates), median(&mut cpu)))
    }

    fn turn<'s>(
        &'s self,
        router: &mut Router,
        some: &[usize],
        paths: impl Fn(usize) -> &'s [Path],
    ) -> Result<(), BenchError> {
        if let [i] = some {
            let (at, paths) = ((A::OF, 0, self.nets[*i]), paths(*i));
            let done = router.atomically(|r| match paths {
                [] => r.remove_route(at, &[]),
                paths => r.replace_route(at, paths.to_vec()),
            });
            return done.map_err(fail);
        }
        let changes = some.iter().map(|&i| (self.nets[i], paths(i)));
        let done = router.atomically(|r| r.change_routes((A::OF, 0), changes));
        done.map(drop).map_err(fail)
    }

    fn lookups(&self, router: &Router) -> Result<f64, BenchError> {
        let domain = &router.shared().domain;
        let mut reader = domain.register().map_err(|e| BenchError::of("reader", e))?;
        reader.online();
        let table = A::tables(router).control(0);
        let table = table.map_err(|e| BenchError::of("table", e))?;
        let dests = internet::destinations(&self.prefixes, DESTINATIONS, 5);
        self.prove(&table, &reader, &dests)?;
        let mut rates = Vec::new();
        for _ in 0..self.repeats {
            rates.push(window(&table, &reader, &dests)?);
        }
        Ok(median(&mut rates))
    }

    /// Every destination leads to a neighbour: a bench of misses would be a fast one.
    fn prove(&self, table: &Lpm<A>, reader: &Reader, dests: &[A]) -> Result<(), BenchError> {
        let mut out = vec![Dpo::MISS; dests.len()];
        table.view(reader).lookup_batch(dests, &mut out);
        let right = |(addr, dpo): (&A, &Dpo)| {
            let own = table.longest_match(*addr);
            own.is_some_and(|(_, d)| d == *dpo && d.kind() == DpoKind::Adjacency)
        };
        match dests.iter().zip(&out).all(right) {
            true => Ok(()),
            false => Err(BenchError("a lookup gives the wrong answer".into())),
        }
    }
}

/// Processor time of this thread so far.
fn cpu_seconds() -> Result<f64, BenchError> {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    let now = clock.now().map_err(|e| BenchError::of("clock", e))?;
    Ok(Duration::from(now).as_secs_f64())
}

/// Lookups a second of processor time, during one window.
fn window<A: Addr>(table: &Lpm<A>, reader: &Reader, dests: &[A]) -> Result<f64, BenchError> {
    let mut out = [Dpo::MISS; FRAME];
    let (start, spent, mut done) = (Instant::now(), cpu_seconds()?, 0u32);
    while start.elapsed() < WINDOW {
        for frame in dests.chunks(FRAME) {
            table.view(reader).lookup_batch(black_box(frame), &mut out);
            black_box(&mut out);
        }
        done += 1;
    }
    Ok(f64::from(done) * dests.len() as f64 / (cpu_seconds()? - spent))
}

/// A router without workers that has one interface.
fn router() -> Result<Router, BenchError> {
    let mut router = Router::model(&EngineConfig::default()).map_err(fail)?;
    router.run_script(SETUP, "setup").map_err(fail)?;
    Ok(router)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        "table",
        "routes",
        "bytes/route",
        "of that read",
        "load s",
        "of CPU",
        "unload s",
        "M lookups/s",
        "k changes/s",
        "k/CPU s",
        "k batched/s",
        "k commands/s",
    ];
    let mut table = Table::new("Routes", &columns);
    for r in rows {
        table.push([
            r.name.to_owned(),
            r.routes.to_string(),
            format!("{:.1}", r.bytes_per_route),
            format!("{:.1}", r.lookup_bytes_per_route),
            format!("{:.3}", r.load_seconds),
            format!("{:.3}", r.load_cpu_seconds),
            format!("{:.3}", r.unload_seconds),
            format!("{:.1}", r.lookups_per_second / 1e6),
            format!("{:.0}", r.changes_per_second / 1e3),
            format!("{:.0}", r.changes_per_cpu_second / 1e3),
            format!("{:.0}", r.batched_changes_per_second / 1e3),
            format!("{:.0}", r.command_routes_per_second / 1e3),
        ]);
    }
    table
}

fn bars(rows: &[Row]) -> Vec<Bar> {
    let row = |name: &str| rows.iter().find(|r| r.name == name);
    let mut bars = Vec::new();
    if let Some(r) = row("ip4-grown") {
        bars.push(Bar::at_most(
            "memory for 1.2 M IPv4 routes",
            r.bytes_per_route,
            60.0,
            "bytes/route",
        ));
        bars.push(Bar::at_most(
            "load of 1.2 M routes",
            r.load_seconds,
            1.0,
            "s",
        ));
    }
    for r in rows {
        let what = format!("changes, {}", r.name);
        bars.push(Bar::at_least(what, r.changes_per_second, 1e5, "changes/s"));
    }
    for (grown, real) in [("ip4-grown", "ip4-real"), ("ip6-grown", "ip6-real")] {
        if let (Some(grown), Some(real)) = (row(grown), row(real)) {
            bars.push(Bar::at_least(
                format!("lookups, {} to {}", grown.name, real.name),
                grown.lookups_per_second / real.lookups_per_second,
                0.9,
                "times",
            ));
        }
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_table_is_measured_whole() {
        let prefixes: Vec<_> = internet::ip4().unwrap().into_iter().step_by(300).collect();
        let row = Bench::new(prefixes, 1).row("few").unwrap();
        assert_eq!(row.routes, 3007);
        assert!(row.bytes_per_route > 0.0 && row.lookups_per_second > 0.0);
        let keys = serde_json::to_value(Figures { tables: vec![row] }).unwrap();
        for key in [
            "name",
            "routes",
            "bytes_per_route",
            "load_seconds",
            "lookups_per_second",
            "changes_per_second",
        ] {
            assert!(keys["tables"][0].get(key).is_some(), "{key}");
        }
    }

    #[test]
    fn an_unknown_table_is_named() {
        let args = FibArgs {
            tables: vec!["ip5".into()],
            repeats: 1,
        };
        let error = measure(&args).unwrap_err().to_string();
        assert!(error.starts_with("no table is called ip5: there are ip4-real,"));
    }
}
