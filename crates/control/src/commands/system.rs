//! The router as a whole: files of commands, comments, the end.

use parshall_command::{Args, CommandSpec};

use super::{Context, Handler, Output, command};
use crate::error::{Error, Result};
use crate::router::Router;

/// Files that may execute each other.
const MAX_EXEC: usize = 8;
/// Largest file.
const MAX_FILE: u64 = 256 << 20;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    CommandSpec {
        pattern: "exec <file:path>",
        help: "Execute the commands of a file, all or none",
        detail: "When a command fails, what the ones before it did is undone, and the error names the line.",
        params: &[("file", "File on the machine of the router")],
        handler: exec,
    },
    command(
        "comment <text:block>",
        "Do nothing; for notes in files",
        |_, _, _| Ok(Output::Done),
    ),
    command("shutdown", "End the router in order", shutdown),
];

fn exec(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let file = args.need::<&str>("file")?;
    if r.exec_depth >= MAX_EXEC {
        return Err(Error::refused(format!(
            "{file}: {MAX_EXEC} files execute each other already"
        )));
    }
    let refuse = |e: std::io::Error| Error::refused(format!("cannot read {file}: {e}"));
    let size = std::fs::metadata(file).map_err(refuse)?.len();
    if size > MAX_FILE {
        return Err(Error::refused(format!(
            "{file} has {size} bytes: at most {MAX_FILE} are read"
        )));
    }
    let text = std::fs::read_to_string(file).map_err(refuse)?;
    r.exec_depth += 1;
    let done = r.run_script(&text, file);
    r.exec_depth -= 1;
    done.map(Output::Text)
}

fn shutdown(r: &mut Router, _: &Args, _: &Context) -> Result<Output> {
    r.stop = true;
    Ok(Output::Done)
}
