//! Adjacencies: one a neighbour and link type, shared and counted, rewritten in place when the
//! neighbour's address, ours, or the MTU changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use parshall_fib::{Adjacency, LinkType};
use parshall_rcu::Slab;

use crate::error::Result;
use crate::path::Link;

/// What identifies an adjacency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AdjKey {
    /// Interface.
    pub if_index: u32,
    /// Neighbour.
    pub next_hop: IpAddr,
    /// What it carries.
    pub link: Link,
}

/// What an interface adds to a rewrite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkInfo {
    /// Our address.
    pub mac: [u8; 6],
    /// Largest IP packet.
    pub mtu: u16,
    /// It can be sent on.
    pub up: bool,
    /// What is sent on it has one place to go: there are no neighbours to look for.
    pub point_to_point: bool,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    index: u32,
    refs: u32,
}

/// All adjacencies in use.
#[derive(Debug, Default)]
pub struct AdjacencyTable {
    by_key: BTreeMap<AdjKey, Held>,
    by_index: HashMap<u32, AdjKey>,
    links: HashMap<u32, LinkInfo>,
    macs: HashMap<(u32, IpAddr), [u8; 6]>,
    /// Those that are to be written anew and wait for that: see [`AdjacencyTable::hold`].
    held: Option<BTreeSet<AdjKey>>,
}

impl AdjacencyTable {
    /// From now on changes wait for [`write_held`](Self::write_held). New ones are made at once.
    pub fn hold(&mut self) {
        self.held = Some(BTreeSet::new());
    }
    /// Those that wait, so that others can change at once; to be given back with [`put_back`](Self::put_back).
    pub(crate) fn take_held(&mut self) -> Option<BTreeSet<AdjKey>> {
        self.held.take()
    }
    /// Lets them wait again.
    pub(crate) fn put_back(&mut self, held: Option<BTreeSet<AdjKey>>) {
        self.held = held;
    }
    /// Writes those that waited. What changes from now on does not wait.
    pub fn write_held(&mut self, slab: &Slab<Adjacency>) {
        let held = self.held.take().unwrap_or_default();
        held.iter().for_each(|key| self.republish(slab, key));
    }

    /// What is known of an interface.
    pub fn link(&self, if_index: u32) -> Option<&LinkInfo> {
        self.links.get(&if_index)
    }
    /// All keys with index and number of users.
    pub fn iter(&self) -> impl Iterator<Item = (&AdjKey, u32, u32)> {
        self.by_key.iter().map(|(k, h)| (k, h.index, h.refs))
    }

    /// The adjacency for `key`, made if there is none, held once more.
    ///
    /// # Errors
    /// When the table is full.
    pub fn acquire(&mut self, slab: &Slab<Adjacency>, key: AdjKey) -> Result<u32> {
        if let Some(held) = self.by_key.get_mut(&key) {
            held.refs += 1;
            return Ok(held.index);
        }
        let index = slab.insert(self.build(&key))?;
        self.by_key.insert(key, Held { index, refs: 1 });
        self.by_index.insert(index, key);
        Ok(index)
    }

    /// Holds it once less; nobody's is taken out.
    pub fn release(&mut self, slab: &Slab<Adjacency>, index: u32) {
        let Some(key) = self.by_index.get(&index).copied() else {
            return;
        };
        let Some(held) = self.by_key.get_mut(&key) else {
            return;
        };
        held.refs -= 1;
        if held.refs == 0 {
            self.by_key.remove(&key);
            self.by_index.remove(&index);
            // The index is ours, so the slab has it.
            let _ = slab.remove(index);
        }
    }

    /// An interface appeared, changed, or (with `None`) went away.
    pub fn set_link(&mut self, slab: &Slab<Adjacency>, if_index: u32, info: Option<LinkInfo>) {
        let old = match info {
            Some(info) => self.links.insert(if_index, info),
            None => self.links.remove(&if_index),
        };
        if old == info {
            return;
        }
        let keys: Vec<AdjKey> = self
            .by_key
            .keys()
            .filter(|k| k.if_index == if_index)
            .copied()
            .collect();
        keys.iter().for_each(|k| self.republish(slab, k));
    }

    /// A neighbour's address became known, changed, or (with `None`) was lost.
    pub fn set_neighbor(
        &mut self,
        slab: &Slab<Adjacency>,
        if_index: u32,
        ip: IpAddr,
        mac: Option<[u8; 6]>,
    ) {
        match mac {
            Some(mac) => self.macs.insert((if_index, ip), mac),
            None => self.macs.remove(&(if_index, ip)),
        };
        for link in [Link::Ip4, Link::Ip6, Link::Mpls] {
            let key = AdjKey {
                if_index,
                next_hop: ip,
                link,
            };
            if self.by_key.contains_key(&key) {
                self.republish(slab, &key);
            }
        }
    }

