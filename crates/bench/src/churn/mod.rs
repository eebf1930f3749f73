//! `parshall bench churn`: routes change all the time while a worker forwards at full speed.
//!
//! A whole router holds the Internet's tables. One worker forwards packets to 16,384 destinations of each
//! family that always have a route, while control carries out changes as a BGP speaker would ask for them,
//! at a steady rate: new next hops, more-specifics that flap, withdrawals, two paths instead of one, and
//! now and then a recursive next hop that moves, with all routes over it. Then everything stops and is
//! compared: not one packet may be missing, every prefix must lead where the reference model says, in
//! control and in the tables that workers read, and the memory must have stayed within its bounds. What
//! must be exact is an error when it is not; what depends on the machine is a figure.

mod model;
mod world;

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::internet::Random;
use crate::report::short;
use crate::{Bar, BenchError, Report, Table};
use model::Model;
use world::{Traffic, World};

/// Arguments of the churn bench.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  parshall bench churn
  parshall bench churn --seconds 600 --rate 100000 --json")]
pub struct ChurnArgs {
    /// How long routes change.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Changes a second.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub rate: u64,
    /// Use only every N-th prefix of the Internet.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000), value_name = "N")]
    pub one_in: u32,
    /// CPU of the worker; control takes another one where there is one.
    #[arg(long, default_value_t = 0)]
    pub cpu: usize,
    /// Fixes the sequence of changes.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Windows in which the rate without changes is measured, before and after.
const STILL: Duration = Duration::from_millis(1500);
/// How long the worker may do nothing.
const PATIENCE: Duration = Duration::from_secs(60);
/// Changes are carried out in portions of this many seconds' worth.
const PORTION: f64 = 0.001;
/// Memory may grow by this share of what it was after the warm-up, and this much.
const GROWTH: (f64, u64) = (0.10, 64 << 20);

/// What was found.
#[derive(Debug, Serialize)]
struct Found {
    prefixes: usize,
    seconds: f64,
    changes: u64,
    changes_per_second: f64,
    /// Longest time one portion of changes took, in ms.
    slowest_portion_ms: f64,
    packets: u64,
    lost: u64,
    wrong_routes: usize,
    mpps_without: f64,
    mpps_with: f64,
    rss_mib_start: u64,
    rss_mib_end: u64,
    table_mib: u64,
    load_seconds: f64,
}

/// Runs the bench.
///
/// # Errors
/// When it cannot be set up, or a change is refused.
pub fn measure(args: &ChurnArgs) -> Result<Report, BenchError> {
    // In a thread of its own: it leaves the worker its CPU, and this thread stays where it may run.
    let control = std::thread::Builder::new().name("churn".into());
    let args = args.clone();
    let run = control.spawn(move || run(&args).map(|found| (found, args)));
    let run = run.map_err(|e| BenchError::of("thread", e))?;
    let done = run.join();
    let ((found, faults), args) =
        done.map_err(|_| BenchError("the churn thread panicked".into()))??;
    let mut report = report(&found, &args)?;
    report.faults = faults;
    Ok(report)
}

fn run(args: &ChurnArgs) -> Result<(Found, Vec<String>), BenchError> {
    let mut model = Model::new(args.one_in as usize, args.seed)?;
    let mut world = World::new(args.cpu, &model)?;
    pin_control(args.cpu);
    let started = Instant::now();
    world.load(&model)?;
    let load_seconds = started.elapsed().as_secs_f64();
    eprintln!("loaded {} routes in {load_seconds:.1} s", model.present());
    let wrong = world.compare(&model)?;
    world.start()?;
    let before = still(&mut world)?;
    let mut run = Run::new(&world);
    run.churn(&mut world, &mut model, args)?;
    let with = run.rate();
    let after = still(&mut world)?;
    let traffic = world.finish()?;
    let wrong = wrong + world.compare(&model)?;
    let found = Found {
        prefixes: model.len(),
        seconds: run.seconds,
        changes: run.changes,
        changes_per_second: run.changes as f64 / run.seconds,
        slowest_portion_ms: run.slowest * 1e3,
        packets: traffic.made,
        lost: traffic.made.abs_diff(traffic.arrived),
        wrong_routes: wrong,
        mpps_without: (before + after) / 2.0,
        mpps_with: with,
        rss_mib_start: run.warm_rss >> 20,
        rss_mib_end: run.rss >> 20,
        table_mib: world.table_bytes() as u64 >> 20,
        load_seconds,
    };
    let faults = faults(&found, &run, &traffic, &mut world);
    Ok((found, faults))
}

/// Control leaves the worker its CPU, where there are two.
fn pin_control(worker: usize) {
    let cpus = parshall_linux::affinity::allowed_cpus().unwrap_or_default();
    if let Some(cpu) = cpus.into_iter().find(|c| *c != worker) {
        // A refusal only makes the figures noisier.
        let _ = parshall_linux::affinity::pin(cpu);
    }
}

/// Million packets a second while no route changes. A machine under load may not let the worker run at once.
fn still(world: &mut World) -> Result<f64, BenchError> {
    let (start, made) = (Instant::now(), world.traffic().made);
    loop {
        world.turn();
        std::thread::sleep(Duration::from_millis(1));
        let (time, n) = (start.elapsed(), world.traffic().made - made);
        if time >= STILL && n > 0 {
            return Ok(n as f64 / time.as_secs_f64() / 1e6);
        }
        if time > PATIENCE {
            return Err(BenchError(format!(
                "churn: the worker has made no packet for {} s",
                PATIENCE.as_secs()
            )));
        }
    }
}

/// The changes under way.
struct Run {
    start: Instant,
    first: Traffic,
    last: Traffic,
    seconds: f64,
    changes: u64,
    slowest: f64,
    /// Resident bytes after a tenth of the time, and at the end.
    warm_rss: u64,
    rss: u64,
}

impl Run {
    fn new(world: &World) -> Run {
        let now = world.traffic();
        Run {
            start: Instant::now(),
            first: now,
            last: now,
            seconds: 0.0,
            changes: 0,
            slowest: 0.0,
            warm_rss: 0,
            rss: 0,
        }
    }

