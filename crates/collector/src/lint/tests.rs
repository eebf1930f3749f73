//! Every rule is broken by a few bytes, and nothing else is found in them; what is right is found clean.

use super::finding::At;
use super::rules::{RULES, Rule, Severity};
use super::{LintOptions, Linter};

/// Words of XDR.
type Words = Vec<u32>;

const SECOND: u64 = 1_000_000_000;
/// When tests begin, in ns since 1970.
const START: u64 = 1_700_000_000 * SECOND;

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_be_bytes()).collect()
}

/// Tag, length and body.
fn framed(tag: u32, body: &[u32]) -> Words {
    [&[tag, 4 * body.len() as u32], body].concat()
}

/// A datagram of agent 192.0.2.1.
fn datagram_of(sub: u32, number: u32, uptime: u32, samples: &[Words]) -> Vec<u8> {
    let mut d = vec![5, 1, 0xC000_0201, sub, number, uptime, samples.len() as u32];
    d.extend(samples.concat());
    bytes(&d)
}

fn datagram(number: u32, samples: &[Words]) -> Vec<u8> {
    datagram_of(0, number, 1000 * number, samples)
}

/// A flow sample whose fixed part is these words.
fn flow_of(head: [u32; 10], records: &[Words]) -> Words {
    let body = [&head[..], &[records.len() as u32], &records.concat()].concat();
    framed(3, &body)
}

/// Number, rate, pool and drops of a sample of interface 7, from there to 8.
fn flow(n: u32, rate: u32, pool: u32, drops: u32) -> Words {
    flow_of(
        [n, 0, 7, rate, pool, drops, 0, 7, 0, 8],
        &[switch(), header()],
    )
}

fn switch() -> Words {
    framed(1001, &[0; 4])
}

/// Four bytes of a frame of 64.
fn header() -> Words {
    header_of(1, 64, 4)
}

fn header_of(protocol: u32, frame: u32, stripped: u32) -> Words {
    framed(1, &[protocol, frame, stripped, 4, 0])
}

/// A flow sample number 1 with this record besides the usual.
fn with_record(record: Words) -> Vec<u8> {
    let s = flow_of(
        [1, 0, 7, 100, 100, 0, 0, 7, 0, 8],
        &[record, switch(), header()],
    );
    datagram(1, &[s])
}

/// The same with this record in place of the header.
fn with_header(record: Words) -> Vec<u8> {
    let s = flow_of([1, 0, 7, 100, 100, 0, 0, 7, 0, 8], &[switch(), record]);
    datagram(1, &[s])
}

fn with_head(head: [u32; 10]) -> Vec<u8> {
    datagram(1, &[flow_of(head, &[switch(), header()])])
}

fn counters(n: u32, index: u32, records: &[Words]) -> Words {
    let body = [&[n, 0, index, records.len() as u32], &records.concat()[..]].concat();
    framed(4, &body)
}

/// The generic record of an interface that has received so many bytes and errors.
fn generic(index: u32, octets: u32, errors: u32) -> Words {
    let mut r = [0; 22];
    (r[0], r[1], r[4], r[5]) = (index, 6, 1, 3);
    (r[7], r[12]) = (octets, errors);
    framed(1, &r)
}

fn discard(head: [u32; 7]) -> Words {
    framed(5, &[&head[..], &[1], &header()].concat())
}

/// A string of `n` letters.
fn text(n: u32) -> Words {
    let words = n.div_ceil(4) as usize;
    let mut w = vec![0x6161_6161; words];
    if !n.is_multiple_of(4) {
        w[words - 1] &= u32::MAX << (32 - 8 * (n % 4));
    }
    w.insert(0, n);
    w
}

/// What a test feeds: datagrams with the seconds at which they come.
type Input = Vec<(f64, Vec<u8>)>;

fn at_once(list: Vec<Vec<u8>>) -> Input {
    list.into_iter().map(|d| (0.0, d)).collect()
}

fn one(d: Vec<u8>) -> Input {
    vec![(0.0, d)]
}

fn lint(options: LintOptions, input: &Input) -> Linter {
    let mut l = Linter::new(options);
    for (n, (seconds, d)) in (1..).zip(input) {
        let at = At {
            packet: n,
            time_ns: Some(START + (seconds * 1e9) as u64),
            ..At::default()
        };
        l.datagram(&at, false, d);
    }
    l.finish();
    l
}

fn found(l: &mut Linter) -> Vec<Rule> {
    l.findings().counts().map(|c| c.0).collect()
}

