//! The verdicts: each interface, direction and quantity is judged, and the whole.
//!
//! Of many comparisons some lie outside their 95 % bound by chance, one in twenty. So the bound is shown, but an alarm is
//! raised only where the chance is below a level that all comparisons of the run share (Bonferroni): with a confidence of
//! 99.9 % no more than one run in a thousand of a router without fault ends in an alarm, however many interfaces it has.

use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

use super::stats::{Quantity, Samples, chance_of_none};
use super::tally::{Interface, Key, Tally, Totals, Way};

/// Frames that workers may have counted but not yet sampled when counters are read, and the reverse.
const SLACK_FRAMES: f64 = 512.0;

/// What a comparison came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The truth lies within the 95 % bound.
    Within,
    /// Outside, but not farther than chance has it among so many comparisons.
    Outside95,
    /// Farther than chance explains.
    Wrong,
    /// Nothing passed and nothing was sampled.
    Idle,
    /// It cannot be said: the counter or the rate is not known.
    Unknown,
}

/// A true total and its estimate.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Comparison {
    /// What was counted.
    #[serde(rename = "true")]
    pub truth: Option<u64>,
    /// What the samples say.
    pub estimated: f64,
    /// The difference in percent of the truth.
    pub deviation_percent: Option<f64>,
    /// The 95 % bound in percent of the truth.
    pub bound95_percent: Option<f64>,
    /// How likely chance alone has it so far off or farther.
    pub chance: Option<f64>,
    /// What it came to.
    pub verdict: Verdict,
}

/// One interface in one direction.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Agent.
    pub agent: Option<IpAddr>,
    /// Sub-agent.
    pub sub_agent: u32,
    /// ifIndex.
    pub if_index: u32,
    /// Name, if the stream or the router told it.
    pub interface: Option<String>,
    /// `rx` or `tx`.
    pub direction: &'static str,
    /// Estimated from samples that other interfaces took on receive: not judged, since what the router sends by itself and
    /// what it drops or copies in between is not in it.
    pub indirect: bool,
    /// Length of the period.
    pub seconds: f64,
    /// 1 in so many, by the last sample.
    pub rate: Option<u32>,
    /// Samples that came.
    pub samples: u64,
    /// Samples of the source that were drawn and did not come.
    pub lost: u64,
    /// 196 / sqrt(samples): what sFlow gives for the percent that packets are off at most, 95 times of 100.
    pub sflow_bound_percent: Option<f64>,
    /// Frames.
    pub packets: Comparison,
    /// Bytes.
    pub bytes: Comparison,
}

/// What a run came to.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The rows, by agent, interface and direction.
    pub interfaces: Vec<Row>,
    /// Comparisons that were judged.
    pub judged: u64,
    /// Below this chance a comparison is wrong.
    pub level: f64,
    /// Comparisons outside their 95 % bound; a twentieth of them may be.
    pub outside95: u64,
    /// Comparisons that are wrong.
    pub wrong: u64,
    /// Datagrams read, and what in them made no sense.
    pub datagrams: u64,
    /// See there.
    pub malformed: u64,
}

/// How to judge.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The chance, of a run without fault, to raise no alarm.
    pub confidence: f64,
    /// Seconds of traffic that may lie on the wrong side of the period's ends.
    pub slack_seconds: f64,
}

impl Report {
    /// Judges what was gathered; `names` limits it to interfaces of these names or numbers.
    pub fn of(tally: &Tally, names: &[String], terms: Terms) -> Report {
        let mut rows: Vec<Row> = tally
            .interfaces
            .iter()
            .filter(|(key, i)| wanted(key, i, names))
            .flat_map(|(key, i)| rows(*key, i, terms))
            .collect();
        rows.sort_by_key(|r| (r.agent, r.sub_agent, r.if_index, r.direction));
        let mut judged: Vec<&mut Comparison> = rows
            .iter_mut()
            .filter(|r| !r.indirect)
            .flat_map(|r| [&mut r.packets, &mut r.bytes])
            .filter(|c| c.chance.is_some())
            .collect();
        let level = (1.0 - terms.confidence) / (judged.len().max(1)) as f64;
        for c in &mut judged {
            if c.chance.is_some_and(|p| p < level) {
                c.verdict = Verdict::Wrong;
            }
        }
        let judged = judged.len() as u64;
        let count = |v: Verdict| {
            let all = rows.iter().filter(|r| !r.indirect);
            all.flat_map(|r| [r.packets.verdict, r.bytes.verdict])
                .filter(|x| *x == v)
                .count() as u64
        };
        Report {
            judged,
            level,
            outside95: count(Verdict::Outside95) + count(Verdict::Wrong),
            wrong: count(Verdict::Wrong),
            interfaces: rows,
            datagrams: tally.datagrams,
            malformed: tally.malformed,
        }
    }
}

fn wanted(key: &Key, i: &Interface, names: &[String]) -> bool {
    let number = key.2.to_string();
    names.is_empty()
        || names
            .iter()
            .any(|n| *n == number || Some(n) == i.name.as_ref())
}

/// Both directions of an interface whose counters were read twice.
fn rows(key: Key, i: &Interface, terms: Terms) -> Vec<Row> {
    if i.truth == [Totals::default(); 2] {
        return Vec::new();
    }
    let way_out = if i.closed.tx.received > 0 || i.closed.via.received == 0 {
        Way::Tx
    } else {
        Way::Via
    };
    let ways = [Way::Rx, way_out];
    // A direction without any sample is taken for one that is not sampled, unless all of them have none.
    let silent = |w: Way| samples(i, w).received == 0 && i.closed.received > 0;
    let shown = ways.into_iter().filter(|w| !silent(*w));
    shown.map(|w| row(key, i, w, terms)).collect()
}

