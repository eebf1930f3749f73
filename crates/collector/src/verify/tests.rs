//! Streams with known traffic in, verdicts out.

use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use parshall_sample::Sampler;
use parshall_sflow_wire::record::{IfCounters, PortName, RawHeader};
use parshall_sflow_wire::{
    CounterRecord, CounterSampleHead, DataSource, Datagram, DatagramBuilder, FlowRecord,
    FlowSampleHead, Interface, Tag,
};

use super::report::{Report, Terms, Verdict};
use super::tally::{Place, Tally, Totals};
use super::{VerifyArgs, VerifyError, run_with};

const TERMS: Terms = Terms {
    confidence: 0.999,
    slack_seconds: 0.0,
};

/// An agent that samples interface 7 on receive, and 8 on transmit, of traffic from 7 to 8.
struct Agent {
    builder: DatagramBuilder,
    number: u32,
    samplers: [Sampler; 2],
    /// Frames and bytes since the counters began, and sample numbers by interface.
    counted: (u64, u64),
    numbers: [u32; 2],
    counter_number: u32,
    /// Told rates are this many times the true ones.
    lie: u32,
}

impl Agent {
    fn new(seed: u64, rate: u32) -> Agent {
        Agent {
            builder: DatagramBuilder::new(1400),
            number: 0,
            samplers: [Sampler::new(rate, seed), Sampler::new(rate, seed ^ 0xFFFF)],
            counted: (0, 0),
            numbers: [0; 2],
            counter_number: 0,
            lie: 1,
        }
    }

    fn begin(&mut self) {
        self.number += 1;
        let agent = [192, 0, 2, 1].into();
        self.builder.begin(agent, 0, self.number, self.number);
    }

    /// Counter samples of both interfaces, as a datagram.
    fn counters(&mut self) -> Vec<u8> {
        self.counter_number += 1;
        self.begin();
        let zero = CounterRecord::decode(Tag::new(0, 1), &[0; 88], 0).unwrap();
        let CounterRecord::Interface(zero) = zero else {
            panic!("not the generic record")
        };
        for if_index in [7, 8] {
            let (packets, octets) = self.counted;
            // Counters of 32 bits are about to wrap.
            let packets = (packets as u32).wrapping_sub(5000);
            let r = if if_index == 7 {
                IfCounters {
                    if_index,
                    in_ucast_pkts: packets,
                    in_octets: octets,
                    ..zero
                }
            } else {
                IfCounters {
                    if_index,
                    out_ucast_pkts: packets,
                    out_octets: octets,
                    ..zero
                }
            };
            let name = PortName {
                name: if if_index == 7 { "left" } else { "right" }.into(),
            };
            let head = CounterSampleHead {
                sequence: self.counter_number,
                source: DataSource::interface(if_index),
            };
            self.builder
                .push_counter_sample_expanded(&head, |w| {
                    w.push(&CounterRecord::Interface(r));
                    w.push(&CounterRecord::PortName(name));
                })
                .unwrap();
        }
        self.builder.finish().to_vec()
    }

    /// Passes packets; the samples, one to a datagram.
    fn traffic(&mut self, packets: u32) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        for n in 0..packets {
            let len = if n % 3 == 0 { 66 } else { 1514 };
            self.counted.0 += 1;
            self.counted.1 += u64::from(len);
            for way in 0..2 {
                if self.samplers[way].advance(1).is_some() {
                    self.numbers[way] += 1;
                    out.push(self.sample(way, len));
                }
            }
        }
        out
    }

    fn sample(&mut self, way: usize, len: u32) -> Vec<u8> {
        self.begin();
        let head = FlowSampleHead {
            sequence: self.numbers[way],
            source: DataSource::interface(7 + way as u32),
            rate: self.samplers[way].rate() * self.lie,
            pool: self.counted.0 as u32,
            drops: 0,
            input: Interface::index(7),
            output: Interface::index(8),
        };
        let header = RawHeader {
            protocol: 1,
            frame_length: len + 4,
            stripped: 4,
            header: &[0; 64],
        };
        self.builder
            .push_flow_sample_expanded(&head, |w| w.push(&FlowRecord::RawHeader(header)))
            .unwrap();
        self.builder.finish().to_vec()
    }
}

fn tally(list: &[Vec<u8>]) -> Tally {
    let mut t = Tally::default();
    for (n, d) in list.iter().enumerate() {
        t.datagram(n as u64 * 1_000_000, d, &|_| Place::Inside);
    }
    t
}

