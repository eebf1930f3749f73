//! `parshall bench`: what the router can do on this machine, measured.
//!
//! One module a bench, one variant of [`BenchCommand`] each. A bench is a function from its arguments to
//! a [`Report`]; printing it (a table for people, one JSON object for machines) is the same for all, and
//! `bench all` collects the reports of all. The forwarding benches run whole graphs in memory on pinned
//! threads: the source is a packet generator that takes a fresh buffer and writes the frame's bytes for
//! every packet, the sink a generator interface that frees it; every header check is on. So the figures
//! compare with VPP's packet generator (`show runtime`). What is compared is interleaved in short windows,
//! and medians count, because the machines this runs on are shared.

#![allow(unsafe_code)]

mod af_xdp;
mod all;
mod alloc;
mod api;
mod cases;
mod churn;
mod decode;
mod docs;
mod drain;
mod drops;
mod fib;
mod forward;
pub mod internet;
pub mod linear;
mod machine;
mod memif;
mod overlay;
mod report;
mod rig;
mod sflow;
mod sflow_world;
mod stats;
mod vpp;
mod yardstick;

use std::process::ExitCode;

pub use af_xdp::AfXdpArgs;
pub use all::AllArgs;
pub use alloc::CountingAllocator;
pub use api::ApiArgs;
pub use cases::CASES;
pub use churn::ChurnArgs;
pub use decode::DecodeArgs;
pub use drops::DropsArgs;
pub use fib::FibArgs;
pub use forward::{ForwardArgs, SflowRate};
pub use machine::Machine;
pub use memif::MemifArgs;
pub use report::{Bar, Report, Table};
pub use sflow::SflowArgs;

/// `parshall bench`.
#[derive(clap::Args, Clone, Debug)]
pub struct BenchArgs {
    /// The bench.
    #[command(subcommand)]
    pub command: BenchCommand,
    /// Print one JSON object.
    #[arg(long, global = true)]
    pub json: bool,
}

/// The benches. Each names its arguments and is run by its line in [`BenchCommand::measure`].
#[derive(clap::Subcommand, Clone, Debug)]
pub enum BenchCommand {
    /// Every bench, into files and documents.
    All(AllArgs),
    /// Packets forwarded per second, in memory.
    Forward(ForwardArgs),
    /// Routes that change all the time under full traffic: nothing lost, nothing wrong.
    Churn(ChurnArgs),
    /// Routes: memory, load, lookups and changes, by table.
    Fib(FibArgs),
    /// Calls of VPP's binary API beside full traffic.
    Api(ApiArgs),
    /// Good traffic beside a flood of drops, with and without drop monitoring.
    Drops(DropsArgs),
    /// Samples per second from workers to a collector over UDP, each accounted for.
    Sflow(SflowArgs),
    /// Packets to a testpmd and back over shared memory, against testpmd itself.
    Memif(MemifArgs),
    /// Packets between veth pairs, by AF_XDP against AF_PACKET.
    #[command(name = "af_xdp")]
    AfXdp(AfXdpArgs),
    /// Samples per second that a collector decodes, by form of output.
    Decode(DecodeArgs),
}

impl BenchCommand {
    /// Runs the bench.
    ///
    /// # Errors
    /// When it cannot be set up here; says what is missing.
    pub fn measure(&self) -> Result<Report, BenchError> {
        match self {
            BenchCommand::All(args) => all::measure(args),
            BenchCommand::Forward(args) => forward::measure(args),
            BenchCommand::Churn(args) => churn::measure(args),
            BenchCommand::Fib(args) => fib::measure(args),
            BenchCommand::Api(args) => api::measure(args),
            BenchCommand::Drops(args) => drops::measure(args),
            BenchCommand::Sflow(args) => sflow::measure(args),
            BenchCommand::Memif(args) => memif::measure(args),
            BenchCommand::AfXdp(args) => af_xdp::measure(args),
            BenchCommand::Decode(args) => decode::measure(args),
        }
    }
}

/// Runs a bench and prints what it measured. Fails when it could not run, or when what must be exact
/// (never a speed) was not.
pub fn run(args: &BenchArgs) -> ExitCode {
    match args.command.measure() {
        Ok(report) => {
            report.print(args.json);
            for fault in &report.faults {
                eprintln!("parshall bench: {fault}");
            }
            match report.faults.is_empty() {
                true => ExitCode::SUCCESS,
                false => ExitCode::FAILURE,
            }
        }
        Err(error) => {
            eprintln!("parshall bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Why a bench did not run.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BenchError(pub String);

impl BenchError {
    /// An error of `what`.
    pub fn of(what: &str, error: impl std::fmt::Display) -> BenchError {
        BenchError(format!("{what}: {error}"))
    }
}
