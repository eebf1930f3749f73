//! Access lists: VPP's acl-plugin commands.

use std::fmt::Write;
use std::net::IpAddr;

use parshall_acl::{Action, Rule};
use parshall_command::{Args, CommandSpec};
use serde::Serialize;

use super::{Context, Handler, Output, command};
use crate::error::{Error, Result};
use crate::router::{Acl, Router};

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    CommandSpec {
        pattern: "set acl-plugin acl <rules:rest>",
        help: "Make an access list, or give it other rules",
        detail: "[index N] RULE, RULE ... [tag WORD], where a RULE is permit|deny [ip4|ip6] [src PREFIX] \
                 [dst PREFIX] [proto NUMBER|tcp|udp|icmp|icmp6|sctp] [sport A[-B]] [dport A[-B]] \
                 [tcpflags VALUE mask MASK]. Ports are types and codes for ICMP. The first rule that matches \
                 decides, what matches none is dropped. Without an index the lowest free number is taken. \
                 A list that is in use is replaced at once and whole.",
        params: &[("rules", "Rules, separated by commas")],
        handler: set,
    },
    CommandSpec {
        pattern: "set acl-plugin interface <if:interface> <way:{input|output}> acl <index:u32> [del]",
        help: "Put an access list on an interface, behind those it has, or take it off",
        detail: "Frames that are not IP pass. On an interface that routes, input lists see unicast packets.",
        params: &[("index", "Number of the list")],
        handler: on_interface,
    },
    CommandSpec {
        pattern: "set acl-plugin interface <if:interface> <way:{input|output}> acls <lists:word>",
        help: "Give an interface these access lists in place of those it has",
        detail: "Numbers with commas between, in the order in which they are asked; or `none`.",
        params: &[("lists", "As in `3,1`")],
        handler: all_on_interface,
    },
    CommandSpec {
        pattern: "set acl-plugin l4-match-nonfirst-fragment <on:u32 0..=1>",
        help: "Match fragments beyond the first by addresses and protocol (1, as it starts), or by rules for any protocol only (0)",
        detail: "",
        params: &[("on", "0 or 1")],
        handler: |r, a, _| {
            r.set_acl_later_fragments(a.need::<u32>("on")? == 1)?;
            Ok(Output::Done)
        },
    },
    CommandSpec {
        pattern: "delete acl-plugin acl index <index:u32>",
        help: "Delete an access list that no interface has",
        detail: "",
        params: &[("index", "Number of the list")],
        handler: |r, a, _| {
            r.acl_del(a.need("index")?)?;
            Ok(Output::Done)
        },
    },
    CommandSpec {
        pattern: "show acl-plugin acl [index <index:u32>]",
        help: "Show access lists, what each rule has decided, and where they hold",
        detail: "Counters of a list start when it gets its rules.",
        params: &[("index", "Number of the list")],
        handler: show,
    },
    command(
        "show acl-plugin tables",
        "The same as `show acl-plugin acl`: where VPP's users look for what lists were compiled to",
        show,
    ),
    CommandSpec {
        pattern: "show acl-plugin sessions [verbose <level:u32>]",
        help: "Say that there are no sessions",
        detail: "Rules here have no memory: there is no permit+reflect.",
        params: &[("level", "How much VPP would show")],
        handler: |_, _, _| {
            Ok(Output::Text(
                "no sessions: rules have no memory here\n".into(),
            ))
        },
    },
    command(
        "show classify tables [verbose]",
        "Say that there are no classify tables",
        |_, _, _| {
            let text = "no classify tables: access lists have classifiers of their own (show acl-plugin acl)\n";
            Ok(Output::Text(text.into()))
        },
    ),
    command(
        "show acl-plugin interface [sw_if_index <sw_if_index:u32> | <if:interface>]",
        "Show the access lists of interfaces, and what matched no rule",
        show_interfaces,
    ),
];

/// Protocol of ICMPv6.
const ICMP6: u8 = 58;

/// What a line that sets a list says.
#[derive(Debug, PartialEq)]
struct Wanted {
    index: Option<u32>,
    tag: String,
    rules: Vec<Rule>,
}

/// A rule of which not everything was said yet.
#[derive(Default)]
struct Draft {
    action: Option<Action>,
    ip6: Option<bool>,
    src: Option<(IpAddr, u8)>,
    dst: Option<(IpAddr, u8)>,
    proto: u8,
    sport: Option<(u16, u16)>,
    dport: Option<(u16, u16)>,
    flags: (u8, u8),
}

