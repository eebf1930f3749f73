//! Fuzzes ICMP, ICMPv6 and neighbour discovery, and the errors a router builds.
//!
//! The first byte chooses the codec, so that one corpus serves all. Checksums are made right
//! before parsing, for no fuzzer guesses them.
#![no_main]

use std::net::{Ipv4Addr, Ipv6Addr};

use libfuzzer_sys::fuzz_target;
use parshall_wire::checksum::l4_checksum_valid;
use parshall_wire::{
    Icmpv4ErrorBuilder, Icmpv4ErrorKind, Icmpv4Packet, Icmpv4Repr, Icmpv4TimeExceeded,
    Icmpv6ErrorBuilder, Icmpv6ErrorKind, Icmpv6Packet, Icmpv6Repr, Ipv4Packet, NdiscOptions,
    NdiscPacket, NdiscRepr,
};

const SRC: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const DST: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);

fuzz_target!(|data: &[u8]| {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    match kind % 4 {
        0 => check_icmpv4(data.to_vec()),
        1 => check_icmpv6(data.to_vec()),
        2 => check_error_v4(data),
        _ => check_error_v6(data),
    }
});

fn check_icmpv4(mut data: Vec<u8>) {
    let Ok(mut packet) = Icmpv4Packet::new_checked(&mut data[..]) else {
        return;
    };
    packet.fill_checksum();
    if let Ok(repr) = Icmpv4Repr::parse(&Icmpv4Packet::new_unchecked(&data[..])) {
        let mut out = Icmpv4Packet::new_unchecked(vec![0xffu8; repr.buffer_len()]);
        repr.emit(&mut out).expect("just the right room");
        let out = out.into_inner();
        assert_eq!(
            Icmpv4Repr::parse(&Icmpv4Packet::new_unchecked(&out[..])),
            Ok(repr)
        );
    }
}

fn check_icmpv6(mut data: Vec<u8>) {
    let Ok(mut packet) = Icmpv6Packet::new_checked(&mut data[..]) else {
        return;
    };
    packet.fill_checksum(&SRC, &DST);
    let packet = Icmpv6Packet::new_unchecked(&data[..]);
    if let Ok(repr) = Icmpv6Repr::parse(&SRC, &DST, &packet) {
        let mut out = Icmpv6Packet::new_unchecked(vec![0xffu8; repr.buffer_len()]);
        repr.emit(&SRC, &DST, &mut out)
            .expect("just the right room");
        let out = out.into_inner();
        let again = Icmpv6Repr::parse(&SRC, &DST, &Icmpv6Packet::new_unchecked(&out[..]));
        assert_eq!(again, Ok(repr));
    }
    assert!(NdiscOptions::of_message(&data).count() <= data.len() / 8 + 1);
    if let Ok(repr) = NdiscRepr::parse(&SRC, &DST, &packet) {
        let mut out = NdiscPacket::new_unchecked(vec![0xffu8; repr.buffer_len()]);
        repr.emit(&SRC, &DST, &mut out)
            .expect("just the right room");
        assert_eq!(NdiscRepr::parse(&SRC, &DST, &out), Ok(repr));
    }
}

fn check_error_v4(data: &[u8]) {
    if !Icmpv4ErrorBuilder::may_be_sent_about(data) {
        return;
    }
    let builder = Icmpv4ErrorBuilder {
        src_addr: Ipv4Addr::new(10, 0, 0, 254),
        kind: Icmpv4ErrorKind::TimeExceeded(Icmpv4TimeExceeded::Ttl),
        ttl: 64,
        ident: 1,
    };
    let mut buffer = [0u8; Icmpv4ErrorBuilder::MAX_LEN];
    let len = builder
        .emit(&mut buffer, data)
        .expect("room for the longest error");
    let packet = Ipv4Packet::new_checked(&buffer[..len]).expect("a whole packet");
    assert!(packet.verify_checksum());
    let icmp = Icmpv4Packet::new_checked(packet.payload()).expect("a whole message");
    let Ok(Icmpv4Repr::Error { original, .. }) = Icmpv4Repr::parse(&icmp) else {
        panic!("an error message");
    };
    assert_eq!(original, &data[..original.len()]);
    // No error about an error: the reply to this one would never end.
    assert!(!Icmpv4ErrorBuilder::may_be_sent_about(&buffer[..len]));
}

fn check_error_v6(data: &[u8]) {
    let src_addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xfe);
    let kind = Icmpv6ErrorKind::PacketTooBig { mtu: 1280 };
    let builder = Icmpv6ErrorBuilder {
        src_addr,
        kind,
        hop_limit: 64,
    };
    if !builder.may_be_sent_about(data) {
        return;
    }
    let mut buffer = [0u8; Icmpv6ErrorBuilder::MAX_LEN];
    let len = builder
        .emit(&mut buffer, data)
        .expect("room for the longest error");
    assert_eq!(l4_checksum_valid(&buffer[..len]), Some(true));
    assert_eq!(buffer[48..len], data[..len - 48]);
    assert!(!builder.may_be_sent_about(&buffer[..len]));
}
