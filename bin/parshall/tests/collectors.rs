//! What other people's collectors make of our datagrams: goflow2, nfdump's sfcapd, pmacct's sfacctd and tshark receive from one agent
//! at the same time. None finds an error, all but sfacctd agree to the packet and the byte, and what they estimate lies within four
//! standard deviations of what the router counted, for each interface and direction. docs/reference/collectors.md says what each shows.

mod support;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use support::{Netns, Process, Router, must, parshall, until};

const GOFLOW2: u16 = 6343;
const SFCAPD: u16 = 6344;
const SFACCTD: u16 = 6345;
/// What tshark looks at; `parshall sflow decode` is the one who listens there.
const TSHARK: u16 = 6346;

/// Packets of each stream.
const PACKETS: u64 = 120_000;
/// Bytes of the frame check sequence: sFlow counts them in the frame's length, the router's counters do not.
const FCS: u64 = 4;

/// IPv4 in by pg0 and out by pg2, IPv6 in by pg1 and out by pg3, both sampled where they come in; IPv4 in by pg4 and out by pg5, sampled where
/// it leaves (see [`LATER`]). `RECORDS` says what samples carry. Frames of many lengths, most longer than what is sampled of them. The seed is
/// given because one run in some hundreds lies beyond four standard deviations somewhere.
const CONFIG: &str = "\
seed: 4
cli: {socket: SOCKET}
interfaces:
  pg0:
    mac: '02:fe:00:00:00:01'
    addresses: [10.0.0.1/24]
    sflow: {sampling-rate: 20}
  pg1:
    mac: '02:fe:00:00:00:02'
    addresses: ['2001:db8:1::1/64']
    sflow: {sampling-rate: 40}
  pg2:
    addresses: [10.0.2.1/24]
    sflow: true
  pg3:
    addresses: ['2001:db8:3::1/64']
    sflow: true
  pg4:
    mac: '02:fe:00:00:00:04'
    addresses: [10.0.4.1/24]
  pg5:
    addresses: [10.0.5.1/24]
neighbors:
  - {interface: pg2, address: 10.0.2.2, mac: '02:00:00:00:01:02'}
  - {interface: pg3, address: '2001:db8:3::2', mac: '02:00:00:00:01:03'}
  - {interface: pg5, address: 10.0.5.2, mac: '02:00:00:00:01:05'}
routes:
  - {prefix: 20.0.0.0/8, via: 10.0.2.2, interface: pg2}
  - {prefix: '2001:db8:20::/48', via: '2001:db8:3::2', interface: pg3}
  - {prefix: 30.0.0.0/8, via: 10.0.5.2, interface: pg5}
sflow:
  agent-address: 192.0.2.9
  records: {RECORDS}
  polling-interval: 0
  host-interval: 0
  collectors: ['127.0.0.1:6343', '127.0.0.1:6344', '127.0.0.1:6345', '127.0.0.1:6346']
packet-generator:
  streams:
    - name: v4
      interface: pg0
      limit: 120000
      rate: 15000
      size: 64-1400
      enabled: false
      data: 'IP4: 02:00:00:00:00:01 -> 02:fe:00:00:00:01 UDP: 10.0.0.2 -> 20.0.0.1 - 20.0.0.250 UDP: 1234 -> 4321 incrementing 30'
    - name: v6
      interface: pg1
      limit: 120000
      rate: 15000
      size: 64-1400
      enabled: false
      data: 'IP6: 02:00:00:00:00:02 -> 02:fe:00:00:00:02 UDP: 2001:db8:1::2 -> 2001:db8:20::1 UDP: 1234 -> 4321 incrementing 10'
    - name: leaving
      interface: pg4
      limit: 120000
      rate: 15000
      size: 64-1400
      enabled: false
      data: 'IP4: 02:00:00:00:00:04 -> 02:fe:00:00:00:04 UDP: 10.0.4.2 -> 30.0.0.1 - 30.0.0.250 UDP: 1234 -> 4321 incrementing 30'
";

