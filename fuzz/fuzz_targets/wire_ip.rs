//! Fuzzes the network layer: IPv4 with options and fragments, IPv6 with extension headers.
//!
//! Accessors must not panic on anything a length check lets through, and what a `Repr` parses
//! must survive `emit` and a second `parse`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parshall_wire::{Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, MAX_EXTENSION_HEADERS, WireError};

fuzz_target!(|data: &[u8]| {
    let mut data = data.to_vec();
    match data.first().map(|byte| byte >> 4) {
        Some(4) => check_ipv4(&mut data),
        Some(6) => check_ipv6(&data),
        _ => {
            assert!(Ipv4Packet::new_checked(&data).is_err_and(|_| true) || data.len() >= 20);
            assert!(Ipv6Packet::new_checked(&data).is_err_and(|_| true) || data.len() >= 40);
        }
    }
});

fn check_ipv4(data: &mut [u8]) {
    let len = data.len();
    let Ok(mut packet) = Ipv4Packet::new_checked(&mut *data) else {
        return;
    };
    assert_eq!(
        packet.header_len() + packet.payload().len(),
        usize::from(packet.total_len())
    );
    let option_bytes = packet.options().as_bytes().len();
    let walked: usize = packet
        .options()
        .flatten()
        .map(|option| option.data.len() + 1)
        .sum();
    assert!(walked <= option_bytes);
    assert_eq!(
        packet.is_fragment(),
        packet.more_fragments() || packet.fragment_offset() > 0
    );

    packet.fill_checksum();
    assert!(packet.verify_checksum());
    let ttl = packet.ttl();
    assert_eq!(packet.decrement_ttl(), ttl.saturating_sub(1));
    assert!(packet.verify_checksum());
    packet.payload_mut().reverse();

    if let Ok(repr) = Ipv4Repr::parse(&packet) {
        let mut out = Ipv4Packet::new_unchecked(vec![0xffu8; len.max(repr.total_len())]);
        repr.emit(&mut out).expect("room for the header");
        assert_eq!(Ipv4Repr::parse(&out), Ok(repr));
    }
}

fn check_ipv6(data: &[u8]) {
    if data.len() < 40 {
        assert_eq!(Ipv6Packet::new_checked(data), Err(WireError::Truncated));
        return;
    }
    // The walk is promised to work on packets that are cut short, too.
    let packet = Ipv6Packet::new_unchecked(data);
    let (mut headers, mut bytes) = (0, 0);
    for header in packet.extension_headers() {
        let Ok(header) = header else {
            break;
        };
        assert_eq!(header.offset, bytes);
        headers += 1;
        bytes += header.data.len();
    }
    assert!(headers <= MAX_EXTENSION_HEADERS && 40 + bytes <= data.len());
    if let Ok(upper) = packet.upper_layer() {
        assert_eq!(upper.offset, 40 + bytes);
        assert!(upper.is_fragment() || !upper.is_later_fragment());
    }
    if let Ok(repr) = Ipv6Repr::parse(&packet) {
        assert_eq!(packet.payload().len(), usize::from(repr.payload_len));
        let mut out = Ipv6Packet::new_unchecked(vec![0xffu8; repr.total_len()]);
        repr.emit(&mut out).expect("room for the header");
        assert_eq!(out.into_inner()[..40], data[..40]);
    }
}
