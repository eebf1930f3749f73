//! Runs a compiled table over the tokens of a line, all readings at once.
//!
//! Invariant: no two threads stand at the same instruction with the same used options, so there are at
//! most as many as the table has places, whatever is typed. What a thread has read is a chain in an
//! arena (no recursion, however long the line).

use crate::error::{ErrorKind, ParseError, shown};
use crate::kind::{Accept, Kind, Names, Rank};
use crate::program::{Instr, SETS};
use crate::token::{Token, TokenKind};
use crate::value::{Args, Value};

/// One reading of the line so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread {
    pub(crate) spec: usize,
    pub(crate) pc: usize,
    /// Used options, one bit mask for each set of the pattern.
    used: [u64; SETS],
    /// Last event of this reading in the arena.
    last: Option<usize>,
}

impl Thread {
    /// The same reading at another place.
    fn at(&self, pc: usize) -> Thread {
        Thread { pc, ..*self }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Word(&'static str),
    Value {
        name: &'static str,
        offset: usize,
        value: Value,
    },
    Open(&'static str),
    Close,
}

/// The readings of the empty line, worked out once for a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Start {
    threads: Vec<Thread>,
    arena: Arena,
}

type Arena = Vec<(Option<usize>, Event)>;

/// All readings of a line up to some token.
#[derive(Clone, Debug)]
pub(crate) struct Matcher<'t> {
    code: &'t [Instr],
    pub(crate) threads: Vec<Thread>,
    arena: Arena,
    /// A reading that ended by taking the rest of the line; used if no other gets to the end.
    rest: Option<Thread>,
}

/// What a token is to one thread.
struct Reading {
    rank: Rank,
    event: Event,
    /// The literal or choice it is, for the list of an ambiguity.
    word: Option<&'static str>,
}

impl<'t> Matcher<'t> {
    /// The readings of the empty line, from the entries of all commands.
    pub(crate) fn start(code: &'t [Instr], entries: &[usize]) -> Start {
        let mut matcher = Matcher::begin(code, &Start::default(), None);
        for (spec, &pc) in entries.iter().enumerate() {
            let from = matcher.threads.len();
            let used = [0; SETS];
            matcher.follow(
                Thread {
                    spec,
                    pc,
                    used,
                    last: None,
                },
                from,
            );
        }
        Start {
            threads: matcher.threads,
            arena: matcher.arena,
        }
    }

    /// Ready for the first token. If it is known, commands that begin with another word are left out
    /// from the outset, unless all do (then they are what was expected).
    pub(crate) fn begin(
        code: &'t [Instr],
        start: &Start,
        first: Option<&Token<'_>>,
    ) -> Matcher<'t> {
        let may_begin = |thread: &&Thread| match (&code[thread.pc], first) {
            (Instr::Word(word), Some(token)) => begins(word, token),
            _ => true,
        };
        let mut threads: Vec<Thread> = start.threads.iter().filter(may_begin).copied().collect();
        if threads.is_empty() {
            threads.clone_from(&start.threads);
        }
        Matcher {
            code,
            threads,
            arena: start.arena.clone(),
            rest: None,
        }
    }

    fn record(&mut self, thread: &mut Thread, event: Event) {
        self.arena.push((thread.last, event));
        thread.last = Some(self.arena.len() - 1);
    }

