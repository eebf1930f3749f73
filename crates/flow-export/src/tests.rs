//! Golden bytes of each protocol, and a decoder that knows nothing of the encoder but the documents.

use core::net::{IpAddr, Ipv6Addr};
use std::collections::HashMap;

use proptest::prelude::*;

use crate::{Direction, Exporter, Fit, Flow, Labels, Protocol, PushError, Settings};

const BOOT: u64 = 1_700_000_000_000;
const NOW: u64 = BOOT + 60_250;

fn settings(protocol: Protocol) -> Settings {
    Settings {
        protocol,
        domain: 0x0102,
        sampling_interval: 1000,
        origin: Some(([192, 0, 2, 9].into(), 7)),
        boot_ms: BOOT,
        max_bytes: 1400,
        refresh_ms: 60_000,
        refresh_datagrams: 100,
    }
}

fn flow() -> Flow {
    Flow {
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
        next_hop: Some([10, 0, 9, 1].into()),
        bgp_next_hop: Some([10, 0, 9, 2].into()),
        protocol: 6,
        tos: 0x10,
        ttl: 63,
        tcp_flags: 0x12,
        src_port: 1234,
        dst_port: 80,
        src_mask: 24,
        dst_mask: 16,
        src_as: 65_001,
        dst_as: 65_002,
        src_peer_as: 65_003,
        dst_peer_as: 65_004,
        input: 3,
        output: 4,
        src_vlan: 100,
        dst_vlan: 200,
        src_mac: [2, 0, 0, 0, 0, 1],
        dst_mac: [2, 0, 0, 0, 0, 2],
        direction: Direction::Egress,
        forwarding_status: 64,
        packets: 1,
        octets: 60,
        start_ms: BOOT + 60_000,
        end_ms: BOOT + 60_100,
        ..Flow::default()
    }
}

