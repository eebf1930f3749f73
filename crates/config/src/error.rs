//! What is wrong with a file: every finding with its place and field, in one report.

use std::fmt;

use serde::Serialize;

/// A place in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Position {
    /// Line, from 1; 0 = the file as a whole.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigError {
    /// Where.
    pub at: Position,
    /// The field, as in `interfaces.tap0.mtu`; empty when it is none in particular.
    pub field: String,
    /// What is wrong, and what is allowed.
    pub message: String,
}

/// All findings of a file, in the order of their places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigErrors {
    /// Name of the file, as it was given.
    pub file: String,
    /// The findings, the first [`ConfigErrors::MOST`] of them.
    pub errors: Vec<ConfigError>,
    /// How many more there are.
    pub more: usize,
}

impl ConfigErrors {
    /// A report says no more than this: whoever mends so many looks again anyway.
    pub const MOST: usize = 100;
}

impl fmt::Display for ConfigErrors {
    /// One line each: `FILE:LINE:COLUMN: field.path: what is wrong; what is allowed`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, e) in self.errors.iter().enumerate() {
            let end = if i == 0 { "" } else { "\n" };
            write!(f, "{end}{}", self.file)?;
            if e.at.line > 0 {
                write!(f, ":{}:{}", e.at.line, e.at.column)?;
            }
            if !e.field.is_empty() {
                write!(f, ": {}", e.field)?;
            }
            write!(f, ": {}", e.message)?;
        }
        if self.more > 0 {
            write!(f, "\n{}: and {} more errors", self.file, self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Collects findings while a file is looked through.
#[derive(Debug, Default)]
pub(crate) struct Report {
    errors: Vec<ConfigError>,
    more: usize,
}

impl Report {
    /// Notes a finding.
    pub fn add(&mut self, at: Position, field: impl Into<String>, message: impl Into<String>) {
        if self.is_full() {
            self.more += 1;
            return;
        }
        self.errors.push(ConfigError {
            at,
            field: field.into(),
            message: message.into(),
        });
    }

    /// Whether what is added now is only counted: no need to find words for it.
    pub fn is_full(&self) -> bool {
        self.errors.len() >= ConfigErrors::MOST
    }

    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// How many findings there are so far.
    pub fn count(&self) -> usize {
        self.errors.len() + self.more
    }

    /// All of it, sorted by place.
    pub fn finish(mut self, file: &str) -> ConfigErrors {
        self.errors.sort_by_key(|e| e.at);
        ConfigErrors {
            file: file.into(),
            errors: self.errors,
            more: self.more,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_is_a_line_of_its_own_in_order() {
        let mut report = Report::default();
        report.add(Position { line: 3, column: 7 }, "b", "is wrong");
        report.add(Position { line: 1, column: 2 }, "", "is no YAML");
        assert_eq!(
            report.finish("r.yaml").to_string(),
            "r.yaml:1:2: is no YAML\nr.yaml:3:7: b: is wrong"
        );
    }

    #[test]
    fn a_report_has_an_end() {
        let mut report = Report::default();
        for line in 0..1000 {
            report.add(Position { line, column: 1 }, "x", "is wrong");
        }
        let errors = report.finish("r.yaml");
        assert_eq!(
            (errors.errors.len(), errors.more),
            (ConfigErrors::MOST, 900)
        );
        assert!(errors.to_string().ends_with("r.yaml: and 900 more errors"));
    }
}
