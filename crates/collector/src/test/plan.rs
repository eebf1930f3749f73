//! What is sent: flows, counters and discards with values that are easily known again.
//!
//! Addresses are those for documentation (RFC 5737, RFC 3849). Counters of an interface grow by exactly what its samples stand for,
//! so that totals from samples and from counters agree to the byte.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use parshall_sflow_wire::record::{
    ExtendedRouter, ExtendedSwitch, IfCounters, PortName, RawHeader, Timestamp, header_protocol,
};
use parshall_sflow_wire::{
    CounterRecord, CounterSampleHead, DataSource, DatagramBuilder, DiscardSampleHead, FlowRecord,
    FlowSampleHead, Interface, PushError, SampleToSend, reason,
};
use parshall_wire::{MacAddr, PacketBuilder, TcpFlags};

use super::records;

/// Bytes of UDP payload of a datagram at most, as agents have it.
const MOST: usize = 1400;
/// Header bytes in a sample.
const HEADER: usize = 128;
/// Ethernet's frame check sequence.
pub const FCS: u32 = 4;
/// Where sampled packets come in, and where they leave.
pub const IN: u32 = 1001;
/// See there.
pub const OUT: u32 = 1002;
/// Names of the two.
pub const NAMES: [(u32, &str); 2] = [(IN, "parshall-test-1"), (OUT, "parshall-test-2")];
/// The agent of the datagram whose agent has an IPv6 address.
pub const AGENT6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 0x6343);
/// Drops of each round: reason, and how many.
pub const DISCARDS: [(u32, u32); 2] = [(reason::ACL, 3), (reason::TTL_EXCEEDED, 1)];

/// A flow that is sampled.
#[derive(Clone, Debug)]
pub struct Flow {
    /// What it is, for people.
    pub what: &'static str,
    /// Samples in each round.
    pub samples: u32,
    /// The frame, without its check sequence.
    pub frame: Vec<u8>,
}

/// The flows, in the order in which they are sent.
pub fn flows() -> Vec<Flow> {
    let v4 = |a: u8, b: u8| (Ipv4Addr::new(192, 0, 2, a), Ipv4Addr::new(198, 51, 100, b));
    let v6 = (
        Ipv6Addr::new(0x2001, 0xDB8, 10, 0, 0, 0, 0, 10),
        Ipv6Addr::new(0x2001, 0xDB8, 20, 0, 0, 0, 0, 20),
    );
    let (a, c, d) = (v4(10, 20), v4(11, 21), v4(12, 22));
    vec![
        Flow {
            what: "TCP 192.0.2.10:12345 -> 198.51.100.20:443, flags ACK",
            samples: 10,
            frame: ethernet()
                .ipv4(a.0, a.1)
                .tcp(12345, 443, TcpFlags::ACK)
                .total_len(1514)
                .build(),
        },
        Flow {
            what: "UDP [2001:db8:a::a]:5353 -> [2001:db8:14::14]:53",
            samples: 5,
            frame: ethernet()
                .ipv6(v6.0, v6.1)
                .udp(5353, 53)
                .total_len(140)
                .build(),
        },
        Flow {
            what: "ICMP echo request 192.0.2.11 -> 198.51.100.21, VLAN 100",
            samples: 2,
            frame: ethernet()
                .vlan(100)
                .ipv4(c.0, c.1)
                .echo_request(7, 1)
                .total_len(102)
                .build(),
        },
        Flow {
            what: "TCP 192.0.2.12:23456 -> 198.51.100.22:80, flags SYN, with every record",
            samples: 1,
            frame: ethernet()
                .ipv4(d.0, d.1)
                .tcp(23456, 80, TcpFlags::SYN)
                .total_len(60)
                .build(),
        },
    ]
}

fn ethernet() -> PacketBuilder {
    PacketBuilder::ethernet(
        MacAddr([2, 0, 0x5E, 0, 0, 1]),
        MacAddr([2, 0, 0x5E, 0, 0, 2]),
    )
}

/// What a round is to be like.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// The agent's address.
    pub agent: IpAddr,
    /// Its sub-agent.
    pub sub_agent: u32,
    /// 1 in so many.
    pub rate: u32,
    /// Samples and records of a format that nobody knows are sent too.
    pub unknown: bool,
}

/// A datagram and what it is for.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its shape, for people.
    pub shape: &'static str,
    /// UDP payload.
    pub bytes: Vec<u8>,
}

/// An agent that counts on from round to round.
pub struct Agent {
    told: Told,
    flows: Vec<Flow>,
    builder: DatagramBuilder,
    /// Numbers of datagrams: its own, and of the agent with the IPv6 address.
    datagrams: [u32; 2],
    flow_samples: [u32; 2],
    discards: u32,
    counters: Vec<(DataSource, u32)>,
    /// Packets and bytes that the samples so far stand for; the pool is the first.
    totals: (u64, u64),
    out: Vec<Planned>,
    shape: &'static str,
}

