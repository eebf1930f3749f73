//! What a line of configuration says: what it is about, what it hangs on, and which line takes it back.
//!
//! Two lines of the same key are about the same thing, and say the same if their values are equal; that is all that the
//! differ ([`crate::diff`]) has to know. A line that is no configuration (`show`, `clear`) has no statement.

mod acls;
mod interfaces;
mod layer2;
mod routing;
mod telemetry;

use parshall_command::{Token, tokenize};

use acls::acls;
use interfaces::{created, settings};
use layer2::layer2;
use routing::routing;
use telemetry::telemetry;

/// How a statement with another value takes the place of an old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its line alone does it; what hangs on it stays.
    InPlace,
    /// The old one is taken back first, with all that hangs on it.
    Replace,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// What it is about: "mtu tap0".
    pub key: String,
    /// What it says of that.
    pub value: String,
    /// The line that makes it so.
    pub set: String,
    /// The line that does when there was another value; `set` where empty.
    pub change_line: String,
    /// The line that takes it back; empty when it goes only with its owner.
    pub unset: String,
    /// How it changes.
    pub change: Change,
    /// Keys that it hangs on.
    pub parents: Vec<String>,
    /// The parent with which it goes without a word.
    pub owner: Option<String>,
    /// The line of its owner says it too.
    pub inline: bool,
}

/// A line cut into words.
struct Words<'l> {
    line: &'l str,
    tokens: Vec<Token<'l>>,
}

impl<'l> Words<'l> {
    fn get(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |t| &t.text)
    }
    fn starts(&self, words: &str) -> Option<usize> {
        let mut n = 0;
        for (i, w) in words.split(' ').enumerate() {
            if self.get(i) != w {
                return None;
            }
            n = i + 1;
        }
        Some(n)
    }
    /// The words as they are written, from `at` on.
    fn rest(&self, at: usize) -> &'l str {
        self.tokens.get(at).map_or("", |t| &self.line[t.start..])
    }
    /// The word after `name`, from `at` on.
    fn after(&self, at: usize, name: &str) -> Option<&str> {
        let mut pairs = self
            .tokens
            .iter()
            .skip(at)
            .zip(self.tokens.iter().skip(at + 1));
        pairs.find(|(n, _)| n.text == name).map(|(_, v)| &*v.text)
    }
    /// The line without `names` and the word behind each.
    fn without(&self, at: usize, names: &[&str]) -> String {
        let (mut out, mut skip) = (Vec::new(), false);
        for t in self.tokens.iter().skip(at) {
            if !std::mem::take(&mut skip) {
                if names.contains(&&*t.text) {
                    skip = true;
                } else {
                    out.push(&self.line[t.start..t.end]);
                }
            }
        }
        out.join(" ")
    }
}

/// Key of an interface.
pub fn interface(name: &str) -> String {
    format!("interface {name}")
}

fn one(key: String, value: &str, set: &str, unset: String) -> Statement {
    Statement {
        key,
        value: value.into(),
        set: set.into(),
        change_line: String::new(),
        unset,
        change: Change::InPlace,
        parents: Vec::new(),
        owner: None,
        inline: false,
    }
}

impl Statement {
    /// It is a setting of an interface and goes with it.
    fn of(self, name: &str) -> Statement {
        self.part_of(interface(name))
    }
    /// It is a part of something and goes with it.
    fn part_of(mut self, owner: String) -> Statement {
        self.parents.push(owner.clone());
        self.owner = Some(owner);
        self
    }
    fn on(mut self, parent: String) -> Statement {
        self.parents.push(parent);
        self
    }
    fn replaced(self) -> Statement {
        Statement {
            change: Change::Replace,
            ..self
        }
    }
}

/// What a line says; nothing when it is no configuration.
pub fn statements(line: &str) -> Vec<Statement> {
    let Ok(tokens) = tokenize(line) else {
        return Vec::new();
    };
    let words = Words { line, tokens };
    type Reader = fn(&Words<'_>, &str) -> Option<Vec<Statement>>;
    let readers: [Reader; 6] = [created, settings, routing, telemetry, layer2, acls];
    readers
        .iter()
        .find_map(|r| r(&words, line))
        .unwrap_or_default()
}
