//! Our own agent breaks no rule: whatever changes while it runs, `parshall sflow lint` finds nothing but notes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use parshall_agent::host::ProcReader;
use parshall_agent::{
    Agent, AgentConfig, AgentParts, CollectorConfig, CollectorStatus, IfReport, RouteInfo, Router,
    Transport,
};
use parshall_collector::lint::finding::At;
use parshall_collector::lint::{LintOptions, Linter};
use parshall_collector::verify::report::{Report, Terms};
use parshall_collector::verify::tally::{Place, Tally};
use parshall_ring::{Producer, ring};
use parshall_sample::{SampleSlot, Sampler};

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;
/// When the test begins, in ns since 1970.
const EPOCH: u64 = 1_700_000_000 * SECOND;

/// A router of which the test is the data plane.
#[derive(Default)]
struct Plane {
    ports: Mutex<Vec<IfReport>>,
    pools: Mutex<BTreeMap<u32, (u64, u64)>>,
    generation: Mutex<u64>,
}

impl Router for Plane {
    fn interfaces(&self) -> Vec<IfReport> {
        self.ports.lock().unwrap().clone()
    }
    fn resolve(&self, _header: &[u8], rx_if: u32) -> Option<RouteInfo> {
        Some(RouteInfo {
            out_if: rx_if % 3 + 1,
            next_hop: [192, 0, 2, 1].into(),
            src_mask_len: 24,
            dst_mask_len: 16,
        })
    }
    fn pool(&self, if_index: u32) -> (u64, u64) {
        let pools = self.pools.lock().unwrap();
        pools.get(&if_index).copied().unwrap_or_default()
    }
    fn generation(&self) -> u64 {
        *self.generation.lock().unwrap()
    }
    fn unix_ns(&self, monotonic_ns: u64) -> Option<u64> {
        Some(EPOCH + monotonic_ns)
    }
}

/// Datagrams with the time at which they left.
type Sent = Arc<Mutex<Vec<(u64, Vec<u8>)>>>;

struct Wire(Sent);

impl Transport for Wire {
    fn send(&mut self, now: u64, datagrams: &[&[u8]]) {
        let mut sent = self.0.lock().unwrap();
        sent.extend(datagrams.iter().map(|d| (now, d.to_vec())));
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

/// A router with three ports, its agent, and the traffic.
struct World {
    plane: Arc<Plane>,
    agent: Agent,
    sent: Sent,
    producer: Producer<SampleSlot>,
    samplers: Vec<Sampler>,
    now: u64,
    incarnation: u64,
    state: u64,
}

fn config() -> AgentConfig {
    AgentConfig {
        polling_interval: 2,
        host_interval: 5,
        ..AgentConfig::default()
    }
}

impl World {
    fn new() -> World {
        let plane = Arc::new(Plane::default());
        let sent = Sent::default();
        let parts = AgentParts {
            router: plane.clone(),
            transport: Box::new(Wire(sent.clone())),
            host: Some(Box::new(ProcReader::new())),
            elected: [192, 0, 2, 9].into(),
            seed: 3,
        };
        let mut agent = Agent::new(config(), parts, SECOND).unwrap();
        let (producer, consumer) = ring(1024);
        agent.add_source(0, consumer);
        let mut w = World {
            plane,
            agent,
            sent,
            producer,
            samplers: (0..3).map(|i| Sampler::new(20, i)).collect(),
            now: SECOND,
            incarnation: 0,
            state: 1,
        };
        (1..=3).for_each(|i| w.make(i));
        w
    }

    fn make(&mut self, index: u32) {
        self.incarnation += 1;
        let port = IfReport {
            index,
            if_index: 100 + index,
            incarnation: self.incarnation,
            name: format!("port{index}"),
            speed: 10_000_000_000,
            admin_up: true,
            link_up: true,
            sflow: true,
            rate: 20,
            ..IfReport::default()
        };
        self.plane.ports.lock().unwrap().push(port);
        self.plane.pools.lock().unwrap().insert(index, (0, 0));
        *self.plane.generation.lock().unwrap() += 1;
    }

    fn delete(&mut self, index: u32) {
        // As the router does it: what lies in the rings is sent before the interface goes.
        self.agent.poll(self.now);
        self.plane
            .ports
            .lock()
            .unwrap()
            .retain(|p| p.index != index);
        *self.plane.generation.lock().unwrap() += 1;
        self.agent.poll(self.now);
    }

    fn random(&mut self) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.state >> 33
    }

    /// Lets traffic pass for so many milliseconds, three packets each to each port; samples of every `lose`th are lost.
    fn run(&mut self, milliseconds: u64, lose: u64) {
        for _ in 0..milliseconds {
            self.now += MILLISECOND;
            let ports: Vec<u32> = self.plane.interfaces().iter().map(|p| p.index).collect();
            for index in ports {
                for _ in 0..3 {
                    self.packet(index, lose);
                }
            }
            self.agent.poll(self.now);
        }
    }

    fn packet(&mut self, index: u32, lose: u64) {
        let len = if self.random().is_multiple_of(3) {
            64
        } else {
            1500
        };
        let lost = lose > 0 && self.random().is_multiple_of(lose);
        let mut pools = self.plane.pools.lock().unwrap();
        let Some(pool) = pools.get_mut(&index) else {
            return;
        };
        pool.0 += 1;
        let mut ports = self.plane.ports.lock().unwrap();
        if let Some(p) = ports.iter_mut().find(|p| p.index == index) {
            p.totals.rx_packets += 1;
            p.totals.rx_bytes += u64::from(len);
        }
        let sampler = &mut self.samplers[index as usize - 1];
        if sampler.advance(1).is_none() {
            return;
        }
        if lost || !self.producer.has_room() {
            pool.1 += 1;
            return;
        }
        let (rate, now) = (sampler.rate(), self.now);
        let written = self.producer.write(|s| {
            (s.rx_if, s.tx_if, s.rate) = (index, u32::MAX, rate);
            (s.frame_len, s.header_len, s.time) = (len, 64, now);
            s.header[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5]);
        });
        assert!(written);
    }

