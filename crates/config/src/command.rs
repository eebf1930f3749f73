//! `parshall config check`: the part that needs no router.

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