    /// Adds the places that `start` reaches without taking a token, in order of preference. Threads
    /// before `from` belong to other commands and need no comparison.
    fn follow(&mut self, start: Thread, from: usize) {
        let code = self.code;
        let mut visited: Vec<(usize, [u64; SETS])> = Vec::new();
        let mut stack = vec![start];
        while let Some(mut thread) = stack.pop() {
            let instr = &code[thread.pc];
            if waits(instr) {
                let same = |t: &Thread| t.pc == thread.pc && t.used == thread.used;
                if !self.threads[from..].iter().any(same) {
                    self.threads.push(thread);
                }
                continue;
            }
            if visited
                .iter()
                .any(|v| v.0 == thread.pc && v.1 == thread.used)
            {
                continue;
            }
            visited.push((thread.pc, thread.used));
            // The stack is last in, first out: the preferred way goes on top.
            match instr {
                Instr::Split(targets) => {
                    stack.extend(targets.iter().rev().map(|&pc| thread.at(pc)))
                }
                Instr::SetPick {
                    slot,
                    options,
                    exit,
                } => {
                    stack.push(thread.at(*exit));
                    let free = |option: &usize| thread.used[*slot] & (1 << option) == 0;
                    let free = (0..options.len()).rev().filter(free);
                    stack.extend(free.map(|option| thread.at(options[option])));
                }
                _ => {
                    self.pass(instr, &mut thread);
                    stack.push(thread);
                }
            }
        }
    }

    /// Executes an instruction that neither waits nor forks.
    fn pass(&mut self, instr: &Instr, thread: &mut Thread) {
        thread.pc += 1;
        match instr {
            Instr::Jump(pc) => thread.pc = *pc,
            Instr::SetClear(slot) => thread.used[*slot] = 0,
            Instr::SetMark { slot, option } => thread.used[*slot] |= 1 << option,
            Instr::Open(name) => self.record(thread, Event::Open(name)),
            Instr::Close => self.record(thread, Event::Close),
            _ => {}
        }
    }

    /// Takes one token. On an error the threads stay as they were, so the caller can say what was
    /// expected.
    pub(crate) fn step(
        &mut self,
        source: &str,
        token: &Token<'_>,
        names: &dyn Names,
    ) -> Result<(), ParseError> {
        let mut found = Found::default();
        for (index, thread) in self.threads.iter().enumerate() {
            found.look(index, &self.code[thread.pc], source, token, names);
        }
        let best = found.readings.iter().map(|r| r.1.rank).min();
        if best.is_none_or(|rank| rank > Rank::Specific) && found.words.len() > 1 {
            return Err(ambiguous(source, token, found.words));
        }
        if best.is_none() && found.rest.is_none() {
            let (kind, why) = match found.bad {
                Some(why) => (ErrorKind::OutOfRange, why),
                None => (ErrorKind::UnknownWord, String::new()),
            };
            return Err(ParseError::new(kind, source, token.start, why));
        }
        if let Some((index, event)) = found.rest {
            let mut thread = self.threads[index];
            self.record(&mut thread, event);
            self.rest = Some(thread);
        }
        let taken = found.readings.into_iter();
        self.advance(
            taken
                .filter(|r| Some(r.1.rank) == best)
                .map(|r| (r.0, r.1.event)),
        );
        Ok(())
    }

    fn advance(&mut self, taken: impl Iterator<Item = (usize, Event)>) {
        let old = std::mem::take(&mut self.threads);
        let mut from = (usize::MAX, 0);
        for (index, event) in taken {
            let mut thread = old[index];
            if from.0 != thread.spec {
                from = (thread.spec, self.threads.len());
            }
            self.record(&mut thread, event);
            thread.pc += 1;
            self.follow(thread, from.1);
        }
    }

    /// The complete reading, if the line may end here: the command's index and its arguments.
    pub(crate) fn finish(&self) -> Option<(usize, Args)> {
        let complete = |t: &&Thread| matches!(self.code[t.pc], Instr::Match);
        let thread = self.threads.iter().find(complete);
        thread
            .map(|t| (t.spec, self.args(t)))
            .or_else(|| self.finish_with_rest())
    }

    /// The reading that took the rest of the line, for when no other goes on.
    pub(crate) fn finish_with_rest(&self) -> Option<(usize, Args)> {
        self.rest.as_ref().map(|t| (t.spec, self.args(t)))
    }

