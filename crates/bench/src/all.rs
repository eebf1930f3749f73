//! `parshall bench all`: every bench, one after the other, into files and documents.
//!
//! What runs is a list of command lines ([`PLAN`]), so that each figure can be had again by hand.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use serde_json::{Map, Value};

use crate::{BenchCommand, BenchError, Report, docs, yardstick};

/// `parshall bench all`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  parshall bench all --quick
  parshall bench all --only fib,sflow --json
  parshall bench all --yardstick testpmd --docs docs/performance.md")]
pub struct AllArgs {
    /// Fewer and shorter windows: about three minutes, for a first look.
    #[arg(long)]
    pub quick: bool,
    /// Only these parts, separated by commas (default: all).
    #[arg(long, value_delimiter = ',', value_name = "PARTS")]
    pub only: Vec<String>,
    /// Also measure what the machine can do with a program that everybody knows.
    #[arg(long, value_enum, value_name = "PROGRAM")]
    pub yardstick: Option<yardstick::Program>,
    /// Also run the forwarding cases on this VPP (the folder of an installation, or its `vpp`).
    #[arg(long, value_name = "PATH")]
    pub peer_vpp: Option<PathBuf>,
    /// Folder for one JSON file a part.
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    pub out: PathBuf,
    /// Rewrite the tables between the markers of this Markdown file.
    #[arg(long, value_name = "FILE")]
    pub docs: Option<PathBuf>,
    /// What was built, for the documents: a commit.
    #[arg(long, value_name = "NAME")]
    pub commit: Option<String>,
}

/// A part: its name, which is also its file's and its section's, and how it is run.
struct Part {
    name: &'static str,
    full: &'static str,
    quick: &'static str,
}

/// All parts, in order.
const PLAN: &[Part] = &[
    Part {
        name: "forward",
        full: "forward --sflow off,1000000,10000,1000,100 --repeats 11",
        quick: "forward --sflow off,1000000,1000,100 --repeats 3 --window-ms 60",
    },
    Part {
        name: "workers",
        full: "forward --workers 1,2 --case l2xc --case ip4 --case ip4-full --case ip6-full --case mpls-swap --repeats 15",
        quick: "forward --workers 1,2 --case ip4 --case ip4-full --repeats 3 --window-ms 60",
    },
    Part {
        name: "fib",
        full: "fib",
        quick: "fib --repeats 1 --table ip4-real --table ip6-real",
    },
    Part {
        name: "churn",
        full: "churn --seconds 60",
        quick: "churn --seconds 5",
    },
    Part {
        name: "api",
        full: "api",
        quick: "api --rounds 10",
    },
    Part {
        name: "sflow",
        full: "sflow --seconds 60",
        quick: "sflow --seconds 10",
    },
    Part {
        name: "drops",
        full: "drops",
        quick: "drops --rounds 40",
    },
    Part {
        name: "decode",
        full: "decode",
        quick: "decode --repeats 3",
    },
    Part {
        name: "memif",
        full: "memif",
        quick: "memif --repeats 2 --window-ms 300",
    },
    Part {
        name: "af_xdp",
        full: "af_xdp --repeats 11",
        quick: "af_xdp --repeats 2 --window-ms 200",
    },
];

/// A bench's command line.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(subcommand)]
    command: BenchCommand,
}

/// Runs the parts. One that cannot run is a fault; the others still do.
///
/// # Errors
/// When a part is unknown, or files cannot be written.
pub fn measure(args: &AllArgs) -> Result<Report, BenchError> {
    let parts = chosen(&args.only)?;
    if let Some(program) = args.yardstick {
        yardstick::present(program)?;
    }
    fs::create_dir_all(&args.out).map_err(|e| failed(&args.out, e))?;
    let mut reports = Vec::new();
    let mut faults = Vec::new();
    for part in parts {
        eprintln!("== {}: parshall bench {}", part.name, part.line(args.quick));
        match part.apart(args) {
            Ok(report) => {
                write(
                    &args.out.join(format!("{}.json", part.name)),
                    &report.json().to_string(),
                )?;
                reports.push((part.name, report));
            }
            Err(error) => faults.push(format!("{} did not run: {error}", part.name)),
        }
    }
    if let Some(path) = &args.docs {
        let old = fs::read_to_string(path).map_err(|e| failed(path, e))?;
        let commit = args.commit.as_deref();
        let sections = reports
            .iter()
            .map(|(name, r)| (*name, docs::section(r, commit)));
        write(path, &docs::rewrite(&old, sections)?)?;
    }
    together(reports, faults)
}

