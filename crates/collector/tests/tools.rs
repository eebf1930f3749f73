//! `forward`, `replay` and `record` over the loopback: what comes in goes out, byte for byte, whoever else is dead or slow.

mod support;

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use parshall_collector::common::ToolError;
use parshall_collector::{ForwardArgs, RecordArgs, ReplayArgs, forward, record, replay};
use parshall_sflow_wire::{Datagram, Sample};
use serde_json::Value;
use support::{Sent, in_namespace, output, read_capture, receive, traffic, write_capture};

#[derive(Debug, Parser)]
enum Tool {
    Forward(ForwardArgs),
    Replay(ReplayArgs),
    Record(RecordArgs),
}

fn parse(line: &str) -> Result<Tool, String> {
    let words = std::iter::once("tool").chain(line.split_whitespace());
    Tool::try_parse_from(words).map_err(|e| e.to_string())
}

/// Runs a tool to its end; gives what it wrote and what it said.
fn run(
    line: &str,
    stop: &AtomicBool,
    listening: impl FnOnce(SocketAddr),
) -> (Result<(), ToolError>, String, String) {
    let (mut out, mut log) = (Vec::new(), Vec::new());
    let result = match parse(line).unwrap() {
        Tool::Forward(a) => forward::run_with(&a, &mut out, &mut log, stop, listening),
        Tool::Record(a) => record::run_with(&a, &mut out, &mut log, stop, listening),
        Tool::Replay(a) => replay::run_with(&a, &mut out, &mut log, stop),
    };
    let text = |b| String::from_utf8(b).unwrap();
    (result, text(out), text(log))
}

