//! Tests of the routing tables over objects that only count: what is installed must always be what a
//! walk from scratch gives, and nothing may be left when all is taken away.

use super::*;
use crate::objects::Made;
use crate::path::{Leg, Share, Target, merge, settle};
use parshall_fib::DpoKind;
use proptest::prelude::*;

/// Objects without memory: each distinct set of legs is an "adjacency".
#[derive(Default)]
struct Fake {
    down: BTreeSet<u32>,
    alive: Vec<Option<(Payload, Vec<Leg>)>>,
    routes: BTreeMap<(Family, u32, IpNet), Dpo>,
    labels: BTreeMap<(u32, bool), Dpo>,
    tables: Vec<Option<(Family, u32)>>,
    full: bool,
    no_room: bool,
}

impl Fake {
    fn legs(&self, dpo: Dpo) -> Vec<Leg> {
        let made = self.alive[dpo.index() as usize].as_ref();
        made.expect("a route leads to a released object").1.clone()
    }
    fn count(&self) -> usize {
        self.alive.iter().flatten().count()
    }
}

impl Objects for Fake {
    fn is_up(&self, if_index: u32) -> bool {
        !self.down.contains(&if_index)
    }
    fn make(&mut self, payload: Payload, legs: &[Leg], keep: bool, old: &mut Made) -> Result<Made> {
        if self.full {
            return Err(Error::Full("full".into()));
        }
        if keep && let Some(n) = old.adjacencies.pop() {
            self.alive[n as usize] = Some((payload, legs.to_vec()));
            return Ok(Made {
                dpo: old.dpo,
                adjacencies: vec![n],
                ..Made::default()
            });
        }
        let n = self.alive.len() as u32;
        self.alive.push(Some((payload, legs.to_vec())));
        Ok(Made {
            dpo: Dpo::new(DpoKind::Adjacency, n),
            adjacencies: vec![n],
            ..Made::default()
        })
    }
    fn release(&mut self, made: Made) {
        for n in made.adjacencies {
            let dpo = Dpo::new(DpoKind::Adjacency, n);
            assert!(
                self.routes
                    .values()
                    .chain(self.labels.values())
                    .all(|d| *d != dpo)
            );
            assert!(self.alive[n as usize].take().is_some());
        }
    }
    fn add_table(&mut self, family: Family, id: u32) -> Result<u32> {
        self.tables.push(Some((family, id)));
        Ok(self.tables.len() as u32 - 1)
    }
    fn remove_table(&mut self, _family: Family, index: u32) {
        self.tables[index as usize] = None;
    }
    fn table_index(&self, family: Family, id: u32) -> Option<u32> {
        let at = self.tables.iter().position(|t| *t == Some((family, id)))?;
        Some(at as u32)
    }
    fn set_route(&mut self, family: Family, index: u32, net: IpNet, dpo: Dpo) -> Result<()> {
        self.routes.insert((family, index, net), dpo);
        Ok(())
    }
    fn set_routes(&mut self, family: Family, index: u32, routes: &[(IpNet, Dpo)]) -> Result<()> {
        if self.no_room {
            return Err(Error::Full("no room".into()));
        }
        for (net, dpo) in routes {
            if dpo.is_miss() {
                self.routes.remove(&(family, index, *net));
            } else {
                self.routes.insert((family, index, *net), *dpo);
            }
        }
        Ok(())
    }
    fn remove_route(&mut self, family: Family, index: u32, net: IpNet) {
        assert!(self.routes.remove(&(family, index, net)).is_some());
    }
    fn set_label(&mut self, label: u32, eos: bool, dpo: Dpo) -> Result<()> {
        self.labels.insert((label, eos), dpo);
        Ok(())
    }
    fn remove_label(&mut self, label: u32, eos: bool) {
        assert!(self.labels.remove(&(label, eos)).is_some());
    }
}

fn net(text: &str) -> IpNet {
    let (a, l) = text.split_once('/').expect("a prefix");
    IpNet::new(a.parse().expect("an address"), l.parse().expect("a length"))
}

fn hop(ip: &str, if_index: Option<u32>) -> Path {
    Path::new(Via::NextHop {
        ip: ip.parse().expect("an address"),
        if_index,
    })
}

