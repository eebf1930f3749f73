//! The real [`Objects`]: routes and paths turned into what workers read.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use parshall_fib::{
    Disposition, Dpo, DpoKind, Imposition, Ip4Prefix, Ip6Prefix, LoadBalance, TtlMode,
};
use parshall_nodes::Shared;

use crate::adjacency::{AdjKey, AdjacencyTable};
use crate::error::{Error, Result};
use crate::objects::{Made, Objects};
use crate::path::{Leg, Link, Payload, Target, Via};
use crate::prefix::{Family, IpNet};

/// RFC 3032 section 2.1: "pop before you get here", never on the wire.
const IMPLICIT_NULL: u32 = 3;
/// TTL of labels in the pipe model.
const PIPE_TTL: u8 = 255;

/// Forwarding state that workers read, and who holds what of it.
pub struct Forwarding {
    /// What workers read.
    pub shared: Arc<Shared>,
    /// Adjacencies.
    pub adjacencies: AdjacencyTable,
    tables: HashMap<(Family, u32), u32>,
    /// Changes that workers do not see yet: see [`Forwarding::hold`].
    held: Option<Held>,
}

/// Changes of routes and objects that wait to be written.
#[derive(Default)]
struct Held {
    /// By table, in order; a miss takes a route out.
    routes: BTreeMap<(Family, u32), Vec<(IpNet, Dpo)>>,
    labels: BTreeMap<(u32, bool), Dpo>,
    /// What load balances are to be.
    balances: HashMap<u32, LoadBalance>,
    /// What nothing leads to any more once the routes are written.
    released: Vec<Made>,
    /// Tables that go then.
    tables: Vec<(Family, u32)>,
}

/// Index of the one label space; it is made with the state.
const MPLS_TABLE: u32 = 0;

impl Forwarding {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> Forwarding {
        Forwarding {
            shared,
            adjacencies: AdjacencyTable::default(),
            tables: HashMap::new(),
            held: None,
        }
    }

    /// From now on changes wait for [`write_held`](Self::write_held): those of routes, labels, load balances and
    /// adjacencies. New objects are made at once: nothing leads to them.
    pub fn hold(&mut self) {
        self.held = Some(Held::default());
        self.adjacencies.hold();
    }

    /// Writes what waited, each route once, and lets go of what was in its place. What changes from now on does not wait.
    ///
    /// # Errors
    /// When a table is full. What comes before that is written: the caller changes it back.
    pub fn write_held(&mut self) -> Result<()> {
        let Some(mut held) = self.held.take() else {
            return Ok(());
        };
        self.adjacencies.write_held(&self.shared.adjacencies);
        // After a failure too: routes that could not be written lead to nothing that is freed while a worker looks, and
        // are written again when the caller changes them back.
        let written = self.write_routes(&mut held);
        held.released
            .into_iter()
            .for_each(|made| self.release(made));
        for (family, index) in held.tables {
            self.delete_table(family, index);
        }
        written
    }

    fn write_routes(&mut self, held: &mut Held) -> Result<()> {
        for (index, next) in held.balances.drain() {
            // It may have gone since.
            let _ = self.shared.load_balances.replace(index, next);
        }
        let mut written = Ok(());
        for ((family, index), routes) in std::mem::take(&mut held.routes) {
            written = written.and(self.set_routes(family, index, &routes));
        }
        for ((label, eos), dpo) in std::mem::take(&mut held.labels) {
            written = written.and(self.set_label(label, eos, dpo));
        }
        written
    }

    fn delete_table(&self, family: Family, index: u32) {
        let gone = match family {
            Family::Ip4 => self.shared.ip4.delete(index),
            Family::Ip6 => self.shared.ip6.delete(index),
        };
        debug_assert!(gone.is_ok());
    }

    /// Index of a table.
    ///
    /// # Errors
    /// When there is none of this number.
    pub fn table_index_of(&self, family: Family, id: u32) -> Result<u32> {
        self.table_index(family, id).ok_or(Error::NoTable {
            family: family.word(),
            id,
        })
    }

    fn is_point_to_point(&self, if_index: u32) -> bool {
        let link = self.adjacencies.link(if_index);
        link.is_some_and(|l| l.point_to_point)
    }

