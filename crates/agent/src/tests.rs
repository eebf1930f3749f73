//! The agent as a whole, from samples and counters to datagrams, read back by the decoder.

mod counters;
mod ways;

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use parshall_counters::IfTotals;
use parshall_ring::{Producer, ring};
use parshall_sample::{Direction, SampleSlot};
use parshall_sflow_wire::{CounterRecord, DataSource, Datagram, FlowRecord, Interface, Sample};
use proptest::prelude::*;

use crate::agent::Agent;
use crate::config::AgentConfig;
use crate::fake::{self, Capture, FakeRouter, agent, interface, quiet, sample};
use crate::router::RouteInfo;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

fn with_rings(a: &mut Agent, rings: u32, slots: usize) -> Vec<Producer<SampleSlot>> {
    (0..rings)
        .map(|i| {
            let (p, c) = ring(slots);
            a.add_source(i, c);
            p
        })
        .collect()
}

fn put(p: &mut Producer<SampleSlot>, s: SampleSlot) {
    assert!(p.push(s).is_ok());
}

/// A decoded flow sample: what the tests look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flow {
    source: u32,
    sequence: u32,
    pool: u32,
    drops: u32,
    input: Interface,
    output: Interface,
    id: u32,
}

fn decode_flows(bytes: &[u8]) -> Vec<Flow> {
    let mut out = Vec::new();
    for s in Datagram::parse(bytes).unwrap().samples() {
        let Sample::Flow(f) = s.unwrap() else {
            continue;
        };
        let records: Vec<FlowRecord<'_>> = f.flow_records().map(Result::unwrap).collect();
        let [.., FlowRecord::Switch(_), FlowRecord::RawHeader(h)] = records[..] else {
            panic!("{records:?}")
        };
        assert_eq!(
            (h.protocol, h.frame_length, h.stripped, f.head.rate),
            (1, 1004, 4, 100)
        );
        out.push(Flow {
            source: f.head.source.index,
            sequence: f.head.sequence,
            pool: f.head.pool,
            drops: f.head.drops,
            input: f.head.input,
            output: f.head.output,
            id: u32::from_be_bytes(h.header[..4].try_into().unwrap()),
        });
    }
    out
}

fn flows(sent: &Capture) -> Vec<Flow> {
    sent.take()
        .iter()
        .flat_map(|(_, d)| decode_flows(d))
        .collect()
}

/// Source, sequence and record formats of each counter sample.
fn counters(bytes: &[u8]) -> Vec<(DataSource, u32, Vec<u32>)> {
    let samples = Datagram::parse(bytes).unwrap();
    let mut out = Vec::new();
    for s in samples.samples() {
        if let Sample::Counters(c) = s.unwrap() {
            let tags = c
                .counter_records()
                .map(|r| r.unwrap().tag().format())
                .collect();
            out.push((c.head.source, c.head.sequence, tags));
        }
    }
    out
}

#[test]
fn one_sample_leaves_within_its_second() {
    let (mut a, sent) = agent(quiet(), FakeRouter::with(2));
    let mut p = with_rings(&mut a, 1, 16).remove(0);
    put(&mut p, sample(2, 77, 64));
    let start = 5 * SECOND;
    let mut now = start;
    while sent.0.lock().unwrap().is_empty() {
        now = a.poll(now).max(now + 1);
    }
    let (at, bytes) = sent.take().remove(0);
    assert_eq!(at, start + 900 * MS);
    let d = Datagram::parse(&bytes).unwrap();
    assert_eq!(d.agent.to_string(), fake::ADDRESS);
    assert_eq!(
        (d.sub_agent_id, d.sequence, d.uptime_ms, d.sample_count),
        (0, 1, 5000, 1)
    );
    let flow = decode_flows(&bytes)[0];
    assert_eq!((flow.source, flow.sequence, flow.id), (102, 1, 77));
    assert_eq!(
        (flow.input, flow.output),
        (Interface::index(102), Interface::UNKNOWN)
    );
}

