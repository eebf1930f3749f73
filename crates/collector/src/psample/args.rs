//! The options of `parshall sflow psample`.

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  parshall sflow psample
        Every packet sample that the kernel or a program on this machine sends, a line each.
  parshall sflow psample --group 3 --json | jq -r '[.input, .output, .length] | @csv'
        Those that Parshall (or VPP) took on receive, as data.
  parshall sflow psample --count 10
        Ten samples, then the end. Is anything sampled at all?
  parshall sflow psample --quiet
        Only the counts, on Ctrl-C: samples of each group, and what was lost.

To see the kernel's own samples:
  tc qdisc add dev eth0 clsact
  tc filter add dev eth0 ingress matchall action sample rate 100 group 5";

/// Options of `parshall sflow psample`.
#[derive(Debug, Clone, Default, Args)]
#[command(
    about = "Print the packet samples of the kernel's PSAMPLE channel",
    after_help = EXAMPLES
)]
pub struct PsampleArgs {
    /// Only samples of this group; may be given several times [default: all]
    #[arg(short = 'g', long, value_name = "N")]
    pub group: Vec<u32>,

    /// JSON, a sample per line; the counts at the end as well
    #[arg(short = 'j', long)]
    pub json: bool,

    /// End after so many samples
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Print no sample: only count
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

impl PsampleArgs {
    /// Whether samples of this group are wanted.
    pub fn wants(&self, group: u32) -> bool {
        self.group.is_empty() || self.group.contains(&group)
    }
}
