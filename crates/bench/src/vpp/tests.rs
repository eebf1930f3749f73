//! The driver against a stand-in that speaks VPP's command line: greeting, silence, answers, `show runtime`.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::JoinHandle;

use super::*;

const SHOW_RUNTIME: &str = include_str!("show_runtime.txt");
/// WONT and DONT LINEMODE, WILL and DO SGA, WILL and DONT ECHO, DO TTYPE, the question for it, DO NAWS, the
/// question for it: what VPP's unix_cli sends first.
const GREETING: &[u8] = &[
    255, 252, 34, 255, 254, 34, 255, 251, 3, 255, 253, 3, 255, 251, 1, 255, 254, 1, 255, 253, 24,
    255, 250, 24, 1, 255, 240, 255, 253, 31, 255, 250, 31, 1, 255, 240,
];
const INTRODUCTION: &[u8] = b"\xff\xfa\x18\x00vppctl\xff\xf0";
const SHORT: Windows = Windows {
    warm: Duration::ZERO,
    length: Duration::from_millis(1),
    count: 3,
};

/// Answers every command by `answer`; gives the commands it was given.
fn stand_in(
    folder: &Path,
    answer: fn(&str) -> String,
) -> (std::path::PathBuf, JoinHandle<Vec<String>>) {
    let path = folder.join("cli.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let thread = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        // In two pieces, cut within an option.
        socket.write_all(&GREETING[..20]).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        socket.write_all(&GREETING[20..]).unwrap();
        let mut introduction = [0; INTRODUCTION.len()];
        socket.read_exact(&mut introduction).unwrap();
        assert_eq!(introduction, INTRODUCTION);
        serve(&mut socket, answer)
    });
    (path, thread)
}

fn serve(socket: &mut UnixStream, answer: fn(&str) -> String) -> Vec<String> {
    let mut commands = Vec::new();
    let mut pending = Vec::new();
    let mut bytes = [0; 100];
    while let Ok(n @ 1..) = socket.read(&mut bytes) {
        pending.extend_from_slice(&bytes[..n]);
        while let Some(end) = pending.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let command = String::from_utf8(line).unwrap().trim_end().to_owned();
            let text = answer(&command).replace('\n', "\r\n") + "\0";
            commands.push(command);
            for piece in text.as_bytes().chunks(700) {
                socket.write_all(piece).unwrap();
            }
        }
    }
    commands
}

fn vpp(command: &str) -> String {
    match command {
        "show runtime" => SHOW_RUNTIME.into(),
        "show hardware-interfaces pg0" => {
            "  pg0    1  up  pg0\n  Link speed: unknown\n  Ethernet address 02:fe:6c:5d:b5:01\n"
                .into()
        }
        "create packet-generator interface pg0" => "pg0\n".into(),
        _ => String::new(),
    }
}

fn driven(
    case: &str,
    answer: fn(&str) -> String,
) -> (
    Result<Vec<PeerRow>, BenchError>,
    Vec<String>,
    tempfile::TempDir,
) {
    let folder = tempfile::tempdir().unwrap();
    let (path, thread) = stand_in(folder.path(), answer);
    let mut cli = Cli::connect(&path, Duration::from_secs(5), || Ok(())).unwrap();
    let case = crate::cases::chosen(&[case.to_owned()]).unwrap()[0];
    let rates = [SflowRate::Off, SflowRate::OneIn(1000)];
    let rows = drive(&mut cli, case, &rates, folder.path(), SHORT);
    drop(cli);
    (rows, thread.join().unwrap(), folder)
}

#[test]
fn a_case_is_set_up_and_measured() {
    let (rows, commands, folder) = driven("ip4", vpp);
    let rows = rows.unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (rows[0].case, rows[0].mpps, rows[0].clocks),
        ("ip4", 14.5, 177.0)
    );
    assert_eq!(rows[0].nodes["ip4-lookup"], 44.0);
    assert_eq!(rows[1].sflow, SflowRate::OneIn(1000));
    let at = |text: &str| commands.iter().position(|c| c.starts_with(text));
    let order = [
        "create packet-generator interface pg0",
        "set ip neighbor pg1 192.168.1.2 02:00:00:01:00:00",
        "exec ",
        "packet-generator new { name bench ",
        "packet-generator enable-stream bench",
        "clear runtime",
        "show runtime",
        "packet-generator disable-stream bench",
        "sflow sampling-rate 1000",
        "sflow enable pg0",
    ];
    let places: Vec<_> = order
        .iter()
        .map(|t| at(t).unwrap_or_else(|| panic!("{t}")))
        .collect();
    assert!(places.is_sorted(), "{places:?} in {commands:?}");
    let routes = std::fs::read_to_string(folder.path().join("routes")).unwrap();
    assert_eq!(routes, "ip route add 10.0.0.0/24 via 192.168.1.2 pg1\n");
    let pcap = std::fs::read(folder.path().join("bench.pcap")).unwrap();
    assert_eq!(pcap.len(), 24 + 250 * (16 + 64));
    assert_eq!(pcap[40..46], [0x02, 0xfe, 0x6c, 0x5d, 0xb5, 0x01]);
}

#[test]
fn every_case_has_its_commands() {
    let has = |case, text: &str| {
        let (rows, commands, folder) = driven(case, vpp);
        assert_eq!(rows.unwrap().len(), 2, "{case}");
        let routes = std::fs::read_to_string(folder.path().join("routes")).unwrap();
        let all = commands.join("\n") + "\n" + &routes;
        assert!(all.contains(text), "{case}: {text}");
    };
    has("l2xc", "set interface l2 xconnect pg0 pg1\n");
    has(
        "mpls-swap",
        "mpls local-label add eos 100 via 192.168.1.2 pg1 out-labels 200\n",
    );
    has("ip6", "ip route add 2001:db8::/48 via fd01::2 pg1\n");
    has(
        "vxlan4-encap",
        "create vxlan tunnel src 192.168.1.1 dst 192.168.1.2 vni 10\n\
         set interface l2 xconnect pg0 vxlan_tunnel0\n",
    );
    has("vxlan4-decap", "set interface ip vxlan-bypass pg0\n");
    has(
        "ip4-acl200",
        "deny src 192.168.0.0/16 dst 10.0.0.0/16 proto 17 sport 0-65535 dport 10001-10001, deny",
    );
    has(
        "ip6-full",
        "set ip neighbor pg1 fd01::fb 02:00:00:01:00:f9\n",
    );
}

#[test]
fn a_refused_command_is_named() {
    let (rows, ..) = driven("ip4", |command| match command.starts_with("exec") {
        true => "exec: unknown input `routes'\n".into(),
        false => vpp(command),
    });
    let error = rows.unwrap_err().to_string();
    assert!(
        error.starts_with("VPP: `exec ") && error.ends_with("unknown input `routes'"),
        "{error}"
    );
}

#[test]
fn a_vpp_that_drops_is_not_measured() {
    let (rows, ..) = driven("ip4", |command| {
        vpp(command).replace("out 1.4503e7, drop 0.0000e0", "out 0.0000e0, drop 1.4503e7")
    });
    let error = rows.unwrap_err().to_string();
    assert!(error.contains("did not send out what came in"), "{error}");
}
