//! The shape of the graph: names, numbers, edges and arcs. Built once, shared by all workers.

use std::collections::HashMap;
use std::fmt;

use crate::arc::{ArcEnd, ArcSpec, Arcs, BuiltArc, order};
use crate::node::{NodeId, NodeSpec};

/// Why a graph cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphError(pub String);

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for GraphError {}

/// Sizes fixed when the process starts.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Interfaces that can exist, local0 included.
    pub interfaces: usize,
}

/// Most slots (nodes and interfaces) the dispatcher's ready map can address.
pub(crate) const MAX_SLOTS: usize = 64 * 64;

/// Where [`crate::CONTINUE`] leads from a node.
#[derive(Clone, Copy)]
pub(crate) struct ArcPlace {
    pub arc: usize,
    /// Features before this number are behind the packet.
    pub from: u32,
}

/// The built graph. Node numbers follow the list that it is built from. The dispatcher always takes the
/// lowest number where a frame waits, so a list along a packet's way lets vectors join before they are
/// worked on; errors and answers loop back, which is why the way cannot be computed.
pub struct Graph {
    specs: Vec<NodeSpec>,
    /// By node: verdict -> node number.
    pub(crate) edges: Vec<Box<[NodeId]>>,
    pub(crate) place: Vec<Option<ArcPlace>>,
    /// By node: whether frames are shown to it in passing.
    pub(crate) in_passing: Box<[bool]>,
    /// By node: whether packets that it drops are not its own drops.
    pub(crate) on_behalf: Box<[bool]>,
    pub(crate) arcs: Vec<BuiltArc>,
    /// Feature switches.
    pub switches: Arcs,
    /// Arc entered by dropped packets.
    pub(crate) drop_arc: usize,
    /// The node that ends it.
    pub(crate) drop_node: NodeId,
    limits: Limits,
}

impl Graph {
    /// Builds the graph of `specs`, listed along a packet's way, and `arcs`. The arc `error-drop`, which ends at the node `drop`, and
    /// that node are added by the graph itself.
    ///
    /// # Errors
    /// Unknown or doubled names, features that cannot be ordered, too many slots.
    pub fn build(
        specs: &[NodeSpec],
        arcs: &[ArcSpec],
        limits: Limits,
    ) -> Result<Graph, GraphError> {
        let mut specs = specs.to_vec();
        specs.push(NodeSpec::new("drop", &[]).format(format_drop));
        let mut arcs = arcs.to_vec();
        arcs.push(ArcSpec {
            name: "error-drop",
            side: crate::Side::Rx,
            end: ArcEnd::Node("drop"),
        });
        if specs.len() + limits.interfaces > MAX_SLOTS {
            return Err(GraphError(format!(
                "{} nodes and {} interfaces exceed the limit of {MAX_SLOTS} together",
                specs.len(),
                limits.interfaces
            )));
        }
        let number = numbers(&specs)?;
        let find = |what: &str, name: &str| {
            number.get(name).copied().ok_or_else(|| {
                GraphError(format!(
                    "{what} names the node {name}, which does not exist"
                ))
            })
        };
        let edges = specs
            .iter()
            .map(|s| {
                s.next
                    .iter()
                    .map(|n| find(s.name, n))
                    .collect::<Result<Box<[_]>, _>>()
            })
            .collect::<Result<Vec<_>, _>>()?;
        let built = build_arcs(&specs, &arcs, &number)?;
        let place = places(&specs, &built)?;
        let switches = Arcs::new(arcs.iter().map(|a| a.name).collect(), limits.interfaces);
        let drop_arc = built.len() - 1;
        let drop_node = find("error-drop", "drop")?;
        Ok(Graph {
            in_passing: specs.iter().map(|s| s.in_passing).collect(),
            on_behalf: specs.iter().map(|s| s.on_behalf).collect(),
            specs,
            edges,
            place,
            arcs: built,
            switches,
            drop_arc,
            drop_node,
            limits,
        })
    }

    /// Number of the node with this name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.specs
            .iter()
            .position(|s| s.name == name)
            .map(|i| i as NodeId)
    }
    /// Description of a node.
    pub fn spec(&self, node: NodeId) -> Option<&NodeSpec> {
        self.specs.get(usize::from(node))
    }
    /// All nodes, in the order of their numbers.
    pub fn specs(&self) -> &[NodeSpec] {
        &self.specs
    }
    /// Sizes.
    pub fn limits(&self) -> Limits {
        self.limits
    }
    /// Nodes and transmit slots together: how many node counters a worker needs.
    pub fn slots(&self) -> usize {
        self.specs.len() + self.limits.interfaces
    }
    /// Slot of an interface's transmit queue; its counters are a node's.
    pub fn tx_slot(&self, if_index: u32) -> NodeId {
        (self.specs.len() + if_index as usize) as NodeId
    }
    /// Interface of a transmit slot.
    pub fn tx_interface(&self, slot: NodeId) -> Option<u32> {
        usize::from(slot)
            .checked_sub(self.specs.len())
            .map(|i| i as u32)
    }

    /// Switches a feature on or off for one interface.
    ///
    /// # Errors
    /// When the node is not a feature or the interface is out of range.
    pub fn set_feature(&self, node: &str, if_index: u32, on: bool) -> Result<(), GraphError> {
        match self.feature_place(node) {
            Some((arc, bit)) if self.switches.set(arc, if_index, bit, on) => Ok(()),
            Some(_) => Err(GraphError(format!(
                "interface {if_index} is beyond the limit of {}",
                self.limits.interfaces
            ))),
            None => Err(GraphError(format!("{node} is not a feature of any arc"))),
        }
    }

    /// Switches a feature on or off for every interface, those included that do not exist yet. It stays on for those
    /// where [`set_feature`](Self::set_feature) switched it on.
    ///
    /// # Errors
    /// When the node is not a feature.
    pub fn set_feature_everywhere(&self, node: &str, on: bool) -> Result<(), GraphError> {
        match self.feature_place(node) {
            Some((arc, bit)) => {
                self.switches.set_everywhere(arc, bit, on);
                Ok(())
            }
            None => Err(GraphError(format!("{node} is not a feature of any arc"))),
        }
    }

    /// Arc of a feature and its number there.
    fn feature_place(&self, node: &str) -> Option<(usize, usize)> {
        let id = self.node(node)?;
        self.arcs.iter().enumerate().find_map(|(a, arc)| {
            let bit = arc.features.iter().position(|f| *f == id)?;
            Some((a, bit))
        })
    }

    /// Arcs with their features in order, for `show features`.
    pub fn arc_order(&self) -> Vec<(&'static str, Vec<&'static str>)> {
        let name = |n: &u16| self.specs[usize::from(*n)].name;
        self.arcs
            .iter()
            .map(|a| (a.spec.name, a.features.iter().map(name).collect()))
            .collect()
    }
}

