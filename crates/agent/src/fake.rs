//! Stand-ins for the router, the network and the machine, for the tests of this crate.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use parshall_sample::SampleSlot;

use crate::agent::{Agent, AgentParts};
use crate::collector_config::CollectorConfig;
use crate::config::AgentConfig;
use crate::host::{HostReport, HostSource};
use crate::router::{IfReport, RouteInfo, Router};
use crate::status::CollectorStatus;
use crate::transport::Transport;

/// A router whose answers the test sets.
#[derive(Default)]
pub struct FakeRouter {
    pub interfaces: Mutex<Vec<IfReport>>,
    pub pools: Mutex<HashMap<u32, (u64, u64)>>,
    pub route: Mutex<Option<RouteInfo>>,
    pub generation: AtomicU64,
}

impl FakeRouter {
    /// Interfaces 1 to `n`, exported as 101 and so on, sFlow on.
    pub fn with(n: u32) -> Arc<FakeRouter> {
        let r = FakeRouter::default();
        *r.interfaces.lock().unwrap() = (1..=n).map(interface).collect();
        Arc::new(r)
    }
}

/// An interface of the fake router.
pub fn interface(index: u32) -> IfReport {
    IfReport {
        index,
        if_index: 100 + index,
        name: format!("eth{index}"),
        speed: 10_000_000_000,
        admin_up: true,
        link_up: true,
        sflow: true,
        rate: 100,
        ..IfReport::default()
    }
}

impl Router for FakeRouter {
    fn interfaces(&self) -> Vec<IfReport> {
        self.interfaces.lock().unwrap().clone()
    }
    fn resolve(&self, _header: &[u8], _rx_if: u32) -> Option<RouteInfo> {
        *self.route.lock().unwrap()
    }
    fn pool(&self, if_index: u32) -> (u64, u64) {
        self.pools
            .lock()
            .unwrap()
            .get(&if_index)
            .copied()
            .unwrap_or_default()
    }
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }
}

/// Keeps what would be sent, with the time.
#[derive(Clone, Default)]
pub struct Capture(pub Arc<Mutex<Vec<Sent>>>);

/// When a datagram was sent, and its bytes.
pub type Sent = (u64, Vec<u8>);

impl Capture {
    /// Takes what was sent so far.
    pub fn take(&self) -> Vec<Sent> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Transport for Capture {
    fn send(&mut self, now: u64, datagrams: &[&[u8]]) {
        self.0
            .lock()
            .unwrap()
            .extend(datagrams.iter().map(|d| (now, d.to_vec())));
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

/// A machine of which nothing is known but its name.
pub struct FakeHost;

impl HostSource for FakeHost {
    fn read(&mut self) -> HostReport {
        HostReport {
            hostname: "flume".to_owned(),
            ..HostReport::default()
        }
    }
}

/// The address fake agents are elected to.
pub const ADDRESS: &str = "192.0.2.1";

/// An agent on fakes, started at time 0, without rings.
pub fn agent(config: AgentConfig, router: Arc<FakeRouter>) -> (Agent, Capture) {
    let sent = Capture::default();
    let elected: IpAddr = ADDRESS.parse().unwrap();
    let parts = AgentParts {
        router,
        transport: Box::new(sent.clone()),
        host: Some(Box::new(FakeHost)),
        elected,
        seed: 7,
    };
    (Agent::new(config, parts, 0).unwrap(), sent)
}

/// Settings with all counter reports off.
pub fn quiet() -> AgentConfig {
    AgentConfig {
        polling_interval: 0,
        host_interval: 0,
        ..AgentConfig::default()
    }
}

/// A sample of interface `rx_if` whose first header bytes are `id`.
pub fn sample(rx_if: u32, id: u32, header_len: u16) -> SampleSlot {
    let mut s = SampleSlot {
        rx_if,
        rate: 100,
        frame_len: 1000,
        header_len,
        ..SampleSlot::default()
    };
    s.header[..4].copy_from_slice(&id.to_be_bytes());
    s
}
