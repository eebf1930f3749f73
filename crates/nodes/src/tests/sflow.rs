//! `sflow`: what is sampled, how it is counted, and whether the counts are true (sFlow Version 5).

use parshall_counters::IfTotals;
use parshall_sample::SampleSlot;

use super::lab::*;
use super::parshall_nodes::SflowSettings;

fn sampling(lab: &mut Lab, n: u32, rate: u32, header_bytes: u16) {
    lab.graph.set_feature("sflow", n, rate != 0).unwrap();
    let settings = SflowSettings {
        if_index: n,
        rate,
        header_bytes,
    };
    lab.tell("sflow", settings);
}

fn totals(lab: &Lab, n: usize) -> IfTotals {
    let mut sum = IfTotals::default();
    lab.harness.dispatcher.counters.interfaces[n].add_to(&mut sum);
    sum
}

fn samples(lab: &mut Lab) -> Vec<SampleSlot> {
    std::iter::from_fn(|| lab.out.samples.read(|s| *s)).collect()
}

/// Turns the worker until every queue is empty.
fn drain(lab: &mut Lab) {
    while lab.harness.dispatcher.turn(lab.now) != 0 {}
}

/// A frame that is dropped at once, so that runs are quick.
fn quick() -> Vec<u8> {
    let mut frame = to_router(1).payload_len(50).build();
    frame[0] = 4;
    frame
}

#[test]
fn a_rate_of_1_takes_every_packet() {
    let mut lab = Lab::new();
    sampling(&mut lab, 1, 1, 128);
    lab.receive(1, &quick(), 1000);
    drain(&mut lab);
    let t = totals(&lab, 1);
    assert_eq!((t.sample_pool, t.samples, t.sample_drops), (1000, 1000, 0));
    assert_eq!(samples(&mut lab).len(), 1000);
}

#[test]
fn a_sample_says_what_was_on_the_wire() {
    let mut lab = Lab::new();
    sampling(&mut lab, 2, 1, 64);
    let frame = to_router(2)
        .ipv4(host4(2), far4(3))
        .udp(1, 2)
        .payload_len(300)
        .build();
    lab.receive(2, &frame, 1);
    let sent = lab.wait(1);
    assert_eq!(sent.len(), 1);
    let s = samples(&mut lab)[0];
    assert_eq!((s.rx_if, s.tx_if, s.rate), (2, u32::MAX, 1));
    assert_eq!((s.frame_len, s.header_len), (342, 64));
    assert_eq!(s.header[..64], frame[..64]);
}

#[test]
fn header_bytes_are_bounded_by_the_frame_and_the_slot() {
    for (asked, len, kept) in [
        (64, 60, 60),
        (128, 1514, 128),
        (1000, 1514, 256),
        (256, 9000, 256),
    ] {
        let mut lab = Lab::new();
        sampling(&mut lab, 1, 1, asked);
        let mut frame = quick();
        frame.resize(len, 0xAB);
        lab.receive(1, &frame, 1);
        drain(&mut lab);
        let s = samples(&mut lab)[0];
        assert_eq!((s.header_len, s.frame_len), (kept, len as u32));
        assert_eq!(s.header[..usize::from(kept)], frame[..usize::from(kept)]);
    }
}

#[test]
fn an_interface_without_sampling_has_no_pool() {
    let mut lab = Lab::new();
    sampling(&mut lab, 2, 1, 128);
    lab.receive(1, &quick(), 100);
    lab.receive(2, &quick(), 100);
    drain(&mut lab);
    assert_eq!(
        (totals(&lab, 1).sample_pool, totals(&lab, 2).sample_pool),
        (0, 100)
    );
    assert!(samples(&mut lab).iter().all(|s| s.rx_if == 2));
    sampling(&mut lab, 2, 0, 128);
    lab.receive(2, &quick(), 100);
    drain(&mut lab);
    assert_eq!(totals(&lab, 2).samples, 100);
}

