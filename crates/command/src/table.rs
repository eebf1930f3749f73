//! The table of all commands: from a line to the command that is meant, or to an error that helps.

use crate::error::{ErrorKind, ParseError, distance, shown};
use crate::kind::Names;
use crate::matcher::{Matcher, Start};
use crate::pattern::{self, Item, PatternError};
use crate::program::{self, Instr};
use crate::token::{Token, TokenKind, tokenize};
use crate::value::Args;

/// A command, described once. `H` is whatever executes it, or `()`.
#[derive(Clone, Debug)]
pub struct CommandSpec<H> {
    /// The grammar; see the crate's documentation.
    pub pattern: &'static str,
    /// One line that says what it does, without a full stop.
    pub help: &'static str,
    /// More for the reference: effects, defaults, an example. May be empty.
    pub detail: &'static str,
    /// What arguments and option words mean: (name or word, text with unit and default).
    pub params: &'static [(&'static str, &'static str)],
    /// Who executes it.
    pub handler: H,
}

/// A line that was understood.
#[derive(Debug)]
pub struct Matched<'t, H> {
    /// The command.
    pub spec: &'t CommandSpec<H>,
    /// What the line said.
    pub args: Args,
}

/// All commands, compiled.
#[derive(Clone, Debug)]
pub struct CommandTable<H> {
    pub(crate) specs: Vec<CommandSpec<H>>,
    pub(crate) trees: Vec<Vec<Item>>,
    pub(crate) topics: Vec<(&'static str, &'static str)>,
    code: Vec<Instr>,
    start: Start,
}

/// How many expected words an error lists.
const LISTED: usize = 12;

impl<H> CommandTable<H> {
    /// Compiles the table.
    ///
    /// # Errors
    /// The first pattern that breaks the pattern language, or that is there twice.
    pub fn new(specs: Vec<CommandSpec<H>>) -> Result<CommandTable<H>, PatternError> {
        let mut code = Vec::new();
        let mut trees: Vec<Vec<Item>> = Vec::with_capacity(specs.len());
        let mut entries = Vec::with_capacity(specs.len());
        for spec in &specs {
            let tree = pattern::parse(spec.pattern)?;
            if trees.contains(&tree) {
                return Err(PatternError {
                    pattern: spec.pattern.to_owned(),
                    why: "it is there twice".into(),
                });
            }
            let too_many = || PatternError {
                pattern: spec.pattern.to_owned(),
                why: format!("it has more than {} sets", program::SETS),
            };
            entries.push(program::compile(&tree, &mut code).ok_or_else(too_many)?);
            trees.push(tree);
        }
        let start = Matcher::start(&code, &entries);
        Ok(CommandTable {
            specs,
            trees,
            topics: Vec::new(),
            code,
            start,
        })
    }

    /// Adds help for words that lead to many commands: ("show ip", "State of IPv4").
    #[must_use]
    pub fn with_topics(mut self, topics: &[(&'static str, &'static str)]) -> CommandTable<H> {
        self.topics.extend_from_slice(topics);
        self
    }

    /// All commands, in table order.
    pub fn specs(&self) -> &[CommandSpec<H>] {
        &self.specs
    }

    /// Ready for a line that begins with `first`.
    pub(crate) fn matcher(&self, first: Option<&Token<'_>>) -> Matcher<'_> {
        Matcher::begin(&self.code, &self.start, first)
    }

    /// Understands one command line. Earlier commands of the table win when two fit equally well.
    ///
    /// # Errors
    /// What is wrong, where, and what would fit.
    pub fn parse(&self, line: &str, names: &dyn Names) -> Result<Matched<'_, H>, ParseError> {
        let tokens = tokenize(line)?;
        if tokens.is_empty() {
            return Err(ParseError::new(
                ErrorKind::Empty,
                line,
                line.len(),
                "no command",
            ));
        }
        let parsed = self.parse_tokens(line, &tokens, names);
        match parsed {
            Err(e) if e.kind == ErrorKind::Ambiguous && tokens.len() > 1 => {
                self.parse_by_what_follows(e, line, &tokens, names)
            }
            parsed => parsed,
        }
    }