/// Counters, traffic, counters, traffic, counters.
fn stream(agent: &mut Agent) -> Vec<Vec<u8>> {
    // What came before the first reading, and after the last, does not count.
    let mut all = agent.traffic(2000);
    for _ in 0..2 {
        all.push(agent.counters());
        all.extend(agent.traffic(30_000));
    }
    all.push(agent.counters());
    all.extend(agent.traffic(2000));
    all
}

#[test]
fn honest_samples_are_within() {
    let list = stream(&mut Agent::new(1, 100));
    let report = Report::of(&tally(&list), &[], TERMS);
    assert_eq!((report.judged, report.wrong), (4, 0), "{report}");
    // Captured where segmentation offload had not taken them apart yet, they are the same.
    let rows: Vec<Vec<u8>> = list.chunks(7).map(<[_]>::concat).collect();
    let glued = tally(&rows);
    assert_eq!(glued.datagrams, list.len() as u64);
    let again = Report::of(&glued, &[], TERMS);
    assert_eq!(again.interfaces[0].samples, report.interfaces[0].samples);
    let row = |d: &str, indirect: bool| {
        let found = report
            .interfaces
            .iter()
            .find(|r| r.direction == d && r.indirect == indirect);
        found.unwrap().clone()
    };
    let rx = row("rx", false);
    assert_eq!((rx.if_index, rx.interface.as_deref()), (7, Some("left")));
    assert_eq!(rx.packets.truth, Some(60_000));
    assert_eq!(rx.bytes.truth, Some(20_000 * 66 + 40_000 * 1514));
    assert!((500..700).contains(&rx.samples) && rx.rate == Some(100));
    let bound = rx.sflow_bound_percent.unwrap();
    assert!((bound - 196.0 / (rx.samples as f64).sqrt()).abs() < 1e-9);
    assert!((rx.packets.bound95_percent.unwrap() / bound - 1.0).abs() < 0.2);
    // Mixed lengths: the bound of bytes is wider.
    assert!(rx.bytes.bound95_percent > rx.packets.bound95_percent);
    let tx = row("tx", false);
    assert_eq!((tx.if_index, tx.packets.truth), (8, Some(60_000)));
    let text = report.to_string();
    assert!(
        text.contains("4 comparisons judged") && text.contains("left"),
        "{text}"
    );
}

#[test]
fn a_rate_that_lies_is_found() {
    let mut agent = Agent::new(2, 100);
    agent.lie = 2;
    let report = Report::of(&tally(&stream(&mut agent)), &[], TERMS);
    assert_eq!(report.wrong, 4, "{report}");
    assert!(
        report
            .interfaces
            .iter()
            .all(|r| r.packets.verdict == Verdict::Wrong)
    );
}

#[test]
fn lost_datagrams_do_not_bias_the_estimate() {
    let mut list = stream(&mut Agent::new(3, 50));
    let counters = |d: &Vec<u8>| {
        let sample = Datagram::parse(d).unwrap().raw_samples().next().unwrap();
        sample.unwrap().tag == Tag::new(0, 4)
    };
    let mut n = 0;
    list.retain(|d| {
        n += 1;
        counters(d) || n % 4 != 0
    });
    let report = Report::of(&tally(&list), &[], TERMS);
    assert_eq!(report.wrong, 0, "{report}");
    let rx = &report.interfaces[0];
    assert!(
        rx.lost > 200 && rx.packets.deviation_percent.unwrap().abs() < 15.0,
        "{report}"
    );
}

#[test]
fn alarms_of_honest_agents_are_rare() {
    let wrong = (0..150).filter(|seed| {
        let mut a = Agent::new(1000 + seed, 20);
        let mut list = vec![a.counters()];
        list.extend(a.traffic(3000));
        list.push(a.counters());
        Report::of(&tally(&list), &[], TERMS).wrong > 0
    });
    // One in a thousand runs is promised.
    assert!(wrong.count() <= 2);
}

#[test]
fn interfaces_that_are_not_sampled_on_transmit_are_estimated_and_not_judged() {
    let mut agent = Agent::new(4, 100);
    agent.samplers[1].set_rate(0);
    let report = Report::of(&tally(&stream(&mut agent)), &[], TERMS);
    let mut rows = report.interfaces.iter();
    let right = rows
        .find(|r| r.if_index == 8 && r.direction == "tx")
        .unwrap();
    assert!(right.indirect);
    assert!(right.packets.deviation_percent.unwrap().abs() < 20.0);
    assert_eq!(report.judged, 2, "{report}");
}

