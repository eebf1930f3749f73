//! A yardstick of the machine: DPDK's testpmd forwards between two null ports on one core.
//!
//! Its figure is of the bare loop (buffers are taken and freed, nothing is read or written), the same
//! program on every machine, so figures of two machines can be set against each other. It runs in the same
//! run as what it is a yardstick for, on the same CPU. As with our own figures, time in which other programs had
//! that CPU does not count: packets are set against the processor time of the forwarding thread, which sleeps
//! while forwarding is stopped. Follows the DPDK testpmd user guide (`io` forwarding, `start`, `stop`) and
//! proc(5) (`schedstat`).

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::BenchError;
use crate::report::{Table, short};
use crate::stats::{median, round};

/// Programs that serve as a yardstick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Program {
    /// DPDK's testpmd, null port to null port.
    Testpmd,
}

const TESTPMD: &str = "dpdk-testpmd";
const INSTALL: &str = "install it (Debian: apt-get install dpdk-dev) or leave --yardstick out";
/// Forwarding is started and stopped so often, for so long.
const WINDOWS: usize = 4;
const WINDOW: Duration = Duration::from_millis(400);
/// Longest time it may take to start and to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Checks that the program is there.
///
/// # Errors
/// When it is not; says how to get it.
pub fn present(program: Program) -> Result<(), BenchError> {
    let Program::Testpmd = program;
    match Command::new(TESTPMD)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
    {
        Ok(_) => Ok(()),
        Err(e) => Err(BenchError(format!(
            "{TESTPMD} cannot be run ({e}): {INSTALL}"
        ))),
    }
}

/// Windows of the yardstick so far.
#[derive(Default)]
pub struct Yardstick {
    mpps: Vec<f64>,
}

/// What the yardstick says.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// The program.
    pub program: &'static str,
    /// What it does.
    pub what: &'static str,
    /// Million packets a second, received and sent, both ports together: median of the windows.
    pub mpps: f64,
    /// Slowest window.
    pub mpps_min: f64,
    /// Fastest window.
    pub mpps_max: f64,
    /// Ticks a packet at the median.
    pub cycles_per_packet: f64,
    /// How many windows.
    pub windows: usize,
}

impl Yardstick {
    /// Whether it is time to measure before round `repeat` of `repeats`: at the start, in the middle and
    /// before the last.
    pub fn due(repeat: u32, repeats: u32) -> bool {
        repeat == 0 || repeat == repeats / 2 || repeat + 1 == repeats
    }

    /// Measures on `cpu`.
    ///
    /// # Errors
    /// When the program cannot be run or prints no rates.
    pub fn measure(&mut self, cpu: usize) -> Result<(), BenchError> {
        let (output, busy) = testpmd(cpu)?;
        let sent = sent(&output);
        if sent.len() != WINDOWS || busy.len() != WINDOWS {
            let last: Vec<_> = output.lines().rev().take(5).collect();
            let text = last.into_iter().rev().collect::<Vec<_>>().join("; ");
            return Err(BenchError(format!("{TESTPMD} gave no figures: {text}")));
        }
        let windows = sent.iter().zip(&busy);
        self.mpps
            .extend(windows.map(|(packets, ns)| packets * 1e3 / *ns as f64));
        Ok(())
    }

    /// What they come to.
    pub fn figures(&self) -> Figures {
        let mpps = median(self.mpps.iter().copied());
        let hz = parshall_linux::clock::tsc_hz() as f64;
        let fold = |f: fn(f64, f64) -> f64| self.mpps.iter().copied().reduce(f).unwrap_or(0.0);
        Figures {
            program: "testpmd",
            what: "io forwarding between two null ports, one core, bursts of 32",
            mpps: round(mpps, 2),
            mpps_min: round(fold(f64::min), 2),
            mpps_max: round(fold(f64::max), 2),
            cycles_per_packet: round(hz / 1e6 / mpps.max(1e-9), 2),
            windows: self.mpps.len(),
        }
    }
}

