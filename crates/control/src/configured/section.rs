//! A section being written: fields are put in when they say something.

use serde_json::{Map, Value};

/// Fields of a section, put in when they are there.
#[derive(Default)]
pub(super) struct Section(pub Map<String, Value>);

impl Section {
    pub fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.into(), value.into());
    }
    pub fn some<T: Into<Value>>(&mut self, name: &str, value: Option<T>) {
        if let Some(v) = value {
            self.put(name, v);
        }
    }
    /// A number that is not the one that holds without it.
    pub fn unless(&mut self, name: &str, value: u64, default: u64) {
        if value != default {
            self.put(name, value);
        }
    }
    pub fn on(&mut self, name: &str, on: bool) {
        if on {
            self.put(name, true);
        }
    }
    pub fn list(&mut self, name: &str, items: Vec<Value>) {
        if !items.is_empty() {
            self.put(name, items);
        }
    }
    pub fn section(&mut self, name: &str, section: Section) {
        if !section.0.is_empty() {
            self.put(name, section.0);
        }
    }
}