    fn republish(&mut self, slab: &Slab<Adjacency>, key: &AdjKey) {
        if let Some(waiting) = &mut self.held {
            waiting.insert(*key);
            return;
        }
        if let Some(held) = self.by_key.get(key) {
            // The index is ours, so the slab has it.
            let _ = slab.replace(held.index, self.build(key));
        }
    }

    fn build(&self, key: &AdjKey) -> Adjacency {
        let info = self.links.get(&key.if_index).copied().unwrap_or_default();
        let link = match key.link {
            Link::Ip4 => LinkType::Ip4,
            Link::Ip6 => LinkType::Ip6,
            Link::Mpls => LinkType::Mpls,
        };
        let bare = match key.next_hop {
            IpAddr::V4(ip) => Adjacency::incomplete_ip4(key.if_index, link, info.mtu, ip),
            IpAddr::V6(ip) => Adjacency::incomplete_ip6(key.if_index, link, info.mtu, ip),
        };
        // The header only says what kind of packet it is, and is taken off again.
        const NOBODY: [u8; 6] = [0; 6];
        let dst = match self.macs.get(&(key.if_index, key.next_hop)) {
            _ if info.point_to_point => &NOBODY,
            Some(dst) => dst,
            None => return bare,
        };
        let mut header = [0; 14];
        header[..6].copy_from_slice(dst);
        header[6..12].copy_from_slice(&info.mac);
        header[12..].copy_from_slice(&key.link.ethertype().to_be_bytes());
        bare.with_rewrite(&header).unwrap_or(bare)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_rcu::Domain;

    fn key(link: Link) -> AdjKey {
        AdjKey {
            if_index: 3,
            next_hop: [10, 0, 0, 2].into(),
            link,
        }
    }

    fn header(slab: &Slab<Adjacency>, i: u32) -> Vec<u8> {
        let adj = slab.get_control(i).expect("an adjacency");
        adj.header().to_vec()
    }

    #[test]
    fn shared_counted_and_gone_with_the_last_user() {
        let slab = Slab::with_limit(&Domain::new(), 2);
        let mut t = AdjacencyTable::default();
        let a = t.acquire(&slab, key(Link::Ip4)).unwrap();
        assert_eq!(t.acquire(&slab, key(Link::Ip4)), Ok(a));
        let m = t.acquire(&slab, key(Link::Mpls)).unwrap();
        assert_ne!(a, m);
        let full = t.acquire(&slab, key(Link::Ip6)).unwrap_err();
        assert!(full.to_string().contains("limit is 2"), "{full}");
        t.release(&slab, a);
        assert!(slab.get_control(a).is_some());
        t.release(&slab, a);
        t.release(&slab, m);
        assert!(slab.is_empty() && t.by_key.is_empty() && t.by_index.is_empty());
    }

    #[test]
    fn the_rewrite_follows_neighbour_and_interface() {
        let slab = Slab::with_limit(&Domain::new(), 8);
        let mut t = AdjacencyTable::default();
        let info = LinkInfo {
            mac: [2; 6],
            mtu: 1500,
            up: true,
            point_to_point: false,
        };
        t.set_link(&slab, 3, Some(info));
        let (a, m) = (
            t.acquire(&slab, key(Link::Ip4)).unwrap(),
            t.acquire(&slab, key(Link::Mpls)).unwrap(),
        );
        assert!(header(&slab, a).is_empty());
        t.set_neighbor(&slab, 3, [10, 0, 0, 2].into(), Some([4; 6]));
        let want = |src: u8, ethertype: [u8; 2]| {
            let mut h = vec![4; 6];
            h.extend([src; 6]);
            h.extend(ethertype);
            h
        };
        assert_eq!(header(&slab, a), want(2, [8, 0]));
        assert_eq!(header(&slab, m), want(2, [0x88, 0x47]));
        let moved = LinkInfo {
            mac: [6; 6],
            mtu: 9000,
            ..info
        };
        t.set_link(&slab, 3, Some(moved));
        assert_eq!(header(&slab, a), want(6, [8, 0]));
        assert_eq!(slab.get_control(a).map(|x| x.mtu()), Some(9000));
        t.set_neighbor(&slab, 3, [10, 0, 0, 2].into(), None);
        assert!(header(&slab, a).is_empty());
    }
}
