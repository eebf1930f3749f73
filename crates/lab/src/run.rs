//! The course of the laboratory: build, warm up, measure, compare, perhaps stay, take away.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::args::LabArgs;
use crate::collector::Collector;
use crate::display::{self, Display, Moment};
use crate::error::{LabError, Result};
use crate::privilege::{self, Footing};
use crate::router::{Reading, Router};
use crate::stop::Stop;
use crate::tally::Tally;
use crate::topology::Topology;
use crate::traffic::{Traffic, reachable};
use crate::verdict::Verdict;
use crate::{hints, report};

/// How long counters and samples may take to come to rest once traffic has ended.
const SETTLE: Duration = Duration::from_secs(20);
/// Between two looks while they do. Samples wait up to a second for their datagram to fill.
const LOOK: Duration = Duration::from_millis(150);
/// Between two blocks on the screen.
const SECOND: Duration = Duration::from_secs(1);
/// Exit status after a signal, as shells have it.
const INTERRUPTED: u8 = 130;

/// Runs the laboratory. Exit status 0 if everything held, 1 if something did not or could not be done, 130 after a signal.
pub fn run(args: LabArgs) -> ExitCode {
    let error = match lab(&args) {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => return ExitCode::FAILURE,
        Err(error) => error,
    };
    if args.json {
        print(&json!({"ok": false, "error": error.to_string()}));
    }
    let _ = writeln!(io::stderr(), "parshall lab: {error}");
    match error {
        LabError::Interrupted => ExitCode::from(INTERRUPTED),
        _ => ExitCode::FAILURE,
    }
}

fn lab(args: &LabArgs) -> Result<bool> {
    // First of all: a user namespace can only be entered before there are threads.
    let footing = privilege::obtain()?;
    let stop = Stop::on_signals()?;
    let mut display = Display::new(args.json);
    if footing == Footing::UserNamespace {
        display.say("not root: working in a user namespace");
    }
    display.say("making two hosts, a router between them, and a collector");
    let topology = Topology::build(std::process::id())?;
    let collector = Collector::start(&topology.router)?;
    let router = Router::start(&topology, args.rate, collector.address(), &stop)?;
    let mut lab = Lab {
        args,
        stop,
        display,
        topology,
        collector,
        router,
    };
    let verdict = lab.measure()?;
    if args.json {
        print(&verdict.json());
    } else {
        report::lines(&verdict)
            .iter()
            .for_each(|line| lab.display.say(line));
    }
    if args.keep {
        lab.keep(footing)?;
    }
    // Declared last, dropped first: the router ends before its namespace goes.
    lab.router.end()?;
    Ok(verdict.ok())
}

/// The whole of it. Fields are dropped in this order, the router before its interfaces.
struct Lab<'a> {
    args: &'a LabArgs,
    stop: Stop,
    display: Display,
    router: Router,
    collector: Collector,
    topology: Topology,
}

impl Lab<'_> {
    /// Warms up, runs traffic for the time wished, and compares.
    fn measure(&mut self) -> Result<Verdict> {
        reachable(&self.topology, &self.stop).map_err(|e| self.explain(e))?;
        let (start, _) = self.settle(0.0)?;
        self.display.say(&format!(
            "traffic for {} seconds: TCP both ways, UDP and ping over IPv4 and IPv6, and an MPLS stream from A to B",
            self.args.seconds
        ));
        let traffic = Traffic::everything(&self.topology)?;
        self.watch(&start)?;
        let reports = traffic.finish();
        self.stop.check()?;
        self.display
            .say("traffic has ended; waiting for the last samples");
        let (end, settled) = self.settle(self.args.seconds as f64)?;
        Ok(Verdict::new(&start, &end, self.args.rate, reports, settled))
    }

    /// Shows what happens until the time is over.
    fn watch(&mut self, start: &Moment) -> Result<()> {
        let began = Instant::now();
        let mut before = start.clone();
        for n in 1..=self.args.seconds {
            self.stop.wait_until(began + SECOND * n as u32);
            self.stop.check()?;
            self.router.check()?;
            let now = self.moment(began.elapsed().as_secs_f64())?;
            self.display
                .block(&display::lines(&before, &now, start, self.args.seconds));
            before = now;
        }
        Ok(())
    }

    fn moment(&mut self, seconds: f64) -> Result<Moment> {
        Ok(Moment {
            seconds,
            readings: self.router.readings()?,
            drops: self.router.drops()?,
            tally: self.collector.snapshot(),
        })
    }

    /// Waits until the counters stand still, the names of the interfaces are known and every sample taken has arrived.
    /// Says whether that came about; if not, the numbers say what is missing.
    fn settle(&mut self, seconds: f64) -> Result<(Moment, bool)> {
        let deadline = Instant::now() + SETTLE;
        let mut before = self.moment(seconds)?;
        loop {
            self.stop.wait(LOOK);
            self.stop.check()?;
            let now = self.moment(seconds)?;
            let settled = is_settled(&before.readings, &now.readings, &now.tally);
            if settled || Instant::now() > deadline {
                return Ok((now, settled));
            }
            before = now;
        }
    }

    /// Puts what the router dropped behind an error, which is usually the reason.
    fn explain(&mut self, error: LabError) -> LabError {
        match (error, self.router.drops()) {
            (LabError::Router(text), Ok(drops)) => {
                let drops = display::drops_text(&Default::default(), &drops);
                LabError::Router(format!("{text}; the router dropped: {drops}"))
            }
            (error, _) => error,
        }
    }

    /// Leaves everything running until a signal comes.
    fn keep(&mut self, footing: Footing) -> Result<()> {
        let traffic = Traffic::light(&self.topology)?;
        for line in hints::lines(&self.topology, footing) {
            self.display.say(&line);
        }
        while !self.stop.asked() {
            self.stop.wait(SECOND);
            self.router.check()?;
        }
        traffic.finish();
        Ok(())
    }
}

/// Whether two looks show the same and no sample is on its way.
fn is_settled(before: &[Reading], now: &[Reading], tally: &Tally) -> bool {
    let arrived = |r: &Reading| {
        let index = tally.index_of(&r.name);
        index.is_some_and(|i| tally.sources.get(&i).map_or(0, |s| s.sums.n) == r.samples)
    };
    before == now && now.iter().all(arrived)
}

fn print(value: &Value) {
    // If nobody reads it, the exit status still says how it went.
    let _ = writeln!(io::stdout(), "{value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settled_means_quiet_and_complete() {
        let reading = |rx_packets, samples| {
            vec![Reading {
                name: "host-vethA".into(),
                rx_packets,
                samples,
                ..Reading::default()
            }]
        };
        let mut tally = Tally::default();
        assert!(
            !is_settled(&reading(5, 0), &reading(5, 0), &tally),
            "its name is not known yet"
        );
        tally.names.insert(3, "host-vethA".into());
        assert!(is_settled(&reading(5, 0), &reading(5, 0), &tally));
        assert!(
            !is_settled(&reading(4, 0), &reading(5, 0), &tally),
            "packets still come"
        );
        assert!(
            !is_settled(&reading(5, 1), &reading(5, 1), &tally),
            "a sample is on its way"
        );
        tally.sources.entry(3).or_default().sums.add(100, 60);
        assert!(is_settled(&reading(5, 1), &reading(5, 1), &tally));
    }
}
