//! Frames to send, and netlink messages taken apart: by hand and from the specifications alone, so that nothing of
//! Parshall's own judges Parshall.

use std::fs;
use std::path::Path;

/// Ethernet address of the router's port.
pub const ROUTER: [u8; 6] = [0x02, 0xFE, 0, 0, 0, 0x01];

/// Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|c| u32::from(c[0]) << 8 | c.get(1).map_or(0, |b| u32::from(*b)));
    let sum: u32 = words.sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    !(((folded & 0xFFFF) + (folded >> 16)) as u16)
}

/// Ethernet header of a frame to the router.
fn ethernet(ethertype: u16) -> Vec<u8> {
    let far = [0x02, 0xAA, 0, 0, 0, 0x02];
    [&ROUTER[..], &far, &ethertype.to_be_bytes()].concat()
}

/// A UDP datagram over IPv4 in a frame, `payload` bytes that begin with `number`.
pub fn udp4(to: [u8; 4], ttl: u8, number: u8, payload: usize) -> Vec<u8> {
    let mut ip = vec![0x45, 0];
    ip.extend((28 + payload as u16).to_be_bytes());
    ip.extend([0, number, 0x40, 0, ttl, 17, 0, 0, 10, 1, 0, 9]);
    ip.extend(to);
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut frame = [ethernet(0x0800), ip].concat();
    frame.extend([0x12, 0x34, 0x00, 0x35]);
    frame.extend((8 + payload as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend((0..payload).map(|i| number.wrapping_add(i as u8)));
    frame
}

/// A UDP datagram over IPv6 in a frame.
pub fn udp6(payload: usize) -> Vec<u8> {
    let mut frame = ethernet(0x86DD);
    frame.extend([0x60, 0, 0, 0]);
    frame.extend((8 + payload as u16).to_be_bytes());
    frame.extend([17, 64]);
    for last in [9, 2] {
        frame.extend([
            0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last,
        ]);
    }
    frame.extend([0x12, 0x34, 0x00, 0x35]);
    frame.extend((8 + payload as u16).to_be_bytes());
    frame.extend([0xBE, 0xEF]);
    frame.extend((0..payload).map(|i| i as u8));
    frame
}

/// A frame with a tag that no sub-interface takes.
pub fn tagged() -> Vec<u8> {
    let inner = udp4([10, 2, 0, 2], 64, 0x77, 40);
    [&inner[..12], &[0x81, 0x00, 0x00, 0x2A], &inner[12..]].concat()
}

/// Writes a capture file (libpcap's classic format, Ethernet).
pub fn write_pcap(path: &Path, frames: &[Vec<u8>]) {
    let words = |all: &[u32]| -> Vec<u8> { all.iter().flat_map(|w| w.to_le_bytes()).collect() };
    let mut file = words(&[0xA1B2_C3D4, 0x0004_0002, 0, 0, 65_535, 1]);
    for frame in frames {
        let n = frame.len() as u32;
        file.extend(words(&[0, 0, n, n]));
        file.extend(frame);
    }
    fs::write(path, file).unwrap();
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The bytes of hexadecimal digits.
pub fn unhex(text: &str) -> Vec<u8> {
    let digit = |c: u8| (c as char).to_digit(16).unwrap() as u8;
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|p| digit(p[0]) << 4 | digit(p[1])).collect()
}

/// A netlink message.
#[derive(Debug, Clone)]
pub struct Message {
    /// Type, flags, sequence, port of the header.
    pub kind: u16,
    pub flags: u16,
    pub sequence: u32,
    pub port: u32,
    /// What follows the header.
    pub body: Vec<u8>,
}

fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([b[at], b[at + 1]])
}

/// A number in host order.
pub fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

impl Message {
    /// The one message of a datagram.
    pub fn of(datagram: &[u8]) -> Message {
        assert_eq!(
            u32_at(datagram, 0) as usize,
            datagram.len(),
            "one message a datagram"
        );
        Message {
            kind: u16_at(datagram, 4),
            flags: u16_at(datagram, 6),
            sequence: u32_at(datagram, 8),
            port: u32_at(datagram, 12),
            body: datagram[16..].to_vec(),
        }
    }

    /// Attributes behind `skip` bytes of the body: type with its flags, and value. All bytes must belong to one.
    pub fn attributes(&self, skip: usize) -> Vec<(u16, Vec<u8>)> {
        attributes(&self.body[skip..])
    }
}

/// Attributes: type with its flags, and value. Padding must be zero, and nothing may be left over.
pub fn attributes(mut b: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut all = Vec::new();
    while !b.is_empty() {
        let length = usize::from(u16_at(b, 0));
        let padded = length.next_multiple_of(4);
        assert!(b[length..padded].iter().all(|p| *p == 0), "padding");
        all.push((u16_at(b, 2), b[4..length].to_vec()));
        b = &b[padded..];
    }
    all
}

/// The attribute of this type, which must be there.
pub fn get(all: &[(u16, Vec<u8>)], kind: u16) -> &[u8] {
    let found = all.iter().find(|a| a.0 == kind);
    &found
        .unwrap_or_else(|| panic!("no attribute {kind} in {all:?}"))
        .1
}

/// A number of 2, 4 or 8 bytes in host order.
pub fn number(value: &[u8]) -> u64 {
    match value.len() {
        2 => u64::from(u16_at(value, 0)),
        4 => u64::from(u32_at(value, 0)),
        8 => u64::from_ne_bytes(value.try_into().unwrap()),
        n => panic!("a number of {n} bytes"),
    }
}

/// A string that ends with a zero.
pub fn string(value: &[u8]) -> String {
    let (last, text) = value.split_last().unwrap();
    assert_eq!(*last, 0, "a zero at the end");
    String::from_utf8(text.to_vec()).unwrap()
}
