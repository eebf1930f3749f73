//! Tests of the neighbour state machine: each behaviour of RFC 826 and RFC 4861 by itself, then random
//! histories against the invariants.

use super::*;
use proptest::prelude::*;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn key(n: u8) -> NeighborKey {
    NeighborKey {
        if_index: 1,
        ip: IpAddr::from([10, 0, 0, n]),
    }
}

fn table() -> NeighborTable {
    NeighborTable::new(NeighborConfig::default(), 7)
}

fn poll(t: &mut NeighborTable, now: u64) -> Vec<Action> {
    let mut out = Vec::new();
    t.poll(now, &mut out);
    out
}

fn wanted(t: &mut NeighborTable, k: NeighborKey, now: u64) -> Vec<Action> {
    let mut out = Vec::new();
    t.wanted(k, now, &mut out);
    out
}

fn seen(t: &mut NeighborTable, mac: [u8; 6], confirms: bool, now: u64) -> Vec<Action> {
    let mut out = Vec::new();
    t.seen(key(1), mac, confirms, true, now, &mut out);
    out
}

#[test]
fn three_tries_a_second_apart_then_failure() {
    let mut t = table();
    let ask = Action::Solicit {
        key: key(1),
        to: None,
    };
    assert_eq!(wanted(&mut t, key(1), 0), [ask]);
    assert_eq!(wanted(&mut t, key(1), 1), [], "asked already");
    assert_eq!(poll(&mut t, SECOND - 1), []);
    assert_eq!(poll(&mut t, SECOND), [ask]);
    assert_eq!(poll(&mut t, 2 * SECOND), [ask]);
    assert_eq!(poll(&mut t, 3 * SECOND), [Action::Failed { key: key(1) }]);
    assert_eq!(
        wanted(&mut t, key(1), 3 * SECOND + 1),
        [Action::Failed { key: key(1) }],
        "not asked again at once"
    );
    assert_eq!(wanted(&mut t, key(1), 4 * SECOND), [ask]);
}

#[test]
fn an_answer_publishes_and_lets_packets_go() {
    let mut t = table();
    wanted(&mut t, key(1), 0);
    assert_eq!(
        seen(&mut t, MAC, true, 5),
        [
            Action::Publish {
                key: key(1),
                mac: MAC
            },
            Action::Resolved { key: key(1) }
        ]
    );
    assert_eq!(
        t.get(&key(1)).map(|e| e.state),
        Some(NeighborState::Reachable)
    );
    assert_eq!(
        wanted(&mut t, key(1), 6),
        [Action::Resolved { key: key(1) }]
    );
}

#[test]
fn a_confirmed_entry_grows_stale_and_is_probed_by_unicast() {
    let mut t = table();
    seen(&mut t, MAC, true, 0);
    poll(&mut t, 46 * SECOND);
    assert_eq!(t.get(&key(1)).map(|e| e.state), Some(NeighborState::Stale));
    let probe = Action::Solicit {
        key: key(1),
        to: Some(MAC),
    };
    assert_eq!(poll(&mut t, 63 * SECOND), [probe]);
    assert_eq!(seen(&mut t, MAC, true, 63 * SECOND + 5), []);
    assert_eq!(
        t.get(&key(1)).map(|e| e.state),
        Some(NeighborState::Reachable)
    );
}

#[test]
fn a_probe_without_answer_withdraws() {
    let mut t = table();
    seen(&mut t, MAC, true, 0);
    let mut all = Vec::new();
    for s in 0..80 {
        t.poll(s * SECOND, &mut all);
    }
    let probes = all
        .iter()
        .filter(|a| matches!(a, Action::Solicit { to: Some(_), .. }))
        .count();
    assert_eq!(probes, 3);
    assert_eq!(all.last(), Some(&Action::Withdraw { key: key(1) }));
    assert!(t.is_empty() && t.next_deadline().is_none());
}

#[test]
fn requests_of_others_teach_but_do_not_confirm() {
    let mut t = table();
    assert_eq!(seen(&mut t, MAC, false, 0).len(), 2);
    assert_eq!(t.get(&key(1)).map(|e| e.state), Some(NeighborState::Stale));
    assert_eq!(seen(&mut t, MAC, false, 1), [], "nothing new");
    assert_eq!(
        seen(&mut t, OTHER, false, 2),
        [Action::Publish {
            key: key(1),
            mac: OTHER
        }]
    );
    let mut out = Vec::new();
    t.seen(key(9), MAC, true, false, 3, &mut out);
    assert_eq!(out, [], "not for us, not known: not learned");
}