fn format_drop(r: &crate::TraceRecord) -> String {
    let reason = parshall_counters::DropReason::from_code(r.meta.reason);
    reason.map_or_else(
        || format!("reason {}", r.meta.reason),
        |r| r.text().to_string(),
    )
}

fn numbers(specs: &[NodeSpec]) -> Result<HashMap<&'static str, NodeId>, GraphError> {
    let mut number = HashMap::new();
    for (i, s) in specs.iter().enumerate() {
        if number.insert(s.name, i as NodeId).is_some() {
            return Err(GraphError(format!("two nodes are called {}", s.name)));
        }
    }
    Ok(number)
}

fn build_arcs(
    specs: &[NodeSpec],
    arcs: &[ArcSpec],
    number: &HashMap<&'static str, NodeId>,
) -> Result<Vec<BuiltArc>, GraphError> {
    arcs.iter()
        .map(|arc| {
            let features: Vec<_> = specs
                .iter()
                .filter_map(|s| s.feature.filter(|f| f.arc == arc.name).map(|f| (s.name, f)))
                .collect();
            let order = order(arc.name, &features)?;
            let end = match arc.end {
                ArcEnd::Transmit => 0,
                ArcEnd::Node(n) => *number.get(n).ok_or_else(|| {
                    GraphError(format!(
                        "arc {} ends at {n}, which does not exist",
                        arc.name
                    ))
                })?,
            };
            Ok(BuiltArc {
                spec: *arc,
                features: order.iter().map(|&i| number[features[i].0]).collect(),
                end,
            })
        })
        .collect()
}

fn places(specs: &[NodeSpec], arcs: &[BuiltArc]) -> Result<Vec<Option<ArcPlace>>, GraphError> {
    let arc_named = |node: &str, name: &str| {
        arcs.iter()
            .position(|a| a.spec.name == name)
            .ok_or_else(|| GraphError(format!("{node} names the arc {name}, which does not exist")))
    };
    specs
        .iter()
        .enumerate()
        .map(|(i, s)| match (s.feature, s.starts) {
            (Some(f), _) => {
                let arc = arc_named(s.name, f.arc)?;
                let at = arcs[arc]
                    .features
                    .iter()
                    .position(|n| usize::from(*n) == i)
                    .unwrap_or(0);
                Ok(Some(ArcPlace {
                    arc,
                    from: at as u32 + 1,
                }))
            }
            (None, Some(name)) => Ok(Some(ArcPlace {
                arc: arc_named(s.name, name)?,
                from: 0,
            })),
            (None, None) => Ok(None),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Feature, Side};

    const LIMITS: Limits = Limits { interfaces: 8 };

    #[test]
    fn nodes_keep_their_order_and_features_find_theirs() {
        let f = |after| Feature {
            arc: "device-input",
            before: &[],
            after,
        };
        let specs = [
            NodeSpec::input("pg-input"),
            NodeSpec::new("late", &[]).feature(f(&["early"])),
            NodeSpec::new("early", &[]).feature(f(&[])),
            NodeSpec::new("ethernet-input", &["lookup"]),
            NodeSpec::new("lookup", &["rewrite", "error"]),
            NodeSpec::new("rewrite", &["error"]),
            NodeSpec::new("error", &["lookup"]),
        ];
        let arcs = [ArcSpec {
            name: "device-input",
            side: Side::Rx,
            end: ArcEnd::Node("ethernet-input"),
        }];
        let g = Graph::build(&specs, &arcs, LIMITS).unwrap();
        let names: Vec<_> = g.specs().iter().map(|s| s.name).collect();
        let listed: Vec<_> = specs.iter().map(|s| s.name).chain(["drop"]).collect();
        assert_eq!(names, listed);
        assert_eq!(g.arc_order()[0].1, ["early", "late"]);
    }

    #[test]
    fn unknown_names_are_named() {
        let e = Graph::build(&[NodeSpec::new("a", &["b"])], &[], LIMITS)
            .err()
            .unwrap();
        assert_eq!(e.0, "a names the node b, which does not exist");
        let e = Graph::build(&[NodeSpec::new("a", &[]).starting("x")], &[], LIMITS)
            .err()
            .unwrap();
        assert_eq!(e.0, "a names the arc x, which does not exist");
        let g = Graph::build(&[NodeSpec::new("a", &[])], &[], LIMITS).unwrap();
        assert!(
            g.set_feature("a", 0, true)
                .unwrap_err()
                .0
                .contains("not a feature")
        );
    }
}