    fn rate(&self) -> f64 {
        (self.last.made - self.first.made) as f64 / self.seconds / 1e6
    }

    fn churn(
        &mut self,
        world: &mut World,
        model: &mut Model,
        args: &ChurnArgs,
    ) -> Result<(), BenchError> {
        let mut random = Random::new(args.seed ^ 0xC4A9);
        let most = args.seconds as f64;
        let mut said = 0;
        loop {
            let now = self.start.elapsed().as_secs_f64();
            if now >= most {
                break;
            }
            let due = (now * args.rate as f64) as u64;
            // What is behind is caught up on in portions, so that control's other work has its turn.
            let portion = (args.rate as f64 * PORTION).ceil() as u64;
            let n = (due - self.changes).min(4 * portion);
            if n < portion {
                world.turn();
                std::thread::sleep(Duration::from_micros(200));
                continue;
            }
            let began = Instant::now();
            world.apply(model, n, &mut random)?;
            self.slowest = self.slowest.max(began.elapsed().as_secs_f64());
            self.changes += n;
            world.turn();
            if self.warm_rss == 0 && now > most / 10.0 {
                self.warm_rss = resident();
            }
            if now as u64 / 10 > said {
                said = now as u64 / 10;
                self.say(world, now);
            }
        }
        self.seconds = self.start.elapsed().as_secs_f64();
        self.last = world.traffic();
        self.rss = resident();
        self.warm_rss = if self.warm_rss == 0 {
            self.rss
        } else {
            self.warm_rss
        };
        Ok(())
    }

    fn say(&self, world: &World, now: f64) {
        let t = world.traffic();
        eprintln!(
            "{now:.0} s: {} changes ({}/s), {} packets, {} drops, {} MiB resident",
            self.changes,
            short(self.changes as f64 / now),
            t.made,
            t.drops,
            resident() >> 20
        );
    }
}

/// What must be exact and is not.
fn faults(found: &Found, run: &Run, traffic: &Traffic, world: &mut World) -> Vec<String> {
    let mut faults = Vec::new();
    if found.lost != 0 {
        faults.push(format!(
            "churn: {} packets were made, {} arrived, {} were dropped\n{}",
            traffic.made,
            traffic.arrived,
            traffic.drops,
            world.errors()
        ));
    }
    if found.wrong_routes != 0 {
        let n = found.wrong_routes;
        faults.push(format!("churn: {n} routes are not what the model says"));
    }
    let most = run.warm_rss + (run.warm_rss as f64 * GROWTH.0) as u64 + GROWTH.1;
    if run.rss > most {
        faults.push(format!(
            "churn: memory grew from {} to {} MiB",
            run.warm_rss >> 20,
            run.rss >> 20
        ));
    }
    faults
}

fn report(found: &Found, args: &ChurnArgs) -> Result<Report, BenchError> {
    let of = format!(
        "a router with the Internet's tables ({} prefixes known, 1 in {}), one worker that forwards 64-byte \
         frames from a generator to a sink in memory, routes changing {} times a second",
        found.prefixes,
        args.one_in,
        short(args.rate as f64)
    );
    let mut table = Table::new("Route changes under traffic", &["what", "figure"]);
    let rows = [
        ("seconds", short(found.seconds)),
        ("changes", short(found.changes as f64)),
        ("changes/s", short(found.changes_per_second)),
        ("slowest portion, ms", short(found.slowest_portion_ms)),
        ("packets", short(found.packets as f64)),
        ("packets lost", found.lost.to_string()),
        ("wrong routes", found.wrong_routes.to_string()),
        ("Mpps, no changes", short(found.mpps_without)),
        ("Mpps, changes", short(found.mpps_with)),
        ("resident MiB, warm", found.rss_mib_start.to_string()),
        ("resident MiB, end", found.rss_mib_end.to_string()),
    ];
    for (what, figure) in rows {
        table.push([what.to_owned(), figure]);
    }
    let bars = [
        Bar::at_most("packets lost", found.lost as f64, 0.0, "packets"),
        Bar::at_most(
            "routes that differ",
            found.wrong_routes as f64,
            0.0,
            "routes",
        ),
        Bar::at_least(
            "changes carried out",
            found.changes_per_second,
            args.rate as f64 * 0.99,
            "changes/s",
        ),
    ];
    Ok(Report::new("churn", of, found)?
        .with_table(table)
        .with_bars(bars))
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok());
    // Linux counts them in units of the smallest page, which is 4 KiB wherever this runs.
    pages.unwrap_or(0) * 4096
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing may be lost or wrong, however slow the machine is: then fewer changes are carried out.
    #[test]
    fn a_short_run_loses_nothing() {
        let args = ChurnArgs {
            seconds: 2,
            rate: 50_000,
            one_in: 40,
            cpu: parshall_linux::affinity::allowed_cpus().unwrap()[0],
            seed: 3,
        };
        let report = measure(&args).unwrap();
        assert!(report.faults.is_empty(), "{:?}", report.faults);
        assert!(report.json()["changes"].as_u64().unwrap() > 1000);
    }
}
