//! Whole configurations: planned, applied as one transaction, saved as revisions, confirmed or rolled back.
//!
//! What a configuration is written in is another room's: a [`ConfigLanguage`] makes a plan of two of them. Here the plan
//! becomes one transaction, which workers see as one switch-over; saving the revision is its last step: when that fails, all
//! is changed back.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parshall_command::Asking;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Router;
use crate::commands::execute_lines;
use crate::drivers::{DeviceKind, DeviceSpec};
use crate::error::{Error, Result};
use crate::revision::{Revision, Revisions, lines};

/// Commands of a plan that a revision keeps.
const CHANGES_KEPT: usize = 10_000;

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigAction {
    /// "create", "change" or "delete".
    pub action: &'static str,
    /// What it is about, as in "interface tap0".
    pub object: String,
    /// The command.
    pub command: String,
    /// File, line and field that ask for it; empty when what is there is asked for no more.
    pub at: String,
}

/// The way from one configuration to another.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ConfigPlan {
    /// Steps in the order of their dependencies.
    pub actions: Vec<ConfigAction>,
    /// What to know beside them.
    pub notes: Vec<String>,
    /// Sections that are fixed at the start, as the new configuration has them.
    #[serde(skip)]
    pub base: Map<String, Value>,
    /// Interfaces that the configuration expects to be there.
    #[serde(skip)]
    pub given: Vec<String>,
}

impl ConfigPlan {
    /// The commands, each with its place.
    pub fn lines(&self) -> Vec<(String, String)> {
        let place = |a: &ConfigAction| match a.at.as_str() {
            "" => format!("{} {}", a.action, a.object),
            at => at.to_owned(),
        };
        let all = self.actions.iter();
        all.map(|a| (place(a), a.command.clone())).collect()
    }
}

/// Reads and writes the language of configurations.
pub trait ConfigLanguage: Send + Sync {
    /// The way from `running`, as [`Router::configuration`] gives it, to what `text` describes. With `at_start` also the
    /// steps that are taken only then.
    ///
    /// # Errors
    /// All that is wrong with the text, each with its place in `name`.
    fn plan(
        &self,
        running: &Value,
        text: &str,
        name: &str,
        at_start: bool,
    ) -> std::result::Result<ConfigPlan, String>;
    /// `running` as text that [`plan`](Self::plan) reads.
    fn write(&self, running: &Value) -> String;
}

/// What the router knows of configurations.
#[derive(Default)]
pub(crate) struct Configs {
    pub language: Option<Arc<dyn ConfigLanguage>>,
    pub revisions: Revisions,
    /// Who gives the present command.
    pub asking: Asking,
    /// When the pending revision is given up (monotonic ns).
    pub deadline: Option<u64>,
}

impl Router {
    /// Speaks this language from now on, and keeps revisions there.
    pub fn keep_revisions(&mut self, language: Arc<dyn ConfigLanguage>, revisions: Revisions) {
        self.configs.language = Some(language);
        self.configs.revisions = revisions;
    }

    /// Notes the sections that are fixed at the start.
    pub fn set_base(&mut self, base: Map<String, Value>) {
        self.base = base;
    }

    /// The revisions.
    pub fn revisions(&self) -> &Revisions {
        &self.configs.revisions
    }

    fn language(&self) -> Result<Arc<dyn ConfigLanguage>> {
        let language = self.configs.language.clone();
        language.ok_or_else(|| Error::refused("this router knows no language of configurations"))
    }

    /// What `text` would change.
    ///
    /// # Errors
    /// All that is wrong with it, also what commands it stands for would be refused.
    pub fn plan_configuration(&self, text: &str, name: &str) -> Result<ConfigPlan> {
        let language = self.language()?;
        self.model_of(text, name)?;
        let plan = language.plan(&self.configuration(), text, name, false);
        let plan = plan.map_err(Error::Parse)?;
        for given in &plan.given {
            self.interfaces.find(given).map_err(|e| {
                Error::refused(format!(
                    "{name}: interfaces.{given}: {e}; its type is not said, so it has to be there"
                ))
            })?;
        }
        Ok(plan)
    }

    /// A model of a router that was started with `text`.
    fn model_of(&self, text: &str, name: &str) -> Result<Router> {
        let plan = self.language()?.plan(&Value::Null, text, name, true);
        let plan = plan.map_err(Error::Parse)?;
        let mut model = Router::model(self.engine.config())?;
        for given in &plan.given {
            model.create_interface(DeviceSpec {
                instance: None,
                name: Some(given.clone()),
                mac: None,
                kind: DeviceKind::Loopback,
            })?;
        }
        execute_lines(&mut model, &plan.lines())?;
        model.base = plan.base;
        Ok(model)
    }

    /// Text of the running configuration.
    ///
    /// # Errors
    /// When the router knows no language.
    pub fn configuration_text(&self) -> Result<String> {
        Ok(self.language()?.write(&self.configuration()))
    }

