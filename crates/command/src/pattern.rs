//! The pattern language: text to tree, tree to the syntax line that people read. The grammar is in the
//! crate's documentation.

use crate::kind::Kind;
use thiserror::Error;

/// A pattern that cannot be compiled: a mistake of the programmer, found when the table is built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("command pattern '{pattern}': {why}")]
pub struct PatternError {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub why: String,
}

/// A piece of a pattern.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    Word(&'static str),
    Arg {
        name: &'static str,
        kind: Kind,
    },
    Optional(Vec<Item>),
    Either(Vec<Vec<Item>>),
    AnyOrder(Vec<Vec<Item>>),
    Repeat {
        name: Option<&'static str>,
        body: Vec<Item>,
        at_least_one: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mark {
    Open,
    OpenSet,
    OpenParen,
    OpenRepeat {
        name: Option<&'static str>,
        at_least_one: bool,
    },
    Close,
    CloseParen,
    Bar,
    Arg(&'static str),
    Word(&'static str),
}

fn is_word_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':' | '*' | '+')
}

fn scan(pattern: &'static str) -> Result<Vec<Mark>, String> {
    let mut marks = Vec::new();
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let (mark, len) = match c {
            ' ' | '\n' => {
                rest = &rest[1..];
                continue;
            }
            '[' if rest.starts_with("[*") => (Mark::OpenSet, 2),
            '[' => (Mark::Open, 1),
            ']' => (Mark::Close, 1),
            '(' if rest.starts_with("(+") || rest.starts_with("(*") => {
                let len = rest[2..]
                    .find(|c: char| !is_word_char(c))
                    .unwrap_or(rest.len() - 2);
                let name = (len > 0).then(|| &rest[2..2 + len]);
                (
                    Mark::OpenRepeat {
                        name,
                        at_least_one: rest.starts_with("(+"),
                    },
                    2 + len,
                )
            }
            '(' => (Mark::OpenParen, 1),
            ')' => (Mark::CloseParen, 1),
            '|' => (Mark::Bar, 1),
            '<' => {
                let end = rest.find('>').ok_or("'<' without '>'")?;
                (Mark::Arg(&rest[1..end]), end + 1)
            }
            c if is_word_char(c) => {
                let len = rest.find(|c: char| !is_word_char(c)).unwrap_or(rest.len());
                (Mark::Word(&rest[..len]), len)
            }
            c => return Err(format!("unexpected '{c}'")),
        };
        marks.push(mark);
        rest = &rest[len..];
    }
    Ok(marks)
}

struct Parser {
    marks: Vec<Mark>,
    at: usize,
}

impl Parser {
    fn next(&mut self) -> Option<Mark> {
        let mark = self.marks.get(self.at).copied();
        self.at += 1;
        mark
    }

    /// Alternatives up to `end`, which is consumed (`None`: the end of the pattern).
    fn alternatives(&mut self, end: Option<Mark>) -> Result<Vec<Vec<Item>>, String> {
        let mut all = vec![Vec::new()];
        loop {
            let item = match self.next() {
                mark if mark == end => break,
                None => return Err("a bracket is not closed".into()),
                Some(Mark::Bar) => {
                    all.push(Vec::new());
                    continue;
                }
                Some(mark) => self.item(mark)?,
            };
            if let Some(last) = all.last_mut() {
                last.push(item);
            }
        }
        if all.iter().any(Vec::is_empty) {
            Err("an empty alternative".into())
        } else {
            Ok(all)
        }
    }

    fn item(&mut self, mark: Mark) -> Result<Item, String> {
        Ok(match mark {
            Mark::Word(word) => Item::Word(word),
            Mark::Arg(text) => {
                let (name, kind) = text
                    .split_once(':')
                    .ok_or_else(|| format!("'<{text}>' has no kind"))?;
                Item::Arg {
                    name,
                    kind: Kind::parse(kind)?,
                }
            }
            Mark::Open => Item::Optional(one_or_either(self.alternatives(Some(Mark::Close))?)),
            Mark::OpenParen => Item::Either(self.alternatives(Some(Mark::CloseParen))?),
            Mark::OpenSet => {
                let options = self.alternatives(Some(Mark::Close))?;
                if options.len() > 64 {
                    return Err("more than 64 options in one set".into());
                }
                if options.iter().any(|o| nullable(o)) {
                    return Err("an option of a set may be empty".into());
                }
                Item::AnyOrder(options)
            }
            Mark::OpenRepeat { name, at_least_one } => {
                let body = one_or_either(self.alternatives(Some(Mark::CloseParen))?);
                if nullable(&body) {
                    return Err("the body of a repetition may be empty".into());
                }
                Item::Repeat {
                    name,
                    body,
                    at_least_one,
                }
            }
            Mark::Close | Mark::CloseParen | Mark::Bar => return Err("a bracket too many".into()),
        })
    }
}

fn one_or_either(mut alternatives: Vec<Vec<Item>>) -> Vec<Item> {
    if alternatives.len() == 1 {
        return alternatives.pop().unwrap_or_default();
    }
    vec![Item::Either(alternatives)]
}

fn nullable(items: &[Item]) -> bool {
    items.iter().all(|item| match item {
        Item::Word(_) | Item::Arg { .. } => false,
        Item::Optional(_) | Item::AnyOrder(_) => true,
        Item::Either(all) => all.iter().any(|a| nullable(a)),
        Item::Repeat { at_least_one, .. } => !at_least_one,
    })
}

