//! Every sample that a running router takes reaches a collector: router, agent and decoder as processes, UDP between them,
//! and all three counts the same at the end.

mod support;

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::{Netns, Router, parshall};

/// Packets of the two streams together, and the sampling rate.
const PACKETS: u64 = 400_000;
const RATE: u64 = 10;

/// Packets through the router in memory, as many as this machine makes; all interfaces are the router's own.
const CONFIG: &str = "\
cli: {socket: SOCKET}
interfaces:
  pg0:
    addresses: [10.0.0.1/24]
    sflow: {sampling-rate: 10}
  pg1:
    addresses: [10.0.1.1/24]
    sflow: {sampling-rate: 10}
  pg2:
    addresses: [10.0.2.1/24]
neighbors:
  - {interface: pg2, address: 10.0.2.2, mac: \"02:00:00:00:01:02\"}
routes:
  - {prefix: 20.0.0.0/8, via: 10.0.2.2, interface: pg2}
sflow:
  agent-address: 192.0.2.9
  collectors: [\"127.0.0.1:6343\"]
packet-generator:
  streams:
    - name: small
      interface: pg0
      limit: 200000
      rate: 200000
      size: 64
      node: ip4-input
      enabled: false
      data: \"UDP: 10.0.0.2 -> 20.0.0.1 - 20.0.0.250 UDP: 1234 -> 4321 incrementing 30\"
    - name: mixed
      interface: pg1
      limit: 200000
      rate: 200000
      size: 64-512
      node: ip4-input
      enabled: false
      data: \"UDP: 10.0.1.2 -> 20.0.0.1 - 20.0.0.250 UDP: 1234 -> 4321 incrementing 30\"
";

/// A decoder, ended also when the test fails.
struct Decoder(Child);

impl Drop for Decoder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Decoder {
    fn start(ns: &Netns) -> Decoder {
        let line = format!(
            "{} sflow decode --listen 127.0.0.1:6343 --sockets 2 --csv --status",
            parshall().display()
        );
        let out = Stdio::piped();
        let mut command = ns.command(&line);
        let child = command.stdout(Stdio::null()).stderr(out).spawn().unwrap();
        let bound = Instant::now() + Duration::from_secs(20);
        while !ns.run("ss -Hlun sport = :6343").contains("6343") {
            assert!(Instant::now() < bound, "the decoder does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Decoder(child)
    }

    /// Ends it as Ctrl-C does; what it says of itself.
    fn status(mut self) -> serde_json::Value {
        let id = self.0.id().to_string();
        let told = Command::new("kill").args(["-INT", &id]).status().unwrap();
        assert!(told.success());
        let mut text = String::new();
        let mut stderr = self.0.stderr.take().unwrap();
        stderr.read_to_string(&mut text).unwrap();
        assert!(self.0.wait().unwrap().success(), "{text}");
        let last = text.lines().last().unwrap_or_default();
        serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {text}"))
    }
}

fn sum(list: &serde_json::Value, key: &str) -> u64 {
    let each = list.as_array().unwrap().iter();
    each.map(|v| v[key].as_u64().unwrap()).sum()
}

#[test]
fn sampled_is_sent_is_received() {
    let ns = Netns::new("r");
    let decoder = Decoder::start(&ns);
    let router = Router::start_with(&ns, CONFIG);
    router.ctl("packet-generator enable-stream");
    let end = Instant::now() + Duration::from_secs(60);
    let counted = loop {
        let shown = router.json("show sflow");
        let (taken, lost) = (
            sum(&shown["interfaces"], "samples"),
            sum(&shown["interfaces"], "dropped"),
        );
        let agent = &shown["agent"];
        let drained = sum(&agent["rings"], "drained");
        if sum(&shown["interfaces"], "pool") == PACKETS && drained == taken {
            assert_eq!(sum(&agent["rings"], "lost"), lost, "{shown}");
            break shown;
        }
        assert!(Instant::now() < end, "not all packets came by: {shown}");
        std::thread::sleep(Duration::from_millis(100));
    };
    // What is left in an open datagram leaves with the agent.
    assert!(router.stop());
    let got = decoder.status();

    let n = |key: &str| got[key].as_u64().unwrap();
    let taken = sum(&counted["interfaces"], "samples");
    let agent = &counted["agent"];
    assert_eq!(agent["flow_samples"].as_u64(), Some(taken), "{counted}");
    assert_eq!(n("flow_samples"), taken, "{got}");
    assert_eq!(
        (n("lost_datagrams"), n("lost_flow_samples"), n("malformed")),
        (0, 0, 0),
        "{got}"
    );
    assert_eq!(n("duplicate_datagrams"), 0, "{got}");
    assert_eq!((n("socket_drops"), n("sockets")), (0, 2), "{got}");
    // Six standard deviations around the mean: the samples are of the packets that came by.
    let mean = PACKETS / RATE;
    assert!(taken.abs_diff(mean) < 1200, "{taken} samples");
    // What the pool grew by between the first and the last sample is nearly all of it.
    let agents = got["agents"].as_array().unwrap();
    assert_eq!(agents.len(), 1, "{got}");
    let pool = agents[0]["flow"]["pool"].as_u64().unwrap();
    assert!(pool <= PACKETS && pool > PACKETS / 2, "pool {pool}");
}
