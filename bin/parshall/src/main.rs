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
    /// Measure the router in memory.
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Subcommand)]
enum Bench {
    /// Packets forwarded per second by one worker.
    Forward(parshall_bench::ForwardArgs),
}

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Bench(Bench::Forward(args)) => parshall_bench::forward(&args),
    }
}
