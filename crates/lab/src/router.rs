//! The router under test: its configuration, its process, and what its command socket says.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parshall_cli::Connection;
use serde::Deserialize;
use serde_json::Value;

use crate::error::{LabError, Result};
use crate::stop::Stop;
use crate::sys::die_with_parent;
use crate::topology::{A, B, Site, Topology};
use crate::traffic::{LABEL_IN, LABEL_OUT};

/// How long the router may take until it answers commands.
const START: Duration = Duration::from_secs(20);
/// How long it may take to end when asked to.
const END: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(50);
/// Seconds between counter reports, which also tell the collector the interfaces' names.
const POLLING: u32 = 2;
/// Lines of its log that are shown when it fails.
const LOG_LINES: usize = 12;

/// Counters of one interface, as the router tells them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Reading {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Samples taken.
    pub samples: u64,
    /// Frames that could have been sampled.
    pub sample_pool: u64,
    /// Samples lost.
    pub sample_drops: u64,
}

/// The router's process and a connection to it. Dropping it ends the process.
pub struct Router {
    child: Child,
    connection: Connection,
    log: PathBuf,
}

impl Router {
    /// Starts the router in its namespace and waits until it answers commands.
    ///
    /// # Errors
    /// When it cannot be started, ends by itself or does not answer; the end of its log is in the text.
    pub fn start(t: &Topology, rate: u32, collector: SocketAddr, stop: &Stop) -> Result<Router> {
        let file = t.folder().join("router.yaml");
        fs::write(&file, config(t, rate, collector))
            .map_err(LabError::io(format!("write {}", file.display())))?;
        let log = t.folder().join("router.log");
        let making = || LabError::io(format!("make {}", log.display()));
        let out = File::create(&log).map_err(making())?;
        let err = out.try_clone().map_err(making())?;
        // This very program, also if its file was replaced meanwhile.
        let mut command = t.router.command("/proc/self/exe")?;
        command
            .arg0("parshall")
            .args(["run", "-c"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            // Ctrl-C is for us: the router ends when we are done with it.
            .process_group(0);
        die_with_parent(&mut command);
        let child = command
            .spawn()
            .map_err(LabError::io("start the router (parshall run)"))?;
        let guard = ChildGuard(Some(child));
        connect(guard, t.socket(), log, stop)
    }

    /// An error if it has ended by itself.
    ///
    /// # Errors
    /// With the end of its log.
    pub fn check(&mut self) -> Result<()> {
        check(&mut self.child, &self.log)
    }

    /// Executes a command and returns its data.
    ///
    /// # Errors
    /// When the router cannot be asked, or refuses the command.
    pub fn ask(&mut self, command: &str) -> Result<Value> {
        let reply = self.connection.execute(command, true).map_err(|e| {
            // If it has ended, that is the better story.
            check(&mut self.child, &self.log)
                .err()
                .unwrap_or_else(|| LabError::Router(format!("cannot ask the router: {e}")))
        })?;
        match (reply.ok, reply.data, reply.error) {
            (true, Some(data), _) => Ok(data),
            (true, None, _) => Err(LabError::Router(format!(
                "the router gives no data for \"{command}\""
            ))),
            (false, _, error) => Err(LabError::Router(format!(
                "the router refuses \"{command}\": {}",
                error.unwrap_or_default()
            ))),
        }
    }

    /// The counters of its interfaces towards the hosts.
    ///
    /// # Errors
    /// As [`Router::ask`], and when an interface is missing.
    pub fn readings(&mut self) -> Result<Vec<Reading>> {
        let data = self.ask("show interface")?;
        [A.router_if, B.router_if]
            .iter()
            .map(|name| reading(&data, &interface(name)))
            .collect()
    }

    /// Drops by reason.
    ///
    /// # Errors
    /// As [`Router::ask`].
    pub fn drops(&mut self) -> Result<BTreeMap<String, u64>> {
        Ok(drops(&self.ask("show errors")?))
    }

    /// Ends it.
    ///
    /// # Errors
    /// When it does not end in time (then it is killed) or ends with an error.
    pub fn end(mut self) -> Result<()> {
        let status = terminate(&mut self.child);
        match status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(failed(&status, &self.log)),
            None => Err(LabError::Router(format!(
                "the router did not end within {} seconds and was killed",
                END.as_secs()
            ))),
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        terminate(&mut self.child);
    }
}

/// Ends the child if nobody takes it over.
struct ChildGuard(Option<Child>);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            terminate(child);
        }
    }
}