    /// What `text` says otherwise than the running configuration, line by line.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn diff_configuration(&self, text: &str, name: &str) -> Result<String> {
        let language = self.language()?;
        let there = language.write(&self.model_of(text, name)?.configuration());
        Ok(lines::diff(&self.configuration_text()?, &there))
    }

    /// Changes the running configuration to `text` and saves it: all of it or nothing. With `minutes` it is given up after
    /// so many unless it is confirmed.
    ///
    /// # Errors
    /// What was wrong or refused; nothing has changed then.
    pub fn apply_configuration(
        &mut self,
        (text, name): (&str, &str),
        comment: &str,
        minutes: Option<u32>,
    ) -> Result<(u64, ConfigPlan)> {
        let plan = self.plan_configuration(text, name)?;
        if minutes.is_some() && plan.actions.is_empty() {
            return Err(Error::refused(
                "this changes nothing: there is nothing to confirm",
            ));
        }
        if minutes.is_some() {
            self.save_by_hand()?;
        }
        let revision = self.revision(comment, &plan);
        let number = self.atomically(|r| {
            r.at_once(|r| execute_lines(r, &plan.lines()))?;
            r.configs.revisions.save(text, revision, minutes.is_some())
        })?;
        let minute = 60_000_000_000;
        self.configs.deadline = minutes.map(|m| self.now() + u64::from(m) * minute);
        tracing::info!(
            "configuration {number} applied: {} changes",
            plan.actions.len()
        );
        Ok((number, plan))
    }

    /// Saves what was changed by hand since the confirmed revision, so that a way back leads there.
    fn save_by_hand(&mut self) -> Result<()> {
        if self.configs.revisions.pending().is_some() {
            return Ok(());
        }
        if let Some(confirmed) = self.configs.revisions.confirmed() {
            let text = self.configs.revisions.text(confirmed)?;
            let plan = self
                .language()?
                .plan(&self.configuration(), &text, "", false);
            if plan.is_ok_and(|p| p.actions.is_empty()) {
                return Ok(());
            }
        }
        let text = self.configuration_text()?;
        let revision = self.revision("changed by hand", &ConfigPlan::default());
        self.configs.revisions.save(&text, revision, false)?;
        Ok(())
    }

    fn revision(&self, comment: &str, plan: &ConfigPlan) -> Revision {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let all = plan.actions.iter().map(|a| a.command.clone());
        Revision {
            number: 0,
            time: now.map_or(0, |d| d.as_secs()),
            who: self
                .configs
                .asking
                .who
                .clone()
                .unwrap_or_else(|| "the router".into()),
            comment: comment.into(),
            changes: all.take(CHANGES_KEPT).collect(),
        }
    }

    /// Saves the text that the router was started with as its first revision, unless that is the confirmed one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save_start(&mut self, text: &str, comment: &str) -> Result<()> {
        let there = self.configs.revisions.confirmed();
        if let Some(n) = there
            && self.configs.revisions.text(n)? == text
        {
            return Ok(());
        }
        let revision = self.revision(comment, &ConfigPlan::default());
        self.configs.revisions.save(text, revision, false)?;
        Ok(())
    }

    /// Confirms the revision that waits for that; without one, saves what was changed by hand. Says the number.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn confirm_configuration(&mut self) -> Result<u64> {
        if self.configs.revisions.pending().is_some() {
            let number = self.configs.revisions.settle(true)?;
            self.configs.deadline = None;
            return Ok(number);
        }
        self.save_by_hand()?;
        Ok(self.configs.revisions.confirmed().unwrap_or(0))
    }

    /// Changes the running configuration to that of a revision; without a number, to the confirmed one, giving up one that
    /// waits. Says the number of the revision that holds now.
    ///
    /// # Errors
    /// When there is no such revision, or it cannot be applied any more; nothing has changed then.
    pub fn roll_back_to(&mut self, number: Option<u64>) -> Result<(u64, ConfigPlan)> {
        let Some(confirmed) = number.or(self.configs.revisions.confirmed()) else {
            return Err(Error::refused("there is no revision to go back to"));
        };
        let text = self.configs.revisions.text(confirmed)?;
        let name = format!("revision {confirmed}");
        if number.is_some() {
            self.configs.deadline = None;
            return self.apply_configuration(
                (&text, &name),
                &format!("rollback to {confirmed}"),
                None,
            );
        }
        let plan = self.plan_configuration(&text, &name)?;
        self.atomically(|r| {
            r.at_once(|r| execute_lines(r, &plan.lines()))?;
            match r.configs.revisions.pending() {
                Some(_) => r.configs.revisions.settle(false).map(drop),
                None => Ok(()),
            }
        })?;
        self.configs.deadline = None;
        Ok((confirmed, plan))
    }

    /// Gives a revision up that was not confirmed in time.
    pub(super) fn look_at_pending(&mut self) {
        // Not within a transaction, which may be the one that goes back.
        if self.depth > 0 || self.configs.deadline.is_none_or(|d| self.now < d) {
            return;
        }
        self.configs.deadline = None;
        match self.roll_back_to(None) {
            Ok((n, _)) => tracing::warn!("not confirmed in time: back to configuration {n}"),
            Err(e) => tracing::error!("not confirmed in time, but the way back is barred: {e}"),
        }
    }

    /// How long the pending revision still waits, in seconds.
    pub fn pending_seconds(&self) -> Option<u64> {
        let left = self.configs.deadline?.saturating_sub(self.now());
        Some(left / 1_000_000_000)
    }
}
