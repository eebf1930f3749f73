//! Labels that the router takes.

use std::collections::BTreeMap;

use super::Builder;
use super::paths::Payload;
use crate::record::Record;

impl Builder<'_, '_> {
    /// Commands for local labels.
    pub(super) fn labels(&mut self) {
        let file = self.file;
        let Some(mpls) = file.record("mpls") else {
            return;
        };
        let mut seen = BTreeMap::new();
        for r in mpls.records("labels") {
            let Some(label) = r.uint("label") else {
                continue;
            };
            let ways = match r.text("pop") {
                Some(pop) => self.pop(r, pop),
                None => self.swap(r),
            };
            let stacks = self.stacks(r);
            for stack in stacks {
                if let Some(line) = seen.insert((label, stack), r.at.line) {
                    let message = format!(
                        "label {label} {stack} is here a second time, first on line {line}"
                    );
                    self.error(r, "label", message);
                }
            }
            // Without either word the command is for both.
            let stack = match stacks {
                [one] => format!("{one} "),
                _ => String::new(),
            };
            let line = format!("mpls local-label add {label} {stack}{}", ways.join(" "));
            self.line(r, "label", line);
        }
    }

    fn swap(&mut self, r: &Record) -> Vec<String> {
        if r.has("table") {
            self.error(r, "table", "this is about `pop`, which is not there");
        }
        let ways = self.ways(r, Payload::Mpls);
        let said = ["via", "interface", "labels", "paths"]
            .iter()
            .any(|f| r.has(f));
        if !said && !r.flawed {
            self.error(
                r,
                "",
                "a label leads somewhere; write `via`, `paths` or `pop`",
            );
        }
        ways
    }

    fn pop(&mut self, r: &Record, pop: &str) -> Vec<String> {
        for field in ["via", "interface", "labels", "pipe", "paths"] {
            if r.has(field) {
                self.error(r, field, "either this or `pop`, not both");
            }
        }
        let payload = match pop {
            "ip4" => Payload::Ip4,
            "ip6" => Payload::Ip6,
            _ => Payload::Mpls,
        };
        let table = r.uint("table").map_or(0, |n| n as u32);
        self.check_table(r, "table", table, payload);
        vec![format!("via {pop}-lookup-in-table {table}")]
    }

    /// Whether the entry is for the last label of a stack, for others, or for both.
    fn stacks(&mut self, r: &Record) -> &'static [&'static str] {
        const EOS: &[&str] = &["eos"];
        const NON_EOS: &[&str] = &["non-eos"];
        let (natural, under): (&'static [&'static str], _) = match r.text("pop") {
            Some("mpls") => (NON_EOS, "a label"),
            Some(_) => (EOS, "an IP packet"),
            None => (&["eos", "non-eos"], ""),
        };
        let given: &'static [&'static str] = match r.text("stack") {
            Some("eos") => EOS,
            Some("non-eos") => NON_EOS,
            Some(_) => &["eos", "non-eos"],
            None => natural,
        };
        if r.has("pop") && given != natural {
            let message = format!(
                "{under} is under the label; allowed is {}",
                natural.join(", ")
            );
            self.error(r, "stack", message);
        }
        given
    }
}