    fn args(&self, thread: &Thread) -> Args {
        let mut events = Vec::new();
        let mut at = thread.last;
        while let Some((before, event)) = at.and_then(|i| self.arena.get(i)) {
            events.push(event);
            at = *before;
        }
        let mut open: Vec<(&'static str, Args)> = Vec::new();
        let mut args = Args::default();
        for event in events.into_iter().rev() {
            match event {
                Event::Word(word) => args.push_word(word),
                Event::Value {
                    name,
                    offset,
                    value,
                } => args.push_value(name, *offset, value.clone()),
                Event::Open(name) => open.push((name, std::mem::take(&mut args))),
                Event::Close => {
                    if let Some((name, mut outer)) = open.pop() {
                        outer.push_group(name, args);
                        args = outer;
                    }
                }
            }
        }
        args
    }

    /// The instructions that wait for the next token.
    pub(crate) fn expected(&self) -> impl Iterator<Item = (usize, &'t Instr)> + '_ {
        let code = self.code;
        self.threads.iter().map(move |t| (t.spec, &code[t.pc]))
    }
}

/// What one token is to all threads.
#[derive(Default)]
struct Found {
    readings: Vec<(usize, Reading)>,
    /// The first thread that takes the rest of the line.
    rest: Option<(usize, Event)>,
    /// Literals and choices that the token abbreviates.
    words: Vec<&'static str>,
    /// The first reason why an argument of the right form is not allowed.
    bad: Option<String>,
}

impl Found {
    fn look(
        &mut self,
        index: usize,
        instr: &Instr,
        source: &str,
        token: &Token<'_>,
        names: &dyn Names,
    ) {
        match instr {
            Instr::Word(word) if begins(word, token) => {
                let rank = if *word == token.text {
                    Rank::Exact
                } else {
                    Rank::Prefix
                };
                self.take(
                    index,
                    Reading {
                        rank,
                        event: Event::Word(word),
                        word: Some(word),
                    },
                );
            }
            Instr::Arg {
                name,
                kind: Kind::Rest,
            } => {
                let value = Value::Text(source[token.start..].trim_end().to_owned());
                let event = Event::Value {
                    name,
                    offset: token.start,
                    value,
                };
                self.rest.get_or_insert((index, event));
            }
            Instr::Arg { name, kind } => match kind.accept(token, names) {
                Accept::No => {}
                Accept::Bad(why) => {
                    self.bad.get_or_insert_with(|| format!("<{name}>: {why}"));
                }
                Accept::Ambiguous(words) => {
                    words.into_iter().for_each(|word| self.abbreviates(word))
                }
                Accept::Yes(rank, value) => {
                    let word = kind.choice(&value);
                    let event = Event::Value {
                        name,
                        offset: token.start,
                        value,
                    };
                    self.take(index, Reading { rank, event, word });
                }
            },
            _ => {}
        }
    }

    fn take(&mut self, index: usize, reading: Reading) {
        if let Some(word) = reading.word.filter(|_| reading.rank == Rank::Prefix) {
            self.abbreviates(word);
        }
        self.readings.push((index, reading));
    }

    fn abbreviates(&mut self, word: &'static str) {
        if !self.words.contains(&word) {
            self.words.push(word);
        }
    }
}

/// Whether the token is this literal or an abbreviation of it.
fn begins(word: &str, token: &Token<'_>) -> bool {
    token.kind == TokenKind::Word && word.starts_with(&*token.text)
}

/// Whether a thread stays at this instruction until the next token.
fn waits(instr: &Instr) -> bool {
    matches!(instr, Instr::Word(_) | Instr::Arg { .. } | Instr::Match)
}

fn ambiguous(source: &str, token: &Token<'_>, words: Vec<&'static str>) -> ParseError {
    let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    words.sort();
    let message = format!(
        "'{}' is ambiguous: {}",
        shown(&token.text),
        words.join(", ")
    );
    ParseError::new(ErrorKind::Ambiguous, source, token.start, message).with_candidates(words)
}
