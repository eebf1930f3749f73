//! What a collector must show of what was sent.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use parshall_sflow_wire::reason;
use serde::Serialize;

use super::plan::{self, AGENT6, Agent, DISCARDS, IN, NAMES, OUT, Told};

/// A flow and what it comes to.
#[derive(Clone, Debug, Serialize)]
pub struct FlowTotal {
    /// Addresses and ports.
    pub flow: String,
    /// Which agent reports it.
    pub agent: IpAddr,
    /// Bytes of the frame, without its check sequence.
    pub frame_bytes: u64,
    /// Samples of all rounds.
    pub samples: u64,
    /// Packets that they stand for.
    pub packets: u64,
    /// Bytes that they stand for.
    pub bytes: u64,
}

/// A reason and how many discards there are for it.
#[derive(Clone, Debug, Serialize)]
pub struct DiscardTotal {
    /// Its name.
    pub reason: &'static str,
    /// Its number.
    pub code: u32,
    /// Samples of all rounds.
    pub samples: u64,
}

/// An interface and its counters after the last round.
#[derive(Clone, Debug, Serialize)]
pub struct InterfaceTotal {
    /// ifIndex.
    pub if_index: u32,
    /// ifName.
    pub name: &'static str,
    /// `ifInOctets` and `ifInUcastPkts`, or those of the way out.
    pub direction: &'static str,
    /// Octets that the counter grows by in a round.
    pub octets_each: u64,
    /// Packets that the counter grows by in a round.
    pub packets_each: u64,
    /// Octets in the last counter sample.
    pub octets_last: u64,
    /// Packets in the last counter sample.
    pub packets_last: u64,
    /// Bit/s that a graph shows.
    pub bits_per_second: f64,
}

/// A datagram of a round.
#[derive(Clone, Debug, Serialize)]
pub struct Shape {
    /// What it is for.
    pub shape: &'static str,
    /// Bytes of UDP payload.
    pub bytes: usize,
    /// Samples in it.
    pub samples: u32,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Expected {
    /// Rounds.
    pub rounds: u32,
    /// Seconds between them.
    pub interval: f64,
    /// The agent.
    pub agent: IpAddr,
    /// Its sub-agent.
    pub sub_agent: u32,
    /// 1 in so many.
    pub sampling_rate: u32,
    /// Datagrams of a round.
    pub datagrams: Vec<Shape>,
    /// Flows.
    pub flows: Vec<FlowTotal>,
    /// Interfaces.
    pub interfaces: Vec<InterfaceTotal>,
    /// Discards.
    pub discards: Vec<DiscardTotal>,
}

impl Expected {
    /// Of so many rounds.
    pub fn of(told: Told, rounds: u32, interval: f64) -> Expected {
        let mut agent = Agent::new(told);
        let datagrams = agent.round(0, 0);
        let (packets_each, octets_each) = agent.totals();
        let n = u64::from(rounds);
        let interface = |(if_index, name)| InterfaceTotal {
            if_index,
            name,
            direction: if if_index == IN { "in" } else { "out" },
            octets_each,
            packets_each,
            // Counters come first in a round: they have what the rounds before brought.
            octets_last: octets_each * (n - 1),
            packets_last: packets_each * (n - 1),
            bits_per_second: 8.0 * octets_each as f64 / interval.max(1e-3),
        };
        Expected {
            rounds,
            interval,
            agent: told.agent,
            sub_agent: told.sub_agent,
            sampling_rate: told.rate,
            datagrams: datagrams.iter().map(shape).collect(),
            flows: flows(told, n),
            interfaces: NAMES.map(interface).to_vec(),
            discards: DISCARDS
                .map(|(code, each)| DiscardTotal {
                    reason: reason::name(code).unwrap_or("unknown"),
                    code,
                    samples: n * u64::from(each),
                })
                .to_vec(),
        }
    }

    /// For people.
    pub fn text(&self, to: SocketAddr) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            out,
            "Collector {to}: {} rounds, one every {} s. It must show:\n\n\
             agent {} sub-agent {}, and agent {AGENT6}; sampling rate 1 in {}\n\
             input ifIndex {IN} ({}), output ifIndex {OUT} ({}), next hop 203.0.113.1, masks /24 and /25\n",
            self.rounds,
            self.interval,
            self.agent,
            self.sub_agent,
            self.sampling_rate,
            NAMES[0].1,
            NAMES[1].1
        );
        let _ = writeln!(
            out,
            "{:<70} {:>6} {:>8} {:>12} {:>16}",
            "flow", "frame", "samples", "packets", "bytes"
        );
        for f in &self.flows {
            let who = if f.agent == self.agent {
                String::new()
            } else {
                format!(" (agent {})", f.agent)
            };
            let _ = writeln!(
                out,
                "{:<70} {:>6} {:>8} {:>12} {:>16}",
                f.flow.clone() + &who,
                f.frame_bytes,
                f.samples,
                f.packets,
                f.bytes
            );
        }
        out += "packets = samples x sampling rate, bytes = packets x frame, the frame without its 4 bytes of check sequence\n\n";
        for i in &self.interfaces {
            let _ = writeln!(
                out,
                "{} (ifIndex {}): {} octets grow by {} and packets by {} each round ({:.0} bit/s), at last {} and {}",
                i.name,
                i.if_index,
                i.direction,
                i.octets_each,
                i.packets_each,
                i.bits_per_second,
                i.octets_last,
                i.packets_last
            );
        }
        out += "host parshall-test: processor, memory, disk, network, IP, ICMP, TCP and UDP counters, adapters, the daemon's resources\n";
        for d in &self.discards {
            let _ = writeln!(
                out,
                "discards: {} with reason {} ({}) on input {IN}",
                d.samples, d.reason, d.code
            );
        }
        out += "\nThe sample with every record: AS path 64499 64500 64501 from AS 64496, communities 64496:100 64496:200, local\n\
                preference 150; labels 16001 in, 16002 16003 out; translated to 203.0.113.12:40000 -> 203.0.113.22:8080; outer VLAN 200;\n\
                VNI 5001 out, 5002 in; queue 3 with 67890 bytes, 12345 ns in the device; access list 42 parshall-test-acl\n\n\
                datagrams of a round:\n";
        for (n, d) in (1..).zip(&self.datagrams) {
            let _ = writeln!(
                out,
                "  {n:>2}: {:>4} bytes, {:>2} samples: {}",
                d.bytes, d.samples, d.shape
            );
        }
        out
    }
}

fn flows(told: Told, rounds: u64) -> Vec<FlowTotal> {
    let total = |f: &plan::Flow, agent: IpAddr, samples: u32| {
        let (samples, frame_bytes) = (rounds * u64::from(samples), f.frame.len() as u64);
        let packets = samples * u64::from(told.rate);
        FlowTotal {
            flow: f.what.to_owned(),
            agent,
            frame_bytes,
            samples,
            packets,
            bytes: packets * frame_bytes,
        }
    };
    let all = plan::flows();
    let extra = |i: usize| u32::from(i == 0 && told.unknown);
    let mut out: Vec<FlowTotal> = (0..)
        .zip(&all)
        .map(|(i, f)| total(f, told.agent, f.samples + extra(i)))
        .collect();
    out.extend(all.get(1).map(|f| total(f, AGENT6.into(), 1)));
    out
}

fn shape(d: &plan::Planned) -> Shape {
    let samples = parshall_sflow_wire::Datagram::parse(&d.bytes).map_or(0, |d| d.sample_count);
    Shape {
        shape: d.shape,
        bytes: d.bytes.len(),
        samples,
    }
}
