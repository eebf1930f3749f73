//! The way from one configuration to another: a pure function of their statements.
//!
//! What is only in the old one is taken back, the last first; what is only in the new one is made, in its order, which is
//! that of the dependencies; what both have with another value changes in place where it can. What hangs on something
//! that goes or is made anew goes before it and comes back after it; nothing else is touched.

use std::collections::{BTreeMap, BTreeSet};

use crate::statement::{Change, Statement};

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it is about.
    pub key: String,
    /// "create", "change" or "delete".
    pub action: &'static str,
    /// The command.
    pub line: String,
}

/// Statements by key; of several of a key the last one counts, in the place of the first.
pub struct Model {
    order: Vec<String>,
    by_key: BTreeMap<String, Statement>,
    places: BTreeMap<String, usize>,
}

impl Model {
    /// Those of lines, in their order.
    pub fn new(all: impl IntoIterator<Item = Statement>) -> Model {
        let (mut order, mut by_key) = (Vec::new(), BTreeMap::new());
        for s in all {
            // What holds anyhow is not there.
            if s.set == s.unset {
                by_key.remove(&s.key);
                continue;
            }
            order.push(s.key.clone());
            by_key.insert(s.key.clone(), s);
        }
        let mut seen = BTreeSet::new();
        order.retain(|k| by_key.contains_key(k) && seen.insert(k.clone()));
        let places = order.iter().enumerate().map(|(n, k)| (k.clone(), n));
        Model {
            places: places.collect(),
            order,
            by_key,
        }
    }

    /// The statements, in order.
    pub fn statements(&self) -> impl DoubleEndedIterator<Item = &Statement> {
        self.order.iter().filter_map(|k| self.by_key.get(k))
    }

    /// How many come before the one of this key.
    fn place(&self, key: &str) -> Option<usize> {
        self.places.get(key).copied()
    }

    /// One by its key.
    pub fn get(&self, key: &str) -> Option<&Statement> {
        self.by_key.get(key)
    }
}

/// What becomes of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Nothing.
    Stays,
    /// It gets another value, and what hangs on it does not notice.
    Changes,
    /// It goes, comes, or both.
    Moves,
}

struct Differ<'m> {
    old: &'m Model,
    new: &'m Model,
    fates: BTreeMap<&'m str, Fate>,
}

impl<'m> Differ<'m> {
    fn fate(&mut self, key: &'m str) -> Fate {
        if let Some(fate) = self.fates.get(key) {
            return *fate;
        }
        // A cycle of parents, which no line makes, ends here.
        self.fates.insert(key, Fate::Stays);
        let (old, new) = (self.old.get(key), self.new.get(key));
        let fate = match (old, new) {
            (Some(old), Some(new)) => self.fate_of_both(old, new),
            (None, None) => Fate::Stays,
            _ => Fate::Moves,
        };
        self.fates.insert(key, fate);
        fate
    }

    fn fate_of_both(&mut self, old: &'m Statement, new: &'m Statement) -> Fate {
        let hangs = self.any_moves(&old.parents) || self.any_moves(&new.parents);
        let differ = old.value != new.value;
        let in_place = [old, new].iter().all(|s| s.change == Change::InPlace);
        match (hangs, differ) {
            (false, false) => Fate::Stays,
            (false, true) if in_place => Fate::Changes,
            // It can leave what goes before that goes, without a gap, where what it comes to is there already.
            (true, true) if in_place && !self.owner_moves(old) && self.all_stay(&new.parents) => {
                Fate::Changes
            }
            _ => Fate::Moves,
        }
    }

    fn owner_moves(&mut self, s: &'m Statement) -> bool {
        s.owner
            .as_deref()
            .is_some_and(|o| self.fate(o) == Fate::Moves)
    }

    fn any_moves(&mut self, keys: &'m [String]) -> bool {
        keys.iter().any(|k| self.fate(k) == Fate::Moves)
    }

    fn all_stay(&mut self, keys: &'m [String]) -> bool {
        keys.iter().all(|k| self.fate(k) == Fate::Stays)
    }

    /// Whether it cannot be taken back by itself, and its owner has to be made anew.
    fn is_stuck(&mut self, old: &'m Statement) -> bool {
        let gone = self.new.get(&old.key).is_none();
        gone && old.unset.is_empty()
    }
}

/// Steps from `old` to `new`.
pub fn diff(old: &Model, new: &Model) -> Vec<Step> {
    let mut d = Differ {
        old,
        new,
        fates: BTreeMap::new(),
    };
    for s in old.statements() {
        if d.is_stuck(s)
            && let Some(owner) = &s.owner
        {
            d.fates.insert(owner, Fate::Moves);
        }
    }
    let mut steps = early(&mut d);
    steps.extend(deletions(&mut d));
    steps.extend(creations(&mut d));
    steps
}

