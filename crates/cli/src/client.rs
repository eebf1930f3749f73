//! `parshall ctl`: one command from the arguments, many from a file or a pipe, or a prompt.

use crate::connection::{Connection, ConnectionError};
use crate::interactive;
use crate::protocol::{DEFAULT_SOCKET, WireReply};
use clap::Args;
use parshall_command::{ErrorKind, Script, ScriptLine, tokenize};
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Arguments of `parshall ctl`.
#[derive(Args, Clone, Debug)]
pub struct CtlArgs {
    /// The router's command socket.
    #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    pub socket: PathBuf,
    /// Print results as JSON, one value per command.
    #[arg(long)]
    pub json: bool,
    /// Execute the commands of a file, up to the first that fails ("-": standard input).
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "command")]
    pub file: Option<PathBuf>,
    /// Execute the command again and again, so many seconds apart (1 when not said): on a terminal in place, else one
    /// answer after the other. Ends with Ctrl-C, or with the router.
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        value_parser = pause,
        conflicts_with = "file",
        requires = "command"
    )]
    pub watch: Option<Duration>,
    /// The command, as typed at the prompt; a "?" at the end prints help instead. Without a command: a
    /// prompt on a terminal, else commands from standard input.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<String>,
}

/// Shortest pause of `--watch` in seconds: the router has other things to do than to answer.
const SHORTEST_PAUSE: f64 = 0.1;

fn pause(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|e| format!("{e}"))?;
    if seconds < SHORTEST_PAUSE {
        return Err(format!("at least {SHORTEST_PAUSE} s"));
    }
    Duration::try_from_secs_f64(seconds).map_err(|e| e.to_string())
}

/// Why the client ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The router cannot be asked, a command failed, or a file cannot be read: what to tell.
    Told(String),
    /// Whoever read our output has had enough.
    Pipe,
}

impl From<ConnectionError> for Failure {
    fn from(error: ConnectionError) -> Failure {
        Failure::Told(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::Pipe,
            _ => Failure::Told(error.to_string()),
        }
    }
}

/// Runs `parshall ctl`. Exit status 1 if a command failed or the router could not be asked, which is
/// then said on standard error.
pub fn run(args: CtlArgs) -> ExitCode {
    let interactive = args.file.is_none() && args.command.is_empty() && io::stdin().is_terminal();
    let done = if interactive {
        Connection::open(&args.socket)
            .map_err(Failure::from)
            .and_then(|c| interactive::run(c, &args))
    } else {
        run_with(args, &mut io::stdin().lock(), &mut io::stdout().lock())
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Pipe) => ExitCode::SUCCESS,
        Err(Failure::Told(why)) => {
            // If standard error is closed there is nobody to tell.
            let _ = writeln!(io::stderr(), "{why}");
            ExitCode::FAILURE
        }
    }
}

/// Everything but the prompt, with the streams handed in.
fn run_with(
    mut args: CtlArgs,
    input: &mut dyn BufRead,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    // Behind a command, too, it is an option and no word of the command.
    if args.command.last().is_some_and(|word| word == "--json") {
        args.command.pop();
        args.json = true;
    }
    let dash = args.file.as_deref() == Some(Path::new("-"));
    let text = match &args.file {
        Some(path) if !dash => Some(
            std::fs::read_to_string(path)
                .map_err(|e| Failure::Told(format!("{}: {e}", path.display())))?,
        ),
        _ => None,
    };
    let mut session = Session {
        connection: Connection::open(&args.socket)?,
        json: args.json,
        pretty: io::stdout().is_terminal(),
    };
    match (text, &args.file) {
        (Some(text), Some(path)) => session.script(&text, &path.display().to_string(), out),
        _ if args.command.is_empty() => session.stream(input, out),
        _ => match args.watch {
            Some(pause) => session.watch(&args.command.join(" "), pause, out),
            None => session.command(&args.command.join(" "), out),
        },
    }
}

/// A connection and how to print what comes from it.
pub(crate) struct Session {
    pub(crate) connection: Connection,
    pub(crate) json: bool,
    pub(crate) pretty: bool,
}

