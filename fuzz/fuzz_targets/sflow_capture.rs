//! Fuzzes capture files: pcap and pcapng in either byte order, the link layers in them, and sampled headers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parshall_sflow_wire::dissect::dissect;
use parshall_sflow_wire::pcap::{Capture, find_udp};

fuzz_target!(|data: &[u8]| {
    if let Ok(mut capture) = Capture::open(data) {
        let mut end = 0;
        while let Ok(Some(packet)) = capture.next_packet() {
            assert!(packet.offset >= end, "packets do not overlap");
            end = packet.offset + packet.data.len() as u64;
            if let Some(udp) = find_udp(packet.link_type, packet.data) {
                assert!(udp.payload.len() <= udp.to_end.len());
            }
        }
        assert!(end <= data.len() as u64, "packets lie in the file");
    }
    if let Some((protocol, header)) = data.split_first() {
        let packet = dissect(u32::from(*protocol), header);
        if let Some(ip) = packet.ip {
            assert!(ip.offset < header.len());
        }
        let _ = find_udp(u32::from(*protocol), header);
    }
});