fn ipv6_flow() -> Flow {
    Flow {
        src: "2001:db8::1".parse().unwrap(),
        dst: "2001:db8::2".parse().unwrap(),
        next_hop: Some("fe80::1".parse().unwrap()),
        bgp_next_hop: None,
        protocol: 58,
        icmp: Some((128, 1)),
        src_port: 0,
        dst_port: 0,
        flow_label: 0x12345,
        labels: Labels::new([0x0001_0140, 0x0001_113F]),
        ..flow()
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let pair = |p: &[u8]| u8::from_str_radix(std::str::from_utf8(p).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

#[test]
fn netflow5_bytes() {
    let mut e = Exporter::new(settings(Protocol::NetFlow5));
    assert_eq!(e.push(&flow(), NOW), Ok(Fit::Whole));
    let want = hex("0005 0001 0000eb5a 6553f13c 0ee6b280 00000000 0102 83e8
         0a000001 0a000002 0a000901 0003 0004 00000001 0000003c 0000ea60 0000eac4
         04d2 0050 00 12 06 10 fde9 fdea 18 10 0000");
    assert_eq!(e.finish(NOW).unwrap(), want);
    assert_eq!(e.finish(NOW), None);
    e.push(&flow(), NOW).unwrap();
    assert_eq!(e.finish(NOW).unwrap()[16..20], [0, 0, 0, 1]);
}

#[test]
fn netflow5_says_what_it_cannot_carry() {
    let mut e = Exporter::new(settings(Protocol::NetFlow5));
    assert_eq!(e.push(&ipv6_flow(), NOW), Err(PushError::Ipv6));
    let large = Flow {
        octets: 1 << 32,
        input: 1 << 16,
        src_as: 4_200_000_000,
        ..flow()
    };
    assert_eq!(e.push(&large, NOW), Ok(Fit::Clipped));
    let bytes = e.finish(NOW).unwrap();
    assert_eq!(bytes[24 + 12..24 + 14], [0, 0]);
    assert_eq!(bytes[24 + 20..24 + 24], [0xFF; 4]);
    assert_eq!(bytes[24 + 40..24 + 42], 23_456u16.to_be_bytes());
    let mixed = Flow {
        dst: Ipv6Addr::LOCALHOST.into(),
        ..flow()
    };
    assert_eq!(e.push(&mixed, NOW), Err(PushError::MixedFamilies));
}

#[test]
fn netflow5_takes_thirty() {
    let mut e = Exporter::new(settings(Protocol::NetFlow5));
    for _ in 0..28 {
        e.push(&flow(), NOW).unwrap();
    }
    // 24 + 28 * 48 = 1368; one more would pass 1400.
    assert_eq!(e.push(&flow(), NOW), Err(PushError::Full));
    let mut e = Exporter::new(Settings {
        max_bytes: 9000,
        ..settings(Protocol::NetFlow5)
    });
    for _ in 0..30 {
        e.push(&flow(), NOW).unwrap();
    }
    assert_eq!(e.push(&flow(), NOW), Err(PushError::Full));
    assert_eq!(e.finish(NOW).unwrap().len(), 24 + 30 * 48);
}

#[test]
fn netflow9_bytes() {
    let mut e = Exporter::new(settings(Protocol::NetFlow9));
    e.push(&flow(), NOW).unwrap();
    let want = hex(
        "0009 0006 0000ee48 6553f13d 00000000 00000102
         0001 0014 0200 0004 0004 0001 0004 0022 0004 0000
         0001 001c 0201 0004 000c 0001 0004 0030 0002 0031 0001 0032 0004 0000
         0200 000c 00000102 000003e8
         0201 0010 00000102 0102 02 000003e8 00
         0000 0084 0100 001f 0008 0004 000c 0004 000f 0004 0012 0004 0009 0001 000d 0001 0020 0002
         0007 0002 000b 0002 0004 0001 0005 0001 0006 0001 0034 0001 000a 0004 000e 0004 0010 0004 0011 0004
         0080 0004 0081 0004 003a 0002 003b 0002 0038 0006 0050 0006 003d 0001 0059 0001 0002 0008 0001 0008
         0016 0004 0015 0004 0030 0002 0082 0004
         0100 0068 0a000001 0a000002 0a000901 0a000902 18 10 0000 04d2 0050 06 10 12 3f
         00000003 00000004 0000fde9 0000fdea 0000fdec 0000fdeb 0064 00c8 020000000001 020000000002 01 40
         0000000000000001 000000000000003c 0000ea60 0000eac4 0102 c0000209",
    );
    assert_eq!(e.finish(NOW).unwrap(), want);
    // The next has the data alone, and the number of messages before it.
    e.push(&flow(), NOW).unwrap();
    let next = e.finish(NOW).unwrap();
    assert_eq!(next[..4], [0, 9, 0, 1]);
    assert_eq!(next[12..16], [0, 0, 0, 1]);
    assert_eq!(next[20..22], [1, 0]);
}

#[test]
fn ipfix_bytes() {
    let mut e = Exporter::new(settings(Protocol::Ipfix));
    e.push(&ipv6_flow(), NOW).unwrap();
    let bytes = e.finish(NOW).unwrap().to_vec();
    let want = hex("000a 01c4 6553f13c 00000000 00000102
         0003 0014 0200 0002 0001 0095 0004 0022 0004 0000
         0003 0024 0201 0006 0001 012e 0008 0130 0002 0135 0004 0136 0004 0131 0004 0132 0004 0000
         0200 000c 00000102 000003e8
         0201 0020 0000000000000102 0003 00000001 000003e8 00000001 000003e7 0000");
    assert_eq!(bytes[4..want.len()], want[4..]);
    assert_eq!(
        usize::from(u16::from_be_bytes([bytes[2], bytes[3]])),
        bytes.len()
    );
    // Two records of options and one of flows.
    e.push(&flow(), NOW).unwrap();
    assert_eq!(e.finish(NOW).unwrap()[8..12], [0, 0, 0, 3]);
}

/// What a receiver makes of a stream, by RFC 3954 and RFC 7011 alone.
#[derive(Default)]
struct Receiver {
    templates: HashMap<u16, Vec<(u16, usize)>>,
    options: HashMap<u16, Vec<(u16, usize)>>,
    flows: Vec<HashMap<u16, Vec<u8>>>,
    said: Vec<HashMap<u16, Vec<u8>>>,
    templates_seen: usize,
    next_sequence: Option<u32>,
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(n);
        self.0 = tail;
        head
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.take(2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    fn specifiers(&mut self, n: usize) -> Vec<(u16, usize)> {
        (0..n).map(|_| (self.u16(), self.u16().into())).collect()
    }

    fn record(&mut self, template: &[(u16, usize)]) -> HashMap<u16, Vec<u8>> {
        let field = |(id, len): &(u16, usize)| (*id, self.take(*len).to_vec());
        template.iter().map(field).collect()
    }
}

impl Receiver {
    fn message(&mut self, bytes: &[u8]) {
        let mut c = Cursor(bytes);
        let version = c.u16();
        let (mut items, mut records) = (0u16, 0u32);
        let announced = c.u16();
        c.take(if version == 9 { 8 } else { 4 });
        let sequence = c.u32();
        assert_eq!(self.next_sequence.unwrap_or(0), sequence);
        c.u32();
        while !c.0.is_empty() {
            let (id, len) = (c.u16(), usize::from(c.u16()));
            assert!(len >= 4 && len % 4 == 0);
            let mut set = Cursor(c.take(len - 4));
            match id {
                0 | 2 => {
                    let (template, n) = (set.u16(), set.u16());
                    let fields = set.specifiers(n.into());
                    self.templates.insert(template, fields);
                    self.templates_seen += 1;
                    items += 1;
                }
                1 => {
                    let (template, scope, rest) = (set.u16(), set.u16(), set.u16());
                    let fields = set.specifiers(usize::from(scope + rest) / 4);
                    self.options.insert(template, fields);
                    items += 1;
                }
                3 => {
                    let (template, n, scope) = (set.u16(), set.u16(), set.u16());
                    assert_eq!(scope, 1);
                    let fields = set.specifiers(n.into());
                    self.options.insert(template, fields);
                    items += 1;
                }
                _ => {
                    let template = self.templates.get(&id).or(self.options.get(&id));
                    let template = template.expect("its template came before").clone();
                    let size: usize = template.iter().map(|f| f.1).sum();
                    while set.0.len() >= size {
                        let record = set.record(&template);
                        if self.templates.contains_key(&id) {
                            self.flows.push(record);
                        } else {
                            self.said.push(record);
                        }
                        items += 1;
                        records += 1;
                    }
                }
            }
            // Padding, shorter than any record.
            assert!(set.0.len() < 4 && set.0.iter().all(|b| *b == 0));
        }
        let counted = if version == 9 {
            assert_eq!(items, announced);
            1
        } else {
            assert_eq!(usize::from(announced), bytes.len());
            records
        };
        self.next_sequence = Some(sequence.wrapping_add(counted));
    }
}

fn number(record: &HashMap<u16, Vec<u8>>, id: u16) -> u64 {
    let bytes = &record[&id];
    bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

#[test]
fn sampling_is_announced_twice_and_means_the_same() {
    for (protocol, twice) in [(Protocol::NetFlow9, 50), (Protocol::Ipfix, 310)] {
        let mut e = Exporter::new(settings(protocol));
        e.push(&flow(), NOW).unwrap();
        let mut r = Receiver::default();
        r.message(e.finish(NOW).unwrap());
        assert_eq!(number(&r.said[0], 34), 1000);
        assert_eq!(number(&r.said[1], twice), 1000);
    }
}

#[test]
fn templates_come_again_after_a_time_and_after_a_number() {
    for protocol in [Protocol::NetFlow9, Protocol::Ipfix] {
        let (mut e, mut r) = (Exporter::new(settings(protocol)), Receiver::default());
        let mut send = |at: u64, r: &mut Receiver| {
            e.push(&flow(), at).unwrap();
            r.message(e.finish(at).unwrap());
            (r.templates_seen, r.said.len())
        };
        assert_eq!(send(NOW, &mut r), (1, 2));
        assert_eq!(send(NOW + 59_999, &mut r), (1, 2));
        assert_eq!(send(NOW + 60_000, &mut r), (2, 4));
        for _ in 0..99 {
            assert_eq!(send(NOW + 60_000, &mut r), (2, 4));
        }
        assert_eq!(send(NOW + 60_000, &mut r), (3, 6));
    }
}

fn flows() -> impl Strategy<Value = Flow> {
    let numbers = (any::<u8>(), any::<u16>(), any::<u32>(), any::<u64>());
    let labels = proptest::collection::vec(any::<u32>(), 0..6);
    (any::<bool>(), numbers, labels).prop_map(|(six, (a, b, c, d), labels)| {
        let (src, dst): (IpAddr, IpAddr) = if six {
            (
                Ipv6Addr::from(u128::from(d) << 64 | 1).into(),
                Ipv6Addr::from(u128::from(c)).into(),
            )
        } else {
            (c.to_be_bytes().into(), (!c).to_be_bytes().into())
        };
        Flow {
            src,
            dst,
            protocol: a,
            src_port: b,
            input: c,
            octets: d,
            packets: d / 3,
            labels: Labels::new(labels),
            ..flow()
        }
    })
}

proptest! {
    #[test]
    fn a_receiver_sees_every_flow_as_it_was(
        flows in proptest::collection::vec(flows(), 1..80),
        ipfix: bool,
        six: bool,
        max_bytes in 0usize..2000,
    ) {
        let protocol = if ipfix { Protocol::Ipfix } else { Protocol::NetFlow9 };
        let origin: IpAddr = if six { Ipv6Addr::LOCALHOST.into() } else { [192, 0, 2, 9].into() };
        let mut e = Exporter::new(Settings { max_bytes, origin: Some((origin, 7)), refresh_datagrams: 3, ..settings(protocol) });
        let mut r = Receiver::default();
        for (i, f) in flows.iter().enumerate() {
            let now = NOW + i as u64;
            if e.push(f, now) == Err(PushError::Full) {
                let bytes = e.finish(now).unwrap();
                prop_assert!(bytes.len() <= max_bytes.max(Settings::MIN_BYTES));
                r.message(bytes);
                prop_assert_eq!(e.push(f, now), Ok(Fit::Whole));
            }
        }
        r.message(e.finish(NOW).unwrap());
        prop_assert_eq!(r.flows.len(), flows.len());
        for (got, f) in r.flows.iter().zip(&flows) {
            prop_assert_eq!(number(got, 1), f.octets);
            prop_assert_eq!(number(got, 2), f.packets);
            prop_assert_eq!(number(got, 4), u64::from(f.protocol));
            prop_assert_eq!(number(got, 7), u64::from(f.src_port));
            prop_assert_eq!(number(got, 10), u64::from(f.input));
            match (f.src, f.dst) {
                (IpAddr::V4(a), IpAddr::V4(b)) => {
                    prop_assert_eq!((&got[&8][..], &got[&12][..]), (&a.octets()[..], &b.octets()[..]));
                }
                (IpAddr::V6(a), IpAddr::V6(b)) => {
                    prop_assert_eq!((&got[&27][..], &got[&28][..]), (&a.octets()[..], &b.octets()[..]));
                }
                _ => prop_assert!(false),
            }
            for (i, entry) in f.labels.entries().iter().enumerate() {
                prop_assert_eq!(number(got, 70 + i as u16), u64::from(entry >> 8));
            }
            prop_assert!(!got.contains_key(&(70 + f.labels.entries().len() as u16)));
        }
    }
}
