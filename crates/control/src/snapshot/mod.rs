//! The router as data, for whoever watches it: one short job that copies counters and sizes.
//!
//! It costs control a pass over interfaces, nodes and counters, whatever the number of routes: no table is walked. What
//! the agent knows it is asked for without waiting; the asker waits for that in its own thread ([`Draft::finish`]).
//! Routes come a page at a time, and finding the start of a page takes as long as a look-up.

mod data;

use std::time::Duration;

use parshall_agent::{AgentStatus, CollectorState, StatusAnswer};
use parshall_counters::IfTotals;

pub use data::*;

use crate::commands::{path_entry, resident, slot_name, source_name};
use crate::error::Result;
use crate::interface::Interface as RouterInterface;
use crate::neighbor::{Neighbor, NeighborKey, NeighborState};
use crate::prefix::{Family, IpNet};
use crate::router::Router;
use crate::text::mac;

/// Most routes of one page.
pub const PAGE_MOST: usize = 1000;

/// A snapshot that lacks what the agent says.
pub struct Draft {
    snapshot: Snapshot,
    agent: Option<StatusAnswer>,
}

impl Draft {
    /// The snapshot, with what the agent says if it says it in this time.
    pub fn finish(self, most: Duration) -> Snapshot {
        let mut snapshot = self.snapshot;
        snapshot.sflow.agent = self.agent.and_then(|a| a.wait(most)).map(|s| agent(&s));
        snapshot
    }
}

impl Router {
    /// The router at this moment. Must not be asked more often than a few times a second.
    pub fn snapshot(&self) -> Draft {
        let interfaces: Vec<Interface> =
            self.interfaces.iter().map(|i| interface(self, i)).collect();
        let nodes = nodes(self);
        let snapshot = Snapshot {
            version: Version::default(),
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            healthy: self.engine.is_healthy(),
            workers: workers(self, &nodes),
            drops: drops(self),
            sflow: Sflow {
                sampling_rate: self.sflow.rate,
                interfaces: interfaces.iter().filter(|i| i.sampling.is_some()).count(),
                polling_interval: self.sflow.config.polling_interval,
                agent: None,
            },
            fib: fib(self),
            neighbors: Neighbors {
                ip4: self.neighbors[Family::Ip4 as usize].len(),
                ip6: self.neighbors[Family::Ip6 as usize].len(),
            },
            memory: Memory {
                resident_bytes: resident(),
            },
            interfaces,
            nodes,
        };
        Draft {
            snapshot,
            agent: self.sflow.status_later(),
        }
    }

    /// Whether every worker runs.
    pub fn is_healthy(&self) -> bool {
        self.engine.is_healthy()
    }

    /// Neighbours of an interface or of all, in order.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn neighbor_entries(&self, interface: Option<&str>) -> Result<Vec<NeighborEntry>> {
        let only = interface.map(|n| self.interfaces.find(n)).transpose()?;
        let mut rows: Vec<_> = self.neighbors.iter().flat_map(|t| t.iter()).collect();
        rows.retain(|(k, _)| only.is_none_or(|i| i == k.if_index));
        rows.sort_by_key(|(k, _)| **k);
        let row = |(k, n): (&NeighborKey, &Neighbor)| NeighborEntry {
            family: Family::of(k.ip).proto().into(),
            interface: self.interfaces.name(k.if_index),
            ip: k.ip.to_string(),
            mac: n.mac.map(mac),
            state: state_word(n.state).into(),
            age_seconds: self.now().saturating_sub(n.updated) as f64 / 1e9,
        };
        Ok(rows.into_iter().map(row).collect())
    }

    /// At most `most` routes of a table (and never more than [`PAGE_MOST`]): the first ones, or those behind `after`.
    ///
    /// # Errors
    /// When there is no such table.
    pub fn route_page(
        &self,
        family: Family,
        table: u32,
        after: Option<IpNet>,
        most: usize,
    ) -> Result<RoutePage> {
        let most = most.clamp(1, PAGE_MOST);
        let found = self.rib.table(family, table)?;
        let mut left = found.routes_after(after);
        let page: Vec<_> = left.by_ref().take(most).collect();
        let more = left.next().is_some();
        let entry = |(net, route): &(IpNet, crate::rib::Route)| {
            let (source, list) = route.best()?;
            let paths = self.rib.list(list)?.paths().iter();
            Some(RouteEntry {
                prefix: net.to_string(),
                source: source_name(source).into(),
                paths: paths.map(|p| path_entry(self, p)).collect(),
            })
        };
        Ok(RoutePage {
            family: family.proto().into(),
            table,
            total: found.count(),
            routes: page.iter().filter_map(entry).collect(),
            next: page.last().filter(|_| more).map(|(net, _)| net.to_string()),
        })
    }
}

fn state_word(s: NeighborState) -> &'static str {
    match s {
        NeighborState::Incomplete => "incomplete",
        NeighborState::Reachable => "reachable",
        NeighborState::Stale => "stale",
        NeighborState::Probe => "probe",
        NeighborState::Failed => "failed",
        NeighborState::Static => "static",
    }
}

