//! The reference model: which prefixes have a route and where it leads, and the changes that come.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use parshall_control::{Family, IpNet};
use parshall_fib::Prefix;

use crate::BenchError;
use crate::internet::{self, Grow, NEXT_HOPS, Random};

/// Recursive next hops of each family.
pub const RECURSIVE: usize = 64;
/// Destinations of each family.
pub const DESTINATIONS: usize = 16_384;
/// Prefixes that are withdrawn at a time, at most.
const GONE: usize = 5_000;
/// More-specifics that flap, for each family: one for so many prefixes.
const FLAPPING: usize = 20;
/// One change in so many moves a recursive next hop, with all routes over it.
const MOVES: usize = 10_000;

/// Where a route leads. Numbers of neighbours are below [`NEXT_HOPS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To a neighbour.
    Direct(u32),
    /// To two, in equal parts.
    Pair(u32, u32),
    /// To wherever the route to a recursive next hop leads.
    Recursive(usize),
}

/// One change.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// A prefix gets a route, or another one.
    Set(usize, Way),
    /// It loses it.
    Clear(usize),
    /// A recursive next hop moves to another neighbour.
    Move(Family, usize, u32),
}

/// All prefixes and their state.
pub struct Model {
    nets: Vec<IpNet>,
    ways: Vec<Option<Way>>,
    /// Prefixes below this one are the Internet's, those from it on are more-specifics that flap.
    flapping: usize,
    /// Those that are never withdrawn, because packets go there.
    kept: Vec<bool>,
    gone: Vec<usize>,
    /// Neighbours that the recursive next hops are reached by, by family.
    hops: [Vec<u32>; 2],
    /// Where packets go.
    pub destinations4: Vec<u32>,
    /// Where packets go.
    pub destinations6: Vec<u128>,
}

/// Address of a neighbour.
pub fn neighbor(family: Family, i: u32) -> IpAddr {
    match family {
        Family::Ip4 => Ipv4Addr::from(0xC612_0402 + i).into(),
        Family::Ip6 => {
            Ipv6Addr::from((0x2001_0002 << 96) + (0xFFFF << 64) + 2 + u128::from(i)).into()
        }
    }
}

/// A recursive next hop, and the network that it is reached by.
pub fn hop(family: Family, i: usize) -> (IpAddr, IpNet) {
    match family {
        Family::Ip4 => {
            let addr: IpAddr = Ipv4Addr::from(0xC613_0001 + ((i as u32) << 8)).into();
            (addr, IpNet::new(addr, 24))
        }
        Family::Ip6 => {
            let addr: IpAddr = Ipv6Addr::from((0x2001_0002 << 96) + ((i as u128) << 64) + 1).into();
            (addr, IpNet::new(addr, 64))
        }
    }
}

/// Blocks that the bench itself lives in (RFC 2544, RFC 5180): no prefix of the table may cover them.
fn is_ours(net: &IpNet) -> bool {
    let ours = [
        IpNet::new(Ipv4Addr::new(198, 18, 0, 0).into(), 15),
        IpNet::new(Ipv6Addr::from(0x2001_0002u128 << 96).into(), 48),
    ];
    let meets = |o: &IpNet| {
        let len = o.prefix_len().min(net.prefix_len());
        Family::of(o.addr()) == Family::of(net.addr())
            && IpNet::new(o.addr(), len) == IpNet::new(net.addr(), len)
    };
    net.prefix_len() == 0 || ours.iter().any(meets)
}

fn nets<A: Grow>(prefixes: &[Prefix<A>]) -> Vec<IpNet>
where
    Prefix<A>: Net,
{
    let all = prefixes.iter().map(Net::net);
    all.filter(|n| !is_ours(n)).collect()
}

/// A prefix as control writes it.
pub trait Net {
    /// The network.
    fn net(&self) -> IpNet;
}

impl Net for Prefix<u32> {
    fn net(&self) -> IpNet {
        IpNet::new(Ipv4Addr::from(self.addr()).into(), self.len())
    }
}

impl Net for Prefix<u128> {
    fn net(&self) -> IpNet {
        IpNet::new(Ipv6Addr::from(self.addr()).into(), self.len())
    }
}

