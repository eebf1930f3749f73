//! The rig: a worker's graph seen by the real agent, what it sent, and how a reason is brought about.

use super::*;

/// The router as the agent sees it: interfaces 1 to 3, exported as 101 to 103.
pub(super) struct View {
    pub(super) graph: Arc<Graph>,
    pub(super) counters: Arc<WorkerCounters>,
}

impl Router for View {
    fn interfaces(&self) -> Vec<IfReport> {
        let report = |index: u32| {
            let mut totals = IfTotals::default();
            self.counters.interfaces[index as usize].add_to(&mut totals);
            IfReport {
                index,
                if_index: 100 + index,
                name: format!("eth{index}"),
                totals,
                ..IfReport::default()
            }
        };
        (1..=3).map(report).collect()
    }
    fn resolve(&self, _header: &[u8], _rx_if: u32) -> Option<RouteInfo> {
        None
    }
    fn pool(&self, _if_index: u32) -> (u64, u64) {
        (0, 0)
    }
    fn suppressed_drops(&self) -> u64 {
        let all = DropReason::ALL.iter();
        all.map(|r| self.counters.suppressed(*r)).sum()
    }
    fn slot_name(&self, slot: u16) -> Option<String> {
        match self.graph.spec(slot) {
            Some(spec) => Some(spec.name.to_owned()),
            None => self.graph.tx_interface(slot).map(|i| format!("eth{i}-tx")),
        }
    }
    fn unix_ns(&self, monotonic_ns: u64) -> Option<u64> {
        Some(monotonic_ns + 1_000)
    }
}

/// Keeps what would be sent.
#[derive(Clone, Default)]
pub(super) struct Wire(pub(super) Arc<Mutex<Vec<Vec<u8>>>>);

impl Transport for Wire {
    fn send(&mut self, _now: u64, datagrams: &[&[u8]]) {
        let mut sent = self.0.lock().unwrap();
        sent.extend(datagrams.iter().map(|d| d.to_vec()));
    }
    fn set_collectors(&mut self, _now: u64, _collectors: &[CollectorConfig]) {}
    fn has_collectors(&self) -> bool {
        true
    }
    fn tick(&mut self, _now: u64) -> u64 {
        u64::MAX
    }
    fn status(&self, _now: u64) -> Vec<CollectorStatus> {
        Vec::new()
    }
}

/// A decoded discarded packet sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) sequence: u32,
    pub(super) source: (u32, u32),
    pub(super) drops: u32,
    pub(super) input: u32,
    pub(super) output: u32,
    pub(super) code: u32,
    pub(super) group: String,
    pub(super) trap: String,
    pub(super) function: Option<String>,
    pub(super) unix_ns: Option<u64>,
    /// Protocol, frame length, stripped, bytes.
    pub(super) header: Option<(u32, u32, u32, Vec<u8>)>,
}

pub(super) fn decode(datagrams: &[Vec<u8>]) -> Vec<Told> {
    let mut out = Vec::new();
    for bytes in datagrams {
        for sample in Datagram::parse(bytes).unwrap().samples() {
            let Sample::Discard(d) = sample.unwrap() else {
                continue;
            };
            let mut told = Told {
                sequence: d.head.sequence,
                source: (d.head.source.class, d.head.source.index),
                drops: d.head.drops,
                input: d.head.input,
                output: d.head.output,
                code: d.head.reason,
                group: String::new(),
                trap: String::new(),
                function: None,
                unix_ns: None,
                header: None,
            };
            for record in d.flow_records() {
                match record.unwrap() {
                    FlowRecord::HardwareTrap(t) => {
                        (told.group, told.trap) = (t.group.to_string(), t.name.to_string());
                    }
                    FlowRecord::Function(f) => told.function = Some(f.symbol.to_string()),
                    FlowRecord::Timestamp(t) => told.unix_ns = Some(t.unix_ns),
                    FlowRecord::RawHeader(h) => {
                        told.header =
                            Some((h.protocol, h.frame_length, h.stripped, h.header.to_vec()));
                    }
                    other => panic!("{other:?}"),
                }
            }
            out.push(told);
        }
    }
    out
}

/// A router, the agent that watches its drops, and what the agent sends.
pub(super) struct Watched {
    pub(super) lab: Lab,
    pub(super) agent: Agent,
    pub(super) wire: Wire,
}

