//! Fuzzes checksums: the fast sum against the slow one, and filling whole IP packets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parshall_wire::checksum::{
    Checksum, checksum, fill_l4_checksum, fill_l4_checksum_parts, l4_checksum_valid,
};

fuzz_target!(|data: &[u8]| {
    assert_eq!(checksum(data), slow(data));
    let cut = data
        .first()
        .map_or(0, |byte| usize::from(*byte).min(data.len()));
    let mut sum = Checksum::new();
    sum.add(&data[..cut]);
    sum.add(&data[cut..]);
    assert_eq!(sum.finish(), slow(data));

    let mut whole = data.to_vec();
    let filled = fill_l4_checksum(&mut whole);
    assert_eq!(filled, l4_checksum_valid(data).is_some());
    if filled {
        assert_eq!(l4_checksum_valid(&whole), Some(true));
        let changed = whole.iter().zip(data).filter(|(a, b)| a != b).count();
        assert!(changed <= 2, "more than the checksum was written");
    } else {
        assert_eq!(whole, data);
    }
    // Split behind the headers, the packet must get the same checksum.
    let (head, tail) = data.split_at(data.len().min(80 + cut));
    let mut head = head.to_vec();
    if fill_l4_checksum_parts(&mut head, tail.chunks(7)) {
        assert_eq!(head, whole[..head.len()]);
    }
});

/// RFC 1071 section 1, word by word.
fn slow(data: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in data.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
