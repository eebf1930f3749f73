//! Fuzzes UDP and TCP: the first byte chooses, the rest is the datagram or segment.
#![no_main]

use std::net::{Ipv4Addr, Ipv6Addr};

use libfuzzer_sys::fuzz_target;
use parshall_wire::{TcpPacket, TcpRepr, UdpPacket, UdpRepr};

const V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const V6: Ipv6Addr = Ipv6Addr::LOCALHOST;

fuzz_target!(|data: &[u8]| {
    match data.split_first() {
        Some((0x80.., data)) => check_tcp(data),
        Some((_, data)) => check_udp(data.to_vec()),
        None => {}
    }
});

fn check_udp(mut data: Vec<u8>) {
    let Ok(mut packet) = UdpPacket::new_checked(&mut data[..]) else {
        return;
    };
    assert_eq!(packet.payload().len() + 8, usize::from(packet.len_field()));
    let _ = packet.verify_checksum(V4.into(), V4.into());
    packet.fill_checksum_v4(V4, V4);
    assert!(packet.verify_checksum(V4.into(), V4.into()));
    packet.fill_checksum_v6(V6, V6);
    assert!(packet.verify_checksum(V6.into(), V6.into()));
    assert!(!packet.verify_checksum(V4.into(), V6.into()));
    packet.payload_mut().reverse();
    if let Ok(repr) = UdpRepr::parse(&packet) {
        let mut out = UdpPacket::new_unchecked(vec![0xffu8; 8 + usize::from(repr.payload_len)]);
        repr.emit(&mut out).expect("room for the header");
        assert_eq!(UdpRepr::parse(&out), Ok(repr));
    }
}

fn check_tcp(data: &[u8]) {
    let Ok(packet) = TcpPacket::new_checked(data) else {
        return;
    };
    assert_eq!(
        20 + packet.options().len() + packet.payload().len(),
        data.len()
    );
    let _ = packet.verify_checksum(V4.into(), V4.into());
    let _ = packet.flags().to_string();
    if let Ok(repr) = TcpRepr::parse(&packet) {
        let mut out = TcpPacket::new_unchecked([0xffu8; 20]);
        repr.emit(&mut out).expect("room for the header");
        assert_eq!(TcpRepr::parse(&out), Ok(repr));
    }
}