#[test]
fn group_addresses_are_nobodys() {
    let mut t = table();
    assert_eq!(seen(&mut t, [0xff; 6], true, 0), []);
    assert_eq!(seen(&mut t, [0; 6], true, 0), []);
    assert!(t.is_empty());
}

#[test]
fn static_entries_stay_and_are_not_overwritten() {
    let mut t = table();
    let mut out = Vec::new();
    assert!(t.set_static(key(1), MAC, 0, &mut out));
    assert_eq!(out.len(), 2);
    assert_eq!(seen(&mut t, OTHER, true, 1), []);
    assert_eq!(poll(&mut t, 1000 * SECOND), []);
    assert_eq!(t.get(&key(1)).and_then(|e| e.mac), Some(MAC));
    out.clear();
    assert!(t.remove(&key(1), &mut out));
    assert_eq!(out, [Action::Withdraw { key: key(1) }]);
}

#[test]
fn a_full_interface_gives_up_its_oldest_question() {
    let config = NeighborConfig {
        limit: 2,
        ..NeighborConfig::default()
    };
    let mut t = NeighborTable::new(config, 1);
    wanted(&mut t, key(1), 0);
    wanted(&mut t, key(2), 1);
    let out = wanted(&mut t, key(3), 2);
    assert_eq!(out[0], Action::Failed { key: key(1) });
    assert_eq!(t.len(), 2);
    for n in [2, 3] {
        let mut out = Vec::new();
        t.seen(key(n), MAC, true, true, 3, &mut out);
    }
    assert_eq!(
        wanted(&mut t, key(4), 4),
        [Action::Failed { key: key(4) }],
        "known ones are not thrown out"
    );
}

#[test]
fn solicitations_are_rate_limited_per_interface() {
    let config = NeighborConfig {
        rate: 2,
        ..NeighborConfig::default()
    };
    let mut t = NeighborTable::new(config, 1);
    let mut out = Vec::new();
    for n in 0..10 {
        t.wanted(key(n), 0, &mut out);
    }
    assert_eq!(out.len(), 2);
    for tenth in 1..=30 {
        t.poll(tenth * SECOND / 10, &mut out);
    }
    let asked = out
        .iter()
        .filter(|a| matches!(a, Action::Solicit { .. }))
        .count();
    assert_eq!(asked, 8, "2 at once and 2 a second for 3 seconds");
}

#[derive(Clone, Debug)]
enum Step {
    Wanted(u8),
    Seen(u8, bool, bool),
    Static(u8),
    Remove(u8),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u8..6).prop_map(Step::Wanted),
        (0u8..6, any::<bool>(), any::<bool>()).prop_map(|(k, a, b)| Step::Seen(k, a, b)),
        (0u8..6).prop_map(Step::Static),
        (0u8..6).prop_map(Step::Remove),
        (1u64..40).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn published_is_exactly_what_is_known(steps in proptest::collection::vec(step(), 1..120)) {
        let config = NeighborConfig { limit: 4, ..NeighborConfig::default() };
        let mut t = NeighborTable::new(config, 3);
        let mut now = 0;
        let mut published: HashMap<NeighborKey, [u8; 6]> = HashMap::new();
        for s in steps {
            let mut out = Vec::new();
            match s {
                Step::Wanted(k) => t.wanted(key(k), now, &mut out),
                Step::Seen(k, a, b) => t.seen(key(k), MAC, a, b, now, &mut out),
                Step::Static(k) => _ = t.set_static(key(k), OTHER, now, &mut out),
                Step::Remove(k) => _ = t.remove(&key(k), &mut out),
                Step::Wait(s) => {
                    now += s * SECOND;
                    t.poll(now, &mut out);
                }
            }
            for a in out {
                match a {
                    Action::Publish { key, mac } => _ = published.insert(key, mac),
                    Action::Withdraw { key } => prop_assert!(published.remove(&key).is_some()),
                    _ => {}
                }
            }
            let known: HashMap<_, _> = t.iter().filter_map(|(k, e)| Some((*k, e.mac?))).collect();
            prop_assert_eq!(&known, &published);
            prop_assert!(t.len() <= 4);
            prop_assert!(t.timers.len() <= t.len());
        }
        let mut out = Vec::new();
        t.remove_where(|_, _| true, &mut out);
        prop_assert!(t.is_empty() && t.timers.is_empty() && t.counts.is_empty());
    }
}
