//! Completion (Tab) and help (`?`), both read off the same place of the matcher.

use crate::error::floor_boundary;
use crate::kind::{Kind, Names};
use crate::matcher::Matcher;
use crate::program::Instr;
use crate::table::CommandTable;
use crate::token::{Token, TokenKind, tokenize};
use serde::{Deserialize, Serialize};

/// Something that may stand at the cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The whole word to put in the place of the one begun.
    pub text: String,
    /// What it means; may be empty.
    pub help: String,
    /// Byte offset in the line of the word begun, which `text` replaces up to the cursor.
    pub start: usize,
}

/// A row of help: what may come next and what it means.
struct Row {
    text: String,
    help: String,
}

/// The place of the cursor: the readings of the words before it and the word begun at it.
struct Place<'t> {
    matcher: Matcher<'t>,
    begun: String,
    start: usize,
    before: Vec<String>,
}

impl<H> CommandTable<H> {
    /// What could be typed at byte `cursor` of `line`: literal words, choices and known names that
    /// begin as the word at the cursor does. Empty where nothing fits or inside quotes and braces.
    pub fn complete(&self, line: &str, cursor: usize, names: &dyn Names) -> Vec<Candidate> {
        let Some(place) = self.place(line, cursor, names) else {
            return Vec::new();
        };
        let mut found: Vec<Candidate> = Vec::new();
        let mut add = |text: &str, help: String| {
            if text.starts_with(&place.begun) && !found.iter().any(|c| c.text == text) {
                found.push(Candidate {
                    text: text.to_owned(),
                    help,
                    start: place.start,
                });
            }
        };
        for (spec, instr) in place.matcher.expected() {
            match instr {
                Instr::Word(word) => add(word, self.word_help(&place, word)),
                Instr::Arg {
                    name,
                    kind: Kind::Choice(words),
                } => {
                    words.iter().for_each(|word| {
                        add(
                            word,
                            self.param(spec, word)
                                .or_else(|| self.param(spec, name))
                                .unwrap_or_default(),
                        )
                    });
                }
                Instr::Arg {
                    kind: Kind::Name(class),
                    ..
                } => {
                    names
                        .list(class)
                        .iter()
                        .filter(|n| is_plain(n))
                        .for_each(|known| add(known, (*class).to_owned()));
                }
                _ => {}
            }
        }
        found.sort_by(|a, b| a.text.cmp(&b.text));
        found
    }

    /// The text that `?` behind `line` prints: after a blank what may come next, directly behind a word
    /// what it may be the beginning of.
    pub fn help(&self, line: &str, names: &dyn Names) -> String {
        let Some(place) = self.place(line, line.len(), names) else {
            return match self.parse(line, names) {
                Err(error) => error.render(),
                Ok(_) => String::new(),
            };
        };
        let mut rows = self.rows(&place, names);
        rows.sort_by(|a, b| {
            (a.text.starts_with('<'), &a.text).cmp(&(b.text.starts_with('<'), &b.text))
        });
        if place.begun.is_empty()
            && let Some((spec, _)) = place.matcher.finish()
        {
            rows.push(Row {
                text: "<cr>".into(),
                help: self.specs[spec].help.to_owned(),
            });
        }
        let mut text = columns(&rows);
        if rows.is_empty() {
            text = format!("nothing begins with '{}' here\n", place.begun);
        }
        if let Some(spec) = self.only_spec(&place) {
            text.push_str(&self.usage(spec));
        }
        text
    }