#[test]
fn outputs_come_from_the_sample_then_from_the_route() {
    let router = FakeRouter::with(3);
    let (mut a, sent) = agent(quiet(), router.clone());
    let mut p = with_rings(&mut a, 1, 16).remove(0);
    let route = |out_if| RouteInfo {
        out_if,
        next_hop: "::".parse().unwrap(),
        src_mask_len: 0,
        dst_mask_len: 0,
    };
    let mut out = |route: Option<RouteInfo>, rx_if, tx_if| {
        *router.route.lock().unwrap() = route;
        put(
            &mut p,
            SampleSlot {
                tx_if,
                ..sample(rx_if, 0, 14)
            },
        );
        a.finish(SECOND);
        let f = flows(&sent)[0];
        (f.source, f.input, f.output)
    };
    const NONE: u32 = u32::MAX;
    let i = Interface::index;
    assert_eq!(out(Some(route(109)), 1, 3), (101, i(101), i(103)));
    assert_eq!(out(Some(route(2)), 1, NONE), (101, i(101), i(102)));
    assert_eq!(
        out(Some(route(0)), 1, NONE),
        (101, i(101), Interface::UNKNOWN)
    );
    assert_eq!(
        out(Some(route(RouteInfo::INTERNAL)), 1, NONE),
        (101, i(101), Interface::INTERNAL)
    );
    assert_eq!(out(None, 1, NONE), (101, i(101), Interface::UNKNOWN));
    // Made by the router itself: counted where it leaves.
    assert_eq!(out(None, NONE, 2), (102, Interface::INTERNAL, i(102)));
}

#[test]
fn pool_and_drops_are_the_routers_and_wrap() {
    let router = FakeRouter::with(1);
    let (mut a, sent) = agent(quiet(), router.clone());
    let mut p = with_rings(&mut a, 1, 16).remove(0);
    let mut seen = Vec::new();
    // A change of rate leaves pool and sequence alone; counters that were cleared start the sequence again.
    for (pool, drops, rate) in [
        ((1 << 32) - 1, 3, 100),
        ((1 << 32) + 9, 4, 50),
        (7, 0, 50),
        (8, 0, 50),
    ] {
        router.pools.lock().unwrap().insert(1, (pool, drops));
        put(
            &mut p,
            SampleSlot {
                rate,
                ..sample(1, 0, 14)
            },
        );
        a.finish(SECOND);
        let bytes = sent.take().remove(0).1;
        let Some(Ok(Sample::Flow(f))) = Datagram::parse(&bytes).unwrap().samples().next() else {
            panic!()
        };
        seen.push((f.head.sequence, f.head.pool, f.head.drops, f.head.rate));
    }
    assert_eq!(
        seen,
        [
            (1, u32::MAX, 3, 100),
            (2, 9, 4, 50),
            (1, 7, 0, 50),
            (2, 8, 0, 50)
        ]
    );
}

#[test]
fn rings_are_drained_in_turns() {
    let (mut a, sent) = agent(quiet(), FakeRouter::with(3));
    let mut ps = with_rings(&mut a, 3, 16_384);
    for _ in 0..16_384 {
        put(&mut ps[0], sample(1, 0, 64));
    }
    for (p, rx_if) in ps[1..].iter_mut().zip([2, 3]) {
        for _ in 0..1000 {
            put(p, sample(rx_if, 0, 64));
        }
    }
    // One call has a budget; the full ring must not have used it up before the others had their share.
    assert_eq!(a.poll(SECOND), SECOND);
    let rings = a.status(SECOND).rings;
    assert_eq!((rings[1].waiting, rings[2].waiting), (0, 0));
    assert!(rings[0].waiting > 8000);
    while a.poll(SECOND) == SECOND {}
    a.finish(SECOND);
    assert_eq!(flows(&sent).len(), 18_384);
    assert_eq!(a.status(SECOND).flow_samples, 18_384);
}

