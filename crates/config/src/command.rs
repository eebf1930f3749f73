//! `parshall config check` and `parshall config import-hsflowd`: the parts that need no router.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

/// What to check.
#[derive(Args, Clone, Debug)]
pub struct ConfigCheckArgs {
    /// The YAML file.
    pub file: PathBuf,
    /// Print the commands that the file stands for.
    #[arg(long)]
    pub plan: bool,
}

/// Checks a file: says on standard error all that is wrong with it. It does not rehearse the commands.
pub fn check(args: &ConfigCheckArgs) -> ExitCode {
    match crate::load(&args.file) {
        Ok(plan) => {
            for note in &plan.notes {
                eprintln!("note: {note}");
            }
            if args.plan {
                for command in &plan.commands {
                    println!("{}", command.line);
                }
            } else {
                println!(
                    "{}: good, {} commands",
                    args.file.display(),
                    plan.commands.len()
                );
            }
            ExitCode::SUCCESS
        }
        Err(errors) => {
            eprintln!("{errors}");
            ExitCode::FAILURE
        }
    }
}

/// What to import.
#[derive(Args, Clone, Debug)]
pub struct ImportHsflowdArgs {
    /// The hsflowd.conf.
    pub file: PathBuf,
    /// Print commands rather than a section of a configuration file.
    #[arg(long)]
    pub commands: bool,
}

/// Prints what a hsflowd.conf becomes here, and on standard error what of it is not used.
pub fn import_hsflowd(args: &ImportHsflowdArgs) -> ExitCode {
    let name = args.file.display();
    let text = match crate::read_named(&args.file.to_string_lossy()) {
        Ok(text) => text,
        Err(e) => {
            eprintln!("{name}: {e}");
            return ExitCode::FAILURE;
        }
    };
    match crate::hsflowd::import(&text) {
        Ok(got) => {
            for note in &got.notes {
                eprintln!("{name}: {note}");
            }
            if args.commands {
                for (_, line) in got.commands() {
                    println!("{line}");
                }
            } else {
                print!("{}", got.yaml());
            }
            ExitCode::SUCCESS
        }
        Err(errors) => {
            for e in &errors {
                eprintln!("{name}: {e}");
            }
            ExitCode::FAILURE
        }
    }
}
