//! Following the paths of a list to their ends, through the routes to its next hops.

use std::net::IpAddr;

use super::{ListKey, MAX_PATHS, Rib};
use crate::objects::Objects;
use crate::path::{Path, Share, Target, Via, merge};
use crate::prefix::Family;

/// Routes a path list is followed through, in a row and in all: what hangs deeper counts as a loop.
const MAX_DEPTH: usize = 32;
const MAX_STEPS: usize = 4096;

impl Rib {
    /// Follows the paths of a list to their ends. Never empty: without a way out it is "unreachable".
    /// Says too whether there was a loop.
    pub(super) fn expand(&self, o: &dyn Objects, key: &ListKey) -> (Vec<Share>, bool) {
        let mut walk = Walk {
            rib: self,
            o,
            stack: Vec::new(),
            steps: 0,
            looped: false,
        };
        let mut shares = walk.list(key);
        if shares.is_empty() {
            shares.push(Share::whole(Target::Other(Via::Unreachable)));
        }
        shares.truncate(MAX_PATHS);
        (shares, walk.looped)
    }
}

/// A walk along the paths of a list, through the routes to its next hops.
struct Walk<'a> {
    rib: &'a Rib,
    o: &'a dyn Objects,
    /// The lists that led here.
    stack: Vec<*const ListKey>,
    steps: usize,
    looped: bool,
}

impl Walk<'_> {
    /// The ends of a list, their shares adding up to 1; none when all its paths are dead.
    fn list(&mut self, key: &ListKey) -> Vec<Share> {
        self.steps += 1;
        let id = std::ptr::from_ref(key);
        if self.stack.contains(&id) || self.stack.len() == MAX_DEPTH || self.steps > MAX_STEPS {
            self.looped = true;
            return Vec::new();
        }
        self.stack.push(id);
        let mut alive = Vec::with_capacity(key.paths.len());
        for path in &key.paths {
            let ends = self.path(path, key.table);
            if !ends.is_empty() {
                alive.push((f64::from(path.weight.max(1)), ends));
            }
        }
        self.stack.pop();
        merge(alive)
    }

    fn path(&mut self, path: &Path, table: u32) -> Vec<Share> {
        let mut ends = match path.via {
            Via::Attached { if_index } if !self.o.is_up(if_index) => Vec::new(),
            Via::NextHop {
                ip,
                if_index: Some(if_index),
            } => self.neighbor(if_index, ip),
            Via::NextHop { ip, if_index: None } => self.hop(ip, table),
            other => vec![Share::whole(Target::Other(other))],
        };
        for end in &mut ends {
            // The labels of the route to a next hop go outside those of the route that uses it.
            end.labels.extend(&path.labels);
            end.pipe |= path.pipe;
        }
        ends
    }

    fn neighbor(&self, if_index: u32, ip: IpAddr) -> Vec<Share> {
        let up = self.o.is_up(if_index);
        let end = || Share::whole(Target::Neighbor { if_index, ip });
        up.then(end).into_iter().collect()
    }

    /// Goes on along the route to a next hop.
    fn hop(&mut self, ip: IpAddr, table: u32) -> Vec<Share> {
        let Some((_, list)) = self.rib.best_for(Family::of(ip), table, ip) else {
            return Vec::new();
        };
        match list.key.paths.first().map(|p| p.via) {
            Some(Via::Attached { if_index }) => self.neighbor(if_index, ip),
            // An address of our own is nobody's next hop.
            Some(Via::Receive { .. }) | None => Vec::new(),
            Some(_) => self.list(&list.key),
        }
    }
}