#[test]
fn samples_of_interfaces_that_are_gone_are_counted() {
    let router = FakeRouter::with(1);
    let (mut a, sent) = agent(quiet(), router.clone());
    let mut p = with_rings(&mut a, 1, 16).remove(0);
    put(&mut p, sample(9, 0, 64));
    a.poll(SECOND);
    assert_eq!(a.status(SECOND).orphans, 1);
    // One that was made just now is found at once, without waiting for the next reading of the list.
    router.interfaces.lock().unwrap().push(interface(9));
    put(&mut p, sample(9, 0, 64));
    a.poll(SECOND + 200 * MS);
    a.finish(SECOND + 200 * MS);
    assert_eq!(flows(&sent).len(), 1);
}

#[test]
fn a_new_address_is_a_new_agent_and_bad_settings_change_nothing() {
    let (mut a, sent) = agent(quiet(), FakeRouter::with(1));
    let mut p = with_rings(&mut a, 1, 16).remove(0);
    let mut one = |a: &mut Agent, now| {
        put(&mut p, sample(1, 0, 64));
        a.finish(now);
        let bytes = sent.take().remove(0).1;
        let d = Datagram::parse(&bytes).unwrap();
        (
            d.agent.to_string(),
            d.sequence,
            d.uptime_ms,
            decode_flows(&bytes)[0].sequence,
        )
    };
    assert_eq!(one(&mut a, SECOND), ("192.0.2.1".to_owned(), 1, 1000, 1));
    assert_eq!(
        one(&mut a, 2 * SECOND),
        ("192.0.2.1".to_owned(), 2, 2000, 2)
    );
    let bad = AgentConfig {
        max_datagram: 1,
        sub_agent_id: 5,
        ..quiet()
    };
    assert!(a.set_config(bad, 3 * SECOND).is_err());
    assert_eq!(a.config(), &quiet());
    let moved = AgentConfig {
        agent_address: Some("2001:db8::1".parse().unwrap()),
        ..quiet()
    };
    a.set_config(moved, 3 * SECOND).unwrap();
    assert_eq!(
        one(&mut a, 4 * SECOND),
        ("2001:db8::1".to_owned(), 1, 1000, 1)
    );
}

#[test]
fn a_waiting_sample_leaves_under_the_old_settings() {
    let (mut a, sent) = agent(quiet(), FakeRouter::with(1));
    let mut p = with_rings(&mut a, 1, 16).remove(0);
    put(&mut p, sample(1, 5, 256));
    a.poll(SECOND);
    a.set_config(
        AgentConfig {
            sub_agent_id: 9,
            max_datagram: 600,
            ..quiet()
        },
        SECOND,
    )
    .unwrap();
    put(&mut p, sample(1, 6, 256));
    put(&mut p, sample(1, 7, 256));
    a.finish(SECOND);
    let sent = sent.take();
    let seen: Vec<_> = sent
        .iter()
        .map(|(_, d)| {
            (
                Datagram::parse(d).unwrap().sub_agent_id,
                decode_flows(d)[0].id,
                d.len() <= 596,
            )
        })
        .collect();
    assert_eq!(seen, [(0, 5, true), (9, 6, true), (9, 7, true)]);
}