fn ended(line: &str, listening: impl FnOnce(SocketAddr)) -> Value {
    let (result, out, log) = run(
        &format!("{line} --json"),
        &AtomicBool::new(false),
        listening,
    );
    result.unwrap_or_else(|e| panic!("{line}: {e}\n{log}"));
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

fn bytes(sent: &[Sent]) -> Vec<Vec<u8>> {
    sent.iter().map(|s| s.bytes.clone()).collect()
}

fn payloads(received: Vec<(SocketAddr, Vec<u8>)>) -> Vec<Vec<u8>> {
    received.into_iter().map(|r| r.1).collect()
}

fn send_all(sent: &[Sent], to: SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for s in sent {
        socket.send_to(&s.bytes, to).unwrap();
    }
}

#[test]
fn every_collector_gets_everything_whatever_the_others_do() {
    let (sent, _) = traffic(80);
    let (a, b) = (socket(), socket());
    let (dead, deaf) = (socket(), socket());
    let dead_at = dead.local_addr().unwrap();
    drop(dead);
    let at = |s: &UdpSocket| s.local_addr().unwrap();
    let line = format!(
        "forward --listen 127.0.0.1:0 --to {} --to {dead_at} --to {} --to {} --count 80",
        at(&a),
        at(&deaf),
        at(&b)
    );
    let status = ended(&line, |to| send_all(&sent, to));
    assert_eq!(payloads(receive(&a, 80)), bytes(&sent));
    assert_eq!(payloads(receive(&b, 80)), bytes(&sent));
    assert_eq!(status["received"], 80);
    assert_eq!(status["socket_drops"], 0);
    for (i, target) in [at(&a), dead_at, at(&deaf), at(&b)].iter().enumerate() {
        let t = &status["targets"][i];
        assert_eq!(t["target"], target.to_string());
        // Of UDP nobody knows more than that it went out.
        assert_eq!(t["sent"], 80, "{status}");
        assert_eq!(t["refused"].as_u64().unwrap() > 0, i == 1);
    }
}

fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

#[test]
fn filtered_datagrams_are_valid_and_keep_their_numbers() {
    let (sent, _) = traffic(60);
    let to = socket();
    let line = format!(
        "forward --listen 127.0.0.1:0 --to {} --kind flow --agent 192.0.2.0/24 --count 60",
        to.local_addr().unwrap()
    );
    let status = ended(&line, |at| send_all(&sent, at));
    // The third agent has an IPv6 address.
    assert_eq!(status["filtered"], 20);
    assert_eq!(status["rewritten"], 40);
    assert_eq!(status["filtered_samples"], 40);
    let got = payloads(receive(&to, 40));
    let from_four = sent.iter().filter(|s| s.from.is_ipv4());
    for (got, s) in got.iter().zip(from_four) {
        let (d, whole) = (
            Datagram::parse(got).unwrap(),
            Datagram::parse(&s.bytes).unwrap(),
        );
        assert_eq!((d.agent, d.sequence), (whole.agent, whole.sequence));
        assert_eq!(d.sample_count, whole.sample_count - 1);
        assert!(d.samples().all(|s| matches!(s, Ok(Sample::Flow(_)))));
    }
}

#[test]
fn the_collector_sees_the_agents_addresses() {
    in_namespace(|_| {
        for (ip, agents) in [("127.0.0.1", [0, 1]), ("[::1]", [2, 2])] {
            let (sent, _) = traffic(30);
            let of = |s: &&Sent| agents.contains(&(s.from.port() - 50_000));
            let sent: Vec<Sent> = sent.into_iter().filter(|s| of(&s)).collect();
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("x.pcap");
            write_capture(&file, &sent);
            // A replay with the addresses of the capture into a relay that keeps them as well.
            let (collector, relay) = (bind(ip), bind(ip));
            let relay_at = relay.local_addr().unwrap();
            drop(relay);
            let forwarded = format!(
                "forward --listen {relay_at} --to {} --spoof --count {}",
                collector.local_addr().unwrap(),
                sent.len()
            );
            let status = ended(&forwarded, |at| {
                let replayed = format!("replay {} --to {at} --spoof --fast", file.display());
                assert_eq!(ended(&replayed, |_| {})["datagrams"], sent.len());
            });
            assert_eq!(status["targets"][0]["errors"], 0, "{status}");
            let want: Vec<_> = sent.iter().map(|s| (s.from, s.bytes.clone())).collect();
            assert_eq!(receive(&collector, sent.len()), want);
        }
    });
}

fn bind(ip: &str) -> UdpSocket {
    UdpSocket::bind(format!("{ip}:0")).unwrap()
}

#[test]
fn a_target_of_another_family_is_no_reason_to_end() {
    in_namespace(|_| {
        let (sent, _) = traffic(6);
        let collector = bind("[::1]");
        let line = format!(
            "forward --listen 127.0.0.1:0 --to {} --spoof --count 6",
            collector.local_addr().unwrap()
        );
        let status = ended(&line, |at| send_all(&sent, at));
        let target = &status["targets"][0];
        assert_eq!((&target["sent"], &target["errors"]), (&0.into(), &6.into()));
        let why = target["last_error"].as_str().unwrap();
        assert!(why.contains("another family"), "{why}");
    });
}

#[test]
fn a_capture_goes_out_as_it_came_as_often_as_asked_for() {
    let (sent, _) = traffic(30);
    let dir = tempfile::tempdir().unwrap();
    let (pcap, pcapng) = (dir.path().join("x.pcap"), dir.path().join("x.pcapng"));
    write_capture(&pcap, &sent);
    let (from, to) = (pcap.to_str().unwrap(), pcapng.to_str().unwrap());
    output("tshark", &["-r", from, "-F", "pcapng", "-w", to]);
    let collector = socket();
    let at = collector.local_addr().unwrap();
    for (file, options, times) in [
        (&pcap, "--fast", 1),
        (&pcapng, "--speed 100 --port 6343", 1),
        (&pcap, "--rate 20000 --loop 3", 3),
    ] {
        let line = format!("replay {} --to {at} {options}", file.display());
        let status = ended(&line, |_| {});
        assert_eq!(status["datagrams"], 30 * times);
        assert_eq!(status["drift"].is_f64(), options != "--fast");
        assert_eq!(status["targets"][0]["sent"], 30 * times);
        let want = vec![bytes(&sent); times as usize].concat();
        assert_eq!(payloads(receive(&collector, want.len())), want);
    }
    let line = format!(
        "replay {} --to {at} --loop 0 --count 50 --fast",
        pcap.display()
    );
    assert_eq!(ended(&line, |_| {})["datagrams"], 50);
}

#[test]
fn a_replay_ends_when_it_is_asked_to() {
    let (sent, _) = traffic(10);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.pcap");
    write_capture(&file, &sent);
    let collector = socket();
    let at = collector.local_addr().unwrap();
    // At this speed the second datagram is due in a hundred years.
    let line = format!("replay {} --to {at} --speed 0.000001", file.display());
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        support::stop_when(s, &stop, || {
            receive(&collector, 1);
        });
        let (result, _, log) = run(&line, &stop, |_| {});
        result.unwrap();
        assert!(log.starts_with("1 datagrams of"), "{log}");
    });
}

