//! The line that a person at the other end types: editing, history, and what the terminal has to be sent for it.
//! Pure: bytes in, bytes and events out.
//!
//! Keys are those of VPP and of most shells: arrows, Home, End, Delete, Ctrl-A B D E F K L N P U W, Tab and `?`.
//! Sequences are ECMA-48's. Only printable ASCII is typed.

use std::collections::VecDeque;

use super::{MAX_LINE, PROMPT};

/// Lines remembered.
const HISTORY: usize = 50;
/// Longest escape sequence looked at.
const MAX_SEQUENCE: usize = 8;

/// What came of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing that concerns others.
    None,
    /// A line was entered.
    Line(String),
    /// Completion is wanted for what stands before the cursor.
    Complete(String),
    /// Help is wanted for what stands before the cursor.
    Help(String),
    /// The person leaves.
    Quit,
}

/// A line being typed.
#[derive(Clone, Debug, Default)]
pub struct Editor {
    line: String,
    /// Byte the cursor stands at; all characters have one.
    cursor: usize,
    history: VecDeque<String>,
    /// Line of the history that is shown, counted from the last; 0 = the one being typed.
    back: usize,
    /// What was typed before the history was looked through.
    typed: String,
    /// An escape sequence under way.
    sequence: Option<Vec<u8>>,
    /// The last byte was a carriage return: a line feed behind it is the same end.
    returned: bool,
    output: Vec<u8>,
}

impl Editor {
    /// What the terminal is to be sent.
    pub fn output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Takes a key, or a part of one.
    pub fn feed(&mut self, byte: u8) -> Event {
        let returned = std::mem::replace(&mut self.returned, byte == b'\r');
        if let Some(mut sequence) = self.sequence.take() {
            sequence.push(byte);
            self.escape(sequence);
            return Event::None;
        }
        match byte {
            0 => {}
            b'\n' if returned => {}
            b'\r' | b'\n' => return self.enter(),
            b'\t' => return Event::Complete(self.before().to_owned()),
            b'?' if !self.is_quoted() => return Event::Help(self.before().to_owned()),
            0x04 if self.line.is_empty() => {
                self.send("\r\n");
                return Event::Quit;
            }
            0x1b => self.sequence = Some(Vec::new()),
            _ => self.edit(byte),
        }
        Event::None
    }

    fn edit(&mut self, byte: u8) {
        match byte {
            b' '..=b'~' => self.insert(char::from(byte).encode_utf8(&mut [0; 4])),
            0x08 | 0x7f => self.erase(self.cursor.saturating_sub(1), self.cursor),
            0x01 => self.go(0),
            0x02 => self.go(self.cursor.saturating_sub(1)),
            0x03 => {
                self.set(String::new());
                self.send("^C\r\n");
                self.redraw();
            }
            0x04 => self.erase(self.cursor, self.cursor + 1),
            0x05 => self.go(self.line.len()),
            0x06 => self.go(self.cursor + 1),
            0x0b => self.erase(self.cursor, self.line.len()),
            0x0c => {
                self.send("\x1b[2J\x1b[H");
                self.redraw();
            }
            0x0e => self.browse(self.back.saturating_sub(1)),
            0x10 => self.browse(self.back + 1),
            0x15 => self.erase(0, self.cursor),
            0x17 => {
                let before = self.before().trim_end();
                let word = before.rfind(' ').map_or(0, |blank| blank + 1);
                self.erase(word, self.cursor);
            }
            _ => {}
        }
    }

    /// Puts printable text in at the cursor.
    pub fn insert(&mut self, text: &str) {
        let good = |c: &char| matches!(c, ' '..='~');
        let text: String = text.chars().filter(good).collect();
        if self.line.len() + text.len() > MAX_LINE {
            return self.send("\x07");
        }
        self.line.insert_str(self.cursor, &text);
        self.cursor += text.len();
        if self.cursor == self.line.len() {
            // The common case: the terminal does the rest, also at the end of its line.
            self.send(&text);
        } else {
            self.redraw();
        }
    }

    /// Draws prompt and line anew, from the start of the terminal's line.
    pub fn redraw(&mut self) {
        let left = self.line.len() - self.cursor;
        let mut text = format!("\r{PROMPT}{}\x1b[K", self.line);
        if left > 0 {
            text.push_str(&format!("\x1b[{left}D"));
        }
        self.send(&text);
    }

    fn enter(&mut self) -> Event {
        self.send("\r\n");
        let line = std::mem::take(&mut self.line);
        (self.cursor, self.back) = (0, 0);
        if !line.trim().is_empty() && self.history.back() != Some(&line) {
            self.history.push_back(line.clone());
            if self.history.len() > HISTORY {
                self.history.pop_front();
            }
        }
        Event::Line(line)
    }

