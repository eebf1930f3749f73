//! One look at a router: what its `show` commands tell, as far as it is shown.

use std::path::{Path, PathBuf};
use std::time::Instant;

use parshall_cli::Connection;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The question for the greatest flows.
const FLOWS: &str = "show sflow flows max 1000";

/// Counters of an interface.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Counters {
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub rx_drops: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub tx_drops: u64,
}

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Interface {
    pub name: String,
    pub admin_up: bool,
    pub link_up: bool,
    pub counters: Counters,
}

/// A graph node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Node {
    pub node: String,
    pub calls: u64,
    pub vectors: u64,
    pub clocks: u64,
}

/// A worker's nodes and packets.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Worker {
    pub worker: usize,
    pub nodes: Vec<Node>,
    pub received: u64,
    pub transmitted: u64,
    pub dropped: u64,
    pub punted: u64,
}

/// A reason for drops in a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Dropped {
    pub count: u64,
    pub node: String,
    pub reason: String,
    pub text: String,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Thread {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub cpu: Option<usize>,
    pub state: String,
    pub queues: Option<usize>,
    pub loops: u64,
    pub sleeps: u64,
}

/// A flow, as samples tell it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Flow {
    pub interface: String,
    pub direction: String,
    pub source: String,
    pub destination: String,
    #[serde(rename = "protocol")]
    pub number: u8,
    pub source_port: u16,
    pub destination_port: u16,
    pub samples: u64,
    pub packets: u64,
    pub bytes: u64,
}

impl Flow {
    /// What tells it from others.
    pub fn key(&self) -> (&str, &str, &str, &str, u8, u16, u16) {
        let (at, way) = (self.interface.as_str(), self.direction.as_str());
        let (from, to) = (self.source.as_str(), self.destination.as_str());
        let ports = (self.source_port, self.destination_port);
        (at, way, from, to, self.number, ports.0, ports.1)
    }
    /// The usual name of its protocol, or the number.
    pub fn protocol(&self) -> String {
        match self.number {
            1 => "icmp".to_owned(),
            6 => "tcp".to_owned(),
            17 => "udp".to_owned(),
            58 => "icmp6".to_owned(),
            n => n.to_string(),
        }
    }
    /// An address and its port, where there is one.
    pub fn end(&self, address: &str, port: u16) -> String {
        match port {
            0 => address.to_owned(),
            port if address.contains(':') => format!("[{address}]:{port}"),
            port => format!("{address}:{port}"),
        }
    }
}

/// What `show sflow flows` tells.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Flows {
    flows: Vec<Flow>,
}

/// One look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// When, in seconds since the first.
    pub at: f64,
    pub interfaces: Vec<Interface>,
    pub workers: Vec<Worker>,
    pub drops: Vec<Dropped>,
    pub threads: Vec<Thread>,
    pub flows: Vec<Flow>,
}

impl Sample {
    /// The nodes, summed over workers, by name.
    pub fn nodes(&self) -> Vec<Node> {
        let mut all: Vec<Node> = self
            .workers
            .iter()
            .flat_map(|w| w.nodes.iter().cloned())
            .collect();
        all.sort_by(|a, b| a.node.cmp(&b.node));
        all.dedup_by(|b, a| {
            let same = a.node == b.node;
            if same {
                a.calls = a.calls.wrapping_add(b.calls);
                a.vectors = a.vectors.wrapping_add(b.vectors);
                a.clocks = a.clocks.wrapping_add(b.clocks);
            }
            same
        });
        all
    }
}

/// A router to look at.
pub struct Source {
    path: PathBuf,
    connection: Option<Connection>,
    first: Instant,
    /// What answers there.
    pub title: String,
}

impl Source {
    /// Connects to the router behind a command socket.
    pub fn open(path: &Path) -> Result<Source, String> {
        let mut source = Source {
            path: path.to_owned(),
            connection: None,
            first: Instant::now(),
            title: String::new(),
        };
        let version: serde_json::Value = source.show("show version")?;
        let word = |key: &str| version[key].as_str().unwrap_or("").to_owned();
        source.title = format!("{} {}", word("program"), word("version"));
        Ok(source)
    }

    /// One look. A router that has ended is connected to anew the next time.
    pub fn look(&mut self) -> Result<Sample, String> {
        let at = self.first.elapsed().as_secs_f64();
        Ok(Sample {
            at,
            interfaces: self.show("show interface")?,
            workers: self.show("show runtime")?,
            drops: self.show("show errors")?,
            threads: self.show("show threads")?,
            flows: self.show::<Flows>(FLOWS)?.flows,
        })
    }

    fn show<T: DeserializeOwned>(&mut self, line: &str) -> Result<T, String> {
        let shown = self.ask(line);
        if shown.is_err() {
            self.connection = None;
        }
        serde_json::from_value(shown?).map_err(|e| format!("`{line}` tells something unknown: {e}"))
    }

    fn ask(&mut self, line: &str) -> Result<serde_json::Value, String> {
        if self.connection.is_none() {
            self.connection = Some(Connection::open(&self.path).map_err(|e| e.to_string())?);
        }
        let Some(connection) = &mut self.connection else {
            return Err("the router is not connected".into());
        };
        let reply = connection.execute(line, true).map_err(|e| e.to_string())?;
        match (reply.data, reply.error) {
            (Some(data), _) => Ok(data),
            (None, why) => Err(why.unwrap_or_else(|| format!("`{line}` has no data"))),
        }
    }
}
