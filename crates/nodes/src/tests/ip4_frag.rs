//! `ip4-frag`: fragments that come together to the original again (RFC 791 section 3.2).

use parshall_counters::DropReason;
use parshall_wire::{Ipv4Fragment, Ipv4Packet, PacketBuilder, checksum};

use super::lab::*;

/// A network behind interface 2 whose link has this MTU.
fn narrow(lab: &Lab, mtu: u16) {
    lab.route4("10.66.0.0/16", lab.adj4(2, host4(2), mtu));
}

fn packet(len: usize) -> PacketBuilder {
    to_router(1)
        .ipv4(host4(1), [10, 66, 0, 1].into())
        .ident(0xBEEF)
        .class(0x28)
        .udp(1000, 2000)
        .total_len(14 + len)
}

/// Checks each fragment and puts them together.
fn reassemble(sent: &[(u32, Vec<u8>)], mtu: usize) -> Vec<u8> {
    let mut payload = Vec::<u8>::new();
    let mut header = Vec::new();
    for (i, (out, frame)) in sent.iter().enumerate() {
        assert_eq!(*out, 2);
        assert_eq!(frame[..14], Lab::rewrite(2, parshall_wire::EtherType::IPV4));
        let p = Ipv4Packet::new_checked(&frame[14..]).unwrap();
        assert_eq!(frame.len(), 14 + usize::from(p.total_len()));
        assert!(usize::from(p.total_len()) <= mtu);
        let header_len = p.header_len();
        assert_eq!(checksum::checksum(&frame[14..14 + header_len]), 0);
        let last = i + 1 == sent.len();
        assert_eq!(p.more_fragments(), !last);
        assert_eq!(usize::from(p.fragment_offset()), payload.len());
        assert!(last || p.payload().len() % 8 == 0);
        payload.extend(p.payload());
        if i == 0 {
            header = frame[14..14 + header_len].to_vec();
        }
    }
    let mut whole = header;
    whole.extend(payload);
    let len = whole.len() as u16;
    let mut p = Ipv4Packet::new_unchecked(&mut whole[..]);
    p.set_total_len(len);
    p.set_fragment(Ipv4Fragment::NONE);
    p.fill_checksum();
    whole
}

/// The packet as it would have left whole.
fn unbroken(len: usize) -> Vec<u8> {
    packet(len).ttl(63).build()[14..].to_vec()
}

#[test]
fn fragments_come_together_to_the_original() {
    for mtu in [68, 576, 1280, 1499] {
        let mut lab = Lab::new();
        narrow(&lab, mtu);
        for len in [usize::from(mtu) + 1, 1500] {
            let sent = lab.send(1, &packet(len).build());
            let step = (usize::from(mtu) - 20) & !7;
            assert_eq!(sent.len(), (len - 20).div_ceil(step), "mtu {mtu}");
            assert_eq!(
                hex(&reassemble(&sent, usize::from(mtu))),
                hex(&unbroken(len))
            );
        }
        let c = &lab.harness.dispatcher.counters;
        assert_eq!((c.received.get(), c.dropped.get()), (2, 0));
        assert_eq!(c.transmitted.get(), 2 + c.originated.get());
    }
}

#[test]
fn a_packet_of_the_mtu_stays_whole() {
    let mut lab = Lab::new();
    narrow(&lab, 1000);
    let out = lab.send(1, &packet(1000).build());
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].1[14..], unbroken(1000));
}

#[test]
fn a_chained_packet_is_cut_into_pieces_of_one_buffer_and_of_several() {
    for mtu in [1500u16, 4000] {
        let mut lab = Lab::new();
        lab.harness.add_interface(2, u32::from(mtu) + 14);
        narrow(&lab, mtu);
        let sent = lab.send(1, &packet(9000).build());
        assert_eq!(reassemble(&sent, usize::from(mtu)), unbroken(9000));
    }
}

