//! What a tool says of itself: lines for people on the error output, lines of JSON for programs on the output.

use std::fmt::Display;
use std::io::Write;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::ToolError;

/// Where a tool speaks, and how often.
pub(crate) struct Report<'o> {
    out: &'o mut dyn Write,
    log: &'o mut dyn Write,
    json: bool,
    every: Option<Duration>,
    due: Option<Instant>,
}

impl<'o> Report<'o> {
    /// JSON goes to `out`, all else to `log`.
    pub(crate) fn new(
        out: &'o mut dyn Write,
        log: &'o mut dyn Write,
        json: bool,
        every_seconds: Option<u64>,
    ) -> Report<'o> {
        let every = every_seconds.map(Duration::from_secs);
        Report {
            out,
            log,
            json,
            every,
            due: every.map(|e| Instant::now() + e),
        }
    }

    /// Says something to people. That nobody may be there to read it is no reason to end.
    pub(crate) fn say(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.log, "{text}");
    }

    /// Whether it is time for a status.
    pub(crate) fn is_due(&mut self) -> bool {
        let (Some(every), Some(due)) = (self.every, self.due) else {
            return false;
        };
        let now = Instant::now();
        if now < due {
            return false;
        }
        self.due = Some(now + every);
        true
    }

    /// Tells how things stand.
    pub(crate) fn status<S: Serialize + Display>(&mut self, status: &S) -> Result<(), ToolError> {
        if !self.json {
            self.say(format_args!("{status}"));
            return Ok(());
        }
        // Numbers, text and lists of them always have a form.
        let line = serde_json::to_string(status).unwrap_or_default();
        let written = writeln!(self.out, "{line}").and_then(|()| self.out.flush());
        match written {
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(ToolError::Output),
        }
    }
}
