//! Holds a file against the schema: unknown and missing fields, wrong shapes, values out of range.

use std::collections::BTreeMap;

use parshall_command::{distance, shown};

use crate::error::{Position, Report};
use crate::fields::FILE_SECTION;
use crate::record::{Checked, Item, Record};
use crate::scalar;
use crate::schema::{Default, Field, Kind, Section, Shape, one_of};
use crate::yaml::{Entry, Node, Scalar, Value};

/// Checks a whole file. What passed is in the record, what did not in the report.
pub fn file(root: &Node, report: &mut Report) -> Record {
    let mut checker = Checker {
        report,
        parent: "".into(),
    };
    if root.is_null() {
        return Record::empty(&FILE_SECTION);
    }
    match &root.value {
        Value::Map(entries) => checker.record(&FILE_SECTION, entries, root.at, String::new()),
        _ => {
            let known = names(&FILE_SECTION);
            let message =
                format!("a file consists of sections such as `interfaces:`; known are {known}");
            checker.report.add(root.at, "", message);
            Record {
                flawed: true,
                ..Record::empty(&FILE_SECTION)
            }
        }
    }
}

struct Checker<'r> {
    report: &'r mut Report,
    /// The interface whose sub-interfaces come next.
    parent: std::sync::Arc<str>,
}

impl Checker<'_> {
    fn record(
        &mut self,
        section: &'static Section,
        entries: &[Entry],
        at: Position,
        path: String,
    ) -> Record {
        let mut record = Record {
            section,
            at,
            field: path,
            name: "".into(),
            items: BTreeMap::new(),
            flawed: false,
        };
        let before = self.report.count();
        for entry in entries {
            let Some(field) = section.field(&entry.key) else {
                let message = if self.report.is_full() {
                    String::new()
                } else {
                    unknown(section, &entry.key)
                };
                self.report.add(entry.key_at, record.field.clone(), message);
                continue;
            };
            let path = join(&record.field, field.name);
            if entry.value.is_null() && !matches!(field.default, Default::Required) {
                continue;
            }
            if let Some(item) = self.value(field, &field.kind, &entry.value, path) {
                record.items.insert(field.name, item);
            }
        }
        self.required(section, entries, &record);
        record.flawed = self.report.count() != before;
        record
    }

    fn required(&mut self, section: &'static Section, entries: &[Entry], record: &Record) {
        for field in section.fields {
            let there = entries.iter().any(|e| &*e.key == field.name);
            if matches!(field.default, Default::Required) && !there {
                let allowed = field.kind.allowed(field.unit);
                let message = format!("`{}` is missing; write {allowed}", field.name);
                self.report.add(record.at, record.field.clone(), message);
            }
        }
    }

    fn value(
        &mut self,
        field: &'static Field,
        kind: &'static Kind,
        node: &Node,
        path: String,
    ) -> Option<Item> {
        let (value, literal) = match (kind, &node.value) {
            (Kind::Either(kinds), _) => {
                let fitting = kinds.iter().filter(|k| k.shape() == shape(node));
                let chosen: Vec<&'static Kind> = fitting.collect();
                return match chosen.as_slice() {
                    [] => self.misshapen(field, kind, node, path),
                    [first, ..] => self.value(field, first, node, path),
                };
            }
            (Kind::Record(section), Value::Map(entries)) => {
                let record = self.record(section, entries, node.at, path.clone());
                (Checked::Record(record), false)
            }
            (Kind::Interfaces(section), Value::Map(entries)) => {
                (self.interfaces(section, entries, &path), false)
            }
            (Kind::List { of, max }, Value::List(nodes)) => {
                (self.list(field, of, *max, nodes, node.at, &path)?, false)
            }
            (_, Value::Scalar(scalar)) if kind.shape() == Shape::Scalar => (
                self.scalar(field, kind, scalar, node.at, &path)?,
                scalar.literal,
            ),
            _ => return self.misshapen(field, kind, node, path),
        };
        Some(Item {
            at: node.at,
            field: path,
            value,
            literal,
        })
    }

    fn scalar(
        &mut self,
        field: &Field,
        kind: &Kind,
        scalar: &Scalar,
        at: Position,
        path: &str,
    ) -> Option<Checked> {
        let read = scalar::read(kind, field.unit, scalar);
        read.map_err(|message| {
            let message = match (kind, meant(kind, &scalar.text)) {
                (Kind::Choice(_), Some(word)) => format!("{message}; is `{word}` meant?"),
                _ => message,
            };
            self.report.add(at, path, message);
        })
        .ok()
    }

    fn list(
        &mut self,
        field: &'static Field,
        of: &'static Kind,
        max: usize,
        nodes: &[Node],
        at: Position,
        path: &str,
    ) -> Option<Checked> {
        if nodes.len() > max {
            let message = format!("{} are listed; at most {max} are allowed", nodes.len());
            self.report.add(at, path, message);
            return None;
        }
        let each = nodes.iter().enumerate();
        let items = each
            .filter_map(|(i, node)| self.value(field, of, node, format!("{path}[{i}]")))
            .collect();
        Some(Checked::List(items))
    }

    fn interfaces(&mut self, section: &'static Section, entries: &[Entry], path: &str) -> Checked {
        let mut all = Vec::with_capacity(entries.len());
        for entry in entries {
            let name = Scalar {
                text: entry.key.clone(),
                plain: true,
                literal: false,
            };
            if scalar::read(&Kind::Interface, "", &name).is_err() {
                let message = format!(
                    "{} cannot be the name of an interface; a name has 1 to 63 letters, digits and any of `._:-`",
                    scalar::quoted(&entry.key)
                );
                self.report.add(entry.key_at, path, message);
                continue;
            }
            let path = join(path, &entry.key);
            let parts = path.ends_with(&format!(".sub-interfaces.{}", entry.key));
            let name: std::sync::Arc<str> = match parts {
                true => format!("{}.{}", self.parent, entry.key).into(),
                false => entry.key.clone(),
            };
            if !parts {
                self.parent = name.clone();
            }
            let record = match &entry.value.value {
                Value::Map(fields) => self.record(section, fields, entry.key_at, path),
                _ if entry.value.is_null() => self.record(section, &[], entry.key_at, path),
                _ => {
                    let message = format!(
                        "an interface has fields such as `addresses:`; known are {}",
                        names(section)
                    );
                    self.report.add(entry.value.at, path.clone(), message);
                    let mut record = self.record(section, &[], entry.key_at, path);
                    record.flawed = true;
                    record
                }
            };
            all.push(Record { name, ..record });
        }
        Checked::Interfaces(all)
    }

    fn misshapen(&mut self, field: &Field, kind: &Kind, node: &Node, path: String) -> Option<Item> {
        let found = match shape(node) {
            _ if node.is_null() => "nothing",
            Shape::Scalar => "a single value",
            Shape::List => "a list",
            Shape::Map => "a section",
        };
        let message = format!("this is {found}; allowed is {}", kind.allowed(field.unit));
        self.report.add(node.at, path, message);
        None
    }
}