fn samples(i: &Interface, way: Way) -> &Samples {
    match way {
        Way::Rx => &i.closed.rx,
        Way::Tx => &i.closed.tx,
        Way::Via => &i.closed.via,
    }
}

fn row(key: Key, i: &Interface, way: Way, terms: Terms) -> Row {
    let s = samples(i, way);
    let truth = i.truth[usize::from(way != Way::Rx)];
    let n = s.received as f64;
    let compare = |what| compare(i, way, what, truth, terms);
    Row {
        agent: key.0.ip(),
        sub_agent: key.1,
        if_index: key.2,
        interface: i.name.clone(),
        direction: if way == Way::Rx { "rx" } else { "tx" },
        indirect: way == Way::Via,
        seconds: i.seconds,
        rate: i.rate,
        samples: s.received,
        lost: if way == Way::Via { 0 } else { i.closed.lost },
        sflow_bound_percent: (n > 0.0).then(|| 196.0 / n.sqrt()),
        packets: compare(Quantity::Packets),
        bytes: compare(Quantity::Bytes),
    }
}

fn compare(i: &Interface, way: Way, what: Quantity, totals: Totals, terms: Terms) -> Comparison {
    let s = samples(i, way);
    let (lost, received) = match way {
        // The loss is that of other sources.
        Way::Via => (0, 1),
        _ => (i.closed.lost, i.closed.received),
    };
    let e = s.estimate(what, lost, received);
    let truth = match what {
        Quantity::Packets => totals.packets,
        Quantity::Bytes => totals.bytes,
    };
    let none = s.received == 0;
    let mut c = Comparison {
        truth,
        estimated: e.total,
        deviation_percent: None,
        bound95_percent: None,
        chance: None,
        verdict: Verdict::Unknown,
    };
    let Some(truth) = truth else {
        return c;
    };
    let t = truth as f64;
    if truth == 0 && none {
        c.verdict = Verdict::Idle;
        return c;
    }
    if truth > 0 {
        c.deviation_percent = Some(100.0 * (e.total - t) / t);
        c.bound95_percent = (!none).then(|| 100.0 * e.bound95() / t);
    }
    if none {
        let packets = totals.packets.unwrap_or(0) as f64 - SLACK_FRAMES;
        c.chance = i
            .rate
            .map(|r| chance_of_none(packets.max(0.0), f64::from(r)));
        c.verdict = match c.chance {
            None => Verdict::Unknown,
            Some(p) if p >= 0.05 => Verdict::Within,
            Some(_) => Verdict::Outside95,
        };
        return c;
    }
    let frames = totals.packets.unwrap_or(s.received).max(1) as f64;
    let edge = if i.seconds > 0.0 {
        (terms.slack_seconds / i.seconds).min(1.0)
    } else {
        0.0
    };
    let slack = t * (edge + (SLACK_FRAMES / frames).min(edge));
    c.chance = Some(e.chance(t, slack));
    c.verdict = if (e.total - t).abs() <= e.bound95() + slack {
        Verdict::Within
    } else {
        Verdict::Outside95
    };
    c
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Within => "within",
            Verdict::Outside95 => "outside 95 %",
            Verdict::Wrong => "WRONG",
            Verdict::Idle => "idle",
            Verdict::Unknown => "unknown",
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<20} {:<4} {:>8} {:>9} {:>6}  {:<7} {:>18} {:>18} {:>9} {:>8}  verdict",
            "interface",
            "way",
            "seconds",
            "samples",
            "lost",
            "of",
            "true",
            "estimated",
            "error",
            "bound"
        )?;
        for r in &self.interfaces {
            let name = r
                .interface
                .clone()
                .unwrap_or_else(|| format!("ifIndex {}", r.if_index));
            for (what, c) in [("packets", &r.packets), ("bytes", &r.bytes)] {
                let first = what == "packets";
                let (name, way) = if first {
                    (name.as_str(), r.direction)
                } else {
                    ("", "")
                };
                let percent = |p: Option<f64>, sign: bool| match (p, sign) {
                    (Some(p), true) => format!("{p:+.2} %"),
                    (Some(p), false) => format!("{p:.2} %"),
                    (None, _) => "-".to_owned(),
                };
                let number = |n: f64, blank: bool| {
                    if blank {
                        String::new()
                    } else {
                        format!("{n:.0}")
                    }
                };
                writeln!(
                    f,
                    "{name:<20} {way:<4} {:>8} {:>9} {:>6}  {what:<7} {:>18} {:>18.0} {:>9} {:>8}  {}{}",
                    if first {
                        format!("{:.1}", r.seconds)
                    } else {
                        String::new()
                    },
                    number(r.samples as f64, !first),
                    number(r.lost as f64, !first),
                    c.truth.map_or("-".to_owned(), |t| t.to_string()),
                    c.estimated,
                    percent(c.deviation_percent, true),
                    percent(c.bound95_percent, false),
                    c.verdict,
                    if r.indirect {
                        " (indirect: not judged)"
                    } else {
                        ""
                    }
                )?;
            }
        }
        write!(
            f,
            "{} comparisons judged, {} outside their 95 % bound (up to {} by chance), {} wrong: chance below {:.1e}",
            self.judged,
            self.outside95,
            self.by_chance(),
            self.wrong,
            self.level
        )
    }
}

impl Report {
    /// So many comparisons of a run without fault lie outside their bound in 19 of 20 runs.
    fn by_chance(&self) -> u64 {
        let n = self.judged as f64;
        (0.05 * n + 1.645 * (0.05 * 0.95 * n).sqrt()).ceil() as u64
    }
}
