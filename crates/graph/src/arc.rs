//! Feature arcs: ordered chains of optional nodes that an interface switches on and off.
//!
//! An arc is entered by a node that starts it and left at its end. Which of its features a packet
//! visits is a bit mask per interface, so "next feature" is one shift and one count of zeros. Order
//! comes from the features' own before/after constraints; a cycle is refused when the graph is built.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::structure::GraphError;

/// A feature's place in an arc.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// The arc.
    pub arc: &'static str,
    /// Features it must come before.
    pub before: &'static [&'static str],
    /// Features it must come after.
    pub after: &'static [&'static str],
}

/// Which interface of a packet an arc goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The one it came in on.
    Rx,
    /// The one it goes out on.
    Tx,
}

/// Where an arc ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArcEnd {
    /// At a node.
    Node(&'static str),
    /// At the transmit queue of the packet's sending interface.
    Transmit,
}

/// An arc described as data.
#[derive(Clone, Copy, Debug)]
pub struct ArcSpec {
    /// Name.
    pub name: &'static str,
    /// Which interface counts.
    pub side: Side,
    /// Where it ends.
    pub end: ArcEnd,
}

/// One arc as built: order and end, as node numbers.
pub(crate) struct BuiltArc {
    pub spec: ArcSpec,
    /// Features in order, as node numbers.
    pub features: Vec<u16>,
    /// Node number of the end, unused for [`ArcEnd::Transmit`].
    pub end: u16,
}

/// The switches: per arc and interface a mask of enabled features. Written by the control thread,
/// read by workers; a bit is whole by itself, so relaxed order is enough.
pub struct Arcs {
    names: Vec<&'static str>,
    masks: Vec<Box<[AtomicU64]>>,
    summaries: Vec<Summary>,
    /// Changes of switches so far, and one: what a worker has worked out holds as long as this stays.
    generation: AtomicU64,
}

/// What holds for an arc as a whole: so that most frames need not look at an interface's mask.
#[derive(Default)]
#[repr(align(16))]
struct Summary {
    /// Features enabled for every interface.
    everywhere: AtomicU64,
    /// Interfaces with a feature of their own enabled.
    active: AtomicU32,
}

impl Arcs {
    pub(crate) fn new(names: Vec<&'static str>, interfaces: usize) -> Arcs {
        let masks = names
            .iter()
            .map(|_| (0..interfaces).map(|_| AtomicU64::new(0)).collect())
            .collect();
        let summaries = names.iter().map(|_| Summary::default()).collect();
        Arcs {
            names,
            masks,
            summaries,
            generation: AtomicU64::new(1),
        }
    }

    /// Grows with every change. Read before the switches, it is never newer than they are.
    #[inline(always)]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Number of the arc with this name.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|n| *n == name)
    }

    /// Whether any feature is enabled for any interface: if not, a whole frame skips the arc.
    #[inline(always)]
    pub(crate) fn is_active(&self, arc: usize) -> bool {
        let s = &self.summaries[arc];
        s.active.load(Ordering::Relaxed) != 0 || s.everywhere.load(Ordering::Relaxed) != 0
    }

    /// Whether no interface has features that others have not: a whole frame then goes one way.
    #[inline(always)]
    pub(crate) fn is_uniform(&self, arc: usize) -> bool {
        self.summaries[arc].active.load(Ordering::Relaxed) == 0
    }

    #[inline(always)]
    pub(crate) fn mask(&self, arc: usize, interface: u32) -> u64 {
        // Packets the router made have no receiving interface: they go by local0, number 0.
        let masks = &self.masks[arc];
        let own = masks
            .get(interface as usize)
            .or(masks.first())
            .map_or(0, |m| m.load(Ordering::Relaxed));
        own | self.summaries[arc].everywhere.load(Ordering::Relaxed)
    }

    /// Switches feature number `bit` of an arc for one interface. Control thread only.
    pub(crate) fn set(&self, arc: usize, interface: u32, bit: usize, on: bool) -> bool {
        let Some(m) = self.masks[arc].get(interface as usize) else {
            return false;
        };
        let old = m.load(Ordering::Relaxed);
        let new = if on {
            old | 1 << bit
        } else {
            old & !(1 << bit)
        };
        m.store(new, Ordering::Relaxed);
        let active = &self.summaries[arc].active;
        match (old == 0, new == 0) {
            (true, false) => active.fetch_add(1, Ordering::Relaxed),
            (false, true) => active.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
        self.generation.fetch_add(1, Ordering::Release);
        true
    }

    /// Switches feature number `bit` of an arc for every interface, those included that do not exist yet, besides
    /// the switches of each. Control thread only.
    pub(crate) fn set_everywhere(&self, arc: usize, bit: usize, on: bool) {
        let mask = &self.summaries[arc].everywhere;
        if on {
            mask.fetch_or(1 << bit, Ordering::Relaxed);
        } else {
            mask.fetch_and(!(1 << bit), Ordering::Relaxed);
        }
        self.generation.fetch_add(1, Ordering::Release);
    }
}

