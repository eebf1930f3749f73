//! What of a datagram goes on.
//!
//! Samples are taken out whole and the rest is copied byte for byte, so that what nobody here understands stays as it was. Sequence
//! numbers are the agent's: those of samples count per source and kind, so taking out kinds and sources leaves no gap; those of datagrams
//! have none because a datagram without samples, which the document allows, goes on too.

use std::net::IpAddr;

use clap::ValueEnum;
use parshall_sflow_wire::xdr::pad4;
use parshall_sflow_wire::{Address, DataSource, Datagram, RawRecord, Sample};

/// Kind of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Sampled packets.
    Flow,
    /// Counters.
    Counter,
    /// Dropped packets.
    Discard,
    /// Anything else.
    Other,
}

/// What goes on. An empty list takes everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Agents, by prefix.
    pub agents: Vec<(IpAddr, u8)>,
    /// Sub-agents.
    pub sub_agents: Vec<u32>,
    /// Kinds of samples.
    pub kinds: Vec<Kind>,
    /// Interfaces.
    pub interfaces: Vec<u32>,
    /// Leave out datagrams without samples.
    pub no_empty: bool,
}

/// What becomes of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on as it is.
    Whole,
    /// What was written goes on.
    Rewritten,
    /// It does not go on.
    Nothing,
}

/// A verdict and what was seen on the way to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// What becomes of it.
    pub verdict: Verdict,
    /// Samples taken out.
    pub removed: u64,
    /// The datagram cannot be read to its end.
    pub malformed: bool,
}

impl Filter {
    /// Judges a datagram. What goes on instead of it is appended to `out`, if the verdict says so.
    pub fn apply(&self, bytes: &[u8], out: &mut Vec<u8>) -> Outcome {
        let whole = Outcome {
            verdict: Verdict::Whole,
            removed: 0,
            malformed: false,
        };
        let by_sample = !(self.kinds.is_empty() && self.interfaces.is_empty());
        if !by_sample && self.agents.is_empty() && self.sub_agents.is_empty() {
            return whole;
        }
        let nothing = Outcome {
            verdict: Verdict::Nothing,
            ..whole
        };
        let Ok(datagram) = Datagram::parse(bytes) else {
            return Outcome {
                malformed: true,
                ..nothing
            };
        };
        if !self.takes_agent(&datagram) {
            return nothing;
        }
        if !by_sample {
            return whole;
        }
        self.rewrite(bytes, &datagram, out)
    }

    fn takes_agent(&self, d: &Datagram<'_>) -> bool {
        let known = match d.agent.ip() {
            _ if self.agents.is_empty() => true,
            None => false,
            Some(ip) => self.agents.iter().any(|p| contains(*p, ip)),
        };
        known && (self.sub_agents.is_empty() || self.sub_agents.contains(&d.sub_agent_id))
    }

    fn rewrite(&self, bytes: &[u8], d: &Datagram<'_>, out: &mut Vec<u8>) -> Outcome {
        let start = out.len();
        let head = match d.agent {
            Address::Unknown => 24,
            Address::V4(_) => 28,
            Address::V6(_) => 40,
        };
        out.extend_from_slice(bytes.get(..head - 4).unwrap_or(bytes));
        out.extend_from_slice(&[0; 4]);
        let (mut kept, mut removed, mut malformed) = (0u32, 0u64, false);
        for raw in d.raw_samples() {
            let Ok(raw) = raw else {
                malformed = true;
                break;
            };
            if self.takes_sample(&raw) {
                let end = raw.offset + pad4(raw.body.len());
                let sample = bytes.get(raw.offset.saturating_sub(8)..end.min(bytes.len()));
                out.extend_from_slice(sample.unwrap_or(&[]));
                // A length without padding at the very end of the datagram.
                let whole = start + (out.len() - start).next_multiple_of(4);
                out.resize(whole, 0);
                kept += 1;
            } else {
                removed += 1;
            }
        }
        let verdict = match (removed, kept) {
            (_, 0) if self.no_empty => Verdict::Nothing,
            (0, _) if !malformed => Verdict::Whole,
            _ => Verdict::Rewritten,
        };
        if verdict == Verdict::Rewritten {
            if let Some(count) = out.get_mut(start + head - 4..start + head) {
                count.copy_from_slice(&kept.to_be_bytes());
            }
        } else {
            out.truncate(start);
        }
        Outcome {
            verdict,
            removed,
            malformed,
        }
    }

    fn takes_sample(&self, raw: &RawRecord<'_>) -> bool {
        let of_interface = |index: u32| self.interfaces.contains(&index);
        let of_source = |s: DataSource| s.class == 0 && of_interface(s.index);
        // A sample whose head cannot be read is of the kind its tag says, and of no interface.
        let (kind, ours) = match Sample::parse(*raw) {
            Ok(Sample::Flow(s)) => (Kind::Flow, of_source(s.head.source)),
            Ok(Sample::Counters(s)) => (Kind::Counter, of_source(s.head.source)),
            Ok(Sample::Discard(s)) => (
                Kind::Discard,
                of_interface(s.head.input) || of_interface(s.head.output),
            ),
            Ok(Sample::Other(_)) => (Kind::Other, false),
            Err(_) => (kind_of_tag(raw), false),
        };
        (self.kinds.is_empty() || self.kinds.contains(&kind))
            && (self.interfaces.is_empty() || ours)
    }
}

fn kind_of_tag(raw: &RawRecord<'_>) -> Kind {
    use parshall_sflow_wire::builder::sample_tag;
    match raw.tag {
        sample_tag::FLOW | sample_tag::FLOW_EXPANDED => Kind::Flow,
        sample_tag::COUNTERS | sample_tag::COUNTERS_EXPANDED => Kind::Counter,
        sample_tag::DISCARD => Kind::Discard,
        _ => Kind::Other,
    }
}

fn contains((prefix, len): (IpAddr, u8), ip: IpAddr) -> bool {
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(a) => (u128::from(u32::from(a)) << 96, true),
        IpAddr::V6(a) => (u128::from(a), false),
    };
    let ((p, v4), (a, a_v4)) = (bits(prefix), bits(ip));
    let mask = u128::MAX
        .checked_shl(128 - u32::from(len.min(128)))
        .unwrap_or(0);
    v4 == a_v4 && (p ^ a) & mask == 0
}
