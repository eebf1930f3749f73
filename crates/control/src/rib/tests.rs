//! Tests of the routing tables over objects that only count: what is installed must always be what a
//! walk from scratch gives, and nothing may be left when all is taken away.

use super::*;
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
    fn make(&mut self, payload: Payload, legs: &[Leg], _old: &mut Made) -> Result<Made> {
        if self.full {
            return Err(Error::Full("full".into()));
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
    assert_eq!((o.routes, rib.lists.iter().flatten().count()), (before, 1));
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
    assert_eq!((rib.lists.iter().flatten().count(), o.count()), (2, 2));
}

#[derive(Clone, Debug)]
enum Step {
    Set(usize, Vec<usize>),
    Clear(usize),
    Label(u32, usize),
    Unlabel(u32),
    Toggle(u32),
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
    ]
}

fn check(rib: &Rib, o: &Fake) {
    for (key, table) in rib.tables() {
        for (net, route) in table.routes() {
            let (_, id) = route.best().expect("a route without a source");
            let list = rib.list(id).expect("a list");
            assert_eq!(list.legs, settle(&rib.expand(o, &list.key).0), "{net}");
            let seen = o.legs(o.routes[&(key.0, table.index, *net)]);
            assert_eq!(seen, list.legs, "{net}");
        }
        assert_eq!(o.routes.len(), table.count());
    }
    for (label, eos, id) in rib.labels() {
        let list = rib.list(id).expect("a list");
        assert_eq!(
            o.legs(o.labels[&(label, eos)]),
            settle(&rib.expand(o, &list.key).0)
        );
    }
    assert_eq!(o.count(), rib.lists.iter().flatten().count());
}

proptest! {
    #[test]
    fn workers_always_see_what_a_walk_from_scratch_gives(steps in proptest::collection::vec(step(), 1..60)) {
        let (mut rib, mut o) = world();
        for s in steps {
            match s {
                Step::Set(n, p) => {
                    let mut p: Vec<Path> = p.into_iter().map(|i| paths()[i].clone()).collect();
                    p.dedup();
                    add(&mut rib, &mut o, NETS[n], p);
                }
                Step::Clear(n) => _ = rib.clear(&mut o, (Family::Ip4, 0, net(NETS[n])), Source::Static),
                Step::Label(l, p) => rib.set_label(&mut o, l, true, vec![paths()[p].clone()]).unwrap(),
                Step::Unlabel(l) => _ = rib.clear_label(&mut o, l, true),
                Step::Toggle(i) => {
                    if !o.down.remove(&i) {
                        o.down.insert(i);
                    }
                    rib.interface_changed(&mut o, i);
                }
            }
            check(&rib, &o);
        }
        for n in NETS {
            rib.clear(&mut o, (Family::Ip4, 0, net(n)), Source::Static);
        }
        for l in 16..18 {
            rib.clear_label(&mut o, l, true);
        }
        rib.clear(&mut o, (Family::Ip4, 0, net("10.0.0.0/24")), Source::Interface);
        prop_assert_eq!((rib.lists.iter().flatten().count(), o.count(), rib.recursive.len()), (0, 0, 0));
        prop_assert!(rib.remove_table(&mut o, Family::Ip4, 0).is_ok());
    }
}
