//! The commands that set a case up on VPP.
//!
//! `pg0` receives, `pg1` is the sink, as in our own rig: the same frames, prefixes and neighbours.

use std::fmt::Write;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use parshall_wire::MacAddr;

use super::cli::Cli;
use parshall_acl::Action;

use crate::cases::{
    ACL_RULES, Case, FAR_END, LABEL_IN, LABEL_OUT, NEAR_END, Neighbours, Routes, Traffic, VNI,
    Work, acl_rule,
};
use crate::rig::neighbour_mac;
use crate::{BenchError, SflowRate, internet};

/// Sets a case up; the stream `bench` is there afterwards, not yet enabled. Files go into `folder`.
///
/// # Errors
/// When a file cannot be written, or VPP refuses a command.
pub fn apply(cli: &mut Cli, case: &Case, folder: &Path) -> Result<(), BenchError> {
    let fail = |e| BenchError::of("files for VPP", e);
    for command in interfaces(case.work) {
        cli.run(&command)?;
    }
    let routes = (case.routes)()?;
    for command in neighbours(&routes) {
        cli.run(&command)?;
    }
    let file = folder.join("routes");
    let text = match case.work {
        Work::Bridge => stations(&(case.traffic)()?),
        Work::VxlanOut | Work::VxlanIn => tunnel(case.work),
        Work::Acl => self::routes(&routes) + &access_list(),
        _ => self::routes(&routes),
    };
    fs::write(&file, text).map_err(fail)?;
    cli.run(&format!("exec {}", file.display()))?;
    let router = address(&cli.run("show hardware-interfaces pg0")?)?;
    let file = folder.join("bench.pcap");
    fs::write(&file, pcap(&(case.traffic)()?, router)).map_err(fail)?;
    cli.run(&stream(&file))?;
    Ok(())
}

/// The commands that set sampling to a rate.
pub fn sflow(rate: SflowRate) -> Vec<String> {
    match rate {
        SflowRate::Off => Vec::new(),
        SflowRate::OneIn(n) => vec![
            format!("sflow sampling-rate {n}"),
            "sflow enable pg0".into(),
        ],
    }
}

fn interfaces(work: Work) -> Vec<String> {
    let mut commands = Vec::new();
    for (i, pg) in ["pg0", "pg1"].iter().enumerate() {
        commands.push(format!("create packet-generator interface {pg}"));
        commands.push(format!("set interface state {pg} up"));
        match work {
            Work::CrossConnect => {}
            Work::Bridge => commands.push(format!("set interface l2 bridge {pg} 1")),
            // A cross-connected interface has no address.
            Work::VxlanOut if i == 0 => {}
            Work::VxlanIn if i == 1 => {}
            Work::Ip4 | Work::Mpls | Work::Acl | Work::VxlanOut | Work::VxlanIn => {
                commands.push(format!("set interface ip address {pg} 192.168.{i}.1/24"));
            }
            Work::Ip6 => commands.push(format!("set interface ip address {pg} fd0{i}::1/64")),
        }
    }
    commands
}

fn neighbours(routes: &Routes) -> Vec<String> {
    let n = match routes {
        Routes::None => 0,
        Routes::Ip4(_, Neighbours::Many) | Routes::Ip6(_, Neighbours::Many) => internet::NEXT_HOPS,
        _ => 1,
    };
    let address = |i| match routes {
        Routes::Ip6(..) => gateway6(i).to_string(),
        _ => gateway4(i).to_string(),
    };
    let one = |i| {
        format!(
            "set ip neighbor pg1 {} {}",
            address(i),
            MacAddr(neighbour_mac(i))
        )
    };
    (0..n).map(one).collect()
}

/// The stations behind `pg1`; those behind `pg0` are learned.
fn stations(traffic: &Traffic) -> String {
    let Traffic::Stations(pairs) = traffic else {
        return String::new();
    };
    let line = |p: &([u8; 6], [u8; 6])| format!("l2fib add {} 1 pg1\n", MacAddr(p.1));
    pairs.iter().map(line).collect()
}

