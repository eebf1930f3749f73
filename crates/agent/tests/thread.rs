//! The agent on its thread, over real sockets on the loopback interface.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use parshall_agent::{
    AgentConfig, AgentThread, CollectorConfig, CollectorState, IfReport, RouteInfo, Router,
};
use parshall_ring::{Producer, ring};
use parshall_sample::SampleSlot;
use parshall_sflow_wire::{Datagram, Sample};

struct OnePort;

impl Router for OnePort {
    fn interfaces(&self) -> Vec<IfReport> {
        vec![IfReport {
            index: 1,
            if_index: 1,
            name: "port1".into(),
            sflow: true,
            ..IfReport::default()
        }]
    }
    fn resolve(&self, _header: &[u8], _rx_if: u32) -> Option<RouteInfo> {
        None
    }
    fn pool(&self, _if_index: u32) -> (u64, u64) {
        (0, 0)
    }
}

fn listener(address: &str) -> (UdpSocket, CollectorConfig) {
    let s = UdpSocket::bind(address).unwrap();
    s.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let config = CollectorConfig::from(s.local_addr().unwrap());
    (s, config)
}

fn config(collectors: Vec<CollectorConfig>) -> AgentConfig {
    AgentConfig {
        agent_address: Some("192.0.2.1".parse().unwrap()),
        collectors,
        polling_interval: 0,
        host_interval: 0,
        ..AgentConfig::default()
    }
}

fn put(p: &mut Producer<SampleSlot>, n: u32) {
    for id in 0..n {
        while !p.has_room() {
            std::thread::yield_now();
        }
        let written = p.write(|s| {
            (s.rx_if, s.tx_if, s.rate) = (1, u32::MAX, 1);
            (s.frame_len, s.header_len) = (id, 64);
        });
        assert!(written);
    }
}

/// Reads until `n` flow samples came; their sequence numbers.
fn sequences(s: &UdpSocket, n: usize) -> Vec<u32> {
    let mut buf = [0; 2048];
    let mut out = Vec::new();
    while out.len() < n {
        let len = s.recv(&mut buf).unwrap();
        for sample in Datagram::parse(&buf[..len]).unwrap().samples() {
            if let Sample::Flow(f) = sample.unwrap() {
                out.push(f.head.sequence);
            }
        }
    }
    out
}

#[test]
fn samples_reach_live_collectors_whatever_the_dead_ones_do() {
    let (v4, c4) = listener("127.0.0.1:0");
    let (v6, c6) = listener("[::1]:0");
    let (_, dead) = listener("127.0.0.1:0");
    let nowhere: CollectorConfig = "no-such-host.invalid".parse().unwrap();
    let (mut p, c) = ring(256);
    let list = vec![nowhere, dead, c4, c6];
    let agent = AgentThread::spawn(config(list), Arc::new(OnePort), vec![c]).unwrap();
    // As much as a receiver that only looks afterwards has room for.
    put(&mut p, 400);
    agent.shutdown();
    // All are there, in order and without a gap: shutting down sent what was left.
    assert_eq!(sequences(&v4, 400), (1..=400).collect::<Vec<_>>());
    assert_eq!(sequences(&v6, 400), (1..=400).collect::<Vec<_>>());
    assert!(p.is_closed());
}

#[test]
fn rings_collectors_and_settings_change_while_it_runs() {
    let (first, c1) = listener("127.0.0.1:0");
    let (second, c2) = listener("127.0.0.1:0");
    let agent = AgentThread::spawn(config(vec![c1]), Arc::new(OnePort), Vec::new()).unwrap();
    let (mut p, c) = ring(256);
    agent.add_source(7, c).unwrap();
    put(&mut p, 10);
    assert_eq!(sequences(&first, 10), (1..=10).collect::<Vec<_>>());

    let bad = AgentConfig {
        max_datagram: 1,
        ..config(Vec::new())
    };
    assert!(agent.set_config(bad).is_err());
    agent.set_config(config(vec![c2])).unwrap();
    put(&mut p, 10);
    assert_eq!(sequences(&second, 10), (11..=20).collect::<Vec<_>>());

    let status = agent.status().unwrap();
    assert_eq!(
        (status.flow_samples, status.lost(), status.rings[0].source),
        (20, 0, 7)
    );
    assert_eq!(
        (status.collectors.len(), status.collectors[0].state),
        (1, CollectorState::Up)
    );

    put(&mut p, 5);
    agent.remove_source(7).unwrap();
    assert_eq!(sequences(&second, 5), (21..=25).collect::<Vec<_>>());
    assert!(agent.status().unwrap().rings.is_empty());
}

#[test]
fn a_refused_collector_is_reported() {
    let (closed, dead) = listener("127.0.0.1:0");
    drop(closed);
    let (mut p, c) = ring(256);
    let settings = AgentConfig {
        max_age_ms: 10,
        ..config(vec![dead])
    };
    let agent = AgentThread::spawn(settings, Arc::new(OnePort), vec![c]).unwrap();
    let mut statuses = (0..30_000).map(|_| {
        put(&mut p, 10);
        std::thread::sleep(Duration::from_millis(1));
        agent.status().unwrap().collectors.remove(0)
    });
    let refused = statuses.find(|s| s.failed > 0).expect("nobody noticed");
    assert_eq!(refused.state, CollectorState::Waiting);
    assert!(refused.last_error.unwrap().contains("refused"));
    assert!(refused.last_error_unix_ms.unwrap() > 1_600_000_000_000);
}

#[test]
fn an_agent_with_bad_settings_does_not_start() {
    let bad = AgentConfig {
        max_age_ms: 5000,
        ..config(Vec::new())
    };
    assert!(AgentThread::spawn(bad, Arc::new(OnePort), Vec::new()).is_err());
}
