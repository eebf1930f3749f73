//! The dependency ranks: a crate depends only on crates of a lower rank.
//!
//! Normal and build dependencies must point down; an edge within a rank must be listed here with its
//! reason. Dev-dependencies may stay within a rank (a test may use a neighbour) but never point up.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Every crate of the workspace and its rank. A new crate is entered here, which is the moment to ask
/// where it belongs.
const RANKS: &[(u8, &[&str])] = &[
    (
        1,
        &[
            "parshall-wire",
            "parshall-sflow-wire",
            "parshall-flow-export",
            "parshall-ring",
            "parshall-rcu",
            "parshall-buffer",
            "parshall-command",
            "parshall-bgp",
            "parshall-vpp-wire",
        ],
    ),
    (
        2,
        &[
            "parshall-counters",
            "parshall-fib",
            "parshall-acl",
            "parshall-sample",
            "parshall-device",
            "parshall-linux",
        ],
    ),
    (3, &["parshall-graph", "parshall-stats-segment"]),
    (4, &["parshall-nodes", "parshall-drivers", "parshall-agent"]),
    (5, &["parshall-control"]),
    (
        6,
        &[
            "parshall-cli",
            "parshall-api",
            "parshall-bench",
            "parshall-config",
            "parshall-lab",
            "parshall-collector",
            "parshall-doctor",
            "parshall-top",
            "parshall-web",
        ],
    ),
    (7, &["parshall"]),
];

/// Crates outside the ranks: nothing may depend on them and they may depend on anything.
const TOOLS: &[&str] = &["xtask"];

/// Edges allowed within a rank: from, to, why.
const SAME_RANK: &[(&str, &str, &str)] = &[
    (
        "parshall-device",
        "parshall-counters",
        "a queue names the reason of each packet it drops, from the one reason list",
    ),
    (
        "parshall-acl",
        "parshall-counters",
        "a rule counts its hits in counters that one worker writes",
    ),
    (
        "parshall-bench",
        "parshall-api",
        "what API calls cost is measured on the server that answers them",
    ),
    (
        "parshall-lab",
        "parshall-cli",
        "the laboratory gives its router commands over the socket, as a person would",
    ),
    (
        "parshall-top",
        "parshall-cli",
        "the terminal view reads a running router over its command socket, as any client does",
    ),
    (
        "parshall-collector",
        "parshall-cli",
        "estimates are held against the counters that a running router tells over its socket",
    ),
];

/// One dependency as `cargo metadata` gives it.
#[derive(Debug)]
struct Edge {
    from: String,
    to: String,
    dev: bool,
}

/// All findings in the workspace at `root`.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let (crates, edges) = read(root)?;
    Ok(judge(&crates, &edges))
}

fn read(root: &Path) -> Result<(Vec<String>, Vec<Edge>), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cannot run cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = metadata["packages"]
        .as_array()
        .ok_or("cargo metadata lists no packages")?;
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let crates: Vec<String> = packages.iter().map(name).collect();
    let mut edges = Vec::new();
    for package in packages {
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let to = name(dependency);
            if crates.contains(&to) {
                edges.push(Edge {
                    from: name(package),
                    to,
                    dev: dependency["kind"] == "dev",
                });
            }
        }
    }
    Ok((crates, edges))
}

fn rank(name: &str) -> Option<u8> {
    RANKS
        .iter()
        .find(|(_, names)| names.contains(&name))
        .map(|(rank, _)| *rank)
}

fn judge(crates: &[String], edges: &[Edge]) -> Vec<String> {
    let mut found = Vec::new();
    for name in crates
        .iter()
        .filter(|n| rank(n).is_none() && !TOOLS.contains(&n.as_str()))
    {
        found.push(format!(
            "{name}: has no rank; enter it in xtask/src/deps.rs"
        ));
    }
    found.extend(edges.iter().filter_map(fault));
    for (from, to, _) in SAME_RANK {
        let known = crates.iter().any(|c| c == from);
        if known && !edges.iter().any(|e| e.from == *from && e.to == *to) {
            found.push(format!(
                "{from} -> {to}: excepted in xtask/src/deps.rs but not there; remove the exception"
            ));
        }
    }
    found
}

fn fault(edge: &Edge) -> Option<String> {
    let Edge { from, to, dev } = edge;
    if TOOLS.contains(&to.as_str()) {
        return Some(format!(
            "{from} -> {to}: nothing may depend on a developer tool"
        ));
    }
    let (own, other) = (rank(from)?, rank(to)?);
    let listed = SAME_RANK.iter().any(|(f, t, _)| f == from && t == to);
    match other.cmp(&own) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Equal if *dev || listed => None,
        std::cmp::Ordering::Equal => Some(format!(
            "{from} -> {to}: both have rank {own}; a crate depends on lower ranks only"
        )),
        std::cmp::Ordering::Greater => Some(format!(
            "{from} (rank {own}) -> {to} (rank {other}): points up"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: &str, to: &str, dev: bool) -> Edge {
        Edge {
            from: from.into(),
            to: to.into(),
            dev,
        }
    }

    #[test]
    fn edges_point_down() {
        assert_eq!(fault(&edge("parshall-graph", "parshall-ring", false)), None);
        assert!(fault(&edge("parshall-ring", "parshall-graph", false)).is_some());
        assert!(fault(&edge("parshall-ring", "parshall-graph", true)).is_some());
        assert!(fault(&edge("parshall-nodes", "parshall-drivers", false)).is_some());
        assert_eq!(
            fault(&edge("parshall-nodes", "parshall-drivers", true)),
            None
        );
        assert_eq!(
            fault(&edge("parshall-device", "parshall-counters", false)),
            None
        );
        assert!(fault(&edge("parshall", "xtask", true)).is_some());
    }

    #[test]
    fn unknown_crates_and_stale_exceptions_are_found() {
        let crates = ["parshall-new".to_owned(), "parshall-device".to_owned()];
        let found = judge(&crates, &[]);
        assert!(
            found[0].starts_with("parshall-new: has no rank"),
            "{found:?}"
        );
        assert!(found[1].contains("remove the exception"), "{found:?}");
    }

    #[test]
    fn every_exception_is_needed() {
        for (from, to, why) in SAME_RANK {
            assert_eq!(rank(from), rank(to), "{from} -> {to} is no same-rank edge");
            assert!(!why.is_empty());
        }
    }
}