#[test]
fn what_cannot_be_replayed_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.pcap");
    write_capture(&file, &traffic(3).0);
    let never = AtomicBool::new(false);
    let error = |line: &str| run(line, &never, |_| {}).0.unwrap_err().to_string();
    let at = "--to 127.0.0.1:9";
    let other_port = error(&format!("replay {} {at} --port 7", file.display()));
    assert!(other_port.contains("port 7 were looked at"), "{other_port}");
    let twice = error(&format!("replay - {at} --loop 2"));
    assert!(twice.contains("cannot be read twice"), "{twice}");
    let gone = error(&format!("replay no-such.pcap {at}"));
    assert!(gone.starts_with("cannot open no-such.pcap"), "{gone}");
    let nobody = error(&format!(
        "replay {} --to no.such.host.invalid:1",
        file.display()
    ));
    assert!(nobody.contains("cannot resolve"), "{nobody}");
    assert!(parse("replay x.pcap --to a --fast --rate 3").is_err());
    assert!(parse("replay x.pcap").unwrap_err().contains("--to"));
}

/// What tshark sees in a capture: of each datagram the first IPv4 and IPv6 source, the port, and the number.
fn seen_by_tshark(file: &Path) -> Vec<Vec<String>> {
    let file = file.to_str().unwrap();
    let faults = "_ws.malformed || udp.checksum.status == 0 || ip.checksum.status == 0";
    let check = "udp.check_checksum:TRUE -o ip.check_checksum:TRUE -Y".split(' ');
    let mut all = vec!["-r", file, "-o"];
    all.extend(check);
    all.push(faults);
    assert_eq!(output("tshark", &all), "");
    let fields = "-e ip.src -e ipv6.src -e udp.srcport -e sflow_245.sequence_number";
    let mut all = vec!["-r", file, "-T", "fields", "-E", "occurrence=f"];
    all.extend(fields.split(' '));
    let text = output("tshark", &all);
    let words = |l: &str| l.split('\t').map(str::to_owned).collect();
    let seen: Vec<Vec<String>> = text.lines().map(words).collect();
    assert_eq!(seen.len(), 90);
    seen
}

#[test]
fn recorded_datagrams_are_whole_and_others_read_them() {
    in_namespace(|_| {
        let (sent, _) = traffic(90);
        let dir = tempfile::tempdir().unwrap();
        let (source, file) = (dir.path().join("in.pcap"), dir.path().join("out.pcap"));
        write_capture(&source, &sent);
        let line = format!(
            "record --write {} --count 90 --listen [::]:0",
            file.display()
        );
        // The third agent is of IPv6: two replays, each with the addresses of its family.
        let (four, six): (Vec<Sent>, Vec<Sent>) = sent.into_iter().partition(|s| s.from.is_ipv4());
        let status = ended(&line.replace("--listen [::]:0", ""), |at| {
            for (part, ip) in [(&four, "127.0.0.1"), (&six, "[::1]")] {
                write_capture(&source, part);
                let to = format!("{ip}:{}", at.port());
                ended(
                    &format!("replay {} --to {to} --spoof --fast", source.display()),
                    |_| {},
                );
            }
        });
        assert_eq!(
            (&status["datagrams"], &status["files"]),
            (&90.into(), &1.into())
        );
        let want: Vec<_> = four.iter().chain(&six).collect();
        let got = read_capture(&file);
        assert_eq!(got.len(), 90);
        for (got, s) in got.iter().zip(&want) {
            assert_eq!((got.0, &got.1), (s.from, &s.bytes));
        }
        let number = |s: &Sent| Datagram::parse(&s.bytes).unwrap().sequence;
        for (seen, s) in seen_by_tshark(&file).iter().zip(want) {
            let [four, six, port, sequence] = &seen[..] else {
                panic!("{seen:?}");
            };
            // The other family is that of a sampled packet, if any.
            let from = if s.from.is_ipv4() { four } else { six };
            let seen = (from.parse().unwrap(), port.parse().unwrap());
            assert_eq!(seen, (s.from.ip(), s.from.port()));
            assert_eq!(*sequence, number(s).to_string());
        }
    });
}