    /// Frees what workers have let go of.
    pub fn reclaim(&self) {
        self.shared.domain.reclaim();
        self.shared.ip4.reclaim();
        self.shared.ip6.reclaim();
        self.shared.adjacencies.sweep();
        self.shared.load_balances.sweep();
        self.shared.impositions.sweep();
        self.shared.dispositions.sweep();
    }

    fn leg(&mut self, payload: Payload, leg: &Leg, made: &mut Made) -> Result<Dpo> {
        let via = match leg.target {
            Target::Neighbor { if_index, ip } => {
                return self.neighbor(payload, leg, (if_index, ip), made);
            }
            Target::Other(Via::Attached { if_index }) if self.is_point_to_point(if_index) => {
                let nobody = match payload {
                    Payload::Ip6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
                    _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                };
                return self.neighbor(payload, leg, (if_index, nobody), made);
            }
            Target::Other(via) => via,
        };
        let dpo = match via {
            Via::Attached { if_index } => Dpo::new(DpoKind::Glean, if_index),
            Via::Receive { if_index } => Dpo::new(DpoKind::Receive, if_index),
            Via::Blackhole => Dpo::BLACKHOLE,
            Via::Prohibit => Dpo::PROHIBIT,
            Via::Unreachable | Via::NextHop { .. } => Dpo::UNREACHABLE,
            Via::Lookup { family, table } => {
                let index = self.table_index(family, table).ok_or(Error::NoTable {
                    family: family.word(),
                    id: table,
                })?;
                let (kind, under) = match family {
                    Family::Ip4 => (DpoKind::LookupIp4, parshall_fib::Payload::Ip4),
                    Family::Ip6 => (DpoKind::LookupIp6, parshall_fib::Payload::Ip6),
                };
                return self.after_pop(payload, under, Dpo::new(kind, index), made);
            }
            Via::LookupMpls => {
                let next = Dpo::new(DpoKind::LookupMpls, MPLS_TABLE);
                return self.after_pop(payload, parshall_fib::Payload::Mpls, next, made);
            }
        };
        Ok(dpo)
    }

    fn neighbor(
        &mut self,
        payload: Payload,
        leg: &Leg,
        (if_index, next_hop): (u32, IpAddr),
        made: &mut Made,
    ) -> Result<Dpo> {
        let labels: Vec<u32> = leg
            .labels
            .iter()
            .copied()
            .filter(|l| *l != IMPLICIT_NULL)
            .collect();
        let own = match payload {
            Payload::Ip4 => Link::Ip4,
            Payload::Ip6 => Link::Ip6,
            Payload::MplsNonEos => Link::Mpls,
            Payload::MplsEos if next_hop.is_ipv4() => Link::Ip4,
            Payload::MplsEos => Link::Ip6,
        };
        let link = if labels.is_empty() { own } else { Link::Mpls };
        let key = AdjKey {
            if_index,
            next_hop,
            link,
        };
        let index = self.adjacencies.acquire(&self.shared.adjacencies, key)?;
        made.adjacencies.push(index);
        let next = Dpo::new(DpoKind::Adjacency, index);
        if !labels.is_empty() {
            return self.impose(payload, &labels, leg.pipe, next, made);
        }
        let under = match own {
            Link::Ip4 => parshall_fib::Payload::Ip4,
            Link::Ip6 => parshall_fib::Payload::Ip6,
            Link::Mpls => parshall_fib::Payload::Mpls,
        };
        self.after_pop(payload, under, next, made)
    }

    fn impose(
        &mut self,
        payload: Payload,
        labels: &[u32],
        pipe: bool,
        next: Dpo,
        made: &mut Made,
    ) -> Result<Dpo> {
        let over = match payload {
            Payload::Ip4 => parshall_fib::Payload::Ip4,
            Payload::Ip6 => parshall_fib::Payload::Ip6,
            // A swap: the packet stays labelled, its bottom bit is copied.
            Payload::MplsEos | Payload::MplsNonEos => parshall_fib::Payload::Mpls,
        };
        let mode = if pipe {
            TtlMode::Pipe
        } else {
            TtlMode::Uniform
        };
        let imposition = Imposition::new(labels, over, mode, PIPE_TTL, 0, next)
            .map_err(|e| Error::refused(e.to_string()))?;
        let index = self.shared.impositions.insert(imposition)?;
        made.impositions.push(index);
        Ok(Dpo::new(DpoKind::MplsImpose, index))
    }

