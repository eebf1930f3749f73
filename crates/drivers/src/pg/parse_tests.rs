//! Streams in VPP's words: what is understood, what is refused and where.

use super::*;
use crate::pg::Values;
use crate::pg::expand::Frames;
use crate::pg::samples::internet_sum;
use proptest::prelude::*;

/// All variants of a stream's text, at most 100.
fn frames(text: &str) -> Vec<Vec<u8>> {
    let spec = StreamSpec::parse_vpp(text).unwrap_or_else(|e| panic!("{e}"));
    made(&spec)
}
fn made(spec: &StreamSpec) -> Vec<Vec<u8>> {
    let Source::Generate(t) = &spec.source else {
        return Vec::new();
    };
    let f = Frames::new(t, spec.seed, 100, [0x02, 0xfe, 0, 0, 0, 9]).unwrap();
    let one = |i| {
        let mut b = f.base.clone();
        b[f.at..f.at + f.width].copy_from_slice(f.window(i));
        b.truncate(f.len(i));
        b
    };
    (0..f.count).map(one).collect()
}
fn data(data: &str) -> Vec<Vec<u8>> {
    frames(&format!("name x size 64-64 data {{ {data} }}"))
}
fn error(text: &str) -> String {
    StreamSpec::parse_vpp(text).unwrap_err().to_string()
}

#[test]
fn vpps_own_example() {
    let spec = StreamSpec::parse_vpp(
        "packet-generator new {\\\n name s0 limit 100 rate 1e6 size 64-64 \\\n interface pg0 node ethernet-input \
         data { IP4: 1.2.3 -> 4.5.6 UDP: 192.168.1.1 - 192.168.1.254 -> 10.0.0.1 \
         UDP: 1234 -> 2345 length 128 checksum 0 incrementing 100 } }",
    )
    .unwrap();
    assert_eq!(
        (spec.name.as_str(), spec.limit, spec.rate),
        ("s0", 100, 1e6)
    );
    assert_eq!(spec.interface.as_deref(), Some("pg0"));
    let Source::Generate(t) = &spec.source else {
        panic!("generated")
    };
    assert_eq!(t.edits.len(), 1);
    assert_eq!(
        t.edits[0].values,
        Values::Increment {
            first: 0xc0a8_0101,
            last: 0xc0a8_01fe
        }
    );
    let all = made(&spec);
    assert_eq!(all[0][..14], [0, 4, 0, 5, 0, 6, 0, 1, 0, 2, 0, 3, 8, 0]);
    assert_eq!(
        all[1][14..26],
        [0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, all[1][24], all[1][25]]
    );
    assert_eq!(all[1][26..34], [192, 168, 1, 2, 10, 0, 0, 1]);
    assert_eq!(all[1][34..46], [4, 210, 9, 41, 0, 128, 0, 0, 0, 1, 2, 3]);
    assert!(
        all.iter()
            .all(|b| b.len() == 64 && internet_sum(&b[14..34], 0) == 0xffff)
    );
}

