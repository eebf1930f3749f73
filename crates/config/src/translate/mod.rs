//! From checked values to a plan: what the schema cannot say alone is checked here (names that must
//! exist, values that exclude one another), and each thing asked for becomes a command line.
//!
//! The order is that of the dependencies: tables, access lists, interfaces, their settings, sFlow, BGP feeds, their state,
//! neighbours, routes, labels, streams, free commands, and at the very end the streams start.

mod acls;
mod addresses;
mod bgp;
mod devices;
mod http;
mod interfaces;
pub mod memif;
mod mpls;
mod paths;
mod routes;
pub mod sflow;
mod streams;
mod switching;
mod tunnels;
pub mod vppcfg;
mod vppcfg_rules;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use parshall_command::Script;

use crate::check::nearest;
use crate::error::{Position, Report};
use crate::plan::{
    ApiSettings, CliSettings, EngineSettings, LogLevel, Plan, PlanLine, StatsSettings,
};
use crate::record::{Checked, Item, Record};
use crate::scalar::quoted;

use interfaces::Interface;

/// Reads a file that the configuration names, or says why that cannot be.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// Makes the plan of a file. It is worth something only if nothing has been reported.
pub fn translate(file: &Record, report: &mut Report, read: ReadFile<'_>) -> Plan {
    let mut b = Builder {
        file,
        report,
        interfaces: Vec::new(),
        by_name: BTreeMap::new(),
        workers: 1,
        tables: [BTreeSet::from([0]), BTreeSet::from([0])],
        acl_numbers: acls::Numbers::new(),
        lines: Vec::new(),
        given: Vec::new(),
        notes: Vec::new(),
        read,
    };
    let engine = b.engine();
    let http = b.http();
    b.identify_interfaces(&engine);
    b.tables();
    b.acls();
    b.memif_sockets();
    b.create_interfaces();
    b.set_up_interfaces();
    b.cross_connect();
    b.cross_one_way();
    b.bridges();
    b.check_vppcfg();
    b.sflow();
    b.bgp();
    b.bring_up();
    b.neighbors();
    b.routes();
    b.labels();
    let enable = b.streams(&engine);
    b.commands();
    b.lines.extend(enable);
    Plan {
        engine,
        cli: cli(file),
        api: api(file),
        http,
        stats: stats(file),
        log: log(file),
        commands: b.lines,
        given: b.given,
        state: file
            .record("state")
            .and_then(|r| r.text("directory"))
            .map(PathBuf::from),
        notes: b.notes,
    }
}

/// A plan being made.
struct Builder<'f, 'r> {
    file: &'f Record,
    report: &'r mut Report,
    interfaces: Vec<Interface<'f>>,
    by_name: BTreeMap<&'f str, usize>,
    /// How many workers there will be.
    workers: usize,
    /// Numbers of the IPv4 and the IPv6 tables.
    tables: [BTreeSet<u32>; 2],
    acl_numbers: acls::Numbers<'f>,
    lines: Vec<PlanLine>,
    /// Interfaces that the file expects to be there.
    given: Vec<String>,
    notes: Vec<String>,
    read: ReadFile<'r>,
}