    /// `next` for an IP route; for a label, the pop that comes before it.
    fn after_pop(
        &mut self,
        payload: Payload,
        under: parshall_fib::Payload,
        next: Dpo,
        made: &mut Made,
    ) -> Result<Dpo> {
        if matches!(payload, Payload::Ip4 | Payload::Ip6) {
            return Ok(next);
        }
        let index = self.shared.dispositions.insert(Disposition {
            payload: under,
            mode: TtlMode::Uniform,
            next,
        })?;
        made.dispositions.push(index);
        Ok(Dpo::new(DpoKind::MplsPop, index))
    }

    /// The object for several ways: the load balance of `old` goes on, so that flows stay where they are.
    fn balance(&mut self, paths: &[parshall_fib::Path], old: &mut Made) -> Result<u32> {
        let refuse = |e: parshall_fib::LoadBalanceError| Error::refused(e.to_string());
        if let Some(index) = old.load_balance {
            let waiting = self.held.as_ref().and_then(|h| h.balances.get(&index));
            let there = || self.shared.load_balances.get_control(index);
            let next = match waiting {
                Some(lb) => Some(lb.update(paths)),
                None => there().map(|lb| lb.update(paths)),
            };
            if let Some(next) = next {
                let next = next.map_err(refuse)?;
                match &mut self.held {
                    Some(held) => _ = held.balances.insert(index, next),
                    None => self
                        .shared
                        .load_balances
                        .replace(index, next)
                        .map_err(|e| Error::refused(e.to_string()))?,
                }
                old.load_balance = None;
                return Ok(index);
            }
        }
        let lb = LoadBalance::new(paths).map_err(refuse)?;
        Ok(self.shared.load_balances.insert(lb)?)
    }

    fn make_all(
        &mut self,
        payload: Payload,
        legs: &[Leg],
        keep: bool,
        (made, old): (&mut Made, &mut Made),
    ) -> Result<()> {
        let mut paths = Vec::with_capacity(legs.len());
        for leg in legs {
            let dpo = self.leg(payload, leg, made)?;
            paths.push(parshall_fib::Path {
                dpo,
                weight: leg.weight,
            });
        }
        made.dpo = match paths.as_slice() {
            [] => Dpo::UNREACHABLE,
            [one] if !keep => one.dpo,
            many => {
                let index = self.balance(many, old)?;
                made.load_balance = Some(index);
                Dpo::new(DpoKind::LoadBalance, index)
            }
        };
        Ok(())
    }
}

impl Objects for Forwarding {
    fn is_up(&self, if_index: u32) -> bool {
        self.adjacencies.link(if_index).is_some_and(|l| l.up)
    }

    fn make(&mut self, payload: Payload, legs: &[Leg], keep: bool, old: &mut Made) -> Result<Made> {
        let mut made = Made::default();
        match self.make_all(payload, legs, keep, (&mut made, old)) {
            Ok(()) => Ok(made),
            Err(e) => {
                self.release(made);
                Err(e)
            }
        }
    }

    fn release(&mut self, made: Made) {
        if let Some(held) = &mut self.held {
            held.released.push(made);
            return;
        }
        // All indices are ours, so the slabs have them.
        if let Some(i) = made.load_balance {
            let _ = self.shared.load_balances.remove(i);
        }
        for i in made.impositions {
            let _ = self.shared.impositions.remove(i);
        }
        for i in made.dispositions {
            let _ = self.shared.dispositions.remove(i);
        }
        for i in made.adjacencies {
            self.adjacencies.release(&self.shared.adjacencies, i);
        }
    }

    fn add_table(&mut self, family: Family, id: u32) -> Result<u32> {
        let made = match family {
            // Table 0 is made with the state.
            _ if id == 0 => Ok(0),
            Family::Ip4 => self.shared.ip4.create(),
            Family::Ip6 => self.shared.ip6.create(),
        };
        let index = made.map_err(full)?;
        self.tables.insert((family, id), index);
        Ok(index)
    }