impl Agent {
    /// An agent that has sent nothing.
    pub fn new(told: Told) -> Agent {
        Agent {
            told,
            flows: flows(),
            builder: DatagramBuilder::new(MOST),
            datagrams: [0; 2],
            flow_samples: [0; 2],
            discards: 0,
            counters: Vec::new(),
            totals: (0, 0),
            out: Vec::new(),
            shape: "",
        }
    }

    /// The datagrams of the next round. `uptime_ms` counts from the first, `unix_ns` is the clock.
    pub fn round(&mut self, uptime_ms: u32, unix_ns: u64) -> Vec<Planned> {
        self.begin("interface counters", uptime_ms);
        self.interface_counters(uptime_ms);
        self.end();
        self.begin("counters of the machine, a record to a sample", uptime_ms);
        for record in records::HOST {
            self.counter(DataSource::HOST, &[*record], uptime_ms);
        }
        self.end();
        self.flow_datagrams(uptime_ms, unix_ns);
        self.begin("discarded packets", uptime_ms);
        self.discard_samples();
        self.end();
        self.ipv6_agent(uptime_ms, unix_ns);
        if self.told.unknown {
            self.unknown(uptime_ms, unix_ns);
        }
        std::mem::take(&mut self.out)
    }

    fn begin(&mut self, shape: &'static str, uptime_ms: u32) {
        self.shape = shape;
        self.datagrams[0] += 1;
        let t = self.told;
        self.builder
            .begin(t.agent, t.sub_agent, self.datagrams[0], uptime_ms);
    }

    fn end(&mut self) {
        if !self.builder.is_empty() {
            self.out.push(Planned {
                shape: self.shape,
                bytes: self.builder.finish().to_vec(),
            });
        }
    }

    /// Writes a sample, into the next datagram when this one is full.
    fn push(
        &mut self,
        uptime_ms: u32,
        write: impl Fn(&mut DatagramBuilder) -> Result<(), PushError>,
    ) {
        if write(&mut self.builder) == Err(PushError::Full) {
            self.end();
            self.begin(self.shape, uptime_ms);
            // No sample of ours is larger than a datagram, which a test checks.
            let _ = write(&mut self.builder);
        }
    }