impl Figures {
    /// For people.
    pub fn table(&self) -> Table {
        let columns = ["program", "Mpps", "slowest", "fastest", "cycles", "what"];
        let mut table = Table::new("Yardstick of the machine, in the same run", &columns);
        table.push([
            self.program.to_owned(),
            short(self.mpps),
            short(self.mpps_min),
            short(self.mpps_max),
            short(self.cycles_per_packet),
            self.what.to_owned(),
        ]);
        table
    }
}

/// Runs testpmd for all windows; gives what it printed, and the nanoseconds that its forwarding thread ran in
/// each. The forwarding core is `cpu`, the main one (which only reads commands) any other if there is one.
fn testpmd(cpu: usize) -> Result<(String, Vec<u64>), BenchError> {
    let fail = |e: std::io::Error| BenchError::of(TESTPMD, e);
    let mut child = start(cpu)?;
    let output = reader(child.stdout.take());
    let errors = reader(child.stderr.take());
    let pid = child.id();
    let asked = match child.stdin.take() {
        Some(mut stdin) => command(&mut stdin, pid),
        None => Ok(Vec::new()),
    };
    let ended = end(&mut child);
    let text = |h: std::thread::JoinHandle<String>| h.join().unwrap_or_default();
    let (output, errors) = (text(output), text(errors));
    ended.map_err(fail)?;
    // A pipe that broke means that testpmd gave up, and why is in what it printed.
    Ok(match asked {
        Ok(busy) => (output, busy),
        Err(_) => (output + &errors, Vec::new()),
    })
}

fn start(cpu: usize) -> Result<Child, BenchError> {
    let allowed = parshall_linux::affinity::allowed_cpus();
    let allowed = allowed.map_err(|e| BenchError::of(TESTPMD, e))?;
    let main = allowed.iter().copied().find(|c| *c != cpu).unwrap_or(cpu);
    let prefix = format!("parshall-bench-{}", std::process::id());
    Command::new(TESTPMD)
        .args(["--no-pci", "--no-huge", "--no-telemetry", "-m", "512"])
        .args([
            "--lcores",
            &format!("0@{main},1@{cpu}"),
            "--main-lcore",
            "0",
        ])
        .args(["--file-prefix", &prefix])
        .args(["--vdev", "net_null0", "--vdev", "net_null1", "--"])
        .args([
            "-i",
            "--forward-mode=io",
            "--nb-cores=1",
            "--total-num-mbufs=8192",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| BenchError(format!("{TESTPMD} cannot be run ({e}): {INSTALL}")))
}

/// Starts and stops forwarding; gives the time that the forwarding thread ran in each window.
fn command(stdin: &mut impl Write, pid: u32) -> std::io::Result<Vec<u64>> {
    let mut windows = Vec::new();
    for _ in 0..WINDOWS {
        writeln!(stdin, "start")?;
        let (thread, before) = busiest_after(pid, WINDOW);
        writeln!(stdin, "stop")?;
        windows.push(at_rest(pid, &thread).saturating_sub(before));
    }
    writeln!(stdin, "quit")?;
    Ok(windows)
}

/// Waits until a thread of the process has run for `time`; gives it and what it had run before.
fn busiest_after(pid: u32, time: Duration) -> (String, u64) {
    let before = ran(pid);
    let start = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(20));
        let gained = |(thread, now): (String, u64)| {
            let then = before
                .iter()
                .find(|(t, _)| *t == thread)
                .map_or(0, |(_, ns)| *ns);
            (now.saturating_sub(then), thread, then)
        };
        let most = ran(pid).into_iter().map(gained).max();
        let (gain, thread, then) = most.unwrap_or_default();
        if u128::from(gain) >= time.as_nanos() || start.elapsed() > PATIENCE {
            return (thread, then);
        }
    }
}