fn interface(r: &Router, i: &RouterInterface) -> Interface {
    let info = i.device.as_ref().map(|d| d.info());
    let totals = i.counted(&r.engine.interface_totals(i.index), &i.born);
    Interface {
        name: i.name.clone(),
        index: i.index,
        if_index: i.exported,
        kind: info.as_ref().map_or("local", |d| d.kind).into(),
        admin_up: i.up,
        link_up: i.up && info.as_ref().is_some_and(|d| d.link_up),
        mtu: i.mtu,
        mac: mac(i.mac),
        speed: info.as_ref().map_or(0, |d| d.speed),
        addresses: i
            .addresses
            .iter()
            .map(|(a, l)| format!("{a}/{l}"))
            .collect(),
        ip_table: i.table(Family::Ip4),
        ip6_table: i.table(Family::Ip6),
        counters: counters(&totals),
        sampling: r.sampling(i.index).map(|s| PortSampling {
            rate: s.rate,
            direction: s.direction.word().into(),
            header_bytes: s.header_bytes,
            pool: totals.sample_pool.wrapping_add(totals.tx_sample_pool),
            samples: totals.samples.wrapping_add(totals.tx_samples),
            lost: totals.sample_drops.wrapping_add(totals.tx_sample_drops),
        }),
    }
}

fn counters(t: &IfTotals) -> Counters {
    Counters {
        rx_packets: t.rx_packets,
        rx_bytes: t.rx_bytes,
        rx_multicast: t.rx_multicast,
        rx_broadcast: t.rx_broadcast,
        rx_drops: t.rx_drops,
        rx_errors: t.rx_errors,
        rx_missed: t.rx_missed,
        rx_no_buffer: t.rx_no_buffer,
        punts: t.punts,
        tx_packets: t.tx_packets,
        tx_bytes: t.tx_bytes,
        tx_multicast: t.tx_multicast,
        tx_broadcast: t.tx_broadcast,
        tx_drops: t.tx_drops,
        tx_errors: t.tx_errors,
    }
}

fn nodes(r: &Router) -> Vec<Node> {
    let slots = r.engine.graph.slots();
    let mut rows = Vec::new();
    for (worker, slot) in (0..r.engine.workers()).flat_map(|w| (0..slots).map(move |s| (w, s))) {
        let t = r.engine.node_totals(worker, slot);
        if t.calls == 0 {
            continue;
        }
        let Some(node) = slot_name(r, slot) else {
            continue;
        };
        rows.push(Node {
            node,
            worker,
            calls: t.calls,
            vectors: t.vectors,
            clocks: t.clocks,
        });
    }
    rows.sort_by(|a, b| (a.worker, &a.node).cmp(&(b.worker, &b.node)));
    // Interfaces that are gone share a name with those that have their place: one row for each name.
    rows.dedup_by(|b, a| {
        let same = (a.worker, &a.node) == (b.worker, &b.node);
        if same {
            a.calls = a.calls.wrapping_add(b.calls);
            a.vectors = a.vectors.wrapping_add(b.vectors);
            a.clocks = a.clocks.wrapping_add(b.clocks);
        }
        same
    });
    rows
}

fn workers(r: &Router, nodes: &[Node]) -> Vec<Worker> {
    let buffers = r.engine.config().buffers as u64;
    let each = r.engine.counters().enumerate();
    each.map(|(worker, c)| Worker {
        worker,
        cpu: r.engine.worker_config(worker).and_then(|w| w.cpu),
        loops: c.loops.get(),
        sleeps: c.sleeps.get(),
        received: c.received.get(),
        transmitted: c.transmitted.get(),
        originated: c.originated.get(),
        punted: c.punted.get(),
        dropped: c.dropped.get(),
        held: c.held.get(),
        buffers,
        buffers_free: c.buffers_free.get(),
        buffer_bytes: buffers * parshall_buffer::STRIDE as u64,
        clocks: nodes
            .iter()
            .filter(|n| n.worker == worker)
            .map(|n| n.clocks)
            .sum(),
    })
    .collect()
}

fn drops(r: &Router) -> Vec<Drop> {
    let mut rows: Vec<Drop> = Vec::new();
    for ((slot, reason), packets) in r.engine.drops() {
        let Some(node) = slot_name(r, usize::from(slot)) else {
            continue;
        };
        rows.push(Drop {
            node,
            reason: reason.name().into(),
            text: reason.text().into(),
            group: reason.group().name().into(),
            sflow_code: reason.sflow_code(),
            packets,
        });
    }
    rows.sort_by(|a, b| (&a.node, &a.reason).cmp(&(&b.node, &b.reason)));
    rows.dedup_by(|b, a| {
        let same = (&a.node, &a.reason) == (&b.node, &b.reason);
        if same {
            a.packets = a.packets.wrapping_add(b.packets);
        }
        same
    });
    rows
}

fn fib(r: &Router) -> Fib {
    let tables = r.rib.tables().map(|(&(family, table), t)| FibTable {
        family: family.proto().into(),
        table,
        routes: t.count(),
    });
    Fib {
        tables: tables.collect(),
        mpls_labels: r.rib.label_count(),
        bytes: r.route_memory(),
        pending_values: r.engine.shared.domain.pending(),
    }
}