/// What makes samples before a stream runs, for when all collectors are in place: what is sent before goes to those that are.
const LATER: [&str; 4] = [
    "sflow enable pg4 direction tx sampling-rate 30",
    "sflow enable pg5 direction tx sampling-rate 30",
    "sflow polling-interval 1",
    "sflow host-interval 1",
];

/// What the router itself sends (ARP for one) has this as its input.
const INTERNAL: u64 = 0x3FFF_FFFF;

/// What a collector makes of the samples of packets that came in by one interface and left by another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flow {
    /// Estimated.
    packets: u64,
    /// Estimated, with frame check sequence.
    bytes: u64,
}

/// By ifIndex in and out.
type Flows = BTreeMap<(u64, u64), Flow>;

/// In which directions the packets of each way were sampled: 1 where they came in, 2 where they left.
type Directions = BTreeMap<(u64, u64), BTreeSet<u64>>;

fn add(flows: &mut Flows, way: (u64, u64), packets: u64, bytes: u64) {
    let flow = flows.entry(way).or_default();
    flow.packets += packets;
    flow.bytes += bytes;
}

/// The four collectors, and where they write.
struct Collectors {
    dir: tempfile::TempDir,
    goflow2: Process,
    sfcapd: Process,
    sfacctd: Process,
    tshark: Process,
    decode: Process,
}

impl Collectors {
    fn start(ns: &Netns) -> Collectors {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let start = |name: &str, line: String| {
            ns.spawn_to(
                &line,
                &at(&format!("{name}.out")),
                &at(&format!("{name}.log")),
            )
        };
        // Segmentation offload on the loopback would show a capture several datagrams as one; see docs/limits.md.
        ns.run("ethtool -K lo tx-udp-segmentation off");
        // Several workers of goflow2 write their lines into each other's.
        let goflow2 = start(
            "goflow2",
            format!(
                "{} -listen sflow://127.0.0.1:{GOFLOW2}?workers=1 -addr 127.0.0.1:8080 -transport.file {}",
                goflow2().display(),
                at("goflow2.json").display()
            ),
        );
        std::fs::create_dir(at("nfcapd")).unwrap();
        let sfcapd = start(
            "sfcapd",
            format!(
                "sfcapd -b 127.0.0.1 -p {SFCAPD} -t 3600 -w {}",
                at("nfcapd").display()
            ),
        );
        let conf = at("sfacctd.conf");
        let json = at("sfacctd.json");
        let map = at("pretag.map");
        std::fs::write(&map, "set_tag=1 direction=0\nset_tag=2 direction=1\n").unwrap();
        std::fs::write(&conf, sfacctd_conf(&json, &map)).unwrap();
        let sfacctd = start("sfacctd", format!("sfacctd -f {}", conf.display()));
        let decode = start(
            "decode",
            format!(
                "{} sflow decode -j -p {TSHARK} --status",
                parshall().display()
            ),
        );
        // The filter says `udp dst port` without a blank.
        let tshark = start(
            "tshark",
            format!(
                "tshark -q -i lo -f udp[2:2]={TSHARK} -w {}",
                at("tshark.pcapng").display()
            ),
        );
        for port in [GOFLOW2, SFCAPD, SFACCTD, TSHARK] {
            ns.await_port(port);
        }
        let c = Collectors {
            goflow2,
            sfcapd,
            sfacctd,
            tshark,
            decode,
            dir,
        };
        until("tshark captures", || {
            c.read("tshark.log").contains("Capturing on")
        });
        c
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}

/// goflow2, where tests/setup.sh put it.
fn goflow2() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let cache = cache.unwrap_or_else(|| home().join(".cache"));
    let program = cache.join("parshall-tests/bin/goflow2");
    assert!(
        program.exists(),
        "{} is needed for this test: tests/setup.sh builds it",
        program.display()
    );
    program
}

