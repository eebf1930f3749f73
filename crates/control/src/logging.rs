//! What is logged, by module, changed while the router runs.
//!
//! Control keeps the levels; what does the logging takes them as a filter in the words of RUST_LOG. It is handed in by
//! whoever set logging up, since that is no part of the router.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::router::Router;

/// Takes a filter, or says what is wrong with it.
pub type LogSink = Box<dyn Fn(&str) -> std::result::Result<(), String> + Send>;

/// The levels there are, from silence to everything.
pub const LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];

/// Most modules with a level of their own.
const MOST: usize = 64;

/// What is logged.
#[derive(Default)]
pub struct Logging {
    /// The filter that the router was started with.
    pub(crate) start: String,
    /// Levels by module that came later.
    pub(crate) levels: BTreeMap<String, String>,
    sink: Option<LogSink>,
}

impl Logging {
    /// All of it as a filter: what came later outweighs what was there.
    pub(crate) fn filter(&self) -> String {
        let mut parts = Vec::new();
        if !self.levels.contains_key(ALL) {
            parts.push(self.start.clone());
        }
        for (module, level) in &self.levels {
            parts.push(if module == ALL {
                level.clone()
            } else {
                format!("{module}={level}")
            });
        }
        parts.retain(|p| !p.is_empty());
        parts.join(",")
    }
}

/// The name that stands for all modules.
pub const ALL: &str = "all";

/// A module as a filter names it: `agent` is the router's own, anything with `_` or `::` is what it says.
fn module_path(word: &str) -> Result<String> {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == ':';
    if word.is_empty() || word.len() > 100 || !word.chars().all(good) {
        return Err(Error::refused(format!(
            "`{word}` is no module: write one such as agent, control::rib or hyper::proto, or `{ALL}`"
        )));
    }
    let foreign = ["parshall", "hyper", "tokio"]
        .iter()
        .any(|f| word.starts_with(f));
    Ok(if word == ALL || foreign {
        word.to_owned()
    } else {
        format!("parshall_{word}")
    })
}

impl Router {
    /// Has levels go to `sink` from now on; `start` is the filter that it has.
    pub fn set_log_sink(&mut self, start: &str, sink: LogSink) {
        self.logging = Logging {
            start: start.to_owned(),
            levels: BTreeMap::new(),
            sink: Some(sink),
        };
    }

    /// Sets the level of a module, or with `None` takes it back.
    ///
    /// # Errors
    /// When it is no module, there are too many, or the log refuses.
    pub fn set_log_level(&mut self, module: &str, level: Option<&str>) -> Result<()> {
        let module = module_path(module)?;
        if level.is_some()
            && self.logging.levels.len() >= MOST
            && !self.logging.levels.contains_key(&module)
        {
            return Err(Error::refused(format!(
                "{MOST} modules have levels of their own already"
            )));
        }
        self.change_log_level(module, level.map(str::to_owned))
    }

    fn change_log_level(&mut self, module: String, level: Option<String>) -> Result<()> {
        let levels = &mut self.logging.levels;
        let was = match level {
            Some(level) => levels.insert(module.clone(), level),
            None => levels.remove(&module),
        };
        let told = match &self.logging.sink {
            Some(sink) => sink(&self.logging.filter()),
            None => Ok(()),
        };
        if let Err(why) = told {
            match was {
                Some(was) => self.logging.levels.insert(module, was),
                None => self.logging.levels.remove(&module),
            };
            return Err(Error::refused(why));
        }
        self.undo(move |r| r.change_log_level(module, was));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineConfig;
    use std::sync::{Arc, Mutex};

    #[test]
    fn levels_become_a_filter_and_are_undone() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let mut r = Router::model(&EngineConfig::default()).unwrap();
        let into = told.clone();
        r.set_log_sink(
            "warn,parshall_bgp=debug",
            Box::new(move |f| {
                into.lock().unwrap().push(f.to_owned());
                if f.contains("hyper") {
                    Err("no hyper".into())
                } else {
                    Ok(())
                }
            }),
        );
        r.run_line("set logging level agent debug", false).unwrap();
        r.run_line("set logging level all info", false).unwrap();
        assert!(
            r.run_line("set logging level hyper::proto trace", false)
                .is_err()
        );
        assert!(r.run_line("set logging level agent loud", false).is_err());
        assert!(r.run_line("set logging level a;b debug", false).is_err());
        let failed = r.run_script("set logging level fib trace\nno such command\n", "test");
        assert!(failed.is_err());
        let told: Vec<String> = told.lock().unwrap().clone();
        assert_eq!(told[0], "warn,parshall_bgp=debug,parshall_agent=debug");
        assert_eq!(told[1], "info,parshall_agent=debug");
        assert_eq!(told.last().unwrap(), "info,parshall_agent=debug");
        r.run_line("set logging level agent default", false)
            .unwrap();
        assert_eq!(r.logging.filter(), "info");
        let shown = r.run_line("show logging", true).unwrap();
        let crate::Output::Data(data) = shown else {
            panic!("{shown:?}")
        };
        assert_eq!(data["levels"]["all"], "info");
        assert_eq!(data["start"], "warn,parshall_bgp=debug");
    }
}
