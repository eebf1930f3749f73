//! The language of configurations as the router speaks it: plans between two of them, and the running one as text.

use std::collections::BTreeMap;

use parshall_control::{ConfigAction, ConfigLanguage, ConfigPlan};
use serde_json::{Map, Value};

use crate::diff::{Model, Step, diff};
use crate::error::{Position, Report};
use crate::plan::{Plan, PlanLine};
use crate::statement::{Statement, statements};
use crate::translate::vppcfg::is_hardware;
use crate::yaml::{self, Entry, Node, Scalar};
use crate::{check, translate, writer};

/// Sections that are fixed at the start.
const FIXED: [&str; 10] = [
    "workers", "buffers", "limits", "seed", "cli", "log", "http", "stats", "api", "state",
];

/// The YAML of configuration files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Yaml;

impl ConfigLanguage for Yaml {
    fn plan(
        &self,
        running: &Value,
        text: &str,
        name: &str,
        at_start: bool,
    ) -> Result<ConfigPlan, String> {
        let (plan, base) = read(text, name)?;
        let mut made = ConfigPlan {
            notes: plan.notes.clone(),
            given: plan.given.clone(),
            base,
            ..ConfigPlan::default()
        };
        if at_start {
            made.actions = plan
                .commands
                .iter()
                .map(|l| at_the_start(l, name))
                .collect();
            return Ok(made);
        }
        let places = places(&plan, name);
        let new = wanted(&plan);
        let (old, notes) = configured(running);
        made.notes.extend(notes);
        let free = plan
            .commands
            .iter()
            .filter(|l| statements(&l.line).is_empty())
            .count();
        if free > 0 {
            made.notes.push(format!(
                "{free} lines of `commands` are no configuration: they are given only at the start"
            ));
        }
        let now = running.as_object();
        for section in FIXED {
            let was = now.and_then(|r| r.get(section));
            if made.base.get(section) != was {
                made.notes
                    .push(format!("`{section}` counts from the next start on"));
            }
        }
        let new = with_given(&old, new, &plan.given);
        made.actions = diff(&old, &new)
            .into_iter()
            .map(|s| action(s, &places))
            .collect();
        Ok(made)
    }

    fn write(&self, running: &Value) -> String {
        writer::write(running)
    }
}

fn action(step: Step, places: &BTreeMap<String, String>) -> ConfigAction {
    let at = match step.action {
        "delete" => String::new(),
        _ => places.get(&step.key).cloned().unwrap_or_default(),
    };
    ConfigAction {
        action: step.action,
        object: step.key,
        command: step.line,
        at,
    }
}

fn at_the_start(line: &PlanLine, name: &str) -> ConfigAction {
    let about = statements(&line.line).into_iter().next();
    ConfigAction {
        action: "create",
        object: about.map_or_else(|| "command".into(), |s| s.key),
        command: line.line.clone(),
        at: line.origin(name),
    }
}

/// Where the file asks for each key.
fn places(plan: &Plan, name: &str) -> BTreeMap<String, String> {
    let lines = plan.commands.iter();
    lines
        .flat_map(|l| {
            statements(&l.line)
                .into_iter()
                .map(|s| (s.key, l.origin(name)))
        })
        .collect()
}

fn wanted(plan: &Plan) -> Model {
    Model::new(plan.commands.iter().flat_map(|l| statements(&l.line)))
}

/// Reads a text: its plan, and its sections that are fixed at the start.
fn read(text: &str, name: &str) -> Result<(Plan, Map<String, Value>), String> {
    let plan = crate::parse(text, name).map_err(|e| e.to_string())?;
    Ok((plan, base(text)))
}

/// Sections of a good file that are fixed at the start.
pub fn base(text: &str) -> Map<String, Value> {
    let mut base = Map::new();
    let Some(root) = yaml::load(text, &mut Report::default()) else {
        return base;
    };
    let Value::Object(mut all) = json(&root) else {
        return base;
    };
    for section in FIXED {
        if let Some(v) = all.remove(section).filter(|v| !v.is_null()) {
            base.insert(section.into(), v);
        }
    }
    if let Some(file) = all.get("sflow").and_then(|s| s.get("ifindex-file")) {
        base.insert("sflow".into(), serde_json::json!({ "ifindex-file": file }));
    }
    base
}

/// What is configured in a running router, and what of it a file cannot say.
fn configured(running: &Value) -> (Model, Vec<String>) {
    let mut report = Report::default();
    let file = check::file(&node(running), &mut report);
    let plan = translate::translate(&file, &mut report, &|_| Err("not read again".into()));
    // What a file may not say can be so all the same, made by hand: what is understood of it counts.
    let notes = report.finish("running").errors.into_iter().take(5);
    let notes = notes
        .map(|e| format!("running {}: {}", e.field, e.message))
        .collect();
    (wanted(&plan), notes)
}

/// Interfaces that are there whatever the file says: they stay what they are.
fn with_given(old: &Model, new: Model, given: &[String]) -> Model {
    let stays = |name: &str| given.iter().any(|g| g == name) || is_hardware(name);
    let kept: Vec<Statement> = old
        .statements()
        .filter(|s| {
            let made = s
                .key
                .strip_prefix("interface ")
                .is_some_and(|n| stays(n) && !n.contains('.'));
            let mac = s
                .key
                .strip_prefix("mac ")
                .is_some_and(|n| stays(n) && s.inline);
            (made || mac) && new.get(&s.key).is_none()
        })
        .cloned()
        .collect();
    if kept.is_empty() {
        return new;
    }
    Model::new(kept.into_iter().chain(new.statements().cloned()))
}

/// Plain data as the reader of files would have it.
fn node(value: &Value) -> Node {
    let at = Position { line: 1, column: 1 };
    let scalar = |text: String, plain| {
        yaml::Value::Scalar(Scalar {
            text: text.into(),
            plain,
            literal: false,
        })
    };
    let value = match value {
        Value::Null => scalar(String::new(), true),
        Value::Bool(b) => scalar(b.to_string(), true),
        Value::Number(n) => scalar(n.to_string(), true),
        Value::String(s) => scalar(s.clone(), false),
        Value::Array(items) => yaml::Value::List(items.iter().map(node).collect()),
        Value::Object(map) => yaml::Value::Map(
            map.iter()
                .map(|(k, v)| Entry {
                    key: k.as_str().into(),
                    key_at: at,
                    value: node(v),
                })
                .collect(),
        ),
    };
    Node { at, value }
}

/// The other way round, as far as it matters to sections that are only kept and written.
fn json(node: &Node) -> Value {
    match &node.value {
        yaml::Value::Scalar(_) if node.is_null() => Value::Null,
        yaml::Value::Scalar(s) if s.plain => match &*s.text {
            "true" | "True" | "TRUE" => true.into(),
            "false" | "False" | "FALSE" => false.into(),
            text => match text.parse::<u64>() {
                Ok(n) => n.into(),
                Err(_) => text.into(),
            },
        },
        yaml::Value::Scalar(s) => (&*s.text).into(),
        yaml::Value::List(items) => items.iter().map(json).collect(),
        yaml::Value::Map(entries) => {
            let all = entries.iter().map(|e| (e.key.to_string(), json(&e.value)));
            Value::Object(all.collect())
        }
    }
}