fn sfacctd_conf(json: &Path, map: &Path) -> String {
    format!(
        "daemonize: false\n\
         sfacctd_ip: 127.0.0.1\n\
         sfacctd_port: {SFACCTD}\n\
         sfacctd_renormalize: true\n\
         plugins: print\n\
         aggregate: in_iface, out_iface, tag\n\
         pre_tag_map: {}\n\
         print_output: json\n\
         print_output_file: {}\n\
         print_refresh_time: 3600\n",
        map.display(),
        json.display()
    )
}

fn number(v: &Value, key: &str) -> u64 {
    v[key].as_u64().unwrap_or_else(|| panic!("no {key} in {v}"))
}

/// The objects of a text, one after the other. Not by lines: goflow2 writes an object and its line's end apart, and from
/// several threads.
fn objects(text: &str) -> impl Iterator<Item = Value> {
    serde_json::Deserializer::from_str(text)
        .into_iter()
        .map(move |object| object.unwrap_or_else(|e| panic!("{e}: {text}")))
}

/// What our own decoder printed: the samples, the ifIndex of each name, and the last octets and packets in and out of each ifIndex.
#[derive(Default)]
struct Own {
    flows: Flows,
    directions: Directions,
    /// Sums of the squares of the frames' lengths: what the error of an estimate of bytes grows with.
    squares: BTreeMap<(u64, u64), u64>,
    samples: u64,
    counter_samples: u64,
    index: BTreeMap<String, u64>,
    counters: BTreeMap<u64, [u64; 4]>,
}

fn own(text: &str) -> Own {
    let mut own = Own::default();
    for datagram in objects(text) {
        assert!(datagram.get("error").is_none(), "{datagram}");
        for sample in datagram["samples"].as_array().unwrap() {
            own_sample(&mut own, sample);
        }
    }
    own
}

fn own_sample(own: &mut Own, sample: &Value) {
    let element = |key: &str| {
        let mut all = sample["elements"].as_array().unwrap().iter();
        all.find(|e| e.get(key).is_some())
    };
    if sample["sampleType"] == "FLOWSAMPLE" {
        let length = number(element("sampledPacketSize").unwrap(), "sampledPacketSize");
        let rate = number(sample, "meanSkipCount");
        let way = (number(sample, "inputPort"), number(sample, "outputPort"));
        add(&mut own.flows, way, rate, rate * length);
        *own.squares.entry(way).or_default() += rate * length * length;
        own.samples += 1;
        let source = sample["sourceId"].as_str().unwrap();
        let direction = if source == format!("0:{}", way.0) {
            1
        } else {
            2
        };
        assert!(
            direction == 1 || source == format!("0:{}", way.1),
            "{sample}"
        );
        own.directions.entry(way).or_default().insert(direction);
        return;
    }
    assert_eq!(sample["sampleType"], "COUNTERSSAMPLE", "{sample}");
    own.counter_samples += 1;
    let Some(generic) = element("ifInOctets") else {
        return;
    };
    let index = number(generic, "ifIndex");
    let packets = |way: &str| {
        let kinds = ["UcastPkts", "MulticastPkts", "BroadcastPkts"];
        kinds
            .map(|k| number(generic, &format!("{way}{k}")))
            .iter()
            .sum()
    };
    let octets = |way: &str| number(generic, &format!("{way}Octets"));
    let counters = [
        octets("ifIn"),
        packets("ifIn"),
        octets("ifOut"),
        packets("ifOut"),
    ];
    own.counters.insert(index, counters);
    if let Some(name) = element("ifName") {
        let name = name["ifName"].as_str().unwrap().to_owned();
        own.index.insert(name, index);
    }
}

fn goflow2_flows(text: &str) -> Flows {
    let mut flows = Flows::new();
    for m in objects(text) {
        assert_eq!(m["type"], "SFLOW_5", "{m}");
        let rate = number(&m, "sampling_rate");
        let way = (number(&m, "in_if"), number(&m, "out_if"));
        add(
            &mut flows,
            way,
            rate * number(&m, "packets"),
            rate * number(&m, "bytes"),
        );
    }
    flows
}

