//! Hostile text: at random, put together from fragments, and examples with mistakes.

use parshall_control::{EngineConfig, rehearse};
use proptest::prelude::*;

use super::*;

/// Examples, to be mutated.
const SEEDS: [&str; 3] = [
    include_str!("../../../../docs/examples/router.yaml"),
    include_str!("../../../../docs/examples/mpls-core.yaml"),
    include_str!("../../../../docs/examples/lab-pg.yaml"),
];

/// Whatever the text, there is a plan or there are errors, each with a place in the text.
fn survives(text: &str) {
    if let Err(e) = parse(text, "r.yaml") {
        assert!(!e.errors.is_empty());
        let lines = text.lines().count().max(1) + 1;
        for error in &e.errors {
            assert!((1..=lines).contains(&error.at.line), "{e}");
            assert!(error.at.column >= 1, "{e}");
            assert!(!error.message.is_empty());
        }
        assert!(
            !e.to_string().contains('\u{1b}'),
            "control characters are shown, not sent"
        );
    }
}

/// Fragments that a generated file is put together from.
const FRAGMENTS: &[&str] = &[
    "interfaces:",
    "routes:",
    "tap0:",
    "  ",
    "\n",
    "- ",
    "{",
    "}",
    "[",
    "]",
    ", ",
    ": ",
    "&a ",
    "*a",
    "!!str ",
    "|\n",
    "'",
    "\"",
    "#",
    "~",
    "mtu: 1500",
    "addresses: [192.0.2.1/24]",
    "prefix: 10.0.0.0/8",
    "via: 192.0.2.9",
    "xconnect: tap0",
    "type: pg",
    "pg0",
    "sflow:",
    "commands:",
    "workers: 2",
    "tables: [{id: 3}]",
    "mpls:",
    "labels:",
    "label: 16",
    "packet-generator:",
    "streams:",
    "data: x",
    "\u{1b}",
    "é",
    "\t",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "? ",
    "<<: ",
    "0x7f",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_text_does_no_harm(text in "\\PC{0,200}") {
        survives(&text);
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        survives(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn fragments_do_no_harm(parts in proptest::collection::vec(proptest::sample::select(FRAGMENTS), 0..60)) {
        survives(&parts.concat());
    }

    #[test]
    fn mutated_examples_do_no_harm(
        seed in 0usize..3,
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..12, proptest::sample::select(FRAGMENTS)), 1..6),
    ) {
        let mut text: Vec<char> = SEEDS[seed].chars().collect();
        for (at, drop, put) in edits {
            let at = at.index(text.len() + 1);
            let end = (at + drop).min(text.len());
            text.splice(at..end, put.chars());
        }
        survives(&text.into_iter().collect::<String>());
    }

    /// What passes here is a list of commands that the router knows; whether it accepts them all depends on more.
    #[test]
    fn values_in_range_become_commands(
        mtu in 68u32..=65521,
        len in 1u8..=30,
        host in 1u32..4,
        queues in 1u32..=64,
        rate in 1u32..=1 << 30,
        label in 16u32..=1_048_575,
        weight in 1u32..=255,
    ) {
        let text = format!(
            "interfaces:\n  tap3: {{mtu: {mtu}, queues: {queues}, addresses: [10.0.0.{host}/{len}], mpls: true, \
             sflow: {{sampling-rate: {rate}}}}}\nmpls: {{labels: [{{label: {label}, via: 10.0.0.9, interface: tap3}}]}}\n\
             routes: [{{prefix: 99.0.0.0/8, paths: [{{via: 10.0.0.9, interface: tap3, weight: {weight}}}]}}]\n"
        );
        if let Ok(plan) = parse(&text, "r.yaml") {
            rehearse(&EngineConfig::default(), &plan.script("r.yaml")).map_err(|e| TestCaseError::fail(e.to_string()))?;
        }
    }
}
