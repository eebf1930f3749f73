//! `parshall bench api`: what calls of VPP's binary API cost a worker that forwards at full speed.
//!
//! A whole router as it runs: one worker forwards 64-byte frames from a generator to a sink, its control thread serves the API's
//! socket, and a client makes so many calls a second there: routes come and go, everything is dumped and looked at. Windows with calls
//! and without take turns, forth and back; the cost is the median over pairs of windows next to each other, by the CPU time that the
//! worker had. Control and client keep off the worker's CPU where there is another.

mod client;

use std::fs::File;
use std::net::Ipv4Addr;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parshall_api::{ApiConfig, ApiServer};
use parshall_control::run::{Wakeup, run};
use parshall_control::{Asker, EngineConfig, Router};
use parshall_linux::affinity;
use serde::Serialize;

use crate::forward::waited_ns;
use crate::internet::Random;
use crate::report::short;
use crate::stats::{Spread, median, round};
use crate::{Bar, BenchError, Report, Table};
use client::{Caller, Calls};

/// Most percent of traffic that calls may cost: what cannot be told from nothing.
const BAR: f64 = 1.0;
/// Time after a change that is not measured.
const WARM: Duration = Duration::from_millis(20);
/// A window counts when its worker waited for its CPU for less than this share of it.
const DISTURBED: f64 = 0.002;
/// How long the last packets may take to arrive.
const PATIENCE: Duration = Duration::from_secs(20);
/// Interfaces that packets come in on and leave by.
const SOURCE: u32 = 1;
const SINK: u32 = 2;
/// Where everything goes.
const HOP: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 2);
const SETUP: &str = "
create packet-generator interface pg0 hw-addr 02:00:00:00:00:01
create packet-generator interface pg1 hw-addr 02:00:00:00:00:02
set interface state pg0 up
set interface state pg1 up
set interface ip address pg0 198.18.0.1/24
set interface ip address pg1 198.18.1.1/24
set ip neighbor pg1 198.18.1.2 02:00:00:00:01:02 static
ip route add 0.0.0.0/0 via 198.18.1.2 pg1
packet-generator new { name s rate 0 size 64-64 interface pg0 node ethernet-input \
data { IP4: 0200.0000.0101 -> 0200.0000.0001 UDP: 198.18.0.2 -> 203.0.113.9 UDP: 1234 -> 2345 incrementing 18 } }";

/// `parshall bench api`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  parshall bench api
  parshall bench api --rate 5000 --rounds 20 --json")]
pub struct ApiArgs {
    /// Calls a second.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rate: u64,
    /// Rounds of two windows.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rounds: u32,
    /// Length of a window in milliseconds.
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    pub window_ms: u64,
    /// CPU of the worker.
    #[arg(long, default_value_t = 0)]
    pub cpu: usize,
}

/// What was measured, for machines.
#[derive(Serialize)]
struct Figures {
    rate: u64,
    calls: u64,
    calls_per_second: f64,
    refused: usize,
    /// From request to answer, in microseconds: median, 99 of 100, all.
    answer_us: [u32; 3],
    mpps_without: f64,
    mpps_with: f64,
    /// Percent of traffic that calls cost, by pairs.
    cost_percent: Spread,
    /// Pairs that were undisturbed, of all.
    pairs: [usize; 2],
    lost: u64,
}

/// Runs the bench.
///
/// # Errors
/// When it cannot be set up, or the connection breaks.
pub fn measure(args: &ApiArgs) -> Result<Report, BenchError> {
    // In a thread of its own: it leaves the worker its CPU, and the caller's stays where it may run.
    let args = args.clone();
    let builder = std::thread::Builder::new().name("bench-api".into());
    let run = builder.spawn(move || measure_here(&args));
    let run = run.map_err(|e| BenchError::of("thread", e))?;
    run.join()
        .map_err(|_| BenchError("the API bench panicked".into()))?
}

fn measure_here(args: &ApiArgs) -> Result<Report, BenchError> {
    let mut bed = Bed::new(args.cpu)?;
    // A refusal only makes the figures noisier.
    let _ = affinity::keep_off(&[args.cpu]);
    let dir = tempfile::tempdir().map_err(|e| BenchError::of("folder", e))?;
    let socket = dir.path().join("api.sock");
    let server = ApiServer::start(ApiConfig::new(&socket, None), bed.asker.clone());
    let server = server.map_err(|e| BenchError::of("binary API", e))?;
    let caller = Caller::start(&socket)?;
    let mut windows = [Vec::new(), Vec::new()];
    for round in 0..args.rounds {
        // Forth and back, so that what drifts is on both sides.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for with in order {
            caller.set_rate(if with == 1 { args.rate } else { 0 });
            std::thread::sleep(WARM);
            windows[with].push(bed.window(Duration::from_millis(args.window_ms))?);
        }
    }
    caller.set_rate(0);
    std::thread::sleep(WARM);
    let calls = caller.finish()?;
    let lost = bed.finish()?;
    drop(server);
    report(&figures(args, &windows, &calls, lost), args, &calls)
}

