//! The options of `parshall sflow record`.

use std::path::PathBuf;

use clap::Args;

use crate::args::{Listen, parse_listen};
use crate::common::args::Rotation;

const EXAMPLES: &str = "\
Examples:
  parshall sflow record --write sflow.pcap
        Everything that arrives on UDP port 6343, until Ctrl-C.
  parshall sflow record --listen 192.0.2.1:6343 --write sflow.pcap --rotate 100M --keep 20
        sflow-000001.pcap, sflow-000002.pcap and so on, a new one when 100 MB are full, and the last 20 of them. The next run
        goes on with the numbers.
  parshall sflow record --write sflow.pcap --rotate 1h --keep 24
        A file for each hour of a day.
  parshall sflow record --write - | tshark -r - -V
        Look at it at once.

The file is classic pcap: tshark, tcpdump, sflowtool and `parshall sflow decode -r` read it, `parshall sflow replay` sends it again. Sources are the
true ones; the destination is the address listened on, or 0.0.0.0 or :: without --listen. What a reader of the file sees is at most half a second old.";

/// Options of `parshall sflow record`.
#[derive(Debug, Clone, Args)]
#[command(
    about = "Write the sFlow datagrams that arrive to a capture file",
    after_help = EXAMPLES
)]
pub struct RecordArgs {
    /// Address to listen on, with a port if wanted: 192.0.2.1, 192.0.2.1:6343, [2001:db8::1]:6343 [default: all, port 6343]
    #[arg(short = 'b', long, value_name = "ADDR[:PORT]", value_parser = parse_listen)]
    pub listen: Option<Listen>,

    /// The file; `-` is standard output
    #[arg(short = 'w', long, value_name = "FILE")]
    pub write: PathBuf,

    /// Begin a new file after so many bytes (500K, 100M, 2G) or so long (60s, 10m, 1h); files are numbered
    #[arg(long, value_name = "SIZE|TIME", value_parser = Rotation::parse)]
    pub rotate: Option<Rotation>,

    /// Keep so many files, the newest; the others are removed
    #[arg(long, value_name = "N", requires = "rotate", value_parser = keep)]
    pub keep: Option<usize>,

    /// End after so many datagrams
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Tell every so many seconds what came
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub status_every: Option<u64>,

    /// Tell it as JSON, on the output
    #[arg(long)]
    pub json: bool,
}

fn keep(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|n| (1..=999_999).contains(n));
    number.ok_or_else(|| format!("'{text}' is not a number of files from 1 to 999999"))
}
