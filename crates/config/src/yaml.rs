//! YAML text to a tree of nodes with their places. Follows YAML 1.2.2.
//!
//! Only what a configuration needs is let in: one document, text as keys, each key once, no tags. The
//! text may be hostile, so its size, depth, number of values and the size that aliases blow it up to
//! are bounded, and nothing here recurses deeper than [`MAX_DEPTH`].

use std::collections::BTreeMap;
use std::sync::Arc;

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span};
use parshall_command::shown;

use crate::error::{Position, Report};

/// Largest file, in bytes.
pub const MAX_BYTES: usize = 4 << 20;
/// Deepest nesting.
pub const MAX_DEPTH: usize = 24;
/// Most values in a file, those that aliases repeat included.
pub const MAX_NODES: usize = 500_000;
/// Most text in a file, in bytes, that which aliases repeat included.
const MAX_TEXT: usize = 2 * MAX_BYTES;

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Node {
    pub at: Position,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub enum Value {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A text, a number or nothing: the schema says which.
#[derive(Clone, Debug)]
pub struct Scalar {
    pub text: Arc<str>,
    /// Without quotes and not a block: may be a number or a truth value.
    pub plain: bool,
    /// A `|` block: its lines are those of the file, from the place of the node on.
    pub literal: bool,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub key: Arc<str>,
    pub key_at: Position,
    pub value: Node,
}

impl Node {
    /// Whether it is written as nothing at all, `~` or `null`.
    pub fn is_null(&self) -> bool {
        match &self.value {
            Value::Scalar(s) => s.plain && matches!(&*s.text, "" | "~" | "null" | "Null" | "NULL"),
            _ => false,
        }
    }
}

/// What a node comes to, to hold it against the limits.
#[derive(Clone, Copy, Default)]
struct Measure {
    nodes: usize,
    text: usize,
    height: usize,
}

impl Measure {
    fn of(node: &Node) -> Measure {
        let mut sum = Measure {
            nodes: 1,
            text: 0,
            height: 1,
        };
        let mut add = |m: Measure| {
            sum.nodes += m.nodes;
            sum.text += m.text;
            sum.height = sum.height.max(m.height + 1);
        };
        match &node.value {
            Value::Scalar(s) => sum.text = s.text.len(),
            Value::List(items) => items.iter().for_each(|n| add(Measure::of(n))),
            Value::Map(entries) => entries.iter().for_each(|e| {
                let mut m = Measure::of(&e.value);
                m.text += e.key.len();
                add(m);
            }),
        }
        sum
    }
}

/// A collection that is being read.
struct Frame {
    at: Position,
    anchor: usize,
    kind: FrameKind,
}

enum FrameKind {
    List(Vec<Node>),
    Map {
        entries: Vec<Entry>,
        seen: BTreeMap<Arc<str>, Position>,
        /// The key whose value comes next; without a name when its value is to be dropped.
        key: Option<(Option<Arc<str>>, Position)>,
    },
}

struct Loader<'r> {
    report: &'r mut Report,
    stack: Vec<Frame>,
    anchors: BTreeMap<usize, (Node, Measure)>,
    root: Option<Node>,
    spent: Measure,
}

/// Reads the one document of a text. `None` after an error that leaves nothing to go on with; an empty
/// text gives an empty map.
pub fn load(text: &str, report: &mut Report) -> Option<Node> {
    let start = Position { line: 1, column: 1 };
    if text.len() > MAX_BYTES {
        let message = format!(
            "the file has {} bytes; at most {MAX_BYTES} are read",
            text.len()
        );
        report.add(start, "", message);
        return None;
    }
    let mut loader = Loader {
        report,
        stack: Vec::new(),
        anchors: BTreeMap::new(),
        root: None,
        spent: Measure::default(),
    };
    for next in Parser::new_from_str(text) {
        match next {
            Ok((event, span)) => loader.event(event, span).ok()?,
            Err(e) => {
                let message = format!("this is not YAML: {}", shown_long(&e.info()));
                let field = loader.path();
                loader.report.add(place(e.marker()), field, message);
                return None;
            }
        }
    }
    Some(loader.root.unwrap_or(Node {
        at: start,
        value: Value::Map(Vec::new()),
    }))
}

/// Said already: there is no going on.
struct Fatal;

impl Loader<'_> {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Fatal> {
        let tag = span.tag_start();
        let at = place(&tag.unwrap_or(span.start));
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                Err(self.fatal(at, "a second document starts here; a file has one"))
            }
            Event::Scalar(text, style, anchor, tag) => {
                if tag.is_some() {
                    self.no_tags(at);
                }
                let value = Value::Scalar(Scalar {
                    text: text.as_ref().into(),
                    plain: style == ScalarStyle::Plain,
                    literal: style == ScalarStyle::Literal,
                });
                self.complete(Node { at, value }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.open(at, anchor, tag.is_some(), FrameKind::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                let kind = FrameKind::Map {
                    entries: Vec::new(),
                    seen: BTreeMap::new(),
                    key: None,
                };
                self.open(at, anchor, tag.is_some(), kind)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(id) => self.alias(at, id),
            _ => Ok(()),
        }
    }

    fn open(
        &mut self,
        at: Position,
        anchor: usize,
        tagged: bool,
        kind: FrameKind,
    ) -> Result<(), Fatal> {
        if tagged {
            self.no_tags(at);
        }
        if self.stack.len() >= MAX_DEPTH {
            return Err(self.fatal(at, &too_deep()));
        }
        self.stack.push(Frame { at, anchor, kind });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Fatal> {
        let Some(frame) = self.stack.pop() else {
            return Ok(());
        };
        let value = match frame.kind {
            FrameKind::List(items) => Value::List(items),
            FrameKind::Map { entries, .. } => Value::Map(entries),
        };
        let node = Node {
            at: frame.at,
            value,
        };
        self.complete(node, frame.anchor)
    }

    /// A value is there as a whole: its own cost is counted, and it is kept if an alias may repeat it.
    fn complete(&mut self, node: Node, anchor: usize) -> Result<(), Fatal> {
        let text = match &node.value {
            Value::Scalar(s) => s.text.len(),
            _ => 0,
        };
        self.spend(node.at, 1, text)?;
        if anchor != 0 {
            let measure = Measure::of(&node);
            self.spend(node.at, measure.nodes, measure.text)?;
            self.anchors.insert(anchor, (node.clone(), measure));
        }
        self.attach(node);
        Ok(())
    }

    fn alias(&mut self, at: Position, id: usize) -> Result<(), Fatal> {
        let Some((_, measure)) = self.anchors.get(&id) else {
            return Err(self.fatal(at, "this alias stands inside the value that it repeats"));
        };
        let measure = *measure;
        if self.stack.len() + measure.height > MAX_DEPTH {
            return Err(self.fatal(at, &too_deep()));
        }
        self.spend(at, measure.nodes, measure.text)?;
        if let Some(node) = self.anchors.get(&id).map(|a| a.0.clone()) {
            self.attach(node);
        }
        Ok(())
    }

    fn spend(&mut self, at: Position, nodes: usize, text: usize) -> Result<(), Fatal> {
        self.spent.nodes += nodes;
        self.spent.text += text;
        if self.spent.nodes > MAX_NODES {
            let message = format!("too many values, with what aliases repeat; at most {MAX_NODES}");
            return Err(self.fatal(at, &message));
        }
        if self.spent.text > MAX_TEXT {
            let message =
                format!("too much text, with what aliases repeat; at most {MAX_TEXT} bytes");
            return Err(self.fatal(at, &message));
        }
        Ok(())
    }

    /// Puts a value where it belongs: into the list, behind its key, or as a key.
    fn attach(&mut self, node: Node) {
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(node);
            return;
        };
        match &mut frame.kind {
            FrameKind::List(items) => items.push(node),
            FrameKind::Map { entries, key, .. } => match key.take() {
                Some((Some(key), key_at)) => entries.push(Entry {
                    key,
                    key_at,
                    value: node,
                }),
                Some((None, _)) => {}
                None => self.attach_key(node),
            },
        }
    }

    fn attach_key(&mut self, node: Node) {
        let at = node.at;
        let name = match &node.value {
            Value::Scalar(s) if !node.is_null() => Ok(s.text.clone()),
            _ => Err("a key must be text".to_owned()),
        };
        let Some(FrameKind::Map { key, seen, .. }) = self.stack.last_mut().map(|f| &mut f.kind)
        else {
            return;
        };
        let name = name.and_then(|name| match seen.get(&name) {
            Some(first) => Err(format!(
                "`{}` is here a second time, the first is on line {}; a key stands once",
                shown(&name),
                first.line
            )),
            None => Ok(name),
        });
        match name {
            Ok(name) => {
                seen.insert(name.clone(), at);
                *key = Some((Some(name), at));
            }
            Err(message) => {
                *key = Some((None, at));
                let field = self.path();
                self.report.add(at, field, message);
            }
        }
    }

    fn no_tags(&mut self, at: Position) {
        let field = self.path();
        let message = "tags (`!name`) mean nothing here; leave it out";
        self.report.add(at, field, message);
    }

    fn fatal(&mut self, at: Position, message: &str) -> Fatal {
        let field = self.path();
        self.report.add(at, field, message);
        Fatal
    }

    /// The field that is being read.
    fn path(&self) -> String {
        let mut path = String::new();
        for frame in &self.stack {
            match &frame.kind {
                FrameKind::List(items) => path += &format!("[{}]", items.len()),
                FrameKind::Map {
                    key: Some((Some(key), _)),
                    ..
                } => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path += &shown(key);
                }
                FrameKind::Map { .. } => {}
            }
        }
        path
    }
}

