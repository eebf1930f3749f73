//! What all connections share: the way to the router, the last snapshot, the rules.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use parshall_control::snapshot::Snapshot;
use parshall_control::{Asker, Router};

use crate::access::Rules;
use crate::answer::Problem;

/// How long a snapshot is good for.
const FRESH: Duration = Duration::from_secs(1);
/// How long the sFlow agent may take to say how it is.
const AGENT: Duration = Duration::from_millis(500);

/// What all connections share.
pub struct App {
    asker: Asker,
    /// The last snapshot; whoever finds it old makes the next one while the others wait.
    last: Mutex<Option<(Instant, Arc<Snapshot>)>>,
    /// Who may do what.
    pub rules: Rules,
}

impl App {
    /// Over a router, with these rules.
    pub fn new(asker: Asker, rules: Rules) -> App {
        App {
            asker,
            last: Mutex::new(None),
            rules,
        }
    }

    /// Runs a short job in the router's thread.
    pub fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Router) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let gone = || Problem::new(503, "the router has ended");
        self.asker.ask(job).ok_or_else(gone)
    }

    /// The router, at most a second ago.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>, Problem> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, snapshot)) = last.as_ref()
            && at.elapsed() < FRESH
        {
            return Ok(snapshot.clone());
        }
        let draft = self.ask(|r| r.snapshot())?;
        let snapshot = Arc::new(draft.finish(AGENT));
        *last = Some((Instant::now(), snapshot.clone()));
        Ok(snapshot)
    }
}