/// Orders features (name, constraints) so that every before/after holds; names of absent features are
/// ignored, ties keep the order of the list.
pub(crate) fn order(
    arc: &str,
    features: &[(&'static str, Feature)],
) -> Result<Vec<usize>, GraphError> {
    let position = |name: &str| features.iter().position(|(n, _)| *n == name);
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); features.len()];
    for (i, (_, f)) in features.iter().enumerate() {
        after[i].extend(f.after.iter().filter_map(|n| position(n)));
        for later in f.before.iter().filter_map(|n| position(n)) {
            after[later].push(i);
        }
    }
    let mut out = Vec::new();
    while out.len() < features.len() {
        let ready = (0..features.len())
            .find(|i| !out.contains(i) && after[*i].iter().all(|a| out.contains(a)));
        match ready {
            Some(i) => out.push(i),
            None => {
                let rest = (0..features.len())
                    .filter(|i| !out.contains(i))
                    .map(|i| features[i].0);
                return Err(GraphError(format!(
                    "features of arc {arc} cannot be ordered, their constraints form a cycle: {}",
                    rest.collect::<Vec<_>>().join(", ")
                )));
            }
        }
    }
    if out.len() > 64 {
        return Err(GraphError(format!(
            "arc {arc} has {} features, at most 64 fit",
            out.len()
        )));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f(before: &'static [&'static str], after: &'static [&'static str]) -> Feature {
        Feature {
            arc: "a",
            before,
            after,
        }
    }

    #[test]
    fn constraints_order_features_and_cycles_are_refused() {
        let list = [
            ("c", f(&[], &["b", "missing"])),
            ("b", f(&[], &["a"])),
            ("a", f(&["c"], &[])),
        ];
        assert_eq!(order("a", &list).unwrap(), [2, 1, 0]);
        let cycle = [("a", f(&["b"], &[])), ("b", f(&["a"], &[]))];
        assert!(order("x", &cycle).unwrap_err().0.contains("cycle: a, b"));
    }

    #[test]
    fn an_arc_is_active_while_any_interface_uses_it() {
        let arcs = Arcs::new(vec!["a"], 4);
        assert!(arcs.set(0, 2, 5, true) && arcs.set(0, 2, 5, true) && arcs.set(0, 3, 0, true));
        assert_eq!(arcs.mask(0, 2), 1 << 5);
        arcs.set(0, 2, 5, false);
        assert!(arcs.is_active(0));
        arcs.set(0, 3, 0, false);
        assert!(!arcs.is_active(0));
        assert!(!arcs.set(0, 4, 0, true));
    }

    #[test]
    fn what_is_on_everywhere_adds_to_what_is_on_for_one() {
        let arcs = Arcs::new(vec!["a"], 4);
        arcs.set_everywhere(0, 3, true);
        assert!(arcs.is_active(0) && arcs.is_uniform(0));
        assert_eq!((arcs.mask(0, 2), arcs.mask(0, u32::MAX)), (8, 8));
        arcs.set(0, 2, 0, true);
        assert!(!arcs.is_uniform(0));
        assert_eq!((arcs.mask(0, 2), arcs.mask(0, 1)), (9, 8));
        arcs.set_everywhere(0, 3, false);
        assert_eq!((arcs.mask(0, 2), arcs.mask(0, 1)), (1, 0));
        arcs.set(0, 2, 0, false);
        assert!(!arcs.is_active(0));
    }
}