    fn counter(&mut self, source: DataSource, list: &[CounterRecord<'_>], uptime_ms: u32) {
        let at = match self.counters.iter().position(|c| c.0 == source) {
            Some(at) => at,
            None => {
                self.counters.push((source, 0));
                self.counters.len() - 1
            }
        };
        self.counters[at].1 += 1;
        let head = CounterSampleHead {
            sequence: self.counters[at].1,
            source,
        };
        self.push(uptime_ms, |b| {
            b.try_push(&SampleToSend::Counters(head, list))
        });
    }

    fn interface_counters(&mut self, uptime_ms: u32) {
        for (if_index, name) in NAMES {
            let source = DataSource::interface(if_index);
            let generic = CounterRecord::Interface(self.generic(if_index));
            let name = CounterRecord::PortName(PortName { name: name.into() });
            self.counter(source, &[generic, records::ETHERNET, name], uptime_ms);
        }
        for record in records::INTERFACE {
            self.counter(DataSource::interface(IN), &[*record], uptime_ms);
        }
    }

    fn generic(&self, if_index: u32) -> IfCounters {
        let (packets, octets) = self.totals;
        let here = |yes: bool| {
            if yes {
                (octets, packets as u32)
            } else {
                (0, 0)
            }
        };
        let (input, output) = (here(if_index == IN), here(if_index == OUT));
        IfCounters {
            if_index,
            if_type: 6,
            if_speed: 10_000_000_000,
            if_direction: 1,
            if_status: 3,
            in_octets: input.0,
            in_ucast_pkts: input.1,
            in_multicast_pkts: 0,
            in_broadcast_pkts: 0,
            in_discards: 0,
            in_errors: 0,
            in_unknown_protos: u32::MAX,
            out_octets: output.0,
            out_ucast_pkts: output.1,
            out_multicast_pkts: 0,
            out_broadcast_pkts: 0,
            out_discards: 0,
            out_errors: 0,
            promiscuous: 2,
        }
    }

    /// The first sample has a datagram to itself, the others fill theirs.
    fn flow_datagrams(&mut self, uptime_ms: u32, unix_ns: u64) {
        let flows = std::mem::take(&mut self.flows);
        let mut first = true;
        for f in &flows {
            for _ in 0..f.samples {
                if first {
                    self.begin("one flow sample", uptime_ms);
                }
                let every = f.samples == 1;
                if every {
                    self.end();
                    self.begin("a flow sample with every record", uptime_ms);
                }
                self.flow(f, every, uptime_ms, unix_ns);
                if first {
                    self.end();
                    self.begin("flow samples, as many as fit", uptime_ms);
                }
                first = false;
            }
        }
        self.end();
        self.flows = flows;
    }

    fn flow(&mut self, f: &Flow, every: bool, uptime_ms: u32, unix_ns: u64) {
        let len = f.frame.len() as u64;
        self.totals.0 += u64::from(self.told.rate);
        self.totals.1 += u64::from(self.told.rate) * len;
        self.flow_samples[0] += 1;
        let head = self.flow_head(self.flow_samples[0], self.totals.0 as u32);
        let header = raw_header(&f.frame);
        let timestamp = FlowRecord::Timestamp(Timestamp { unix_ns });
        let more: &[FlowRecord<'_>] = if every { records::FLOW } else { &[] };
        self.push(uptime_ms, |b| {
            b.push_flow_sample_expanded(&head, |w| {
                w.push(&router());
                w.push(&switch(&f.frame));
                w.push(&header);
                // Wireshark's dissector loses its way after a record that it does not know: those come last.
                more.iter().for_each(|r| w.push(r));
                w.push(&timestamp);
            })
        });
    }

    fn flow_head(&self, sequence: u32, pool: u32) -> FlowSampleHead {
        FlowSampleHead {
            sequence,
            source: DataSource::interface(IN),
            rate: self.told.rate,
            pool,
            drops: 0,
            input: Interface::index(IN),
            output: Interface::index(OUT),
        }
    }

    fn discard_samples(&mut self) {
        let flows = flows();
        let Some(frame) = flows.first().map(|f| f.frame.as_slice()) else {
            return;
        };
        for (code, n) in DISCARDS {
            for _ in 0..n {
                self.discards += 1;
                let head = DiscardSampleHead {
                    sequence: self.discards,
                    source: DataSource::AGENT,
                    drops: 0,
                    input: IN,
                    output: 0,
                    reason: code,
                };
                let acl = code == reason::ACL;
                let all = [
                    records::ACL,
                    records::FUNCTION,
                    records::TRAP,
                    raw_header(frame),
                ];
                let list = if acl { &all[..] } else { &all[1..] };
                // Four of some 250 bytes always fit.
                let _ = self.builder.try_push(&SampleToSend::Discard(head, list));
            }
        }
    }

    /// A datagram of an agent with an IPv6 address: its header is 12 bytes longer.
    fn ipv6_agent(&mut self, uptime_ms: u32, unix_ns: u64) {
        let Some(f) = self.flows.get(1) else {
            return;
        };
        self.datagrams[1] += 1;
        self.flow_samples[1] += 1;
        let n = self.flow_samples[1];
        let head = self.flow_head(n, n * self.told.rate);
        let mut b = DatagramBuilder::new(MOST);
        b.begin(
            AGENT6.into(),
            self.told.sub_agent,
            self.datagrams[1],
            uptime_ms,
        );
        let list = [
            router(),
            switch(&f.frame),
            raw_header(&f.frame),
            FlowRecord::Timestamp(Timestamp { unix_ns }),
        ];
        let _ = b.try_push(&SampleToSend::Flow(head, &list));
        self.out.push(Planned {
            shape: "an agent with an IPv6 address",
            bytes: b.finish().to_vec(),
        });
    }

    /// A record of an unknown format in front of those that are known: a collector must step over it.
    fn unknown(&mut self, uptime_ms: u32, unix_ns: u64) {
        self.begin("a record of an unknown format first", uptime_ms);
        let Some(f) = self.flows.first() else {
            return;
        };
        let len = f.frame.len() as u64;
        self.totals.0 += u64::from(self.told.rate);
        self.totals.1 += u64::from(self.told.rate) * len;
        self.flow_samples[0] += 1;
        let head = self.flow_head(self.flow_samples[0], self.totals.0 as u32);
        let list = [
            FlowRecord::Unknown {
                tag: records::UNKNOWN_TAG,
                body: b"step over me",
            },
            router(),
            switch(&f.frame),
            raw_header(&f.frame),
            FlowRecord::Timestamp(Timestamp { unix_ns }),
        ];
        let _ = self.builder.try_push(&SampleToSend::Flow(head, &list));
        self.end();
    }

    /// Packets and bytes that the samples so far stand for, those of the other agent left out.
    pub fn totals(&self) -> (u64, u64) {
        self.totals
    }
}

fn router() -> FlowRecord<'static> {
    FlowRecord::Router(ExtendedRouter {
        next_hop: Ipv4Addr::new(203, 0, 113, 1).into(),
        src_mask_len: 24,
        dst_mask_len: 25,
    })
}

/// The frame's own tag, where it has one.
fn switch(frame: &[u8]) -> FlowRecord<'static> {
    let vlan = match frame.get(12..16) {
        Some(&[0x81, 0, a, b]) => u32::from(a & 15) << 8 | u32::from(b),
        _ => 0,
    };
    FlowRecord::Switch(ExtendedSwitch {
        in_vlan: vlan,
        in_priority: 0,
        out_vlan: vlan,
        out_priority: 0,
    })
}

fn raw_header(frame: &[u8]) -> FlowRecord<'_> {
    FlowRecord::RawHeader(RawHeader {
        protocol: header_protocol::ETHERNET,
        frame_length: frame.len() as u32 + FCS,
        stripped: FCS,
        header: frame.get(..HEADER).unwrap_or(frame),
    })
}
