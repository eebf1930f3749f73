//! Reads words, numbers, addresses and ranges from a stream's text, and says where it went wrong.
//!
//! White space separates and is otherwise of no matter; a backslash before it too, so that scripts
//! written for VPP with continued lines are read as they are.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// What is wrong with a stream's text, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ParseError {
    /// What was found and what is allowed.
    pub message: String,
    /// Byte offset in the text.
    pub at: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl ParseError {
    /// An error at byte `at` of `text`.
    pub(super) fn new(text: &str, at: usize, message: impl Into<String>) -> ParseError {
        let before = text.get(..at).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        ParseError {
            message: message.into(),
            at,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// One value, or two with the way from one to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub first: u128,
    /// `None` for a single value.
    pub last: Option<u128>,
    pub random: bool,
}

/// A place in a text, moving forward.
#[derive(Clone)]
pub(super) struct Scanner<'t> {
    pub text: &'t str,
    pub at: usize,
    /// Where it ends for us: the closing brace of the part that is read.
    end: usize,
}

impl<'t> Scanner<'t> {
    pub fn new(text: &'t str) -> Scanner<'t> {
        Scanner {
            text,
            at: 0,
            end: text.len(),
        }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..self.end).unwrap_or("")
    }

    /// Moves over white space and continued lines.
    pub fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            let trimmed = match trimmed.strip_prefix('\\') {
                Some(after) if after.is_empty() || after.starts_with(char::is_whitespace) => after,
                _ => trimmed,
            };
            if trimmed.len() == rest.len() {
                return;
            }
            self.at += rest.len() - trimmed.len();
        }
    }

    pub fn at_end(&mut self) -> bool {
        self.skip();
        self.rest().is_empty()
    }

    /// The next word, for messages and decisions: up to white space or a brace.
    pub fn peek(&mut self) -> &'t str {
        self.skip();
        let rest = self.rest();
        let brace = rest.starts_with(['{', '}']);
        if brace {
            return &rest[..1];
        }
        rest.split(|c: char| c.is_whitespace() || matches!(c, '{' | '}'))
            .next()
            .unwrap_or("")
    }

    /// Reads a word.
    pub fn word(&mut self, what: &str) -> Result<&'t str, ParseError> {
        let word = self.peek();
        if word.is_empty() || word.starts_with(['{', '}']) {
            return Err(self.expected(what));
        }
        self.at += word.len();
        Ok(word)
    }

    /// Moves over this keyword if it comes next, as a whole word.
    pub fn keyword(&mut self, keyword: &str) -> bool {
        let hit = self.peek().eq_ignore_ascii_case(keyword);
        if hit {
            self.at += keyword.len();
        }
        hit
    }

    /// Moves over these characters if they come next, whatever follows them.
    pub fn symbol(&mut self, symbol: &str) -> bool {
        self.skip();
        let hit = self.rest().starts_with(symbol);
        if hit {
            self.at += symbol.len();
        }
        hit
    }

    pub fn expect(&mut self, symbol: &str) -> Result<(), ParseError> {
        if self.symbol(symbol) {
            Ok(())
        } else {
            Err(self.expected(&format!("`{symbol}`")))
        }
    }

    /// Reads the braces that come next and gives a scanner of what is between them.
    pub fn braces(&mut self) -> Result<Scanner<'t>, ParseError> {
        self.expect("{")?;
        let mut depth = 1;
        for (i, c) in self.rest().char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => continue,
            }
            if depth == 0 {
                let inner = Scanner {
                    text: self.text,
                    at: self.at,
                    end: self.at + i,
                };
                self.at += i + 1;
                return Ok(inner);
            }
        }
        let open = self.text[..self.at].rfind('{').unwrap_or(0);
        Err(ParseError::new(self.text, open, "this `{` is not closed"))
    }

    /// An error at the next word.
    pub fn error(&mut self, message: impl Into<String>) -> ParseError {
        self.skip();
        ParseError::new(self.text, self.at, message)
    }

    /// An error that says what should have come.
    pub fn expected(&mut self, what: &str) -> ParseError {
        let found = match self.peek() {
            "" => "the end".to_owned(),
            word => format!("`{word}`"),
        };
        self.error(format!("expected {what}, found {found}"))
    }

    /// Takes the characters that belong to a value.
    fn take(&mut self, belongs: impl Fn(char) -> bool) -> &'t str {
        self.skip();
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !belongs(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    /// Reads a value with `read`; where it fails nothing is taken.
    fn value<T>(
        &mut self,
        what: &str,
        belongs: impl Fn(char) -> bool,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, ParseError> {
        self.skip();
        let start = self.at;
        let taken = self.take(belongs);
        read(taken).ok_or_else(|| {
            self.at = start;
            self.expected(what)
        })
    }

    /// A number in decimal or, after `0x`, in hexadecimal.
    pub fn number(&mut self) -> Result<u64, ParseError> {
        self.value(
            "a number",
            |c| c.is_ascii_alphanumeric(),
            |s| match s.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).ok(),
                None => s.parse().ok(),
            },
        )
    }

    /// A number that fits into `bits` bits.
    pub fn number_of(&mut self, bits: u32) -> Result<u128, ParseError> {
        self.skip();
        let start = self.at;
        let n = self.number()?;
        if bits < 64 && n >> bits != 0 {
            let most = (1u64 << bits) - 1;
            return Err(ParseError::new(
                self.text,
                start,
                format!("{n} is not from 0 to {most}"),
            ));
        }
        Ok(u128::from(n))
    }

    /// A number such as `1e6` or `2.5`; a negative one is refused by whoever uses it.
    pub fn float(&mut self) -> Result<f64, ParseError> {
        let belongs = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-');
        self.value("a number", belongs, |s| {
            f64::from_str(s).ok().filter(|x| x.is_finite())
        })
    }

    /// Hexadecimal digits after `0x`, as bytes.
    pub fn hex(&mut self) -> Result<Vec<u8>, ParseError> {
        let what = "0x and pairs of hexadecimal digits";
        self.value(
            what,
            |c| c.is_ascii_alphanumeric(),
            |s| {
                let digits = s.strip_prefix("0x")?.as_bytes();
                let (pairs, []) = digits.as_chunks::<2>() else {
                    return None;
                };
                let digit = |c: u8| char::from(c).to_digit(16);
                let byte = |&[a, b]: &[u8; 2]| Some((digit(a)? << 4 | digit(b)?) as u8);
                pairs.iter().map(byte).collect()
            },
        )
    }

    pub fn ip4(&mut self) -> Result<u128, ParseError> {
        let belongs = |c: char| c.is_ascii_alphanumeric() || c == '.';
        let address: Ipv4Addr = self.value("an IPv4 address", belongs, |s| s.parse().ok())?;
        Ok(u128::from(u32::from(address)))
    }

    pub fn ip6(&mut self) -> Result<u128, ParseError> {
        let belongs = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':');
        let address: Ipv6Addr = self.value("an IPv6 address", belongs, |s| s.parse().ok())?;
        Ok(u128::from(address))
    }

    /// An Ethernet address: six hexadecimal numbers with colons, or three with dots (`1.2.3` is
    /// 00:01:00:02:00:03).
    pub fn mac(&mut self) -> Result<u128, ParseError> {
        let belongs = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':');
        self.value("an Ethernet address (1:2:3:4:5:6 or 1.2.3)", belongs, |s| {
            let (separator, count, bits) = if s.contains(':') {
                (':', 6, 8)
            } else {
                ('.', 3, 16)
            };
            let parts: Vec<u128> = s
                .split(separator)
                .map(|part| {
                    u128::from_str_radix(part, 16)
                        .ok()
                        .filter(|n| n >> bits == 0)
                })
                .collect::<Option<_>>()?;
            (parts.len() == count).then(|| parts.iter().fold(0, |n, part| n << bits | part))
        })
    }

    /// A value, `a - b` (one after the other) or `a + b` (at random).
    pub fn range(
        &mut self,
        read: impl Fn(&mut Scanner<'t>) -> Result<u128, ParseError>,
    ) -> Result<Range, ParseError> {
        self.skip();
        let start = self.at;
        let first = read(self)?;
        self.skip();
        let random = self.rest().starts_with('+');
        let increment = self.rest().starts_with('-') && !self.rest().starts_with("->");
        if !random && !increment {
            return Ok(Range {
                first,
                last: None,
                random,
            });
        }
        self.at += 1;
        let last = read(self)?;
        if last < first {
            let part = self.text[start..self.at].trim_end().to_owned();
            return Err(ParseError::new(
                self.text,
                start,
                format!("the range `{part}` ends before it starts"),
            ));
        }
        Ok(Range {
            first,
            last: Some(last),
            random,
        })
    }
}

