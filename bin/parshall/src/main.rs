//! The `parshall` binary: the composition root. Parses the command line and hands over to a room.

#[cfg(target_arch = "x86_64")]
mod cpu;
mod doctor;
mod front;
mod generate;
mod notify;
mod run;
mod vpp;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Counts for each thread, so that a bench can prove that the packet path does not allocate.
#[global_allocator]
static ALLOCATOR: parshall_bench::CountingAllocator = parshall_bench::CountingAllocator;

/// Software router with packet telemetry inside.
#[derive(Parser)]
#[command(version, about, long_about = None, propagate_version = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a router with a configuration file.
    Run(run::RunArgs),
    /// Run a router as VPP is run: with its start-up configuration, from a file or as arguments.
    Vpp(vpp::VppArgs),
    /// Give commands to a running router: one, a file of them, or at a prompt.
    Ctl(parshall_cli::CtlArgs),
    /// VPP's binary API: its description as files, its messages.
    Api(parshall_api::ApiArgs),
    /// Check configuration files; plan, apply, confirm and roll back the configuration of a running router.
    #[command(subcommand)]
    Config(Config),
    /// See it all at work: hosts, a router, traffic and a collector in network namespaces.
    Lab(parshall_lab::LabArgs),
    /// Tools for sFlow.
    #[command(subcommand)]
    Sflow(Sflow),
    /// Measure the router on this machine.
    Bench(parshall_bench::BenchArgs),
    /// Say what on this machine stands in a router's way, and the command that mends it.
    Doctor(doctor::DoctorArgs),
    /// Watch a running router: interfaces, nodes, drops, workers.
    Top(parshall_top::TopArgs),
    /// Write the manual pages.
    #[command(hide = true)]
    Man(generate::ManArgs),
    /// Print the completion script of a shell.
    Completions(generate::CompletionsArgs),
    /// Print what may follow in a router command.
    #[command(hide = true)]
    Complete(generate::CompleteArgs),
}

#[derive(Subcommand)]
enum Config {
    /// Check a file without touching the system: its form, its values, and every command it stands for.
    Check(parshall_config::ConfigCheckArgs),
    /// Print what a hsflowd.conf becomes here, and what of it is not used.
    ImportHsflowd(parshall_config::ImportHsflowdArgs),
    #[command(flatten)]
    Running(parshall_cli::configuration::ConfigurationCommand),
}

#[derive(Subcommand)]
enum Sflow {
    /// Print sFlow v5 datagrams from the network or a capture file.
    Decode(parshall_collector::DecodeArgs),
    /// Pass sFlow datagrams on to several collectors.
    Forward(parshall_collector::ForwardArgs),
    /// Send the sFlow datagrams of a capture file again.
    Replay(parshall_collector::ReplayArgs),
    /// Write the sFlow datagrams that arrive to a capture file.
    Record(parshall_collector::RecordArgs),
    /// Convert flow samples to NetFlow or IPFIX records.
    Convert(parshall_collector::ConvertArgs),
    /// Name every violation of the sFlow specification in a stream or a capture.
    Lint(parshall_collector::lint::LintArgs),
    /// Compare estimates from samples with true counters.
    Verify(parshall_collector::verify::VerifyArgs),
    /// Send known samples to a collector and say what it must show.
    Test(parshall_collector::test::TestArgs),
    /// Print the packet samples of the kernel's PSAMPLE channel.
    Psample(parshall_collector::PsampleArgs),
}

fn main() -> ExitCode {
    #[cfg(target_arch = "x86_64")]
    if let Err(error) = cpu::check() {
        return report::<String>(Err(error));
    }
    match Args::parse_from(vpp::named(std::env::args_os())).command {
        Command::Run(args) => run::run_router(&args),
        Command::Vpp(args) => report(vpp::run(&args)),
        Command::Config(Config::Check(args)) => run::check_config(&args),
        Command::Config(Config::ImportHsflowd(args)) => parshall_config::import_hsflowd(&args),
        Command::Api(args) => parshall_api::run(&args),
        Command::Config(Config::Running(c)) => parshall_cli::configuration::run_configuration(&c),
        Command::Lab(args) => parshall_lab::run(args),
        Command::Ctl(args) => parshall_cli::run(args),
        Command::Sflow(Sflow::Decode(args)) => report(parshall_collector::run(&args)),
        Command::Sflow(Sflow::Forward(args)) => report(parshall_collector::forward::run(&args)),
        Command::Sflow(Sflow::Replay(args)) => report(parshall_collector::replay::run(&args)),
        Command::Sflow(Sflow::Record(args)) => report(parshall_collector::record::run(&args)),
        Command::Sflow(Sflow::Convert(args)) => report(parshall_collector::convert::run(&args)),
        Command::Sflow(Sflow::Lint(args)) => parshall_collector::lint::run(&args),
        Command::Sflow(Sflow::Verify(args)) => parshall_collector::verify::run(&args),
        Command::Sflow(Sflow::Test(args)) => parshall_collector::test::run(&args),
        Command::Sflow(Sflow::Psample(args)) => report(parshall_collector::psample::run(&args)),
        Command::Bench(args) => parshall_bench::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Top(args) => parshall_top::run(&args),
        Command::Man(args) => generate::man(&args, Args::command()),
        Command::Completions(args) => generate::completions(&args, Args::command()),
        Command::Complete(args) => generate::complete(&args),
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