/// The last byte of a datagram set to something that is not zero.
fn dirty(mut d: Vec<u8>) -> Vec<u8> {
    if let Some(b) = d.last_mut() {
        *b = 0xEE;
    }
    d
}

fn cut(d: Vec<u8>, n: usize) -> Vec<u8> {
    d[..d.len() - n].to_vec()
}

/// Sets a word of a datagram.
fn patched(mut d: Vec<u8>, word: usize, value: u32) -> Vec<u8> {
    d[4 * word..4 * word + 4].copy_from_slice(&value.to_be_bytes());
    d
}

/// Flow samples one to a datagram, with number, rate, pool and drops.
fn flows(list: &[(u32, u32, u32, u32)]) -> Input {
    let each = (1..).zip(list);
    let each = each.map(|(n, s)| datagram(n, &[flow(s.0, s.1, s.2, s.3)]));
    at_once(each.collect())
}

/// Counter samples with this generic record, one to a datagram.
fn generics(list: &[(u32, u32, u32)]) -> Input {
    let each = (1..).zip(list);
    let each = each.map(|(n, s)| datagram(n, &[counters(s.0, 7, &[generic(7, s.1, s.2)])]));
    at_once(each.collect())
}

/// What breaks a rule.
fn datagram_input(rule: Rule) -> Option<Input> {
    let empty = |n| datagram(n, &[flow(n, 100, 100 * n, 0)]);
    Some(match rule {
        Rule::DatagramTruncated => one(cut(datagram(1, &[]), 1)),
        Rule::Version => one(patched(datagram(1, &[]), 0, 4)),
        Rule::AgentAddressType => one(patched(datagram(1, &[]), 1, 3)),
        Rule::AgentAddress => one(patched(empty(1), 2, 0)),
        Rule::DatagramTooLarge => {
            let long = [&[1, 1504, 4, 1400][..], &[0; 350]].concat();
            one(with_header(framed(1, &long)))
        }
        Rule::DatagramEmpty => one(datagram(1, &[])),
        Rule::TrailingBytes => one([empty(1), vec![0; 4]].concat()),
        Rule::GluedDatagrams => one([empty(1), empty(2), empty(3)].concat()),
        Rule::DatagramGap => at_once(vec![empty(1), empty(3)]),
        Rule::DatagramDuplicate => at_once(vec![empty(1), empty(1)]),
        Rule::DatagramReordered => at_once(vec![empty(1), empty(3), empty(2)]),
        Rule::DatagramRestart => {
            let late = datagram_of(0, 1, 900_000, &[flow(1, 100, 100, 0)]);
            at_once(vec![datagram(800, &[flow(5, 100, 500, 0)]), late])
        }
        Rule::AgentRestart => at_once(vec![datagram(800, &[flow(5, 100, 500, 0)]), empty(1)]),
        Rule::UptimeBackwards => {
            let back = datagram_of(0, 2, 999, &[flow(2, 100, 200, 0)]);
            at_once(vec![empty(1), back])
        }
        Rule::UptimeRate => vec![(0.0, empty(1)), (60.0, empty(2))],
        _ => return None,
    })
}

fn xdr_input(rule: Rule) -> Option<Input> {
    let good = || datagram(1, &[flow(1, 100, 100, 0)]);
    Some(match rule {
        Rule::SampleCount => one(patched(good(), 6, 2)),
        Rule::SampleLength => one(cut(good(), 4)),
        Rule::SampleTruncated => one(datagram(1, &[framed(3, &[1, 0, 7])])),
        Rule::SampleTrailing => {
            let mut s = flow(1, 100, 100, 0);
            s[1] += 4;
            s.push(0);
            one(datagram(1, &[s]))
        }
        // The last word of the fixed part: 7 of the header, 2 and 10 of the sample.
        Rule::RecordCount => one(patched(good(), 7 + 2 + 10, 3)),
        // The length of the first record.
        Rule::RecordLength => one(patched(good(), 7 + 2 + 11 + 1, 400)),
        Rule::RecordTruncated => one(with_record(framed(1043, &[1]))),
        Rule::RecordTrailing => one(with_record(framed(1036, &[1, 2]))),
        Rule::ListCount => one(with_record(framed(1012, &[0x1000_0000, 1]))),
        Rule::HeaderBeyondRecord => one(with_header(framed(1, &[1, 64, 4, 60, 0]))),
        Rule::LengthUnaligned => {
            // The generic record, a byte too short by its length.
            let d = datagram(1, &[counters(1, 7, &[framed(1005, &text(3))])]);
            one(patched(d, 7 + 2 + 4 + 1, 7))
        }
        Rule::PaddingNonzero => one(dirty(datagram(
            1,
            &[counters(1, 7, &[framed(1005, &text(3))])],
        ))),
        Rule::AddressType => one(with_record(framed(1007, &[3, 0, 0]))),
        Rule::StringLimit => one(with_record(framed(1038, &text(65)))),
        _ => return None,
    })
}