/// One of goflow2's metrics, summed over its labels that contain `label`; 0 while there is none.
fn metric(ns: &Netns, name: &str, label: &str) -> u64 {
    let program = "import urllib.request;print(urllib.request.urlopen('http://127.0.0.1:8080/metrics').read().decode())";
    let mut command = ns.command("python3 -c");
    let out = command.arg(program).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("goflow2_flow_process_sf_total"), "{text}");
    let named = |l: &&str| l.starts_with(name) && l[name.len()..].starts_with('{');
    let values = text.lines().filter(named).filter(|l| l.contains(label));
    values
        .map(|l| l.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64)
        .sum()
}

/// nfdump scales by itself.
fn nfdump_flows(dir: &Path) -> Flows {
    let text = must("nfdump", &["-R", &dir.display().to_string(), "-o", "json"]);
    let all: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let mut flows = Flows::new();
    for f in all.as_array().unwrap() {
        let way = (number(f, "input_snmp"), number(f, "output_snmp"));
        add(
            &mut flows,
            way,
            number(f, "in_packets"),
            number(f, "in_bytes"),
        );
    }
    flows
}

/// So does sfacctd, by how far the sample pool went on; and the way each was sampled, 1 in and 2 out.
fn sfacctd_flows(text: &str) -> (Flows, Directions) {
    let (mut flows, mut directions) = (Flows::new(), Directions::new());
    for f in objects(text) {
        let way = (number(&f, "iface_in"), number(&f, "iface_out"));
        add(&mut flows, way, number(&f, "packets"), number(&f, "bytes"));
        directions.entry(way).or_default().insert(number(&f, "tag"));
    }
    (flows, directions)
}

/// tshark shows the fields of every sample of a datagram in one line, separated by commas.
fn tshark_flows(capture: &Path) -> Flows {
    let mut args = vec!["-r", capture.to_str().unwrap()];
    let port = format!("udp.port=={TSHARK},sflow");
    args.extend(["-d", &port, "-T", "fields", "-E", "separator=;"]);
    for field in [
        "sflow.flow_sample.input_interface_value",
        "sflow.flow_sample.output_interface_value",
        "sflow.flow_sample.sampling_rate",
        "sflow_245.header.frame_length",
    ] {
        args.extend(["-e", field]);
    }
    let mut flows = Flows::new();
    for line in must("tshark", &args).lines().filter(|l| l.contains(';')) {
        let columns: Vec<Vec<u64>> = line
            .split(';')
            .map(|c| c.split(',').filter_map(|n| n.parse().ok()).collect())
            .collect();
        let [inputs, outputs, rates, lengths] = columns.as_slice() else {
            panic!("four columns: {line}")
        };
        assert!(
            columns.iter().all(|c| c.len() == inputs.len()),
            "as many of each: {line}"
        );
        for n in 0..inputs.len() {
            add(
                &mut flows,
                (inputs[n], outputs[n]),
                rates[n],
                rates[n] * lengths[n],
            );
        }
    }
    flows
}

/// What tshark finds wrong.
fn tshark_errors(capture: &Path) -> String {
    let port = format!("udp.port=={TSHARK},sflow");
    let filter = "_ws.malformed || _ws.expert.severity == error || !sflow";
    let file = capture.to_str().unwrap();
    let said = must("tshark", &["-r", file, "-d", &port, "-Y", filter]);
    let errors = said.lines().filter(|l| !l.contains("Running as user"));
    errors.collect::<Vec<_>>().join("\n")
}