/// The command file of the routes.
fn routes(routes: &Routes) -> String {
    let mut text = String::new();
    let number = |neighbours: &Neighbours, hop: u32| match neighbours {
        Neighbours::One => 0,
        Neighbours::Many => hop,
    };
    // Writing to a string cannot fail.
    match routes {
        Routes::None => {
            text += "set interface l2 xconnect pg0 pg1\nset interface l2 xconnect pg1 pg0\n";
        }
        Routes::Ip4(prefixes, neighbours) => {
            for p in prefixes {
                let via = gateway4(number(neighbours, internet::next_hop(*p)));
                let _ = writeln!(text, "ip route add {p} via {via} pg1");
            }
        }
        Routes::Ip6(prefixes, neighbours) => {
            for p in prefixes {
                let via = gateway6(number(neighbours, internet::next_hop(*p)));
                let _ = writeln!(text, "ip route add {p} via {via} pg1");
            }
        }
        Routes::Swap => {
            let via = gateway4(0);
            text +=
                "mpls table add 0\nset interface mpls pg0 enable\nset interface mpls pg1 enable\n";
            let _ = writeln!(
                text,
                "mpls local-label add eos {LABEL_IN} via {via} pg1 out-labels {LABEL_OUT}"
            );
        }
    }
    text
}

/// The tunnel, and what is cross-connected with it. The bypass is what VPP's own benches use for what comes in.
fn tunnel(work: Work) -> String {
    let (pg, local, remote, bypass) = match work {
        Work::VxlanIn => (
            "pg1",
            NEAR_END,
            FAR_END,
            "set interface ip vxlan-bypass pg0\n",
        ),
        _ => ("pg0", Ipv4Addr::new(192, 168, 1, 1), gateway4(0), ""),
    };
    format!(
        "create vxlan tunnel src {local} dst {remote} vni {VNI}\n\
         set interface l2 xconnect {pg} vxlan_tunnel0\n\
         set interface l2 xconnect vxlan_tunnel0 {pg}\n{bypass}"
    )
}

fn access_list() -> String {
    let rule = |i| {
        let r = acl_rule(i);
        let action = match r.action {
            Action::Permit => "permit",
            _ => "deny",
        };
        let ((src, s), (dst, d)) = (r.src, r.dst);
        let (sport, dport) = (r.sport, r.dport);
        format!(
            "{action} src {src}/{s} dst {dst}/{d} proto {} sport {}-{} dport {}-{}",
            r.proto, sport.0, sport.1, dport.0, dport.1
        )
    };
    let rules: Vec<_> = (0..ACL_RULES).map(rule).collect();
    format!(
        "set acl-plugin acl {}\nset acl-plugin interface pg0 input acl 0\n",
        rules.join(", ")
    )
}

fn gateway4(i: u32) -> Ipv4Addr {
    (0xC0A8_0102 + i).into()
}

fn gateway6(i: u32) -> Ipv6Addr {
    Ipv6Addr::from((0xfd01_u128 << 112) + 2 + u128::from(i))
}

/// The stream goes on for ever: a pcap's own limit would be one replay.
fn stream(pcap: &Path) -> String {
    let limit = 1_000_000_000_000u64;
    format!(
        "packet-generator new {{ name bench limit {limit} interface pg0 node ethernet-input pcap {} }}",
        pcap.display()
    )
}

/// The address in `show hardware-interfaces`.
fn address(text: &str) -> Result<MacAddr, BenchError> {
    let word = text.split_once("Ethernet address ").map(|(_, rest)| rest);
    let word = word.and_then(|rest| rest.split_whitespace().next());
    let address = word.and_then(|w| w.parse().ok());
    address.ok_or_else(|| BenchError(format!("VPP does not say the address of pg0: {text}")))
}

/// A capture file (microseconds, Ethernet) of every frame once.
fn pcap(traffic: &Traffic, router: MacAddr) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xA1B2_C3D4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for i in 0..traffic.len() {
        let frame = traffic.frame(i, router);
        let len = frame.len() as u32;
        for word in [0, i as u32, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}