/// Changes that must be made before something that the old value hangs on goes.
fn early<'m>(d: &mut Differ<'m>) -> Vec<Step> {
    let mut steps = Vec::new();
    for new in d.new.statements() {
        if let Some(old) = d.old.get(&new.key)
            && d.fate(&new.key) == Fate::Changes
            && d.any_moves(&old.parents)
        {
            steps.push(change(new));
        }
    }
    steps
}

fn deletions<'m>(d: &mut Differ<'m>) -> Vec<Step> {
    let mut steps = Vec::new();
    for old in d.old.statements().rev() {
        if d.fate(&old.key) != Fate::Moves || old.unset.is_empty() {
            continue;
        }
        if !goes_with_owner(d, old) {
            steps.push(Step {
                key: old.key.clone(),
                action: "delete",
                line: old.unset.clone(),
            });
        }
    }
    steps
}

/// Whether it need not be taken back because its owner goes. Of what goes before its owner nothing may be left there.
fn goes_with_owner<'m>(d: &mut Differ<'m>, s: &'m Statement) -> bool {
    let (old, Some(owner)) = (d.old, &s.owner) else {
        return false;
    };
    let Some(last) = old.place(owner).filter(|_| d.owner_moves(s)) else {
        return false;
    };
    let mut others = s.parents.iter().filter(|p| *p != owner);
    !others.any(|p| {
        let goes_first = old.place(p).is_some_and(|at| at > last) && d.fate(p) == Fate::Moves;
        goes_first && !old.get(p).is_some_and(|p| goes_with_owner(d, p))
    })
}

fn creations<'m>(d: &mut Differ<'m>) -> Vec<Step> {
    let mut steps = Vec::new();
    for new in d.new.statements() {
        let step = match d.fate(&new.key) {
            Fate::Stays => continue,
            Fate::Changes => {
                let old = d.old.get(&new.key);
                if old.is_some_and(|o| d.any_moves(&o.parents)) {
                    continue;
                }
                change(new)
            }
            Fate::Moves => {
                // The line that makes its owner says it too.
                if new.inline
                    && new
                        .owner
                        .as_ref()
                        .is_some_and(|o| d.new.get(o).is_some() && d.fate(o) == Fate::Moves)
                {
                    continue;
                }
                Step {
                    key: new.key.clone(),
                    action: "create",
                    line: new.set.clone(),
                }
            }
        };
        steps.push(step);
    }
    steps
}

