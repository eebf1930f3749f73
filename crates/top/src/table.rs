//! What two looks come to: a table for each thing that is watched.

use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::sample::{Flow, Interface, Sample};

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    Interfaces,
    Nodes,
    Drops,
    Workers,
    Flows,
}

impl Tab {
    /// All of them, in order.
    pub const ALL: [Tab; 5] = [
        Tab::Interfaces,
        Tab::Nodes,
        Tab::Drops,
        Tab::Workers,
        Tab::Flows,
    ];

    /// Its name for machines.
    pub fn name(self) -> &'static str {
        match self {
            Tab::Interfaces => "interfaces",
            Tab::Nodes => "nodes",
            Tab::Drops => "drops",
            Tab::Workers => "workers",
            Tab::Flows => "flows",
        }
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Tab::Interfaces => "Interfaces",
            Tab::Nodes => "Nodes",
            Tab::Drops => "Drops",
            Tab::Workers => "Workers",
            Tab::Flows => "Flows",
        }
    }

    fn columns(self) -> &'static [&'static str] {
        match self {
            Tab::Interfaces => &[
                "interface",
                "state",
                "rx_pps",
                "rx_bps",
                "tx_pps",
                "tx_bps",
                "drops_ps",
                "drops",
            ],
            Tab::Nodes => &[
                "node",
                "calls_ps",
                "packets_ps",
                "packets_per_call",
                "clocks_per_packet",
            ],
            Tab::Drops => &["reason", "node", "packets_ps", "packets", "text"],
            Tab::Workers => &[
                "worker",
                "cpu",
                "state",
                "queues",
                "rx_pps",
                "tx_pps",
                "drops_ps",
                "loops_ps",
                "sleeps_ps",
            ],
            Tab::Flows => &[
                "interface",
                "dir",
                "proto",
                "source",
                "destination",
                "pps",
                "bps",
                "samples",
            ],
        }
    }
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Text(String),
    Number(f64),
}

impl Cell {
    fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// As it is shown: three digits and a unit prefix.
    pub fn shown(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number(n) => short(*n),
        }
    }

    /// Whether it stands on the right of its column.
    pub fn is_number(&self) -> bool {
        matches!(self, Cell::Number(_))
    }

    fn order(&self, other: &Cell) -> Ordering {
        match (self, other) {
            // The greatest number first, the first word first.
            (Cell::Number(a), Cell::Number(b)) => b.total_cmp(a),
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            (Cell::Number(_), Cell::Text(_)) => Ordering::Less,
            (Cell::Text(_), Cell::Number(_)) => Ordering::Greater,
        }
    }
}