    /// Reads a line whose first word abbreviates several: the one that the rest of the line fits to is
    /// meant (`sh int` is no way to begin `shutdown`).
    fn parse_by_what_follows(
        &self,
        ambiguous: ParseError,
        line: &str,
        tokens: &[Token<'_>],
        names: &dyn Names,
    ) -> Result<Matched<'_, H>, ParseError> {
        let first = &tokens[0];
        if line[..first.end].chars().count() < ambiguous.column {
            return Err(ambiguous);
        }
        let mut tokens = tokens.to_vec();
        let mut best = Err(ambiguous.clone());
        for word in &ambiguous.candidates {
            tokens[0].text = word.clone().into();
            let tried = self.parse_tokens(line, &tokens, names);
            best = match (best, tried) {
                (Ok(_), Ok(_)) => return Err(ambiguous),
                (Ok(one), Err(_)) => Ok(one),
                (Err(_), Ok(one)) => Ok(one),
                // The reading that went furthest has the most helpful complaint.
                (Err(a), Err(b)) => Err(if b.column > a.column { b } else { a }),
            };
        }
        best
    }

    fn parse_tokens(
        &self,
        line: &str,
        tokens: &[Token<'_>],
        names: &dyn Names,
    ) -> Result<Matched<'_, H>, ParseError> {
        let mut matcher = self.matcher(tokens.first());
        for (index, token) in tokens.iter().enumerate() {
            if let Err(error) = matcher.step(line, token, names) {
                return match matcher.finish_with_rest() {
                    Some(found) => Ok(self.matched(found)),
                    None => Err(self.explain(error, line, tokens, index, &matcher)),
                };
            }
        }
        match matcher.finish() {
            Some(found) => Ok(self.matched(found)),
            None => Err(self.missing(line, tokens, &matcher)),
        }
    }