fn change(new: &Statement) -> Step {
    let line = if new.change_line.is_empty() {
        &new.set
    } else {
        &new.change_line
    };
    Step {
        key: new.key.clone(),
        action: "change",
        line: line.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::statements;

    fn model(lines: &[&str]) -> Model {
        Model::new(lines.iter().flat_map(|l| statements(l)))
    }
    fn steps(old: &[&str], new: &[&str]) -> Vec<String> {
        diff(&model(old), &model(new))
            .into_iter()
            .map(|s| s.line)
            .collect()
    }

    const A: &str = "create tap id 0";
    const B: &str = "create tap id 1";
    const STRANGER: &str = "create tap id 0 host-if-name x";

    #[test]
    fn what_is_the_same_is_not_touched() {
        let all = [
            A,
            "set interface mtu 1500 tap0",
            "set interface state tap0 up",
        ];
        assert!(steps(&all, &all).is_empty());
        assert_eq!(
            steps(
                &all,
                &[
                    A,
                    "set interface mtu 1400 tap0",
                    "set interface state tap0 up"
                ]
            ),
            ["set interface mtu 1400 tap0"]
        );
        assert_eq!(
            steps(&all, &[A]),
            [
                "set interface state tap0 down",
                "set interface mtu default tap0"
            ]
        );
    }

    #[test]
    fn settings_go_with_their_interface_and_come_back_with_it() {
        let mtu = "set interface mtu 1500 tap0";
        assert_eq!(steps(&[A, mtu], &[]), ["delete tap tap0"]);
        assert_eq!(
            steps(&[A, mtu], &[STRANGER, mtu]),
            ["delete tap tap0", STRANGER, mtu]
        );
    }

    #[test]
    fn what_leads_through_an_interface_goes_before_it() {
        let route = "ip route add 10.9.0.0/16 via 10.0.0.2 tap0";
        assert_eq!(
            steps(&[A, route], &[]),
            ["ip route del 10.9.0.0/16", "delete tap tap0"]
        );
        let other = "ip route add 10.9.0.0/16 via 10.0.1.2 tap1";
        // The other way is there already: packets have no gap.
        assert_eq!(
            steps(&[A, B, route], &[B, other]),
            [
                "ip route replace 10.9.0.0/16 via 10.0.1.2 tap1",
                "delete tap tap0"
            ]
        );
        // It has to be made first.
        assert_eq!(
            steps(&[A, route], &[B, other]),
            ["ip route del 10.9.0.0/16", "delete tap tap0", B, other]
        );
    }

    #[test]
    fn packets_alone_get_a_size_after_frames_have_theirs_back() {
        let (both, packets) = (
            "set interface mtu 1500 tap0",
            "set interface mtu packet 2000 tap0",
        );
        let none = "set interface mtu default tap0";
        assert_eq!(steps(&[A, both], &[A, packets]), [none, packets]);
        assert_eq!(steps(&[A, packets], &[A, both]), [none, both]);
        let more = "set interface mtu packet 2100 tap0";
        assert_eq!(steps(&[A, packets], &[A, more]), [more]);
    }

    #[test]
    fn an_address_moves_to_another_table_by_way_of_none() {
        let address = "set interface ip address tap0 10.0.0.1/24";
        let (t1, t2) = ("ip table add 1", "ip table add 2");
        let bind = |n: u8| format!("set interface ip table tap0 {n}");
        assert_eq!(
            steps(&[t1, A, &bind(1), address], &[t2, A, &bind(2), address]),
            [
                "set interface ip address del tap0 10.0.0.1/24",
                "set interface ip table tap0 0",
                "ip table del 1",
                t2,
                &bind(2),
                address
            ]
        );
    }

    #[test]
    fn a_mac_changes_by_itself_and_goes_only_with_its_interface() {
        let mac = |n: u8| format!("create tap id 0 hw-addr 02:00:00:00:00:0{n}");
        assert_eq!(
            steps(&[&mac(1)], &[&mac(2)]),
            ["set interface mac address tap0 02:00:00:00:00:02"]
        );
        assert_eq!(steps(&[&mac(1)], &[A]), ["delete tap tap0", A]);
        assert_eq!(steps(&[], &[&mac(1)]), [mac(1)]);
    }

    #[test]
    fn what_leaves_a_bond_is_up_again_whatever_becomes_of_the_bond() {
        let bond = "create bond id 0 mode xor load-balance l34";
        let up = |name| format!("set interface state {name} up");
        let (bond_up, member_up) = (up("BondEthernet0"), up("tap0"));
        let old = [A, bond, "bond add BondEthernet0 tap0", &member_up, &bond_up];
        assert_eq!(
            steps(&old, &[A, bond, &member_up]),
            [
                "set interface state BondEthernet0 down",
                "set interface state tap0 down",
                "bond del tap0",
                &member_up
            ]
        );
    }

    #[test]
    fn a_port_moves_to_another_bridge_domain_by_itself() {
        let (one, two) = ("create bridge-domain 1", "create bridge-domain 2");
        let port = |n: u8| format!("set interface l2 bridge tap0 {n}");
        assert_eq!(
            steps(&[A, one, two, &port(1)], &[A, two, &port(2)]),
            [port(2).as_str(), "create bridge-domain 1 del"]
        );
        // A setting changes without the domain being made anew.
        assert_eq!(
            steps(
                &[A, one, &port(1)],
                &[A, "create bridge-domain 1 learn 0", &port(1)]
            ),
            ["set bridge-domain learn 1 disable"]
        );
        // What makes way for the domain to go.
        assert_eq!(
            steps(&[A, one, &port(1)], &[]),
            [
                "set interface l3 tap0",
                "create bridge-domain 1 del",
                "delete tap tap0"
            ]
        );
    }

    #[test]
    fn a_station_moves_to_a_port_that_is_one_only_then() {
        let (c, domain) = ("create tap id 2", "create bridge-domain 1");
        let (port0, port1) = (
            "set interface l2 bridge tap0 1",
            "set interface l2 bridge tap1 1",
        );
        let cross = "set interface l2 xconnect tap1 tap2";
        let station = |n: u8| format!("l2fib add 02:00:00:00:00:09 1 tap{n} static");
        assert_eq!(
            steps(
                &[A, B, c, domain, port0, cross, &station(0)],
                &[A, B, c, domain, port1, &station(1)]
            ),
            [
                "l2fib del 02:00:00:00:00:09 1",
                "set interface l3 tap0",
                port1,
                &station(1)
            ]
        );
    }

    #[test]
    fn the_order_of_paths_does_not_matter() {
        let a = "ip route add 10.9.0.0/16 via 10.0.0.2 tap0 weight 1 via 10.0.0.3 weight 2";
        let b = "ip route add 10.9.0.0/16 via 10.0.0.3 weight 2 via 10.0.0.2 tap0";
        assert!(steps(&[A, a], &[A, b]).is_empty());
    }

    #[test]
    fn what_holds_anyhow_is_no_change() {
        assert!(steps(&[], &["sflow header-bytes 128"]).is_empty());
        assert_eq!(
            steps(&["sflow header-bytes 192"], &[]),
            ["sflow header-bytes 128"]
        );
    }
}
