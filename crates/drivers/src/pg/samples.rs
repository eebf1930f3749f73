//! Frames the tests of this folder share, and a checksum written independently of `expand`.

/// Sum of the big-endian words of `bytes` plus `start`, folded: 0xffff over data with a right checksum.
pub(super) fn internet_sum(bytes: &[u8], start: u32) -> u16 {
    let mut sum = start;
    for (i, &b) in bytes.iter().enumerate() {
        sum += if i % 2 == 0 {
            u32::from(b) << 8
        } else {
            u32::from(b)
        };
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (sum & 0xffff) as u16 + (sum >> 16) as u16
}

/// Ethernet, IPv4 10.1.0.1 -> 10.0.0.1, UDP 1234 -> 5678, payload counting up; checksums not yet right.
pub(super) fn udp4_frame(len: usize) -> Vec<u8> {
    let mut b = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let ip = (len - 14) as u16;
    b.extend([
        0x45,
        0,
        (ip >> 8) as u8,
        ip as u8,
        0,
        0,
        0,
        0,
        64,
        17,
        0,
        0,
        10,
        1,
        0,
        1,
        10,
        0,
        0,
        1,
    ]);
    let udp = (len - 34) as u16;
    b.extend([4, 210, 22, 46, (udp >> 8) as u8, udp as u8, 1, 1]);
    b.extend((0..len - 42).map(|i| i as u8));
    b
}

/// Ethernet, IPv6 2001:db8::1 -> ::, TCP; checksum not yet right.
pub(super) fn tcp6_frame(len: usize) -> Vec<u8> {
    let mut b = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
    b.extend([0x60, 0, 0, 0, 0, (len - 54) as u8, 6, 64]);
    b.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    b.extend([0; 16]);
    b.extend([
        0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 2, 16, 0, 0, 0, 0, 0,
    ]);
    b.extend((0..len - 74).map(|i| i as u8));
    b
}