/// A stretch of time.
struct Window {
    /// Packets a second of CPU time.
    rate: f64,
    undisturbed: bool,
}

/// The router in its own thread.
struct Bed {
    asker: Asker,
    router: Option<JoinHandle<()>>,
    scheduler: Option<File>,
    /// Frames that left before the first packet came: the router announces its addresses.
    before: u64,
}

fn ended() -> BenchError {
    BenchError("the router has ended".into())
}

impl Bed {
    fn new(cpu: usize) -> Result<Bed, BenchError> {
        let (tell, told) = channel();
        let start = move || {
            let started = started(cpu).map_err(|e| BenchError::of("router", e));
            let (mut router, mut wakeup) = match started {
                Ok(started) => started,
                Err(e) => return drop(tell.send(Err(e))),
            };
            let _ = affinity::keep_off(&[cpu]);
            let _ = tell.send(Ok(wakeup.asker()));
            let (_requests, requests) = channel();
            run(&mut router, &requests, &mut wakeup);
        };
        let builder = std::thread::Builder::new().name("bench-control".into());
        let router = builder.spawn(start);
        let router = router.map_err(|e| BenchError::of("thread", e))?;
        let asker = told.recv().map_err(|_| ended())??;
        let mut bed = Bed {
            asker,
            router: Some(router),
            scheduler: None,
            before: 0,
        };
        let worker = bed.ask(|r| r.threads().into_iter().find(|t| t.is_worker)?.tid)?;
        bed.scheduler =
            worker.and_then(|t| File::open(format!("/proc/self/task/{t}/schedstat")).ok());
        bed.begin()?;
        Ok(bed)
    }

    /// Starts the traffic, once nothing else leaves.
    fn begin(&mut self) -> Result<(), BenchError> {
        let mut last = self.sent()?.1;
        loop {
            std::thread::sleep(WARM);
            self.before = self.sent()?.1;
            if self.before == last {
                break;
            }
            last = self.before;
        }
        let started = self.ask(|r| r.switch_stream(None, true))?;
        started.map_err(|e| BenchError::of("stream", e))
    }

    fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Router) -> T + Send + 'static,
    ) -> Result<T, BenchError> {
        self.asker.ask(job).ok_or_else(ended)
    }

    /// When, and how many packets have left by then.
    fn sent(&self) -> Result<(Instant, u64), BenchError> {
        self.ask(|r| (Instant::now(), r.interface_totals(SINK).tx_packets))
    }

    fn window(&self, length: Duration) -> Result<Window, BenchError> {
        let waited = waited_ns(self.scheduler.as_ref());
        let (start, before) = self.sent()?;
        std::thread::sleep(length);
        let (end, after) = self.sent()?;
        let waited = waited_ns(self.scheduler.as_ref()).saturating_sub(waited) as f64 / 1e9;
        let time = (end - start).as_secs_f64();
        Ok(Window {
            rate: (after - before) as f64 / (time - waited).max(1e-9),
            undisturbed: waited < DISTURBED * time,
        })
    }

    /// Stops the traffic; says how many packets never arrived.
    fn finish(&mut self) -> Result<u64, BenchError> {
        let stopped = self.ask(|r| r.switch_stream(None, false))?;
        stopped.map_err(|e| BenchError::of("stream", e))?;
        let before = self.before;
        let counts = move |r: &mut Router| {
            let (source, sink) = (r.interface_totals(SOURCE), r.interface_totals(SINK));
            (source.rx_packets, sink.tx_packets - before)
        };
        let start = Instant::now();
        let mut last = self.ask(counts)?;
        loop {
            std::thread::sleep(WARM);
            let now = self.ask(counts)?;
            if now == last && (now.0 == now.1 || start.elapsed() > PATIENCE) {
                return Ok(now.0.abs_diff(now.1));
            }
            last = now;
        }
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.asker.ask(|r| r.run_line("shutdown", false).is_ok());
        if let Some(router) = self.router.take() {
            // A panic there has been printed already.
            let _ = router.join();
        }
    }
}