#[test]
fn a_fragment_is_cut_further() {
    let mut lab = Lab::new();
    narrow(&lab, 576);
    let piece = |more| {
        to_router(1)
            .ipv4(host4(1), [10, 66, 0, 1].into())
            .ident(9)
            .fragment(1480, more)
            .payload_len(1480)
            .build()
    };
    for more in [true, false] {
        let frame = piece(more);
        let sent = lab.send(1, &frame);
        assert_eq!(sent.len(), 3);
        let mut payload = Vec::<u8>::new();
        for (i, (_, bytes)) in sent.iter().enumerate() {
            let p = Ipv4Packet::new_checked(&bytes[14..]).unwrap();
            assert_eq!(usize::from(p.fragment_offset()), 1480 + payload.len());
            assert_eq!(p.more_fragments(), more || i < 2);
            payload.extend(p.payload());
        }
        assert_eq!(payload, frame[34..]);
    }
}

#[test]
fn options_that_must_be_copied_are_in_every_fragment() {
    // Loose source route (copied), timestamp (not copied), stream identifier (copied), padding.
    let options = [
        0x83u8, 7, 4, 10, 0, 0, 1, 0x44, 8, 5, 0, 1, 2, 3, 4, 0x88, 4, 0, 9, 1,
    ];
    let mut lab = Lab::new();
    narrow(&lab, 256);
    let frame = to_router(1)
        .ipv4(host4(1), [10, 66, 0, 1].into())
        .ident(3)
        .ipv4_options(&options)
        .udp(1, 2)
        .payload_len(600)
        .build();
    let sent = lab.send(1, &frame);
    assert_eq!(sent[0].1[34..54], options);
    for (_, bytes) in &sent[1..] {
        let p = Ipv4Packet::new_checked(&bytes[14..]).unwrap();
        assert_eq!(p.header_len(), 32);
        let copied = [0x83, 7, 4, 10, 0, 0, 1, 0x88, 4, 0, 9, 0];
        assert_eq!(bytes[34..46], copied);
    }
    let payload: Vec<u8> = sent
        .iter()
        .flat_map(|(_, b)| Ipv4Packet::new_unchecked(&b[14..]).payload().to_vec())
        .collect();
    assert_eq!(payload, frame[54..]);
}

#[test]
fn malformed_options_end_the_list() {
    for options in [&[0x83u8, 0, 0, 0][..], &[0x83, 200, 0, 0], &[0x83, 1, 0, 0]] {
        let mut lab = Lab::new();
        narrow(&lab, 256);
        let frame = to_router(1)
            .ipv4(host4(1), [10, 66, 0, 1].into())
            .ipv4_options(options)
            .udp(1, 2)
            .payload_len(600)
            .build();
        let sent = lab.send(1, &frame);
        assert!(sent.len() > 1);
        assert_eq!(Ipv4Packet::new_unchecked(&sent[1].1[14..]).header_len(), 20);
    }
}

#[test]
fn an_mtu_without_room_for_payload_is_a_drop() {
    let mut lab = Lab::new();
    narrow(&lab, 27);
    lab.expect_drop(1, &packet(100).build(), DropReason::FragmentationNeeded);
}

#[test]
fn running_out_of_buffers_is_a_drop_of_the_whole() {
    let mut lab = Lab::new();
    narrow(&lab, 68);
    // 9,000 bytes at 48 a piece need 187 buffers of 2,048 each.
    let frames = vec![packet(9000).build(); 20];
    let sent = lab.send_all(1, &frames);
    let failed = lab.harness.drops(DropReason::NoBufferSpace);
    assert!(failed > 0 && failed < 20);
    assert_eq!(sent.len() as u64, (20 - failed) * 188);
}

#[test]
fn fragments_of_what_the_router_says_keep_its_ttl() {
    let mut lab = Lab::new();
    lab.route4("10.0.1.2/32", lab.adj4(1, host4(1), 576));
    let ping = to_router(1)
        .ipv4(host4(1), router4(1))
        .ident(4)
        .echo_request(1, 2)
        .payload_len(1000)
        .build();
    let sent = lab.send(1, &ping);
    assert_eq!(sent.len(), 2);
    for (_, bytes) in sent {
        assert_eq!(Ipv4Packet::new_unchecked(&bytes[14..]).ttl(), 64);
    }
}
