//! Patterns compiled to a small instruction list, as a regular-expression machine has (R. Cox,
//! "Regular Expression Matching: the Virtual Machine Approach"): the matcher follows all readings of a
//! line at once, so its time is linear in the line whatever is typed.

use crate::kind::Kind;
use crate::pattern::Item;

/// One instruction. Targets are indices into the same list.
#[derive(Clone, Debug)]
pub(crate) enum Instr {
    /// Take a token that is this literal.
    Word(&'static str),
    /// Take a token that is this argument.
    Arg {
        name: &'static str,
        kind: Kind,
    },
    /// Go on at each of these, the first preferred.
    Split(Vec<usize>),
    Jump(usize),
    /// Forget which options of the set in `slot` were used.
    SetClear(usize),
    /// Go on at each option not yet used, or at the exit.
    SetPick {
        slot: usize,
        options: Vec<usize>,
        exit: usize,
    },
    /// Note the option as used.
    SetMark {
        slot: usize,
        option: u32,
    },
    /// A turn of a named repetition begins or ends.
    Open(&'static str),
    Close,
    /// The command is complete.
    Match,
}

/// Any-order sets a pattern may have: each thread keeps a mask for each.
pub(crate) const SETS: usize = 4;

/// Appends the code of a pattern; gives the entry, or nothing if it has more sets than [`SETS`].
pub(crate) fn compile(items: &[Item], code: &mut Vec<Instr>) -> Option<usize> {
    let entry = code.len();
    let mut compiler = Compiler { code, slots: 0 };
    compiler.sequence(items);
    compiler.code.push(Instr::Match);
    (compiler.slots <= SETS).then_some(entry)
}

struct Compiler<'a> {
    code: &'a mut Vec<Instr>,
    slots: usize,
}

impl Compiler<'_> {
    fn sequence(&mut self, items: &[Item]) {
        for item in items {
            self.item(item);
        }
    }

    /// Room for an instruction whose targets are not known yet.
    fn hole(&mut self) -> usize {
        self.code.push(Instr::Jump(0));
        self.code.len() - 1
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Word(word) => self.code.push(Instr::Word(word)),
            Item::Arg { name, kind } => self.code.push(Instr::Arg {
                name,
                kind: kind.clone(),
            }),
            Item::Optional(body) => {
                let split = self.hole();
                self.sequence(body);
                self.code[split] = Instr::Split(vec![split + 1, self.code.len()]);
            }
            Item::Either(all) => self.either(all),
            Item::AnyOrder(options) => self.any_order(options),
            Item::Repeat {
                name,
                body,
                at_least_one,
            } => self.repeat(*name, body, *at_least_one),
        }
    }

    fn either(&mut self, all: &[Vec<Item>]) {
        let split = self.hole();
        let mut starts = Vec::with_capacity(all.len());
        let mut exits = Vec::with_capacity(all.len());
        for alternative in all {
            starts.push(self.code.len());
            self.sequence(alternative);
            exits.push(self.hole());
        }
        self.code[split] = Instr::Split(starts);
        let end = self.code.len();
        for exit in exits {
            self.code[exit] = Instr::Jump(end);
        }
    }

    fn any_order(&mut self, all: &[Vec<Item>]) {
        let slot = self.slots;
        self.slots += 1;
        self.code.push(Instr::SetClear(slot));
        let pick = self.hole();
        let mut options = Vec::with_capacity(all.len());
        for (option, body) in (0u32..).zip(all) {
            options.push(self.code.len());
            self.code.push(Instr::SetMark { slot, option });
            self.sequence(body);
            self.code.push(Instr::Jump(pick));
        }
        self.code[pick] = Instr::SetPick {
            slot,
            options,
            exit: self.code.len(),
        };
    }

    fn repeat(&mut self, name: Option<&'static str>, body: &[Item], at_least_one: bool) {
        let skip = (!at_least_one).then(|| self.hole());
        let start = self.code.len();
        if let Some(name) = name {
            self.code.push(Instr::Open(name));
        }
        self.sequence(body);
        if name.is_some() {
            self.code.push(Instr::Close);
        }
        let again = self.hole();
        self.code[again] = Instr::Split(vec![start, again + 1]);
        if let Some(skip) = skip {
            self.code[skip] = Instr::Split(vec![start, self.code.len()]);
        }
    }
}