/// A router that forwards, and what wakes it.
fn started(cpu: usize) -> Result<(Router, Wakeup), String> {
    let wakeup = Wakeup::without_signals().map_err(|e| e.to_string())?;
    let config = EngineConfig {
        cpus: vec![cpu],
        busy_poll: true,
        buffers: 4096,
        interfaces: 16,
        ..EngineConfig::default()
    };
    let mut router = Router::new(config).map_err(|e| e.to_string())?;
    router
        .run_script(SETUP, "setup")
        .map_err(|e| e.to_string())?;
    Ok((router, wakeup))
}

/// Percent that windows with calls are below those without, pair by pair; those that nobody disturbed, if there are enough.
fn cost(without: &[Window], with: &[Window]) -> (Spread, usize) {
    let pairs: Vec<(&Window, &Window)> = without.iter().zip(with).collect();
    let clean = |(a, b): &&(&Window, &Window)| a.undisturbed && b.undisturbed;
    let undisturbed: Vec<_> = pairs.iter().filter(clean).copied().collect();
    let n = undisturbed.len();
    let used = if n < 20 { pairs } else { undisturbed };
    let percent = used
        .iter()
        .map(|(without, with)| 100.0 * (1.0 - with.rate / without.rate));
    let spread = Spread::of(percent, &mut Random::new(1));
    (spread.map(|x| round(x, 2)), n)
}

fn figures(args: &ApiArgs, windows: &[Vec<Window>; 2], calls: &Calls, lost: u64) -> Figures {
    let [without, with] = windows;
    let (cost_percent, clean) = cost(without, with);
    let mut micros = calls.micros.clone();
    micros.sort_unstable();
    let at = |share: f64| {
        let last = micros.len().saturating_sub(1);
        micros
            .get((last as f64 * share) as usize)
            .copied()
            .unwrap_or(0)
    };
    let mpps = |w: &[Window]| round(median(w.iter().map(|w| w.rate)) / 1e6, 3);
    Figures {
        rate: args.rate,
        calls: calls.calls,
        calls_per_second: round(calls.calls as f64 / calls.seconds.max(1e-9), 1),
        refused: calls.refused.len(),
        answer_us: [at(0.5), at(0.99), at(1.0)],
        mpps_without: mpps(without),
        mpps_with: mpps(with),
        cost_percent,
        pairs: [clean, without.len()],
        lost,
    }
}

fn report(f: &Figures, args: &ApiArgs, calls: &Calls) -> Result<Report, BenchError> {
    let of = format!(
        "a router with one worker that forwards 64-byte frames from a generator to a sink in memory, {} calls a second of \
         VPP's binary API over its socket: routes added and deleted, dumps, lookups, command lines; medians of {} pairs \
         of windows with calls and without",
        short(args.rate as f64),
        args.rounds
    );
    let mut table = Table::new("API calls under traffic", &["what", "figure"]);
    let c = &f.cost_percent;
    let rows = [
        ("Mpps, no calls", format!("{:.2}", f.mpps_without)),
        ("Mpps, calls", format!("{:.2}", f.mpps_with)),
        (
            "cost, % (quartiles)",
            format!("{:.2} ({:.2} to {:.2})", c.median, c.q1, c.q3),
        ),
        ("calls/s", short(f.calls_per_second)),
        ("answer, us, median", f.answer_us[0].to_string()),
        ("answer, us, 99 of 100", f.answer_us[1].to_string()),
        ("answer, us, longest", f.answer_us[2].to_string()),
        ("calls refused", f.refused.to_string()),
        ("packets lost", f.lost.to_string()),
        (
            "pairs undisturbed",
            format!("{} of {}", f.pairs[0], f.pairs[1]),
        ),
    ];
    for (what, figure) in rows {
        table.push([what.to_owned(), figure]);
    }
    let bars = [
        Bar::at_most("traffic lost to API calls", c.median, BAR, "%"),
        Bar::at_least(
            "API calls answered",
            f.calls_per_second,
            args.rate as f64 * 0.99,
            "calls/s",
        ),
    ];
    let mut report = Report::new("api", of, f)?.with_table(table).with_bars(bars);
    report.faults.extend(calls.refused.first().cloned());
    if f.lost != 0 {
        report
            .faults
            .push(format!("api: {} packets were lost", f.lost));
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing may be lost or refused, however slow the machine is.
    #[test]
    fn a_short_run_loses_and_refuses_nothing() {
        let args = ApiArgs {
            rate: 500,
            rounds: 3,
            window_ms: 100,
            cpu: affinity::allowed_cpus().unwrap()[0],
        };
        let report = measure(&args).unwrap();
        assert!(report.faults.is_empty(), "{:?}", report.faults);
        let figures = report.json();
        assert!(figures["calls"].as_u64().unwrap() > 8, "{figures}");
        assert!(figures["mpps_without"].as_f64().unwrap() > 0.0, "{figures}");
    }
}
