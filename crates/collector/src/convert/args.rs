//! The options of `parshall sflow convert`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use parshall_flow_export::{Protocol, Settings as ExportSettings};

use super::converter::{Scale, Settings};
use crate::args::{Listen, parse_listen};
use crate::common::args::{HostPort, parse_factor};

/// The ports that receivers usually have.
const NETFLOW_PORT: u16 = 2055;
const IPFIX_PORT: u16 = 4739;

const EXAMPLES: &str = "\
Examples:
  parshall sflow convert --to 192.0.2.10:2055 --format netflow9
        sFlow that arrives on UDP port 6343 to a NetFlow collector.
  parshall sflow convert --listen 192.0.2.1:6343 --to collector.example --format ipfix --scale no
        IPFIX; the collector multiplies by the sampling rate itself.
  parshall sflow convert capture.pcap --to 127.0.0.1:9995 --format netflow5
        A capture to nfcapd.
  parshall sflow convert capture.pcap --write flows.pcap --format ipfix
        The same into a capture: tshark -r flows.pcap -d udp.port==4739,cflow
  parshall sflow convert capture.pcap --write flows.ipfix --format ipfix
        An IPFIX file (RFC 5655), the messages one after the other.

What becomes of a sample:
  Each flow sample of an IP packet becomes one flow record. With a sampling rate of N:
    --scale yes   packets = N, bytes = N x IP length. The sampling interval announced is 1: no collector may multiply again.
    --scale no    packets = 1, bytes = IP length, and the sampling interval announced is N: the collector multiplies.
  Bytes are those of the IP packet (its own length, without Ethernet, VLAN and MPLS headers and without padding).
  Interfaces, VLANs, MAC addresses, MPLS labels, next hop, masks and AS numbers come from the sample and its records 0:1001, 0:1002,
  0:1003 and 0:1006. Counter and discard samples and packets that are not IP have no flow record; they are counted.

Streams:
  Each agent and sub-agent (with --scale no, each of its sampling rates too) is a stream of its own: engine type and number in version 5, source in
  version 9, observation domain in IPFIX, numbered from 1. Version 9 and IPFIX carry the agent's address in each record; in version 5 only
  --spoof tells agents apart by address. Times are the times of arrival, or of capture, unless the sample has a timestamp (0:1043).

NetFlow version 5 has no IPv6, no VLANs and no MPLS, interfaces and AS numbers up to 65535, and 32-bit counters. What does not fit is
counted and told: IPv6 flows are left out, larger AS numbers are sent as 23456, larger interface numbers as 0, larger counters as the
largest. With --scale no it announces rates up to 16383; flows of larger ones are scaled, in a stream that announces 1.";

/// Format of the flow records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// NetFlow version 5: IPv4 only.
    #[value(name = "netflow5")]
    NetFlow5,
    /// NetFlow version 9.
    #[value(name = "netflow9")]
    NetFlow9,
    /// IPFIX.
    #[value(name = "ipfix")]
    Ipfix,
}

/// Whether we multiply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum YesNo {
    /// Packets and bytes are multiplied by the sampling rate.
    Yes,
    /// The collector multiplies.
    No,
}

/// Options of `parshall sflow convert`.
#[derive(Debug, Clone, Args)]
#[command(
    about = "Convert flow samples to NetFlow or IPFIX records",
    after_help = EXAMPLES,
    group = ArgGroup::new("outlet").args(["to", "write"]).multiple(true).required(true)
)]
pub struct ConvertArgs {
    /// Read a pcap or pcapng file instead of the network; `-` is standard input
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Address to listen on, with a port if wanted: 192.0.2.1, 192.0.2.1:6343, [2001:db8::1]:6343 [default: all, port 6343]
    #[arg(short = 'b', long, value_name = "ADDR[:PORT]", value_parser = parse_listen, conflicts_with = "file")]
    pub listen: Option<Listen>,

    /// With FILE: only datagrams that were sent to this port [default: any]
    #[arg(short = 'p', long, value_name = "PORT", requires = "file")]
    pub port: Option<u16>,

    /// What to make
    #[arg(short = 'f', long, value_enum)]
    pub format: Format,

    /// A collector to send to; may be given many times [default port: 2055, for IPFIX 4739]
    #[arg(short = 't', long, value_name = "HOST[:PORT]", value_parser = HostPort::parse)]
    pub to: Vec<HostPort>,

    /// Write the export datagrams to this pcap file; `-` is standard output. A name that ends with .ipfix gets plain IPFIX messages
    #[arg(short = 'w', long, value_name = "FILE")]
    pub write: Option<PathBuf>,

    /// Multiply packets and bytes by the sampling rate
    #[arg(long, value_enum, default_value = "yes")]
    pub scale: YesNo,

    /// Send each agent's flows from its own address. Needs CAP_NET_RAW
    #[arg(long, requires = "to")]
    pub spoof: bool,

    /// Send templates again after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub template_seconds: u64,

    /// Send templates again after so many datagrams of a stream
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub template_datagrams: u32,

    /// Bytes of an export datagram at most
    #[arg(long, value_name = "BYTES", default_value_t = 1400, value_parser = max_bytes)]
    pub max_bytes: usize,

    /// With FILE: export datagrams a second at most [default: 10000]
    #[arg(long, value_name = "N", requires = "file", value_parser = parse_factor)]
    pub rate: Option<f64>,

    /// End after so many sFlow datagrams, or a few more
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Tell every so many seconds what was converted
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub status_every: Option<u64>,

    /// Tell it as JSON, on the output
    #[arg(long)]
    pub json: bool,
}

impl ConvertArgs {
    /// How to convert.
    pub fn settings(&self) -> Settings {
        Settings {
            protocol: match self.format {
                Format::NetFlow5 => Protocol::NetFlow5,
                Format::NetFlow9 => Protocol::NetFlow9,
                Format::Ipfix => Protocol::Ipfix,
            },
            scale: match self.scale {
                YesNo::Yes => Scale::Here,
                YesNo::No => Scale::AtCollector,
            },
            max_bytes: self.max_bytes,
            refresh_ms: self.template_seconds * 1000,
            refresh_datagrams: self.template_datagrams,
        }
    }

    /// The port of receivers that were named without one.
    pub fn default_port(&self) -> u16 {
        match self.format {
            Format::Ipfix => IPFIX_PORT,
            _ => NETFLOW_PORT,
        }
    }
}

fn max_bytes(text: &str) -> Result<usize, String> {
    let possible = ExportSettings::MIN_BYTES..=65_000;
    let number = text.parse().ok().filter(|n| possible.contains(n));
    number.ok_or_else(|| {
        format!(
            "'{text}' is not a number from {} to {}",
            possible.start(),
            possible.end()
        )
    })
}
