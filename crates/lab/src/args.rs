//! The command line of `parshall lab`.

use clap::Args;

/// Arguments of `parshall lab`.
#[derive(Args, Clone, Debug)]
pub struct LabArgs {
    /// How long traffic is measured, in seconds.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Sample one packet in N.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    pub rate: u32,
    /// Leave everything running afterwards, with light traffic and hints what to try, until Ctrl-C.
    #[arg(long)]
    pub keep: bool,
    /// Print one JSON object at the end and nothing else; progress goes to standard error.
    #[arg(long)]
    pub json: bool,
}
