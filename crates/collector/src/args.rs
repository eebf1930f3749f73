//! The options of `parshall sflow decode`: sflowtool's letters where it has the option.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Args};
use parshall_sflow_wire::print::{Format, RecordFilter, Selection};
use parshall_sflow_wire::types::Tag;

/// The port that IANA assigned to sFlow.
pub const SFLOW_PORT: u16 = 6343;

const EXAMPLES: &str = "\
Examples:
  parshall sflow decode
        Listen on UDP port 6343, IPv4 and IPv6, and print each datagram as text.
  parshall sflow decode -r capture.pcap -l
        A CSV line per flow and counter sample of a capture.
  parshall sflow decode -j --record counter | jq -r '.samples[].elements[].ifName // empty'
        Names of the interfaces that report counters.
  tcpdump -w - udp port 6343 | parshall sflow decode -r - -L agent,srcIP,dstIP,sampledPacketSize
        Chosen fields of what tcpdump sees.
  parshall sflow decode --agent 192.0.2.0/24 --record 0:1041 -g
        Only hardware traps of some agents, with context on each line for grep.
  parshall sflow decode --listen 192.0.2.1:6343 --sockets 4 --csv > samples.csv
        Four threads for many agents; on Ctrl-C it says what was received and what was lost.
  parshall sflow decode --quiet --status-every 10
        No output but the counts, as a line of JSON every ten seconds.
  parshall sflow decode --packets | tcpdump -nr -
        The sampled packets as tcpdump shows them.

Formats:
  The default, -g, -l and -L print what sflowtool 6.11 prints, byte for byte. -j and -J write valid JSON with
  numbers as numbers and go on after a record that is broken; with --compat they too print what sflowtool prints.

CSV columns (-l):
  FLOW,agent,input,output,srcMAC,dstMAC,type,inVLAN,outVLAN,srcIP,dstIP,protocol,TOS,TTL,srcPort,dstPort,
  TCPflags,packetSize,IPsize,samplingRate
  CNTR,agent, then the 19 generic interface counters";

/// Options of `parshall sflow decode`.
#[derive(Debug, Clone, Args)]
#[command(
    about = "Decode sFlow datagrams from the network or from capture files",
    after_help = EXAMPLES,
    group = ArgGroup::new("format").args(["csv", "json", "json_indented", "fields", "grep", "packets", "quiet"]),
    group = ArgGroup::new("json_format").args(["json", "json_indented"]).multiple(true)
)]
pub struct DecodeArgs {
    /// Read a pcap or pcapng file instead of the network; `-` is standard input. May be given several times
    #[arg(short = 'r', long = "read", value_name = "FILE")]
    pub read: Vec<PathBuf>,

    /// UDP port to listen on [default: 6343]. With -r: only datagrams sent to this port [default: any]
    #[arg(short = 'p', long, value_name = "PORT")]
    pub port: Option<u16>,

    /// Address to listen on, with a port if wanted: 192.0.2.1, 192.0.2.1:6343, [2001:db8::1]:6343 [default: all]
    #[arg(short = 'b', long, value_name = "ADDR[:PORT]", value_parser = parse_listen, conflicts_with = "read")]
    pub listen: Option<Listen>,

    /// Sockets that share the port, each read by a thread of its own: as many as there are CPUs to spare. The datagrams
    /// of one sender always come to the same one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64), conflicts_with = "read")]
    pub sockets: u16,

    /// Listen on IPv4 only
    #[arg(short = '4', long, conflicts_with_all = ["ipv6", "read"])]
    pub ipv4: bool,

    /// Listen on IPv6 only
    #[arg(short = '6', long, conflicts_with = "read")]
    pub ipv6: bool,

    /// A CSV line per sample
    #[arg(short = 'l', long)]
    pub csv: bool,

    /// JSON, a datagram per line
    #[arg(short = 'j', long)]
    pub json: bool,

    /// JSON, indented
    #[arg(short = 'J', long)]
    pub json_indented: bool,

    /// JSON byte for byte as sflowtool has it: every value a string
    #[arg(long, requires = "json_format")]
    pub compat: bool,

