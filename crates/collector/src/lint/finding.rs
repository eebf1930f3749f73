//! What was found, where, and how often.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use parshall_sflow_wire::{DataSource, Tag};
use serde_json::{Map, Value, json};

use super::rules::{RULES, Rule, Severity};

/// A place in a stream of datagrams.
#[derive(Clone, Debug, Default)]
pub struct At {
    /// The capture file, or who sent the datagram.
    pub origin: Option<Arc<str>>,
    /// Number of the packet in the file, or of the datagram received; from 1.
    pub packet: u64,
    /// When it came, nanoseconds since 1970-01-01 UTC.
    pub time_ns: Option<u64>,
    /// The agent.
    pub agent: Option<IpAddr>,
    /// The sub-agent.
    pub sub_agent: Option<u32>,
    /// The datagram's own number.
    pub datagram: Option<u32>,
    /// Which sample of the datagram, from 1, and its format.
    pub sample: Option<(u32, Tag)>,
    /// The sample's source and number.
    pub source: Option<(DataSource, u32)>,
    /// Format of the record.
    pub record: Option<Tag>,
    /// Bytes from the start of the datagram.
    pub offset: usize,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(o) = &self.origin {
            write!(f, "{o}: ")?;
        }
        write!(f, "packet {}", self.packet)?;
        if let Some(t) = self.time_ns {
            write!(f, " at {}.{:06}", t / 1_000_000_000, t / 1000 % 1_000_000)?;
        }
        if let Some(a) = self.agent {
            write!(f, ", agent {a}/{}", self.sub_agent.unwrap_or(0))?;
        }
        if let Some(n) = self.datagram {
            write!(f, " datagram {n}")?;
        }
        if let Some((n, tag)) = self.sample {
            write!(f, ", sample {n} ({tag}")?;
            if let Some((source, sequence)) = self.source {
                write!(f, " of {source} number {sequence}")?;
            }
            f.write_str(")")?;
        }
        if let Some(tag) = self.record {
            write!(f, ", record {tag}")?;
        }
        write!(f, ", byte {}", self.offset)
    }
}

/// One finding.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// Where.
    pub at: At,
    /// The values that broke it.
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let i = self.rule.info();
        write!(f, "{}: {} [{}]", i.severity.name(), i.text, i.id)?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        write!(f, "\n    {}\n    rule: {}", self.at, i.reference)?;
        write!(f, "\n    to a collector: {}", i.meaning)
    }
}

impl Finding {
    /// The same as data.
    pub fn json(&self) -> Value {
        let i = self.rule.info();
        let mut m = Map::new();
        let mut put = |key: &str, value: Value| {
            if !value.is_null() {
                m.insert(key.to_owned(), value);
            }
        };
        put("rule", json!(i.id));
        put("severity", json!(i.severity));
        put("text", json!(i.text));
        put("detail", json!(self.detail));
        put("origin", json!(self.at.origin.as_deref()));
        put("packet", json!(self.at.packet));
        put("time", json!(self.at.time_ns.map(|t| t as f64 / 1e9)));
        put("agent", json!(self.at.agent));
        put("sub_agent", json!(self.at.sub_agent));
        put("datagram", json!(self.at.datagram));
        put("sample", json!(self.at.sample.map(|s| s.0)));
        put(
            "sample_format",
            json!(self.at.sample.map(|s| s.1.to_string())),
        );
        put("source", json!(self.at.source.map(|s| s.0.to_string())));
        put("sample_sequence", json!(self.at.source.map(|s| s.1)));
        put("record", json!(self.at.record.map(|r| r.to_string())));
        put("offset", json!(self.at.offset));
        put("reference", json!(i.reference));
        put("meaning", json!(i.meaning));
        Value::Object(m)
    }
}

/// Findings that wait to be shown, and how often each rule was broken.
#[derive(Debug)]
pub struct Findings {
    counts: Vec<u64>,
    ignored: Vec<Rule>,
    /// Of one rule, this many are shown; the rest is only counted.
    most: u64,
    waiting: Vec<Finding>,
}

impl Findings {
    /// None yet.
    pub fn new(most: u64, ignored: Vec<Rule>) -> Findings {
        Findings {
            counts: vec![0; RULES.len()],
            ignored,
            most,
            waiting: Vec::new(),
        }
    }

    /// Takes one in.
    pub fn add(&mut self, rule: Rule, at: &At, detail: fmt::Arguments<'_>) {
        if self.ignored.contains(&rule) {
            return;
        }
        let Some(count) = self.counts.get_mut(rule as usize) else {
            return;
        };
        *count += 1;
        if *count <= self.most {
            self.waiting.push(Finding {
                rule,
                at: at.clone(),
                detail: detail.to_string(),
            });
        }
    }

    /// What is to be shown since the last call.
    pub fn take(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.waiting)
    }

    /// Rules that were broken, and how often.
    pub fn counts(&self) -> impl Iterator<Item = (Rule, u64)> + '_ {
        let counted = RULES.iter().zip(&self.counts);
        counted
            .map(|((rule, _), n)| (*rule, *n))
            .filter(|(_, n)| *n > 0)
    }

    /// Findings of this severity.
    pub fn total(&self, severity: Severity) -> u64 {
        let of = self.counts().filter(|(r, _)| r.info().severity == severity);
        of.map(|(_, n)| n).sum()
    }

    /// The worst of what was found.
    pub fn worst(&self) -> Option<Severity> {
        self.counts().map(|(r, _)| r.info().severity).max()
    }
}

/// Where findings of one datagram go, and the place that is being looked at.
pub struct Cx<'f> {
    /// The place; what goes deeper fills in more of it.
    pub at: At,
    /// Where findings go.
    pub findings: &'f mut Findings,
}

impl Cx<'_> {
    /// A finding at this byte of the datagram.
    pub fn find(&mut self, rule: Rule, offset: usize, detail: fmt::Arguments<'_>) {
        self.at.offset = offset;
        self.findings.add(rule, &self.at, detail);
    }
}