/// What a thread has run, once it sleeps. One that waits for its CPU does not: its state is still R.
fn at_rest(pid: u32, thread: &str) -> u64 {
    let file = format!("/proc/{pid}/task/{thread}/stat");
    let sleeps = || std::fs::read_to_string(&file).is_ok_and(|stat| state(&stat) == Some('S'));
    let start = Instant::now();
    while !sleeps() && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    let threads = ran(pid);
    threads
        .iter()
        .find(|(t, _)| t == thread)
        .map_or(0, |(_, ns)| *ns)
}

/// The state in a thread's `stat`: behind its name, which stands in parentheses and may contain some.
fn state(stat: &str) -> Option<char> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.trim_start().chars().next()
}

/// Threads of a process and the nanoseconds each has run: the first number of its `schedstat`.
fn ran(pid: u32) -> Vec<(String, u64)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let one = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        let ns = text.split_whitespace().next()?.parse().ok()?;
        Some((task.file_name().to_string_lossy().into_owned(), ns))
    };
    tasks.filter_map(one).collect()
}

fn reader(from: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut from) = from {
            // What was read until an error is what there is.
            drop(from.read_to_end(&mut text));
        }
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Waits for the end, for a while; then ends it.
fn end(child: &mut Child) -> std::io::Result<()> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait().map(drop)
}

/// Packets sent by all ports in each window: the `TX-packets` behind each line of accumulated statistics.
fn sent(output: &str) -> Vec<f64> {
    let windows = output
        .split("Accumulated forward statistics for all ports")
        .skip(1);
    let number = |window: &str| {
        let (_, rest) = window.split_once("TX-packets:")?;
        rest.split_whitespace().next()?.parse().ok()
    };
    windows.filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOPPED: &str = "Waiting for lcores to finish...

  ---------------------- Forward statistics for port 0  ----------------------
  RX-packets: 234674048      RX-dropped: 0             RX-total: 234674048
  TX-packets: 234674048      TX-dropped: 0             TX-total: 234674048
  ----------------------------------------------------------------------------

  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++
  RX-packets: 469348096      RX-dropped: 0             RX-total: 469348096
  TX-packets: 469348090      TX-dropped: 0             TX-total: 469348096
  ++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++
";

    #[test]
    fn packets_are_of_all_ports() {
        assert_eq!(
            sent(&format!("EAL: x\n{STOPPED}{STOPPED}Bye...\n")),
            [469_348_090.0; 2]
        );
        assert_eq!(sent("EAL: Error - exiting with code: 1\n"), [0.0; 0]);
        assert_eq!(sent("TX-packets: 5"), [0.0; 0]);
        assert_eq!(
            sent("Accumulated forward statistics for all ports TX-packets: x"),
            [0.0; 0]
        );
    }

    #[test]
    fn the_state_is_behind_the_name() {
        assert_eq!(state("12 (a) b) S 1 2"), Some('S'));
        assert_eq!(state("12"), None);
    }

    #[test]
    fn the_yardstick_measures_this_machine() {
        let cpus = parshall_linux::affinity::allowed_cpus().unwrap();
        present(Program::Testpmd).unwrap();
        let mut yardstick = Yardstick::default();
        yardstick.measure(cpus[0]).unwrap();
        let figures = yardstick.figures();
        assert_eq!(figures.windows, WINDOWS);
        assert!(figures.mpps_min > 0.0, "{figures:?}");
    }

    #[test]
    fn it_is_measured_at_start_middle_and_end() {
        let due = |n| (0..n).filter(|i| Yardstick::due(*i, n)).collect::<Vec<_>>();
        assert_eq!(
            (due(9), due(1), due(2)),
            (vec![0, 4, 8], vec![0], vec![0, 1])
        );
    }

    #[test]
    fn medians_of_the_windows() {
        let yardstick = Yardstick {
            mpps: vec![100.0, 50.0, 160.0],
        };
        let f = yardstick.figures();
        assert_eq!(
            (f.mpps, f.mpps_min, f.mpps_max, f.windows),
            (100.0, 50.0, 160.0, 3)
        );
        assert_eq!(f.table().rows[0][1], "100.0");
    }
}
