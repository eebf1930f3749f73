//! The YAML file: schema, checks with file, line and field, translation to commands.
//!
//! This room is a pure translation: text in, a [`Plan`] out. A plan holds what must be known before the
//! engine starts, and the command lines, in VPP's command language and in the order of their
//! dependencies, that bring a fresh router into the state that the file describes. It opens no device,
//! touches no running router, and knows of the command language only its spelling. Whoever applies a
//! plan does so in one transaction, so that a bad file changes nothing.
//!
//! ```
//! let text = "interfaces:\n  tap0: {addresses: [192.0.2.1/24]}\n";
//! let plan = parshall_config::parse(text, "router.yaml").unwrap();
//! let lines: Vec<&str> = plan.commands.iter().map(|c| c.line.as_str()).collect();
//! assert_eq!(lines, [
//!     "create tap id 0",
//!     "set interface ip address tap0 192.0.2.1/24",
//!     "set interface state tap0 up",
//! ]);
//! let errors = parshall_config::parse("interfaces: {tap0: {mtu: 20}}", "router.yaml").unwrap_err();
//! assert!(errors.to_string().starts_with("router.yaml:1:26: interfaces.tap0.mtu: `20` will not do"));
//! ```
//!
//! The way of a file: `yaml` (text to nodes with places, bounded) -> `check` against `schema` and
//! `fields` (nodes to values) -> `translate` (values to a plan). [`reference`] writes the fields as a page.

mod check;
mod command;
mod diff;
mod error;
mod fields;
pub mod hsflowd;
mod language;
mod plan;
mod record;
pub mod reference;
mod scalar;
mod schema;
pub mod startup;
mod statement;
mod translate;
mod writer;
mod yaml;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub use command::{ConfigCheckArgs, ImportHsflowdArgs, check, import_hsflowd};
pub use error::{ConfigError, ConfigErrors, Position};
pub use language::{Yaml, base};
pub use plan::{
    ApiSettings, CliSettings, EngineSettings, HttpSettings, LogLevel, Plan, PlanLine, StatsSettings,
};
pub use yaml::MAX_BYTES;

use error::Report;

/// Reads a file and makes its plan.
///
/// # Errors
/// When it cannot be read, and all that is wrong with it.
pub fn load(path: &Path) -> Result<Plan, ConfigErrors> {
    parse(&read_text(path)?, &path.display().to_string())
}

/// Reads a file's text.
///
/// # Errors
/// When it cannot be read, or is no text.
pub fn read_text(path: &Path) -> Result<String, ConfigErrors> {
    let name = path.display().to_string();
    let wrong = |at: Position, message: String| {
        let mut report = Report::default();
        report.add(at, "", message);
        report.finish(&name)
    };
    let bytes = read(path)
        .map_err(|e| wrong(Position::default(), format!("the file cannot be read: {e}")))?;
    String::from_utf8(bytes).map_err(|e| {
        let good = e.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(e.as_bytes().get(..good).unwrap_or_default());
        let line = before.split('\n').next_back().unwrap_or("");
        let at = Position {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
        };
        wrong(at, "this is not UTF-8 text".into())
    })
}

/// The state directory that a text names, if it can be read so far.
pub fn state_directory(text: &str) -> Option<PathBuf> {
    parse(text, "").ok()?.state
}

/// One byte more than is allowed at the most, so that too much is noticed.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = MAX_BYTES as u64 + 1;
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file that a configuration names: plain files only, since others can make a reader wait for ever.
fn read_named(path: &str) -> Result<String, String> {
    let cannot = |e: io::Error| format!("the file cannot be read: {e}");
    if !std::fs::metadata(path).map_err(cannot)?.is_file() {
        return Err("this is not a plain file".into());
    }
    let mut bytes = Vec::new();
    let limit = hsflowd::MAX_BYTES as u64 + 1;
    File::open(path)
        .and_then(|f| f.take(limit).read_to_end(&mut bytes))
        .map_err(cannot)?;
    if bytes.len() > hsflowd::MAX_BYTES {
        return Err(format!(
            "the file has more than {} bytes",
            hsflowd::MAX_BYTES
        ));
    }
    String::from_utf8(bytes).map_err(|_| "this is not UTF-8 text".into())
}

/// Makes the plan of a file's text; `file_name` is for the errors. Of other files only one that `sflow.hsflowd-conf` names is
/// read.
///
/// # Errors
/// All that is wrong with it.
pub fn parse(text: &str, file_name: &str) -> Result<Plan, ConfigErrors> {
    let mut report = Report::default();
    let Some(root) = yaml::load(text, &mut report) else {
        return Err(report.finish(file_name));
    };
    let file = check::file(&root, &mut report);
    let plan = translate::translate(&file, &mut report, &read_named);
    if report.is_empty() {
        Ok(plan)
    } else {
        Err(report.finish(file_name))
    }
}
