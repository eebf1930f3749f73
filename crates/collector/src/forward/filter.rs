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

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_sflow_wire::{
        CounterSampleHead, DatagramBuilder, DiscardSampleHead, FlowSampleHead, Interface,
    };
    use proptest::prelude::*;

    fn flow(interface: u32, sequence: u32) -> FlowSampleHead {
        FlowSampleHead {
            sequence,
            source: DataSource::interface(interface),
            rate: 100,
            pool: 1,
            drops: 0,
            input: Interface::index(interface),
            output: Interface::index(9),
        }
    }

    /// Flow samples of interfaces 1 and 2, counters of 1, a discard of 2.
    fn datagram(agent: &str) -> Vec<u8> {
        let mut b = DatagramBuilder::new(1400);
        b.begin(agent.parse().unwrap(), 7, 42, 1000);
        b.push_flow_sample_expanded(&flow(1, 10), |_| {}).unwrap();
        b.push_flow_sample_expanded(&flow(2, 20), |_| {}).unwrap();
        let counters = CounterSampleHead {
            sequence: 30,
            source: DataSource::interface(1),
        };
        b.push_counter_sample_expanded(&counters, |_| {}).unwrap();
        let discard = DiscardSampleHead {
            sequence: 40,
            source: DataSource::AGENT,
            drops: 0,
            input: 2,
            output: 0,
            reason: 6,
        };
        b.push_discard_sample(&discard, |_| {}).unwrap();
        b.finish().to_vec()
    }

    fn sequences(bytes: &[u8]) -> Vec<u32> {
        let d = Datagram::parse(bytes).unwrap();
        assert_eq!((d.sequence, d.sub_agent_id, d.uptime_ms), (42, 7, 1000));
        let each = d.samples().map(|s| match s.unwrap() {
            Sample::Flow(s) => s.head.sequence,
            Sample::Counters(s) => s.head.sequence,
            Sample::Discard(s) => s.head.sequence,
            Sample::Other(_) => 0,
        });
        each.collect()
    }

    fn apply(filter: &Filter, bytes: &[u8]) -> (Outcome, Vec<u8>) {
        let mut out = b"before".to_vec();
        let outcome = filter.apply(bytes, &mut out);
        (outcome, out.split_off(6))
    }

    #[test]
    fn agents_and_sub_agents_are_taken_or_left_whole() {
        let verdict = |agents: &[(&str, u8)], sub_agents: &[u32], agent: &str| {
            let filter = Filter {
                agents: agents
                    .iter()
                    .map(|(a, l)| (a.parse().unwrap(), *l))
                    .collect(),
                sub_agents: sub_agents.to_vec(),
                ..Filter::default()
            };
            let (outcome, written) = apply(&filter, &datagram(agent));
            assert!(written.is_empty() && outcome.removed == 0);
            outcome.verdict
        };
        use Verdict::{Nothing, Whole};
        assert_eq!(verdict(&[], &[], "192.0.2.1"), Whole);
        assert_eq!(verdict(&[("192.0.2.0", 24)], &[], "192.0.2.1"), Whole);
        assert_eq!(verdict(&[("192.0.2.0", 32)], &[], "192.0.2.1"), Nothing);
        assert_eq!(verdict(&[("0.0.0.0", 0)], &[], "2001:db8::1"), Nothing);
        assert_eq!(verdict(&[("::", 0)], &[7], "2001:db8::1"), Whole);
        assert_eq!(
            verdict(&[("2001:db8::1", 128)], &[8], "2001:db8::1"),
            Nothing
        );
    }

    #[test]
    fn samples_are_taken_out_and_numbers_stay() {
        for agent in ["192.0.2.1", "2001:db8::1"] {
            let whole = datagram(agent);
            let left = |kinds: &[Kind], interfaces: &[u32]| {
                let filter = Filter {
                    kinds: kinds.to_vec(),
                    interfaces: interfaces.to_vec(),
                    ..Filter::default()
                };
                let (outcome, bytes) = apply(&filter, &whole);
                assert!(!outcome.malformed);
                match outcome.verdict {
                    Verdict::Rewritten => sequences(&bytes),
                    Verdict::Whole => sequences(&whole),
                    Verdict::Nothing => panic!("an empty datagram goes on"),
                }
            };
            assert_eq!(left(&[Kind::Flow], &[]), [10, 20]);
            assert_eq!(left(&[Kind::Counter, Kind::Discard], &[]), [30, 40]);
            assert_eq!(left(&[], &[1]), [10, 30]);
            assert_eq!(left(&[], &[2]), [20, 40]);
            assert_eq!(left(&[Kind::Flow], &[2]), [20]);
            assert!(left(&[Kind::Other], &[]).is_empty());
            assert_eq!(left(&[], &[1, 2]), [10, 20, 30, 40]);
        }
    }

    #[test]
    fn nothing_left_goes_out_empty_or_not_at_all() {
        let filter = Filter {
            kinds: vec![Kind::Other],
            no_empty: true,
            ..Filter::default()
        };
        let (outcome, bytes) = apply(&filter, &datagram("192.0.2.1"));
        assert_eq!((outcome.verdict, outcome.removed), (Verdict::Nothing, 4));
        assert!(bytes.is_empty());
    }

    #[test]
    fn the_good_samples_in_front_of_a_broken_one_go_on() {
        let mut whole = datagram("192.0.2.1");
        whole.truncate(whole.len() - 4);
        let filter = Filter {
            interfaces: vec![1, 2],
            ..Filter::default()
        };
        let (outcome, bytes) = apply(&filter, &whole);
        assert!(outcome.malformed);
        assert_eq!(sequences(&bytes), [10, 20, 30]);
        let agents = Filter {
            sub_agents: vec![7],
            ..Filter::default()
        };
        let (outcome, _) = apply(&agents, b"no sFlow");
        assert_eq!(
            (outcome.verdict, outcome.malformed),
            (Verdict::Nothing, true)
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_always_a_datagram(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..220, take in 0usize..4) {
            // A valid beginning, then anything.
            let mut all = datagram("192.0.2.1");
            all.truncate(cut);
            all.append(&mut bytes);
            let kind = [Kind::Flow, Kind::Counter, Kind::Discard, Kind::Other][take];
            let filter = Filter { kinds: vec![kind], ..Filter::default() };
            let (outcome, written) = apply(&filter, &all);
            if outcome.verdict == Verdict::Rewritten {
                let d = Datagram::parse(&written).unwrap();
                prop_assert_eq!(d.raw_samples().count(), d.sample_count as usize);
                prop_assert!(d.raw_samples().all(|s| s.is_ok()));
            }
        }
    }
}