    /// These keys as CSV columns, a line per sample that has any of them, for instance srcIP,dstIP
    #[arg(short = 'L', long, value_name = "KEYS")]
    pub fields: Option<String>,

    /// Text with time, agent, sub-agent, sequence, source and tags in front of each line
    #[arg(short = 'g', long)]
    pub grep: bool,

    /// The sampled packets as a pcap file, for tcpdump and Wireshark
    #[arg(short = 't', long)]
    pub packets: bool,

    /// Print no datagram: only count
    #[arg(short = 'q', long)]
    pub quiet: bool,

    /// Say at the end on the error output, as one line of JSON, what was received and lost, by agent
    #[arg(long)]
    pub status: bool,

    /// The same every so many seconds as well
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400), conflicts_with = "read")]
    pub status_every: Option<u64>,

    /// Only datagrams of this agent, or of agents in this prefix
    #[arg(long, value_name = "ADDR[/LEN]", value_parser = parse_prefix)]
    pub agent: Option<(IpAddr, u8)>,

    /// Only flow, counter or discard samples, or records and samples of the tag ENTERPRISE:FORMAT; may list several
    #[arg(long, value_name = "flow|counter|discard|E:F", value_delimiter = ',', value_parser = parse_record)]
    pub record: Vec<RecordFilter>,

    /// End after so many datagrams were printed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Keep going after errors of the input: the next file, the next datagram
    #[arg(short = 'k', long)]
    pub keep_going: bool,
}

impl DecodeArgs {
    /// The form of output that the options ask for.
    pub fn format(&self) -> Format {
        match &self.fields {
            Some(list) => Format::Fields(list.clone()),
            None if self.csv => Format::Csv,
            None if self.grep => Format::Grep,
            None if self.packets => Format::Packets,
            None if self.quiet => Format::Nothing,
            None if self.json || self.json_indented => {
                let indented = self.json_indented;
                if self.compat {
                    Format::CompatJson { indented }
                } else {
                    Format::Json { indented }
                }
            }
            None => Format::Text,
        }
    }

    /// The port to listen on.
    pub fn listen_port(&self) -> u16 {
        let own = self.listen.and_then(|l| l.port);
        own.or(self.port).unwrap_or(SFLOW_PORT)
    }

    /// The address to listen on, if not all.
    pub fn listen_ip(&self) -> Option<IpAddr> {
        self.listen.map(|l| l.ip)
    }

    /// The port that captured datagrams must be sent to, if not any.
    pub fn wanted_port(&self) -> Option<u16> {
        self.port
    }

    /// Whether the status is wanted as JSON.
    pub fn wants_status(&self) -> bool {
        self.status || self.status_every.is_some()
    }

    /// What is to be shown.
    pub fn selection(&self) -> Selection {
        Selection {
            agent: self.agent,
            records: self.record.clone(),
        }
    }
}

/// An address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// The address.
    pub ip: IpAddr,
    /// The port, if it was given here.
    pub port: Option<u16>,
}

pub(crate) fn parse_listen(text: &str) -> Result<Listen, String> {
    if let Ok(at) = text.parse::<SocketAddr>() {
        return Ok(Listen {
            ip: at.ip(),
            port: Some(at.port()),
        });
    }
    text.parse().map(|ip| Listen { ip, port: None }).map_err(|_| {
        format!("'{text}' is not an address such as 192.0.2.1, 192.0.2.1:6343, 2001:db8::1 or [2001:db8::1]:6343")
    })
}

pub(crate) fn parse_prefix(text: &str) -> Result<(IpAddr, u8), String> {
    let (addr, len) = match text.split_once('/') {
        Some((a, l)) => (a, Some(l)),
        None => (text, None),
    };
    let addr =
        IpAddr::from_str(addr).map_err(|_| format!("'{addr}' is not an IPv4 or IPv6 address"))?;
    let most = if addr.is_ipv4() { 32 } else { 128 };
    let len = match len {
        None => most,
        Some(l) => l.parse().ok().filter(|n| *n <= most).ok_or(format!(
            "the prefix length '{l}' is not a number from 0 to {most}"
        ))?,
    };
    Ok((addr, len))
}