impl fmt::Debug for Scanner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scanner at {} of {}", self.at, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_where_they_fail() {
        let mut s = Scanner::new(
            "  0x10 \\\n 7-9 1.2.ff 02:fe:0:0:0:1 2001:db8::1+2001:db8::5 10.0.0.1->x",
        );
        assert_eq!(s.number().unwrap(), 16);
        let numbers = |s: &mut Scanner<'_>| s.number_of(16);
        assert_eq!(
            s.range(numbers).unwrap(),
            Range {
                first: 7,
                last: Some(9),
                random: false
            }
        );
        assert_eq!(s.mac().unwrap(), 0x0001_0002_00ff);
        assert_eq!(s.mac().unwrap(), 0x02fe_0000_0001);
        let r = s.range(Scanner::ip6).unwrap();
        assert_eq!((r.last.unwrap() - r.first, r.random), (4, true));
        assert_eq!(
            s.range(Scanner::ip4).unwrap(),
            Range {
                first: 0x0a00_0001,
                last: None,
                random: false
            }
        );
        s.expect("->").unwrap();
        let error = s.ip4().unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 2, column 61: expected an IPv4 address, found `x`"
        );
        assert_eq!(
            s.number_of(3).unwrap_err().message,
            "expected a number, found `x`"
        );
        assert_eq!(
            Scanner::new("8").number_of(3).unwrap_err().message,
            "8 is not from 0 to 7"
        );
        let error = Scanner::new(" 9 - 8").range(numbers).unwrap_err();
        assert_eq!(
            (error.at, error.message.as_str()),
            (1, "the range `9 - 8` ends before it starts")
        );
    }

    #[test]
    fn braces_nest_and_must_close() {
        let mut s = Scanner::new("{ a { b } c } d");
        let mut inner = s.braces().unwrap();
        assert_eq!(inner.word("").unwrap(), "a");
        assert!(inner.braces().unwrap().keyword("B"));
        assert_eq!(
            (inner.word("").unwrap(), inner.at_end(), s.peek()),
            ("c", true, "d")
        );
        let error = Scanner::new("x { a").clone().braces().unwrap_err();
        assert_eq!(error.message, "expected `{`, found `x`");
        let error = Scanner::new("  { a").braces().unwrap_err();
        assert_eq!(
            (error.at, error.message.as_str()),
            (2, "this `{` is not closed")
        );
    }
}