#[test]
fn counters_that_began_anew_are_left_out() {
    let mut a = Agent::new(5, 100);
    let mut list = vec![a.counters()];
    list.extend(a.traffic(10_000));
    list.push(a.counters());
    list.extend(a.traffic(5000));
    // The interface was made again.
    (a.counted, a.counter_number, a.numbers) = ((0, 0), 0, [0; 2]);
    list.push(a.counters());
    list.extend(a.traffic(10_000));
    list.push(a.counters());
    let report = Report::of(&tally(&list), &["left".into()], TERMS);
    assert_eq!(report.interfaces.len(), 1);
    assert_eq!(report.interfaces[0].packets.truth, Some(20_000), "{report}");
    assert_eq!(report.wrong, 0);
}

#[test]
fn counters_in_the_stream_do_not_cut_a_period_that_is_cut_elsewhere() {
    let mut t = Tally {
        names_only: true,
        ..Tally::default()
    };
    for d in stream(&mut Agent::new(8, 100)) {
        t.datagram(0, &d, &|_| Place::Inside);
    }
    let key = *t.interfaces.keys().find(|k| k.2 == 7).unwrap();
    let totals = Totals {
        packets: Some(64_000),
        bytes: None,
    };
    t.close(key, [totals, Totals::default()], 4.0);
    let report = Report::of(&t, &[], TERMS);
    let rx = &report.interfaces[0];
    assert_eq!(rx.packets.verdict, Verdict::Within, "{report}");
    assert_eq!(rx.bytes.verdict, Verdict::Unknown);
    assert_eq!(rx.interface.as_deref(), Some("left"));
}

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: VerifyArgs,
}

fn args(list: &[&str]) -> Result<VerifyArgs, String> {
    let parsed = Command::try_parse_from(["verify"].iter().chain(list));
    parsed.map(|c| c.args).map_err(|e| e.to_string())
}

#[test]
fn a_stream_from_the_network_is_judged() {
    // A port that is free now: the stream is sent until somebody has listened long enough.
    let port = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let (done, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let listen = port.to_string();
    let list = args(&["--listen", &listen, "--period", "2", "--json"]).unwrap();
    let mut out = Vec::new();
    let report = std::thread::scope(|s| {
        s.spawn(|| {
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut agent = Agent::new(6, 10);
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let mut all = agent.traffic(200);
                all.push(agent.counters());
                for d in all {
                    // Refused until it listens.
                    let _ = sender.send_to(&d, port);
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        let report = run_with(&list, &mut out, &stop);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        report
    })
    .unwrap();
    assert_eq!((report.judged, report.wrong), (4, 0), "{report}");
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(json["interfaces"][0]["interface"], "left");
    assert!(json["interfaces"][0]["packets"]["true"].as_u64() > Some(0));
}

#[test]
fn what_cannot_be_compared_is_said() {
    let stop = AtomicBool::new(false);
    let run = |list: &[&str]| run_with(&args(list).unwrap(), &mut Vec::new(), &stop);
    let e = run(&["--socket", "no-such.sock"]).unwrap_err();
    assert!(e.to_string().contains("no such socket"), "{e}");
    let data = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../sflow-wire/tests/data/sflow-records.pcap"
    );
    let e = run(&[data]).unwrap_err();
    assert!(matches!(e, VerifyError::Nothing(_)), "{e}");
    assert!(matches!(run(&["-p", "9", data]), Err(VerifyError::Silent)));
    let e = args(&["--confidence", "101"]).unwrap_err();
    assert!(e.contains("from 50 to 99.9999"), "{e}");
}

#[test]
fn hostile_streams_do_no_harm() {
    let good = stream(&mut Agent::new(7, 200));
    let mut t = Tally::default();
    let mut state = 1u64;
    for d in good.iter().take(300) {
        let mut d = d.clone();
        for _ in 0..4 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let at = (state >> 33) as usize % d.len();
            d[at] = (state >> 24) as u8;
        }
        t.datagram(0, &d, &|_| Place::Inside);
        t.datagram(0, &d[..d.len() / 2], &|_| Place::Inside);
    }
    assert!(t.malformed > 0 && t.datagrams == 2 * 300.min(good.len() as u64));
    let _ = Report::of(&t, &[], TERMS).to_string();
}