fn form_input(rule: Rule) -> Option<Input> {
    let compact = |n: u32, output: u32| {
        let records = [switch(), header()].concat();
        let head = [n, 7, 100, 100 * n, 0, 7, output, 2];
        framed(1, &[&head[..], &records].concat())
    };
    let head = |source: [u32; 2], input: [u32; 2], output: [u32; 2]| {
        let [class, index] = source;
        let (i, o) = (input, output);
        one(with_head([
            1, class, index, 100, 100, 0, i[0], i[1], o[0], o[1],
        ]))
    };
    Some(match rule {
        Rule::MixedForms => one(datagram(1, &[compact(1, 8), flow(2, 100, 200, 0)])),
        Rule::CompactLargeIndex => one(datagram(1, &[compact(1, 1 << 24)])),
        Rule::SampleUnknown => one(datagram(1, &[framed(99 << 12 | 1, &[0])])),
        Rule::SampleEmpty => one(datagram(1, &[counters(1, 7, &[])])),
        Rule::RecordUnknown => one(with_record(framed(99 << 12 | 1, &[0]))),
        Rule::RecordDuplicate => one(with_record(switch())),
        Rule::SourceClass => head([4, 7], [0, 7], [0, 8]),
        Rule::SourceZero => head([0, 0], [0, 7], [0, 8]),
        Rule::SourceTwoSubAgents => at_once(vec![
            datagram(1, &[flow(1, 100, 100, 0)]),
            datagram_of(1, 1, 1000, &[flow(1, 100, 100, 0)]),
        ]),
        Rule::InterfaceFormat => head([0, 7], [0, 7], [3, 1]),
        Rule::InputFormat => head([0, 8], [2, 0], [0, 8]),
        Rule::InternalForm => head([0, 7], [0, 7], [0, u32::MAX]),
        Rule::SourceNotOnPath => head([0, 7], [0, 9], [0, 8]),
        Rule::NotFollowed => at_once(vec![
            datagram(1, &[flow(1, 100, 100, 0)]),
            datagram_of(1, 1, 0, &[]),
            datagram_of(2, 1, 0, &[]),
        ]),
        Rule::DropCode => head([0, 7], [0, 7], [1, 9999]),
        Rule::DiscardReason => one(datagram(1, &[discard([1, 0, 0, 0, 7, 0, 9999])])),
        Rule::DiscardUnknown => one(datagram(1, &[discard([1, 0, 0, 0, 7, 0, 256])])),
        Rule::DiscardIfIndex => one(datagram(1, &[discard([1, 0, 0, 0, 7, 0x4000_0102, 258])])),
        _ => return None,
    })
}

fn number_input(rule: Rule) -> Option<Input> {
    Some(match rule {
        Rule::SampleStart => flows(&[(2, 100, 200, 0)]),
        Rule::SampleGap => flows(&[(1, 100, 100, 0), (3, 100, 300, 0)]),
        Rule::SampleBack => flows(&[(1, 100, 100, 0), (2, 100, 200, 0), (2, 100, 300, 0)]),
        Rule::SampleRestart => flows(&[(1, 100, 100, 0), (2, 100, 200, 0), (1, 100, 300, 0)]),
        Rule::RateZero => flows(&[(1, 0, 100, 0)]),
        Rule::RateChanged => flows(&[(1, 100, 100, 0), (2, 50, 200, 0)]),
        Rule::PoolMissing => {
            let each: Vec<_> = (1..=10).map(|n| (n, 100, 0, 0)).collect();
            flows(&each)
        }
        Rule::PoolFell => flows(&[(1, 100, 500, 0), (2, 100, 400, 0)]),
        Rule::PoolShort => {
            let each: Vec<_> = (1..=700).map(|n| (n, 1, 1 + n / 500, 0)).collect();
            flows(&each)
        }
        Rule::PoolRate => {
            let each: Vec<_> = (1..=200).map(|n| (n, 100, 500 * n, 0)).collect();
            flows(&each)
        }
        Rule::DropsFell => flows(&[(1, 100, 100, 5), (2, 100, 200, 4)]),
        Rule::CounterFell => generics(&[(1, 500, 5), (2, 600, 4)]),
        Rule::CounterAvailability => generics(&[(1, 500, 5), (2, 600, u32::MAX)]),
        Rule::IfIndexMismatch => one(datagram(1, &[counters(1, 7, &[generic(8, 0, 0)])])),
        Rule::CounterLate => {
            let mut list = generics(&[(1, 1, 1), (2, 1, 1)]);
            list[1].0 = 6.5;
            list
        }
        _ => return None,
    })
}