/// Waits until all streams ran out, all samples were sent, and counter samples say what the router's counters say at the end. Gives what
/// `show interface` says then, and how many samples were taken.
fn until_sent(router: &Router, collectors: &Collectors) -> (Value, u64) {
    let mut shown = Value::Null;
    until("all packets came by", || {
        shown = router.json("show interface");
        let came = |i| counter(&shown, i, "rx_packets") == PACKETS;
        let left = |i| counter(&shown, i, "tx_packets") >= PACKETS;
        ["pg0", "pg1", "pg4"].into_iter().all(came) && ["pg2", "pg3", "pg5"].into_iter().all(left)
    });
    let mut samples = 0;
    until("all samples are sent", || {
        let shown = router.json("show sflow");
        samples = sum(&shown["interfaces"], "samples");
        assert_eq!(sum(&shown["interfaces"], "dropped"), 0, "{shown}");
        sum(&shown["agent"]["rings"], "drained") == samples
    });
    until("counter samples say what the router says", || {
        let text = collectors.read("decode.out");
        // The last line may be half written.
        let own = own(text.rsplit_once('\n').map_or("", |(whole, _)| whole));
        let names = ["rx_bytes", "rx_packets", "tx_bytes", "tx_packets"];
        let same = |(name, index): (&String, &u64)| {
            own.counters[index] == names.map(|c| counter(&shown, name, c))
        };
        own.index.len() == 6 && own.index.iter().all(same)
    });
    (shown, samples)
}

/// A counter in the answer to `show interface`.
fn counter(shown: &Value, interface: &str, name: &str) -> u64 {
    let mut all = shown.as_array().unwrap().iter();
    let i = all.find(|i| i["name"] == interface).unwrap();
    i["counters"][name].as_u64().unwrap_or(0)
}

fn sum(list: &Value, key: &str) -> u64 {
    list.as_array()
        .unwrap()
        .iter()
        .map(|v| number(v, key))
        .sum()
}

/// goflow2 decoded every datagram and record, and dropped none.
fn goflow2_is_content(ns: &Netns) {
    for error in ["flow_decoder_error_total", "flow_dropped_packets_total"] {
        assert_eq!(metric(ns, &format!("goflow2_{error}"), ""), 0, "{error}");
    }
    let unknown = metric(ns, "goflow2_flow_process_sf_samples_total", "unknown");
    assert_eq!(unknown, 0, "samples that goflow2 does not know");
}

/// What the collectors made of it all.
struct Seen {
    own: Own,
    goflow2: Flows,
    sfcapd: Flows,
    sfacctd: (Flows, Directions),
    tshark: Option<Flows>,
}

/// Ends them in the way that makes each write what it has; none must have complained.
fn end(c: Collectors, tshark_knows_all: bool) -> Seen {
    let dir = c.dir;
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    c.goflow2.end("-TERM");
    c.sfcapd.end("-TERM");
    c.sfacctd.end("-INT");
    c.tshark.end("-INT");
    c.decode.end("-INT");
    let log = read("goflow2.log");
    assert!(
        !log.contains("level=ERROR") && !log.contains("level=WARN"),
        "{log}"
    );
    let log = read("sfcapd.log") + &read("sfcapd.out");
    assert!(
        log.contains("Sequence Errors: 0, Bad Packets: 0")
            && !["length error", "caught exception", "unexpected", "unknown"]
                .iter()
                .any(|e| log.contains(e)),
        "{log}"
    );
    let log = read("sfacctd.log") + &read("sfacctd.out");
    let complaints = ["ERROR", "WARN", "discarding", "missing"];
    assert!(
        log.contains("Purging cache - END") && !complaints.iter().any(|e| log.contains(e)),
        "{log}"
    );
    let capture = dir.path().join("tshark.pcapng");
    let tshark = tshark_knows_all.then(|| {
        assert_eq!(tshark_errors(&capture), "");
        tshark_flows(&capture)
    });
    let status = objects(&read("decode.log")).last().unwrap();
    for lost in [
        "malformed",
        "lost_datagrams",
        "lost_flow_samples",
        "agent_drops",
    ] {
        assert_eq!(number(&status, lost), 0, "{status}");
    }
    let own = own(&read("decode.out"));
    assert_eq!(own.samples, number(&status, "flow_samples"), "{status}");
    Seen {
        own,
        goflow2: goflow2_flows(&read("goflow2.json")),
        sfcapd: nfdump_flows(&dir.path().join("nfcapd")),
        sfacctd: sfacctd_flows(&read("sfacctd.json")),
        tshark,
    }
}