impl Session {
    /// Executes one command and prints its result.
    pub(crate) fn command(&mut self, line: &str, out: &mut dyn Write) -> Result<(), Failure> {
        let reply = match asks_for_help(line) {
            Some(before) => self.connection.help(before)?,
            None => self.connection.execute(line, self.json)?,
        };
        self.print(reply, out)
    }

    /// Executes one command for ever, and prints each result in the place of the one before where there is a terminal.
    fn watch(&mut self, line: &str, pause: Duration, out: &mut dyn Write) -> Result<(), Failure> {
        loop {
            let mut text = Vec::new();
            self.command(line, &mut text)?;
            if self.pretty {
                // Home, and clear what is below: the text is there at once, so that nothing flickers.
                write!(out, "\x1b[H\x1b[J")?;
            }
            out.write_all(&text)?;
            out.flush()?;
            std::thread::sleep(pause);
        }
    }

    fn print(&self, reply: WireReply, out: &mut dyn Write) -> Result<(), Failure> {
        if !reply.ok {
            return Err(Failure::Told(
                reply
                    .error
                    .unwrap_or_else(|| "the command failed".to_owned()),
            ));
        }
        match (reply.data, reply.text) {
            (Some(data), _) => {
                let text = if self.pretty {
                    format!("{data:#}")
                } else {
                    data.to_string()
                };
                writeln!(out, "{text}")?;
            }
            (None, Some(text)) if self.json => {
                writeln!(out, "{}", serde_json::json!({ "text": text }))?
            }
            (None, Some(text)) if !text.is_empty() => {
                let end = if text.ends_with('\n') { "" } else { "\n" };
                write!(out, "{text}{end}")?;
            }
            _ => {}
        }
        out.flush()?;
        Ok(())
    }

    /// Executes the commands of a file, which is called `name` in errors.
    fn script(&mut self, text: &str, name: &str, out: &mut dyn Write) -> Result<(), Failure> {
        for command in Script::new(text) {
            let ScriptLine { number, text } =
                command.map_err(|e| Failure::Told(format!("{name}:{}: {}", e.line, e.render())))?;
            self.command(text, out)
                .map_err(|failure| at_line(failure, name, number))?;
        }
        Ok(())
    }

    /// Executes commands as they come; one with open braces goes on over the following lines.
    fn stream(&mut self, input: &mut dyn BufRead, out: &mut dyn Write) -> Result<(), Failure> {
        let (mut pending, mut number, mut first) = (String::new(), 0, 1);
        loop {
            let got = input
                .read_line(&mut pending)
                .map_err(|e| Failure::Told(format!("standard input: {e}")))?;
            number += 1;
            if got > 0 && wants_more(&pending) {
                continue;
            }
            self.script(&pending, "standard input", out)
                .map_err(|f| renumber(f, first))?;
            if got == 0 {
                return Ok(());
            }
            pending.clear();
            first = number + 1;
        }
    }
}

fn at_line(failure: Failure, name: &str, number: usize) -> Failure {
    match failure {
        Failure::Told(why) => Failure::Told(format!("{name}:{number}: {why}")),
        Failure::Pipe => Failure::Pipe,
    }
}

/// Turns the line within a piece of standard input into the line within all of it.
fn renumber(failure: Failure, first: usize) -> Failure {
    let Failure::Told(why) = &failure else {
        return failure;
    };
    let mut parts = why.splitn(3, ':');
    match (
        parts.next(),
        parts.next().and_then(|n| n.parse::<usize>().ok()),
        parts.next(),
    ) {
        (Some(name), Some(line), Some(rest)) => {
            Failure::Told(format!("{name}:{}:{rest}", line + first - 1))
        }
        _ => failure,
    }
}

/// Whether more lines may complete this command.
pub(crate) fn wants_more(text: &str) -> bool {
    let joined = text.trim_end_matches(['\n', '\r']).ends_with('\\');
    joined || tokenize(text).is_err_and(|e| e.kind == ErrorKind::Unclosed)
}

/// The line before a `?` that ends it and stands in no quotes.
fn asks_for_help(line: &str) -> Option<&str> {
    let before = line.trim_end().strip_suffix('?')?;
    tokenize(before).is_ok().then_some(before)
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
