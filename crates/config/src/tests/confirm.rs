//! A configuration that is given up unless it is confirmed in time, by a clock that is handed in.

use std::path::Path;
use std::sync::Arc;

use parshall_control::{EngineConfig, Router, execute_lines, revision::Revisions};

use crate::Yaml;

const A: &str = "interfaces: {loop0: {addresses: [10.0.0.1/24]}}\n";
const B: &str = "interfaces: {loop0: {mtu: 1400}, loop1: {}}\n";
const C: &str = "interfaces: {loop2: {}}\n";

const MINUTE: u64 = 60_000_000_000;
/// Any time that the clock says first.
const START: u64 = 1_000 * MINUTE;

/// A router as a start with this state directory makes it: with the confirmed configuration, A the first time.
fn start(state: &Path) -> Router {
    let mut r = Router::model(&EngineConfig::default()).expect("a model");
    let revisions = Revisions::open(state).expect("a state directory");
    let confirmed = revisions.confirmed();
    let text = confirmed.map_or_else(|| A.into(), |n| revisions.text(n).expect("its text"));
    r.keep_revisions(Arc::new(Yaml), revisions);
    let plan = r.plan_configuration(&text, "a.yaml").expect("a plan");
    execute_lines(&mut r, &plan.lines()).expect("a configuration");
    r.save_start(&text, "start").expect("saved");
    r.turn_at(START);
    r
}

fn is(r: &Router, text: &str) -> bool {
    r.plan_configuration(text, "x.yaml")
        .expect("a plan")
        .actions
        .is_empty()
}

fn apply(r: &mut Router, text: &str, minutes: Option<u32>) {
    r.apply_configuration((text, "x.yaml"), "", minutes)
        .expect("applied");
}

#[test]
fn what_nobody_confirms_goes_back_when_its_time_is_over_and_not_before() {
    let state = tempfile::tempdir().unwrap();
    let mut r = start(state.path());
    apply(&mut r, B, Some(5));
    assert_eq!(r.pending_seconds(), Some(300));
    r.turn_at(START + 5 * MINUTE - 1);
    assert!(is(&r, B), "its time is not over");
    r.turn_at(START + 5 * MINUTE);
    assert!(is(&r, A), "its time is over");
    assert_eq!((r.pending_seconds(), r.revisions().pending()), (None, None));
    // Once is enough: what is applied after that stays.
    apply(&mut r, C, None);
    r.turn_at(START + 1_000 * MINUTE);
    assert!(is(&r, C));
}

#[test]
fn what_is_confirmed_stays() {
    let state = tempfile::tempdir().unwrap();
    let mut r = start(state.path());
    apply(&mut r, B, Some(5));
    r.turn_at(START + 5 * MINUTE - 1);
    r.confirm_configuration().expect("confirmed");
    r.turn_at(START + 10_000 * MINUTE);
    assert!(is(&r, B));
    drop(r);
    assert!(is(&start(state.path()), B), "also after a start");
}

#[test]
fn a_start_before_the_time_is_over_restores_what_was_confirmed_last() {
    let state = tempfile::tempdir().unwrap();
    let mut r = start(state.path());
    apply(&mut r, C, None);
    apply(&mut r, B, Some(5));
    r.turn_at(START + MINUTE);
    assert!(is(&r, B));
    drop(r);
    let mut r = start(state.path());
    assert!(
        is(&r, C),
        "neither what was not confirmed nor what was before"
    );
    r.turn_at(START + 10 * MINUTE);
    assert!(is(&r, C), "nobody goes back from there");
}

#[test]
fn another_change_meanwhile_takes_the_place_of_what_waits() {
    let state = tempfile::tempdir().unwrap();
    let mut r = start(state.path());
    apply(&mut r, B, Some(5));
    // Waits anew, from now on; it goes back to what was confirmed, not to what waited.
    r.turn_at(START + 4 * MINUTE);
    apply(&mut r, C, Some(3));
    r.turn_at(START + 7 * MINUTE - 1);
    assert!(is(&r, C));
    r.turn_at(START + 7 * MINUTE);
    assert!(is(&r, A));
}
