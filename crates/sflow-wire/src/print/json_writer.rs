//! Writes JSON (RFC 8259) into a buffer: commas, brackets, indentation, escaping. Knows nothing of sFlow.
//!
//! Keys are handed over with their punctuation (see [`key!`]), so that the usual member is one copy.

use super::value::{Value, put_address, put_u64};
use crate::types::Address;

/// A member's name with the comma before it and the colon after it.
macro_rules! key {
    ($name:literal) => {
        concat!(",\"", $name, "\":")
    };
}

pub(crate) use key;

/// A JSON text under construction.
#[derive(Debug, Default)]
pub(crate) struct Json {
    pub(crate) out: Vec<u8>,
    indented: bool,
    depth: usize,
    /// Nothing stands yet in the object or array that was opened last.
    first: bool,
}

impl Json {
    pub(crate) fn new(indented: bool) -> Self {
        Json {
            indented,
            ..Json::default()
        }
    }

    fn break_line(&mut self) {
        if self.indented {
            self.out.push(b'\n');
            self.out.resize(self.out.len() + 2 * self.depth, b' ');
        }
    }

    pub(crate) fn open(&mut self, bracket: u8) {
        self.out.push(bracket);
        self.depth += 1;
        self.first = true;
    }

    pub(crate) fn close(&mut self, bracket: u8) {
        self.depth = self.depth.saturating_sub(1);
        if !self.first {
            self.break_line();
        }
        self.out.push(bracket);
        self.first = false;
    }

    /// Ends the text.
    pub(crate) fn end_line(&mut self) {
        self.out.push(b'\n');
        self.depth = 0;
    }

    /// Begins an array's next element.
    pub(crate) fn item(&mut self) {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        self.break_line();
    }

    /// Begins a member. The key comes from [`key!`].
    #[inline]
    pub(crate) fn key(&mut self, key: &'static str) {
        let key = key.as_bytes();
        if self.indented {
            self.item();
            self.out.extend_from_slice(key.get(1..).unwrap_or(&[]));
            self.out.push(b' ');
        } else if self.first {
            self.first = false;
            self.out.extend_from_slice(key.get(1..).unwrap_or(&[]));
        } else {
            self.out.extend_from_slice(key);
        }
    }

    /// Begins a member whose name ends with bytes off the wire.
    pub(crate) fn wire_key(&mut self, parts: &[&str], name: &[u8]) {
        self.item();
        self.out.push(b'"');
        for part in parts {
            self.out.extend_from_slice(part.as_bytes());
        }
        self.escaped(name);
        self.out
            .extend_from_slice(if self.indented { b"\": " } else { b"\":" });
    }

    #[inline]
    pub(crate) fn number(&mut self, key: &'static str, n: u64) {
        self.key(key);
        put_u64(&mut self.out, n);
    }

    pub(crate) fn bare_number(&mut self, n: u64) {
        put_u64(&mut self.out, n);
    }

    pub(crate) fn bare(&mut self, value: Value<'_>) {
        value.write(&mut self.out);
    }

    pub(crate) fn null(&mut self, key: &'static str) {
        self.key(key);
        self.bare_null();
    }

    pub(crate) fn bare_null(&mut self) {
        self.out.extend_from_slice(b"null");
    }

    /// A number with two decimals, given in hundredths.
    pub(crate) fn hundredths(&mut self, n: u32) {
        put_u64(&mut self.out, u64::from(n / 100));
        let rest = (n % 100) as u8;
        self.out
            .extend_from_slice(&[b'.', b'0' + rest / 10, b'0' + rest % 10]);
    }

    /// The shortest number that reads back the same; JSON has none for infinities and the like.
    pub(crate) fn float(&mut self, f: f64) {
        use std::io::Write as _;
        if f.is_finite() {
            // Writing to a vector cannot fail.
            let _ = write!(self.out, "{f:?}");
        } else {
            self.bare_null();
        }
    }

