//! Flow samples byte by byte.

use super::*;

fn frame(rest: &[u8]) -> Vec<u8> {
    [&[0u8; 12], rest].concat()
}

#[test]
fn vlan_tags_are_read_where_they_are() {
    let vlan = |rest: &[u8]| Tags::of(&frame(rest)).vlan();
    assert_eq!(vlan(&[0x08, 0x00]), (0, 0));
    assert_eq!(vlan(&[0x81, 0x00, 0xB1, 0x23]), (0x123, 5));
    assert_eq!(
        vlan(&[0x88, 0xA8, 0x0F, 0xFF, 0x81, 0x00, 0, 1]),
        (0xFFF, 0)
    );
    assert_eq!(vlan(&[0x88, 0x47, 0, 1, 1, 64]), (0, 0));
    assert_eq!(vlan(&[0x81, 0x00, 0x01]), (UNKNOWN, UNKNOWN));
    assert_eq!(Tags::of(&[0; 13]).vlan(), (UNKNOWN, UNKNOWN));
    let three = [0x88, 0xA8, 0, 7, 0x91, 0, 0, 8, 0x81, 0, 0, 9, 8, 0];
    assert_eq!(Tags::of(&frame(&three)).outer(), [0x88A8_0007, 0x9100_0008]);
    let endless = [0x81, 0, 0, 1].repeat(50);
    assert_eq!(Tags::of(&frame(&endless)).count, MAX_TAGS);
}

#[test]
fn the_other_end_has_the_vlan_that_the_way_through_gives_it() {
    let route = |out_if| RouteInfo {
        out_if,
        next_hop: [192, 0, 2, 1].into(),
        src_mask_len: 0,
        dst_mask_len: 0,
    };
    let found = |passage, out_if: Option<u32>| Resolution {
        passage,
        route: out_if.map(route),
        ..Resolution::default()
    };
    let (rx, tx) = (Direction::Rx, Direction::Tx);
    for (direction, found, want) in [
        (rx, found(Passage::Switched, None), [(7, 3), (7, 3)]),
        (tx, found(Passage::Switched, None), [(7, 3), (7, 3)]),
        (rx, found(Passage::Routed, Some(2)), [(7, 3), (0, 0)]),
        (tx, found(Passage::Routed, None), [(0, 0), (7, 3)]),
        // Dropped, or for the router itself: it left by no VLAN at all.
        (
            rx,
            found(Passage::Routed, None),
            [(7, 3), (UNKNOWN, UNKNOWN)],
        ),
        (
            rx,
            found(Passage::Routed, Some(RouteInfo::INTERNAL)),
            [(7, 3), (UNKNOWN, UNKNOWN)],
        ),
        (
            tx,
            found(Passage::Unknown, None),
            [(UNKNOWN, UNKNOWN), (7, 3)],
        ),
    ] {
        let r = switch_record((7, 3), direction, &found);
        let got = [(r.in_vlan, r.in_priority), (r.out_vlan, r.out_priority)];
        assert_eq!(got, want, "{direction:?} {found:?}");
    }
}

/// A sample with everything there is to tell.
fn full() -> (SampleSlot, Resolution) {
    let mut slot = SampleSlot {
        rx_if: 3,
        rate: 1000,
        frame_len: 60,
        header_len: 22,
        transit_ns: 1234,
        queue: 2,
        direction: Direction::Tx,
        ..SampleSlot::default()
    };
    let frame = [0x88, 0xA8, 0x20, 0x0A, 0x81, 0, 0, 5, 0x08, 0x00];
    slot.header[12..22].copy_from_slice(&frame);
    let line = "::/0 as-path 65001 {3,4} communities 65001:7 local-pref 200 next-hop 192.0.2.9";
    let (_, path) = parshall_bgp::text::parse_line(line, &mut Default::default())
        .unwrap()
        .unwrap();
    let found = Resolution {
        route: Some(RouteInfo {
            out_if: 7,
            next_hop: "192.0.2.254".parse().unwrap(),
            src_mask_len: 24,
            dst_mask_len: 32,
        }),
        passage: Passage::Routed,
        bridged: None,
        labels_known: true,
        in_labels: vec![16 << 12 | 0x140],
        out_labels: vec![17 << 12 | 0x3F, 18 << 12 | 0x13F],
        gateway: Some(Gateway {
            router_as: 65_000,
            src_as: 65_010,
            src_peer_as: 65_011,
            path: Some(path.into()),
        }),
        ..Resolution::default()
    };
    (slot, found)
}