impl<'f> Builder<'f, '_> {
    /// Adds a command that the field `name` of a record asks for.
    fn line(&mut self, record: &Record, name: &str, line: String) {
        let (at, field) = record.place(name);
        self.lines.push(PlanLine {
            line,
            at,
            field: field.into(),
        });
    }

    /// Reports the field `name` of a record.
    fn error(&mut self, record: &Record, name: &str, message: impl Into<String>) {
        let (at, field) = record.place(name);
        self.report.add(at, field, message);
    }

    /// The interface that a field names; reported when there is none.
    fn interface(&mut self, item: &Item) -> Option<Interface<'f>> {
        let name = item.value.text()?;
        if let Some(&i) = self.by_name.get(name) {
            return self.interfaces.get(i).copied();
        }
        // What the interfaces are is not known then: nothing can be said of one.
        let lost = self.file.flawed && !self.file.has("interfaces");
        if !lost {
            let shown = quoted(name);
            // Bounded: a file may name many interfaces that are not there.
            let some = self.by_name.keys().copied().take(1000);
            let near = nearest(some.filter(|_| !self.report.is_full()), name);
            let message = match near {
                Some(near) => {
                    format!("there is no interface {shown} in this file; is `{near}` meant?")
                }
                None if self.by_name.is_empty() => {
                    format!("there is no interface {shown} in this file; it has none at all")
                }
                None => {
                    format!("there is no interface {shown} in this file; add it under `interfaces`")
                }
            };
            self.report.add(item.at, item.field.clone(), message);
        }
        None
    }

    fn engine(&mut self) -> EngineSettings {
        let file = self.file;
        let workers = match file.get("workers").map(|i| &i.value) {
            Some(Checked::Record(r)) => self.workers(r),
            Some(Checked::Uint(n)) => (*n as usize, Vec::new()),
            _ => (1, Vec::new()),
        };
        let about = file.record("workers");
        self.workers = workers.0;
        let sized = |section: &str, field: &str| {
            let none = Record::empty(section_of(file, section));
            file.record(section).unwrap_or(&none).size(field)
        };
        EngineSettings {
            workers: workers.0,
            cpus: workers.1,
            main_cpu: about.and_then(|r| r.size("main-cpu")),
            share_cpus: about.is_some_and(|r| r.bool("share-cpus")),
            busy_poll: about.is_some_and(|r| r.bool("busy-poll")),
            buffers: sized("buffers", "per-worker").unwrap_or(0),
            interfaces: sized("limits", "interfaces").unwrap_or(0),
            stations: sized("limits", "stations").unwrap_or(0),
            seed: file.uint("seed"),
            ifindex_file: file
                .record("sflow")
                .and_then(|r| r.text("ifindex-file"))
                .map(Into::into),
        }
    }

    fn workers(&mut self, r: &Record) -> (usize, Vec<usize>) {
        let mut cpus = Vec::new();
        for item in r.list("cpus") {
            let Some(cpu) = item.value.uint().map(|n| n as usize) else {
                continue;
            };
            if cpus.contains(&cpu) && !r.bool("share-cpus") {
                let message = format!("CPU {cpu} is listed twice; each worker has its own");
                self.report.add(item.at, item.field.clone(), message);
            }
            cpus.push(cpu);
        }
        let count = r.size("count").unwrap_or(cpus.len().max(1));
        if !cpus.is_empty() && cpus.len() != count {
            let message = format!(
                "{} CPUs for {count} workers; name one for each, or none",
                cpus.len()
            );
            self.error(r, "cpus", message);
        }
        if let Some(main) = r.size("main-cpu").filter(|c| cpus.contains(c))
            && !r.bool("share-cpus")
        {
            let message = format!("CPU {main} is one of `cpus`: a worker has it to itself");
            self.error(r, "main-cpu", message);
        }
        (count, cpus)
    }

    fn commands(&mut self) {
        for item in self.file.list("commands") {
            let text = item.value.text().unwrap_or("");
            let mut any = false;
            for line in Script::new(text) {
                let number = line.as_ref().map_or_else(|e| e.line, |l| l.number);
                let at = within(item, number);
                any = true;
                match line {
                    Ok(line) => self.lines.push(PlanLine {
                        line: line.text.into(),
                        at,
                        field: item.field.clone(),
                    }),
                    Err(e) => self.report.add(at, item.field.clone(), e.message),
                }
            }
            if !any {
                let message = "there is only a comment here; write a command or leave it out";
                self.report.add(item.at, item.field.clone(), message);
            }
        }
    }
}

/// Place of a line of an item's text, as far as it is known. The place of a block is that of its first
/// line that is not blank.
fn within(item: &Item, number: usize) -> Position {
    if item.literal {
        let text = item.value.text().unwrap_or("");
        let blank = text.len() - text.trim_start_matches('\n').len();
        Position {
            line: item.at.line + number.saturating_sub(1 + blank),
            column: item.at.column,
        }
    } else {
        item.at
    }
}

/// The section that a field of `file` holds.
fn section_of(file: &Record, name: &str) -> &'static crate::schema::Section {
    let sections = file.section.field(name).map(|f| f.kind.sections());
    sections
        .and_then(|s| s.first().copied())
        .unwrap_or(file.section)
}

fn cli(file: &Record) -> CliSettings {
    let none = Record::empty(section_of(file, "cli"));
    let r = file.record("cli").unwrap_or(&none);
    let socket = r.value("socket");
    let socket = socket.as_ref().and_then(Checked::text).unwrap_or("");
    CliSettings {
        socket: PathBuf::from(socket),
        group: r.text("group").map(str::to_owned),
        vppctl: r.text("vppctl").map(PathBuf::from),
    }
}

fn stats(file: &Record) -> StatsSettings {
    let none = Record::empty(section_of(file, "stats"));
    let r = file.record("stats").unwrap_or(&none);
    StatsSettings {
        socket: r.text("socket").map(PathBuf::from),
        size: r.size("size").unwrap_or(0) << 20,
    }
}

fn api(file: &Record) -> ApiSettings {
    let r = file.record("api");
    ApiSettings {
        socket: r.and_then(|r| r.text("socket")).map(PathBuf::from),
        group: r.and_then(|r| r.text("group")).map(str::to_owned),
    }
}

fn log(file: &Record) -> LogLevel {
    let none = Record::empty(section_of(file, "log"));
    let r = file.record("log").unwrap_or(&none);
    let level = r.value("level");
    let level = level.as_ref().and_then(Checked::text);
    level
        .and_then(LogLevel::from_word)
        .unwrap_or(LogLevel::Info)
}