impl Draft {
    fn finish(self) -> Result<Rule> {
        let Some(action) = self.action else {
            return Err(Error::refused("a rule begins with permit or deny"));
        };
        let told = self.ip6;
        let mut named = [self.src, self.dst].into_iter().flatten();
        if let Some((addr, len)) = named
            .clone()
            .find(|p| told.is_some_and(|t| t != p.0.is_ipv6()))
        {
            return Err(Error::refused(format!(
                "{addr}/{len} is not of the family the rule names"
            )));
        }
        let ip6 = told.or_else(|| named.next().map(|p| p.0.is_ipv6()));
        // ICMPv6 is of IPv6, whether that is said or not.
        let ip6 = ip6.or_else(|| (self.proto == ICMP6).then_some(true));
        let any = Rule::any(action, ip6.unwrap_or(false));
        let rule = Rule {
            src: self.src.unwrap_or(any.src),
            dst: self.dst.unwrap_or(any.dst),
            proto: self.proto,
            sport: self.sport.unwrap_or(any.sport),
            dport: self.dport.unwrap_or(any.dport),
            tcp_value: self.flags.0,
            tcp_mask: self.flags.1,
            ..any
        };
        rule.check()?;
        Ok(rule)
    }
}

/// Words of a line of rules; a comma is one by itself.
fn words(text: &str) -> Vec<&str> {
    let split = text.split_whitespace().flat_map(|w| w.split_inclusive(','));
    let apart = split.flat_map(|w| match w.strip_suffix(',') {
        Some(before) => vec![before, ","],
        None => vec![w],
    });
    apart.filter(|w| !w.is_empty()).collect()
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn small(what: &str, text: &str) -> Result<u8> {
    let n = number(text).and_then(|n| u8::try_from(n).ok());
    n.ok_or_else(|| Error::refused(format!("{what} {text} is not 0 to 255")))
}

fn protocol(text: &str) -> Result<u8> {
    Ok(match text {
        "tcp" => 6,
        "udp" => 17,
        "icmp" => 1,
        "icmp6" => ICMP6,
        "sctp" => 132,
        _ => small("proto", text)?,
    })
}

fn ports(text: &str) -> Result<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |t: &str| number(t).and_then(|n| u16::try_from(n).ok());
    match (port(first), port(last)) {
        (Some(a), Some(b)) => Ok((a, b)),
        _ => Err(Error::refused(format!(
            "{text} is not a port from 0 to 65535, nor two with a dash between"
        ))),
    }
}

fn prefix(text: &str) -> Result<(IpAddr, u8)> {
    let bad = || Error::refused(format!("{text} is not a prefix such as 192.0.2.0/24"));
    let (addr, len) = match text.split_once('/') {
        Some((addr, len)) => (addr, Some(len.parse().map_err(|_| bad())?)),
        None => (text, None),
    };
    let addr: IpAddr = addr.parse().map_err(|_| bad())?;
    let most = if addr.is_ipv6() { 128 } else { 32 };
    match len.unwrap_or(most) {
        len if len <= most => Ok((addr, len)),
        _ => Err(bad()),
    }
}

fn read(text: &str) -> Result<Wanted> {
    let all = words(text);
    let mut left = all.iter().copied();
    let mut wanted = Wanted {
        index: None,
        tag: "cli".into(),
        rules: Vec::new(),
    };
    let mut draft = Draft::default();
    while let Some(word) = left.next() {
        let mut value = || {
            left.next()
                .ok_or_else(|| Error::refused(format!("{word} of what? The line ends there")))
        };
        match word {
            "permit" => draft.action = Some(Action::Permit),
            "deny" => draft.action = Some(Action::Deny),
            "permit+reflect" => draft.action = Some(Action::PermitReflect),
            "ip4" | "ipv4" => draft.ip6 = Some(false),
            "ip6" | "ipv6" => draft.ip6 = Some(true),
            "src" => draft.src = Some(prefix(value()?)?),
            "dst" => draft.dst = Some(prefix(value()?)?),
            "proto" => draft.proto = protocol(value()?)?,
            "sport" => draft.sport = Some(ports(value()?)?),
            "dport" => draft.dport = Some(ports(value()?)?),
            "tcpflags" => {
                let flags = small(word, value()?)?;
                let next = value()?;
                let mask = if next == "mask" { value()? } else { next };
                draft.flags = (flags, small("mask", mask)?);
            }
            "tag" => wanted.tag = value()?.to_owned(),
            "index" => {
                let text = value()?;
                let n = number(text);
                wanted.index =
                    Some(n.ok_or_else(|| Error::refused(format!("index {text} is not a number")))?);
            }
            "," => wanted.rules.push(std::mem::take(&mut draft).finish()?),
            _ => {
                return Err(Error::refused(format!(
                    "{word} is not part of a rule: [index N] permit|deny [ip4|ip6] src PREFIX dst PREFIX proto N \
                     sport A-B dport A-B tcpflags V mask M, ... tag WORD"
                )));
            }
        }
    }
    wanted.rules.push(draft.finish()?);
    Ok(wanted)
}