    fn rows(&self, place: &Place<'_>, names: &dyn Names) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for (spec, instr) in place.matcher.expected() {
            let row = match instr {
                Instr::Word(word) if word.starts_with(&place.begun) => Row {
                    text: (*word).to_owned(),
                    help: self.word_help(place, word),
                },
                Instr::Arg { name, kind } if self.could_be(kind, &place.begun, names) => {
                    let help = match self.param(spec, name) {
                        Some(text) => format!("{text}: {}", kind.describe()),
                        None => kind.describe(),
                    };
                    Row {
                        text: format!("<{name}>"),
                        help,
                    }
                }
                _ => continue,
            };
            if !rows.iter().any(|r| r.text == row.text) {
                rows.push(row);
            }
        }
        rows
    }

    /// Whether the word begun may grow into this kind; free forms always may.
    fn could_be(&self, kind: &Kind, begun: &str, names: &dyn Names) -> bool {
        match kind {
            Kind::Choice(words) => words.iter().any(|w| w.starts_with(begun)),
            Kind::Name(class) => {
                begun.is_empty() || names.list(class).iter().any(|n| n.starts_with(begun))
            }
            Kind::Uint { .. } => begun.bytes().all(|b| b.is_ascii_hexdigit() || b == b'x'),
            Kind::Block => begun.is_empty(),
            _ => true,
        }
    }

    /// Reads the words before the cursor. `None` if they make no sense or the cursor is inside quotes.
    fn place<'t>(&'t self, line: &str, cursor: usize, names: &dyn Names) -> Option<Place<'t>> {
        let line = &line[..floor_boundary(line, cursor)];
        let mut tokens: Vec<Token<'_>> = tokenize(line).ok()?;
        let begun = tokens.pop_if(|t| t.end == line.len() && t.kind == TokenKind::Word);
        let mut matcher = self.matcher(tokens.first());
        for token in &tokens {
            matcher.step(line, token, names).ok()?;
        }
        let (start, begun) = begun.map_or((line.len(), String::new()), |t| {
            (t.start, t.text.into_owned())
        });
        Some(Place {
            matcher,
            begun,
            start,
            before: tokens.into_iter().map(|t| t.text.into_owned()).collect(),
        })
    }

    fn param(&self, spec: usize, name: &str) -> Option<String> {
        self.specs[spec]
            .params
            .iter()
            .find(|p| p.0 == name)
            .map(|p| p.1.to_owned())
    }

    /// Help for a literal: its own text in the command that has it; the command's when only one
    /// command goes on with it; the topic's; else the words that follow it.
    fn word_help(&self, place: &Place<'_>, word: &str) -> String {
        let mut specs: Vec<usize> = place
            .matcher
            .expected()
            .filter(|(_, i)| matches!(i, Instr::Word(w) if *w == word))
            .map(|(s, _)| s)
            .collect();
        specs.dedup();
        if let Some(text) = specs.iter().find_map(|&s| self.param(s, word)) {
            return text;
        }
        let depth = place.before.len();
        let path = |s: &usize| {
            crate::pattern::leading_words(&self.trees[*s])
                .into_iter()
                .filter(|p| {
                    p.get(depth) == Some(&word)
                        && place
                            .before
                            .iter()
                            .zip(p)
                            .all(|(typed, full)| full.starts_with(typed.as_str()))
                })
                .collect::<Vec<_>>()
        };
        if let Some(full) = specs.iter().flat_map(&path).next() {
            let full = full[..=depth].join(" ");
            if let Some(topic) = self.topics.iter().find(|t| t.0 == full) {
                return topic.1.to_owned();
            }
        }
        if let [only] = specs.as_slice() {
            return self.specs[*only].help.to_owned();
        }
        let mut next: Vec<&'static str> = specs
            .iter()
            .flat_map(path)
            .filter_map(|p| p.get(depth + 1).copied())
            .collect();
        next.sort_unstable();
        next.dedup();
        shorten(&next.join(", "), 60)
    }

    fn only_spec(&self, place: &Place<'_>) -> Option<usize> {
        let mut specs = place.matcher.expected().map(|(s, _)| s);
        let first = specs.next()?;
        specs
            .all(|s| s == first)
            .then_some(first)
            .filter(|_| !place.before.is_empty())
    }

    fn usage(&self, spec: usize) -> String {
        let mut text = format!("\nUsage: {}\n", crate::pattern::syntax(&self.trees[spec]));
        let detail = self.specs[spec].detail.trim();
        if !detail.is_empty() {
            text.push_str(detail);
            text.push('\n');
        }
        text
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(['"', '\'', '#'])
        && !name.contains(|c: char| c.is_whitespace() || c == '{' || c == '}')
}

fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width - 3).collect();
    short.push_str("...");
    short
}

fn columns(rows: &[Row]) -> String {
    let width = rows
        .iter()
        .map(|r| r.text.chars().count())
        .max()
        .unwrap_or(0)
        .min(28);
    let mut text = String::new();
    for row in rows {
        let line = format!("  {:width$}  {}", row.text, row.help);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::CommandSpec;

    struct Two;
    impl Names for Two {
        fn list(&self, class: &str) -> Vec<String> {
            match class {
                "interface" => vec![
                    "tap0".into(),
                    "tap1".into(),
                    "host-a".into(),
                    "odd name".into(),
                ],
                _ => Vec::new(),
            }
        }
    }

    fn table() -> CommandTable<()> {
        let spec = |pattern, help, params| CommandSpec {
            pattern,
            help,
            detail: "",
            params,
            handler: (),
        };
        CommandTable::new(vec![
            spec("show version", "Version", &[]),
            spec(
                "show ip fib [table <table:u32>]",
                "IPv4 routes",
                &[("table", "Table number")],
            ),
            spec("show ip neighbor", "Neighbours", &[]),
            spec(
                "set interface state <if:interface> <state:{up|down}>",
                "Admin state",
                &[],
            ),
            spec(
                "create tap [* id <id:u32> | host-if-name <name:word>]",
                "New tap",
                &[("id", "Number of the tap")],
            ),
        ])
        .expect("patterns")
        .with_topics(&[("show ip", "State of IPv4")])
    }

    fn texts(line: &str) -> Vec<String> {
        table()
            .complete(line, line.len(), &Two)
            .into_iter()
            .map(|c| c.text)
            .collect()
    }

    #[test]
    fn completes_words_names_and_choices() {
        assert_eq!(texts(""), ["create", "set", "show"]);
        assert_eq!(texts("s"), ["set", "show"]);
        assert_eq!(texts("show ip "), ["fib", "neighbor"]);
        assert_eq!(texts("se int st ta"), ["tap0", "tap1"]);
        assert_eq!(texts("set interface state tap0 "), ["down", "up"]);
        assert_eq!(texts("create tap id 3 "), ["host-if-name"]);
        assert_eq!(texts("nonsense "), Vec::<String>::new());
        assert_eq!(texts("show \"x"), Vec::<String>::new());
    }

    #[test]
    fn completion_looks_only_before_the_cursor() {
        let found = table().complete("show ip fib", 6, &Two);
        assert_eq!(
            found
                .iter()
                .map(|c| (c.text.as_str(), c.start))
                .collect::<Vec<_>>(),
            [("ip", 5)]
        );
        assert_eq!(found[0].help, "State of IPv4");
        assert_eq!(table().complete("é", 1, &Two).len(), 3);
    }

    #[test]
    fn help_lists_what_may_follow() {
        let help = table().help("show ip fib ", &Two);
        assert!(help.contains("  table  Table number\n"), "{help}");
        assert!(help.contains("  <cr>   IPv4 routes\n"), "{help}");
        assert!(
            help.contains("Usage: show ip fib [table <table>]\n"),
            "{help}"
        );
        let help = table().help("show i", &Two);
        assert_eq!(help, "  ip  State of IPv4\n");
        let help = table().help("create tap id ", &Two);
        assert!(
            help.contains("  <id>  Number of the tap: a number in 0..=4294967295\n"),
            "{help}"
        );
        assert!(
            table()
                .help("show zz", &Two)
                .contains("nothing begins with 'zz'")
        );
        assert!(table().help("zz yy", &Two).contains("unknown word 'zz'"));
    }
}
