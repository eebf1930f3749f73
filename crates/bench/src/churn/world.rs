//! The router under churn: one worker, a generator on one side, a sink on the other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use parshall_control::{
    DeviceKind, DeviceSpec, EngineConfig, Factory, Family, IpNet, MadeDevice, Path, Router, Via,
};
use parshall_device::Device;
use parshall_drivers::pg::{Field, PgDevice, PgHandle, StreamSpec, Values};
use parshall_fib::{Dpo, DpoKind, Ip4Prefix, Ip6Prefix};
use parshall_wire::{MacAddr, PacketBuilder};

use super::model::{Change, Model, RECURSIVE, Way, hop, neighbor};
use crate::BenchError;
use crate::internet::{NEXT_HOPS, Random};

/// Interface that packets come in on, and the one they leave by.
const SOURCE: u32 = 1;
const SINK: u32 = 2;
const SETUP: &str = "
create packet-generator interface pg0 hw-addr 02:00:00:00:00:01
create packet-generator interface pg1 hw-addr 02:00:00:00:00:02
set interface state pg0 up
set interface state pg1 up
set interface ip address pg0 198.18.0.1/24
set interface ip address pg0 2001:2:0:fffe::1/64
set interface ip address pg1 198.18.4.1/24
set interface ip address pg1 2001:2:0:ffff::1/64";
const ROUTER: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const HOST: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);
/// How long the last packets may take to arrive.
const PATIENCE: Duration = Duration::from_secs(10);

/// Packets so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Made by the generators.
    pub made: u64,
    /// Swallowed by the sink.
    pub arrived: u64,
    /// Dropped on either interface.
    pub drops: u64,
}

/// Makes generators, and keeps their controls.
struct Generators(Arc<Mutex<Vec<PgHandle>>>);

impl Factory for Generators {
    fn make(&mut self, spec: &DeviceSpec, instance: u32) -> parshall_control::Result<MadeDevice> {
        if spec.kind != DeviceKind::Pg {
            return Err(parshall_control::Error::Device(
                "only generators here".into(),
            ));
        }
        let (mut device, handle) = PgDevice::new(instance);
        if let Some(mac) = spec.mac {
            device.set_mac(mac)?;
        }
        let mut kept = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        kept.push(handle.clone());
        Ok(MadeDevice {
            device: Box::new(device),
            pg: Some(handle),
        })
    }
}

/// The router and what comes in and goes out.
pub struct World {
    router: Router,
    source: PgHandle,
    sink: PgHandle,
    /// What the sink had swallowed before the first packet.
    sink_before: u64,
    drops_before: u64,
}

fn failed(what: &str) -> impl Fn(parshall_control::Error) -> BenchError + '_ {
    move |e| BenchError::of(what, e)
}

impl World {
    /// A router with two interfaces, its worker on `cpu`, and the streams of the model's destinations.
    pub fn new(cpu: usize, model: &Model) -> Result<World, BenchError> {
        let config = EngineConfig {
            cpus: vec![cpu],
            busy_poll: true,
            buffers: 2048,
            interfaces: 8,
            ..EngineConfig::default()
        };
        let kept = Arc::default();
        let factory = Box::new(Generators(Arc::clone(&kept)));
        let mut router = Router::with_factory(config, factory).map_err(failed("router"))?;
        router.run_script(SETUP, "churn").map_err(failed("setup"))?;
        for i in 0..NEXT_HOPS {
            for family in [Family::Ip4, Family::Ip6] {
                let mac = [2, 0, 0, 1, (i >> 8) as u8, i as u8];
                router
                    .add_neighbor("pg1", neighbor(family, i), mac, true)
                    .map_err(failed("neighbour"))?;
            }
        }
        let handles = kept
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let [source, sink] = &handles[..] else {
            return Err(BenchError("churn: two generators were to be made".into()));
        };
        let (source, sink) = (source.clone(), sink.clone());
        drop(handles);
        for stream in streams(model)? {
            let added = source.add(&stream);
            added.map_err(|e| BenchError::of("stream", e))?;
        }
        Ok(World {
            router,
            source,
            sink,
            sink_before: 0,
            drops_before: 0,
        })
    }

