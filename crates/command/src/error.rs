//! What can be wrong with a command line, always with the column where it is wrong; and the edit
//! distance behind "did you mean".

use std::fmt;

/// The class of a mistake, for programs; people read [`ParseError::message`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Nothing but blanks and comments.
    Empty,
    /// A word that nothing starts with here.
    UnknownWord,
    /// An abbreviation of several words.
    Ambiguous,
    /// The line ends before the command does.
    Missing,
    /// A word of the wrong form, such as a letter in a number.
    BadValue,
    /// The right form but outside the allowed range.
    OutOfRange,
    /// Words after the end of the command.
    Trailing,
    /// A quote or brace that is never closed: more lines might close it.
    Unclosed,
    /// A brace closed that was never opened.
    Unopened,
}

/// A command line that cannot be executed, and where it goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The class of the mistake.
    pub kind: ErrorKind,
    /// Line within the given text, from 1.
    pub line: usize,
    /// Column within that line in characters, from 1.
    pub column: usize,
    /// One sentence, without the place.
    pub message: String,
    /// What would fit: the candidates of an ambiguity, the nearest commands, the expected words.
    pub candidates: Vec<String>,
    /// The line the mistake is in, cut to a printable length around the column.
    pub excerpt: String,
    /// Characters cut off on the left of `excerpt`.
    cut: usize,
}

/// Longest excerpt shown, in characters.
const EXCERPT: usize = 100;

impl ParseError {
    /// An error at byte `offset` of `source`.
    pub fn new(
        kind: ErrorKind,
        source: &str,
        offset: usize,
        message: impl Into<String>,
    ) -> ParseError {
        let offset = floor_boundary(source, offset);
        let before = &source[..offset];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        let line_end = source[offset..]
            .find('\n')
            .map_or(source.len(), |i| offset + i);
        let column = source[line_start..offset].chars().count();
        let cut = column.saturating_sub(EXCERPT * 3 / 4);
        let excerpt = source[line_start..line_end]
            .chars()
            .skip(cut)
            .take(EXCERPT)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        ParseError {
            kind,
            line: before.matches('\n').count() + 1,
            column: column + 1,
            message: message.into(),
            candidates: Vec::new(),
            excerpt,
            cut,
        }
    }

    pub(crate) fn with_candidates(mut self, candidates: Vec<String>) -> ParseError {
        self.candidates = candidates;
        self
    }

    /// The message, then the line with a caret under the mistake.
    pub fn render(&self) -> String {
        let indent = " ".repeat(self.column - 1 - self.cut.min(self.column - 1));
        format!("{self}\n  {}\n  {indent}^", self.excerpt)
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.line > 1 {
            write!(f, " (line {}, column {})", self.line, self.column)
        } else {
            write!(f, " (column {})", self.column)
        }
    }
}

impl std::error::Error for ParseError {}

/// The greatest character boundary not beyond `offset`.
pub(crate) fn floor_boundary(text: &str, offset: usize) -> usize {
    let mut at = offset.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// `word` as shown in a message: cut when long, control characters made visible.
pub fn shown(word: &str) -> String {
    let mut text: String = word.chars().take(40).flat_map(char::escape_debug).collect();
    if word.chars().nth(40).is_some() {
        text.push_str("...");
    }
    text
}

/// Optimal string alignment distance: insertions, deletions, replacements and swaps of neighbours.
/// Words are cut at 32 bytes, so the cost is bounded whatever is typed.
pub fn distance(a: &str, b: &str) -> usize {
    let a = &a.as_bytes()[..a.len().min(32)];
    let b = &b.as_bytes()[..b.len().min(32)];
    let mut rows = [[0usize; 33]; 33];
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        rows[i][0] = i;
        for j in 1..=b.len() {
            let cost = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1)
                .min(rows[i][j - 1] + 1)
                .min(rows[i - 1][j - 1] + cost);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_swaps_once() {
        assert_eq!(distance("show", "shwo"), 1);
        assert_eq!(distance("interface", "interfces"), 2);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }

    #[test]
    fn the_caret_stands_under_the_mistake() {
        let error = ParseError::new(
            ErrorKind::UnknownWord,
            "één twee",
            "één ".len(),
            "unknown word 'twee'",
        );
        assert_eq!(error.column, 5);
        assert_eq!(
            error.render(),
            "unknown word 'twee' (column 5)\n  één twee\n      ^"
        );
    }

    #[test]
    fn a_long_line_is_cut_around_the_mistake() {
        let line = format!("{} here {}", "x".repeat(500), "y".repeat(500));
        let error = ParseError::new(ErrorKind::UnknownWord, &line, 501, "bad");
        assert_eq!(error.column, 502);
        let rendered = error.render();
        let lines: Vec<&str> = rendered.lines().collect();
        assert_eq!(lines[1].chars().count(), 102);
        let caret = lines[2].find('^').expect("a caret");
        assert!(lines[1][caret..].starts_with("here"));
    }

    #[test]
    fn lines_are_counted() {
        let error = ParseError::new(ErrorKind::Trailing, "a\nb c", 4, "bad");
        assert_eq!((error.line, error.column), (2, 3));
        assert_eq!(error.to_string(), "bad (line 2, column 3)");
        assert_eq!(error.excerpt, "b c");
    }
}
