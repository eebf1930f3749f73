//! Fuzzes the tolerant five-tuple parser with whole and cut frames.
//!
//! A cut may cost ports or the whole key, never change an address.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parshall_wire::FlowKey;

fuzz_target!(|data: &[u8]| {
    let _ = FlowKey::parse_ip(data);
    let _ = FlowKey::parse_mpls(data);
    let whole = FlowKey::parse_ethernet(data);
    if let Some(key) = whole {
        assert_eq!(key.src_addr.is_ipv4(), key.dst_addr.is_ipv4());
        let _ = key.to_string();
    }
    let cut = FlowKey::parse_ethernet(&data[..data.len().min(64)]);
    if let Some(cut) = cut {
        let whole = whole.expect("more bytes tell more");
        assert_eq!(
            (cut.src_addr, cut.dst_addr),
            (whole.src_addr, whole.dst_addr)
        );
        assert!(cut.src_port == whole.src_port || cut.src_port == 0);
    }
});