fn set(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let wanted = read(args.need::<&str>("rules")?)?;
    let index = match wanted.index {
        Some(index) => r.acl_set(index, &wanted.tag, wanted.rules)?,
        None => r.acl_add_replace(None, &wanted.tag, wanted.rules)?,
    };
    Ok(Output::Text(format!("ACL index:{index}")))
}

fn on_interface(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let interface = r.interfaces.find_real(args.need("if")?)?;
    let out = args.get::<&str>("way") == Some("output");
    r.acl_interface_add_del(interface, out, args.need("index")?, !args.has("del"))?;
    Ok(Output::Done)
}

fn all_on_interface(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let interface = r.interfaces.find_real(args.need("if")?)?;
    let text = args.need::<&str>("lists")?;
    let number_of = |t: &str| {
        number(t).ok_or_else(|| Error::refused(format!("{t} is no number of an access list")))
    };
    let lists = match text {
        "none" => Vec::new(),
        _ => text.split(',').map(number_of).collect::<Result<_>>()?,
    };
    let now = r.acl_interfaces().find(|(n, _)| *n == interface);
    let (input, output) = now.map_or_else(Default::default, |(_, on)| {
        (on.input.clone(), on.output.clone())
    });
    let (input, output) = match args.get::<&str>("way") {
        Some("output") => (input, lists),
        _ => (lists, output),
    };
    r.acl_interface_set_acl_list(interface, input, output)?;
    Ok(Output::Done)
}

/// A rule in the words of the command that makes it.
pub(crate) fn rule_text(rule: &Rule) -> String {
    let mut out = format!(
        "{} src {}/{} dst {}/{}",
        action_word(rule.action),
        rule.src.0,
        rule.src.1,
        rule.dst.0,
        rule.dst.1
    );
    let range = |(first, last): (u16, u16)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        " proto {} sport {} dport {}",
        rule.proto,
        range(rule.sport),
        range(rule.dport)
    );
    if rule.tcp_mask != 0 {
        let _ = write!(out, " tcpflags {} mask {}", rule.tcp_value, rule.tcp_mask);
    }
    out
}

fn action_word(action: Action) -> &'static str {
    match action {
        Action::Deny => "deny",
        Action::Permit => "permit",
        Action::PermitReflect => "permit+reflect",
    }
}

#[derive(Serialize)]
struct ShownRule {
    action: &'static str,
    family: &'static str,
    src: String,
    dst: String,
    proto: u8,
    sport: [u16; 2],
    dport: [u16; 2],
    tcp_mask: u8,
    tcp_value: u8,
    packets: u64,
    bytes: u64,
    #[serde(skip)]
    text: String,
}

#[derive(Serialize)]
struct Shown {
    index: u32,
    tag: String,
    rules: Vec<ShownRule>,
    input_of: Vec<String>,
    output_of: Vec<String>,
}

fn shown_rule(acl: &Acl, i: usize, rule: &Rule) -> ShownRule {
    let (packets, bytes) = acl.hits(i);
    ShownRule {
        action: action_word(rule.action),
        family: if rule.is_ip6() { "ipv6" } else { "ipv4" },
        src: format!("{}/{}", rule.src.0, rule.src.1),
        dst: format!("{}/{}", rule.dst.0, rule.dst.1),
        proto: rule.proto,
        sport: [rule.sport.0, rule.sport.1],
        dport: [rule.dport.0, rule.dport.1],
        tcp_mask: rule.tcp_mask,
        tcp_value: rule.tcp_value,
        packets,
        bytes,
        text: rule_text(rule),
    }
}

fn shown(r: &Router, index: u32, acl: &Acl) -> Shown {
    let users = |out: bool| {
        let has = |(n, on): (u32, &crate::router::InterfaceAcls)| {
            let list = if out { &on.output } else { &on.input };
            list.contains(&index).then(|| r.interfaces.name(n))
        };
        r.acl_interfaces().filter_map(has).collect()
    };
    let rules = acl.rules().iter().enumerate();
    Shown {
        index,
        tag: acl.tag().to_owned(),
        rules: rules.map(|(i, rule)| shown_rule(acl, i, rule)).collect(),
        input_of: users(false),
        output_of: users(true),
    }
}

fn show(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let lists: Vec<Shown> = match args.get::<u32>("index") {
        Some(index) => vec![shown(r, index, r.acl(index)?)],
        None => r.acls().map(|(n, acl)| shown(r, n, acl)).collect(),
    };
    cx.show(&lists, |l| {
        l.iter().map(print).collect::<Vec<_>>().join("\n")
    })
}

