//! A testpmd with two memif ports that forwards what it gets from one to the other.
//!
//! Follows the DPDK testpmd user guide (`io` forwarding, `start tx_first`, `show port stats`) and the guide
//! of its memif driver.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use parshall_drivers::memif::Role;

use crate::BenchError;

const PROGRAM: &str = "dpdk-testpmd";
/// Longest time for anything it is asked.
const PATIENCE: Duration = Duration::from_secs(30);

/// What it sends at the start and then hands to and fro.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Packets it sends from each port at first, and takes at a time.
    pub burst: u32,
    /// Bytes of each.
    pub bytes: u16,
}

/// A running testpmd.
pub struct Testpmd {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    last: Vec<String>,
    /// Where it keeps files of its own, and leaves them.
    folder: PathBuf,
}

impl Testpmd {
    /// Starts one on `cpu` whose ports 0 and 1 are interfaces 0 and 1 on `socket`, and waits until it takes
    /// commands. Its memory is of plain pages, so that nothing has to be reserved.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn start(
        socket: &str,
        role: Role,
        cpu: usize,
        traffic: Traffic,
    ) -> Result<Testpmd, BenchError> {
        let role = match role {
            Role::Master => "server",
            Role::Slave => "client",
        };
        let device = |n: u32| {
            format!("--vdev=net_memif{n},role={role},id={n},socket={socket},socket-abstract=no")
        };
        // Two of them on one host must not take each other for the same.
        let prefix = format!("parshall-{}-{role}-{cpu}", std::process::id());
        // Into a pipe it would print nothing before it ends.
        let mut child = Command::new("stdbuf")
            .args(["-oL", PROGRAM])
            .args(["--no-pci", "--no-huge", "--no-telemetry", "-m", "256"])
            .args(["--lcores", &format!("0@{cpu},1@{cpu}")])
            .args(["--file-prefix", &prefix])
            .args([device(0), device(1)])
            .args(["--", "-i", "--forward-mode=io", "--nb-cores=1"])
            .arg("--total-num-mbufs=8192")
            .arg(format!("--burst={}", traffic.burst))
            .arg(format!("--txpkts={}", traffic.bytes))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| {
                BenchError(format!(
                    "{PROGRAM} cannot be run ({e}); install it: apt-get install dpdk-dev"
                ))
            })?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(BenchError(format!("{PROGRAM} has no pipes")));
        };
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let mut testpmd = Testpmd {
            child,
            stdin,
            lines,
            last: Vec::new(),
            folder: PathBuf::from("/var/run/dpdk").join(&prefix),
        };
        // The prompt ends no line: ask for something that does.
        testpmd.say("show port info 1")?;
        testpmd.hear("Infos for port 1")?;
        Ok(testpmd)
    }

    /// Gives a command.
    ///
    /// # Errors
    /// When it is gone.
    pub fn say(&mut self, command: &str) -> Result<(), BenchError> {
        let said = writeln!(self.stdin, "{command}").and_then(|()| self.stdin.flush());
        said.map_err(|e| self.gone(&e.to_string()))
    }

    /// The next line that has `text` in it.
    fn hear(&mut self, text: &str) -> Result<String, BenchError> {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.map_err(|e| self.gone(&format!("no {text:?}: {e}")))?;
            if line.contains(text) {
                return Ok(line);
            }
            self.last.push(line);
            if self.last.len() > 6 {
                self.last.remove(0);
            }
        }
    }

    fn gone(&self, why: &str) -> BenchError {
        BenchError(format!(
            "{PROGRAM}: {why}; it said last: {}",
            self.last.join(" / ")
        ))
    }

    /// Waits until both ports have their peers.
    ///
    /// # Errors
    /// When they do not get them.
    pub fn wait_up(&mut self) -> Result<(), BenchError> {
        let end = Instant::now() + PATIENCE;
        for port in 0..2 {
            loop {
                self.say(&format!("show port info {port}"))?;
                if self.hear("Link status: ")?.contains("up") {
                    break;
                }
                if Instant::now() > end {
                    return Err(self.gone("its ports stay down"));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Million packets a second received since the last time this was asked, both ports together.
    ///
    /// # Errors
    /// When it does not say.
    pub fn rate(&mut self) -> Result<f64, BenchError> {
        self.say("show port stats all")?;
        let mut sum = 0.0;
        for _ in 0..2 {
            let line = self.hear("Rx-pps:")?;
            let number = line.split_whitespace().nth(1).unwrap_or_default();
            let pps: Result<f64, _> = number.parse();
            sum += pps.map_err(|_| self.gone(&line))?;
        }
        Ok(sum / 1e6)
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let asked = self.say("stop").and_then(|()| self.say("quit"));
        let end = Instant::now() + PATIENCE / 6;
        let mut ended = false;
        while asked.is_ok() && !ended && Instant::now() < end {
            ended = matches!(self.child.try_wait(), Ok(Some(_)));
            std::thread::sleep(Duration::from_millis(5));
        }
        if !ended {
            // What does not end by itself is ended.
            drop(self.child.kill());
            drop(self.child.wait());
        }
        drop(std::fs::remove_dir_all(&self.folder));
    }
}
