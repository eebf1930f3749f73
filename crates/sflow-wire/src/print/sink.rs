//! Where the lines of the compatible printer go: plain text, text for grep, chosen columns, or JSON as sflowtool writes it.

use super::value::{Value, put_address, put_pair, put_time, put_u32};
use crate::types::Address;

/// What a line stands in: the columns that the grep form puts before each line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context {
    /// Time of the datagram in seconds since 1970, and local time's offset.
    pub(crate) time: (i64, i32),
    pub(crate) agent: Address,
    pub(crate) sub_agent_id: u32,
    pub(crate) sequence: u32,
    pub(crate) source: (u32, u32),
    pub(crate) sample_tag: u32,
    pub(crate) element_tag: u32,
}

/// Receives what the walker finds, in order.
///
/// The methods that only some forms need do nothing by default.
pub(crate) trait Sink {
    /// Nothing is shown field by field, so the walker need not prepare values.
    const SILENT: bool = false;
    /// Nested lists are shown as such.
    const JSON: bool = false;

    /// A key and a value; the key is the three parts put together.
    fn field(&mut self, c: &Context, key: [&str; 3], value: Value<'_>);
    /// The same with a key that came off the wire.
    fn raw_field(&mut self, c: &Context, key: &[u8], value: Value<'_>);
    /// A line that is not a key and a value; without its end.
    fn line(&mut self, _c: &Context, _text: &[u8]) {}
    fn open_object(&mut self) {}
    fn close_object(&mut self) {}
    fn open_array(&mut self, _key: &str) {}
    fn close_array(&mut self) {}
    /// A bare string will follow another in an array; sflowtool has written the comma before it finds that there is none.
    fn separator(&mut self) {}
    /// A bare string in an array.
    fn element(&mut self, _value: Value<'_>) {}
    fn begin_datagram(&mut self, _c: &Context) {}
    fn end_datagram(&mut self, _c: &Context) {}
    /// The header has been shown, samples follow.
    fn begin_samples(&mut self) {}
    fn begin_sample(&mut self, _c: &Context) {}
    fn end_sample(&mut self, _c: &Context) {}
    /// A sample's columns are complete.
    fn flush(&mut self, _row: &super::csv::Row<'_>) {}
    /// Where the output has gathered.
    fn out(&mut self) -> &mut Vec<u8>;
}

/// One `key value` line per field.
#[derive(Debug, Default)]
pub(crate) struct Text {
    out: Vec<u8>,
}

impl Sink for Text {
    #[inline]
    fn field(&mut self, _c: &Context, key: [&str; 3], value: Value<'_>) {
        for part in key {
            self.out.extend_from_slice(part.as_bytes());
        }
        self.out.push(b' ');
        value.write(&mut self.out);
        self.out.push(b'\n');
    }

    fn raw_field(&mut self, _c: &Context, key: &[u8], value: Value<'_>) {
        self.out.extend_from_slice(key);
        self.out.push(b' ');
        value.write(&mut self.out);
        self.out.push(b'\n');
    }

    fn line(&mut self, _c: &Context, text: &[u8]) {
        self.out.extend_from_slice(text);
        self.out.push(b'\n');
    }

    fn begin_datagram(&mut self, c: &Context) {
        self.line(c, START_DATAGRAM);
    }

    fn end_datagram(&mut self, c: &Context) {
        self.line(c, END_DATAGRAM);
    }

    fn begin_sample(&mut self, c: &Context) {
        self.line(c, START_SAMPLE);
    }

    fn end_sample(&mut self, c: &Context) {
        self.line(c, END_SAMPLE);
    }

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
}

const START_DATAGRAM: &[u8] = b"startDatagram =================================";
const END_DATAGRAM: &[u8] = b"endDatagram   =================================";
const START_SAMPLE: &[u8] = b"startSample ----------------------";
const END_SAMPLE: &[u8] = b"endSample   ----------------------";

/// Text with the context before each line.
#[derive(Debug, Default)]
pub(crate) struct Grep {
    text: Text,
}

impl Grep {
    fn context(&mut self, c: &Context) {
        let out = &mut self.text.out;
        put_time(out, c.time.0, c.time.1);
        out.push(b' ');
        put_address(out, c.agent);
        out.push(b' ');
        put_u32(out, c.sub_agent_id);
        out.push(b' ');
        put_u32(out, c.sequence);
        out.push(b' ');
        put_pair(out, c.source.0, c.source.1);
        out.push(b' ');
        Value::Tag(c.sample_tag).write(out);
        out.push(b' ');
        Value::Tag(c.element_tag).write(out);
        out.push(b' ');
    }
}

impl Sink for Grep {
    fn field(&mut self, c: &Context, key: [&str; 3], value: Value<'_>) {
        self.context(c);
        self.text.field(c, key, value);
    }

    fn raw_field(&mut self, c: &Context, key: &[u8], value: Value<'_>) {
        self.context(c);
        self.text.raw_field(c, key, value);
    }

    fn line(&mut self, c: &Context, text: &[u8]) {
        self.context(c);
        self.text.line(c, text);
    }

    fn begin_datagram(&mut self, c: &Context) {
        self.line(c, START_DATAGRAM);
    }

    fn end_datagram(&mut self, c: &Context) {
        self.line(c, END_DATAGRAM);
    }

    fn begin_sample(&mut self, c: &Context) {
        self.line(c, START_SAMPLE);
    }

    fn end_sample(&mut self, c: &Context) {
        self.line(c, END_SAMPLE);
    }

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.text.out
    }
}

/// Chosen fields as columns, one line per sample that has any of them.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    out: Vec<u8>,
    columns: Vec<Column>,
    in_sample: bool,
    matched: bool,
}

#[derive(Debug)]
struct Column {
    key: String,
    value: Vec<u8>,
    of_sample: bool,
}

impl Fields {
    /// Columns from a list separated by commas or blanks.
    pub(crate) fn new(list: &str) -> Self {
        let columns = list
            .split([' ', ','])
            .filter(|k| !k.is_empty())
            .map(|k| Column {
                key: k.to_owned(),
                value: Vec::new(),
                // sflowtool clears values that were never set like those of a datagram.
                of_sample: false,
            })
            .collect();
        Fields {
            columns,
            ..Fields::default()
        }
    }

    fn set(&mut self, n: usize, value: Value<'_>) {
        if let Some(column) = self.columns.get_mut(n) {
            column.value.clear();
            value.write(&mut column.value);
            column.of_sample = self.in_sample;
            self.matched |= self.in_sample;
        }
    }

    fn clear(&mut self, of_sample: bool) {
        for column in &mut self.columns {
            if column.of_sample == of_sample {
                column.value.clear();
            }
        }
        self.matched = false;
    }
}

fn is_key(key: &str, mut parts: [&str; 3]) -> bool {
    let mut rest = key;
    for part in &mut parts {
        match rest.strip_prefix(*part) {
            Some(r) => rest = r,
            None => return false,
        }
    }
    rest.is_empty()
}

impl Sink for Fields {
    fn field(&mut self, _c: &Context, key: [&str; 3], value: Value<'_>) {
        if let Some(n) = self.columns.iter().position(|c| is_key(&c.key, key)) {
            self.set(n, value);
        }
    }

    fn raw_field(&mut self, _c: &Context, key: &[u8], value: Value<'_>) {
        if let Some(n) = self.columns.iter().position(|c| c.key.as_bytes() == key) {
            self.set(n, value);
        }
    }

    fn begin_datagram(&mut self, _c: &Context) {
        self.in_sample = false;
    }

    fn begin_samples(&mut self) {
        self.in_sample = true;
    }

    fn flush(&mut self, _row: &super::csv::Row<'_>) {
        if self.matched {
            for (i, column) in self.columns.iter().enumerate() {
                if i > 0 {
                    self.out.push(b',');
                }
                self.out.extend_from_slice(&column.value);
            }
            self.out.push(b'\n');
        }
        self.clear(true);
    }

    fn end_datagram(&mut self, _c: &Context) {
        self.clear(false);
    }

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
}

/// JSON as sflowtool writes it: every value a string, nothing escaped, brackets left open by errors.
#[derive(Debug, Default)]
pub(crate) struct CompatJson {
    out: Vec<u8>,
    indented: bool,
    depth: usize,
    /// The next thing opened is the first of the datagram.
    first: bool,
    /// The next thing is the first of its list.
    list_start: bool,
}

impl CompatJson {
    pub(crate) fn new(indented: bool) -> Self {
        CompatJson {
            indented,
            ..CompatJson::default()
        }
    }

    fn indent(&mut self) {
        if self.indented {
            self.out.push(b'\n');
            self.out.resize(self.out.len() + self.depth, b' ');
        }
    }

    fn open(&mut self, key: Option<&str>, bracket: u8) {
        if self.first {
            self.first = false;
        } else if !self.list_start {
            self.out.push(b',');
            self.indent();
        }
        if let Some(key) = key {
            self.out.push(b'"');
            self.out.extend_from_slice(key.as_bytes());
            self.out.extend_from_slice(b"\":");
        }
        self.out.push(bracket);
        self.depth += 1;
        self.list_start = true;
    }

    fn key(&mut self, parts: [&[u8]; 3]) {
        if self.list_start {
            self.list_start = false;
        } else {
            self.out.push(b',');
        }
        self.indent();
        self.out.push(b'"');
        for part in parts {
            self.out.extend_from_slice(part);
        }
        self.out.extend_from_slice(b"\":");
    }

    fn value(&mut self, value: Value<'_>) {
        self.out.push(b'"');
        value.write(&mut self.out);
        self.out.push(b'"');
    }

    fn close(&mut self, bracket: u8) {
        self.depth = self.depth.saturating_sub(1);
        self.indent();
        self.out.push(bracket);
        self.list_start = false;
    }
}

impl Sink for CompatJson {
    const JSON: bool = true;

    fn field(&mut self, _c: &Context, key: [&str; 3], value: Value<'_>) {
        self.key(key.map(str::as_bytes));
        self.value(value);
    }

    fn raw_field(&mut self, _c: &Context, key: &[u8], value: Value<'_>) {
        self.key([key, b"", b""]);
        self.value(value);
    }

    fn open_object(&mut self) {
        self.open(None, b'{');
    }

    fn close_object(&mut self) {
        self.close(b'}');
    }

    fn open_array(&mut self, key: &str) {
        self.open(Some(key), b'[');
    }

    fn close_array(&mut self) {
        self.close(b']');
    }

    fn separator(&mut self) {
        self.out.push(b',');
    }

    fn element(&mut self, value: Value<'_>) {
        self.indent();
        self.out.push(b'"');
        value.write(&mut self.out);
        self.out.extend_from_slice(b"\" ");
    }

    fn begin_datagram(&mut self, _c: &Context) {
        self.first = true;
        self.open(None, b'{');
    }

    fn end_datagram(&mut self, _c: &Context) {
        self.close(b'}');
        self.out.push(b'\n');
        self.depth = 0;
        if self.indented {
            self.out.push(b'\n');
        }
    }

    fn begin_sample(&mut self, _c: &Context) {
        self.open(None, b'{');
    }

    fn end_sample(&mut self, _c: &Context) {
        self.close(b'}');
    }

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
}
