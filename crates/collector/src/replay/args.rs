//! The options of `parshall sflow replay`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::pace::Speed;
use crate::common::args::{HostPort, parse_factor};

const EXAMPLES: &str = "\
Examples:
  parshall sflow replay capture.pcap --to 127.0.0.1:6343
        The sFlow datagrams of a capture, at the speed they were captured.
  parshall sflow replay capture.pcapng --to 192.0.2.10 --to 192.0.2.11 --speed 10
        Ten times as fast, to two collectors.
  parshall sflow replay capture.pcap --to 127.0.0.1:6343 --rate 50000 --loop 100
        A hundred rounds of 50,000 datagrams a second: how much does a collector take?
  parshall sflow replay capture.pcap --to 192.0.2.10 --fast --spoof
        As fast as it goes, from the addresses of the agents.
  tcpdump -w - udp port 6343 | parshall sflow replay - --to 192.0.2.10 --fast
        What tcpdump sees, at once.

Only sFlow datagrams are sent: UDP that begins with an sFlow version, to any port unless -p says one. They go out as they are: a second
round repeats their numbers, which collectors take for a restart of the agent or for duplicates.

At the end it says how many went out, how fast, and how far behind the plan.";

/// Options of `parshall sflow replay`.
#[derive(Debug, Clone, Args)]
#[command(
    about = "Send the sFlow datagrams of a capture file again",
    after_help = EXAMPLES,
    group = ArgGroup::new("pace").args(["speed_factor", "rate", "fast"])
)]
pub struct ReplayArgs {
    /// A pcap or pcapng file; `-` is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// A collector to send to; may be given many times [default port: 6343]
    #[arg(short = 't', long, value_name = "HOST[:PORT]", required = true, value_parser = HostPort::parse)]
    pub to: Vec<HostPort>,

    /// So many times as fast as captured [default: 1]
    #[arg(long = "speed", value_name = "X", value_parser = parse_factor)]
    pub speed_factor: Option<f64>,

    /// So many datagrams a second
    #[arg(long, value_name = "N", value_parser = parse_factor)]
    pub rate: Option<f64>,

    /// As fast as it goes
    #[arg(long)]
    pub fast: bool,

    /// So many rounds through the file, 0 for ever
    #[arg(long = "loop", value_name = "N", default_value_t = 1)]
    pub rounds: u64,

    /// Keep the source addresses and ports of the capture. Needs CAP_NET_RAW
    #[arg(long)]
    pub spoof: bool,

    /// Only datagrams that were sent to this port [default: any]
    #[arg(short = 'p', long, value_name = "PORT")]
    pub port: Option<u16>,

    /// End after so many datagrams
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Tell every so many seconds how far it is
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub status_every: Option<u64>,

    /// Tell it as JSON, on the output
    #[arg(long)]
    pub json: bool,
}

impl ReplayArgs {
    /// How fast.
    pub fn speed(&self) -> Speed {
        match (self.rate, self.fast) {
            (Some(rate), _) => Speed::Rate(rate),
            (None, true) => Speed::Fast,
            _ => Speed::Times(self.speed_factor.unwrap_or(1.0)),
        }
    }
}
