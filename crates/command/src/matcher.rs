//! Runs a compiled table over the tokens of a line, all readings at once.
//!
//! Invariant: no two threads stand at the same instruction with the same used options, so there are at
//! most as many as the table has places, whatever is typed. What a thread has read is a chain in an
//! arena (no recursion, however long the line).

use crate::error::{ErrorKind, ParseError, shown};
use crate::kind::{Accept, Kind, Names, Rank};
use crate::program::Instr;
use crate::token::{Token, TokenKind};
use crate::value::{Args, Value};

/// One reading of the line so far.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) spec: usize,
    pub(crate) pc: usize,
    /// Used options, one bit mask for each set of the pattern.
    used: Vec<u64>,
    /// Last event of this reading in the arena.
    last: Option<usize>,
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

/// All readings of a line up to some token.
#[derive(Clone, Debug)]
pub(crate) struct Matcher<'t> {
    code: &'t [Instr],
    pub(crate) threads: Vec<Thread>,
    arena: Vec<(Option<usize>, Event)>,
    /// A reading that ended by taking the rest of the line; used if no other gets to the end.
    rest: Option<Thread>,
}

/// What a token would be to one thread.
enum Reading {
    Take {
        rank: Rank,
        event: Event,
        word: Option<&'static str>,
    },
    Rest(Event),
}