fn world() -> (Rib, Fake) {
    let (mut rib, mut o) = (Rib::default(), Fake::default());
    rib.add_table(&mut o, Family::Ip4, 0).unwrap();
    let attached = vec![Path::new(Via::Attached { if_index: 1 })];
    let at = (Family::Ip4, 0, net("10.0.0.0/24"));
    rib.set(&mut o, at, Source::Interface, attached).unwrap();
    (rib, o)
}

fn add(rib: &mut Rib, o: &mut Fake, prefix: &str, paths: Vec<Path>) {
    rib.set(o, (Family::Ip4, 0, net(prefix)), Source::Static, paths)
        .unwrap();
}

fn legs(o: &Fake, prefix: &str) -> Vec<Leg> {
    o.legs(o.routes[&(Family::Ip4, 0, net(prefix))])
}

fn neighbor(if_index: u32, ip: &str) -> Target {
    Target::Neighbor {
        if_index,
        ip: ip.parse().expect("an address"),
    }
}

#[test]
fn a_recursive_next_hop_ends_at_a_neighbour_of_the_connected_network() {
    let (mut rib, mut o) = world();
    add(&mut rib, &mut o, "20.0.0.0/8", vec![hop("10.0.0.2", None)]);
    assert_eq!(legs(&o, "20.0.0.0/8")[0].target, neighbor(1, "10.0.0.2"));
    add(&mut rib, &mut o, "30.0.0.0/8", vec![hop("20.1.1.1", None)]);
    assert_eq!(legs(&o, "30.0.0.0/8")[0].target, neighbor(1, "10.0.0.2"));
}

#[test]
fn a_better_route_to_the_next_hop_moves_what_hangs_on_it() {
    let (mut rib, mut o) = world();
    add(&mut rib, &mut o, "30.0.0.0/8", vec![hop("20.1.1.1", None)]);
    let unreachable = Target::Other(Via::Unreachable);
    assert_eq!(legs(&o, "30.0.0.0/8")[0].target, unreachable);
    add(&mut rib, &mut o, "20.0.0.0/8", vec![hop("10.0.0.2", None)]);
    assert_eq!(legs(&o, "30.0.0.0/8")[0].target, neighbor(1, "10.0.0.2"));
    add(
        &mut rib,
        &mut o,
        "20.1.0.0/16",
        vec![hop("10.0.0.3", Some(1))],
    );
    assert_eq!(legs(&o, "30.0.0.0/8")[0].target, neighbor(1, "10.0.0.3"));
    let gone = (Family::Ip4, 0, net("20.1.0.0/16"));
    assert!(rib.clear(&mut o, gone, Source::Static));
    assert_eq!(legs(&o, "30.0.0.0/8")[0].target, neighbor(1, "10.0.0.2"));
}

#[test]
fn loops_are_unreachable_and_end() {
    let (mut rib, mut o) = world();
    add(&mut rib, &mut o, "20.0.0.0/8", vec![hop("30.0.0.1", None)]);
    add(&mut rib, &mut o, "30.0.0.0/8", vec![hop("20.0.0.1", None)]);
    add(&mut rib, &mut o, "40.0.0.0/8", vec![hop("40.0.0.1", None)]);
    for p in ["20.0.0.0/8", "30.0.0.0/8", "40.0.0.0/8"] {
        assert_eq!(legs(&o, p)[0].target, Target::Other(Via::Unreachable));
    }
}

#[test]
fn shares_multiply_and_labels_stack_up() {
    let (mut rib, mut o) = world();
    let mut outer = hop("10.0.0.2", Some(1));
    (outer.labels, outer.weight) = (vec![100], 3);
    add(
        &mut rib,
        &mut o,
        "20.0.0.0/8",
        vec![outer, hop("10.0.0.3", Some(1))],
    );
    let mut inner = hop("20.0.0.1", None);
    inner.labels = vec![200];
    add(
        &mut rib,
        &mut o,
        "30.0.0.0/8",
        vec![inner, hop("10.0.0.4", Some(1))],
    );
    let mut got: Vec<_> = legs(&o, "30.0.0.0/8")
        .into_iter()
        .map(|l| (l.target, l.weight, l.labels))
        .collect();
    got.sort();
    assert_eq!(
        got,
        [
            (neighbor(1, "10.0.0.2"), 3, vec![100, 200]),
            (neighbor(1, "10.0.0.3"), 1, vec![200]),
            (neighbor(1, "10.0.0.4"), 4, vec![]),
        ]
    );
}