fn print(acl: &Shown) -> String {
    let mut out = format!(
        "acl-index {} count {} tag {{{}}}",
        acl.index,
        acl.rules.len(),
        acl.tag
    );
    for (i, rule) in acl.rules.iter().enumerate() {
        let _ = write!(
            out,
            "\n{i:>9}: {} {} packets {} bytes {}",
            rule.family, rule.text, rule.packets, rule.bytes
        );
    }
    for (way, on) in [("inbound", &acl.input_of), ("outbound", &acl.output_of)] {
        if !on.is_empty() {
            let _ = write!(out, "\n  applied {way} on: {}", on.join(", "));
        }
    }
    out
}

#[derive(Serialize)]
struct ShownInterface {
    interface: String,
    index: u32,
    input: Vec<u32>,
    output: Vec<u32>,
    /// Packets that matched no rule and were dropped.
    input_unmatched: u64,
    output_unmatched: u64,
}

fn show_interfaces(r: &mut Router, args: &Args, cx: &Context) -> Result<Output> {
    let only = match args.get::<&str>("if") {
        Some(name) => Some(r.interfaces.find(name)?),
        None => args.get::<u32>("sw_if_index"),
    };
    let all = r
        .acl_interfaces()
        .filter(|(n, _)| only.is_none_or(|o| o == *n));
    let shown: Vec<ShownInterface> = all
        .map(|(n, on)| ShownInterface {
            interface: r.interfaces.name(n),
            index: n,
            input: on.input.clone(),
            output: on.output.clone(),
            input_unmatched: on.unmatched(false).0,
            output_unmatched: on.unmatched(true).0,
        })
        .collect();
    cx.show(&shown, |all| {
        all.iter()
            .map(print_interface)
            .collect::<Vec<_>>()
            .join("\n")
    })
}

fn print_interface(i: &ShownInterface) -> String {
    let mut out = format!("{} (sw_if_index {}):", i.interface, i.index);
    let ways = [
        ("input", &i.input, i.input_unmatched),
        ("output", &i.output, i.output_unmatched),
    ];
    for (way, lists, unmatched) in ways {
        if !lists.is_empty() {
            let numbers: Vec<String> = lists.iter().map(u32::to_string).collect();
            let _ = write!(
                out,
                "\n  {way} acl(s): {}; unmatched and dropped: {unmatched}",
                numbers.join(", ")
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_vpp_reads_them() {
        let line = "index 3 permit src 10.0.0.0/8 dst 192.0.2.1/32 proto 6 sport 1024-65535 dport 80 \
                    tcpflags 0x02 mask 0x12, deny ip6 proto udp,permit tag web";
        let wanted = read(line).unwrap();
        assert_eq!((wanted.index, wanted.tag.as_str()), (Some(3), "web"));
        let texts: Vec<String> = wanted.rules.iter().map(rule_text).collect();
        assert_eq!(
            texts,
            [
                "permit src 10.0.0.0/8 dst 192.0.2.1/32 proto 6 sport 1024-65535 dport 80 tcpflags 2 mask 18",
                "deny src ::/0 dst ::/0 proto 17 sport 0-65535 dport 0-65535",
                "permit src 0.0.0.0/0 dst 0.0.0.0/0 proto 0 sport 0-65535 dport 0-65535",
            ]
        );
        let again = read(&format!("index 3 {} tag web", texts.join(", "))).unwrap();
        assert_eq!(again, wanted, "what is shown can be said");
        let six = read("deny dst 2001:db8::/32").unwrap();
        assert!(six.rules[0].is_ip6());
        assert!(read("permit proto icmp6").unwrap().rules[0].is_ip6());
    }

    #[test]
    fn what_is_no_rule_is_refused_with_the_reason() {
        let why = |line: &str| read(line).unwrap_err().to_string();
        assert!(why("permit+reflect src 10.0.0.0/8").contains("table of sessions"));
        assert!(why("src 10.0.0.0/8").contains("begins with permit or deny"));
        assert!(why("permit src 10.0.0.0/33").contains("10.0.0.0/33 is not a prefix"));
        assert!(why("permit sport 9-8").contains("the first is above the last"));
        assert!(why("permit src 10.0.0.0/8 dst ::/0").contains("different families"));
        assert!(why("permit ip6 src 10.0.0.0/8").contains("not of the family"));
        assert!(why("permit dport").contains("The line ends there"));
        assert!(why("permit proto 256").contains("0 to 255"));
        assert!(why("permit frob").contains("frob is not part of a rule"));
        assert!(why("permit,").contains("begins with permit or deny"));
    }
}
