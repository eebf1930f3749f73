//! The comparison at the end: what the router counted beside what its samples say, and whether all of it holds.

use serde_json::{Map, Value, json};

use crate::display::{Moment, drops_since};
use crate::estimate::Comparison;
use crate::number::grouped;
use crate::tally::Tally;
use crate::traffic::{Kind, StreamReport};

/// Longest frame in the laboratory: MTU 1500 and an Ethernet header.
const LONGEST: u32 = 1514;
/// Flows in the report.
const FLOWS: usize = 10;

/// An interface in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The router's name for it.
    pub name: String,
    /// Packets.
    pub packets: Comparison,
    /// Bytes of frames without check sequence.
    pub bytes: Comparison,
}

impl Row {
    /// Whether both estimates are within `times` their bounds.
    pub fn within(&self, times: f64) -> bool {
        self.packets.within(times) && self.bytes.within(times)
    }
}

/// Something that must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name for machines.
    pub name: &'static str,
    /// Whether it holds.
    pub ok: bool,
    /// What holds, or what does not.
    pub text: String,
}

/// Everything that is told at the end.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Length of the measurement in seconds.
    pub seconds: f64,
    /// Sampling rate, 1 in N.
    pub rate: u32,
    /// The comparison.
    pub rows: Vec<Row>,
    /// Largest flows: name, packets, bytes.
    pub flows: Vec<(String, f64, f64)>,
    /// Drops by reason.
    pub drops: Vec<(String, u64)>,
    /// Samples read.
    pub samples: u64,
    /// Samples known to be lost.
    pub lost: u64,
    /// What came of the traffic.
    pub traffic: Vec<StreamReport>,
    /// What must hold.
    pub checks: Vec<Check>,
}

impl Verdict {
    /// Compares two moments at which no traffic was under way. `settled` says whether the samples of both had arrived.
    pub fn new(
        start: &Moment,
        end: &Moment,
        rate: u32,
        traffic: Vec<StreamReport>,
        settled: bool,
    ) -> Verdict {
        let rows = rows(start, end, rate);
        let flows = end.tally.top_since(&start.tally, FLOWS);
        let mut verdict = Verdict {
            seconds: traffic.iter().map(|t| t.seconds).fold(0.0, f64::max),
            rate,
            rows,
            flows: flows
                .iter()
                .map(|(k, s)| (k.to_string(), s.packets(), s.bytes()))
                .collect(),
            drops: drops_since(&start.drops, &end.drops),
            samples: end.tally.samples - start.tally.samples,
            lost: end.tally.lost_since(&start.tally),
            traffic,
            checks: Vec::new(),
        };
        verdict.checks = vec![
            verdict.traffic_check(),
            datagram_check(&start.tally, &end.tally),
            sample_check(end, settled),
            pool_check(start, end),
            verdict.estimate_check(),
        ];
        verdict
    }

    /// Whether all of it holds.
    pub fn ok(&self) -> bool {
        self.checks.iter().all(|c| c.ok)
    }

    fn traffic_check(&self) -> Check {
        let broken: Vec<_> = self
            .traffic
            .iter()
            .filter(|t| !t.worked())
            .map(broken_text)
            .collect();
        Check {
            name: "traffic",
            ok: broken.is_empty(),
            text: if broken.is_empty() {
                format!("all {} streams passed the router", self.traffic.len())
            } else {
                format!("did not pass the router: {}", broken.join("; "))
            },
        }
    }

    fn estimate_check(&self) -> Check {
        let far: Vec<_> = self
            .rows
            .iter()
            .filter(|r| !r.within(2.0))
            .map(|r| r.name.as_str())
            .collect();
        Check {
            name: "estimates",
            ok: far.is_empty() && !self.rows.is_empty(),
            text: match (far.is_empty(), self.rows.is_empty()) {
                (_, true) => "the router has no interface to compare".into(),
                (true, _) => "no estimate is beyond twice its 95 % bound".into(),
                (false, _) => format!("beyond twice the 95 % bound: {}", far.join(", ")),
            },
        }
    }