    fn matched(&self, (spec, args): (usize, Args)) -> Matched<'_, H> {
        Matched {
            spec: &self.specs[spec],
            args,
        }
    }

    fn missing(&self, line: &str, tokens: &[Token<'_>], matcher: &Matcher<'_>) -> ParseError {
        let end = tokens.last().map_or(0, |t| t.end);
        let expected = expectations(matcher);
        let message = format!("incomplete command: expected {}", listed(&expected));
        ParseError::new(ErrorKind::Missing, line, end, message).with_candidates(expected)
    }

    /// Turns the matcher's bare refusal into the most helpful error.
    fn explain(
        &self,
        error: ParseError,
        line: &str,
        tokens: &[Token<'_>],
        index: usize,
        matcher: &Matcher<'_>,
    ) -> ParseError {
        if error.kind != ErrorKind::UnknownWord {
            return error;
        }
        let token = &tokens[index];
        let word = shown(&line[token.start..token.end]);
        let fail = |kind, message: String| ParseError::new(kind, line, token.start, message);
        let waiting: Vec<&Instr> = matcher.expected().map(|e| e.1).collect();
        let expected = expectations(matcher);
        if waiting.iter().all(|i| matches!(i, Instr::Match)) {
            return fail(
                ErrorKind::Trailing,
                format!("'{word}' is too much: the command ends before it"),
            );
        }
        let only_words = waiting
            .iter()
            .all(|i| matches!(i, Instr::Word(_) | Instr::Match));
        if !only_words {
            let message = format!("'{word}' does not fit: expected {}", listed(&expected));
            return fail(ErrorKind::BadValue, message).with_candidates(expected);
        }
        let near = self.nearest(tokens, index, matcher);
        if near.is_empty() {
            let message = format!("unknown word '{word}': expected {}", listed(&expected));
            return fail(ErrorKind::UnknownWord, message).with_candidates(expected);
        }
        let message = format!("unknown word '{word}'; did you mean: {}?", near.join(", "));
        fail(ErrorKind::UnknownWord, message).with_candidates(near)
    }

    /// Corrections of the wrong word itself, as far as the words before it were right; then commands
    /// that are near to the whole line, in any order of their words.
    fn nearest(&self, tokens: &[Token<'_>], index: usize, matcher: &Matcher<'_>) -> Vec<String> {
        let typed: Vec<&str> = tokens
            .iter()
            .take_while(|t| t.kind == TokenKind::Word)
            .take(6)
            .map(|t| &*t.text)
            .collect();
        let Some(wrong) = typed.get(index) else {
            return Vec::new();
        };
        let mut scored: Vec<(usize, String)> = Vec::new();
        for (spec, instr) in matcher.expected() {
            let Instr::Word(word) = instr else { continue };
            let Some(cost) = word_cost(wrong, word) else {
                continue;
            };
            // Words behind the wrong one tell more: then whole commands are the better advice.
            let behind = 2 * (typed.len() - 1 - index);
            scored.push((cost + behind, self.corrected(spec, index, word, &typed)));
        }
        for tree in &self.trees {
            for path in pattern::leading_words(tree) {
                if let Some(cost) = line_cost(&typed, &path) {
                    scored.push((cost, path.join(" ")));
                }
            }
        }
        scored.sort_by(|a, b| (a.0, a.1.len(), &a.1).cmp(&(b.0, b.1.len(), &b.1)));
        let mut near: Vec<String> = Vec::new();
        let best = scored.first().map_or(0, |s| s.0);
        for (cost, text) in scored {
            if near.len() < 3 && cost <= best + 1 && !near.contains(&text) {
                near.push(text);
            }
        }
        near
    }

    /// The line up to the wrong word with that word put right: in full words where the command begins
    /// with them, else only the word.
    fn corrected(&self, spec: usize, index: usize, word: &str, typed: &[&str]) -> String {
        let fits = |path: &Vec<&'static str>| {
            path.get(index) == Some(&word)
                && typed[..index]
                    .iter()
                    .zip(path)
                    .all(|(t, p)| p.starts_with(t))
        };
        match pattern::leading_words(&self.trees[spec])
            .into_iter()
            .find(fits)
        {
            Some(path) => path[..=index].join(" "),
            None => word.to_owned(),
        }
    }
}

/// The cost of having meant `word`; `None` when it is too far off to suggest.
fn word_cost(typed: &str, word: &str) -> Option<usize> {
    if word.starts_with(typed) {
        return Some(0);
    }
    let limit = (typed.len().max(3)) / 3;
    let whole = distance(typed, word);
    // An abbreviation may be misspelt too: compare with the beginning of the word.
    let head = distance(typed, word.get(..typed.len()).unwrap_or(word)) + 1;
    let cost = whole.min(head);
    (cost <= limit.max(1) + 1 && cost < typed.len()).then_some(cost)
}

/// The cost of having meant the command that begins with `path`.
fn line_cost(typed: &[&str], path: &[&'static str]) -> Option<usize> {
    let straight: Option<usize> = typed.iter().zip(path).map(|(t, p)| word_cost(t, p)).sum();
    let covered = typed.len() >= path.len().min(2);
    let missing = path.len().saturating_sub(typed.len());
    if let Some(cost) = straight.filter(|_| covered) {
        return Some(cost + missing.min(2));
    }
    let anywhere: Option<usize> = typed
        .iter()
        .map(|t| path.iter().filter_map(|p| word_cost(t, p)).min())
        .sum();
    anywhere
        .filter(|_| typed.len() > 1)
        .map(|cost| cost + missing + 2)
}

/// What may come next, each once, as shown in an error.
fn expectations(matcher: &Matcher<'_>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for (_, instr) in matcher.expected() {
        let text = match instr {
            Instr::Word(word) => (*word).to_owned(),
            Instr::Arg { name, kind } => format!("<{name}> ({})", kind.describe()),
            _ => continue,
        };
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all
}

fn listed(expected: &[String]) -> String {
    match expected {
        [] => "the end of the line".to_owned(),
        _ if expected.len() > LISTED => format!("one of: {}, ...", expected[..LISTED].join(", ")),
        [one] => one.clone(),
        _ => format!("one of: {}", expected.join(", ")),
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
