//! What the router has, to read: for front ends that answer with data of their own form.

use std::net::IpAddr;

use super::Router;
use crate::interface::Interfaces;
use crate::neighbor::{Neighbor, NeighborKey};
use crate::path::Path;
use crate::prefix::{Family, IpNet};
use crate::rib::{Route, Source};
use crate::sampling::SampleDirection;

/// What holds for sampled interfaces that were not told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SflowDefaults {
    /// 1-in-N; `None` = by the speed of the link, 0 = nothing.
    pub rate: Option<u32>,
    /// Which packets.
    pub direction: SampleDirection,
    /// Header bytes of a sample.
    pub header_bytes: u16,
}

/// A thread that forwards packets or decides about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadFacts {
    /// Its name.
    pub name: String,
    /// It forwards packets.
    pub is_worker: bool,
    /// The kernel's number of it.
    pub tid: Option<i32>,
    /// The CPU that it is pinned to.
    pub cpu: Option<usize>,
}

impl Router {
    /// Control, which this is to be called by, and the workers.
    pub fn threads(&self) -> Vec<ThreadFacts> {
        let control = ThreadFacts {
            name: "parshall_main".into(),
            is_worker: false,
            tid: Some(nix::unistd::gettid().as_raw()),
            cpu: self.engine.config().main_cpu,
        };
        let worker = |w: usize| ThreadFacts {
            name: format!("parshall-wk{w}"),
            is_worker: true,
            tid: self.engine.tid(w),
            cpu: self.engine.worker_config(w).and_then(|c| c.cpu),
        };
        let workers = (0..self.engine.workers()).map(worker);
        std::iter::once(control).chain(workers).collect()
    }

    /// All interfaces.
    pub fn interfaces(&self) -> &Interfaces {
        &self.interfaces
    }

    /// All tables: family and number.
    pub fn tables(&self) -> impl Iterator<Item = (Family, u32)> + '_ {
        self.rib.tables().map(|(key, _)| *key)
    }

    /// Whether there is an MPLS table.
    pub fn has_mpls_table(&self) -> bool {
        self.mpls_table
    }

    /// Up to `most` routes of a table that come after `after`, in order of address and length, each with the paths that are used.
    pub fn routes(
        &self,
        (family, table): (Family, u32),
        after: Option<IpNet>,
        most: usize,
    ) -> Vec<(IpNet, Vec<Path>)> {
        let Ok(table) = self.rib.table(family, table) else {
            return Vec::new();
        };
        let later = |r: &(IpNet, Route)| after.is_none_or(|a| r.0 > a);
        let all = table.routes().filter(later).take(most);
        all.map(|(net, route)| (net, self.paths_of(&route)))
            .collect()
    }

    fn paths_of(&self, route: &Route) -> Vec<Path> {
        let list = route.best().and_then(|(_, id)| self.rib.list(id));
        list.map_or_else(Vec::new, |l| l.paths().to_vec())
    }

    /// The route that an address follows in a table.
    pub fn route_to(&self, family: Family, table: u32, addr: IpAddr) -> Option<(IpNet, Vec<Path>)> {
        let (net, list) = self.rib.best_for(family, table, addr)?;
        Some((net, list.paths().to_vec()))
    }

    /// Prefixes of the static routes of a table.
    pub fn static_routes(&self, family: Family, table: u32) -> Vec<IpNet> {
        let Ok(table) = self.rib.table(family, table) else {
            return Vec::new();
        };
        let fixed = table
            .routes()
            .filter(|(_, r)| r.source(Source::Static).is_some());
        fixed.map(|(net, _)| net).collect()
    }

    /// All labels: label, whether the entry is for the bottom of the stack, paths.
    pub fn labels(&self) -> Vec<(u32, bool, Vec<Path>)> {
        let paths = |id| {
            self.rib
                .list(id)
                .map_or_else(Vec::new, |l| l.paths().to_vec())
        };
        let all = self.rib.labels();
        all.map(|(label, eos, id)| (label, eos, paths(id)))
            .collect()
    }

    /// All neighbours of a family.
    pub fn neighbors(&self, family: Family) -> impl Iterator<Item = (&NeighborKey, &Neighbor)> {
        self.neighbors[family as usize].iter()
    }

    /// Seconds since a neighbour was last confirmed or changed.
    pub fn age(&self, neighbor: &Neighbor) -> f64 {
        self.now().saturating_sub(neighbor.updated) as f64 / 1e9
    }

    /// What holds for sampled interfaces that were not told otherwise.
    pub fn sflow_defaults(&self) -> SflowDefaults {
        SflowDefaults {
            rate: self.sflow.rate,
            direction: self.sflow.direction,
            header_bytes: self.sflow.header_bytes,
        }
    }
}