impl<'t> Matcher<'t> {
    /// Starts at the entries (pc, set slots) of all commands.
    pub(crate) fn new(code: &'t [Instr], entries: &[(usize, usize)]) -> Matcher<'t> {
        let mut matcher = Matcher {
            code,
            threads: Vec::new(),
            arena: Vec::new(),
            rest: None,
        };
        for (spec, &(pc, slots)) in entries.iter().enumerate() {
            let from = matcher.threads.len();
            matcher.follow(
                Thread {
                    spec,
                    pc,
                    used: vec![0; slots],
                    last: None,
                },
                from,
            );
        }
        matcher
    }

    fn record(&mut self, thread: &mut Thread, event: Event) {
        self.arena.push((thread.last, event));
        thread.last = Some(self.arena.len() - 1);
    }

    /// Adds the places that `start` reaches without taking a token, in order of preference. Threads
    /// before `from` belong to other commands and need no comparison.
    fn follow(&mut self, start: Thread, from: usize) {
        let code = self.code;
        let mut visited: Vec<(usize, Vec<u64>)> = Vec::new();
        let mut stack = vec![start];
        while let Some(mut thread) = stack.pop() {
            let known = |v: &(usize, Vec<u64>)| v.0 == thread.pc && v.1 == thread.used;
            if visited.iter().any(known) {
                continue;
            }
            visited.push((thread.pc, thread.used.clone()));
            let next = thread.pc + 1;
            match &code[thread.pc] {
                Instr::Word(_) | Instr::Arg { .. } | Instr::Match => {
                    let same = |t: &Thread| t.pc == thread.pc && t.used == thread.used;
                    if !self.threads[from..].iter().any(same) {
                        self.threads.push(thread);
                    }
                    continue;
                }
                Instr::Split(targets) => {
                    stack.extend(targets.iter().rev().map(|&pc| Thread {
                        pc,
                        ..thread.clone()
                    }));
                    continue;
                }
                Instr::SetPick {
                    slot,
                    options,
                    exit,
                } => {
                    stack.push(Thread {
                        pc: *exit,
                        ..thread.clone()
                    });
                    let free = (0u32..)
                        .zip(options)
                        .filter(|(bit, _)| thread.used[*slot] & (1 << bit) == 0);
                    let free: Vec<Thread> = free
                        .map(|(_, &pc)| Thread {
                            pc,
                            ..thread.clone()
                        })
                        .collect();
                    stack.extend(free.into_iter().rev());
                    continue;
                }
                Instr::Jump(pc) => thread.pc = *pc,
                Instr::SetClear(slot) => {
                    thread.used[*slot] = 0;
                    thread.pc = next;
                }
                Instr::SetMark { slot, option } => {
                    thread.used[*slot] |= 1 << option;
                    thread.pc = next;
                }
                Instr::Open(name) => {
                    self.record(&mut thread, Event::Open(name));
                    thread.pc = next;
                }
                Instr::Close => {
                    self.record(&mut thread, Event::Close);
                    thread.pc = next;
                }
            }
            stack.push(thread);
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
        let mut readings: Vec<(usize, Rank, Event)> = Vec::new();
        let mut words: Vec<&'static str> = Vec::new();
        let mut bad: Option<String> = None;
        let mut rest = None;
        for (index, thread) in self.threads.iter().enumerate() {
            match read(&self.code[thread.pc], source, token, names) {
                Ok(Some(Reading::Take { rank, event, word })) => {
                    if let Some(word) = word.filter(|w| rank == Rank::Prefix && !words.contains(w))
                    {
                        words.push(word);
                    }
                    readings.push((index, rank, event));
                }
                Ok(Some(Reading::Rest(event))) => rest = rest.or(Some((index, event))),
                Ok(None) => {}
                Err(Refusal::Bad(why)) => bad = bad.or(Some(why)),
                Err(Refusal::Ambiguous(choices)) => {
                    words.extend(
                        choices
                            .into_iter()
                            .filter(|w| !words.contains(w))
                            .collect::<Vec<_>>(),
                    );
                }
            }
        }
        let best = readings.iter().map(|r| r.1).min();
        let decided = matches!(best, Some(Rank::Exact | Rank::Specific));
        if words.len() > 1 && !decided {
            return Err(ambiguous(source, token, words));
        }
        if best.is_none() && rest.is_none() {
            let why = bad
                .ok_or_else(|| {
                    ParseError::new(ErrorKind::UnknownWord, source, token.start, String::new())
                })
                .map(|why| ParseError::new(ErrorKind::OutOfRange, source, token.start, why));
            return Err(why.unwrap_or_else(|unknown| unknown));
        }
        if let Some((index, event)) = rest {
            let mut thread = self.threads[index].clone();
            self.record(&mut thread, event);
            self.rest = Some(thread);
        }
        self.advance(readings.into_iter().filter(|r| Some(r.1) == best));
        Ok(())
    }

    fn advance(&mut self, taken: impl Iterator<Item = (usize, Rank, Event)>) {
        let old = std::mem::take(&mut self.threads);
        let mut from = (usize::MAX, 0);
        for (index, _, event) in taken {
            let mut thread = old[index].clone();
            if from.0 != thread.spec {
                from = (thread.spec, self.threads.len());
            }
            self.record(&mut thread, event);
            thread.pc += 1;
            self.follow(thread, from.1);
        }
    }

    /// Whether the line could go on as a command with a rest-of-line argument already taken.
    pub(crate) fn takes_rest(&self) -> bool {
        self.rest.is_some()
    }

    /// The complete reading, if the line may end here: the command's index and its arguments.
    pub(crate) fn finish(&self) -> Option<(usize, Args)> {
        let complete = self
            .threads
            .iter()
            .find(|t| matches!(self.code[t.pc], Instr::Match));
        let thread = complete.or(self.rest.as_ref())?;
        Some((thread.spec, self.args(thread)))
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

enum Refusal {
    Bad(String),
    Ambiguous(Vec<&'static str>),
}

fn read(
    instr: &Instr,
    source: &str,
    token: &Token<'_>,
    names: &dyn Names,
) -> Result<Option<Reading>, Refusal> {
    match instr {
        Instr::Word(word) => {
            let text: &str = &token.text;
            let rank = match () {
                () if token.kind != TokenKind::Word => return Ok(None),
                () if *word == text => Rank::Exact,
                () if word.starts_with(text) => Rank::Prefix,
                () => return Ok(None),
            };
            Ok(Some(Reading::Take {
                rank,
                event: Event::Word(word),
                word: Some(word),
            }))
        }
        Instr::Arg {
            name,
            kind: Kind::Rest,
        } => {
            let value = Value::Text(source[token.start..].trim_end().to_owned());
            Ok(Some(Reading::Rest(Event::Value {
                name,
                offset: token.start,
                value,
            })))
        }
        Instr::Arg { name, kind } => match kind.accept(token, names) {
            Accept::No => Ok(None),
            Accept::Bad(why) => Err(Refusal::Bad(format!("<{name}>: {why}"))),
            Accept::Ambiguous(words) => Err(Refusal::Ambiguous(words)),
            Accept::Yes(rank, value) => {
                let word = match (kind, &value) {
                    (Kind::Choice(words), Value::Text(text)) => {
                        words.iter().copied().find(|w| w == text)
                    }
                    _ => None,
                };
                Ok(Some(Reading::Take {
                    rank,
                    event: Event::Value {
                        name,
                        offset: token.start,
                        value,
                    },
                    word,
                }))
            }
        },
        _ => Ok(None),
    }
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
