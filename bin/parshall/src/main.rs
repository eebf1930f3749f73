//! The `parshall` binary: the composition root. Parses the command line and hands over to a room.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Software router with packet telemetry inside.
#[derive(Parser)]
#[command(version, about, long_about = None, propagate_version = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Give commands to a running router: one, a file of them, or at a prompt.
    Ctl(parshall_cli::CtlArgs),
    /// Tools for sFlow.
    #[command(subcommand)]
    Sflow(Sflow),
    /// Measure the router in memory.
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Subcommand)]
enum Sflow {
    /// Print sFlow v5 datagrams from the network or a capture file.
    Decode(parshall_collector::DecodeArgs),
}

#[derive(Subcommand)]
enum Bench {
    /// Packets forwarded per second by one worker.
    Forward(parshall_bench::ForwardArgs),
}

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Ctl(args) => parshall_cli::run(args),
        Command::Sflow(Sflow::Decode(args)) => report(parshall_collector::run(&args)),
        Command::Bench(Bench::Forward(args)) => parshall_bench::forward(&args),
    }
}

/// Says on standard error what went wrong, if something did.
fn report<E: std::fmt::Display>(outcome: Result<(), E>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("parshall: {error}");
            ExitCode::FAILURE
        }
    }
}