fn context(found: &Resolution, records: Records) -> FlowContext<'_> {
    FlowContext {
        sequence: 1,
        source: DataSource::interface(7),
        pool: 5000,
        drops: 2,
        input: Interface::index(3),
        output: Interface::index(7),
        found,
        unix_ns: records.has(RecordKind::Timestamp).then_some(1 << 32 | 5),
        records,
    }
}

fn words(slot: &SampleSlot, c: &FlowContext<'_>) -> Vec<u32> {
    let mut b = DatagramBuilder::new(1396);
    b.begin("192.0.2.1".parse().unwrap(), 9, 1, 1500);
    push(&mut b, slot, c).unwrap();
    let words = b.finish().chunks(4);
    words
        .map(|w| u32::from_be_bytes(w.try_into().unwrap()))
        .collect()
}

#[test]
fn golden_flow_sample() {
    let (slot, found) = full();
    let all = RecordKind::ALL.iter();
    let all = all.fold(Records::NONE, |r, k| r.with(*k, true));
    #[rustfmt::skip]
    let want: Vec<u32> = vec![
        // Datagram: version, agent, sub-agent, sequence, uptime, samples.
        5, 1, 0xC000_0201, 9, 1, 1500, 1,
        // Expanded flow sample: sequence, source, rate, pool, drops, input, output, records.
        3, 44 + 16 + 12 + 12 + 72 + 36 + 24 + 16 + 24 + 48, 1, 0, 7, 1000, 5000, 2, 0, 3, 0, 7, 9,
        // Gateway: next hop, AS here, of the source, of the peer towards it, path, communities, preference.
        1003, 64, 1, 0xC000_0209, 65_000, 65_010, 65_011, 2, 2, 1, 65_001, 1, 2, 3, 4, 1, 65_001 << 16 | 7, 200,
        // MPLS: next hop, stack received, stack sent.
        1006, 28, 1, 0xC000_02FE, 1, 16 << 12 | 0x140, 2, 17 << 12 | 0x3F, 18 << 12 | 0x13F,
        // Router: next hop, masks.
        1002, 16, 1, 0xC000_02FE, 24, 32,
        // VLAN tunnel: the tag outside.
        1012, 8, 1, 0x88A8_200A,
        // Switch: VLAN and priority, in and out.
        1001, 16, 0, 0, 10, 1,
        // Raw header: Ethernet, frame with FCS, FCS stripped, 22 bytes and 2 of padding.
        1, 40, 1, 64, 4, 22, 0, 0, 0, 0x88A8_200A, 0x8100_0005, 0x0800_0000,
        // Transit delay, queue, time.
        1039, 4, 1234,
        1036, 4, 2,
        1043, 8, 1, 5,
    ];
    assert_eq!(words(&slot, &context(&found, all)), want);
}

#[test]
fn what_is_switched_off_or_not_known_is_left_out() {
    let (slot, found) = full();
    let tags = |slot: &SampleSlot, found: &Resolution, records: Records| {
        let mut b = DatagramBuilder::new(1396);
        b.begin("192.0.2.1".parse().unwrap(), 9, 1, 1500);
        push(&mut b, slot, &context(found, records)).unwrap();
        let d = parshall_sflow_wire::Datagram::parse(b.finish()).unwrap();
        let Some(Ok(parshall_sflow_wire::Sample::Flow(f))) = d.samples().next() else {
            panic!("no flow sample")
        };
        f.flow_records()
            .map(|r| r.unwrap().tag().format())
            .collect::<Vec<_>>()
    };
    assert_eq!(tags(&slot, &found, Records::NONE), [1]);
    let flow = [
        (RecordKind::Switch, 1001),
        (RecordKind::Router, 1002),
        (RecordKind::Gateway, 1003),
        (RecordKind::Mpls, 1006),
        (RecordKind::VlanTunnel, 1012),
        (RecordKind::EgressQueue, 1036),
        (RecordKind::TransitDelay, 1039),
        (RecordKind::Timestamp, 1043),
    ];
    for (kind, tag) in flow {
        let mut got = tags(&slot, &found, Records::NONE.with(kind, true));
        got.sort_unstable();
        assert_eq!(got, [1, tag]);
    }
    let default = tags(&slot, &found, Records::default());
    assert_eq!(default, [1003, 1006, 1002, 1001, 1]);
    // Of a plain packet nothing is known but its VLAN.
    let plain = SampleSlot::default();
    let got = tags(&plain, &Resolution::default(), Records::default());
    assert_eq!(got, [1001, 1]);
}

#[test]
fn a_slot_that_lies_about_its_length_is_cut() {
    let slot = SampleSlot {
        header_len: u16::MAX,
        frame_len: u32::MAX,
        ..SampleSlot::default()
    };
    assert_eq!(header(&slot).len(), MAX_HEADER);
}