#[test]
fn a_down_interface_takes_its_paths_out_and_back_in() {
    let (mut rib, mut o) = world();
    let both = vec![hop("10.0.0.2", Some(1)), hop("10.1.0.2", Some(2))];
    add(&mut rib, &mut o, "20.0.0.0/8", both);
    add(&mut rib, &mut o, "30.0.0.0/8", vec![hop("10.0.0.9", None)]);
    o.down.insert(1);
    rib.interface_changed(&mut o, 1);
    assert_eq!(legs(&o, "20.0.0.0/8").len(), 1);
    let unreachable = Target::Other(Via::Unreachable);
    assert_eq!(legs(&o, "30.0.0.0/8")[0].target, unreachable);
    o.down.clear();
    rib.interface_changed(&mut o, 1);
    assert_eq!(legs(&o, "20.0.0.0/8").len(), 2);
    assert_eq!(legs(&o, "30.0.0.0/8")[0].target, neighbor(1, "10.0.0.9"));
}

#[test]
fn the_interface_wins_over_the_command_over_the_neighbour() {
    let (mut rib, mut o) = world();
    let at = (Family::Ip4, 0, net("10.0.0.7/32"));
    for (source, ip) in [
        (Source::Neighbor, "10.0.0.7"),
        (Source::Static, "10.0.0.8"),
        (Source::Interface, "10.0.0.9"),
    ] {
        rib.set(&mut o, at, source, vec![hop(ip, Some(1))]).unwrap();
        assert_eq!(legs(&o, "10.0.0.7/32")[0].target, neighbor(1, ip));
    }
    assert!(rib.clear(&mut o, at, Source::Interface));
    assert_eq!(legs(&o, "10.0.0.7/32")[0].target, neighbor(1, "10.0.0.8"));
    assert!(!rib.clear(&mut o, at, Source::Interface));
}

#[test]
fn a_refusal_changes_nothing() {
    let (mut rib, mut o) = world();
    let before = o.routes.clone();
    o.full = true;
    let at = (Family::Ip4, 0, net("20.0.0.0/8"));
    let e = rib.set(&mut o, at, Source::Static, vec![hop("10.0.0.2", None)]);
    assert_eq!(e, Err(Error::Full("full".into())));
    assert_eq!((o.routes, rib.lists().count()), (before, 1));
    let e = rib.table(Family::Ip4, 9).err();
    assert_eq!(
        e,
        Some(Error::NoTable {
            family: "ip",
            id: 9
        })
    );
}

#[test]
fn routes_with_the_same_paths_share_a_list() {
    let (mut rib, mut o) = world();
    for i in 0..50 {
        let p = format!("20.{i}.0.0/16");
        add(&mut rib, &mut o, &p, vec![hop("10.0.0.2", Some(1))]);
    }
    assert_eq!((rib.lists().count(), o.count()), (2, 2));
}

#[derive(Clone, Debug)]
enum Step {
    Set(usize, Vec<usize>),
    Clear(usize),
    Label(u32, usize),
    Unlabel(u32),
    Toggle(u32),
    /// Many at once; refused as a whole if the flag says so.
    Batch(Vec<(usize, Vec<usize>)>, bool),
}

const NETS: [&str; 8] = [
    "20.0.0.0/8",
    "20.1.0.0/16",
    "20.1.1.0/24",
    "30.0.0.0/8",
    "30.1.1.1/32",
    "0.0.0.0/0",
    "40.0.0.0/8",
    "10.0.0.5/32",
];

fn paths() -> Vec<Path> {
    let mut labelled = hop("20.1.1.9", None);
    labelled.labels = vec![99];
    vec![
        hop("10.0.0.2", Some(1)),
        hop("10.0.0.5", None),
        hop("20.1.1.1", None),
        hop("30.1.1.1", None),
        hop("40.0.0.1", None),
        hop("10.9.0.1", Some(2)),
        labelled,
        Path::new(Via::Blackhole),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0usize..8, proptest::collection::vec(0usize..8, 1..4)).prop_map(|(n, p)| Step::Set(n, p)),
        3 => (0usize..8).prop_map(Step::Clear),
        1 => (16u32..18, 0usize..8).prop_map(|(l, p)| Step::Label(l, p)),
        1 => (16u32..18).prop_map(Step::Unlabel),
        1 => (1u32..3).prop_map(Step::Toggle),
        2 => (proptest::collection::vec((0usize..8, proptest::collection::vec(0usize..8, 0..3)), 0..8), proptest::bool::weighted(0.2))
            .prop_map(|(b, refused)| Step::Batch(b, refused)),
    ]
}