#[test]
fn a_record_is_rotated_and_the_oldest_go() {
    let (sent, _) = traffic(40);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.pcap");
    let line = format!(
        "record --listen 127.0.0.1:0 --write {} --rotate 2K --keep 3 --count 40",
        file.display()
    );
    let status = ended(&line, |at| send_all(&sent, at));
    let files = status["files"].as_u64().unwrap();
    assert!(files > 4, "{status}");
    let mut names: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    names.sort();
    assert_eq!(names.len(), 3);
    assert_eq!(
        names[2].display().to_string(),
        status["file"].as_str().unwrap()
    );
    let kept: Vec<Vec<u8>> = names
        .iter()
        .flat_map(|n| payloads(read_capture(n)))
        .collect();
    assert!(bytes(&sent).ends_with(&kept));
}

#[test]
fn a_request_to_end_passes_on_what_has_arrived() {
    let (sent, _) = traffic(50);
    let to = socket();
    let stop = AtomicBool::new(false);
    let line = format!(
        "forward --listen 127.0.0.1:0 --to {}",
        to.local_addr().unwrap()
    );
    let (result, _, log) = run(&line, &stop, |at| {
        send_all(&sent, at);
        stop.store(true, Ordering::Relaxed);
    });
    result.unwrap();
    assert!(
        log.starts_with("50 datagrams received; 127.0.0.1:"),
        "{log}"
    );
    assert_eq!(payloads(receive(&to, 50)), bytes(&sent));
}

#[test]
fn a_port_in_use_is_explained() {
    let taken = socket();
    let line = format!("--listen {}", taken.local_addr().unwrap());
    for tool in ["forward --to 127.0.0.1:9", "record --write x.pcap"] {
        let (result, ..) = run(&format!("{tool} {line}"), &AtomicBool::new(false), |_| {});
        let text = result.unwrap_err().to_string();
        assert!(text.contains("another program has it"), "{text}");
    }
    assert!(!Path::new("x.pcap").exists());
}

#[test]
fn several_sockets_share_the_senders_and_keep_their_order() {
    let (sent, _) = traffic(40);
    let to = socket();
    let line = format!(
        "forward --listen 127.0.0.1:0 --sockets 4 --to {} --count 80",
        to.local_addr().unwrap()
    );
    // Two senders, each of which sends all: the kernel gives each to one of the sockets.
    let status = ended(&line, |at| {
        let senders: Vec<_> = (0..2).map(|_| socket()).collect();
        for s in &sent {
            for from in &senders {
                from.send_to(&s.bytes, at).unwrap();
            }
        }
    });
    assert_eq!(
        (&status["received"], &status["sockets"]),
        (&80.into(), &4.into())
    );
    assert_eq!(status["targets"][0]["sent"], 80);
    let got = receive(&to, 80);
    let all = bytes(&sent);
    // What came by one socket left by one: of each of these, both copies of a datagram come before the next one's.
    let mut by_socket = std::collections::BTreeMap::<SocketAddr, Vec<usize>>::new();
    for (from, bytes) in got {
        let at = all.iter().position(|b| *b == bytes).unwrap();
        by_socket.entry(from).or_default().push(at);
    }
    assert!(by_socket.len() <= 4);
    for order in by_socket.values() {
        let mut seen = std::collections::BTreeMap::<usize, usize>::new();
        for at in order {
            *seen.entry(*at).or_default() += 1;
        }
        let senders = order.len() / all.len();
        assert!(seen.values().all(|n| *n == senders), "{seen:?}");
    }
}