fn parse_record(text: &str) -> Result<RecordFilter, String> {
    let wrong = || {
        format!(
            "'{text}' is not flow, counter, discard or ENTERPRISE:FORMAT such as 0:1002 (enterprise 0 to 1048575, format 0 to 4095)"
        )
    };
    match text {
        "flow" => return Ok(RecordFilter::Flow),
        "counter" => return Ok(RecordFilter::Counter),
        "discard" => return Ok(RecordFilter::Discard),
        _ => {}
    }
    let (enterprise, format) = text.split_once(':').ok_or_else(wrong)?;
    match (enterprise.parse::<u32>(), format.parse::<u32>()) {
        (Ok(e @ 0..=0xF_FFFF), Ok(f @ 0..=0xFFF)) => Ok(RecordFilter::Tag(Tag::new(e, f))),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: DecodeArgs,
    }

    fn parse(line: &str) -> Result<DecodeArgs, String> {
        Command::try_parse_from(format!("decode {line}").split_whitespace())
            .map(|c| c.args)
            .map_err(|e| e.to_string())
    }

    #[test]
    fn formats() {
        assert_eq!(parse("").unwrap().format(), Format::Text);
        assert_eq!(parse("-l -r a").unwrap().format(), Format::Csv);
        assert_eq!(parse("-g").unwrap().format(), Format::Grep);
        assert_eq!(
            parse("-j").unwrap().format(),
            Format::Json { indented: false }
        );
        assert_eq!(
            parse("-J --compat").unwrap().format(),
            Format::CompatJson { indented: true }
        );
        assert_eq!(
            parse("-L a,b").unwrap().format(),
            Format::Fields("a,b".to_owned())
        );
        assert_eq!(parse("-t").unwrap().format(), Format::Packets);
        assert_eq!(parse("-q --status").unwrap().format(), Format::Nothing);
        assert!(parse("-l -j").unwrap_err().contains("cannot be used with"));
        assert!(parse("--compat").is_err());
    }

    #[test]
    fn selections() {
        let args = parse("--agent 2001:db8::/32 --record flow,0:1002 --record 4300:1002").unwrap();
        let s = args.selection();
        assert_eq!(s.agent, Some(("2001:db8::".parse().unwrap(), 32)));
        assert_eq!(s.records.len(), 3);
        assert_eq!(
            parse("--agent 192.0.2.1").unwrap().agent,
            Some(("192.0.2.1".parse().unwrap(), 32))
        );
    }

    #[test]
    fn addresses_to_listen_on() {
        let at = |line: &str| {
            let a = parse(line).unwrap();
            (a.listen_ip().map(|ip| ip.to_string()), a.listen_port())
        };
        let ip = |s: &str| Some(s.to_owned());
        assert_eq!(at(""), (None, 6343));
        assert_eq!(at("-p 7"), (None, 7));
        assert_eq!(at("--listen 192.0.2.1"), (ip("192.0.2.1"), 6343));
        assert_eq!(at("--listen 192.0.2.1:9 --sockets 2"), (ip("192.0.2.1"), 9));
        assert_eq!(at("--listen 2001:db8::1 -p 7"), (ip("2001:db8::1"), 7));
        assert_eq!(at("-b [2001:db8::1]:9"), (ip("2001:db8::1"), 9));
        assert!(
            parse("--listen host:1")
                .unwrap_err()
                .contains("192.0.2.1:6343")
        );
        assert!(parse("--sockets 0").is_err() && parse("--sockets 2 -r x").is_err());
    }

    #[test]
    fn wrong_values_say_what_is_allowed() {
        assert!(
            parse("--agent 192.0.2.1/33")
                .unwrap_err()
                .contains("0 to 32")
        );
        assert!(
            parse("--agent host")
                .unwrap_err()
                .contains("not an IPv4 or IPv6 address")
        );
        assert!(
            parse("--record 0:4096")
                .unwrap_err()
                .contains("format 0 to 4095")
        );
        assert!(parse("--count 0").is_err());
        assert!(parse("-4 -6").is_err());
        assert!(parse("-r x --listen ::1").is_err());
    }
}