/// Routes by prefix: what the interface, the command and the neighbour want.
type Naive = BTreeMap<IpNet, [Vec<Path>; 3]>;

/// The slow reference: the ends of paths by linear scans of all routes.
fn naive_ends(model: &Naive, o: &Fake, paths: &[Path], above: &mut Vec<Vec<Path>>) -> Vec<Share> {
    let mut paths = paths.to_vec();
    paths.sort_unstable();
    if above.contains(&paths) {
        return Vec::new();
    }
    above.push(paths.clone());
    let mut alive = Vec::new();
    for path in &paths {
        let mut ends = match path.via {
            Via::Attached { if_index } if o.down.contains(&if_index) => Vec::new(),
            Via::NextHop { ip, if_index } => naive_hop(model, o, ip, if_index, above),
            other => vec![Share::whole(Target::Other(other))],
        };
        for end in &mut ends {
            end.labels.extend(&path.labels);
        }
        if !ends.is_empty() {
            alive.push((f64::from(path.weight), ends));
        }
    }
    above.pop();
    merge(alive)
}

fn naive_hop(
    model: &Naive,
    o: &Fake,
    ip: IpAddr,
    if_index: Option<u32>,
    above: &mut Vec<Vec<Path>>,
) -> Vec<Share> {
    let neighbor = |if_index| match o.down.contains(&if_index) {
        true => Vec::new(),
        false => vec![Share::whole(Target::Neighbor { if_index, ip })],
    };
    if let Some(if_index) = if_index {
        return neighbor(if_index);
    }
    let hits = model.iter().filter(|(net, _)| net.contains(ip));
    let Some((_, wanted)) = hits.max_by_key(|(net, _)| net.prefix_len()) else {
        return Vec::new();
    };
    let best = wanted.iter().find(|p| !p.is_empty()).expect("a source");
    match best.iter().min().map(|p| p.via) {
        Some(Via::Attached { if_index }) => neighbor(if_index),
        _ => naive_ends(model, o, best, above),
    }
}

fn naive_legs(model: &Naive, o: &Fake, paths: &[Path]) -> Vec<Leg> {
    let mut ends = naive_ends(model, o, paths, &mut Vec::new());
    if ends.is_empty() {
        ends.push(Share::whole(Target::Other(Via::Unreachable)));
    }
    settle(&ends)
}

fn check(rib: &Rib, o: &Fake, model: &Naive) {
    let table = rib.table(Family::Ip4, 0).unwrap();
    assert_eq!((table.count(), o.routes.len()), (model.len(), model.len()));
    for ((net, route), (want_net, wanted)) in table.routes().zip(model) {
        assert_eq!(net, *want_net);
        let (_, id) = route.best().expect("a route without a source");
        let list = rib.list(id).expect("a list");
        assert_eq!(list.legs, settle(&rib.expand(o, &list.key).0), "{net}");
        let seen = o.legs(o.routes[&(Family::Ip4, table.index, net)]);
        let best = wanted.iter().find(|p| !p.is_empty()).expect("a source");
        assert_eq!(seen, naive_legs(model, o, best), "{net}");
    }
    for (label, eos, id) in rib.labels() {
        let list = rib.list(id).expect("a list");
        let seen = o.legs(o.labels[&(label, eos)]);
        assert_eq!(seen, naive_legs(model, o, list.paths()));
    }
    assert_eq!(o.count(), rib.lists().count());
}

fn chosen(p: Vec<usize>) -> Vec<Path> {
    let mut p: Vec<Path> = p.into_iter().map(|i| paths()[i].clone()).collect();
    p.dedup();
    p
}

fn want(model: &mut Naive, n: usize, paths: Vec<Path>) {
    let entry = model.entry(net(NETS[n])).or_default();
    entry[Source::Static as usize] = paths;
    model.retain(|_, wanted| wanted.iter().any(|p| !p.is_empty()));
}