/// The records of a sample, all that there are being wanted.
fn formats(slot: &SampleSlot, found: &Resolution) -> Vec<(u32, Vec<u32>)> {
    let all = RecordKind::ALL.iter();
    let all = all.fold(Records::NONE, |r, k| r.with(*k, true));
    let mut b = DatagramBuilder::new(1396);
    b.begin("192.0.2.1".parse().unwrap(), 9, 1, 1500);
    push(&mut b, slot, &context(found, all)).unwrap();
    let words: Vec<u32> = b
        .finish()
        .chunks(4)
        .map(|w| u32::from_be_bytes(w.try_into().unwrap()))
        .collect();
    let mut rest = &words[20..];
    let mut out = Vec::new();
    while let [format, length, ..] = *rest {
        let n = 2 + length as usize / 4;
        out.push((format, rest[2..n].to_vec()));
        rest = &rest[n..];
    }
    out
}

fn vxlan() -> crate::TunnelEnds {
    crate::TunnelEnds {
        src: [192, 0, 2, 1].into(),
        dst: [192, 0, 2, 2].into(),
        protocol: 17,
        class: 0,
        dst_port: 4789,
        vni: Some(77),
        overhead: 36,
        carries_frames: true,
    }
}

#[test]
fn golden_tunnel_records() {
    let (slot, _) = full();
    let gre = crate::TunnelEnds {
        src: "2001:db8::1".parse().unwrap(),
        dst: "2001:db8::2".parse().unwrap(),
        protocol: 47,
        class: 0xB8,
        dst_port: 0,
        vni: None,
        overhead: 44,
        carries_frames: false,
    };
    let found = Resolution {
        came_out_of: Some(vxlan()),
        goes_into: Some(gre),
        inner_offset: Some(50),
        ..Resolution::default()
    };
    let told = formats(&slot, &found);
    let of = |format| &told.iter().find(|t| t.0 == format).unwrap().1;
    // 60 bytes of frame; the other one carries packets, which are the 38 behind Ethernet and two tags.
    assert_eq!(*of(1024), [96, 17, 0xC000_0201, 0xC000_0202, 0, 4789, 0, 0]);
    assert_eq!(*of(1030), [77]);
    let out = of(1025);
    assert_eq!((out[0], out[1], out[13]), (38 + 44, 47, 0xB8));
    assert_eq!((out[2], out[5], out[9]), (0x2001_0DB8, 1, 2));
    // It leaves, so the tunnel inside was put on here.
    assert_eq!(*of(1028), [50]);
    assert!(
        told.iter()
            .all(|t| ![1023, 1026, 1027, 1029].contains(&t.0))
    );
    let came = SampleSlot {
        direction: Direction::Rx,
        ..slot
    };
    assert!(formats(&came, &found).contains(&(1027, vec![50])));
    // The raw header stands before what Wireshark does not know.
    let header = told.iter().position(|t| t.0 == 1);
    assert!(header < told.iter().position(|t| t.0 == 1024));
}

#[test]
fn a_packet_without_ethernet_is_told_as_what_it_is() {
    let mut slot = SampleSlot {
        rx_if: 3,
        frame_len: 100,
        header_len: 4,
        protocol: HeaderProtocol::Ip6,
        ..SampleSlot::default()
    };
    slot.header[0] = 0x60;
    let found = Resolution {
        goes_into: Some(crate::TunnelEnds {
            carries_frames: false,
            ..vxlan()
        }),
        ..Resolution::default()
    };
    let told = formats(&slot, &found);
    let of = |format| told.iter().find(|t| t.0 == format).unwrap().1.clone();
    assert_eq!(of(1), [12, 118, 18, 4, 0x6000_0000]);
    assert_eq!(of(1001)[..2], [0, 0]);
    assert_eq!((of(1023)[0], of(1029)[0]), (136, 77));
}

#[test]
fn the_vlan_of_a_sub_interface_is_told_where_its_tag_is_not_on_yet() {
    let (tagged, _) = full();
    let mut bare = tagged;
    bare.header[12..14].copy_from_slice(&[8, 0]);
    let found = Resolution {
        passage: Passage::Routed,
        this_end: Some((30, 0)),
        other_end: Some((20, 0)),
        ..Resolution::default()
    };
    let switch = |slot: &SampleSlot| {
        let told = formats(slot, &found);
        told.iter().find(|t| t.0 == 1001).unwrap().1.clone()
    };
    assert_eq!(switch(&bare), [20, 0, 30, 0]);
    assert_eq!(switch(&tagged), [20, 0, 10, 1]);
}