fn shape(node: &Node) -> Shape {
    match &node.value {
        Value::Scalar(_) => Shape::Scalar,
        Value::List(_) => Shape::List,
        Value::Map(_) => Shape::Map,
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.into()
    } else {
        format!("{path}.{name}")
    }
}

fn names(section: &Section) -> String {
    let names: Vec<&str> = section.fields.iter().map(|f| f.name).collect();
    one_of(&names)
}

fn unknown(section: &Section, key: &str) -> String {
    let known = section.fields.iter().map(|f| f.name);
    match nearest(known, key) {
        Some(near) => format!(
            "there is no field `{}` here; is `{near}` meant?",
            shown(key)
        ),
        None => format!(
            "there is no field `{}` here; known are {}",
            shown(key),
            names(section)
        ),
    }
}

fn meant(kind: &Kind, text: &str) -> Option<&'static str> {
    match kind {
        Kind::Choice(words) => nearest(words.iter().copied(), text),
        _ => None,
    }
}

/// The word that `text` most likely means, if it is near one. Case and `_` for `-` do not count.
pub fn nearest<'a>(words: impl Iterator<Item = &'a str>, text: &str) -> Option<&'a str> {
    let text: String = text.chars().take(33).collect();
    let text = text.to_ascii_lowercase().replace('_', "-");
    words
        .map(|w| (distance(&text, &w.to_ascii_lowercase()), w))
        .filter(|(d, w)| *d <= 2.min(w.len() / 2))
        .min_by_key(|(d, _)| *d)
        .map(|(_, w)| w)
}
