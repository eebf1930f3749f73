//! The form of a start-up configuration: words and blocks in braces, `#` begins a comment. Bounded in size and depth.

use std::fmt;
use std::iter::Peekable;
use std::vec::IntoIter;

/// Longest text in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// Blocks within blocks.
const MAX_DEPTH: usize = 16;

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct StartupError {
    /// Line, from 1 on. Arguments of a command line are all on the first.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// A word and its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word<'t> {
    pub text: &'t str,
    pub line: usize,
}

impl Word<'_> {
    pub fn error(&self, message: impl fmt::Display) -> StartupError {
        error(self.line, message)
    }
}

fn error(line: usize, message: impl fmt::Display) -> StartupError {
    // What was read is shown in logs.
    let message = message.to_string().replace(char::is_control, "?");
    StartupError { line, message }
}

/// A word or a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item<'t> {
    Word(Word<'t>),
    /// What is in it, and its line.
    Block(Vec<Item<'t>>, usize),
}

impl Item<'_> {
    pub fn error(&self, message: &str) -> StartupError {
        match self {
            Item::Word(word) => word.error(message),
            Item::Block(_, line) => error(*line, message),
        }
    }
}

/// Takes a text apart.
pub(super) fn parse(text: &str) -> Result<Vec<Item<'_>>, StartupError> {
    if text.len() > MAX_BYTES {
        let message = format!(
            "{} bytes are too many: at most {MAX_BYTES} are read",
            text.len()
        );
        return Err(error(1, message));
    }
    // Blocks that are open, each with the line it began at; the first is the text itself.
    let mut open: Vec<(Vec<Item<'_>>, usize)> = vec![(Vec::new(), 1)];
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let line = line.split_once('#').map_or(line, |(before, _)| before);
        for word in words(line) {
            match word {
                "{" if open.len() > MAX_DEPTH => {
                    return Err(error(
                        number,
                        format!("more than {MAX_DEPTH} blocks within each other"),
                    ));
                }
                "{" => open.push((Vec::new(), number)),
                "}" => {
                    let (body, began) = open.pop().unwrap_or_default();
                    let Some((outer, _)) = open.last_mut() else {
                        return Err(error(number, "`}` without a `{` before it"));
                    };
                    outer.push(Item::Block(body, began));
                }
                text => {
                    let word = Word { text, line: number };
                    open.last_mut()
                        .into_iter()
                        .for_each(|(b, _)| b.push(Item::Word(word)));
                }
            }
        }
    }
    match (open.pop(), open.len()) {
        (Some((items, _)), 0) => Ok(items),
        (Some((_, began)), _) => Err(error(began, "`{` without a `}` behind it")),
        (None, _) => Ok(Vec::new()),
    }
}

/// Words of a line; braces are words of their own.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split_whitespace().flat_map(|chunk| {
        chunk
            .split_inclusive(['{', '}'])
            .flat_map(|part| match part.strip_suffix(['{', '}']) {
                Some(word) => [word, &part[word.len()..]],
                None => [part, ""],
            })
            .filter(|word| !word.is_empty())
    })
}

/// The words of one section, to be read one after the other.
pub(super) struct Words<'t> {
    items: Peekable<IntoIter<Item<'t>>>,
    line: usize,
}

impl<'t> Words<'t> {
    pub fn new(items: Vec<Item<'t>>, line: usize) -> Words<'t> {
        let items = items.into_iter().peekable();
        Words { items, line }
    }

    /// The next word; `None` at the end.
    pub fn next_word(&mut self) -> Result<Option<Word<'t>>, StartupError> {
        match self.items.next() {
            None => Ok(None),
            Some(Item::Word(word)) => {
                self.line = word.line;
                Ok(Some(word))
            }
            // A block that belongs to nothing known, as that of VPP's `buffers { page-size { } }` would.
            Some(Item::Block(..)) => self.next_word(),
        }
    }

    /// The next word, when there is one before a block or the end.
    pub fn next_if_word(&mut self) -> Option<Word<'t>> {
        match self.items.next_if(|i| matches!(i, Item::Word(_))) {
            Some(Item::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// Passes over a block that follows.
    pub fn skip_block(&mut self) {
        self.items.next_if(|i| matches!(i, Item::Block(..)));
    }

    /// The word that has to follow `word`.
    pub fn need(&mut self, word: &Word<'_>, what: &str) -> Result<Word<'t>, StartupError> {
        let missing = || word.error(format!("`{}` is not followed by {what}", word.text));
        self.next_if_word().ok_or_else(missing)
    }

    /// The number that has to follow `word`.
    pub fn number(
        &mut self,
        word: &Word<'_>,
        min: usize,
        max: usize,
    ) -> Result<usize, StartupError> {
        let value = self.need(word, "a number")?;
        let number = value.text.parse().ok().filter(|n| (min..=max).contains(n));
        let what = word.text;
        number.ok_or_else(|| {
            value.error(format!(
                "`{what} {}`: it is a number from {min} to {max}",
                value.text
            ))
        })
    }
}