    fn remove_table(&mut self, family: Family, index: u32) {
        self.tables.retain(|k, v| k.0 != family || *v != index);
        match &mut self.held {
            Some(held) => held.tables.push((family, index)),
            None => self.delete_table(family, index),
        }
    }

    fn table_index(&self, family: Family, id: u32) -> Option<u32> {
        self.tables.get(&(family, id)).copied()
    }

    fn set_route(&mut self, family: Family, index: u32, net: IpNet, dpo: Dpo) -> Result<()> {
        if let Some(held) = &mut self.held {
            held.routes
                .entry((family, index))
                .or_default()
                .push((net, dpo));
            return Ok(());
        }
        match net.addr() {
            IpAddr::V4(a) => {
                let prefix = Ip4Prefix::masked(u32::from(a), net.prefix_len());
                let table = self.shared.ip4.control(index).map_err(full)?;
                table.insert(prefix, dpo).map_err(full)?;
            }
            IpAddr::V6(a) => {
                let prefix = Ip6Prefix::masked(u128::from(a), net.prefix_len());
                let table = self.shared.ip6.control(index).map_err(full)?;
                table.insert(prefix, dpo).map_err(full)?;
            }
        }
        Ok(())
    }

    fn set_routes(&mut self, family: Family, index: u32, routes: &[(IpNet, Dpo)]) -> Result<()> {
        if let Some(held) = &mut self.held {
            held.routes
                .entry((family, index))
                .or_default()
                .extend(routes);
            return Ok(());
        }
        match family {
            Family::Ip4 => {
                let table = self.shared.ip4.control(index).map_err(full)?;
                let changes = routes.iter().filter_map(|(net, dpo)| match net.addr() {
                    IpAddr::V4(a) => Some((Ip4Prefix::masked(a.into(), net.prefix_len()), *dpo)),
                    IpAddr::V6(_) => None,
                });
                table.change(&changes.collect::<Vec<_>>()).map_err(full)
            }
            Family::Ip6 => {
                let table = self.shared.ip6.control(index).map_err(full)?;
                let changes = routes.iter().filter_map(|(net, dpo)| match net.addr() {
                    IpAddr::V6(a) => Some((Ip6Prefix::masked(a.into(), net.prefix_len()), *dpo)),
                    IpAddr::V4(_) => None,
                });
                table.change(&changes.collect::<Vec<_>>()).map_err(full)
            }
        }
    }

    fn remove_route(&mut self, family: Family, index: u32, net: IpNet) {
        if let Some(held) = &mut self.held {
            held.routes
                .entry((family, index))
                .or_default()
                .push((net, Dpo::MISS));
            return;
        }
        let removed = match net.addr() {
            IpAddr::V4(a) => self.shared.ip4.control(index).and_then(|t| {
                t.remove(Ip4Prefix::masked(u32::from(a), net.prefix_len()))
                    .map(drop)
            }),
            IpAddr::V6(a) => self.shared.ip6.control(index).and_then(|t| {
                t.remove(Ip6Prefix::masked(u128::from(a), net.prefix_len()))
                    .map(drop)
            }),
        };
        if let Err(e) = removed {
            // Taking a route out may need memory. What it led to goes away, so it must lead nowhere.
            tracing::error!("route {net} stays as unreachable: {e}");
            if let Err(e) = self.set_route(family, index, net, Dpo::UNREACHABLE) {
                tracing::error!("route {net}: {e}");
            }
        }
    }

    fn set_label(&mut self, label: u32, eos: bool, dpo: Dpo) -> Result<()> {
        if let Some(held) = &mut self.held {
            held.labels.insert((label, eos), dpo);
            return Ok(());
        }
        let Some(table) = self.shared.mpls.get_control(MPLS_TABLE) else {
            return Err(Error::refused("there is no MPLS table"));
        };
        table.set(label, eos, dpo).map_err(full)?;
        Ok(())
    }

    fn remove_label(&mut self, label: u32, eos: bool) {
        if let Err(e) = self.set_label(label, eos, Dpo::MISS) {
            tracing::error!("label {label}: {e}");
        }
    }
}

fn full(e: parshall_fib::FibError) -> Error {
    Error::Full(e.to_string())
}