/// A batch as the router makes it: lists held, changed, let go.
fn batch(
    rib: &mut Rib,
    o: &mut Fake,
    model: &mut Naive,
    b: Vec<(usize, Vec<usize>)>,
    refused: bool,
) {
    let mut changes = Vec::new();
    let mut later = model.clone();
    for (n, p) in b {
        let p = chosen(p);
        want(&mut later, n, p.clone());
        let list = ListKey::new(Payload::Ip4, 0, p)
            .ok()
            .map(|key| rib.hold(o, Arc::new(key)).unwrap());
        changes.push((net(NETS[n]), list));
    }
    o.no_room = refused;
    let changed = rib.change(o, (Family::Ip4, 0), Source::Static, &changes);
    o.no_room = false;
    for list in changes.into_iter().filter_map(|c| c.1) {
        rib.let_go(o, list);
    }
    assert_eq!(changed.is_err(), refused);
    if let Ok(changed) = changed {
        // The first note of a route is what it was before.
        for (net, before) in changed.into_iter().rev().collect::<BTreeMap<_, _>>() {
            let was = model
                .get(&net)
                .map(|w| w[Source::Static as usize].clone())
                .unwrap_or_default();
            let mut was: Vec<Path> = was;
            was.sort_unstable();
            assert_eq!(before.map(|k| k.paths().to_vec()).unwrap_or_default(), was);
        }
        *model = later;
    }
}

proptest! {
    #[test]
    fn workers_always_see_what_the_naive_model_gives(steps in proptest::collection::vec(step(), 1..60)) {
        let (mut rib, mut o) = world();
        let mut model = Naive::new();
        model.entry(net("10.0.0.0/24")).or_default()[0] = vec![Path::new(Via::Attached { if_index: 1 })];
        for s in steps {
            match s {
                Step::Set(n, p) => {
                    let p = chosen(p);
                    want(&mut model, n, p.clone());
                    add(&mut rib, &mut o, NETS[n], p);
                }
                Step::Clear(n) => {
                    want(&mut model, n, Vec::new());
                    rib.clear(&mut o, (Family::Ip4, 0, net(NETS[n])), Source::Static);
                }
                Step::Label(l, p) => rib.set_label(&mut o, l, true, vec![paths()[p].clone()]).unwrap(),
                Step::Unlabel(l) => _ = rib.clear_label(&mut o, l, true),
                Step::Toggle(i) => {
                    if !o.down.remove(&i) {
                        o.down.insert(i);
                    }
                    rib.interface_changed(&mut o, i);
                }
                Step::Batch(b, refused) => batch(&mut rib, &mut o, &mut model, b, refused),
            }
            check(&rib, &o, &model);
        }
        for n in NETS {
            rib.clear(&mut o, (Family::Ip4, 0, net(n)), Source::Static);
        }
        for l in 16..18 {
            rib.clear_label(&mut o, l, true);
        }
        rib.clear(&mut o, (Family::Ip4, 0, net("10.0.0.0/24")), Source::Interface);
        prop_assert_eq!((rib.lists().count(), o.count(), rib.hops.len()), (0, 0, 0));
        prop_assert!(rib.remove_table(&mut o, Family::Ip4, 0).is_ok());
    }
}

#[test]
fn a_change_on_the_way_to_a_next_hop_touches_no_route() {
    let (mut rib, mut o) = world();
    add(
        &mut rib,
        &mut o,
        "20.0.0.0/8",
        vec![hop("10.0.0.2", Some(1))],
    );
    let bgp = ListKey::new(Payload::Ip4, 0, vec![hop("20.0.0.1", None)]).unwrap();
    let list = rib.hold(&mut o, Arc::new(bgp)).unwrap();
    let nets: Vec<_> = (0..5000u32)
        .map(|i| IpNet::new((0x6400_0000 | i << 8).to_be_bytes().into(), 24))
        .collect();
    let changes: Vec<_> = nets.iter().map(|n| (*n, Some(list))).collect();
    rib.change(&mut o, (Family::Ip4, 0), Source::Static, &changes)
        .unwrap();
    rib.let_go(&mut o, list);
    let before = o.routes[&(Family::Ip4, 0, nets[7])];
    // Refused if a route had to be told.
    o.no_room = true;
    add(
        &mut rib,
        &mut o,
        "20.0.0.0/8",
        vec![hop("10.0.0.9", Some(1))],
    );
    assert_eq!(o.routes[&(Family::Ip4, 0, nets[4999])], before);
    assert_eq!(o.legs(before)[0].target, neighbor(1, "10.0.0.9"));
    let gone = (Family::Ip4, 0, net("20.0.0.0/8"));
    assert!(rib.clear(&mut o, gone, Source::Static));
    assert_eq!(o.legs(before)[0].target, Target::Other(Via::Unreachable));
}