impl Part {
    fn line(&self, quick: bool) -> &'static str {
        if quick { self.quick } else { self.full }
    }

    fn command(&self, quick: bool) -> Result<BenchCommand, BenchError> {
        let line = Line::try_parse_from(self.line(quick).split_whitespace());
        Ok(line.map_err(|e| BenchError::of(self.name, e))?.command)
    }

    /// Runs on a thread of its own: a bench may pin its thread, which is nothing for the next one.
    fn apart(&self, args: &AllArgs) -> Result<Report, BenchError> {
        let run = || std::thread::scope(|s| s.spawn(|| self.run(args)).join());
        run().unwrap_or_else(|_| Err(BenchError(format!("{} panicked", self.name))))
    }

    fn run(&self, args: &AllArgs) -> Result<Report, BenchError> {
        let mut command = self.command(args.quick)?;
        if let BenchCommand::Forward(forward) = &mut command
            && self.name == "forward"
        {
            forward.yardstick = args.yardstick;
            forward.peer_vpp.clone_from(&args.peer_vpp);
        }
        command.measure()
    }
}

fn chosen(names: &[String]) -> Result<Vec<&'static Part>, BenchError> {
    if let Some(unknown) = names.iter().find(|n| PLAN.iter().all(|p| p.name != **n)) {
        let known: Vec<_> = PLAN.iter().map(|p| p.name).collect();
        return Err(BenchError(format!(
            "no part {unknown}; there are {}",
            known.join(", ")
        )));
    }
    let wanted = |p: &&Part| names.is_empty() || names.iter().any(|n| n == p.name);
    Ok(PLAN.iter().filter(wanted).collect())
}

fn write(path: &Path, text: &str) -> Result<(), BenchError> {
    fs::write(path, text).map_err(|e| failed(path, e))
}

fn failed(path: &Path, error: std::io::Error) -> BenchError {
    BenchError::of(&path.display().to_string(), error)
}

/// One report of all.
fn together(reports: Vec<(&str, Report)>, faults: Vec<String>) -> Result<Report, BenchError> {
    let parts: Map<String, Value> = reports
        .iter()
        .map(|(n, r)| ((*n).to_owned(), r.json()))
        .collect();
    let mut all = Report::new("all", "all benches", &serde_json::json!({ "parts": parts }))?;
    all.faults = faults;
    for (name, report) in reports {
        for mut table in report.tables {
            table.title = format!("{name}: {}", table.title);
            all.tables.push(table);
        }
        all.bars.extend(report.bars);
        all.faults.extend(report.faults);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bar, Table};

    #[test]
    fn every_line_of_the_plan_is_understood() {
        for part in PLAN {
            for quick in [false, true] {
                part.command(quick).unwrap();
            }
        }
    }

    #[test]
    fn the_documents_have_a_place_for_every_part() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/performance.md");
        let text = fs::read_to_string(path).unwrap();
        let sections = PLAN.iter().map(|p| (p.name, String::new()));
        docs::rewrite(&text, sections).unwrap();
    }

    #[test]
    fn parts_are_chosen_by_name() {
        assert_eq!(chosen(&[]).unwrap().len(), PLAN.len());
        assert_eq!(chosen(&["workers".into()]).unwrap()[0].name, "workers");
        let error = chosen(&["x".into()]).err().unwrap().to_string();
        assert!(
            error.starts_with("no part x; there are forward, "),
            "{error}"
        );
    }

    #[test]
    fn reports_are_put_together() {
        let report = |bench| {
            Report::new(bench, "", &serde_json::json!({ "x": 1 }))
                .unwrap()
                .with_table(Table::new("Rates", &["a"]))
                .with_bars([Bar::at_least("m", 1.0, 2.0, "")])
        };
        let reports = vec![("a", report("forward")), ("b", report("fib"))];
        let all = together(reports, vec!["c did not run".into()]).unwrap();
        assert_eq!(all.tables[1].title, "b: Rates");
        assert_eq!((all.bars.len(), all.faults.len()), (2, 1));
        assert_eq!(all.json()["parts"]["b"]["bench"], "fib");
    }
}
