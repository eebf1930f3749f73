//! Whole files: `translation` asks what they become, `errors` what is said of bad ones, `survival` whether hostile text does harm,
//! `changes` what comes of applying them, `confirm` what of those that wait for an answer,
//! `hsflowd` what a hsflowd.conf becomes.

mod changes;
mod confirm;
mod errors;
mod hsflowd;
mod random;
mod random_above;
mod survival;
mod translation;

use std::path::{Path, PathBuf};

use parshall_control::{EngineConfig, rehearse};

use crate::{ConfigErrors, LogLevel, Plan, load, parse};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn plan(text: &str) -> Plan {
    parse(text, "r.yaml").unwrap_or_else(|e| panic!("{e}"))
}

fn lines(text: &str) -> Vec<String> {
    plan(text).commands.into_iter().map(|c| c.line).collect()
}

fn errors(text: &str) -> ConfigErrors {
    parse(text, "r.yaml").expect_err("a bad file")
}

/// The one error of a file.
fn error(text: &str) -> String {
    let all = errors(text).to_string();
    assert_eq!(all.lines().count(), 1, "{all}");
    all
}

/// Executes a plan on a model of a router: every line must be a command, and none may be refused.
fn rehearsed(text: &str) -> Plan {
    let plan = plan(text);
    let config = EngineConfig {
        interfaces: plan.engine.interfaces,
        ..EngineConfig::default()
    };
    rehearse(&config, &plan.script("r.yaml")).unwrap_or_else(|e| panic!("{e}"));
    plan
}