    /// Counters, pool and all begin at zero again.
    fn clear(&mut self) {
        self.agent.poll(self.now);
        for p in self.plane.ports.lock().unwrap().iter_mut() {
            p.totals = Default::default();
        }
        for p in self.plane.pools.lock().unwrap().values_mut() {
            *p = (0, 0);
        }
    }

    fn end(mut self) -> Vec<(u64, Vec<u8>)> {
        self.agent.finish(self.now);
        std::mem::take(&mut self.sent.lock().unwrap())
    }
}

fn lint(list: &[(u64, Vec<u8>)], polling: u32) -> (BTreeMap<&'static str, u64>, Vec<String>) {
    let mut l = Linter::new(LintOptions {
        polling: Some(polling),
        most: 3,
        ..LintOptions::default()
    });
    for (n, (now, bytes)) in (1..).zip(list) {
        let at = At {
            packet: n,
            time_ns: Some(EPOCH + now),
            ..At::default()
        };
        l.datagram(&at, false, bytes);
    }
    l.finish();
    let shown = l
        .findings()
        .take()
        .iter()
        .map(ToString::to_string)
        .collect();
    let counts = l.findings().counts();
    (counts.map(|(r, n)| (r.info().id, n)).collect(), shown)
}

#[test]
fn steady_traffic_is_clean_and_true() {
    let mut w = World::new();
    w.run(30_000, 0);
    let sent = w.end();
    let (found, shown) = lint(&sent, 2);
    assert_eq!(found, BTreeMap::new(), "{shown:#?}");
    assert!(sent.len() > 100);
    let mut tally = Tally::default();
    for (now, d) in &sent {
        tally.datagram(*now, d, &|_| Place::Inside);
    }
    let terms = Terms {
        confidence: 0.999,
        slack_seconds: 0.0,
    };
    let report = Report::of(&tally, &[], terms);
    // What is sent is not sampled here.
    assert!(report.judged >= 6 && report.wrong == 0, "{report}");
}

#[test]
fn changes_of_every_kind_leave_notes_at_most() {
    let mut w = World::new();
    w.run(5000, 0);
    for (port, rate) in [(0, 5), (1, 200), (2, 1), (2, 20), (0, 100)] {
        w.samplers[port].set_rate(rate);
        w.run(1500, 0);
    }
    // The ring is too small at times.
    w.run(3000, 4);
    // A port is made again under the same number, and one does not come back.
    w.delete(2);
    w.run(1200, 0);
    w.make(2);
    w.run(4000, 0);
    w.delete(3);
    w.run(2500, 0);
    // Sampling and its counters go off and on.
    let sflow = |w: &World, on| w.plane.ports.lock().unwrap()[0].sflow = on;
    sflow(&w, false);
    w.samplers[0].set_rate(0);
    w.run(1500, 0);
    sflow(&w, true);
    w.samplers[0].set_rate(20);
    w.run(3000, 0);
    w.clear();
    w.run(5000, 0);
    // Another agent from here on, and a smaller datagram.
    let c = AgentConfig {
        agent_address: Some([192, 0, 2, 77].into()),
        max_datagram: 700,
        ..config()
    };
    w.agent.set_config(c, w.now).unwrap();
    w.run(5000, 0);
    // And back again: the first has started anew.
    w.agent.set_config(config(), w.now).unwrap();
    w.run(6000, 0);
    let (found, shown) = lint(&w.end(), 5);
    let notes = ["rate-changed", "agent-restart", "sample-restart"];
    let bad: Vec<_> = found.keys().filter(|k| !notes.contains(k)).collect();
    assert!(bad.is_empty(), "{bad:?}: {shown:#?}");
    assert!(
        found["rate-changed"] >= 4 && found["agent-restart"] == 1,
        "{found:?}"
    );
}
