//! Reports: what a bench found, in one shape for people, machines and documents.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{BenchError, Machine};

/// What a bench found.
#[derive(Clone, Debug)]
pub struct Report {
    /// Name of the bench, as on the command line.
    pub bench: &'static str,
    /// Where it ran.
    pub machine: Machine,
    /// What the figures are of, in one sentence: in memory, memif, veth; frame size; cores.
    pub of: String,
    /// The figures for machines: an object, printed after `bench`, the machine and `of`.
    pub figures: Map<String, Value>,
    /// The figures for people; also what `bench all` writes into the documents.
    pub tables: Vec<Table>,
    /// What must hold, and whether it does.
    pub bars: Vec<Bar>,
    /// What must be exact on any machine and is not: the bench fails.
    pub faults: Vec<String>,
}

/// A table. Numbers come formatted; columns after the first are right-aligned where all cells are numbers.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Heading.
    pub title: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Cells, one row as long as `columns`.
    pub rows: Vec<Vec<String>>,
}

/// A bar that a figure must clear.
#[derive(Clone, Debug, Serialize)]
pub struct Bar {
    /// What is measured.
    pub measure: String,
    /// What it must be, with its unit.
    pub bar: String,
    /// What it is, with its unit.
    pub found: String,
    /// Whether it holds.
    pub holds: bool,
}

impl Report {
    /// A report of this machine. `figures` must serialize to an object.
    ///
    /// # Errors
    /// When it does not.
    pub fn new(
        bench: &'static str,
        of: impl Into<String>,
        figures: &impl Serialize,
    ) -> Result<Report, BenchError> {
        let figures = match serde_json::to_value(figures) {
            Ok(Value::Object(map)) => map,
            Ok(_) => return Err(BenchError(format!("{bench}: figures are not an object"))),
            Err(e) => return Err(BenchError::of(bench, e)),
        };
        Ok(Report {
            bench,
            machine: Machine::this(),
            of: of.into(),
            figures,
            tables: Vec::new(),
            bars: Vec::new(),
            faults: Vec::new(),
        })
    }

    /// Adds a table.
    #[must_use]
    pub fn with_table(mut self, table: Table) -> Report {
        self.tables.push(table);
        self
    }

    /// Adds bars.
    #[must_use]
    pub fn with_bars(mut self, bars: impl IntoIterator<Item = Bar>) -> Report {
        self.bars.extend(bars);
        self
    }

    /// The object for machines.
    pub fn json(&self) -> Value {
        let mut all = Map::new();
        all.insert("bench".into(), self.bench.into());
        if let Ok(Value::Object(machine)) = serde_json::to_value(&self.machine) {
            all.extend(machine);
        }
        all.insert("of".into(), self.of.clone().into());
        all.extend(self.figures.clone());
        if let Ok(bars) = serde_json::to_value(&self.bars)
            && !self.bars.is_empty()
        {
            all.insert("bars".into(), bars);
        }
        if !self.faults.is_empty() {
            all.insert("faults".into(), self.faults.clone().into());
        }
        Value::Object(all)
    }

    /// The text for people.
    pub fn text(&self) -> String {
        let mut text = format!("{}: {}\n{}\n", self.bench, self.of, self.machine.line());
        for table in &self.tables {
            text += &format!("\n{}\n{}", table.title, table.text());
        }
        if !self.bars.is_empty() {
            text += &format!("\n{}", Bar::table(&self.bars).text());
        }
        text
    }

    /// Prints it.
    pub fn print(&self, json: bool) {
        if json {
            println!("{}", self.json());
        } else {
            print!("{}", self.text());
        }
    }
}

impl Table {
    /// An empty table.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Table {
        Table {
            title: title.into(),
            columns: columns.iter().map(ToString::to_string).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn push(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().collect());
    }