impl Model {
    /// Every `one_in`-th prefix of the Internet, each with a route; `seed` chooses the destinations.
    ///
    /// # Errors
    /// When the data in the program cannot be unpacked.
    pub fn new(one_in: usize, seed: u64) -> Result<Model, BenchError> {
        let four: Vec<_> = internet::ip4()?.into_iter().step_by(one_in).collect();
        let six: Vec<_> = internet::ip6()?.into_iter().step_by(one_in).collect();
        let mut random = Random::new(seed);
        let mut all = nets(&four);
        all.extend(nets(&six));
        let flapping = all.len();
        let known: HashMap<IpNet, ()> = all.iter().map(|n| (*n, ())).collect();
        let mut more: HashMap<IpNet, ()> = HashMap::new();
        while more.len() < flapping / FLAPPING {
            let n = more_specific(all[random.below(flapping)], &mut random);
            if !known.contains_key(&n) && more.insert(n, ()).is_none() {
                all.push(n);
            }
        }
        let mut model = Model {
            ways: vec![None; all.len()],
            kept: vec![false; all.len()],
            nets: all,
            flapping,
            gone: Vec::with_capacity(GONE),
            hops: [0, 1].map(|_| (0..RECURSIVE as u32).collect()),
            destinations4: Vec::new(),
            destinations6: Vec::new(),
        };
        model.choose_destinations(&mut random);
        for i in 0..flapping {
            model.ways[i] = Some(way(&mut random));
        }
        Ok(model)
    }

    fn choose_destinations(&mut self, random: &mut Random) {
        let fours = self.count_fours();
        for _ in 0..DESTINATIONS {
            let i = random.below(fours);
            self.kept[i] = true;
            if let IpAddr::V4(a) = self.nets[i].addr() {
                let host = u32::MAX.checked_shr(self.nets[i].prefix_len().into());
                self.destinations4
                    .push(u32::from(a) | random.next() as u32 & host.unwrap_or(0));
            }
            let i = fours + random.below(self.flapping - fours);
            self.kept[i] = true;
            if let IpAddr::V6(a) = self.nets[i].addr() {
                let host = u128::MAX.checked_shr(self.nets[i].prefix_len().into());
                let low = u128::from(random.next()) << 64 | u128::from(random.next());
                self.destinations6
                    .push(u128::from(a) | low & host.unwrap_or(0));
            }
        }
    }

    /// How many of the Internet's prefixes are IPv4: they come first.
    fn count_fours(&self) -> usize {
        let six = self.nets[..self.flapping]
            .iter()
            .position(|n| n.addr().is_ipv6());
        six.unwrap_or(self.flapping)
    }

    /// The next change. It is in the model already when this returns.
    pub fn next(&mut self, random: &mut Random) -> Change {
        if random.below(MOVES) == 0 {
            let family = [Family::Ip4, Family::Ip6][random.below(2)];
            let (i, to) = (
                random.below(RECURSIVE),
                random.below(NEXT_HOPS as usize) as u32,
            );
            self.hops[family as usize][i] = to;
            return Change::Move(family, i, to);
        }
        match random.below(100) {
            0..55 => {
                let i = random.below(self.flapping);
                // One that is withdrawn stays so until its turn comes.
                match self.ways[i] {
                    Some(_) => self.set(i, way(random)),
                    None => self.flap(random),
                }
            }
            55..85 => self.flap(random),
            _ if self.gone.len() < GONE.min(self.flapping / 4) => {
                let i = random.below(self.flapping);
                if self.kept[i] || self.ways[i].is_none() {
                    return self.flap(random);
                }
                self.gone.push(i);
                self.clear(i)
            }
            _ => {
                let at = random.below(self.gone.len());
                let i = self.gone.swap_remove(at);
                self.set(i, way(random))
            }
        }
    }

    /// A more-specific comes or goes.
    fn flap(&mut self, random: &mut Random) -> Change {
        let i = self.flapping + random.below(self.nets.len() - self.flapping);
        match self.ways[i] {
            Some(_) => self.clear(i),
            None => self.set(i, way(random)),
        }
    }

