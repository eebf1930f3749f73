//! The truth from a running router: its command socket tells the counters at both ends of the period, and its agent sends us
//! its samples in between.
//!
//! Samples belong to the period by the time they carry; where they carry none, by the pool they carry, which the router
//! tells at both ends too.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use parshall_cli::Connection;
use parshall_linux::udp::UdpReceiver;
use parshall_sflow_wire::{Address, FlowSample};
use serde_json::Value;

use super::VerifyError;
use super::tally::{Key, Place, Tally, Totals, stamp};
use crate::lint::arrivals::{self, now_ns};

/// How long samples may be on their way after the period: they wait a second for their datagram.
const GRACE: Duration = Duration::from_millis(1500);
/// What the first datagram may take: a collector that was just added.
const FIRST: Duration = Duration::from_millis(200);

/// Counters of an interface as the router tells them.
#[derive(Clone, Debug, Default)]
struct Port {
    name: String,
    index: u32,
    /// Received and sent: frames and bytes.
    counters: [(u64, u64); 2],
    /// Where it is sampled: rate and pool.
    sflow: Option<(u32, Option<u64>)>,
    /// As collectors see it.
    if_index: Option<u32>,
}

/// The router at one moment.
#[derive(Debug)]
struct Moment {
    /// Nanoseconds since 1970: in the middle of asking.
    at_ns: u64,
    /// What asking took.
    took_ns: u64,
    ports: Vec<Port>,
}

/// A router that is asked.
pub struct Asked {
    connection: Connection,
    /// A collector that was added and must go again.
    joined: Option<SocketAddr>,
}

impl Asked {
    /// Connects to a command socket.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn open(socket: &Path) -> Result<Asked, VerifyError> {
        Ok(Asked {
            connection: Connection::open(socket)?,
            joined: None,
        })
    }

    fn execute(&mut self, line: &str, json: bool) -> Result<Value, VerifyError> {
        let reply = self.connection.execute(line, json)?;
        if !reply.ok {
            let why = reply.error.unwrap_or_default();
            return Err(VerifyError::Refused(line.to_owned(), why));
        }
        Ok(reply.data.unwrap_or(Value::Null))
    }

    /// Lets the agent send to us too.
    ///
    /// # Errors
    /// When the router refuses.
    pub fn join(&mut self, at: SocketAddr) -> Result<(), VerifyError> {
        let line = format!("sflow collector add {} port {}", at.ip(), at.port());
        self.execute(&line, false)?;
        self.joined = Some(at);
        Ok(())
    }

    fn moment(&mut self) -> Result<Moment, VerifyError> {
        let before = now_ns();
        let interfaces = self.execute("show interface", true)?;
        let after = now_ns();
        let sflow = self.execute("show sflow", true)?;
        Ok(Moment {
            at_ns: before / 2 + after / 2,
            took_ns: after.saturating_sub(before),
            ports: ports(&interfaces, &sflow),
        })
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(at) = self.joined.take() {
            let line = format!("sflow collector del {} port {}", at.ip(), at.port());
            // A router that is gone has no collectors.
            let _ = self.execute(&line, false);
        }
    }
}

/// Reads both answers. What is not there is not used: other versions of the router may say less.
fn ports(interfaces: &Value, sflow: &Value) -> Vec<Port> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let number = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
    let rows = interfaces.as_array().into_iter().flatten();
    let mut ports: Vec<Port> = rows
        .map(|r| {
            let c = |key: &str| r["counters"][key].as_u64().unwrap_or(0);
            Port {
                name: text(&r["name"]),
                index: number(&r["index"]).unwrap_or(0),
                counters: [
                    (c("rx_packets"), c("rx_bytes")),
                    (c("tx_packets"), c("tx_bytes")),
                ],
                sflow: None,
                if_index: number(&r["if_index"]),
            }
        })
        .collect();
    for s in sflow["interfaces"].as_array().into_iter().flatten() {
        let name = text(&s["interface"]);
        let Some(p) = ports.iter_mut().find(|p| p.name == name) else {
            continue;
        };
        let rate = number(&s["sampling_rate"]).unwrap_or(0);
        p.sflow = Some((rate, s["pool"].as_u64()));
        p.if_index = number(&s["if_index"]).or(p.if_index);
    }
    ports
}

/// What of the period is known so far: its first moment, and its last when it is over.
struct Period<'m> {
    start: &'m Moment,
    end: Option<&'m Moment>,
    /// By ifIndex: the pool at both ends.
    pools: HashMap<u32, (u64, Option<u64>)>,
}

impl<'m> Period<'m> {
    fn new(start: &'m Moment, end: Option<&'m Moment>) -> Period<'m> {
        let pool = |m: &Moment, name: &str| {
            let p = m.ports.iter().find(|p| p.name == name)?;
            p.sflow?.1
        };
        let pools = start.ports.iter().filter_map(|p| {
            let first = pool(start, &p.name)?;
            let last = end.and_then(|e| pool(e, &p.name));
            Some((p.if_index.unwrap_or(p.index), (first, last)))
        });
        Period {
            start,
            end,
            pools: pools.collect(),
        }
    }

    fn place(&self, f: &FlowSample<'_>) -> Place {
        let inside = match stamp(f) {
            Some(t) => t >= self.start.at_ns && self.end.is_none_or(|e| t < e.at_ns),
            None => match self.pools.get(&f.head.source.index) {
                Some((first, last)) => {
                    let past =
                        |p: u64| f.head.pool.wrapping_sub(p as u32).wrapping_sub(1) < 1 << 31;
                    past(*first) && last.is_none_or(|l| !past(l))
                }
                None => self.end.is_none(),
            },
        };
        if inside {
            Place::Inside
        } else {
            Place::Outside
        }
    }
}

