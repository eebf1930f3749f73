//! Fuzzes the link layer: Ethernet, VLAN tags, ARP and MPLS label stacks, walked as a frame.
//!
//! What a `Repr` parses must come out of `emit` as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parshall_wire::{
    ArpPacket, ArpRepr, EtherType, EthernetFrame, EthernetRepr, MPLS_MAX_LABELS, MplsLabelEntry,
    MplsRepr, MplsStack, VlanRepr, VlanTag,
};

fuzz_target!(|data: &[u8]| {
    let Ok(frame) = EthernetFrame::new_checked(data) else {
        return;
    };
    if let Ok(repr) = EthernetRepr::parse(&frame) {
        let mut out = EthernetFrame::new_unchecked([0u8; 14]);
        repr.emit(&mut out).expect("room for the header");
        assert_eq!(out.into_inner(), data[..14]);
    }
    let (mut ethertype, mut rest) = (frame.ethertype(), frame.payload());
    while ethertype.is_vlan() {
        let Ok(tag) = VlanTag::new_checked(rest) else {
            return;
        };
        check_tag(&tag);
        ethertype = tag.ethertype();
        rest = &rest[4..];
    }
    match ethertype {
        EtherType::ARP => check_arp(rest),
        _ if ethertype.is_mpls() => check_stack(rest),
        _ => {}
    }
});

fn check_tag(tag: &VlanTag<&[u8]>) {
    if let Ok(repr) = VlanRepr::parse(tag) {
        let mut out = VlanTag::new_unchecked([0xffu8; 4]);
        repr.emit(&mut out).expect("room for the tag");
        assert_eq!(out.into_inner(), tag.into_inner()[..4]);
    }
}

fn check_arp(data: &[u8]) {
    let Ok(packet) = ArpPacket::new_checked(data) else {
        return;
    };
    if let Ok(repr) = ArpRepr::parse(&packet) {
        let mut out = ArpPacket::new_unchecked([0u8; 28]);
        repr.emit(&mut out).expect("room for the packet");
        assert_eq!(out.into_inner(), data[..28]);
        let reply = repr.reply_from(repr.target_mac);
        assert_eq!(
            (reply.target_ip, reply.target_mac),
            (repr.sender_ip, repr.sender_mac)
        );
    }
}

fn check_stack(data: &[u8]) {
    let mut stack = MplsStack::new(data);
    let mut entries = 0;
    for entry in stack.by_ref() {
        let Ok(entry) = entry else {
            return;
        };
        entries += 1;
        if let Ok(repr) = MplsRepr::parse(&entry) {
            let mut out = MplsLabelEntry::new_unchecked([0u8; 4]);
            repr.emit(&mut out).expect("room for the entry");
            assert_eq!(out.into_inner(), entry.into_inner());
        }
    }
    assert!(entries <= MPLS_MAX_LABELS);
    assert_eq!(stack.payload().len(), data.len() - 4 * entries);
}