/// Parses a whole pattern.
pub(crate) fn parse(pattern: &'static str) -> Result<Vec<Item>, PatternError> {
    let fail = |why: String| PatternError {
        pattern: pattern.to_owned(),
        why,
    };
    let mut parser = Parser {
        marks: scan(pattern).map_err(fail)?,
        at: 0,
    };
    let items = one_or_either(parser.alternatives(None).map_err(fail)?);
    if nullable(&items) {
        return Err(fail("it matches the empty line".into()));
    }
    Ok(items)
}

/// The syntax line for people: kinds left out, sets as a row of options.
pub(crate) fn syntax(items: &[Item]) -> String {
    items.iter().map(item_syntax).collect::<Vec<_>>().join(" ")
}

fn item_syntax(item: &Item) -> String {
    match item {
        Item::Word(word) => (*word).to_owned(),
        Item::Arg {
            kind: Kind::Choice(words),
            ..
        } => format!("({})", words.join("|")),
        Item::Arg {
            name,
            kind: Kind::Block,
        } => format!("{{ {name} }}"),
        Item::Arg { name, .. } => format!("<{name}>"),
        Item::Optional(body) => match body.as_slice() {
            [Item::Either(all)] => format!("[{}]", bars(all)),
            _ => format!("[{}]", syntax(body)),
        },
        Item::Either(all) => format!("({})", bars(all)),
        Item::AnyOrder(all) => all
            .iter()
            .map(|o| format!("[{}]", syntax(o)))
            .collect::<Vec<_>>()
            .join(" "),
        Item::Repeat {
            body,
            at_least_one: true,
            ..
        } => format!("{0} [{0}]...", syntax(body)),
        Item::Repeat { body, .. } => format!("[{}]...", syntax(body)),
    }
}

fn bars(all: &[Vec<Item>]) -> String {
    all.iter()
        .map(|a| syntax(a))
        .collect::<Vec<_>>()
        .join(" | ")
}

/// Every argument of a pattern, outermost first, for the reference.
pub(crate) fn arguments(items: &[Item]) -> Vec<(&'static str, &Kind)> {
    let mut found: Vec<(&'static str, &Kind)> = Vec::new();
    for item in items {
        let nested = match item {
            Item::Word(_) => continue,
            Item::Arg { name, kind } => vec![(*name, kind)],
            Item::Optional(body) | Item::Repeat { body, .. } => arguments(body),
            Item::Either(all) | Item::AnyOrder(all) => {
                all.iter().flat_map(|a| arguments(a)).collect()
            }
        };
        for pair in nested {
            if !found.iter().any(|(name, _)| *name == pair.0) {
                found.push(pair);
            }
        }
    }
    found
}

/// The ways a command can begin in literal words only, e.g. `ip route add` and `ip route del`.
/// Optional words are passed over; at most 16 ways are followed.
pub(crate) fn leading_words(items: &[Item]) -> Vec<Vec<&'static str>> {
    let mut paths: Vec<Vec<&'static str>> = vec![Vec::new()];
    for item in items {
        match item {
            Item::Word(word) => paths.iter_mut().for_each(|p| p.push(word)),
            Item::Either(all) if all.iter().all(|a| matches!(a.first(), Some(Item::Word(_)))) => {
                paths = paths
                    .iter()
                    .flat_map(|path| {
                        all.iter().flat_map(|a| leading_words(a)).map(|tail| {
                            let mut longer = path.clone();
                            longer.extend(tail);
                            longer
                        })
                    })
                    .take(16)
                    .collect();
                let plain = all
                    .iter()
                    .all(|a| a.iter().all(|i| matches!(i, Item::Word(_))));
                if !plain {
                    break;
                }
            }
            _ => break,
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_lines() {
        let cases = [
            (
                "set interface ip address [del] <if:interface> <address:prefix>",
                "set interface ip address [del] <if> <address>",
            ),
            (
                "set interface state <if:interface> <state:{up|down}>",
                "set interface state <if> (up|down)",
            ),
            (
                "create tap [* id <id:u32> | host-if-name <n:word>]",
                "create tap [id <id>] [host-if-name <n>]",
            ),
            (
                "ip route ( add | del ) <p:prefix> (+path via <nh:ip>)",
                "ip route (add | del) <p> via <nh> [via <nh>]...",
            ),
            (
                "packet-generator new <stream:block>",
                "packet-generator new { stream }",
            ),
            ("x [a|b] (* <l:u32>)", "x [a | b] [<l>]..."),
        ];
        for (pattern, want) in cases {
            assert_eq!(syntax(&parse(pattern).expect(pattern)), want);
        }
    }

    #[test]
    fn mistakes_are_named() {
        for pattern in [
            "",
            "[a]",
            "a [b",
            "a ]",
            "a (b|)",
            "a <b>",
            "a <b:c>",
            "a <b:u32",
            "a [* [b] | c]",
            "a (* [b])",
            "a é",
        ] {
            assert!(parse(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn leading_words_branch() {
        let items = parse("ip route ( add | del ) <p:prefix>").expect("pattern");
        assert_eq!(
            leading_words(&items),
            [vec!["ip", "route", "add"], vec!["ip", "route", "del"]]
        );
    }

    #[test]
    fn arguments_are_listed_once() {
        let items = parse("a (+x via <n:ip>) [* w <w:u8> | n <n:ip>]").expect("pattern");
        let names: Vec<&str> = arguments(&items).iter().map(|a| a.0).collect();
        assert_eq!(names, ["n", "w"]);
    }
}