    /// The report for machines.
    pub fn json(&self) -> Value {
        let comparison =
            |c: &Comparison| json!({"true": c.truth, "estimate": c.estimate, "bound95": c.bound95});
        let row = |r: &Row| {
            json!({
                "name": r.name,
                "direction": "rx",
                "packets": comparison(&r.packets),
                "bytes": comparison(&r.bytes),
                "within": r.within(1.0),
            })
        };
        let flow = |(name, packets, bytes): &(String, f64, f64)| {
            json!({
                "flow": name,
                "packets": packets,
                "bytes": bytes,
                "mbps": bytes * 8.0 / 1e6 / self.seconds.max(1e-3),
            })
        };
        let check = |c: &Check| json!({"name": c.name, "ok": c.ok, "text": c.text});
        json!({
            "ok": self.ok(),
            "interfaces": self.rows.iter().map(row).collect::<Vec<_>>(),
            "flows": self.flows.iter().map(flow).collect::<Vec<_>>(),
            "drops": self.drops.iter().map(|(k, n)| (k.clone(), json!(n))).collect::<Map<_, _>>(),
            "samples": self.samples,
            "lost": self.lost,
            "traffic": self.traffic_json(),
            "checks": self.checks.iter().map(check).collect::<Vec<_>>(),
            "rate": self.rate,
            "seconds": self.seconds,
        })
    }

    /// One field a figure, the two directions of TCP added up.
    fn traffic_json(&self) -> Value {
        let mut out = Map::new();
        for t in &self.traffic {
            let mut put =
                |field: &str, value: Value| out.insert(format!("{}_{field}", t.name), value);
            match t.kind {
                Kind::Tcp => {
                    let sum: f64 = self
                        .traffic
                        .iter()
                        .filter(|o| o.name == t.name)
                        .map(StreamReport::mbps)
                        .sum();
                    put("mbps", json!(sum));
                }
                Kind::Datagrams | Kind::Echo => {
                    put("sent", json!(t.sent));
                    put("received", json!(t.received));
                }
            }
            if let Some(rtt) = t.rtt_us {
                put("rtt_us", json!(rtt));
            }
        }
        Value::Object(out)
    }
}

fn broken_text(t: &StreamReport) -> String {
    let what = match t.kind {
        Kind::Tcp => format!("{} {}: {} bytes", t.name, t.direction, t.bytes),
        Kind::Datagrams | Kind::Echo => {
            format!("{} {}: {} of {}", t.name, t.direction, t.received, t.sent)
        }
    };
    match &t.trouble {
        Some(trouble) => format!("{what} ({trouble})"),
        None => what,
    }
}

fn rows(start: &Moment, end: &Moment, rate: u32) -> Vec<Row> {
    let row = |now: &crate::router::Reading| {
        let was = start
            .readings
            .iter()
            .find(|r| r.name == now.name)
            .cloned()
            .unwrap_or_default();
        let index = end.tally.index_of(&now.name).unwrap_or(0);
        let sums = end.tally.received_since(&start.tally, index);
        Row {
            name: now.name.clone(),
            packets: Comparison {
                truth: now.rx_packets.saturating_sub(was.rx_packets),
                estimate: sums.packets(),
                bound95: sums.packets_bound(rate),
            },
            bytes: Comparison {
                truth: now.rx_bytes.saturating_sub(was.rx_bytes),
                estimate: sums.bytes(),
                bound95: sums.bytes_bound(rate, LONGEST),
            },
        }
    };
    end.readings.iter().map(row).collect()
}

fn datagram_check(start: &Tally, end: &Tally) -> Check {
    let gaps = end.datagram_gaps - start.datagram_gaps;
    let malformed = end.malformed - start.malformed;
    let read = end.datagrams - start.datagrams;
    Check {
        name: "datagrams",
        ok: gaps == 0 && malformed == 0,
        text: match (gaps, malformed) {
            (0, 0) => format!("no datagram of {} is missing or malformed", grouped(read)),
            _ => format!(
                "of {} datagrams {gaps} are missing and {malformed} malformed",
                grouped(read)
            ),
        },
    }
}

/// Every sample the router took has arrived: its own count and ours are the same.
fn sample_check(end: &Moment, settled: bool) -> Check {
    let taken: u64 = end.readings.iter().map(|r| r.samples).sum();
    let arrived = end.tally.samples;
    let lost: u64 = end.readings.iter().map(|r| r.sample_drops).sum();
    let told = end.tally.lost_since(&Tally::default());
    let ok = settled && taken == arrived && lost == told;
    Check {
        name: "samples",
        ok,
        text: if ok {
            let arrived = grouped(arrived);
            format!("no sample of {arrived} taken since the start is missing; {lost} lost and told")
        } else {
            format!(
                "the router took {taken} samples and lost {lost}; {arrived} arrived and told of {told} lost"
            )
        },
    }
}

