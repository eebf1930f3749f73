//! Configurations as a whole: plan, apply, confirm, roll back, revisions. The text comes with the command, as
//! `parshall config` sends it.

use parshall_command::{Args, CommandSpec};
use serde::Serialize;
use serde_json::json;

use super::{Context, Handler, Output, command};
use crate::error::{Error, Result};
use crate::revision::Revision;
use crate::router::{ConfigPlan, Router};

const FROM: &str = "The configuration comes with the command: give it as `parshall config";

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    command(
        "show configuration",
        "Show the running configuration as a file",
        dump,
    ),
    command(
        "show configuration revisions",
        "Show the revisions of the configuration: number, when, who and why",
        revisions,
    ),
    CommandSpec {
        pattern: "show configuration revision <number:u64>",
        help: "Show a revision of the configuration",
        detail: "",
        params: &[("number", "As in `show configuration revisions`")],
        handler: revision,
    },
    CommandSpec {
        pattern: "configuration plan [name <name:word>]",
        help: "Show the commands that lead from the running configuration to a new one",
        detail: "The configuration comes with the command: give it as `parshall config plan FILE`.",
        params: &[("name", "What errors call it")],
        handler: plan,
    },
    CommandSpec {
        pattern: "configuration diff [name <name:word> | revision <number:u64>]",
        help: "Show how a new configuration or a revision differs from the running one, line by line",
        detail: "Lines with + are only in the new one. Give it as `parshall config diff FILE`.",
        params: &[("name", "What errors call it"), ("number", "A revision")],
        handler: diff,
    },
    CommandSpec {
        pattern: "configuration apply [* name <name:word> | comment <comment:word>]",
        help: "Change the running configuration to a new one, and save it: all of it or nothing",
        detail: "The configuration comes with the command: give it as `parshall config apply FILE`.",
        params: &[
            ("name", "What errors call it"),
            ("comment", "Why, for `show configuration revisions`"),
        ],
        handler: apply,
    },
    CommandSpec {
        pattern: "configuration commit [* confirm <minutes:u32 1..=10080> | name <name:word> | comment <comment:word>]",
        help: "Apply a configuration that is given up unless it is confirmed in time, or confirm it",
        detail: "With a configuration and `confirm` it is applied and given up after so many minutes. Without a \
                 configuration the one that waits is confirmed; when none waits, what was changed by hand is saved.",
        params: &[
            ("minutes", "Time to confirm it"),
            ("name", "What errors call it"),
            ("comment", "Why, for `show configuration revisions`"),
        ],
        handler: commit,
    },
    CommandSpec {
        pattern: "configuration rollback [<number:u64>]",
        help: "Go back to a revision, or without a number to the confirmed one",
        detail: "",
        params: &[("number", "As in `show configuration revisions`")],
        handler: roll_back,
    },
];

fn dump(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    if cx.json {
        return Ok(Output::Data(r.configuration()));
    }
    r.configuration_text().map(Output::Text)
}

/// The text that came with the command, and what errors call it.
fn given(r: &Router, args: &Args, verb: &str) -> Result<(String, String)> {
    let name = args.get::<&str>("name").unwrap_or("configuration");
    let text = r.configs.asking.input.clone();
    let text = text.ok_or_else(|| Error::refused(format!("{FROM} {verb} FILE`")))?;
    Ok((text, name.to_owned()))
}

fn printed(plan: &ConfigPlan) -> String {
    let mut out: String = plan
        .actions
        .iter()
        .map(|a| format!("{}\n", a.command))
        .collect();
    for note in &plan.notes {
        out += &format!("comment {{ {note} }}\n");
    }
    out
}

fn plan(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let (text, name) = given(r, args, "plan")?;
    let plan = r.plan_configuration(&text, &name)?;
    cx.show(&plan, printed)
}

fn diff(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let (text, name) = match args.get::<u64>("number") {
        Some(n) => (r.revisions().text(n)?, format!("revision {n}")),
        None => given(r, args, "diff")?,
    };
    let lines = r.diff_configuration(&text, &name)?;
    let data = json!({ "lines": lines.lines().collect::<Vec<_>>() });
    cx.show(&data, |_| lines)
}

fn comment(args: &Args) -> &str {
    args.get::<&str>("comment").unwrap_or("")
}

/// What a change says of itself.
fn done(r: &Router, cx: &Context, verb: &str, (number, plan): (u64, ConfigPlan)) -> Result<Output> {
    let n = plan.actions.len();
    let data = json!({
        "revision": number,
        "changes": n,
        "notes": plan.notes,
        "saved": r.revisions().is_saved(),
        "confirm-within-seconds": r.pending_seconds(),
    });
    cx.show(&data, |_| {
        let mut out = format!("{verb} revision {number}: {n} changes\n");
        for note in &plan.notes {
            out += &format!("note: {note}\n");
        }
        if !r.revisions().is_saved() {
            out += "note: revisions end with this router: it was started without --state-dir\n";
        }
        if let Some(s) = r.pending_seconds() {
            out += &format!(
                "note: given up in {} minutes; `parshall config commit` confirms it\n",
                s.div_ceil(60)
            );
        }
        out
    })
}

fn apply(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let (text, name) = given(r, args, "apply")?;
    let outcome = r.apply_configuration((&text, &name), comment(args), None)?;
    done(r, cx, "applied", outcome)
}

fn commit(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let minutes = args.get::<u32>("minutes");
    if r.configs.asking.input.is_none() {
        if minutes.is_some() {
            given(r, args, "commit --confirm MINUTES")?;
        }
        let number = r.confirm_configuration()?;
        return done(r, cx, "confirmed", (number, ConfigPlan::default()));
    }
    let (text, name) = given(r, args, "commit")?;
    let outcome = r.apply_configuration((&text, &name), comment(args), minutes)?;
    done(r, cx, "applied", outcome)
}

fn roll_back(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let outcome = r.roll_back_to(args.get("number"))?;
    done(r, cx, "went back:", outcome)
}

#[derive(Serialize)]
struct Shown<'r> {
    #[serde(flatten)]
    revision: &'r Revision,
    state: &'static str,
}

fn revisions(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let all = r.revisions();
    let state = |n: u64| match (all.confirmed() == Some(n), all.pending() == Some(n)) {
        (true, _) => "confirmed",
        (_, true) => "waits",
        _ => "",
    };
    let rows: Vec<Shown> = all
        .iter()
        .map(|revision| Shown {
            revision,
            state: state(revision.number),
        })
        .collect();
    cx.show(&rows, |rows| {
        let mut out = format!(
            "{:>6}  {:20}  {:12}  {:>7}  {:9}  {}\n",
            "Number", "When", "Who", "Changes", "State", "Why"
        );
        for Shown { revision: v, state } in rows {
            out += &format!(
                "{:>6}  {:20}  {:12}  {:>7}  {state:9}  {}\n",
                v.number,
                utc(v.time),
                v.who,
                v.changes.len(),
                v.comment
            );
        }
        out
    })
}

fn revision(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let number = args.need("number")?;
    let text = r.revisions().text(number)?;
    let about = r.revisions().get(number)?;
    let data = json!({ "revision": about, "text": text });
    cx.show(&data, |_| text)
}

/// Seconds of the UNIX epoch as date and time in UTC (Howard Hinnant's civil_from_days).
fn utc(seconds: u64) -> String {
    let days = (seconds / 86_400) as i64 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (month, late) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let s = seconds % 86_400;
    format!(
        "{:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}Z",
        year + era * 400 + late,
        s / 3600,
        s / 60 % 60,
        s % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_700_000_000), "2023-11-14T22:13:20Z");
    }
}