/// What the router counted of the packets that came in by one interface and left by another.
struct Truth {
    way: (u64, u64),
    packets: u64,
    /// Without frame check sequence.
    bytes: u64,
    rate: u64,
    /// Sampled where they came in: 1; where they left: 2.
    tag: u64,
}

fn check(seen: &Seen, truths: &[Truth]) {
    // The same samples, multiplied in the same way.
    assert_eq!(seen.goflow2, seen.own.flows, "goflow2");
    assert_eq!(seen.sfcapd, seen.own.flows, "sfcapd");
    if let Some(tshark) = &seen.tshark {
        assert_eq!(tshark, &seen.own.flows, "tshark");
    }
    let (sfacctd, tags) = &seen.sfacctd;
    for (who, estimates, directions) in [
        ("all", &seen.own.flows, &seen.own.directions),
        ("sfacctd", sfacctd, tags),
    ] {
        let ways = estimates.keys().filter(|way| way.0 != INTERNAL);
        assert_eq!(ways.count(), truths.len(), "{who}: {estimates:?}");
        for t in truths {
            within_the_bound(who, estimates[&t.way], t, seen.own.squares[&t.way]);
            assert_eq!(directions[&t.way], BTreeSet::from([t.tag]), "{who}");
        }
    }
}

/// Four standard deviations: of M packets, each sampled with the chance 1/N and counted N times, the estimate has the variance
/// M (N - 1), that of their bytes (N - 1) times the sum of the squares of their lengths.
fn within_the_bound(who: &str, estimate: Flow, t: &Truth, squares: u64) {
    let bound = |squares: u64| 4.0 * ((t.rate - 1) as f64 * squares as f64).sqrt();
    let off = estimate.packets.abs_diff(t.packets) as f64;
    assert!(
        off < bound(t.packets),
        "{who}: {estimate:?} of {} packets",
        t.packets
    );
    let bytes = t.bytes + FCS * t.packets;
    let off = estimate.bytes.abs_diff(bytes) as f64;
    assert!(off < bound(squares), "{who}: {estimate:?} of {bytes} bytes");
}

/// Sends to all four, with these records in the samples, and compares what they make of them.
fn compare(records: &str, tshark_knows_them: bool) {
    let ns = Netns::new("r");
    let collectors = Collectors::start(&ns);
    let router = Router::start_with(&ns, &CONFIG.replace("RECORDS", records));
    for command in LATER {
        router.ctl(command);
    }
    router.ctl("packet-generator enable-stream");
    let (shown, samples) = until_sent(&router, &collectors);
    assert!(router.stop());
    for port in [GOFLOW2, SFCAPD, SFACCTD, TSHARK] {
        ns.await_read(port);
    }
    let decoded = |kind| metric(&ns, "goflow2_flow_process_sf_samples_total", kind);
    until("goflow2 has all", || {
        decoded("ExpandedFlowSample") == samples
    });
    goflow2_is_content(&ns);
    let counter_samples = decoded("ExpandedCounterSample");
    let seen = end(collectors, tshark_knows_them);
    assert_eq!(seen.own.samples, samples);
    assert_eq!(seen.own.counter_samples, counter_samples);

    let streams = [
        ("pg0", "pg2", 20, "rx"),
        ("pg1", "pg3", 40, "rx"),
        ("pg4", "pg5", 30, "tx"),
    ];
    let truths = streams.map(|(input, output, rate, direction)| {
        let at = if direction == "rx" { input } else { output };
        Truth {
            way: (seen.own.index[input], seen.own.index[output]),
            packets: counter(&shown, at, &format!("{direction}_packets")),
            bytes: counter(&shown, at, &format!("{direction}_bytes")),
            rate,
            tag: if direction == "rx" { 1 } else { 2 },
        }
    });
    check(&seen, &truths);
}

#[test]
fn four_collectors_beside_each_other_agree_with_the_router() {
    compare("egress-queue: false, transit-delay: false", true);
}

/// tshark does not skip records of flow samples that it does not know, so it is not asked here.
#[test]
fn every_record_there_is_disturbs_no_collector() {
    compare("vlan-tunnel: true, timestamp: true", false);
}