/// The sample pool is exactly what was received.
fn pool_check(start: &Moment, end: &Moment) -> Check {
    let grown = |field: fn(&crate::router::Reading) -> u64| -> u64 {
        let sum = |m: &Moment| m.readings.iter().map(field).sum::<u64>();
        sum(end).saturating_sub(sum(start))
    };
    let (pool, received) = (grown(|r| r.sample_pool), grown(|r| r.rx_packets));
    Check {
        name: "pool",
        ok: pool == received,
        text: if pool == received {
            format!(
                "the sample pool is exactly the {} packets received",
                grouped(received)
            )
        } else {
            format!("the sample pool is {pool}, but {received} packets were received")
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::Reading;
    use std::collections::BTreeMap;

    fn moment(n: u64, samples: u64) -> Moment {
        let mut tally = Tally::default();
        tally.names.insert(7, "host-vethA".into());
        tally.samples = samples;
        for _ in 0..samples {
            tally.sources.entry(7).or_default().sums.add(100, 1000);
        }
        let reading = Reading {
            name: "host-vethA".into(),
            rx_packets: n,
            rx_bytes: n * 1000,
            samples,
            sample_pool: n + 5,
            ..Reading::default()
        };
        let drops = BTreeMap::from([("no_route".to_owned(), n)]);
        Moment {
            seconds: 0.0,
            readings: vec![reading],
            tally,
            drops,
        }
    }

    fn stream(name: &'static str, kind: Kind, received: u64) -> StreamReport {
        StreamReport {
            name,
            direction: "A to B",
            kind,
            sent: 100,
            received,
            bytes: received * 10_000,
            rtt_us: (kind == Kind::Echo).then_some(12.5),
            seconds: 10.0,
            trouble: None,
        }
    }

    #[test]
    fn a_good_run() {
        let traffic = vec![
            stream("tcp4", Kind::Tcp, 100),
            stream("tcp4", Kind::Tcp, 50),
            stream("echo6", Kind::Echo, 100),
            stream("mpls", Kind::Datagrams, 99),
        ];
        let v = Verdict::new(&moment(50, 1), &moment(10_150, 102), 100, traffic, true);
        assert!(v.ok(), "{:#?}", v.checks);
        let j = v.json();
        assert_eq!(j["ok"], true);
        let row = &j["interfaces"][0];
        assert_eq!(
            (&row["name"], &row["direction"]),
            (&json!("host-vethA"), &json!("rx"))
        );
        assert_eq!(row["packets"]["true"], 10_100);
        assert_eq!(row["packets"]["estimate"], 10_100.0);
        let bound = row["packets"]["bound95"].as_f64().unwrap();
        assert!((bound - 1.96 * 100.0 * 101f64.sqrt()).abs() < 1e-6);
        assert_eq!(row["bytes"]["estimate"], 10_100_000.0);
        assert_eq!(row["within"], true);
        assert_eq!(j["drops"]["no_route"], 10_100);
        assert_eq!((&j["samples"], &j["lost"]), (&json!(101), &json!(0)));
        assert!((j["traffic"]["tcp4_mbps"].as_f64().unwrap() - 1.2).abs() < 1e-9);
        assert_eq!(j["traffic"]["echo6_rtt_us"], 12.5);
        assert_eq!(j["traffic"]["mpls_received"], 99);
    }

    fn failed(v: &Verdict) -> Vec<&str> {
        v.checks.iter().filter(|c| !c.ok).map(|c| c.name).collect()
    }

    #[test]
    fn each_thing_that_must_hold() {
        let good = || vec![stream("udp4", Kind::Datagrams, 100)];
        let (start, end) = (moment(50, 1), moment(10_150, 102));
        let v = Verdict::new(
            &start,
            &end,
            100,
            vec![stream("udp4", Kind::Datagrams, 3)],
            true,
        );
        assert_eq!(failed(&v), ["traffic"]);
        assert!(
            v.checks[0].text.contains("udp4 A to B: 3 of 100"),
            "{}",
            v.checks[0].text
        );
        let mut gap = end.clone();
        gap.tally.datagram_gaps = 1;
        assert_eq!(
            failed(&Verdict::new(&start, &gap, 100, good(), true)),
            ["datagrams"]
        );
        let mut short = end.clone();
        short.readings[0].samples += 1;
        assert_eq!(
            failed(&Verdict::new(&start, &short, 100, good(), true)),
            ["samples"]
        );
        let mut secret = end.clone();
        secret.readings[0].sample_drops = 1;
        assert_eq!(
            failed(&Verdict::new(&start, &secret, 100, good(), true)),
            ["samples"]
        );
        let mut pool = end.clone();
        pool.readings[0].sample_pool += 1;
        assert_eq!(
            failed(&Verdict::new(&start, &pool, 100, good(), true)),
            ["pool"]
        );
        let mut far = end.clone();
        far.readings[0].rx_packets = 30_000;
        far.readings[0].sample_pool = 30_005;
        let v = Verdict::new(&start, &far, 100, good(), true);
        assert_eq!(failed(&v), ["estimates"]);
        assert!(!v.ok() && v.json()["interfaces"][0]["within"] == false);
    }
}
