//! The reference derived from the table: markdown for people, JSON for machines.

use crate::pattern::{arguments, leading_words, syntax};
use crate::table::CommandTable;
use serde_json::{Value, json};
use std::fmt::Write;

impl<H> CommandTable<H> {
    /// All commands as markdown, in table order under a heading for each first word.
    pub fn markdown(&self) -> String {
        let mut groups: Vec<(&'static str, Vec<usize>)> = Vec::new();
        for (index, tree) in self.trees.iter().enumerate() {
            let first = leading_words(tree)
                .first()
                .and_then(|p| p.first().copied())
                .unwrap_or("other");
            match groups.iter_mut().find(|g| g.0 == first) {
                Some(group) => group.1.push(index),
                None => groups.push((first, vec![index])),
            }
        }
        let mut text = String::new();
        for (first, members) in groups {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "## {first}\n");
            members
                .into_iter()
                .for_each(|index| self.entry(index, &mut text));
        }
        text
    }

    fn entry(&self, index: usize, text: &mut String) {
        let (spec, tree) = (&self.specs[index], &self.trees[index]);
        let title = leading_words(tree)
            .first()
            .map(|p| p.join(" "))
            .unwrap_or_default();
        let _ = writeln!(
            text,
            "### {title}\n\n```\n{}\n```\n\n{}.",
            syntax(tree),
            spec.help
        );
        if !spec.detail.trim().is_empty() {
            let _ = writeln!(text, "\n{}", spec.detail.trim());
        }
        let args = arguments(tree);
        if !args.is_empty() {
            let _ = writeln!(text, "\n| argument | what it is | value |\n|---|---|---|");
        }
        for (name, kind) in args {
            let meaning = spec.params.iter().find(|p| p.0 == name).map_or("", |p| p.1);
            let value = kind.describe().replace('|', "\\|");
            let _ = writeln!(
                text,
                "| `{name}` | {} | {value} |",
                meaning.replace('|', "\\|")
            );
        }
        text.push('\n');
    }

    /// All commands as a JSON array of `{"command","syntax","pattern","help","detail","arguments"}`.
    pub fn to_json(&self) -> Value {
        let all = self.specs.iter().zip(&self.trees).map(|(spec, tree)| {
            let args: Vec<Value> = arguments(tree)
                .into_iter()
                .map(|(name, kind)| {
                    let help = spec.params.iter().find(|p| p.0 == name).map_or("", |p| p.1);
                    json!({"name": name, "kind": kind.name(), "value": kind.describe(), "help": help})
                })
                .collect();
            let command = leading_words(tree).first().map(|p| p.join(" ")).unwrap_or_default();
            json!({
                "command": command,
                "syntax": syntax(tree),
                "pattern": spec.pattern,
                "help": spec.help,
                "detail": spec.detail.trim(),
                "arguments": args,
            })
        });
        Value::Array(all.collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::table::{CommandSpec, CommandTable};

    fn table() -> CommandTable<()> {
        CommandTable::new(vec![CommandSpec {
            pattern: "set interface state <if:interface> <state:{up|down}>",
            help: "Set the admin state",
            detail: "Down drops all.",
            params: &[("if", "Which interface")],
            handler: (),
        }])
        .expect("pattern")
    }

    #[test]
    fn markdown_reference() {
        let want = "## set\n\n### set interface state\n\n```\nset interface state <if> (up|down)\n```\n\nSet the admin state.\n\n\
            Down drops all.\n\n| argument | what it is | value |\n|---|---|---|\n| `if` | Which interface | an interface name |\n\
            | `state` |  | up\\|down |\n\n";
        assert_eq!(table().markdown(), want);
    }

    #[test]
    fn json_listing() {
        let json = table().to_json();
        assert_eq!(json[0]["command"], "set interface state");
        assert_eq!(json[0]["arguments"][0]["kind"], "interface");
        assert_eq!(json[0]["arguments"][1]["value"], "up|down");
    }
}