/// A number in three or four digits.
pub fn short(n: f64) -> String {
    if n < 1000.0 {
        let whole = (n - n.round()).abs() < 0.05;
        return if whole {
            format!("{n:.0}")
        } else {
            format!("{n:.1}")
        };
    }
    let mut n = n;
    for unit in ["k", "M", "G", "T"] {
        n /= 1000.0;
        if n < 999.5 {
            let digits = if n < 9.995 { 2 } else { usize::from(n < 99.95) };
            return format!("{n:.digits$}{unit}");
        }
    }
    format!("{n:.0}T")
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub columns: &'static [&'static str],
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Orders rows by a column; equal ones by the first.
    pub fn sort(&mut self, column: usize, reverse: bool) {
        self.rows.sort_by(|a, b| {
            let by = |i: usize| match (a.get(i), b.get(i)) {
                (Some(a), Some(b)) => a.order(b),
                _ => Ordering::Equal,
            };
            let order = if reverse {
                by(column).reverse()
            } else {
                by(column)
            };
            order.then(by(0))
        });
    }

    /// Keeps rows in whose words this text is.
    pub fn filter(&mut self, text: &str) {
        let text = text.to_lowercase();
        let has = |c: &Cell| matches!(c, Cell::Text(t) if t.to_lowercase().contains(&text));
        self.rows.retain(|row| row.iter().any(has));
    }

    /// Widths of the columns.
    pub fn widths(&self) -> Vec<usize> {
        let width = |i: usize| {
            let cells = self.rows.iter().filter_map(|r| r.get(i));
            let widest = cells.map(|c| c.shown().chars().count()).max().unwrap_or(0);
            widest.max(self.columns[i].len())
        };
        (0..self.columns.len()).map(width).collect()
    }

    /// As text.
    pub fn text(&self) -> String {
        let widths = self.widths();
        let line = |cells: Vec<(String, bool)>| {
            let each = cells.into_iter().zip(&widths).map(|((text, right), w)| {
                if right {
                    format!("{text:>w$}")
                } else {
                    format!("{text:<w$}")
                }
            });
            let joined: Vec<String> = each.collect();
            format!("{}\n", joined.join("  ").trim_end())
        };
        let first = self.rows.first();
        let right = |i: usize| first.and_then(|r| r.get(i)).is_some_and(Cell::is_number);
        let head = self
            .columns
            .iter()
            .enumerate()
            .map(|(i, c)| ((*c).to_owned(), right(i)));
        let mut out = line(head.collect());
        for row in &self.rows {
            out += &line(row.iter().map(|c| (c.shown(), c.is_number())).collect());
        }
        out
    }

    /// As data.
    pub fn json(&self) -> Value {
        let value = |c: &Cell| match c {
            Cell::Text(text) => Value::from(text.clone()),
            Cell::Number(n) => Value::from((n * 1000.0).round() / 1000.0),
        };
        let row = |cells: &Vec<Cell>| {
            let pairs = self.columns.iter().zip(cells);
            Value::Object(
                pairs
                    .map(|(k, c)| ((*k).to_owned(), value(c)))
                    .collect::<Map<_, _>>(),
            )
        };
        self.rows.iter().map(row).collect()
    }
}

/// Events a second; a counter that was cleared between the looks counts from there.
fn rate(older: Option<u64>, newer: u64, seconds: f64) -> Cell {
    let added = match older {
        Some(older) if older <= newer => newer - older,
        Some(_) => newer,
        None => 0,
    };
    Cell::Number(added as f64 / seconds)
}

/// What changed between two looks, or, without an older one, what there is.
pub fn table(tab: Tab, older: Option<&Sample>, newer: &Sample) -> Table {
    let seconds = older.map_or(1.0, |o| (newer.at - o.at).max(1e-3));
    let rows = match tab {
        Tab::Interfaces => interfaces(older, newer, seconds),
        Tab::Nodes => nodes(older, newer, seconds),
        Tab::Drops => drops(older, newer, seconds),
        Tab::Workers => workers(older, newer, seconds),
        Tab::Flows => flows(older, newer, seconds),
    };
    Table {
        columns: tab.columns(),
        rows,
    }
}

fn interfaces(older: Option<&Sample>, newer: &Sample, seconds: f64) -> Vec<Vec<Cell>> {
    let row = |i: &Interface| {
        let was = older.and_then(|o| o.interfaces.iter().find(|w| w.name == i.name));
        let per_second = |of: fn(&Interface) -> u64| rate(was.map(of), of(i), seconds);
        let bits = |of: fn(&Interface) -> u64| rate(was.map(|w| of(w) * 8), of(i) * 8, seconds);
        let state = match (i.admin_up, i.link_up) {
            (true, true) => "up",
            (true, false) => "no-link",
            _ => "down",
        };
        let drops = |i: &Interface| i.counters.rx_drops + i.counters.tx_drops;
        vec![
            Cell::text(&i.name),
            Cell::text(state),
            per_second(|i| i.counters.rx_packets),
            bits(|i| i.counters.rx_bytes),
            per_second(|i| i.counters.tx_packets),
            bits(|i| i.counters.tx_bytes),
            per_second(drops),
            Cell::Number(drops(i) as f64),
        ]
    };
    newer
        .interfaces
        .iter()
        .filter(|i| i.name != "local0")
        .map(row)
        .collect()
}