fn too_deep() -> String {
    format!("nested too deeply; at most {MAX_DEPTH} levels")
}

fn place(marker: &Marker) -> Position {
    Position {
        line: marker.line().max(1),
        column: marker.col() + 1,
    }
}

/// A parser's message quotes the text: control characters are made visible.
fn shown_long(text: &str) -> String {
    text.chars()
        .take(200)
        .flat_map(|c| {
            let control = c.is_control();
            let escaped = control.then(|| c.escape_debug()).into_iter().flatten();
            escaped.chain((!control).then_some(c))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(node: &Node) -> String {
        match &node.value {
            Value::Scalar(s) => format!("{}@{}:{}", s.text, node.at.line, node.at.column),
            Value::List(items) => {
                format!(
                    "[{}]",
                    items.iter().map(shape).collect::<Vec<_>>().join(" ")
                )
            }
            Value::Map(entries) => {
                let one = |e: &Entry| format!("{}={}", e.key, shape(&e.value));
                format!(
                    "{{{}}}",
                    entries.iter().map(one).collect::<Vec<_>>().join(" ")
                )
            }
        }
    }
    fn good(text: &str) -> String {
        let mut report = Report::default();
        let node = load(text, &mut report).expect("a document");
        assert!(report.is_empty(), "{}", report.finish("x"));
        shape(&node)
    }
    fn bad(text: &str) -> String {
        let mut report = Report::default();
        load(text, &mut report);
        report.finish("x").to_string()
    }

    #[test]
    fn values_know_their_places() {
        assert_eq!(
            good("a: 1\nb:\n  - x\n  - {c: 'y z'}\n"),
            "{a=1@1:4 b=[x@3:5 {c=y z@4:9}]}"
        );
        assert_eq!(good("\u{feff}a: 1\r\nb: é\r\n"), "{a=1@1:4 b=é@2:4}");
    }

    #[test]
    fn nothing_is_an_empty_map() {
        for text in ["", "# only a comment\n", "---\n"] {
            let node = load(text, &mut Report::default()).expect("a document");
            assert!(
                node.is_null() || matches!(&node.value, Value::Map(m) if m.is_empty()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn aliases_repeat_a_value() {
        assert_eq!(
            good("a: &x [1, 2]\nb: *x\n"),
            "{a=[1@1:8 2@1:11] b=[1@1:8 2@1:11]}"
        );
    }

    #[test]
    fn a_key_stands_once() {
        assert_eq!(
            bad("a:\n  b: 1\n  c: 2\n  b: 3\n"),
            "x:4:3: a: `b` is here a second time, the first is on line 2; a key stands once"
        );
    }

    #[test]
    fn broken_text_is_refused_at_its_place() {
        assert!(bad("a: [1, 2\nb: 3\n").starts_with("x:2:"));
        assert!(bad("a: 1\n\tb: 2\n").contains("this is not YAML"));
        assert!(bad("a: *x\n").starts_with("x:1:4: a: this is not YAML"));
        assert!(bad("a: 1\n---\nb: 2\n").contains("a second document"));
        assert!(bad("{[1]: 2}\n").contains("a key must be text"));
        assert!(bad("a: !!int 3\n").contains("x:1:4: a: tags"));
    }

    #[test]
    fn aliases_cannot_blow_up() {
        let mut laughs = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
        for i in 1..12 {
            let row = vec![format!("*a{}", i - 1); 9].join(", ");
            laughs += &format!("a{i}: &a{i} [{row}]\n");
        }
        assert!(bad(&laughs).contains("too many values"));
        let long = format!(
            "a: &a '{}'\nb: [{}]\n",
            "x".repeat(1 << 20),
            vec!["*a"; 99].join(",")
        );
        assert!(bad(&long).contains("too much text"));
        let mut deep = "a0: &a0 [1]\n".to_owned();
        for i in 1..40 {
            deep += &format!("a{i}: &a{i} [*a{}]\n", i - 1);
        }
        assert!(bad(&deep).contains("nested too deeply"));
        assert!(bad("a: &a [*a]\n").contains("inside the value"));
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let opened = bad(&"[".repeat(10_000));
        assert!(
            opened.contains("limit") || opened.contains("deep"),
            "{opened}"
        );
        assert!(bad(&("[".repeat(25) + &"]".repeat(25))).contains("nested too deeply"));
        assert!(bad(&"- ".repeat(10_000)).contains("nested too deeply"));
        assert!(bad(&" ".repeat(MAX_BYTES + 1)).contains("at most 4194304 are read"));
        let wide = format!("[{}]", "1,".repeat(MAX_NODES + 1));
        assert!(bad(&wide).contains("too many values"));
    }
}