/// Asks the child to end and waits; kills it when that takes too long, and then says nothing.
fn terminate(child: &mut Child) -> Option<ExitStatus> {
    if let Ok(Some(status)) = child.try_wait() {
        return Some(status);
    }
    // It is our child and not waited for yet, so the number is still its own.
    let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
    let deadline = Instant::now() + END;
    while Instant::now() < deadline {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

fn connect(mut guard: ChildGuard, socket: PathBuf, log: PathBuf, stop: &Stop) -> Result<Router> {
    let deadline = Instant::now() + START;
    loop {
        stop.check()?;
        if let Some(child) = &mut guard.0 {
            check(child, &log)?;
        }
        match Connection::open(&socket) {
            Ok(connection) => {
                let Some(child) = guard.0.take() else {
                    return Err(LabError::Router("the router is gone".into()));
                };
                return Ok(Router {
                    child,
                    connection,
                    log,
                });
            }
            Err(e) if Instant::now() > deadline => {
                return Err(LabError::Router(format!(
                    "the router does not answer commands after {} seconds: {e}{}",
                    START.as_secs(),
                    tail(&log)
                )));
            }
            Err(_) => std::thread::sleep(STEP),
        }
    }
}

fn check(child: &mut Child, log: &PathBuf) -> Result<()> {
    match child.try_wait() {
        Ok(Some(status)) => Err(failed(&status, log)),
        _ => Ok(()),
    }
}

fn failed(status: &ExitStatus, log: &PathBuf) -> LabError {
    LabError::Router(format!(
        "the router ended by itself ({status}){}",
        tail(log)
    ))
}

/// The last lines of the router's log, to be put behind a message.
fn tail(log: &PathBuf) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
    if last.is_empty() {
        return "; it said nothing".into();
    }
    format!("; it said:\n  {}", last.join("\n  "))
}

/// The router's name for a Linux interface.
pub fn interface(host_if: &str) -> String {
    format!("host-{host_if}")
}

/// The reading of interface `name` in what `show interface` returns.
fn reading(data: &Value, name: &str) -> Result<Reading> {
    let strange =
        |why: String| LabError::Router(format!("\"show interface\" of the router: {why}"));
    let list = data
        .as_array()
        .or_else(|| data.get("interfaces")?.as_array());
    let list = list.ok_or_else(|| strange("no list of interfaces".into()))?;
    let entry = list.iter().find(|i| i["name"] == name);
    let entry = entry.ok_or_else(|| strange(format!("there is no {name}")))?;
    let counters = entry.get("counters").unwrap_or(entry);
    let reading = Reading::deserialize(counters).map_err(|e| strange(format!("{name}: {e}")))?;
    Ok(Reading {
        name: name.to_owned(),
        ..reading
    })
}

/// Drops by reason in what `show errors` returns, summed over nodes and workers.
fn drops(data: &Value) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    let list = data.as_array().or_else(|| data.get("errors")?.as_array());
    for entry in list.into_iter().flatten() {
        if let (Some(reason), Some(count)) = (entry["reason"].as_str(), entry["count"].as_u64()) {
            *sums.entry(reason.to_owned()).or_default() += count;
        }
    }
    sums
}

/// The router's configuration file.
fn config(t: &Topology, rate: u32, collector: SocketAddr) -> String {
    let side = |site: &Site| {
        format!(
            "  {}:\n    addresses: [{}/24, {}/64]\n    mpls: true\n    sflow: true\n",
            interface(site.router_if),
            site.router4,
            site.router6
        )
    };
    // A JSON string is a YAML string, whatever the path contains.
    let socket = Value::from(t.socket().display().to_string());
    format!(
        "# Written by \"parshall lab\": a router between two hosts.\n\
         cli:\n  socket: {socket}\n\
         interfaces:\n{}{}\
         mpls:\n  labels:\n    - label: {LABEL_IN}\n      via: {}\n      interface: {}\n      labels: {LABEL_OUT}\n\
         sflow:\n  agent-address: {}\n  sampling-rate: {rate}\n  polling-interval: {POLLING}\n  collectors: [\"{collector}\"]\n",
        side(&A),
        side(&B),
        B.host4,
        interface(B.router_if),
        A.router4,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn readings_are_found_by_name() {
        let counters = json!({
            "rx_packets": 1, "rx_bytes": 2, "tx_packets": 3, "tx_bytes": 4,
            "samples": 5, "sample_pool": 6, "sample_drops": 7, "punts": 8,
        });
        let data = json!([{"name": "local0"}, {"name": "host-vethA", "counters": counters}]);
        let r = reading(&data, "host-vethA").unwrap();
        assert_eq!(
            (r.name.as_str(), r.rx_packets, r.sample_drops),
            ("host-vethA", 1, 7)
        );
        let e = reading(&data, "host-vethB").unwrap_err().to_string();
        assert!(e.contains("there is no host-vethB"), "{e}");
        let e = reading(&data, "local0").unwrap_err().to_string();
        assert!(e.contains("local0: missing field"), "{e}");
        assert!(reading(&json!({}), "x").is_err());
    }

    #[test]
    fn the_end_of_the_log_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        assert_eq!(tail(&log), "; it said nothing");
        let lines: Vec<_> = (0..100).map(|n| format!("line {n}")).collect();
        fs::write(&log, lines.join("\n")).unwrap();
        let text = tail(&log);
        assert!(
            text.contains("line 99") && text.contains("line 88"),
            "{text}"
        );
        assert!(!text.contains("line 87"), "{text}");
    }
}
