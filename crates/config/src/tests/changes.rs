//! Pairs of random configurations: applied one after the other on a model, the second is what is there, whatever the first
//! was; a plan of it then is empty; and a change that fails half-way leaves the first.

use std::sync::Arc;

use parshall_control::{ConfigLanguage, EngineConfig, Router, TableLimits};
use proptest::test_runner::{Config, RngAlgorithm, TestRng};
use rand::{Rng, RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::{Yaml, writer};

/// Pairs of an ordinary test run; `PARSHALL_PAIRS` asks for more.
const PAIRS: u64 = 300;

fn model() -> Router {
    let config = EngineConfig {
        interfaces: 64,
        ..EngineConfig::default()
    };
    let mut r = Router::model(&config).expect("a model");
    r.keep_revisions(Arc::new(Yaml), Default::default());
    r
}