fn nodes(older: Option<&Sample>, newer: &Sample, seconds: f64) -> Vec<Vec<Cell>> {
    let before = older.map(Sample::nodes).unwrap_or_default();
    let row = |n: crate::sample::Node| {
        let was = before.iter().find(|w| w.node == n.node);
        let since = |of: fn(&crate::sample::Node) -> u64| {
            let now = of(&n);
            was.map_or(0, |w| now.checked_sub(of(w)).unwrap_or(now)) as f64
        };
        let (calls, vectors, clocks) = (
            since(|n| n.calls),
            since(|n| n.vectors),
            since(|n| n.clocks),
        );
        vec![
            Cell::text(&n.node),
            Cell::Number(calls / seconds),
            Cell::Number(vectors / seconds),
            Cell::Number(vectors / calls.max(1.0)),
            Cell::Number(if vectors > 0.0 { clocks / vectors } else { 0.0 }),
        ]
    };
    newer.nodes().into_iter().map(row).collect()
}

fn drops(older: Option<&Sample>, newer: &Sample, seconds: f64) -> Vec<Vec<Cell>> {
    let row = |d: &crate::sample::Dropped| {
        let same = |w: &&crate::sample::Dropped| w.node == d.node && w.reason == d.reason;
        let was = older.map(|o| o.drops.iter().find(same).map_or(0, |w| w.count));
        vec![
            Cell::text(&d.reason),
            Cell::text(&d.node),
            rate(was, d.count, seconds),
            Cell::Number(d.count as f64),
            Cell::text(&d.text),
        ]
    };
    newer.drops.iter().map(row).collect()
}

fn workers(older: Option<&Sample>, newer: &Sample, seconds: f64) -> Vec<Vec<Cell>> {
    let threads = newer.threads.iter().filter(|t| t.kind == "workers");
    let row = |(t, w): (&crate::sample::Thread, &crate::sample::Worker)| {
        let thread = older.and_then(|o| o.threads.iter().find(|x| x.name == t.name));
        let worker = older.and_then(|o| o.workers.iter().find(|x| x.worker == w.worker));
        vec![
            Cell::text(&t.name),
            Cell::text(t.cpu.map_or("any".into(), |c| c.to_string())),
            Cell::text(&t.state),
            Cell::Number(t.queues.unwrap_or(0) as f64),
            rate(worker.map(|w| w.received), w.received, seconds),
            rate(worker.map(|w| w.transmitted), w.transmitted, seconds),
            rate(worker.map(|w| w.dropped), w.dropped, seconds),
            rate(thread.map(|t| t.loops), t.loops, seconds),
            rate(thread.map(|t| t.sleeps), t.sleeps, seconds),
        ]
    };
    threads.zip(&newer.workers).map(row).collect()
}

/// Flows that had samples between the looks, by what those stand for.
fn flows(older: Option<&Sample>, newer: &Sample, seconds: f64) -> Vec<Vec<Cell>> {
    let before: HashMap<_, &Flow> = older
        .iter()
        .flat_map(|o| o.flows.iter().map(|f| (f.key(), f)))
        .collect();
    let row = |f: &Flow| {
        let was = before.get(&f.key()).copied();
        // A flow that is new was not there at the older look.
        let old = |of: fn(&Flow) -> u64| older.map(|_| was.map_or(0, of));
        let bits = |f: &Flow| f.bytes.saturating_mul(8);
        let cells = vec![
            Cell::text(&f.interface),
            Cell::text(&f.direction),
            Cell::text(f.protocol()),
            Cell::text(f.end(&f.source, f.source_port)),
            Cell::text(f.end(&f.destination, f.destination_port)),
            rate(old(|f| f.packets), f.packets, seconds),
            rate(old(bits), bits(f), seconds),
            Cell::Number(f.samples as f64),
        ];
        was.is_none_or(|w| w.samples != f.samples).then_some(cells)
    };
    newer.flows.iter().filter_map(row).collect()
}