impl Watched {
    pub(super) fn new(mut lab: Lab, limit: u32) -> Watched {
        lab.graph
            .set_feature_everywhere("sflow-drop", true)
            .unwrap();
        lab.tell("sflow-drop", DropSettings { limit });
        let wire = Wire::default();
        let config = AgentConfig {
            drop_limit: limit,
            polling_interval: 0,
            host_interval: 0,
            ..AgentConfig::default()
        };
        let parts = AgentParts {
            router: Arc::new(View {
                graph: lab.graph.clone(),
                counters: lab.harness.dispatcher.counters.clone(),
            }),
            transport: Box::new(wire.clone()),
            host: None,
            elected: "192.0.2.1".parse().unwrap(),
            seed: 1,
        };
        let mut agent = Agent::new(config, parts, lab.now).unwrap();
        agent.add_drop_rings(vec![std::mem::replace(&mut lab.out.drops, ring(2).1)]);
        agent.poll(lab.now);
        Watched { lab, agent, wire }
    }

    /// Lets the agent report, and says what a collector got.
    pub(super) fn told(&mut self) -> Vec<Told> {
        self.lab.now += SECOND;
        self.agent.poll(self.lab.now);
        self.agent.finish(self.lab.now);
        decode(&std::mem::take(&mut *self.wire.0.lock().unwrap()))
    }
}

/// What the sample of a drop shows of the packet.
pub(super) enum Shows {
    /// The frame as it was received.
    Received(Vec<u8>),
    /// Something else, from this protocol on.
    Bytes(u32, Vec<u8>),
    /// Nothing is left of it.
    Nothing,
}

/// How one reason is brought about.
pub(super) struct Case {
    pub(super) reason: DropReason,
    /// Node that gives the packet up.
    pub(super) node: Option<&'static str>,
    /// Exported interfaces of the sample.
    pub(super) ports: (u32, u32),
    pub(super) lab: Lab,
    pub(super) act: Act,
    pub(super) shows: Shows,
}

pub(super) type Act = Box<dyn FnOnce(&mut Lab)>;

impl Case {
    /// `frame` comes in on interface 1 of `lab` and is dropped by `node`.
    pub(super) fn frame(reason: DropReason, node: &'static str, lab: Lab, frame: Vec<u8>) -> Case {
        let received = frame.clone();
        Case {
            reason,
            node: Some(node),
            ports: (101, 0),
            lab,
            act: Box::new(move |lab| drop(lab.send(1, &frame))),
            shows: Shows::Received(received),
        }
    }

    /// The packet was about to leave by interface 2.
    pub(super) fn leaving(mut self) -> Case {
        self.ports.1 = 102;
        self
    }

    pub(super) fn act(mut self, act: impl FnOnce(&mut Lab) + 'static) -> Case {
        self.act = Box::new(act);
        self
    }

    pub(super) fn shows(mut self, shows: Shows) -> Case {
        self.shows = shows;
        self
    }
}

pub(super) fn udp(link: PacketBuilder, src: [u8; 4], dst: [u8; 4]) -> PacketBuilder {
    link.ipv4(src.into(), dst.into()).udp(1, 2).payload_len(50)
}

pub(super) const HOST: [u8; 4] = [10, 0, 1, 2];
pub(super) const FAR: [u8; 4] = [10, 12, 0, 9];

pub(super) fn to(dst: [u8; 4]) -> PacketBuilder {
    udp(to_router(1), HOST, dst)
}

pub(super) fn udp6(src: &str, dst: &str) -> PacketBuilder {
    let link = to_router(1);
    link.ipv6(src.parse().unwrap(), dst.parse().unwrap())
        .udp(1, 2)
        .payload_len(50)
}

pub(super) fn edited(p: PacketBuilder, edit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = p.build();
    edit(&mut frame);
    frame
}

/// The same with the IPv4 header checksum put right.
pub(super) fn edited4(p: PacketBuilder, edit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    edited(p, |f| {
        edit(f);
        f[24..26].fill(0);
        let sum = checksum::checksum(&f[14..34]);
        f[24..26].copy_from_slice(&sum.to_be_bytes());
    })
}

pub(super) fn set_type(frame: &mut [u8], ethertype: u16) {
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
}

pub(super) fn without(flags: u32) -> Lab {
    let mut lab = Lab::new();
    lab.clear_flags(1, flags);
    lab
}

pub(super) fn with_route(dpo: impl FnOnce(&Lab) -> Dpo) -> Lab {
    let lab = Lab::new();
    lab.route4("10.66.0.0/16", dpo(&lab));
    lab
}

pub(super) fn with_peer(peer: u32) -> Lab {
    let mut lab = Lab::new();
    lab.cross_connect(1, peer);
    lab
}