    /// Gives every prefix of the model its route.
    pub fn load(&mut self, model: &Model) -> Result<(), BenchError> {
        for family in [Family::Ip4, Family::Ip6] {
            for i in 0..RECURSIVE {
                self.set(hop(family, i).1, &[direct(family, model.hop(family, i))])?;
            }
        }
        for (n, (net, way)) in model.iter().enumerate() {
            if let Some(way) = way {
                self.set(net, &paths(Family::of(net.addr()), way))?;
            }
            if n % 1024 == 0 {
                self.turn();
            }
        }
        Ok(())
    }

    fn set(&mut self, net: IpNet, paths: &[Path]) -> Result<(), BenchError> {
        let at = (Family::of(net.addr()), 0, net);
        let router = &mut self.router;
        let done = router.atomically(|r| r.replace_route(at, paths.to_vec()));
        done.map_err(|e| BenchError(format!("churn: route {net}: {e}")))
    }

    /// Carries out the model's next `n` changes, as one transaction.
    pub fn apply(
        &mut self,
        model: &mut Model,
        n: u64,
        random: &mut Random,
    ) -> Result<(), BenchError> {
        let done = self.router.atomically(|r| {
            for _ in 0..n {
                let (net, paths) = match model.next(random) {
                    Change::Set(i, way) => {
                        let net = model.net(i);
                        (net, paths(Family::of(net.addr()), way))
                    }
                    Change::Clear(i) => (model.net(i), Vec::new()),
                    Change::Move(family, i, to) => (hop(family, i).1, vec![direct(family, to)]),
                };
                let at = (Family::of(net.addr()), 0, net);
                match paths.is_empty() {
                    true => r.remove_route(at, &[])?,
                    false => r.replace_route(at, paths)?,
                }
            }
            Ok(())
        });
        done.map_err(|e| BenchError::of("churn", e))
    }

    /// Control's other work: events, what workers gave back, reclamation.
    pub fn turn(&mut self) {
        self.router.turn();
    }

    /// Starts the traffic.
    pub fn start(&mut self) -> Result<(), BenchError> {
        self.settle();
        let now = self.traffic();
        (self.sink_before, self.drops_before) = (now.arrived, now.drops);
        let enabled = self.source.enable(None);
        enabled.map_err(|e| BenchError::of("stream", e))
    }

