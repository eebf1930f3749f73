//! A router that knows the Internet, for `bench sflow --internet`: a route and a BGP path to every prefix there is, and
//! samples of packets to all of them. What the agent asks about a sample is answered as in a running router.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parshall_agent::{IfReport, Resolution, RouteInfo, Sampled};
use parshall_bgp::mrt::{DumpWriter, Peer};
use parshall_bgp::{Net, PathBuilder, text};
use parshall_command::{Reply, Shell};
use parshall_control::{EngineConfig, Router, View};
use parshall_wire::{MacAddr, PacketBuilder};

use crate::BenchError;
use crate::internet::{NEXT_HOPS, destinations, ip4, ip6, next_hop};
use crate::sflow::Ports;

/// Frames to choose from.
const FRAMES: usize = 1 << 16;
/// Bytes of each.
pub(crate) const BYTES: usize = 256;
/// Routes that have the same BGP attributes, as in a full table.
const ROUTES_PER_PATH: usize = 5;

/// The router and the packets.
pub(crate) struct World {
    router: Router,
    frames: Vec<[u8; BYTES]>,
    /// Seconds that reading the BGP table took.
    pub load_seconds: f64,
    /// Prefixes in it.
    pub routes: usize,
}

impl World {
    /// With an interface for each of `workers`.
    ///
    /// # Errors
    /// When there is no memory, or a file cannot be written.
    pub fn new(workers: u32) -> Result<World, BenchError> {
        let four = ip4()?;
        let six = ip6()?;
        let mut setup = String::new();
        for n in 0..workers {
            setup +=
                &format!("create packet-generator interface pg{n}\nset interface state pg{n} up\n");
        }
        setup += "set interface ip address pg0 10.255.0.1/16\nset interface ip address pg0 fd00::1/64\nbgp local-as 65000\n";
        for n in 0..NEXT_HOPS {
            setup += &format!("ip neighbor pg0 10.255.1.{n} 02:00:00:00:01:{n:02x} static\n");
            setup += &format!("ip neighbor pg0 fd00::1:{n:x} 02:00:00:00:01:{n:02x} static\n");
        }
        for p in &four {
            setup += &format!("ip route add {p} via 10.255.1.{} pg0\n", next_hop(*p));
        }
        for p in &six {
            setup += &format!("ip route add {p} via fd00::1:{:x} pg0\n", next_hop(*p));
        }
        let config = EngineConfig {
            buffers: 1024,
            ..EngineConfig::default()
        };
        let mut router = Router::new(config).map_err(|e| BenchError::of("router", e))?;
        router
            .run_script(&setup, "bench")
            .map_err(|e| BenchError::of("routes", e))?;
        let nets: Vec<Net> = four
            .iter()
            .filter_map(|p| Net::new(p.ip().into(), p.len()))
            .chain(six.iter().filter_map(|p| Net::new(p.ip().into(), p.len())))
            .collect();
        let load_seconds = feed(&mut router, &nets)?;
        Ok(World {
            frames: frames(
                &destinations(&four, FRAMES, 7),
                &destinations(&six, FRAMES / 8, 8),
            ),
            router,
            load_seconds,
            routes: nets.len(),
        })
    }

    /// The router as the agent sees it.
    pub fn view(&self) -> Arc<View> {
        self.router.view()
    }

    /// First bytes of the packets.
    pub fn frames(&self) -> &[[u8; BYTES]] {
        &self.frames
    }
}

/// Reads a BGP path to each network from a dump; how long that took.
fn feed(router: &mut Router, nets: &[Net]) -> Result<f64, BenchError> {
    let fail = |e| BenchError::of("dump", e);
    let peer = Peer {
        address: Ipv4Addr::new(192, 0, 2, 1).into(),
        asn: 65_001,
    };
    let (mut w, mut b) = (DumpWriter::new(peer), PathBuilder::default());
    for (i, net) in nets.iter().enumerate() {
        let n = i / ROUTES_PER_PATH;
        let line = format!(
            "::/0 as-path 65001 {} {} {} communities 65001:{} 65001:1000 65002:{} next-hop 192.0.2.1",
            1000 + n % 100,
            10_000 + n % 1000,
            100_000 + n,
            n % 300,
            n % 7
        );
        let route = text::parse_line(&line, &mut b).map_err(BenchError)?;
        route.iter().for_each(|(_, path)| w.route(*net, path));
    }
    let mut file = tempfile::NamedTempFile::new().map_err(fail)?;
    file.write_all(&w.finish()).map_err(fail)?;
    let start = Instant::now();
    let line = format!("bgp feed mrt {}", file.path().display());
    if let Reply::Error(e) = router.execute(&line, false) {
        return Err(BenchError(e));
    }
    while router.bgp_is_loading() {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(start.elapsed().as_secs_f64())
}

/// One packet in eight of IPv6.
fn frames(four: &[u32], six: &[u128]) -> Vec<[u8; BYTES]> {
    let ethernet = || PacketBuilder::ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
    (0..FRAMES)
        .map(|i| {
            let b = if i % 8 == 7 {
                let at = |k: usize| Ipv6Addr::from(six[(i / 8 + k) % six.len()]);
                ethernet().ipv6(at(17), at(0))
            } else {
                let at = |k: usize| Ipv4Addr::from(four[(i + k) % four.len()]);
                ethernet().ipv4(at(17), at(0))
            };
            let bytes = b.udp(i as u16, 443).payload_len(BYTES).build();
            let mut frame = [0; BYTES];
            frame.copy_from_slice(&bytes[..BYTES]);
            frame
        })
        .collect()
}

/// Counters as the bench keeps them, answers as the router gives them.
pub(crate) struct Known {
    pub ports: Arc<Ports>,
    pub view: Arc<View>,
}

impl parshall_agent::Router for Known {
    fn interfaces(&self) -> Vec<IfReport> {
        parshall_agent::Router::interfaces(&*self.ports)
    }
    fn resolve(&self, header: &[u8], rx_if: u32) -> Option<RouteInfo> {
        parshall_agent::Router::resolve(&*self.view, header, rx_if)
    }
    fn explain(&self, packet: &Sampled<'_>, found: &mut Resolution) {
        parshall_agent::Router::explain(&*self.view, packet, found);
    }
    fn pool(&self, if_index: u32) -> (u64, u64) {
        parshall_agent::Router::pool(&*self.ports, if_index)
    }
}
