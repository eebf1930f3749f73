//! Findings as text, as JSON, and as an exit status.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::{Finding, State};

/// 0 = all well, 1 = warnings, 2 = problems.
pub fn exit_code(found: &[Finding]) -> u8 {
    match found.iter().map(|f| f.state).max() {
        Some(State::Problem) => 2,
        Some(State::Warning) => 1,
        _ => 0,
    }
}

fn count(found: &[Finding], state: State) -> usize {
    found.iter().filter(|f| f.state == state).count()
}

/// Findings as data.
pub fn json(found: &[Finding]) -> Value {
    json!({
        "problems": count(found, State::Problem),
        "warnings": count(found, State::Warning),
        "findings": found,
    })
}

/// Findings for people, the worst first; what is well only with `all`.
pub fn text(found: &[Finding], all: bool) -> String {
    let mut rows: Vec<&Finding> = found
        .iter()
        .filter(|f| all || f.state != State::Ok)
        .collect();
    rows.sort_by_key(|f| std::cmp::Reverse(f.state));
    let mut out = String::new();
    for f in rows {
        let word = match f.state {
            State::Ok => "ok",
            State::Warning => "WARNING",
            State::Problem => "PROBLEM",
        };
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(out, "{word:<8} {:<15} {}", f.check, f.what);
        if !f.why.is_empty() {
            let _ = writeln!(out, "{:24} why:  {}", "", f.why);
        }
        if let Some(mend) = &f.mend {
            let _ = writeln!(out, "{:24} mend: {mend}", "");
        }
    }
    let (problems, warnings) = (count(found, State::Problem), count(found, State::Warning));
    let _ = writeln!(
        out,
        "{} checks: {problems} problems, {warnings} warnings",
        found.len()
    );
    out
}
