//! What workers read: for each interface the rules that its lists make together, compiled, and where each counts.

use std::sync::Arc;

use crate::classifier::Classifier;
use crate::hits::Hits;
use crate::rule::{Action, Rule};

/// An access list as it is put on interfaces.
#[derive(Clone)]
pub struct AclList {
    /// Its rules, in order.
    pub rules: Arc<[Rule]>,
    /// What they have counted.
    pub hits: Arc<Hits>,
}

/// Where a rule of a compiled list counts, and what it does.
struct Place {
    list: u32,
    rule: u32,
    permit: bool,
}

/// Several lists in order, as one.
pub struct Compiled {
    /// Finds the rule.
    pub classifier: Classifier,
    places: Vec<Place>,
    hits: Vec<Arc<Hits>>,
}

impl Compiled {
    /// Compiles lists. `later` as for [`Classifier::new`].
    pub fn new(lists: &[AclList], later: bool) -> Compiled {
        let (mut rules, mut places) = (Vec::new(), Vec::new());
        for (list, acl) in lists.iter().enumerate() {
            for (rule, r) in acl.rules.iter().enumerate() {
                rules.push(*r);
                places.push(Place {
                    list: list as u32,
                    rule: rule as u32,
                    permit: r.action == Action::Permit,
                });
            }
        }
        Compiled {
            classifier: Classifier::new(&rules, later),
            places,
            hits: lists.iter().map(|l| l.hits.clone()).collect(),
        }
    }

    /// Which of the lists the rule at this position is of.
    pub fn list_of(&self, found: Option<u32>) -> Option<usize> {
        let place = self.places.get(found? as usize)?;
        Some(place.list as usize)
    }

    /// Whether the rule at this position lets packets pass; none does not.
    #[inline(always)]
    pub fn permits(&self, found: Option<u32>) -> bool {
        found.is_some_and(|i| self.places.get(i as usize).is_some_and(|p| p.permit))
    }
}

/// What an interface has in one direction.
#[derive(Clone)]
pub struct Entry {
    /// Its lists.
    pub lists: Arc<Compiled>,
    /// Counts what no rule matched, as rule 0.
    pub unmatched: Arc<Hits>,
}

impl Entry {
    /// Counts packets for which `found` was found. Only worker `worker` may call this.
    #[inline(always)]
    pub fn count(&self, worker: usize, found: Option<u32>, packets: u64, bytes: u64) {
        let place = found.and_then(|i| self.lists.places.get(i as usize));
        match place.and_then(|p| Some((self.lists.hits.get(p.list as usize)?, p.rule))) {
            Some((hits, rule)) => hits.add(worker, rule, packets, bytes),
            None => self.unmatched.add(worker, 0, packets, bytes),
        }
    }
}

/// The lists of all interfaces, by index.
#[derive(Clone, Default)]
pub struct AclTables {
    /// For packets that come in.
    pub input: Vec<Option<Entry>>,
    /// For packets that go out.
    pub output: Vec<Option<Entry>>,
}
