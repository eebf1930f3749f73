//! `parshall config plan|apply|diff|dump|commit|rollback|revisions|show`: a running router's configuration, from files here.
//!
//! The file is read where this runs, with the rights of who runs it, and goes to the router with the command.

use crate::client::Failure;
use crate::connection::Connection;
use crate::protocol::{DEFAULT_SOCKET, WireReply};
use clap::{Args, Subcommand};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Largest file that is sent.
const MAX_FILE: u64 = 4 << 20;

/// How the router is reached and what it answers in.
#[derive(Args, Clone, Debug)]
pub struct Reach {
    /// The router's command socket.
    #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    pub socket: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// What to do with the configuration of a running router.
#[derive(Subcommand, Clone, Debug)]
pub enum ConfigurationCommand {
    /// Print the commands that lead from the running configuration to that of a file.
    Plan {
        /// The YAML file ("-": standard input).
        file: PathBuf,
        /// The router.
        #[command(flatten)]
        reach: Reach,
    },
    /// Change the running configuration to that of a file and save it as a revision: all of it or nothing.
    Apply {
        /// The YAML file ("-": standard input).
        file: PathBuf,
        /// Why, for the list of revisions.
        #[arg(short = 'm', long, value_name = "TEXT")]
        comment: Option<String>,
        /// The router.
        #[command(flatten)]
        reach: Reach,
    },
    /// Show how a file, or a revision, differs from the running configuration, line by line.
    Diff {
        /// The YAML file ("-": standard input), or the number of a revision.
        what: String,
        /// The router.
        #[command(flatten)]
        reach: Reach,
    },
    /// Print the running configuration as a file.
    Dump {
        /// The router.
        #[command(flatten)]
        reach: Reach,
    },
    /// Apply a file for a time, or confirm what was applied so.
    Commit {
        /// The YAML file ("-": standard input). Without one the revision that waits is confirmed; when none waits, what
        /// was changed by hand is saved.
        file: Option<PathBuf>,
        /// Go back by itself after so many minutes, unless it is confirmed by `commit` without a file before.
        #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u32).range(1..=10_080), requires = "file")]
        confirm: Option<u32>,
        /// Why, for the list of revisions.
        #[arg(short = 'm', long, value_name = "TEXT")]
        comment: Option<String>,
        /// The router.
        #[command(flatten)]
        reach: Reach,
    },
    /// Go back to a revision; without a number to the confirmed one, giving up the one that waits.
    Rollback {
        /// Its number.
        number: Option<u64>,
        /// The router.
        #[command(flatten)]
        reach: Reach,
    },
    /// List revisions: number, when, who, how many changes, why.
    Revisions {
        /// The router.
        #[command(flatten)]
        reach: Reach,
    },
    /// Print the text of a revision.
    Show {
        /// Its number.
        number: u64,
        /// The router.
        #[command(flatten)]
        reach: Reach,
    },
}

/// Runs `parshall config ...` against a router. Exit status 1 if it could not be asked or refused.
pub fn run_configuration(command: &ConfigurationCommand) -> ExitCode {
    match ask(command) {
        Ok(()) | Err(Failure::Pipe) => ExitCode::SUCCESS,
        Err(Failure::Told(why)) => {
            // If standard error is closed there is nobody to tell.
            let _ = writeln!(io::stderr(), "{why}");
            ExitCode::FAILURE
        }
    }
}

fn ask(command: &ConfigurationCommand) -> Result<(), Failure> {
    use ConfigurationCommand as C;
    let (line, file, reach) = match command {
        C::Plan { file, reach } => (named("configuration plan", file), Some(file), reach),
        C::Apply {
            file,
            comment,
            reach,
        } => {
            let line = named("configuration apply", file) + &because(comment);
            (line, Some(file), reach)
        }
        C::Diff { what, reach } => {
            let (line, file) = difference(what);
            return send(&line, file.as_deref(), reach);
        }
        C::Dump { reach } => ("show configuration".to_owned(), None, reach),
        C::Commit {
            file,
            confirm,
            comment,
            reach,
        } => {
            let mut line = file.as_ref().map_or_else(
                || "configuration commit".to_owned(),
                |f| named("configuration commit", f),
            );
            if let Some(minutes) = confirm {
                line += &format!(" confirm {minutes}");
            }
            (line + &because(comment), file.as_ref(), reach)
        }
        C::Rollback { number, reach } => {
            let number = number.map_or_else(String::new, |n| format!(" {n}"));
            (format!("configuration rollback{number}"), None, reach)
        }
        C::Revisions { reach } => ("show configuration revisions".to_owned(), None, reach),
        C::Show { number, reach } => (format!("show configuration revision {number}"), None, reach),
    };
    send(&line, file.map(PathBuf::as_path), reach)
}

/// A revision by its number, or a file.
fn difference(what: &str) -> (String, Option<PathBuf>) {
    match what.parse::<u64>() {
        Ok(number) => (format!("configuration diff revision {number}"), None),
        Err(_) => {
            let file = PathBuf::from(what);
            (named("configuration diff", &file), Some(file))
        }
    }
}

fn named(words: &str, file: &Path) -> String {
    format!("{words} name {}", quoted(&file.display().to_string()))
}

fn because(comment: &Option<String>) -> String {
    comment
        .as_ref()
        .map_or_else(String::new, |c| format!(" comment {}", quoted(c)))
}

/// A word of a command in quotes; control characters become blanks.
fn quoted(text: &str) -> String {
    let plain: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    format!("\"{}\"", plain.replace('\\', "\\\\").replace('"', "\\\""))
}

fn send(line: &str, file: Option<&Path>, reach: &Reach) -> Result<(), Failure> {
    let input = match file {
        Some(file) => {
            Some(read(file).map_err(|e| Failure::Told(format!("{}: {e}", file.display())))?)
        }
        None => None,
    };
    let mut connection = Connection::open(&reach.socket)?;
    let reply = connection.execute_with(line, reach.json, input)?;
    print(reply, &mut io::stdout().lock())
}

fn read(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    // One byte more than is allowed at the most, so that the router says that it is too much.
    if file == Path::new("-") {
        io::stdin()
            .lock()
            .take(MAX_FILE + 1)
            .read_to_string(&mut text)?;
    } else {
        std::fs::File::open(file)?
            .take(MAX_FILE + 1)
            .read_to_string(&mut text)?;
    }
    Ok(text)
}

fn print(reply: WireReply, out: &mut dyn Write) -> Result<(), Failure> {
    if !reply.ok {
        let why = reply
            .error
            .unwrap_or_else(|| "the command failed".to_owned());
        return Err(Failure::Told(why));
    }
    match (reply.data, reply.text) {
        (Some(data), _) => writeln!(out, "{data:#}")?,
        (None, Some(text)) => write!(out, "{text}")?,
        (None, None) => {}
    }
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_comments_are_one_word_each() {
        assert_eq!(
            named("x", Path::new("a b\".yaml")),
            "x name \"a b\\\".yaml\""
        );
        assert_eq!(
            because(&Some("two\nlines".into())),
            " comment \"two lines\""
        );
        assert_eq!(because(&None), "");
        assert_eq!(difference("12").0, "configuration diff revision 12");
        assert_eq!(difference("r.yaml").1, Some(PathBuf::from("r.yaml")));
    }
}