fn flow_input(rule: Rule) -> Option<Input> {
    let stamp = |offset_ns: i64| {
        let t = START.wrapping_add_signed(offset_ns);
        one(with_record(framed(1043, &[(t >> 32) as u32, t as u32])))
    };
    Some(match rule {
        Rule::NoPacket => one(with_header(framed(1036, &[0]))),
        Rule::NoSwitch => {
            let s = |n: u32| flow_of([n, 0, 7, 100, 100 * n, 0, 0, 7, 0, 8], &[header()]);
            at_once((1..=100).map(|n| datagram(n, &[s(n)])).collect())
        }
        Rule::HeaderProtocol => one(with_header(header_of(99, 64, 4))),
        Rule::HeaderEmpty => one(with_header(framed(1, &[1, 64, 4, 0]))),
        Rule::HeaderLength => one(with_header(header_of(1, 7, 4))),
        Rule::Stripped => one(with_header(header_of(1, 60, 0))),
        Rule::FrameShort => {
            // IPv4 of 200 bytes in a frame of 64.
            let ip = [0x4500_00C8, 0, 0x4011_0000, 0x0A00_0001, 0x0A00_0002];
            one(with_header(framed(
                1,
                &[&[11, 64, 4, 20][..], &ip].concat(),
            )))
        }
        Rule::MaskLength => one(with_record(framed(1002, &[1, 0, 33, 0]))),
        Rule::NextHopUnknown => one(with_record(framed(1002, &[0, 8, 8]))),
        Rule::VlanRange => one(datagram(
            1,
            &[flow_of(
                [1, 0, 7, 100, 100, 0, 0, 7, 0, 8],
                &[framed(1001, &[4096, 0, 0, 0]), header()],
            )],
        )),
        Rule::FieldRange => one(with_record(framed(1020, &[65_536, 0]))),
        Rule::TimestampLate => stamp(-1_500_000_000),
        Rule::TimestampFuture => stamp(1_500_000_000),
        _ => return None,
    })
}

fn breaking(rule: Rule) -> Option<Input> {
    datagram_input(rule)
        .or_else(|| xdr_input(rule))
        .or_else(|| form_input(rule))
        .or_else(|| number_input(rule))
        .or_else(|| flow_input(rule))
}

/// What is found besides, since the bytes break that as well.
fn besides(rule: Rule) -> &'static [Rule] {
    match rule {
        // A header that cannot be read is no header.
        Rule::HeaderBeyondRecord => &[Rule::NoPacket],
        Rule::RecordCount | Rule::RecordLength => &[Rule::NoPacket],
        _ => &[],
    }
}

#[test]
fn each_rule_is_found_and_nothing_else() {
    for (rule, info) in RULES {
        if *rule == Rule::CaptureCut {
            // The reader of captures tells that; see the tests of the command.
            continue;
        }
        let input = breaking(*rule).unwrap_or_else(|| panic!("{} is broken by nothing", info.id));
        let options = LintOptions {
            polling: (*rule == Rule::CounterLate).then_some(5),
            max_agents: if *rule == Rule::NotFollowed { 1 } else { 100 },
            ..LintOptions::default()
        };
        let mut l = lint(options, &input);
        let mut got = found(&mut l);
        let why: Vec<String> = l
            .findings()
            .take()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(got.contains(rule), "{}: only {why:#?}", info.id);
        got.retain(|r| r != rule && !besides(*rule).contains(r));
        // A limit is reached by datagrams without samples.
        got.retain(|r| !(*rule == Rule::NotFollowed && *r == Rule::DatagramEmpty));
        assert!(got.is_empty(), "{}: also {why:#?}", info.id);
        let place = why.iter().find(|w| w.contains(info.id)).cloned();
        assert!(place.is_some_and(|p| p.contains("packet ") && p.contains(info.reference)));
    }
}