    /// The rest of an escape sequence, or a part of it.
    fn escape(&mut self, sequence: Vec<u8>) {
        match sequence.as_slice() {
            b"[" | b"O" => self.sequence = Some(sequence),
            b"[A" | b"OA" => self.browse(self.back + 1),
            b"[B" | b"OB" => self.browse(self.back.saturating_sub(1)),
            b"[C" | b"OC" => self.go(self.cursor + 1),
            b"[D" | b"OD" => self.go(self.cursor.saturating_sub(1)),
            b"[H" | b"OH" | b"[1~" | b"[7~" => self.go(0),
            b"[F" | b"OF" | b"[4~" | b"[8~" => self.go(self.line.len()),
            b"[3~" => self.erase(self.cursor, self.cursor + 1),
            // Parameters go on until a final byte.
            [b'[', .., b'0'..=b'?'] if sequence.len() < MAX_SEQUENCE => {
                self.sequence = Some(sequence);
            }
            _ => {}
        }
    }

    fn go(&mut self, to: usize) {
        let to = to.min(self.line.len());
        if to != self.cursor {
            self.cursor = to;
            self.redraw();
        }
    }

    fn erase(&mut self, from: usize, to: usize) {
        let to = to.min(self.line.len());
        if from < to {
            self.line.replace_range(from..to, "");
            self.cursor = from;
            self.redraw();
        }
    }

    fn browse(&mut self, back: usize) {
        let back = back.min(self.history.len());
        if back == self.back {
            return;
        }
        if self.back == 0 {
            self.typed = std::mem::take(&mut self.line);
        }
        self.back = back;
        let shown = match back {
            0 => std::mem::take(&mut self.typed),
            _ => self.history[self.history.len() - back].clone(),
        };
        let back = std::mem::replace(&mut self.back, 0);
        self.set(shown);
        self.back = back;
        self.redraw();
    }

    fn set(&mut self, line: String) {
        self.cursor = line.len();
        self.line = line;
        self.back = 0;
    }

    fn before(&self) -> &str {
        self.line.get(..self.cursor).unwrap_or_default()
    }

    /// Inside quotes and braces `?` is a character.
    fn is_quoted(&self) -> bool {
        parshall_command::tokenize(self.before()).is_err()
    }

    fn send(&mut self, text: &str) {
        self.output.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types, and says the events and what is on the line at the end.
    fn typed(keys: &[u8]) -> (Vec<Event>, String, usize) {
        let mut editor = Editor::default();
        let events = keys.iter().map(|k| editor.feed(*k));
        let events = events.filter(|e| *e != Event::None).collect();
        (events, editor.line, editor.cursor)
    }

    #[test]
    fn keys_edit_the_line() {
        for (keys, line, cursor) in [
            (&b"show version"[..], "show version", 12),
            (b"shw\x1b[Do", "show", 3),
            (b"ab\x7f\x08\x08x", "x", 1),
            (b"abc\x01x\x05y", "xabcy", 5),
            (b"abc\x02\x02\x0b", "a", 1),
            (b"show version  \x17v", "show v", 6),
            (b"abc\x02\x15", "c", 0),
            (b"abc\x1b[H\x1b[3~\x1b[F\x1b[3~", "bc", 2),
            (b"abc\x1b[1;5Cd\x1b[999999999999", "abcd99999", 9),
            (b"abc\x03", "", 0),
            (b"a\x1b\x1bb\xc3\xa4", "ab", 2),
        ] {
            let got = typed(keys);
            assert_eq!((got.1.as_str(), got.2), (line, cursor), "{keys:?}");
        }
    }

    #[test]
    fn lines_help_and_the_end_are_events() {
        let line = |l: &str| Event::Line(l.into());
        let (events, ..) = typed(b"one\r\ntwo\n\nsh ?\tx\x15\x04");
        let want = [
            line("one"),
            line("two"),
            line(""),
            Event::Help("sh ".into()),
            Event::Complete("sh ".into()),
            Event::Quit,
        ];
        assert_eq!(events, want);
        assert_eq!(typed(b"comment { a?").1, "comment { a?");
    }

    #[test]
    fn the_history_is_walked_both_ways_and_bounded() {
        let (_, line, _) = typed(b"one\ntwo\ntwo\nthr\x1b[A\x1b[A");
        assert_eq!(line, "one");
        let (_, line, _) = typed(b"one\ntwo\nthr\x10\x10\x10\x0e\x0e\x0e");
        assert_eq!(line, "thr");
        let mut editor = Editor::default();
        for i in 0..200 {
            format!("line {i}\n")
                .bytes()
                .for_each(|b| drop(editor.feed(b)));
        }
        assert_eq!(editor.history.len(), HISTORY);
    }

    #[test]
    fn what_is_typed_at_the_end_is_echoed_and_elsewhere_drawn_anew() {
        let mut editor = Editor::default();
        b"ab".iter().for_each(|b| drop(editor.feed(*b)));
        assert_eq!(editor.output(), b"ab");
        editor.feed(0x02);
        assert_eq!(editor.output(), b"\rvpp# ab\x1b[K\x1b[1D");
        editor.feed(b'x');
        assert_eq!(editor.output(), b"\rvpp# axb\x1b[K\x1b[1D");
        editor.feed(b'\r');
        assert_eq!(editor.output(), b"\r\n");
    }

    #[test]
    fn a_line_has_an_end() {
        let mut editor = Editor::default();
        editor.insert(&"x".repeat(MAX_LINE));
        editor.feed(b'y');
        assert_eq!(editor.line.len(), MAX_LINE);
        assert!(editor.output().ends_with(b"\x07"));
    }
}