#[test]
fn a_full_ring_is_counted_and_disturbs_nothing() {
    let mut lab = Lab::new();
    sampling(&mut lab, 1, 1, 128);
    lab.receive(1, &quick(), 20_000);
    drain(&mut lab);
    let t = totals(&lab, 1);
    assert_eq!(t.sample_pool, 20_000);
    assert_eq!(t.samples + t.sample_drops, 20_000);
    assert!(t.sample_drops > 0);
    assert_eq!(samples(&mut lab).len() as u64, t.samples);
    lab.harness.conserved().unwrap();
    // There is room again.
    lab.receive(1, &quick(), 10);
    drain(&mut lab);
    assert_eq!(totals(&lab, 1).samples, t.samples + 10);
}

#[test]
fn a_change_of_rate_is_told_with_each_sample() {
    let mut lab = Lab::new();
    for rate in [1, 2, 1] {
        sampling(&mut lab, 1, rate, 128);
        lab.receive(1, &quick(), 200);
        drain(&mut lab);
        let taken = samples(&mut lab);
        assert!(!taken.is_empty() && taken.iter().all(|s| s.rate == rate));
    }
}

#[test]
fn the_pool_is_right_whatever_comes_between() {
    let mut lab = Lab::new();
    let now = lab.now;
    let pool = |lab: &Lab| totals(lab, 1).sample_pool;
    sampling(&mut lab, 1, 1 << 30, 128);
    // Received in one turn, and nothing after it that would make the dispatcher tell of it.
    lab.receive(1, &quick(), 100);
    lab.harness.dispatcher.turn(now);
    sampling(&mut lab, 1, 1 << 29, 128);
    assert_eq!(pool(&lab), 100);
    // A traced frame goes another way than the one before and the one after it.
    let input = lab.graph.node("pg-input").unwrap();
    for traced in [0, 3, 0] {
        lab.receive(1, &quick(), 10);
        lab.harness.dispatcher.trace(input, traced);
        lab.harness.dispatcher.turn(now);
    }
    sampling(&mut lab, 1, 1, 128);
    assert_eq!((pool(&lab), totals(&lab, 1).samples), (130, 0));
    // Without a change of rate, but with one of switches: off and on again.
    lab.receive(1, &quick(), 7);
    lab.harness.dispatcher.turn(now);
    lab.graph.set_feature("sflow", 1, false).unwrap();
    lab.receive(1, &quick(), 50);
    drain(&mut lab);
    lab.graph.set_feature("sflow", 1, true).unwrap();
    lab.receive(1, &quick(), 5);
    drain(&mut lab);
    assert_eq!((pool(&lab), totals(&lab, 1).samples), (142, 12));
}

#[test]
fn a_busy_interface_is_behind_in_its_pool_by_a_bounded_number() {
    let mut lab = Lab::new();
    sampling(&mut lab, 1, 1 << 30, 128);
    lab.receive(1, &quick(), 50_000);
    for _ in 0..100 {
        lab.harness.dispatcher.turn(lab.now);
        let t = totals(&lab, 1);
        assert!(t.rx_packets - t.sample_pool <= 4096, "{t:?}");
    }
}

#[test]
fn settings_of_an_interface_that_cannot_exist_are_ignored() {
    let mut lab = Lab::new();
    let settings = SflowSettings {
        if_index: 77,
        rate: 1,
        header_bytes: 128,
    };
    assert!(lab.tell("sflow", settings).is_empty());
}

#[test]
fn an_estimate_lies_in_its_bound_in_about_95_of_100_runs_for_every_interface() {
    const RATES: [u32; 3] = [5, 20, 100];
    const PACKETS: u64 = 10_000;
    let mut inside = [0; 3];
    for seed in 1..=100 {
        let mut lab = Lab::seeded(seed);
        for (n, rate) in (1..).zip(RATES) {
            sampling(&mut lab, n, rate, 64);
            lab.receive(n, &quick(), PACKETS);
        }
        drain(&mut lab);
        for (i, rate) in RATES.into_iter().enumerate() {
            let t = totals(&lab, i + 1);
            assert_eq!((t.sample_pool, t.sample_drops), (PACKETS, 0));
            let estimate = (t.samples * u64::from(rate)) as f64;
            let error = (estimate - PACKETS as f64).abs() / PACKETS as f64;
            inside[i] += u32::from(error <= 1.96 * (1.0 / t.samples as f64).sqrt());
        }
    }
    // 95 expected, standard deviation 2.2; 4 of these below.
    assert!(inside.iter().all(|n| *n >= 87), "{inside:?}");
}
