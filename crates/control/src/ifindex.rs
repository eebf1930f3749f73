//! Which ifIndex an interface has at collectors: a number that goes with its name, over restarts.
//!
//! Numbers are given out once and kept in a small file (RFC 2863, section 3.1.5, wants that a number is not given to
//! another interface, and management stations that it does not change). They could not be computed from the names
//! alone: whatever maps 63 letters to 24 bits gives two names one number now and then.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Greatest number: what the compact form of a data source holds (sFlow Version 5, section 5.3).
const MAX_NUMBER: u32 = (1 << 24) - 1;
/// Names that are remembered at most, those of interfaces that are there aside.
const MAX_NAMES: usize = 65_536;
/// Longest file that is read.
pub const MAX_FILE: u64 = 8 << 20;
/// What an interface without an ifIndex of Linux has added to its own number where those of Linux are exported: the
/// offset that hsflowd has. Linux counts from 1; a Linux interface that was given a number from here on by hand counts
/// as one without.
pub const OFFSET: u32 = 1_000_000_000;

/// Whose numbers collectors see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfIndexKind {
    /// The router's.
    #[default]
    Parshall,
    /// Those of the Linux interfaces behind the router's.
    Linux,
}

impl IfIndexKind {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            IfIndexKind::Parshall => "parshall",
            IfIndexKind::Linux => "linux",
        }
    }
}

/// The numbers that names have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IfNumbers {
    by_name: BTreeMap<String, u32>,
    taken: BTreeSet<u32>,
    changed: bool,
}

impl IfNumbers {
    /// Reads the file's text, with what is wrong with it: such lines count for nothing.
    pub fn parse(text: &str) -> (IfNumbers, Vec<String>) {
        let (mut all, mut wrong) = (IfNumbers::default(), Vec::new());
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Err(why) = all.read_line(line)
                && wrong.len() < 10
            {
                wrong.push(format!("line {}: {why}", at + 1));
            }
        }
        (all, wrong)
    }

    fn read_line(&mut self, line: &str) -> Result<(), &'static str> {
        let (number, name) = line.split_once(' ').ok_or("no name behind the number")?;
        let number: u32 = number.parse().map_err(|_| "not a number")?;
        if number == 0 || number > MAX_NUMBER {
            return Err("the number is out of range");
        }
        if name.is_empty() || name.len() > 63 || self.by_name.len() >= 2 * MAX_NAMES {
            return Err("not the name of an interface");
        }
        if self.taken.contains(&number) || self.by_name.contains_key(name) {
            return Err("number or name is there a second time");
        }
        self.taken.insert(number);
        self.by_name.insert(name.to_owned(), number);
        Ok(())
    }

    /// The file's text.
    pub fn render(&self) -> String {
        let mut out =
            String::from("# ifIndex and name of each interface there was; kept by parshall\n");
        for (name, number) in &self.by_name {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{number} {name}");
        }
        out
    }

    /// Whether numbers were given out since this was asked last.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The number of the interface called `name`: the one it had, else `wish` if nobody ever had that, else a new one.
    /// `is_there` says which names are in use, should there be too many to remember.
    pub fn number(&mut self, name: &str, wish: u32, is_there: impl Fn(&str) -> bool) -> u32 {
        if let Some(n) = self.by_name.get(name) {
            return *n;
        }
        if self.by_name.len() >= MAX_NAMES {
            self.by_name.retain(|name, _| is_there(name));
            self.taken = self.by_name.values().copied().collect();
        }
        let free = |n: &u32| (1..=MAX_NUMBER).contains(n) && !self.taken.contains(n);
        let above = self.taken.last().map_or(1, |n| n + 1);
        let fresh = [wish, above].into_iter().find(free);
        let number = fresh.or_else(|| (1..=MAX_NUMBER).find(free)).unwrap_or(0);
        self.taken.insert(number);
        self.by_name.insert(name.to_owned(), number);
        self.changed = true;
        number
    }
}

