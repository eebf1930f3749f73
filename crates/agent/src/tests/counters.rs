//! Counter samples: when they leave, and what they say.

use super::*;

#[test]
fn counters_are_never_further_apart_than_the_interval_and_spread_over_it() {
    let config = AgentConfig {
        polling_interval: 20,
        host_interval: 30,
        ..AgentConfig::default()
    };
    let router = FakeRouter::with(40);
    router.interfaces.lock().unwrap()[39].sflow = false;
    let (mut a, sent) = agent(config, router);
    let mut now = SECOND;
    let end = now + 125 * SECOND;
    let mut step = 1;
    while now < end {
        // Comes at most 10 ms apart, and late by up to 9 ms.
        step = step * 7 % 10;
        now = a.poll(now).clamp(now, now + 10 * MS) + step * MS;
    }
    a.finish(now);
    let mut reports: HashMap<DataSource, Vec<(u64, u32)>> = HashMap::new();
    let (mut at, mut host_tags) = (Vec::new(), Vec::new());
    for (time, bytes) in sent.take() {
        // The time of a sample is not in it; that of the datagram is at most one second later.
        let d = Datagram::parse(&bytes).unwrap();
        for (source, sequence, tags) in counters(&bytes) {
            if source == DataSource::HOST {
                host_tags.extend(tags);
                // One report is a sample for each record; its first one stands for it.
                if sequence % 11 != 1 {
                    continue;
                }
            } else {
                at.push(d.uptime_ms);
                assert_eq!(tags, [1, 2, 1005]);
            }
            reports.entry(source).or_default().push((time, sequence));
        }
    }
    assert_eq!(reports.len(), 40);
    assert!(!reports.contains_key(&DataSource::interface(140)));
    assert!(
        host_tags.chunks(12).all(|tags| tags == HOST_TAGS),
        "{host_tags:?}"
    );
    for (source, list) in &reports {
        let (interval, step) = if *source == DataSource::HOST {
            (30, 11)
        } else {
            (20, 1)
        };
        let sequences = (1..).step_by(step).take(list.len());
        assert!(list.iter().map(|r| r.1).eq(sequences), "{source}: {list:?}");
        assert!(list.len() as u64 >= 125 / interval, "{source}: {list:?}");
        for w in list.windows(2) {
            // Interval plus what the wait in the datagram may differ by.
            assert!(
                w[1].0 - w[0].0 <= interval * SECOND + SECOND,
                "{source}: {list:?}"
            );
        }
    }
    // 39 interfaces in 20 s are about 2 a second; a datagram gathers at most a second of them.
    let mut busiest = HashMap::new();
    at.iter().for_each(|t| *busiest.entry(*t).or_insert(0) += 1);
    assert!(busiest.values().all(|n| *n <= 5), "{busiest:?}");
}

#[test]
fn intervals_are_kept_when_samples_leave_at_once() {
    // Samples that leave at once show the time they were made.
    let config = AgentConfig {
        polling_interval: 3,
        host_interval: 0,
        max_age_ms: 10,
        ..AgentConfig::default()
    };
    let (mut a, sent) = agent(config, FakeRouter::with(7));
    let (mut now, mut step) = (SECOND, 3);
    while now < 100 * SECOND {
        step = step * 7 % 11;
        now = a.poll(now).clamp(now, now + 10 * MS) + step * MS / 2;
    }
    let mut last: HashMap<DataSource, u64> = HashMap::new();
    for (_, bytes) in sent.take() {
        let made = u64::from(Datagram::parse(&bytes).unwrap().uptime_ms);
        for (source, ..) in counters(&bytes) {
            if let Some(before) = last.insert(source, made) {
                // Within the 10 ms that a datagram may gather samples, and uptime counts whole milliseconds.
                assert!(
                    (2960..=3010).contains(&(made - before)),
                    "{source}: {before} {made}"
                );
            }
        }
    }
    assert_eq!(last.len(), 7);
}

#[test]
fn counter_values_are_the_routers_and_clearing_restarts_the_sequence() {
    let config = AgentConfig {
        polling_interval: 1,
        host_interval: 0,
        ..AgentConfig::default()
    };
    let router = FakeRouter::with(1);
    let (mut a, sent) = agent(config, router.clone());
    let mut got = Vec::new();
    for (i, rx_packets) in [10u64, 20, 5, 6].into_iter().enumerate() {
        router.interfaces.lock().unwrap()[0].totals = IfTotals {
            rx_packets,
            rx_bytes: 64,
            ..IfTotals::default()
        };
        let now = (i as u64 + 1) * SECOND;
        a.poll(now);
        a.finish(now);
        for (_, bytes) in sent.take() {
            for s in Datagram::parse(&bytes).unwrap().samples() {
                let Sample::Counters(c) = s.unwrap() else {
                    panic!("not counters")
                };
                let records: Vec<CounterRecord<'_>> =
                    c.counter_records().map(Result::unwrap).collect();
                let [
                    CounterRecord::Interface(g),
                    CounterRecord::Ethernet(_),
                    CounterRecord::PortName(name),
                ] = records[..]
                else {
                    panic!("{records:?}")
                };
                assert_eq!(
                    (name.name.0, g.if_index, g.if_status, g.in_octets),
                    (&b"eth1"[..], 101, 3, 64)
                );
                got.push((c.head.sequence, g.in_ucast_pkts));
            }
        }
    }
    // The first call only gives the interface its place in the schedule.
    assert_eq!(got, [(1, 20), (1, 5), (2, 6)]);
}

/// The host's records in the order they leave.
const HOST_TAGS: [u32; 12] = [
    2203, 1001, 2001, 2010, 2009, 2008, 2007, 2005, 2004, 2003, 2006, 2000,
];

#[test]
fn each_host_record_is_a_sample_in_datagrams_of_any_size() {
    for max_datagram in [600, 1400, 9000] {
        let config = AgentConfig {
            polling_interval: 0,
            max_datagram,
            ..AgentConfig::default()
        };
        let (mut a, sent) = agent(config, FakeRouter::with(0));
        a.poll(2 * SECOND);
        a.finish(2 * SECOND);
        let sent = sent.take();
        let list: Vec<_> = sent.iter().flat_map(|(_, d)| counters(d)).collect();
        assert!(list.iter().map(|c| c.1).eq(1..=12));
        assert!(
            list.iter()
                .all(|c| c.0 == DataSource::HOST && c.2.len() == 1)
        );
        assert_eq!(list.iter().map(|c| c.2[0]).collect::<Vec<_>>(), HOST_TAGS);
        assert!(sent.iter().all(|(_, d)| d.len() < max_datagram as usize));
    }
}
