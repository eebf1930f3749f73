//! Cuts text into words, quoted strings and brace blocks, and a script into commands.
//!
//! A word ends at a blank or a brace. `"..."` knows the escapes `\" \\ \n \t`, `'...'` none. A block
//! is everything between matching braces, several lines if need be, handed on raw. `#` and `//`
//! where a word could start are comments to the end of the line; `\` at the end of a line joins it
//! to the next.

use crate::error::{ErrorKind, ParseError};
use std::borrow::Cow;

/// How a token was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A bare word: literal or argument.
    Word,
    /// In quotes: always an argument.
    Quoted,
    /// In braces: the text between them.
    Block,
}

/// One token and its byte range in the source (quotes and braces included).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// How it was written.
    pub kind: TokenKind,
    /// The text without quotes, escapes or the outer braces.
    pub text: Cow<'a, str>,
    /// First byte in the source.
    pub start: usize,
    /// One past the last byte in the source.
    pub end: usize,
}

enum Lexeme<'a> {
    Token(Token<'a>),
    Newline,
    End,
}

struct Scanner<'a> {
    source: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn skip_to_line_end(&mut self) {
        self.at += self.rest().find('\n').unwrap_or(self.rest().len());
    }

    fn next(&mut self) -> Result<Lexeme<'a>, ParseError> {
        loop {
            let rest = self.rest();
            let Some(c) = rest.chars().next() else {
                return Ok(Lexeme::End);
            };
            match c {
                '\n' => {
                    self.at += 1;
                    return Ok(Lexeme::Newline);
                }
                '\\' if rest.starts_with("\\\n") => self.at += 2,
                '\\' if rest.starts_with("\\\r\n") => self.at += 3,
                c if c.is_whitespace() => self.at += c.len_utf8(),
                '#' => self.skip_to_line_end(),
                '/' if rest.starts_with("//") => self.skip_to_line_end(),
                '"' => return self.double_quoted().map(Lexeme::Token),
                '\'' => return self.single_quoted().map(Lexeme::Token),
                '{' => return self.block().map(Lexeme::Token),
                '}' => {
                    return Err(ParseError::new(
                        ErrorKind::Unopened,
                        self.source,
                        self.at,
                        "'}' without a '{' before it",
                    ));
                }
                _ => return Ok(Lexeme::Token(self.word())),
            }
        }
    }

    fn token(&mut self, kind: TokenKind, text: Cow<'a, str>, end: usize) -> Token<'a> {
        let start = self.at;
        self.at = end;
        Token {
            kind,
            text,
            start,
            end,
        }
    }

    fn word(&mut self) -> Token<'a> {
        let rest = self.rest();
        let mut len = 0;
        for (i, c) in rest.char_indices() {
            if c.is_whitespace()
                || c == '{'
                || c == '}'
                || (c == '\\' && is_continuation(&rest[i..]))
            {
                break;
            }
            len = i + c.len_utf8();
        }
        self.token(TokenKind::Word, Cow::Borrowed(&rest[..len]), self.at + len)
    }

    fn double_quoted(&mut self) -> Result<Token<'a>, ParseError> {
        let body = &self.rest()[1..];
        let mut text = String::new();
        let mut escaped = false;
        for (i, c) in body.char_indices() {
            match c {
                _ if escaped => {
                    text.push(match c {
                        'n' => '\n',
                        't' => '\t',
                        other => other,
                    });
                    escaped = false;
                }
                '\\' => escaped = true,
                '"' => return Ok(self.token(TokenKind::Quoted, Cow::Owned(text), self.at + i + 2)),
                c => text.push(c),
            }
        }
        Err(ParseError::new(
            ErrorKind::Unclosed,
            self.source,
            self.at,
            "this quote is never closed",
        ))
    }

    fn single_quoted(&mut self) -> Result<Token<'a>, ParseError> {
        let body = &self.rest()[1..];
        match body.find('\'') {
            Some(i) => Ok(self.token(
                TokenKind::Quoted,
                Cow::Borrowed(&body[..i]),
                self.at + i + 2,
            )),
            None => Err(ParseError::new(
                ErrorKind::Unclosed,
                self.source,
                self.at,
                "this quote is never closed",
            )),
        }
    }

    /// Finds the matching brace, passing over nested blocks, double-quoted strings and comments that
    /// have a line of their own. (A lone apostrophe is common in prose such as `comment { don't }`.)
    fn block(&mut self) -> Result<Token<'a>, ParseError> {
        let body = &self.rest()[1..];
        let (mut depth, mut quoted, mut escaped, mut comment, mut line_start) =
            (1usize, false, false, false, true);
        for (i, c) in body.char_indices() {
            if comment {
                comment = c != '\n';
                line_start = c == '\n';
                continue;
            }
            if quoted {
                match c {
                    _ if escaped => escaped = false,
                    '\\' => escaped = true,
                    '"' => quoted = false,
                    _ => {}
                }
                continue;
            }
            match c {
                '"' => quoted = true,
                '{' => depth += 1,
                '}' => depth -= 1,
                '#' if line_start => comment = true,
                '/' if line_start && body[i..].starts_with("//") => comment = true,
                _ => {}
            }
            if depth == 0 {
                return Ok(self.token(
                    TokenKind::Block,
                    Cow::Borrowed(&body[..i]),
                    self.at + i + 2,
                ));
            }
            line_start = c == '\n' || (line_start && c.is_whitespace());
        }
        Err(ParseError::new(
            ErrorKind::Unclosed,
            self.source,
            self.at,
            "this '{' is never closed",
        ))
    }
}