#[test]
fn other_headers() {
    let b = &data(
        "IP6: 00:50:00:00:00:01 -> 00:50:56:b7:29:7a UDP: 2001:db8::1 -> 2001:db8::2 hop-limit 9 UDP: 1 -> 2",
    )[0];
    assert_eq!(b[12..22], [0x86, 0xdd, 0x60, 0, 0, 0, 0, 10, 17, 9]);
    assert_eq!(internet_sum(&b[22..], 17 + 10), 0xffff);

    let b =
        &data("IP6: 1.2.3 -> 4.5.6 ICMP: 3002::2 -> 3001::2 ICMP echo_request incrementing 100")[0];
    assert_eq!((b[20], b[54]), (58, 128));
    assert_eq!(internet_sum(&b[22..], 58 + 10), 0xffff);

    let b = &data(
        "IP4: 1.2.3 -> 4.5.6 vlan 5 priority 3 vlan 7 ICMP: 1.0.0.2 -> 2.0.0.2 ttl 3 df ICMP echo_request hex 0x00010002",
    )[0];
    assert_eq!(b[12..22], [0x81, 0, 0x60, 5, 0x81, 0, 0, 7, 8, 0]);
    assert_eq!((b[28], b[30], b[31]), (0x40, 3, 1));
    assert_eq!(b[42..50], [8, 0, b[44], b[45], 0, 1, 0, 2]);
    assert_eq!(internet_sum(&b[42..], 0), 0xffff);

    let b = &data(
        "IP4: 1.2.3 -> 4.5.6 TCP: 1.1.1.1 -> 2.2.2.2 tos 0x10 TCP: 80 -> 81 SYN ACK window 7 seqnum 0xffffffff",
    )[0];
    assert_eq!(
        (b[15], b[38..42].to_vec(), b[46], b[47], b[49]),
        (0x10, vec![255; 4], 0x50, 0x12, 7)
    );
    assert_eq!(internet_sum(&b[26..], 6 + 30), 0xffff);

    let b = &data(
        "MPLS: 1.2.3 -> 4.5.6 MPLS: label 33 exp 5 MPLS: label 16-18 ttl 64 UDP: 1.1.1.1 -> 2.2.2.2 UDP: 1 -> 2",
    )[2];
    assert_eq!(b[12..22], [0x88, 0x47, 0, 2, 0x1a, 255, 0, 1, 0x21, 64]);
    assert_eq!(internet_sum(&b[22..42], 0), 0xffff);
    let b = &data("MPLS: 1.2.3 -> 4.5.6 MPLS: label 2 UDP: ::1 -> ::2 incrementing 3")[0];
    assert_eq!((b[18], b[17], b[58], b[63]), (0x60, 255, 0, 2));

    let b = &data("ARP: 1.2.3 -> ffff.ffff.ffff request: 1.2.3/10.0.0.1 -> 0.0.0/10.0.0.2")[0];
    assert_eq!(b[12..22], [8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    assert_eq!(
        b[22..42],
        [0, 1, 0, 2, 0, 3, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]
    );

    let b = &data("0x8881: 4:4:4:4:4:4 -> 5:5:5:5:5:5 hex 0xabcd")[0];
    assert_eq!(b[12..17], [0x88, 0x81, 0xab, 0xcd, 0]);
    assert_eq!(
        data(
            "IP4: 1.2.3 -> 4.5.6 UDP: 1.1.1.1 -> 2.2.2.2 fragment id 7 offset 16 mf incrementing 1"
        )[0][18..22],
        [0, 7, 0x20, 2]
    );
    assert_eq!(
        frames("name x data { hex 0x0102030405060708090a0b0c0d0e0f }")[0].len(),
        64
    );
}

#[test]
fn a_node_below_ethernet_gets_a_header_to_the_interface() {
    let all = frames(
        "name x node ip4-input size 64+65 data { UDP: 1.1.1.1 -> 2.2.2.2 + 2.2.2.9 UDP: 1 -> 2 + 9 incrementing 8 }",
    );
    assert!(
        all.iter()
            .all(|b| b[..14] == [2, 0xfe, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 8, 0])
    );
    assert!(all.iter().any(|b| b.len() == 78) && all.iter().any(|b| b.len() == 79));
    assert!(
        all.iter()
            .all(|b| internet_sum(&b[26..], 17 + (b.len() - 34) as u32) == 0xffff)
    );
}

#[test]
fn files() {
    let spec = StreamSpec::parse_vpp("new { name x }").unwrap_err();
    assert_eq!(spec.at, 0);
    let spec = StreamSpec::parse_vpp(
        "packet-generator new pcap /tmp/a.pcap source pg1 name X worker 2 loop speed 0.5",
    )
    .unwrap();
    let want = Source::Replay {
        path: "/tmp/a.pcap".into(),
        looping: true,
        speed: Speed::Recorded(0.5),
    };
    assert_eq!(
        (spec.source, spec.worker, spec.interface.as_deref()),
        (want, 2, Some("pg1"))
    );
    assert_eq!(
        error("name x pcap f size 64-64"),
        "line 1, column 8: a file has its own sizes and starts at ethernet-input"
    );
    assert_eq!(
        error("name x pcap f data { hex 0x00 }"),
        "line 1, column 8: either `data` or `pcap`, not both"
    );
}

#[test]
fn errors_say_where_and_what_is_allowed() {
    assert_eq!(
        error("limit 5"),
        "line 1, column 1: the stream has no name; write `name NAME`"
    );
    assert_eq!(
        error("name x"),
        "line 1, column 1: no packets; write `data { ... }` or `pcap FILE`"
    );
    assert_eq!(
        error("name x\n  colour red"),
        format!("line 2, column 3: expected one of {WORDS}, found `colour`")
    );
    assert_eq!(
        error("name x rate -5 data { hex 0x }"),
        "line 1, column 8: rate -5 is not from 0 (as fast as possible) to 1000000000 packets per second"
    );
    assert_eq!(
        error("name x rate many"),
        "line 1, column 13: expected a number, found `many`"
    );
    assert_eq!(
        error("name x maxframe 300"),
        "line 1, column 8: maxframe 300 is not from 1 to 256"
    );
    assert_eq!(
        error("name x data { IP4: 1.2.3 -> 4.5.6"),
        "line 1, column 13: this `{` is not closed"
    );
    assert_eq!(
        error("name x data { IP4: 1.2.3 -> 4.5 }"),
        "line 1, column 29: expected an Ethernet address (1:2:3:4:5:6 or 1.2.3), found `4.5`"
    );
    assert_eq!(
        error("name x data { IP4: 1.2.3 -> 4.5.6\n UDP: 1.1.1.9-1.1.1.1 -> 2.2.2.2 }"),
        "line 2, column 7: the range `1.1.1.9-1.1.1.1` ends before it starts"
    );
    assert_eq!(
        error("name x size 20-20 data { IP4: 1.2.3 -> 4.5.6 UDP: 1.1.1.1 -> 2.2.2.2 }"),
        "line 1, column 8: size 20 is less than the 34 bytes of headers and data"
    );
    assert_eq!(
        error("name x data { IP4: 1.2.3 -> 4.5.6 UDP: 1.1.1.1 -> 2.2.2.2 UDP: 1 -> 70000 }"),
        "line 1, column 69: 70000 is not from 0 to 65535"
    );
    assert_eq!(
        error("name x data { IP4: 1.2.3 -> 4.5.6 UDP: 1.1.1.1 -> 2.2.2.2 TCP: 1 -> 2 }"),
        "line 1, column 59: expected `UDP: PORT -> PORT`, `incrementing N` or `hex 0x...`, found `TCP:`"
    );
    assert_eq!(
        error("name x data { IP4: 1.2.3 -> 4.5.6 UDP: ::1 -> ::2 }"),
        "line 1, column 35: an IP4 Ethernet header cannot carry IPv6 addresses, write IP6"
    );
    assert_eq!(
        error("name x data { hex 0x123 }"),
        "line 1, column 19: expected 0x and pairs of hexadecimal digits, found `0x123`"
    );
    assert_eq!(
        error("name x data { hex 0x12 34 }"),
        "line 1, column 24: expected the end of the packet data, found `34`"
    );
    assert_eq!(
        error("name x data { IP4: 1.2.3 -> 4.5.6 incrementing 0 }"),
        "line 1, column 48: expected a number of bytes from 1, found `0`"
    );
    assert!(error("name x node loop1-output").starts_with(
        "line 1, column 13: expected a node packets can be made for (ethernet-input,"
    ));
    assert_eq!(
        error("{ name x data { hex 0x } } tail"),
        "line 1, column 28: expected nothing behind the closing brace, found `tail`"
    );
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,200}") {
        let _ = StreamSpec::parse_vpp(&text);
    }

    #[test]
    fn any_words_are_read_or_refused_and_what_is_read_can_be_made(
        words in prop::collection::vec(prop::sample::select(WORD_SOUP.to_vec()), 0..30)
    ) {
        let text = format!("name x data {{ {} }}", words.join(" "));
        let soup = StreamSpec::parse_vpp(&words.join(" "));
        for spec in [soup, StreamSpec::parse_vpp(&text)].into_iter().flatten() {
            let replay = matches!(spec.source, Source::Replay { .. });
            prop_assert!(replay || !made(&spec).is_empty());
        }
    }
}