    fn set(&mut self, i: usize, way: Way) -> Change {
        self.ways[i] = Some(way);
        Change::Set(i, way)
    }

    fn clear(&mut self, i: usize) -> Change {
        self.ways[i] = None;
        Change::Clear(i)
    }

    /// A prefix.
    pub fn net(&self, i: usize) -> IpNet {
        self.nets[i]
    }

    /// All prefixes and their routes.
    pub fn iter(&self) -> impl Iterator<Item = (IpNet, Option<Way>)> {
        self.nets.iter().copied().zip(self.ways.iter().copied())
    }

    /// Neighbour that a recursive next hop is reached by.
    pub fn hop(&self, family: Family, i: usize) -> u32 {
        self.hops[family as usize][i]
    }

    /// Prefixes there are, with a route or without.
    pub fn len(&self) -> usize {
        self.nets.len()
    }

    /// Prefixes that have a route.
    pub fn present(&self) -> usize {
        self.ways.iter().flatten().count()
    }

    /// Neighbours that packets for `way` may go to.
    pub fn ends(&self, family: Family, way: Way) -> Vec<IpAddr> {
        let mut ends = match way {
            Way::Direct(a) => vec![neighbor(family, a)],
            Way::Pair(a, b) => vec![neighbor(family, a), neighbor(family, b)],
            Way::Recursive(i) => vec![neighbor(family, self.hop(family, i))],
        };
        ends.sort_unstable();
        ends.dedup();
        ends
    }
}

/// Where a route may lead: most to one neighbour, some to two, some recursively.
fn way(random: &mut Random) -> Way {
    let one = |r: &mut Random| r.below(NEXT_HOPS as usize) as u32;
    match random.below(100) {
        0..85 => Way::Direct(one(random)),
        85..90 => {
            let a = one(random);
            Way::Pair(a, (a + 1) % NEXT_HOPS)
        }
        _ => Way::Recursive(random.below(RECURSIVE)),
    }
}

/// A part of a prefix, one to four bits longer.
fn more_specific(net: IpNet, random: &mut Random) -> IpNet {
    let len = net.prefix_len() + 1 + random.below(4) as u8;
    match net.addr() {
        IpAddr::V4(a) => {
            let host = u32::MAX.checked_shr(net.prefix_len().into()).unwrap_or(0);
            let addr = u32::from(a) | random.next() as u32 & host;
            IpNet::new(Ipv4Addr::from(addr).into(), len)
        }
        IpAddr::V6(a) => {
            let host = u128::MAX.checked_shr(net.prefix_len().into()).unwrap_or(0);
            let low = u128::from(random.next()) << 64 | u128::from(random.next());
            IpNet::new(Ipv6Addr::from(u128::from(a) | low & host).into(), len)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_always_have_a_route() {
        let mut model = Model::new(200, 1).unwrap();
        let mut random = Random::new(2);
        for _ in 0..20_000 {
            model.next(&mut random);
        }
        let covered = |addr: IpAddr| {
            (0..=Family::of(addr).bits()).any(|len| {
                let net = IpNet::new(addr, len);
                let at = model.nets.iter().position(|n| *n == net);
                at.is_some_and(|i| model.ways[i].is_some())
            })
        };
        assert!(
            model
                .destinations4
                .iter()
                .take(50)
                .all(|a| covered(Ipv4Addr::from(*a).into()))
        );
        assert!(
            model
                .destinations6
                .iter()
                .take(50)
                .all(|a| covered(Ipv6Addr::from(*a).into()))
        );
        assert!(model.present() > model.flapping / 2);
        assert_eq!(model.destinations4.len(), DESTINATIONS);
    }

    #[test]
    fn the_same_seed_makes_the_same_changes() {
        let run = || {
            let (mut model, mut random) = (Model::new(500, 1).unwrap(), Random::new(9));
            let changes: Vec<_> = (0..500)
                .map(|_| format!("{:?}", model.next(&mut random)))
                .collect();
            changes
        };
        assert_eq!(run(), run());
    }
}
