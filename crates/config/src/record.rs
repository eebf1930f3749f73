//! Values that have passed the schema, and where they stood.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parshall_command::{Mac, Prefix};

use crate::error::Position;
use crate::scalar;
use crate::schema::{Default, Kind, Section};
use crate::yaml::Scalar;

/// A value that has passed.
#[derive(Clone, Debug, PartialEq)]
pub enum Checked {
    Bool(bool),
    Uint(u64),
    Float(f64),
    Text(Arc<str>),
    Address(IpAddr),
    Prefix(Prefix),
    Mac(Mac),
    List(Vec<Item>),
    Record(Record),
    Interfaces(Vec<Record>),
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub at: Position,
    /// Its field, as in `interfaces.tap0.mtu`.
    pub field: String,
    pub value: Checked,
    /// Its text was a block with lines of its own.
    pub literal: bool,
}

/// The fields of a section that are there.
#[derive(Clone)]
pub struct Record {
    pub section: &'static Section,
    pub at: Position,
    pub field: String,
    /// Name of an interface.
    pub name: Arc<str>,
    pub items: BTreeMap<&'static str, Item>,
    /// Something in it has been reported: what seems missing may be among that.
    pub flawed: bool,
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(&self.items).finish()
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Record) -> bool {
        self.items == other.items
    }
}

impl Checked {
    pub fn text(&self) -> Option<&str> {
        match self {
            Checked::Text(t) => Some(t),
            _ => None,
        }
    }
    pub fn uint(&self) -> Option<u64> {
        match self {
            Checked::Uint(n) => Some(*n),
            _ => None,
        }
    }
}

impl Record {
    /// A record without anything in it.
    pub fn empty(section: &'static Section) -> Record {
        Record {
            section,
            at: Position { line: 1, column: 1 },
            field: String::new(),
            name: "".into(),
            items: BTreeMap::new(),
            flawed: false,
        }
    }

    /// The field, if it is there.
    pub fn get(&self, name: &str) -> Option<&Item> {
        debug_assert!(self.section.field(name).is_some(), "no field {name}");
        self.items.get(name)
    }
    /// The field, if it is there and the section has it at all.
    pub fn maybe(&self, name: &str) -> Option<&Item> {
        self.items.get(name)
    }
    /// Whether the field is there.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The field's value, or the default of the schema.
    pub fn value(&self, name: &str) -> Option<Checked> {
        if let Some(item) = self.get(name) {
            return Some(item.value.clone());
        }
        let field = self.section.field(name)?;
        let Default::Value(text) = field.default else {
            return None;
        };
        let plain = Scalar {
            text: text.into(),
            plain: true,
            literal: false,
        };
        let first = match &field.kind {
            Kind::Either(kinds) => kinds.first()?,
            kind => kind,
        };
        scalar::read(first, "", &plain).ok()
    }

    pub fn bool(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Checked::Bool(true)))
    }
    pub fn uint(&self, name: &str) -> Option<u64> {
        self.value(name)?.uint()
    }
    pub fn size(&self, name: &str) -> Option<usize> {
        usize::try_from(self.uint(name)?).ok()
    }
    /// Text that is there; no default.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.value.text()
    }
    pub fn address(&self, name: &str) -> Option<IpAddr> {
        match self.get(name)?.value {
            Checked::Address(a) => Some(a),
            _ => None,
        }
    }
    pub fn prefix(&self, name: &str) -> Option<Prefix> {
        match self.get(name)?.value {
            Checked::Prefix(p) => Some(p),
            _ => None,
        }
    }
    pub fn mac(&self, name: &str) -> Option<Mac> {
        match self.get(name)?.value {
            Checked::Mac(m) => Some(m),
            _ => None,
        }
    }
    pub fn record(&self, name: &str) -> Option<&Record> {
        match &self.get(name)?.value {
            Checked::Record(r) => Some(r),
            _ => None,
        }
    }
    /// The items of a list; none when it is not there.
    pub fn list(&self, name: &str) -> &[Item] {
        match self.get(name).map(|i| &i.value) {
            Some(Checked::List(items)) => items,
            _ => &[],
        }
    }
    /// The records of a list.
    pub fn records(&self, name: &str) -> impl Iterator<Item = &Record> {
        self.list(name).iter().filter_map(|i| match &i.value {
            Checked::Record(r) => Some(r),
            _ => None,
        })
    }
    /// The interfaces.
    pub fn interfaces(&self) -> &[Record] {
        self.named("interfaces")
    }
    /// The named records of a section.
    pub fn named(&self, section: &str) -> &[Record] {
        match self.get(section).map(|i| &i.value) {
            Some(Checked::Interfaces(all)) => all,
            _ => &[],
        }
    }
    /// The named records of a section that not every kind of record has.
    pub fn named_or_none(&self, section: &str) -> &[Record] {
        match self.maybe(section).map(|i| &i.value) {
            Some(Checked::Interfaces(all)) => all,
            _ => &[],
        }
    }
    /// Place and field of one of its values; of itself when that is not there or `name` is empty.
    pub fn place(&self, name: &str) -> (Position, &str) {
        self.items
            .get(name)
            .map_or((self.at, self.field.as_str()), |i| (i.at, i.field.as_str()))
    }
}