    /// Lets the worker do what it was told.
    fn settle(&mut self) {
        for _ in 0..20 {
            self.turn();
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Packets so far.
    pub fn traffic(&self) -> Traffic {
        let made = self.source.streams().iter().map(|s| s.packets).sum();
        let (a, b) = (
            self.router.interface_totals(SOURCE),
            self.router.interface_totals(SINK),
        );
        Traffic {
            made,
            arrived: self.sink.sink().packets - self.sink_before,
            drops: a.rx_drops + a.tx_drops + b.rx_drops + b.tx_drops - self.drops_before,
        }
    }

    /// Stops the traffic and waits for the last packet.
    pub fn finish(&mut self) -> Result<Traffic, BenchError> {
        let disabled = self.source.disable(None);
        disabled.map_err(|e| BenchError::of("stream", e))?;
        let start = Instant::now();
        loop {
            let before = self.traffic();
            self.settle();
            let now = self.traffic();
            let rest = now.made == before.made && now.arrived == before.arrived;
            if rest && now.made == now.arrived || start.elapsed() > PATIENCE {
                return Ok(now);
            }
        }
    }

    /// What was dropped where, and why.
    pub fn errors(&mut self) -> String {
        self.router
            .run_script("show errors", "churn")
            .unwrap_or_else(|e| e.to_string())
    }

    /// Bytes of both families' tables.
    pub fn table_bytes(&self) -> usize {
        let shared = self.router.shared();
        shared.ip4.memory() + shared.ip6.memory()
    }

    /// Compares what workers read with the model, prefix by prefix; says how many differ.
    pub fn compare(&self, model: &Model) -> Result<usize, BenchError> {
        let mut wrong = 0;
        for (net, way) in model.iter() {
            let family = Family::of(net.addr());
            let want = way.map(|w| model.ends(family, w));
            let found = self.route(net)?.map(|dpo| self.ends(family, dpo));
            if want != found {
                wrong += 1;
                if wrong <= 5 {
                    eprintln!("{net} leads to {found:?} instead of {want:?}");
                }
            }
        }
        Ok(wrong)
    }

    /// The object of a prefix in the table that workers read.
    fn route(&self, net: IpNet) -> Result<Option<Dpo>, BenchError> {
        let shared = self.router.shared();
        let no_table = |e| BenchError::of("table", e);
        Ok(match net.addr() {
            IpAddr::V4(a) => {
                let table = shared.ip4.control(0).map_err(no_table)?;
                table.get(Ip4Prefix::masked(a.into(), net.prefix_len()))
            }
            IpAddr::V6(a) => {
                let table = shared.ip6.control(0).map_err(no_table)?;
                table.get(Ip6Prefix::masked(a.into(), net.prefix_len()))
            }
        })
    }

    /// Neighbours that an object leads to; empty when it leads anywhere else.
    fn ends(&self, family: Family, dpo: Dpo) -> Vec<IpAddr> {
        let shared = self.router.shared();
        let mut ends = match dpo.kind() {
            DpoKind::Adjacency => {
                let adj = shared.adjacencies.get_control(dpo.index());
                let ours = adj.filter(|a| a.tx_if() == SINK && a.is_complete());
                let ip = ours.map(|a| match family {
                    Family::Ip4 => a.next_hop_ip4().into(),
                    Family::Ip6 => a.next_hop_ip6().into(),
                });
                ip.into_iter().collect()
            }
            DpoKind::LoadBalance => {
                let lb = shared.load_balances.get_control(dpo.index());
                let buckets = lb.map_or(Vec::new(), |lb| lb.buckets().to_vec());
                let one = |b: &Dpo| match b.kind() {
                    DpoKind::Adjacency | DpoKind::LoadBalance => self.ends(family, *b),
                    _ => Vec::new(),
                };
                buckets.iter().flat_map(one).collect()
            }
            _ => Vec::<IpAddr>::new(),
        };
        ends.sort_unstable();
        ends.dedup();
        ends
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.router.shut_down();
    }
}

fn direct(family: Family, i: u32) -> Path {
    Path::new(Via::NextHop {
        ip: neighbor(family, i),
        if_index: Some(SINK),
    })
}

fn paths(family: Family, way: Way) -> Vec<Path> {
    match way {
        Way::Direct(a) => vec![direct(family, a)],
        Way::Pair(a, b) => vec![direct(family, a), direct(family, b)],
        Way::Recursive(i) => vec![Path::new(Via::NextHop {
            ip: hop(family, i).0,
            if_index: None,
        })],
    }
}

/// 64-byte frames to the model's destinations: one stream for each family.
fn streams(model: &Model) -> Result<[StreamSpec; 2], BenchError> {
    let frame = || PacketBuilder::ethernet(HOST, ROUTER);
    let four = frame()
        .ipv4([198, 18, 0, 2].into(), [198, 18, 4, 2].into())
        .udp(1234, 2345)
        .payload_len(22)
        .build();
    let here = Ipv6Addr::from((0x2001_0002 << 96) + (0xFFFE << 64) + 2);
    let six = frame()
        .ipv6(here, here)
        .udp(1234, 2345)
        .payload_len(2)
        .build();
    let to4 = model.destinations4.iter().copied().map(Ipv4Addr::from);
    let to6 = model.destinations6.iter().copied().map(Ipv6Addr::from);
    Ok([
        stream("ip4", &four, Field::Ip4Destination, Values::list(to4))?,
        stream("ip6", &six, Field::Ip6Destination, Values::list(to6))?,
    ])
}

fn stream(
    name: &str,
    frame: &[u8],
    field: Field,
    values: Values,
) -> Result<StreamSpec, BenchError> {
    let spec = StreamSpec::from_frame(name, frame).map_err(|e| BenchError::of("stream", e))?;
    spec.vary(field, values)
        .map_err(|e| BenchError::of("stream", e))
}