    /// Columns aligned with spaces.
    pub fn text(&self) -> String {
        let lines = std::iter::once(&self.columns).chain(&self.rows);
        let cell = |row: &Vec<String>, c: usize| row.get(c).map_or(0, |s| s.chars().count());
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|c| lines.clone().map(|r| cell(r, c)).max().unwrap_or(0))
            .collect();
        let right = self.right();
        let mut text = String::new();
        for row in lines {
            let cells = row.iter().zip(&widths).zip(&right);
            let line: Vec<_> = cells
                .map(|((s, &w), &right)| match right {
                    true => format!("{s:>w$}"),
                    false => format!("{s:<w$}"),
                })
                .collect();
            text += line.join("  ").trim_end();
            text.push('\n');
        }
        text
    }

    /// A Markdown table, without the heading.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let escaped =
            |row: &[String]| -> Vec<String> { row.iter().map(|s| s.replace('|', "\\|")).collect() };
        let rule = self.right().into_iter().map(|r| match r {
            true => "---:".to_owned(),
            false => "---".to_owned(),
        });
        let mut text = line(&escaped(&self.columns)) + &line(&rule.collect::<Vec<_>>());
        for row in &self.rows {
            text += &line(&escaped(row));
        }
        text
    }

    /// Which columns hold numbers only.
    fn right(&self) -> Vec<bool> {
        let number = |s: &String| {
            s.is_empty()
                || s == "-"
                || s.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c))
        };
        (0..self.columns.len())
            .map(|c| c > 0 && self.rows.iter().all(|r| r.get(c).is_none_or(number)))
            .collect()
    }
}

impl Bar {
    /// `found` must be at least `least`, both in `unit`.
    pub fn at_least(measure: impl Into<String>, found: f64, least: f64, unit: &str) -> Bar {
        Bar {
            measure: measure.into(),
            bar: format!("at least {} {unit}", short(least)),
            found: format!("{} {unit}", short(found)),
            holds: found >= least,
        }
    }

    /// `found` must be at most `most`, both in `unit`.
    pub fn at_most(measure: impl Into<String>, found: f64, most: f64, unit: &str) -> Bar {
        Bar {
            measure: measure.into(),
            bar: format!("at most {} {unit}", short(most)),
            found: format!("{} {unit}", short(found)),
            holds: found <= most,
        }
    }

    /// The bars as a table.
    pub fn table(bars: &[Bar]) -> Table {
        let mut table = Table::new("Bars", &["measure", "bar", "found", "holds"]);
        for b in bars {
            let holds = if b.holds { "yes" } else { "no" };
            table.push([
                b.measure.clone(),
                b.bar.clone(),
                b.found.clone(),
                holds.into(),
            ]);
        }
        table
    }
}

/// A number with as many decimals as say something: whole thousands grouped, two below 100.
pub fn short(x: f64) -> String {
    if x.abs() >= 1000.0 {
        return grouped(x.round() as i64);
    }
    match x.abs() >= 100.0 {
        true => format!("{x:.1}"),
        false => format!("{x:.2}"),
    }
}

/// A whole number with its thousands grouped.
fn grouped(n: i64) -> String {
    let digits = n.unsigned_abs().to_string();
    let mut text = String::from(if n < 0 { "-" } else { "" });
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("Rates", &["case", "Mpps", "note"]);
        table.push(["ip4".into(), "61.25".into(), "a|b".into()]);
        table.push(["mpls-swap".into(), "9.5".into(), String::new()]);
        table
    }

    #[test]
    fn text_is_aligned() {
        let expected = "case        Mpps  note\nip4        61.25  a|b\nmpls-swap    9.5\n";
        assert_eq!(table().text(), expected);
    }

    #[test]
    fn markdown_escapes_and_aligns() {
        let expected = "| case | Mpps | note |\n| --- | ---: | --- |\n\
            | ip4 | 61.25 | a\\|b |\n| mpls-swap | 9.5 |  |\n";
        assert_eq!(table().markdown(), expected);
    }

    #[test]
    fn bars_hold_or_do_not() {
        assert!(Bar::at_least("a", 2.0, 2.0, "Mpps").holds);
        assert!(!Bar::at_least("a", 1.99, 2.0, "Mpps").holds);
        assert!(Bar::at_most("a", 0.3, 0.3, "cycles").holds);
        let bar = Bar::at_most("a", 0.31, 0.3, "cycles");
        assert!(!bar.holds);
        assert_eq!(
            (&*bar.bar, &*bar.found),
            ("at most 0.30 cycles", "0.31 cycles")
        );
    }

    #[test]
    fn numbers_are_short() {
        let of = [0.254, 99.5, 163.04, 1234.5, -1_234_567.0];
        assert_eq!(
            of.map(short),
            ["0.25", "99.50", "163.0", "1,235", "-1,234,567"]
        );
    }

    #[test]
    fn json_is_one_object_with_the_machine_in_front() {
        let report = Report::new("x", "in memory", &serde_json::json!({"tables": []})).unwrap();
        let json = report.with_bars([Bar::at_least("a", 1.0, 1.0, "")]).json();
        let keys: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys[..3], ["bench", "cpu", "cpus"]);
        assert_eq!(keys[keys.len() - 3..], ["of", "tables", "bars"]);
        assert!(Report::new("x", "", &3).is_err());
    }
}
