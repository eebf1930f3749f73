//! A yardstick of the machine: DPDK's testpmd forwards between two null ports on one core.
//!
//! Its figure is of the bare loop (buffers are taken and freed, nothing is read or written), the same
//! program on every machine, so figures of two machines can be set against each other. It runs in the same
//! run as what it is a yardstick for, on the same CPU. Follows the DPDK testpmd user guide (`io` forwarding,
//! `show port stats`).

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
/// Statistics are printed so often.
const PERIODS: u32 = 8;
const PERIOD: Duration = Duration::from_millis(250);
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
    /// Million packets a second, received and sent, both ports together: median of the periods.
    pub mpps: f64,
    /// Slowest period.
    pub mpps_min: f64,
    /// Fastest period.
    pub mpps_max: f64,
    /// Ticks a packet at the median.
    pub cycles_per_packet: f64,
    /// How many periods.
    pub periods: usize,
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
        let output = testpmd(cpu)?;
        let rates = rates(&output);
        if rates.len() < 2 {
            let last: Vec<_> = output.lines().rev().take(5).collect();
            let text = last.into_iter().rev().collect::<Vec<_>>().join("; ");
            return Err(BenchError(format!("{TESTPMD} gave no rates: {text}")));
        }
        // The first is since the start of the program.
        self.mpps.extend(&rates[1..]);
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
            periods: self.mpps.len(),
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

/// Runs testpmd for all periods; gives what it printed. The forwarding core is `cpu`, the main one (which
/// only reads commands) any other if there is one.
fn testpmd(cpu: usize) -> Result<String, BenchError> {
    let fail = |e: std::io::Error| BenchError::of(TESTPMD, e);
    let allowed = parshall_linux::affinity::allowed_cpus();
    let allowed = allowed.map_err(|e| BenchError::of(TESTPMD, e))?;
    let main = allowed.iter().copied().find(|c| *c != cpu).unwrap_or(cpu);
    let prefix = format!("parshall-bench-{}", std::process::id());
    let mut child = Command::new(TESTPMD)
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
        .map_err(|e| BenchError(format!("{TESTPMD} cannot be run ({e}): {INSTALL}")))?;
    let output = reader(child.stdout.take());
    let errors = reader(child.stderr.take());
    let asked = child
        .stdin
        .take()
        .map_or(Ok(()), |mut stdin| command(&mut stdin));
    let ended = end(&mut child);
    let text = |h: std::thread::JoinHandle<String>| h.join().unwrap_or_default();
    let (output, errors) = (text(output), text(errors));
    ended.map_err(fail)?;
    // A pipe that broke means that testpmd gave up, and why is in what it printed.
    match asked {
        Ok(()) => Ok(output),
        Err(_) => Ok(output + &errors),
    }
}

fn command(stdin: &mut impl Write) -> std::io::Result<()> {
    writeln!(stdin, "start")?;
    for _ in 0..=PERIODS {
        std::thread::sleep(PERIOD);
        writeln!(stdin, "show port stats all")?;
    }
    writeln!(stdin, "stop\nquit")
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

/// Million packets a second sent in each `show port stats all`: the ports' `Tx-pps` together. A port that
/// was already named starts a new one.
fn rates(output: &str) -> Vec<f64> {
    let mut rates: Vec<f64> = Vec::new();
    let mut ports: Vec<u32> = Vec::new();
    for line in output.lines() {
        if let Some((_, port)) = line.split_once("NIC statistics for port ") {
            let digits = port.split_whitespace().next().unwrap_or_default();
            let Ok(port) = digits.parse() else { continue };
            if ports.is_empty() || ports.contains(&port) {
                ports.clear();
                rates.push(0.0);
            }
            ports.push(port);
        } else if let Some((_, rest)) = line.split_once("Tx-pps:") {
            let number = rest.split_whitespace().next().unwrap_or_default();
            if let (Some(sum), Ok(pps)) = (rates.last_mut(), number.parse::<f64>()) {
                *sum += pps / 1e6;
            }
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATS: &str = "testpmd> show port stats all

  ######################## NIC statistics for port 0  ########################
  RX-packets: 192008096  RX-missed: 0          RX-bytes:  0
  RX-errors: 0
  RX-nombuf:  0         
  TX-packets: 191558816  TX-errors: 0          TX-bytes:  0

  Throughput (since last show)
  Rx-pps:     32132539          Rx-bps:            0
  Tx-pps:     32000000          Tx-bps:            0
  ############################################################################

  ######################## NIC statistics for port 1  ########################
  RX-packets: 192008096  RX-missed: 0          RX-bytes:  0

  Throughput (since last show)
  Rx-pps:     32132542          Rx-bps:            0
  Tx-pps:     31500000          Tx-bps:            0
  ############################################################################
";

    #[test]
    fn rates_are_of_all_ports() {
        assert_eq!(
            rates(&format!("EAL: x\n{STATS}{STATS}Bye...\n")),
            [63.5, 63.5]
        );
        assert_eq!(rates("EAL: Error - exiting with code: 1\n"), [0.0; 0]);
        assert_eq!(rates("Tx-pps: 5"), [0.0; 0]);
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
    fn medians_of_the_periods() {
        let yardstick = Yardstick {
            mpps: vec![100.0, 50.0, 160.0],
        };
        let f = yardstick.figures();
        assert_eq!(
            (f.mpps, f.mpps_min, f.mpps_max, f.periods),
            (100.0, 50.0, 160.0, 3)
        );
        assert_eq!(f.table().rows[0][1], "100.0");
    }
}