    /// A string that needs no escaping: digits, addresses and the like.
    #[inline]
    pub(crate) fn quoted(&mut self, key: &'static str, value: Value<'_>) {
        self.key(key);
        self.quote(value);
    }

    #[inline]
    pub(crate) fn quote(&mut self, value: Value<'_>) {
        self.out.push(b'"');
        value.write(&mut self.out);
        self.out.push(b'"');
    }

    /// One of our own words.
    #[inline]
    pub(crate) fn literal(&mut self, key: &'static str, word: &'static str) {
        self.key(key);
        self.out.push(b'"');
        self.out.extend_from_slice(word.as_bytes());
        self.out.push(b'"');
    }

    /// An address, `null` if it is not known.
    #[inline]
    pub(crate) fn address(&mut self, key: &'static str, a: Address) {
        self.key(key);
        if a == Address::Unknown {
            return self.bare_null();
        }
        self.out.push(b'"');
        put_address(&mut self.out, a);
        self.out.push(b'"');
    }

    /// A string off the wire.
    pub(crate) fn string(&mut self, key: &'static str, s: &[u8]) {
        self.key(key);
        self.text(s);
    }

    pub(crate) fn text(&mut self, s: &[u8]) {
        self.out.push(b'"');
        self.escaped(s);
        self.out.push(b'"');
    }

    fn escaped(&mut self, s: &[u8]) {
        for chunk in s.utf8_chunks() {
            for b in chunk.valid().bytes() {
                match b {
                    b'"' => self.out.extend_from_slice(b"\\\""),
                    b'\\' => self.out.extend_from_slice(b"\\\\"),
                    b'\n' => self.out.extend_from_slice(b"\\n"),
                    b'\t' => self.out.extend_from_slice(b"\\t"),
                    b'\r' => self.out.extend_from_slice(b"\\r"),
                    0..=0x1F => {
                        let digit = |n: u8| b"0123456789abcdef"[usize::from(n & 15)];
                        self.out.extend_from_slice(&[
                            b'\\',
                            b'u',
                            b'0',
                            b'0',
                            digit(b >> 4),
                            digit(b),
                        ]);
                    }
                    _ => self.out.push(b),
                }
            }
            if !chunk.invalid().is_empty() {
                self.out.extend_from_slice("\u{FFFD}".as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn object(indented: bool, build: impl FnOnce(&mut Json)) -> String {
        let mut j = Json::new(indented);
        j.open(b'{');
        build(&mut j);
        j.close(b'}');
        j.end_line();
        String::from_utf8(j.out).unwrap()
    }

    #[test]
    fn members_and_elements() {
        let build = |j: &mut Json| {
            j.number(key!("a"), 1);
            j.key(key!("b"));
            j.open(b'[');
            j.close(b']');
            j.key(key!("c"));
            j.open(b'[');
            j.item();
            j.bare_number(2);
            j.item();
            j.hundredths(1204);
            j.close(b']');
            j.null(key!("d"));
        };
        assert_eq!(
            object(false, build),
            "{\"a\":1,\"b\":[],\"c\":[2,12.04],\"d\":null}\n"
        );
        assert_eq!(
            object(true, build),
            "{\n  \"a\": 1,\n  \"b\": [],\n  \"c\": [\n    2,\n    12.04\n  ],\n  \"d\": null\n}\n"
        );
    }

    #[test]
    fn floats() {
        let shown = object(false, |j| {
            for (k, f) in [(key!("a"), 0.5), (key!("b"), f64::NAN), (key!("c"), 1e300)] {
                j.key(k);
                j.float(f);
            }
        });
        assert_eq!(shown, "{\"a\":0.5,\"b\":null,\"c\":1e300}\n");
    }

    proptest! {
        #[test]
        fn any_bytes_become_a_valid_string(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let text = object(false, |j| j.string(key!("s"), &bytes));
            let read: serde_json::Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read["s"].as_str().unwrap(), String::from_utf8_lossy(&bytes));
        }
    }
}
