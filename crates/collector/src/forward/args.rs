//! The options of `parshall sflow forward`.

use std::net::IpAddr;

use clap::Args;

use super::filter::{Filter, Kind};
use crate::args::{Listen, parse_listen, parse_prefix};
use crate::common::args::HostPort;

const EXAMPLES: &str = "\
Examples:
  parshall sflow forward --to 192.0.2.10:6343 --to 192.0.2.11:6343
        Everything that arrives on UDP port 6343 to two collectors.
  parshall sflow forward --listen 192.0.2.1:6343 --to collector.example --kind counter
        Counter samples only.
  parshall sflow forward --to 127.0.0.1:6344 --agent 198.51.100.0/24 --interface 3,4
        Samples of two interfaces of some agents.
  parshall sflow forward --to 192.0.2.10 --spoof
        The collector sees each agent's own address, as if there were no relay.
  parshall sflow forward --sockets 4 --to 192.0.2.10
        Four threads share the work.
  parshall sflow forward --to 192.0.2.10 --json --status-every 10
        A line of JSON every ten seconds: what came, what went to whom, what was lost.

What the filters do:
  --agent and --sub-agent take or leave whole datagrams: all that such an exporter sends goes on, so its numbers have no
  gap. --kind and --interface take samples out of datagrams. The numbers of datagrams and samples stay those of the
  agent. An agent numbers the samples of each source and kind by themselves, so what is left has no gap either. A datagram
  of which no sample is left goes out empty, or the collector would take the gap for a loss; --no-empty leaves it out.
  Filters read sFlow version 5. Without a filter every datagram goes out as it came, whatever it is.

Losses:
  No collector waits for another. What the system does not take at once is lost to that collector and counted; a collector that
  refuses (nobody listens) is tried again with every datagram.";

/// Options of `parshall sflow forward`.
#[derive(Debug, Clone, Args)]
#[command(
    about = "Pass sFlow datagrams on to several collectors",
    after_help = EXAMPLES
)]
pub struct ForwardArgs {
    /// Address to listen on, with a port if wanted: 192.0.2.1, 192.0.2.1:6343, [2001:db8::1]:6343 [default: all, port 6343]
    #[arg(short = 'b', long, value_name = "ADDR[:PORT]", value_parser = parse_listen)]
    pub listen: Option<Listen>,

    /// Sockets that share the port, each with a thread of its own: as many as there are CPUs to spare. The datagrams of one
    /// sender always go through the same one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub sockets: u16,

    /// A collector to send to; may be given many times. Names are resolved once, at the start [default port: 6343]
    #[arg(short = 't', long, value_name = "HOST[:PORT]", required = true, num_args = 1.., value_parser = HostPort::parse)]
    pub to: Vec<HostPort>,

    /// Keep the agents' source addresses and ports. Needs CAP_NET_RAW, agents and collectors of one address family, and a network that
    /// lets such packets through
    #[arg(long)]
    pub spoof: bool,

    /// Only datagrams of this agent, or of agents in this prefix; may list several
    #[arg(long, value_name = "ADDR[/LEN]", value_delimiter = ',', value_parser = parse_prefix)]
    pub agent: Vec<(IpAddr, u8)>,

    /// Only datagrams of this sub-agent; may list several
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub sub_agent: Vec<u32>,

    /// Only samples of this kind; may list several. `other` is what is none of the three
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_enum)]
    pub kind: Vec<Kind>,

    /// Only samples whose data source is this ifIndex; discard samples if the packet came in or left by it. May list several
    #[arg(long, value_name = "IFINDEX", value_delimiter = ',')]
    pub interface: Vec<u32>,

    /// Leave out datagrams of which no sample is left, though the collector will count them as lost
    #[arg(long)]
    pub no_empty: bool,

    /// Tell every so many seconds what came and what went
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub status_every: Option<u64>,

    /// Tell it as JSON, on the output
    #[arg(long)]
    pub json: bool,

    /// End after so many datagrams, or a few more
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
}

impl ForwardArgs {
    /// What goes on.
    pub fn filter(&self) -> Filter {
        Filter {
            agents: self.agent.clone(),
            sub_agents: self.sub_agent.clone(),
            kinds: self.kind.clone(),
            interfaces: self.interface.clone(),
            no_empty: self.no_empty,
        }
    }
}
