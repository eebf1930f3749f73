//! What a hsflowd.conf becomes: as commands, as YAML and out of a configuration file, which must all be the same.

use proptest::prelude::*;

use super::*;
use crate::hsflowd::{Imported, Note, import};

fn good(text: &str) -> Imported {
    import(text).unwrap_or_else(|e| panic!("{e:?}"))
}

fn commands(text: &str) -> Vec<String> {
    good(text).commands().map(|c| c.1).collect()
}

fn notes(all: &[Note]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

/// The one error of a file.
fn bad(text: &str) -> String {
    let all = notes(&import(text).expect_err("a bad file"));
    assert_eq!(all.len(), 1, "{all:?}");
    all.into_iter().next().unwrap_or_default()
}

const FULL: &str = "\
# a comment { with braces
sFlow {
  agent = eth0
  agent.cidr=10.0.0.0/8 ; agent.cidr = !10.1.0.0/255.255.0.0
  Sampling = 1K
  polling = 20
  subAgentId=7 headerBytes = 32
  datagramBytes = 400
  collector { ip=192.0.2.1 udpport=6344 namespace=mgmt dev=eth1 }
  collector{ip=\"2001:db8::1\"}
  collector { hostname = flows.example.net }
  DNS-SD { domain = .example.net }
  psample { group=1 egress=on }
  dropmon { start=on limit=50 sw=off hide=xyz }
  vpp { osIndex=off ifOffset=1000 }
  tcp { tunnel=on }
  docker { hostname = on }
  sampling.10G=10000
  sampling.http = 50
  uuid = 00000000-0000-0000-0000-000000000000
  colour = blue
  colour = red
  shape { round { very=yes } }
}
";

#[test]
fn every_key_is_used_or_noted_with_its_line() {
    let got = good(FULL);
    let lines: Vec<String> = got.commands().map(|(o, l)| format!("{o}: {l}")).collect();
    assert_eq!(
        lines,
        [
            "line 7: subAgentId: sflow sub-agent-id 7",
            "line 8: datagramBytes: sflow max-datagram 600",
            "line 9: collector: sflow collector add 192.0.2.1 port 6344 namespace mgmt device eth1",
            "line 10: collector: sflow collector add 2001:db8::1 port 6343",
            "line 11: collector: sflow collector add flows.example.net port 6343",
            "line 13: psample: sflow direction both",
            "line 14: dropmon: sflow drop-monitoring limit 50",
            "line 15: vpp: sflow ifindex parshall",
            "line 12: DNS-SD: sflow discover example.net delay 30",
            "line 4: agent: sflow agent-address auto device eth0 prefer 10.0.0.0/8 avoid 10.1.0.0/16",
            "line 6: polling: sflow polling-interval 20",
            "line 6: polling: sflow host-interval 20",
            "line 5: sampling: sflow sampling-rate 1000",
            "line 18: sampling.10g: sflow sampling-rate-at 10000000000 10000",
            "line 7: headerBytes: sflow header-bytes 64",
        ]
    );
    assert_eq!(
        notes(&got.notes),
        [
            "line 8: datagramBytes: raised to 600, the least here",
            "line 13: group: the agent here has samples by itself, not used",
            "line 14: sw: is about drops of the kernel, not used",
            "line 14: hide: is about drops of the kernel, not used",
            "line 15: ifOffset: is 1000000000 here, not used",
            "line 16: tcp: a module of hsflowd, not used",
            "line 17: docker: a module of hsflowd, not used",
            "line 19: sampling.http: is of an application, not used",
            "line 20: uuid: has no meaning here, not used",
            "line 21: colour: is not known, not used",
            "line 23: shape: is not known, not used",
            "line 7: headerBytes: raised to 64, the least here",
        ]
    );
}

#[test]
fn commands_yaml_and_a_configuration_file_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hsflowd.conf");
    for text in [
        FULL,
        "sflow { collector { ip=192.0.2.1 } }",
        "sflow { DNS-SD { } agentIP=192.0.2.9 agent.cidr=fd00::/8 sampling=0 }",
        "sflow { collector { ip=192.0.2.1 } sampling.1G=2000 sampling.10G=20000 sampling.bps_ratio=500000 }",
        "sflow { DNSSD = on DNSSD_domain = .a.example collector { ip = a.b } ",
    ] {
        let mut want = commands(text);
        let mut by_yaml: Vec<String> = rehearsed(&good(text).yaml())
            .commands
            .into_iter()
            .map(|c| c.line)
            .collect();
        std::fs::write(&path, text).unwrap();
        let by_file = rehearsed(&format!("sflow: {{hsflowd-conf: {}}}", path.display()));
        let in_order: Vec<String> = by_file.commands.iter().map(|c| c.line.clone()).collect();
        assert_eq!(in_order, want);
        assert_eq!(by_file.notes.len(), good(text).notes.len());
        let first = &by_file.commands[0];
        assert!(
            first.field.starts_with("sflow.hsflowd-conf: /"),
            "{}",
            first.field
        );
        want.sort();
        by_yaml.sort();
        assert_eq!(by_yaml, want);
    }
    // What the file itself says comes later and so counts.
    std::fs::write(&path, "sflow { collector { ip=192.0.2.1 } polling=20 }").unwrap();
    let text = format!(
        "sflow: {{polling-interval: 7, hsflowd-conf: {}}}",
        path.display()
    );
    let all: Vec<String> = rehearsed(&text)
        .commands
        .into_iter()
        .map(|c| c.line)
        .collect();
    assert_eq!(
        all.last().map(String::as_str),
        Some("sflow polling-interval 7")
    );
    std::fs::write(&path, "sflow {\n polling=1 }").unwrap();
    let e = error(&format!("sflow: {{hsflowd-conf: {}}}", path.display()));
    assert!(e.contains("there is neither a collector nor DNS-SD"), "{e}");
    for (path, said) in [
        ("/no/such/file", "cannot be read"),
        ("/dev/zero", "not a plain file"),
        ("/tmp", "not a plain file"),
    ] {
        let e = error(&format!("sflow: {{hsflowd-conf: {path}}}"));
        assert!(e.contains(said), "{e}");
    }
    assert!(error("sflow: {hsflowd-conf: here}").contains("an absolute file name"));
}

#[test]
fn hsflowds_defaults_are_said_where_ours_are_others() {
    assert_eq!(
        commands("sflow { collector { ip=192.0.2.1 } }"),
        [
            "sflow collector add 192.0.2.1 port 6343",
            "sflow sub-agent-id 100000",
            "sflow polling-interval 30",
            "sflow host-interval 30",
        ]
    );
}

#[test]
fn what_hsflowd_would_not_start_with_is_an_error_with_its_line() {
    let with = |text: &str| {
        bad(&format!(
            "sflow {{\n collector {{ ip=192.0.2.1 }}\n{text}\n}}"
        ))
    };
    assert_eq!(bad(""), "there is no sflow { } in it");
    assert_eq!(
        bad("collector { }"),
        "line 1: collector: a hsflowd.conf begins with `sflow {`"
    );
    assert_eq!(
        bad("sflow { polling=20 }"),
        "there is neither a collector nor DNS-SD in it"
    );
    assert_eq!(
        with("polling=301"),
        "line 3: polling: 301: not a number from 0 to 300"
    );
    assert_eq!(with("\n polling"), "line 4: polling: a value is missing");
    assert_eq!(
        with("subAgentId=200000"),
        "line 3: subAgentId: 200000 is not a number from 0 to 199999"
    );
    assert_eq!(
        with("agentIP=nobody"),
        "line 3: agentIP: nobody: not an IP address"
    );
    assert_eq!(
        with("agent.cidr=1.2.3.4"),
        "line 3: agent.cidr: 1.2.3.4: not a network such as 10.0.0.0/8 or !fd00::/8"
    );
    assert_eq!(
        with("collector { udpport=1 }"),
        "line 3: collector: has no ip"
    );
    assert_eq!(
        with("collector { ip=192.0.2.9 udpport=0 }"),
        "line 3: udpport: 0 is not a number from 1 to 65535"
    );
    assert_eq!(
        with("dropmon { limit=0 }"),
        "line 3: limit: 0 is not a number from 1 to 10000"
    );
    assert_eq!(
        with("psample { egress=yes }"),
        "line 3: egress: yes is neither on nor off"
    );
    assert_eq!(
        with("DNS-SD { domain=a..b }"),
        "line 3: domain: a..b is not a domain"
    );
    assert_eq!(with("{ }"), "line 3: {: a group without a name");
    assert_eq!(with("}"), "line 4: }: one `}` too many");
    let many: String = (0..65)
        .map(|i| format!("collector {{ ip=10.0.0.{} }}", i + 1))
        .collect();
    assert_eq!(
        bad(&format!("sflow {{ {many} }}")),
        "line 1: collector: at most 64 are possible"
    );
    let all = notes(&import("sflow {\n polling=x\n sampling=y }").unwrap_err());
    assert_eq!(all.len(), 2, "{all:?}");
}

/// Words that a generated file is put together from.
const WORDS: &[&str] = &[
    "sflow",
    "{",
    "}",
    "\n",
    "=",
    ";",
    "#",
    "\"",
    " ",
    "collector { ip=192.0.2.1 }",
    "collector {",
    "ip=",
    "a.b",
    "udpport=9",
    "namespace=",
    "dev=",
    "x/y",
    "DNS-SD {",
    "domain=.e.x",
    "polling=",
    "20",
    "sampling=5",
    "sampling.1G=7",
    "agent=eth0",
    "agent.cidr=!::7/0",
    "agentIP=::1",
    "headerBytes=1",
    "datagramBytes=200",
    "psample {",
    "dropmon { limit=5 }",
    "dropmon { start=off }",
    "vpp { }",
    "tcp { }",
    "rubbish",
    "é",
    "\u{1b}",
    "99999999999999999999",
];

fn survives(text: &str) {
    let lines = text.lines().count();
    match import(text) {
        Ok(got) => {
            assert!(got.notes.iter().all(|n| n.line <= lines));
            let yaml = got.yaml();
            let by_yaml = rehearsed(&yaml);
            assert_eq!(by_yaml.commands.len(), got.commands().count(), "{yaml}");
        }
        Err(all) => {
            assert!(!all.is_empty() && all.iter().all(|n| n.line <= lines));
            assert!(
                !notes(&all).concat().contains('\u{1b}'),
                "control characters are shown, not sent"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_text_does_no_harm(text in "\\PC{0,200}") {
        survives(&text);
    }

    #[test]
    fn words_put_together_do_no_harm(parts in proptest::collection::vec(proptest::sample::select(WORDS), 0..40)) {
        let body = parts.join(" ");
        survives(&body);
        survives(&format!("sflow {{ collector {{ ip=192.0.2.77 }} {body}"));
    }
}
