//! Writes what was measured into a Markdown file, between markers, and leaves all else alone.
//!
//! A section starts with `<!-- bench:NAME -->` and ends with `<!-- bench:NAME end -->`, each on a line of its own.

use std::fmt::Write;

use crate::report::Bar;
use crate::{BenchError, Report};

/// The section of a report: where and when it was measured, the bars, the tables.
pub fn section(report: &Report, commit: Option<&str>) -> String {
    let mut text = format!("Of {}.\n\n", report.of);
    let built = commit.map_or(String::new(), |c| format!(", commit {c}"));
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{}; {}{built}.",
        report.machine.line(),
        report.machine.date
    );
    if !report.bars.is_empty() {
        let _ = write!(text, "\n{}", Bar::table(&report.bars).markdown());
    }
    for table in &report.tables {
        let _ = write!(text, "\n### {}\n\n{}", table.title, table.markdown());
    }
    for fault in &report.faults {
        let _ = write!(text, "\nFault: {fault}.\n");
    }
    text
}

/// `old` with the text between the markers of each section replaced.
///
/// # Errors
/// When `old` has no such section, or one without an end.
pub fn rewrite<'a>(
    old: &str,
    sections: impl IntoIterator<Item = (&'a str, String)>,
) -> Result<String, BenchError> {
    let mut text = old.to_owned();
    for (name, section) in sections {
        let (start, end) = (
            format!("<!-- bench:{name} -->\n"),
            format!("<!-- bench:{name} end -->\n"),
        );
        let missing =
            |what: &str| BenchError(format!("the document has no line {}", what.trim_end()));
        let from = text.find(&start).ok_or_else(|| missing(&start))? + start.len();
        let len = text[from..].find(&end).ok_or_else(|| missing(&end))?;
        text.replace_range(
            from..from + len,
            &format!("\n{}\n", section.trim_end_matches('\n')),
        );
        let at = text[from..].find(&end).map_or(from, |n| from + n);
        if !text[..at].ends_with("\n\n") {
            text.insert(at, '\n');
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Table;

    const OLD: &str = "# Title\n\n<!-- bench:a -->\nold\n<!-- bench:a end -->\n\nText.\n\
        <!-- bench:b -->\n<!-- bench:b end -->\n";

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let new = rewrite(OLD, [("a", "new\ntext\n".to_owned())]).unwrap();
        let expected = OLD.replace("\nold\n", "\n\nnew\ntext\n\n");
        assert_eq!(new, expected);
        // Writing the same again changes nothing.
        assert_eq!(
            rewrite(&new, [("a", "new\ntext".to_owned())]).unwrap(),
            expected
        );
        let both = rewrite(&new, [("b", "x".to_owned()), ("a", "old".to_owned())]).unwrap();
        assert!(
            both.contains("<!-- bench:b -->\n\nx\n\n<!-- bench:b end -->\n"),
            "{both}"
        );
    }

    #[test]
    fn missing_markers_are_named() {
        let error = rewrite(OLD, [("c", String::new())])
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("<!-- bench:c -->"), "{error}");
        let cut = OLD.replace("<!-- bench:b end -->\n", "");
        let error = rewrite(&cut, [("b", String::new())])
            .unwrap_err()
            .to_string();
        assert!(error.ends_with("<!-- bench:b end -->"), "{error}");
    }

    #[test]
    fn a_section_says_where_and_when() {
        let mut table = Table::new("Rates", &["case", "Mpps"]);
        table.push(["ip4".into(), "60.00".into()]);
        let mut report = Report::new(
            "forward",
            "64-byte frames in memory",
            &serde_json::json!({}),
        )
        .unwrap()
        .with_table(table)
        .with_bars([Bar::at_least("ip4", 60.0, 50.0, "Mpps")]);
        report.machine.date = "2026-11-21".into();
        let text = section(&report, Some("abc1234"));
        assert!(
            text.starts_with("Of 64-byte frames in memory.\n\n"),
            "{text}"
        );
        assert!(text.contains("; 2026-11-21, commit abc1234.\n"), "{text}");
        assert!(
            text.contains(
                "| ip4 | at least 50.00 Mpps | 60.00 Mpps | yes |\n\n### Rates\n\n| case | Mpps |\n"
            ),
            "{text}"
        );
    }
}
