//! A running router in the terminal: `parshall top`.
//!
//! Reads what `show interface`, `show runtime`, `show errors`, `show threads` and `show sflow flows` tell as JSON over the
//! command socket, so it works wherever `parshall ctl` does, through ssh too. Two looks make a rate ([`sample`]); what is
//! shown of them is a table ([`table`]), chosen, sorted and filtered by keys ([`view`]), drawn in a terminal or printed.

mod draw;
mod sample;
mod screen;
mod table;
mod view;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use parshall_cli::DEFAULT_SOCKET;

use sample::{Sample, Source};
use table::{Tab, table};

/// Arguments of `parshall top`.
#[derive(Args, Clone, Debug)]
pub struct TopArgs {
    /// The router's command socket.
    #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    socket: PathBuf,
    /// Seconds between two looks.
    #[arg(short = 'd', long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    delay: f64,
    /// Print tables instead of drawing; so too when the output is no terminal.
    #[arg(short = 'b', long)]
    batch: bool,
    /// Print once and end.
    #[arg(long)]
    once: bool,
    /// Print so many times and end.
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "once")]
    count: Option<u64>,
    /// Print JSON, one value per look.
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.1..=3600.0).contains(&s) => Ok(s),
        _ => Err("a number of seconds from 0.1 to 3600".into()),
    }
}

/// Runs `parshall top`. Exit status 1 when the router cannot be asked, which is then said on standard error.
pub fn run(args: &TopArgs) -> ExitCode {
    let delay = Duration::from_secs_f64(args.delay);
    let printing =
        args.batch || args.once || args.json || args.count.is_some() || !io::stdout().is_terminal();
    let done = Source::open(&args.socket).and_then(|source| {
        if printing {
            let count = if args.once { Some(1) } else { args.count };
            print_looks(source, delay, count, args.json, &mut io::stdout().lock())
        } else {
            screen::run(source, delay)
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Prints what changes between two looks, `count` times or until nobody reads it.
fn print_looks(
    mut source: Source,
    delay: Duration,
    count: Option<u64>,
    json: bool,
    out: &mut dyn Write,
) -> Result<(), String> {
    let mut older = source.look()?;
    for _ in 0..count.unwrap_or(u64::MAX) {
        std::thread::sleep(delay);
        let newer = source.look()?;
        let text = if json {
            as_json(&older, &newer)
        } else {
            as_text(&older, &newer)
        };
        if out
            .write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .is_err()
        {
            // Whoever read it has had enough.
            return Ok(());
        }
        older = newer;
    }
    Ok(())
}

fn as_json(older: &Sample, newer: &Sample) -> String {
    let mut all = serde_json::Map::new();
    all.insert("seconds".into(), (newer.at - older.at).into());
    for tab in Tab::ALL {
        all.insert(tab.name().into(), table(tab, Some(older), newer).json());
    }
    format!("{}\n", serde_json::Value::from(all))
}

fn as_text(older: &Sample, newer: &Sample) -> String {
    let each =
        Tab::ALL.map(|tab| format!("{}\n{}", tab.title(), table(tab, Some(older), newer).text()));
    each.join("\n") + "\n"
}

#[cfg(test)]
mod tests;