/// An agent that is sampled at 1 in 100, 10 samples to a batch that share a pool, over a wrap of the pool.
fn clean(datagrams: u32, start: u32) -> Input {
    let mut out = Vec::new();
    for n in 1..=datagrams {
        let samples: Vec<Words> = (1..=10)
            .map(|k| {
                flow(
                    start + 10 * (n - 1) + k,
                    100,
                    (1000 * n).wrapping_sub(2000),
                    0,
                )
            })
            .collect();
        let c = counters(n, 9, &[generic(9, 100 * n, (10 * n).wrapping_sub(35))]);
        out.push((f64::from(n), datagram(n, &[samples, vec![c]].concat())));
    }
    out
}

#[test]
fn what_is_right_is_clean() {
    for (datagrams, start) in [(1, 0), (300, 0)] {
        let mut l = lint(LintOptions::default(), &clean(datagrams, start));
        assert_eq!(
            found(&mut l),
            [],
            "{:?}",
            l.findings()
                .take()
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        );
        assert_eq!(
            (l.datagrams, l.samples),
            (datagrams.into(), 11 * u64::from(datagrams))
        );
        assert_eq!(l.followed(), (1, 2));
    }
}

#[test]
fn what_loss_explains_is_not_told_twice() {
    // Datagrams 4 and 5 are lost, and with them 20 flow samples and 2 counter samples.
    let mut input = clean(20, 0);
    input.drain(3..5);
    let mut l = lint(LintOptions::default(), &input);
    assert_eq!(found(&mut l), [Rule::DatagramGap]);
    let all = l.findings().take();
    assert!(
        all[0]
            .detail
            .starts_with("2 missing, of the numbers 4 to 5"),
        "{}",
        all[0]
    );
    assert_eq!(all[0].at.packet, 4);
}

#[test]
fn a_restart_of_everything_is_a_note() {
    let mut input = clean(200, 0);
    input.extend(clean(20, 0));
    let mut l = lint(LintOptions::default(), &input);
    assert_eq!(found(&mut l), [Rule::AgentRestart]);
    assert_eq!(l.findings().worst(), Some(Severity::Note));
}

#[test]
fn an_interface_that_comes_again_may_begin_anew() {
    let list = [(1, 100, 100, 0), (2, 100, 200, 3), (1, 100, 90, 0)];
    assert_eq!(found(&mut lint(LintOptions::default(), &flows(&list))), []);
    let list = [(1, 500, 5), (2, 600, 6), (1, 20, 0), (2, 30, 0)];
    assert_eq!(
        found(&mut lint(LintOptions::default(), &generics(&list))),
        []
    );
}

#[test]
fn findings_are_limited_counted_and_left_out() {
    let input = at_once((1..=50).map(|n| datagram(n, &[])).collect());
    let mut l = lint(
        LintOptions {
            most: 3,
            ..LintOptions::default()
        },
        &input,
    );
    assert_eq!(l.findings().take().len(), 3);
    assert_eq!(l.findings().total(Severity::Note), 50);
    let mut l = lint(
        LintOptions {
            ignored: vec![Rule::DatagramEmpty],
            ..LintOptions::default()
        },
        &input,
    );
    assert_eq!(l.findings().worst(), None);
}

#[test]
fn memory_is_bounded_by_what_is_followed() {
    let options = LintOptions {
        max_agents: 8,
        max_sources: 50,
        most: 1,
        ..LintOptions::default()
    };
    let mut l = Linter::new(options);
    for n in 0..2000u32 {
        let s = flow_of(
            [1, 0, n + 1, 100, 100, 0, 0, n + 1, 0, 8],
            &[switch(), header()],
        );
        let d = patched(
            datagram_of(n % 3, 1 + n / 3, n, &[s]),
            2,
            0xC000_0000 + n % 50,
        );
        l.datagram(&At::default(), false, &d);
    }
    l.finish();
    assert_eq!(l.followed(), (8, 50));
    assert!(found(&mut l).contains(&Rule::NotFollowed));
}

mod hostile {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), good: bool) {
            let mut bytes = bytes;
            if good && bytes.len() >= 8 {
                bytes[..8].copy_from_slice(&[0, 0, 0, 5, 0, 0, 0, 1]);
            }
            lint(LintOptions::default(), &at_once(vec![bytes.clone(), bytes]));
        }

        #[test]
        fn mutated_streams_never_panic(at in proptest::collection::vec((0usize..20_000, any::<u8>()), 1..40)) {
            let mut input = clean(20, 0);
            let size = input[0].1.len();
            for (i, b) in at {
                let (d, o) = (i / size % 20, i % size);
                if let Some(byte) = input[d].1.get_mut(o) {
                    *byte = b;
                }
            }
            lint(LintOptions { mtu: 1, polling: Some(1), ..LintOptions::default() }, &input);
        }
    }
}