fn agent(s: &AgentStatus) -> Agent {
    let state = |s: CollectorState| match s {
        CollectorState::Up => "up",
        CollectorState::Resolving => "resolving",
        CollectorState::Waiting => "waiting",
    };
    let collectors = s.collectors.iter().map(|c| Collector {
        collector: c.collector.clone(),
        state: state(c.state).into(),
        sent: c.sent,
        sent_bytes: c.sent_bytes,
        failed: c.failed,
        last_error: c.last_error.clone(),
    });
    Agent {
        address: s.agent_address.map(|a| a.to_string()),
        sub_agent_id: s.sub_agent_id,
        datagrams: s.datagrams,
        bytes: s.bytes,
        flow_samples: s.flow_samples,
        counter_samples: s.counter_samples,
        host_samples: s.host_samples,
        discard_samples: s.discards.reported,
        lost: s.lost(),
        discards_suppressed: s.discards.suppressed,
        discards_unexported: s.discards.unexported,
        collectors: collectors.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineConfig;

    fn router(script: &str) -> Router {
        let mut r = Router::model(&EngineConfig::default()).unwrap();
        r.run_script(script, "test")
            .unwrap_or_else(|e| panic!("{e}"));
        r
    }

    #[test]
    fn a_snapshot_says_what_is_set() {
        let r = router(
            "create packet-generator interface pg0\nset interface state pg0 up\n\
             set interface ip address pg0 10.0.0.1/24\nsflow enable pg0 sampling-rate 100\n\
             ip table add 7\nip route add 20.0.0.0/8 via 10.0.0.2\n",
        );
        let s = r.snapshot().finish(Duration::from_secs(1));
        let pg0 = s.interfaces.iter().find(|i| i.name == "pg0").unwrap();
        assert!(pg0.admin_up);
        assert_eq!(pg0.addresses, ["10.0.0.1/24"]);
        assert_eq!(pg0.sampling.as_ref().unwrap().rate, 100);
        assert_eq!(s.sflow.interfaces, 1);
        let tables: Vec<_> = s
            .fib
            .tables
            .iter()
            .map(|t| (t.family.as_str(), t.table))
            .collect();
        assert_eq!(tables, [("ip4", 0), ("ip4", 7), ("ip6", 0)]);
        assert!(s.fib.tables[0].routes >= 4 && s.fib.bytes > 0);
        assert!(serde_json::to_string(&s).unwrap().contains("\"pg0\""));
    }

    #[test]
    fn pages_of_any_size_give_every_route_once_and_in_order() {
        let mut script = String::from(
            "create packet-generator interface pg0\nset interface state pg0 up\n\
             set interface ip address pg0 10.0.0.1/24\nset interface ip address pg0 2001:db8::1/64\n\
             ip route add 0.0.0.0/0 via 10.0.0.2\n",
        );
        for i in 0..40u32 {
            let (a, len) = (i * 0x0554_3210, 1 + i * 31 / 40);
            let net = IpNet::new(std::net::Ipv4Addr::from(a).into(), len as u8);
            script += &format!(
                "ip route add {net} via 10.0.0.2\nip route add 2001:db8:{i:x}::/{} blackhole\n",
                48 + i
            );
        }
        let r = router(&script);
        for family in [Family::Ip4, Family::Ip6] {
            let all: Vec<String> = r
                .rib
                .table(family, 0)
                .unwrap()
                .routes()
                .map(|(n, _)| n.to_string())
                .collect();
            assert!(all.len() > 40);
            for most in [1, 2, 3, 7, 1000] {
                let (mut got, mut after) = (Vec::new(), None);
                loop {
                    let page = r.route_page(family, 0, after, most).unwrap();
                    assert_eq!(page.total, all.len());
                    got.extend(page.routes.into_iter().map(|e| e.prefix));
                    let Some(next) = page.next else { break };
                    let (addr, len) = next.split_once('/').unwrap();
                    after = Some(IpNet::new(addr.parse().unwrap(), len.parse().unwrap()));
                }
                assert_eq!(got, all, "{most}");
            }
        }
        // A place where no route is will do as well.
        let from = IpNet::new([9, 255, 0, 0].into(), 16);
        let page = r.route_page(Family::Ip4, 0, Some(from), 1).unwrap();
        assert!(
            page.routes[0].prefix.starts_with("10.0.0.") || page.routes[0].prefix.starts_with("1"),
            "{page:?}"
        );
        assert!(r.route_page(Family::Ip4, 9, None, 1).is_err());
    }

    #[test]
    fn neighbours_are_listed() {
        let r = router(
            "create packet-generator interface pg0\nset interface state pg0 up\n\
             set interface ip address pg0 10.0.0.1/24\nip neighbor pg0 10.0.0.2 02:00:00:00:00:02 static\n",
        );
        let all = r.neighbor_entries(Some("pg0")).unwrap();
        assert_eq!(
            (all[0].ip.as_str(), all[0].state.as_str()),
            ("10.0.0.2", "static")
        );
        assert!(r.neighbor_entries(Some("nosuch")).is_err());
    }
}
