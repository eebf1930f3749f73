//! `parshall sflow lint` end to end: files and sockets in, findings and a status out.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::Parser;
use parshall_collector::lint::{LintArgs, LintError, run_with};

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: LintArgs,
}

fn args(list: &[&str]) -> Result<LintArgs, String> {
    let parsed = Command::try_parse_from(["lint"].iter().chain(list));
    parsed.map(|c| c.args).map_err(|e| e.to_string())
}

fn run(list: &[&str]) -> (Result<bool, LintError>, String) {
    let mut out = Vec::new();
    let stop = AtomicBool::new(false);
    let result = run_with(&args(list).unwrap(), &mut out, &stop, |_| {});
    (result, String::from_utf8(out).unwrap())
}

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sflow-wire/tests/data");
    path.join(name).display().to_string()
}

/// The rules in the summary, which is the last line of JSON.
fn summary(out: &str) -> serde_json::Value {
    let last = out.lines().last().unwrap();
    serde_json::from_str::<serde_json::Value>(last).unwrap()["summary"].take()
}

#[test]
fn the_capture_of_edge_cases_is_told_case_by_case() {
    let (result, out) = run(&["--json", "--all", "--port", "0", &data("sflow-edge.pcap")]);
    assert!(result.unwrap(), "{out}");
    let s = summary(&out);
    let want = serde_json::json!({
        "version": 1, "trailing-bytes": 1, "datagram-restart": 7, "sample-length": 1, "mixed-forms": 1,
        "record-duplicate": 1, "interface-format": 1, "internal-form": 1, "sample-restart": 1, "no-packet": 2,
        "header-protocol": 1, "frame-short": 2, "next-hop-unknown": 1,
    });
    assert_eq!(s["rules"], want, "{out}");
    for line in out.lines().take(out.lines().count() - 1) {
        let f: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(f["rule"].is_string() && f["packet"].as_u64() > Some(0) && f["offset"].is_u64());
        assert!(f["origin"].as_str().unwrap().ends_with("sflow-edge.pcap"));
    }
}

#[test]
fn a_text_names_file_packet_agent_rule_and_reference() {
    let (result, out) = run(&["--port", "0", &data("sflow-records.pcap")]);
    assert!(result.unwrap());
    assert!(out.contains("sflow-records.pcap: packet "), "{out}");
    assert!(
        out.contains(", agent ") && out.contains("rule: v5 section 5"),
        "{out}"
    );
    assert!(out.contains("to a collector: "), "{out}");
    let last = out.lines().find(|l| l.contains("datagrams with")).unwrap();
    assert!(last.starts_with("7 datagrams with"), "{last}");
}

#[test]
fn the_status_follows_fail_on_and_ignore() {
    let file = data("sflow-records.pcap");
    let status = |more: &[&str]| {
        let list = [&["--port", "0", &file][..], more].concat();
        run(&list).0.unwrap()
    };
    assert!(status(&[]) && !status(&["--fail-on", "never"]));
    assert!(
        args(&["--ignore", "no-such-rule"])
            .unwrap_err()
            .contains("--rules lists them")
    );
}

#[test]
fn what_cannot_be_read_is_no_clean_bill() {
    assert!(matches!(run(&["no-such.pcap"]).0, Err(LintError::Input(_))));
    let (result, _) = run(&["--port", "9", &data("sflow-records.pcap")]);
    let text = result.unwrap_err().to_string();
    assert!(
        text.starts_with("no sFlow datagram to port 9; ") && text.contains("--port 0"),
        "{text}"
    );
    let dir = tempfile::tempdir().unwrap();
    let cut: PathBuf = dir.path().join("cut.pcap");
    let whole = std::fs::read(data("sflow-records.pcap")).unwrap();
    std::fs::write(&cut, &whole[..whole.len() - 1]).unwrap();
    let (result, out) = run(&["--json", cut.to_str().unwrap()]);
    assert!(matches!(result, Err(LintError::Input(_))));
    assert_eq!(summary(&out)["datagrams"], 6, "what came before is told");
}

/// A classic capture of one Ethernet frame, of which only a part was kept.
#[test]
fn packets_that_were_cut_when_captured_are_told_and_not_judged() {
    let whole = std::fs::read(data("sflow-records.pcap")).unwrap();
    let word = |at: usize| u32::from_le_bytes(*whole[at..].first_chunk().unwrap());
    let len = word(24 + 8) as usize;
    let mut short = whole[..24 + 16 + len - 8].to_vec();
    short[24 + 8..24 + 12].copy_from_slice(&(len as u32 - 8).to_le_bytes());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("short.pcap");
    std::fs::write(&file, short).unwrap();
    let (_, out) = run(&["--json", file.to_str().unwrap()]);
    assert_eq!(
        summary(&out)["rules"],
        serde_json::json!({"capture-cut": 1})
    );
}

#[test]
fn datagrams_from_the_network() {
    let (mut out, stop) = (Vec::new(), AtomicBool::new(false));
    let list = args(&["--json", "--listen", "127.0.0.1:0", "--count", "2"]).unwrap();
    let failed = run_with(&list, &mut out, &stop, |at| {
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for n in [1u32, 1] {
            let words = [5, 1, 0xC000_0201, 0, n, 1000, 0];
            let bytes: Vec<u8> = words.iter().flat_map(|w: &u32| w.to_be_bytes()).collect();
            sender.send_to(&bytes, at).unwrap();
        }
    })
    .unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(failed, "{out}");
    let want = serde_json::json!({"datagram-empty": 2, "datagram-duplicate": 1});
    assert_eq!(summary(&out)["rules"], want);
    assert!(out.contains("\"origin\":\"127.0.0.1:"), "{out}");
}

#[test]
fn the_rules_are_printed() {
    let (result, out) = run(&["--rules"]);
    assert!(
        !result.unwrap() && out.contains("| `pool-fell` | error |"),
        "{out}"
    );
}