fn is_continuation(rest: &str) -> bool {
    rest.starts_with("\\\n") || rest.starts_with("\\\r\n")
}

/// The tokens of one command; line ends count as blanks.
///
/// # Errors
/// [`ErrorKind::Unclosed`] or [`ErrorKind::Unopened`] for a quote or brace without its partner.
pub fn tokenize(source: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let mut scanner = Scanner { source, at: 0 };
    let mut tokens = Vec::new();
    loop {
        match scanner.next()? {
            Lexeme::Token(token) => tokens.push(token),
            Lexeme::Newline => {}
            Lexeme::End => return Ok(tokens),
        }
    }
}

/// One command of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptLine<'a> {
    /// Number of the line it starts on, from 1.
    pub number: usize,
    /// The command, which may span lines inside braces or quotes.
    pub text: &'a str,
}

/// The commands of a script, in order, without blank lines and comments. Ends after the first error,
/// since nothing behind an unbalanced brace can be trusted.
pub struct Script<'a> {
    scanner: Scanner<'a>,
    /// Bytes up to here have had their line ends counted.
    counted: usize,
    line: usize,
    failed: bool,
}

impl<'a> Script<'a> {
    /// A script from the text of a file.
    pub fn new(source: &'a str) -> Script<'a> {
        Script {
            scanner: Scanner { source, at: 0 },
            counted: 0,
            line: 1,
            failed: false,
        }
    }

    fn line_of(&mut self, offset: usize) -> usize {
        self.line += self.scanner.source[self.counted..offset]
            .matches('\n')
            .count();
        self.counted = offset;
        self.line
    }
}

impl<'a> Iterator for Script<'a> {
    type Item = Result<ScriptLine<'a>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let mut range: Option<(usize, usize)> = None;
        loop {
            match self.scanner.next() {
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
                Ok(Lexeme::Token(token)) => {
                    range = Some((range.map_or(token.start, |r| r.0), token.end));
                }
                Ok(Lexeme::Newline) if range.is_none() => {}
                Ok(Lexeme::End) if range.is_none() => return None,
                Ok(Lexeme::Newline | Lexeme::End) => {
                    let (start, end) = range?;
                    let number = self.line_of(start);
                    return Some(Ok(ScriptLine {
                        number,
                        text: &self.scanner.source[start..end],
                    }));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        tokenize(line)
            .expect("balanced")
            .into_iter()
            .map(|t| t.text.into_owned())
            .collect()
    }

    #[test]
    fn words_quotes_and_blocks() {
        assert_eq!(words("  show  int \t"), ["show", "int"]);
        assert_eq!(
            words(r#"a "b \"c\" \n" 'd "e'"#),
            ["a", "b \"c\" \n", "d \"e"]
        );
        assert_eq!(
            words("new{ x { y } \"}\" }z"),
            ["new", " x { y } \"}\" ", "z"]
        );
        assert_eq!(words("it's fine"), ["it's", "fine"]);
        assert_eq!(words("comment { don't }"), ["comment", " don't "]);
    }

    #[test]
    fn comments_and_joined_lines() {
        assert_eq!(words("show # all of it"), ["show"]);
        assert_eq!(words("// nothing"), Vec::<String>::new());
        assert_eq!(words("a#b http://x"), ["a#b", "http://x"]);
        assert_eq!(words("show \\\n version\\\r\nx"), ["show", "version", "x"]);
        assert_eq!(
            words("new {\n # a } in a comment\n x\n}"),
            ["new", "\n # a } in a comment\n x\n"]
        );
    }

    #[test]
    fn unbalanced_is_marked_where_it_opens() {
        for (line, column, kind) in [
            ("show \"abc", 6, ErrorKind::Unclosed),
            ("new { {}", 5, ErrorKind::Unclosed),
            ("a } b", 3, ErrorKind::Unopened),
            ("it 'x", 4, ErrorKind::Unclosed),
        ] {
            let error = tokenize(line).expect_err("unbalanced");
            assert_eq!((error.kind, error.column), (kind, column), "{line}");
        }
    }

    #[test]
    fn spans_cover_what_was_written() {
        let line = "a \"b c\" {d}";
        let spans: Vec<&str> = tokenize(line)
            .expect("balanced")
            .iter()
            .map(|t| &line[t.start..t.end])
            .collect();
        assert_eq!(spans, ["a", "\"b c\"", "{d}"]);
    }

    #[test]
    fn a_script_is_cut_into_numbered_commands() {
        let text =
            "# head\n\nshow version # now\npacket-generator new {\n name x\n}\n  // end\nquit";
        let lines: Vec<(usize, &str)> = Script::new(text)
            .map(|l| l.expect("balanced"))
            .map(|l| (l.number, l.text))
            .collect();
        assert_eq!(
            lines,
            [
                (3, "show version"),
                (4, "packet-generator new {\n name x\n}"),
                (8, "quit")
            ]
        );
    }

    #[test]
    fn a_script_stops_at_an_unclosed_brace() {
        let mut script = Script::new("a\nb {\nc\n");
        assert!(script.next().expect("first").is_ok());
        let error = script.next().expect("second").expect_err("unclosed");
        assert_eq!((error.line, error.column), (2, 3));
        assert!(script.next().is_none());
    }
}
