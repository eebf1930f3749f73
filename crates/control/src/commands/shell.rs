//! Executing lines: one, a file, a configuration; each a transaction.

use parshall_command::{Asking, Candidate, Names, Reply, Script, Shell};

use parshall_counters::DropReason;

use super::bulk::Bulk;
use super::{Context, Output};
use crate::engine::EngineConfig;
use crate::error::{Error, Result};
use crate::router::Router;

/// Lines of a file executed before workers have their turn.
const LINES_PER_TURN: usize = 256;

/// The names of a router at this moment.
pub(super) struct RouterNames<'a>(pub(super) &'a Router);

impl Names for RouterNames<'_> {
    fn list(&self, class: &str) -> Vec<String> {
        let r = self.0;
        match class {
            "interface" => r.interfaces.iter().map(|i| i.name.clone()).collect(),
            "node" => {
                let input =
                    |s: &&parshall_graph::NodeSpec| s.kind == parshall_graph::NodeKind::Input;
                let specs = r.engine.graph.specs().iter().filter(input);
                specs.map(|s| s.name.to_owned()).collect()
            }
            "stream" => r.streams.keys().cloned().collect(),
            "reason" => DropReason::ALL
                .iter()
                .map(|r| r.name().to_owned())
                .collect(),
            _ => Vec::new(),
        }
    }
    fn contains(&self, class: &str, name: &str) -> bool {
        match class {
            "interface" => self.0.interfaces.iter().any(|i| i.name == name),
            "stream" => self.0.streams.contains_key(name),
            _ => self.list(class).iter().any(|n| n == name),
        }
    }
}

impl Router {
    /// Executes one command line, whole or not at all.
    ///
    /// # Errors
    /// Why nothing was done.
    pub fn run_line(&mut self, line: &str, json: bool) -> Result<Output> {
        let table = self.commands().clone();
        let found = table.parse(line, &RouterNames(self))?;
        let (handler, args) = (found.spec.handler, found.args);
        self.atomically(|r| handler(r, &args, &Context { json }))
    }

    /// Executes a script, whole or not at all; what its commands print, one after the other.
    ///
    /// # Errors
    /// Names the line that failed.
    pub fn run_script(&mut self, text: &str, origin: &str) -> Result<String> {
        // A script that cannot be read to its end is not begun.
        for line in Script::new(text) {
            line.map_err(|e| Error::Parse(format!("{origin}: {}", e.render())))?;
        }
        let lines = Script::new(text).filter_map(std::result::Result::ok);
        let place = |number: usize| format!("{origin}:{number}");
        self.run_lines(lines.map(|l| (l.number, l.text)), place)
    }

    /// Executes lines, each with what `place` makes its place of, whole or not at all.
    fn run_lines<'l, P>(
        &mut self,
        lines: impl Iterator<Item = (P, &'l str)>,
        place: impl Fn(P) -> String,
    ) -> Result<String> {
        self.atomically(|r| {
            let (mut printed, mut bulk) = (String::new(), Bulk::new());
            let mut run = |r: &mut Router, at: P, line: &str| -> Result<()> {
                let output = r.run_line(line, false).map_err(|e| {
                    Error::Parse(format!("{}: `{}`: {e}", place(at), shortened(line)))
                })?;
                if let Output::Text(text) = output {
                    printed.push_str(&text);
                    if !text.is_empty() && !text.ends_with('\n') {
                        printed.push('\n');
                    }
                }
                Ok(())
            };
            let mut since_turn = 0;
            for (at, line) in lines {
                match bulk.put_off(r, at, line) {
                    Ok(()) if !bulk.is_full() => continue,
                    Ok(()) => bulk.flush(r, &mut run)?,
                    Err(at) => {
                        bulk.flush(r, &mut run)?;
                        bulk.forget();
                        run(r, at, line)?;
                        since_turn += 1;
                        if since_turn < LINES_PER_TURN {
                            continue;
                        }
                    }
                }
                // Neighbours should not have to wait for the end of a long file.
                since_turn = 0;
                r.turn();
            }
            bulk.flush(r, &mut run)?;
            Ok(printed)
        })
    }
}

/// Executes lines, each with the place it comes from, whole or not at all.
///
/// # Errors
/// Names the place and the command that failed.
pub fn execute_lines(router: &mut Router, lines: &[(String, String)]) -> Result<String> {
    let each = lines.iter().map(|(at, line)| (at, line.as_str()));
    router.run_lines(each, Clone::clone)
}

/// Executes lines on a model of a router that starts empty with this configuration: says what would be
/// refused, and touches nothing.
///
/// # Errors
/// As [`execute_lines`].
pub fn rehearse(config: &EngineConfig, lines: &[(String, String)]) -> Result<()> {
    let mut model = Router::model(config)?;
    execute_lines(&mut model, lines).map(drop)
}

/// The first line of a command, cut to a printable length.
fn shortened(line: &str) -> String {
    let first = line.lines().next().unwrap_or_default();
    let mut out: String = first.chars().take(100).collect();
    if out.len() < line.len() {
        out.push_str("...");
    }
    out
}

impl Shell for Router {
    fn execute(&mut self, line: &str, json: bool) -> Reply {
        if line.trim().is_empty() {
            return Reply::Text(String::new());
        }
        match self.run_line(line, json) {
            Ok(Output::Done) => Reply::Text(String::new()),
            Ok(Output::Text(text)) => Reply::Text(text),
            Ok(Output::Data(data)) => Reply::Data(data),
            Err(e) => Reply::Error(e.to_string()),
        }
    }

    fn execute_for(&mut self, line: &str, json: bool, asking: &Asking) -> Reply {
        self.configs.asking = asking.clone();
        let reply = self.execute(line, json);
        self.configs.asking = Asking::default();
        reply
    }

    fn complete(&mut self, line: &str, cursor: usize) -> Vec<Candidate> {
        self.commands().complete(line, cursor, &RouterNames(self))
    }

    fn help(&mut self, line: &str) -> String {
        self.commands().help(line, &RouterNames(self))
    }
}