#[test]
fn a_removed_ring_is_emptied_first() {
    let (mut a, sent) = agent(quiet(), FakeRouter::with(1));
    let mut ps = with_rings(&mut a, 2, 16);
    put(&mut ps[0], sample(1, 1, 64));
    put(&mut ps[1], sample(1, 2, 64));
    a.remove_source(0, SECOND);
    assert!(ps[0].is_closed() && !ps[1].is_closed());
    a.finish(SECOND);
    assert_eq!(
        flows(&sent).iter().map(|f| f.id).collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(a.status(SECOND).rings.len(), 1);
}

/// One step of the random run: samples that arrive in a ring, then the time that passes.
#[derive(Clone, Debug)]
struct Step {
    ring: usize,
    samples: Vec<(u32, u16)>,
    pass_ms: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let samples = prop::collection::vec((1u32..=4, 4u16..=256), 0..40);
    let pass = prop_oneof![3 => 0u64..=10, 1 => 10u64..3000];
    let step = (0usize..3, samples, pass).prop_map(|(ring, samples, pass_ms)| Step {
        ring,
        samples,
        pass_ms,
    });
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_sample_leaves_once_in_time_and_in_order(steps in steps(), max_datagram in 600u32..1500) {
        let config = AgentConfig { max_datagram, polling_interval: 2, host_interval: 5, ..AgentConfig::default() };
        let (mut a, sent) = agent(config, FakeRouter::with(4));
        let mut ps = with_rings(&mut a, 3, 64);
        let mut now = SECOND;
        let mut arrived: Vec<u64> = Vec::new();
        let mut pushed: Vec<(usize, u32)> = Vec::new();
        for s in &steps {
            for (rx_if, len) in &s.samples {
                let id = arrived.len() as u32;
                put(&mut ps[s.ring], sample(*rx_if, id, *len));
                arrived.push(now);
                pushed.push((s.ring, id));
            }
            // The caller sleeps at most 10 ms at a time.
            let until = now + s.pass_ms * MS;
            loop {
                let wake = a.poll(now);
                if now >= until {
                    break;
                }
                now = wake.clamp(now + 1, now + 10 * MS).min(until);
            }
        }
        a.finish(now);

        let datagrams = sent.take();
        let mut seen = Vec::new();
        let mut last: HashMap<(bool, DataSource), u32> = HashMap::new();
        for (n, (time, bytes)) in datagrams.iter().enumerate() {
            prop_assert!(bytes.len() < max_datagram as usize);
            let d = Datagram::parse(bytes).unwrap();
            prop_assert_eq!(d.sequence as usize, n + 1);
            for f in decode_flows(bytes) {
                let at = arrived[f.id as usize];
                prop_assert!(time - at <= SECOND, "{} ns", time - at);
                let s = last.entry((true, DataSource::interface(f.source))).or_default();
                *s += 1;
                prop_assert_eq!(f.sequence, *s);
                seen.push(f.id);
            }
            for (source, sequence, _) in counters(bytes) {
                let s = last.entry((false, source)).or_default();
                *s += 1;
                prop_assert_eq!(sequence, *s);
            }
        }
        // Within a ring order is kept; over all rings each sample is there once.
        for ring in 0..3 {
            let of = |id: &&u32| pushed[**id as usize].0 == ring;
            let order: Vec<u32> = seen.iter().filter(of).copied().collect();
            let want: Vec<u32> = pushed.iter().filter(|p| p.0 == ring).map(|p| p.1).collect();
            prop_assert_eq!(order, want);
        }
        let status = a.status(now);
        prop_assert_eq!(status.flow_samples as usize, arrived.len());
        prop_assert_eq!((status.lost(), status.orphans, status.oversize), (0, 0, 0));
        prop_assert_eq!(status.datagrams as usize, datagrams.len());
        prop_assert_eq!(status.bytes as usize, datagrams.iter().map(|d| d.1.len()).sum::<usize>());
    }
}

#[test]
fn a_status_is_json() {
    let (mut a, _) = agent(quiet(), FakeRouter::with(1));
    let _ps = with_rings(&mut a, 1, 16);
    let json: serde_json::Value = serde_json::to_value(a.status(3 * SECOND)).unwrap();
    assert_eq!(json["agent_address"], "192.0.2.1");
    assert_eq!(json["uptime_ms"], 3000);
    assert_eq!(json["rings"][0]["lost"], 0);
}

#[test]
fn an_agent_moves_between_threads() {
    fn assert_send<T: Send>() {}
    assert_send::<Agent>();
}