const WORD_SOUP: [&str; 40] = [
    "IP4: 1.2.3 -> 4.5.6",
    "IP6: 1.2.3 -> 4.5.6",
    "MPLS: 1.2.3 -> 4.5.6",
    "ARP: 1.2.3 -> 4.5.6",
    "vlan 1-4095",
    "UDP: 1.1.1.1 -> 2.2.2.2 + 255.255.255.255",
    "TCP: 0.0.0.0-255.255.255.255 -> 1.1.1.1",
    "UDP: ::1 -> ::2-ffff::",
    "UDP: 1 -> 2",
    "TCP: 0-65535 -> 2",
    "ICMP: 1.1.1.1 -> 2.2.2.2",
    "ICMP echo_request",
    "MPLS: label 0-1048575",
    "ttl 1-255",
    "length 20-65535",
    "checksum 1+9",
    "fragment id 1 offset 0-65535",
    "version 0-15",
    "header-length 15",
    "hop-limit 1-2",
    "SYN",
    "window 1-9",
    "hex 0x00",
    "hex 0x45",
    "incrementing 7",
    "size 64-65535",
    "size 14+15",
    "name y",
    "node ip6-input",
    "node mpls-input",
    "node arp-input",
    "data { hex 0x00 }",
    "limit -1",
    "rate 1e9",
    "worker 3",
    "{",
    "}",
    "request: 1.2.3/1.1.1.1 -> 4.5.6/2.2.2.2",
    "variants 3",
    "seed 9",
];
