//! Pairs of random configurations: applied one after the other on a model, the second is what is there, whatever the first
//! was; a plan of it then is empty; what is written out reads back; and a change that fails half-way leaves the first.

use std::collections::BTreeMap;
use std::sync::Arc;

use parshall_control::{ConfigLanguage, EngineConfig, Router, TableLimits, execute_lines};
use serde_json::Value;

use super::random::{Dice, file};

use crate::{Yaml, writer};

/// Pairs of an ordinary test run; the environment variable `PARSHALL_PAIRS` asks for more.
const PAIRS: u64 = 250;

fn model() -> Router {
    let config = EngineConfig {
        interfaces: 64,
        // Small, since there are many of them.
        tables: TableLimits {
            adjacencies: 1 << 10,
            load_balances: 1 << 10,
            impositions: 1 << 8,
            dispositions: 1 << 8,
            tables: 1 << 6,
            table_bytes: 1 << 24,
            macs: 1 << 10,
        },
        ..EngineConfig::default()
    };
    let mut r = Router::model(&config).expect("a model");
    r.keep_revisions(Arc::new(Yaml), Default::default());
    r
}

/// A router that was started with `text`.
fn started(text: &str) -> Result<Router, String> {
    let mut r = model();
    let plan = Yaml.plan(&Value::Null, text, "r.yaml", true)?;
    execute_lines(&mut r, &plan.lines()).map_err(|e| e.to_string())?;
    Ok(r)
}

/// The configuration with lists in one order: that of paths, addresses and collectors does not matter, that of labels does.
fn canonical(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<_, _> = map.into_iter().collect();
            Value::Object(sorted.into_iter().map(|(k, v)| (k, canonical(v))).collect())
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.into_iter().map(canonical).collect();
            if items.iter().any(|i| !i.is_number()) {
                items.sort_by_key(Value::to_string);
            }
            Value::Array(items)
        }
        other => other,
    }
}

/// What is configured, and what came of that.
fn state(r: &Router) -> Value {
    let shown = |i: parshall_control::snapshot::Interface| {
        let came = (i.admin_up, i.mtu, i.addresses, i.ip_table, i.ip6_table);
        (i.name, serde_json::json!(came))
    };
    let snapshot = r.snapshot().finish(std::time::Duration::ZERO);
    let interfaces = snapshot.interfaces.into_iter().map(shown);
    let interfaces: Value = Value::Object(interfaces.collect());
    canonical(serde_json::json!([r.configuration(), interfaces]))
}

fn lines(r: &Router, text: &str) -> Result<Vec<String>, String> {
    let plan = r.plan_configuration(text, "b.yaml");
    let plan = plan.map_err(|e| e.to_string())?;
    Ok(plan.actions.into_iter().map(|a| a.command).collect())
}

/// One pair; false when one of the two is no good configuration.
fn pair(seed: u64) -> Result<bool, String> {
    let text = |n| writer::write(&file(Dice(seed.wrapping_mul(2) + n)));
    let (a, b) = (text(0), text(1));
    let (Ok(mut r), Ok(want)) = (started(&a), started(&b)) else {
        return Ok(false);
    };
    let told = |what: String| format!("pair {seed}: {what}\nA:\n{a}\nB:\n{b}");
    go(&mut r, &want, (&a, &b), seed).map_err(told)?;
    Ok(true)
}

/// From the first configuration of a pair, which is there, to the second, which `want` has.
fn go(r: &mut Router, want: &Router, (a, b): (&str, &str), seed: u64) -> Result<(), String> {
    let (first, second) = (state(r), state(want));
    nothing_to_do(r, a, "A is there")?;
    let written = r.configuration_text().map_err(|e| e.to_string())?;
    nothing_to_do(r, &written, "what is written reads back")?;
    fails_half_way(r, b, seed);
    same(&state(r), &first, "a change that failed")?;
    let plan = lines(r, b)?;
    let applied = r.apply_configuration((b, "b.yaml"), "", None);
    applied.map_err(|e| format!("B is refused: {e}\nplan: {plan:#?}"))?;
    same(&state(r), &second, "B is not there").map_err(|e| format!("{e}\nplan: {plan:#?}"))?;
    nothing_to_do(r, b, "B is there")
}

fn nothing_to_do(r: &Router, text: &str, what: &str) -> Result<(), String> {
    match lines(r, text)? {
        plan if plan.is_empty() => Ok(()),
        plan => Err(format!("{what}, but there is still to do: {plan:#?}")),
    }
}

fn same(there: &Value, want: &Value, what: &str) -> Result<(), String> {
    if there == want {
        return Ok(());
    }
    let text = |v| serde_json::to_string_pretty(v).expect("plain data");
    let differ = parshall_control::revision::lines::diff(&text(want), &text(there));
    Err(format!("{what}:\n{differ}"))
}

/// Gives the commands of a plan with one among them that is refused.
fn fails_half_way(r: &mut Router, text: &str, seed: u64) {
    let mut lines = r.plan_configuration(text, "b.yaml").unwrap().lines();
    let at = Dice(seed).below(lines.len() as u64 + 1) as usize;
    lines.insert(at, ("here".into(), "delete tap nosuch".into()));
    assert!(r.at_once(|r| execute_lines(r, &lines)).is_err());
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// What came of so many pairs from `first` on. A CPU each where many are asked for.
fn all_of(first: u64, pairs: u64) -> Vec<Result<bool, String>> {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let cpus = if pairs > PAIRS { cpus } else { 1 };
    let share = |n: u64| {
        move || {
            (first..first + pairs)
                .skip(n as usize)
                .step_by(cpus as usize)
                .map(pair)
                .collect()
        }
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..cpus).map(|n| scope.spawn(share(n))).collect();
        let done = all
            .into_iter()
            .map(|t| t.join().expect("a share of the pairs"));
        done.flat_map(|all: Vec<_>| all).collect()
    })
}

#[test]
fn what_is_applied_is_what_is_there() {
    let pairs = number("PARSHALL_PAIRS").unwrap_or(PAIRS);
    let first = number("PARSHALL_FIRST_PAIR").unwrap_or(0);
    let all = all_of(first, pairs);
    let wrong: Vec<&String> = all.iter().filter_map(|p| p.as_ref().err()).collect();
    let short = |w: &&String| format!("{}\n", w.split("A:").next().unwrap_or(w));
    let all_wrong: String = wrong.iter().skip(1).take(5).map(short).collect();
    assert!(
        wrong.is_empty(),
        "{} wrong\n{all_wrong}{}",
        wrong.len(),
        wrong[0]
    );
    // A few random files have something that cannot be; most must be good or nothing was tried.
    let good = all.iter().filter(|p| **p == Ok(true)).count() as u64;
    eprintln!("{good} of {pairs} pairs were good");
    assert!(good * 10 >= pairs * 7, "{good} of {pairs} pairs were good");
}