/// What an interface is called by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The number that goes with its name.
    pub own: u32,
    /// That of the Linux interface behind it.
    pub linux: Option<u32>,
    /// That one lives in another network namespace than the router.
    pub elsewhere: bool,
}

/// The ifIndex that each interface is exported under: of one kind for all, and no two the same. Where Linux interfaces
/// of two namespaces have one number, the router's own namespace has it, then the interface with the lower number
/// of ours; the others count as without.
pub fn exported(kind: IfIndexKind, all: &[Numbers]) -> Vec<u32> {
    if kind == IfIndexKind::Parshall {
        return all.iter().map(|n| n.own).collect();
    }
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|i| (all[*i].elsewhere, all[*i].own));
    let mut taken = BTreeSet::new();
    let mut out = vec![0; all.len()];
    for i in order {
        let linux = all[i].linux.filter(|n| *n != 0 && *n < OFFSET);
        let linux = linux.filter(|n| taken.insert(*n));
        out[i] = linux.unwrap_or(OFFSET + all[i].own);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn give(all: &mut IfNumbers, name: &str, wish: u32) -> u32 {
        all.number(name, wish, |_| true)
    }

    #[test]
    fn a_name_keeps_its_number_and_nobody_else_gets_it() {
        let mut all = IfNumbers::default();
        assert_eq!(give(&mut all, "tap0", 1), 1);
        assert_eq!(give(&mut all, "tap1", 2), 2);
        assert!(all.take_changed() && !all.take_changed());
        // tap0 goes, another takes its place in the table, tap0 comes back.
        assert_eq!(give(&mut all, "host-eth0", 1), 3);
        assert_eq!(give(&mut all, "tap0", 5), 1);
        let (again, wrong) = IfNumbers::parse(&all.render());
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!(again.by_name, all.by_name);
        let mut again = again;
        assert_eq!(give(&mut again, "host-eth0", 9), 3);
        assert!(!again.take_changed());
        assert_eq!(give(&mut again, "new", 2), 4);
    }

    #[test]
    fn broken_lines_are_named_and_the_others_count() {
        let text = "# comment\n\n7 tap0\nx tap1\n7 tap2\n8 tap0\n0 a\n16777216 b\n9\n10 c\n11 \n";
        let (mut all, wrong) = IfNumbers::parse(text);
        assert_eq!(wrong.len(), 7, "{wrong:?}");
        assert!(wrong[0].starts_with("line 4: not a number"), "{wrong:?}");
        assert_eq!((give(&mut all, "tap0", 1), give(&mut all, "c", 1)), (7, 10));
        assert_eq!(give(&mut all, "x", 7), 11);
    }

    #[test]
    fn names_of_interfaces_long_gone_are_forgotten_when_there_are_too_many() {
        let mut all = IfNumbers::default();
        for i in 0..MAX_NAMES as u32 {
            all.number(&format!("if{i}"), i + 1, |_| true);
        }
        let n = all.number("last", 1, |name| name == "if7");
        assert_eq!((n, all.by_name.len()), (1, 2));
        assert_eq!(give(&mut all, "if7", 1), 8);
    }

    #[test]
    fn numbers_run_out_of_the_upper_end_and_gaps_are_used() {
        let (mut all, _) = IfNumbers::parse("16777215 top\n1 a\n");
        assert_eq!(give(&mut all, "b", 1), 2);
    }

    #[test]
    fn numbers_of_linux_never_meet_others() {
        let n = |own, linux, elsewhere| Numbers {
            own,
            linux,
            elsewhere,
        };
        let all = [
            n(1, None, false),
            n(2, Some(7), true),
            n(3, Some(7), false),
            n(4, Some(9), true),
            n(5, Some(9), true),
            n(7, Some(OFFSET + 1), false),
        ];
        assert_eq!(exported(IfIndexKind::Parshall, &all), [1, 2, 3, 4, 5, 7]);
        assert_eq!(
            exported(IfIndexKind::Linux, &all),
            [OFFSET + 1, OFFSET + 2, 7, 9, OFFSET + 5, OFFSET + 7]
        );
    }
}