/// Listens for `seconds` between two looks at the router's counters; how many seconds of traffic the ends may be off.
///
/// # Errors
/// When the router does not answer or nothing comes from it.
pub fn gather(
    router: &mut Asked,
    receiver: &mut UdpReceiver,
    seconds: f64,
    stop: &AtomicBool,
    tally: &mut Tally,
) -> Result<f64, VerifyError> {
    tally.names_only = true;
    arrivals::receive(receiver, Some(Instant::now() + FIRST), stop, &mut |_| true)?;
    let start = router.moment()?;
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let period = Period::new(&start, None);
    arrivals::receive(receiver, Some(until), stop, &mut |a| {
        tally.datagram(a.time_ns, a.bytes, &|f| period.place(f));
        true
    })?;
    let end = router.moment()?;
    let period = Period::new(&start, Some(&end));
    arrivals::receive(receiver, Some(Instant::now() + GRACE), stop, &mut |a| {
        tally.datagram(a.time_ns, a.bytes, &|f| period.place(f));
        true
    })?;
    settle(tally, &start, &end);
    Ok((start.took_ns + end.took_ns) as f64 / 1e9)
}

/// Gives each sampled interface what its counters grew by.
fn settle(tally: &mut Tally, start: &Moment, end: &Moment) {
    // The agent is the one that most samples came of; others may send here as well.
    let mut agents: HashMap<(Address, u32), u64> = HashMap::new();
    for (key, i) in &tally.interfaces {
        *agents.entry((key.0, key.1)).or_default() += i.open.received + 1;
    }
    let agent = agents.into_iter().max_by_key(|a| a.1).map(|a| a.0);
    let (address, sub) = agent.unwrap_or((Address::Unknown, 0));
    let seconds = end.at_ns.saturating_sub(start.at_ns) as f64 / 1e9;
    for p in end.ports.iter().filter(|p| p.sflow.is_some()) {
        let Some(was) = start.ports.iter().find(|w| w.name == p.name) else {
            continue;
        };
        let grown = |d: usize| Totals {
            packets: p.counters[d].0.checked_sub(was.counters[d].0),
            bytes: p.counters[d].1.checked_sub(was.counters[d].1),
        };
        let named = |(k, i): (&Key, &super::tally::Interface)| {
            ((k.0, k.1) == (address, sub) && i.name.as_ref() == Some(&p.name)).then_some(k.2)
        };
        let index = tally.interfaces.iter().find_map(named);
        let index = index.or(p.if_index).unwrap_or(p.index);
        let key = (address, sub, index);
        tally.close(key, [grown(0), grown(1)], seconds);
        if let Some(i) = tally.interfaces.get_mut(&key) {
            i.name = Some(p.name.clone());
            i.rate = i.rate.or(p.sflow.map(|s| s.0).filter(|r| *r > 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_routers_answers_are_read() {
        let counters = json!({"rx_packets": 5, "rx_bytes": 500, "tx_packets": 6, "tx_bytes": 600});
        let interfaces = json!([
            {"name": "left", "index": 1, "counters": counters},
            {"name": "right", "index": 2, "counters": {}},
        ]);
        let sflow = json!({"interfaces": [
            {"interface": "left", "sampling_rate": 100, "pool": 5, "if_index": 1001},
            {"interface": "gone", "sampling_rate": 1},
        ]});
        let p = ports(&interfaces, &sflow);
        assert_eq!(p[0].counters, [(5, 500), (6, 600)]);
        assert_eq!(
            (p[0].sflow, p[0].if_index),
            (Some((100, Some(5))), Some(1001))
        );
        assert_eq!((p[1].sflow, p[1].counters[0]), (None, (0, 0)));
        assert!(ports(&Value::Null, &json!([1, "x"])).is_empty());
    }

    #[test]
    fn samples_without_a_time_are_placed_by_their_pool() {
        let moment = |at_ns, pool| Moment {
            at_ns,
            took_ns: 0,
            ports: vec![Port {
                name: "left".into(),
                index: 7,
                sflow: Some((10, Some(pool))),
                ..Port::default()
            }],
        };
        let (start, end) = (moment(0, (1 << 32) - 10), moment(9, (1 << 32) + 20));
        let (open, whole) = (Period::new(&start, None), Period::new(&start, Some(&end)));
        for (pool, while_open, after) in [
            (u32::MAX - 20, Place::Outside, Place::Outside),
            (u32::MAX - 5, Place::Inside, Place::Inside),
            (20, Place::Inside, Place::Inside),
            (21, Place::Inside, Place::Outside),
        ] {
            let words = [5, 1, 1, 0, 1, 1, 1, 1, 32, 1, 7, 10, pool, 0, 7, 8, 0u32];
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
            let d = parshall_sflow_wire::Datagram::parse(&bytes).unwrap();
            let Some(Ok(parshall_sflow_wire::Sample::Flow(f))) = d.samples().next() else {
                panic!("not a flow sample")
            };
            assert_eq!(
                (open.place(&f), whole.place(&f)),
                (while_open, after),
                "{pool}"
            );
        }
    }
}
