//! PSAMPLE: sampled packets on generic netlink (`include/uapi/linux/psample.h`).
//!
//! The kernel's own samplers (`tc ... action sample`, Open vSwitch) send on the group `packets` of the family `psample`,
//! and so do we. [`encode`] writes what we send, [`decode`] reads whatever arrives: the kernel gives interfaces in 16 or
//! 32 bits, by what fits.

use parshall_linux::genl::{GENL_HEADER, read_attributes};
use serde::{Serialize, Serializer};

use super::attributes::{Head, Writer};

/// Name of the family.
pub const FAMILY: &str = "psample";
/// Name of the group that samples come on.
pub const GROUP: &str = "packets";
/// Version of its messages.
const VERSION: u8 = 1;
/// The one command that carries a sample.
const CMD_SAMPLE: u8 = 0;

mod attr {
    pub const IIFINDEX: u16 = 0;
    pub const OIFINDEX: u16 = 1;
    pub const ORIGSIZE: u16 = 2;
    pub const SAMPLE_GROUP: u16 = 3;
    pub const GROUP_SEQ: u16 = 4;
    pub const SAMPLE_RATE: u16 = 5;
    pub const DATA: u16 = 6;
    pub const OUT_TC: u16 = 10;
    pub const OUT_TC_OCC: u16 = 11;
    pub const LATENCY: u16 = 12;
    pub const TIMESTAMP: u16 = 13;
    pub const PROTO: u16 = 14;
    pub const USER_COOKIE: u16 = 15;
    pub const SAMPLE_PROBABILITY: u16 = 16;
}

/// A sampled packet as it travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PacketSample<'a> {
    /// Number of the group: what tells one sampler, or direction, from another.
    pub group: u32,
    /// Number of the sample within its group: gaps are lost samples.
    pub sequence: u32,
    /// Interface it came in on, 0 = not known.
    pub input: u32,
    /// Interface it goes out on, 0 = not known.
    pub output: u32,
    /// Mean rate 1-in-N.
    pub rate: u32,
    /// The rate is a probability instead, as a fraction of 2^32 - 1.
    pub probability: bool,
    /// Bytes of the whole packet, without FCS.
    pub length: u32,
    /// What `header` begins with. From us and from VPP the protocol of an sFlow raw header (1 = Ethernet, 11 = IPv4, 12 =
    /// IPv6), from the kernel the Ethernet type.
    pub protocol: u16,
    /// Queue it leaves by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<u16>,
    /// Bytes that wait in that queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_bytes: Option<u64>,
    /// Nanoseconds from receive to transmit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<u64>,
    /// When it was sampled, in nanoseconds since the UNIX epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<u64>,
    /// What the sampler's owner attached.
    #[serde(
        skip_serializing_if = "<[u8]>::is_empty",
        serialize_with = "hexadecimal"
    )]
    pub cookie: &'a [u8],
    /// First bytes of the packet.
    #[serde(serialize_with = "hexadecimal")]
    pub header: &'a [u8],
}

fn hexadecimal<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
    use std::fmt::Write;
    let mut text = String::with_capacity(2 * bytes.len());
    for b in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{b:02x}");
    }
    s.serialize_str(&text)
}

/// Appends the message to `buffer`. Attributes come in the order of their numbers; interfaces are always of 32 bits.
pub fn encode(buffer: &mut Vec<u8>, head: Head, s: &PacketSample<'_>) {
    let mut w = Writer::new(buffer, head);
    w.generic(CMD_SAMPLE, VERSION)
        .u32(attr::IIFINDEX, s.input)
        .u32(attr::OIFINDEX, s.output)
        .u32(attr::ORIGSIZE, s.length)
        .u32(attr::SAMPLE_GROUP, s.group)
        .u32(attr::GROUP_SEQ, s.sequence)
        .u32(attr::SAMPLE_RATE, s.rate)
        .bytes(attr::DATA, s.header);
    if let Some(queue) = s.queue {
        w.u16(attr::OUT_TC, queue);
    }
    if let Some(bytes) = s.queue_bytes {
        w.u64(attr::OUT_TC_OCC, bytes);
    }
    if let Some(latency) = s.latency {
        w.u64(attr::LATENCY, latency);
    }
    if let Some(timestamp) = s.timestamp {
        w.u64(attr::TIMESTAMP, timestamp);
    }
    w.u16(attr::PROTO, s.protocol);
    w.finish();
}

/// Reads a sample from what follows a message's netlink header. `None` for other commands, and for a message without a
/// group, a rate or a packet. What is cut short or not known is passed over.
pub fn decode(body: &[u8]) -> Option<PacketSample<'_>> {
    if *body.first()? != CMD_SAMPLE {
        return None;
    }
    let (mut s, mut group, mut rate, mut header) = (PacketSample::default(), None, None, None);
    for (kind, value) in read_attributes(body.get(GENL_HEADER..)?) {
        let n = number(value);
        let n32 = n.and_then(|n| u32::try_from(n).ok());
        let n16 = n.and_then(|n| u16::try_from(n).ok());
        match kind {
            attr::IIFINDEX => s.input = n32.unwrap_or(0),
            attr::OIFINDEX => s.output = n32.unwrap_or(0),
            attr::ORIGSIZE => s.length = n32.unwrap_or(0),
            attr::SAMPLE_GROUP => group = n32,
            attr::GROUP_SEQ => s.sequence = n32.unwrap_or(0),
            attr::SAMPLE_RATE => rate = n32,
            attr::DATA => header = Some(value),
            attr::OUT_TC => s.queue = n16,
            attr::OUT_TC_OCC => s.queue_bytes = n,
            attr::LATENCY => s.latency = n,
            attr::TIMESTAMP => s.timestamp = n,
            attr::PROTO => s.protocol = n16.unwrap_or(0),
            attr::USER_COOKIE => s.cookie = value,
            attr::SAMPLE_PROBABILITY => s.probability = true,
            _ => {}
        }
    }
    (s.group, s.rate, s.header) = (group?, rate?, header?);
    Some(s)
}

/// A number of 1, 2, 4 or 8 bytes in host order.
fn number(value: &[u8]) -> Option<u64> {
    Some(match value.len() {
        1 => u64::from(value[0]),
        2 => u64::from(u16::from_ne_bytes(*value.first_chunk()?)),
        4 => u64::from(u32::from_ne_bytes(*value.first_chunk()?)),
        8 => u64::from_ne_bytes(*value.first_chunk()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_linux::genl::read_messages;
    use proptest::prelude::*;

    const HEAD: Head = Head {
        kind: 33,
        sequence: 5,
        port: 0x0002_1234,
    };

    /// The bytes of 16-bit words, 32-bit words and raw bytes, in host order.
    macro_rules! wire {
        ($($part:expr),* $(,)?) => { [$($part.to_vec()),*].concat() };
    }
    fn h(n: u16) -> [u8; 2] {
        n.to_ne_bytes()
    }
    fn w(n: u32) -> [u8; 4] {
        n.to_ne_bytes()
    }
    fn q(n: u64) -> [u8; 8] {
        n.to_ne_bytes()
    }

    #[test]
    fn golden_ingress_sample() {
        let s = PacketSample {
            group: 3,
            sequence: 9,
            input: 70_000,
            output: 2,
            rate: 1000,
            length: 98,
            protocol: 1,
            header: &[1, 2, 3, 4, 5],
            ..PacketSample::default()
        };
        let mut b = Vec::new();
        encode(&mut b, HEAD, &s);
        #[rustfmt::skip]
        let want = wire![
            // Header: length, type, flags, sequence, port; command SAMPLE, version 1.
            w(88), h(33), h(0), w(5), w(0x0002_1234), [0, 1, 0, 0],
            h(8), h(0), w(70_000),
            h(8), h(1), w(2),
            h(8), h(2), w(98),
            h(8), h(3), w(3),
            h(8), h(4), w(9),
            h(8), h(5), w(1000),
            h(9), h(6), [1, 2, 3, 4, 5, 0, 0, 0],
            h(6), h(14), h(1), [0, 0],
        ];
        assert_eq!(b, want);
        let m = read_messages(&b).next().unwrap();
        assert_eq!(decode(m.body), Some(s));
    }

    #[test]
    fn golden_sample_with_everything() {
        let s = PacketSample {
            group: 4,
            sequence: 1,
            input: 1,
            output: 2,
            rate: 10,
            length: 60,
            protocol: 1,
            queue: Some(7),
            queue_bytes: Some(1 << 40),
            latency: Some(12_345),
            timestamp: Some(1_700_000_000_000_000_001),
            header: &[9; 4],
            ..PacketSample::default()
        };
        let mut b = Vec::new();
        encode(&mut b, HEAD, &s);
        #[rustfmt::skip]
        let tail = wire![
            h(8), h(6), [9; 4],
            h(6), h(10), h(7), [0, 0],
            h(12), h(11), q(1 << 40),
            h(12), h(12), q(12_345),
            h(12), h(13), q(1_700_000_000_000_000_001),
            h(6), h(14), h(1), [0, 0],
        ];
        assert_eq!(b[b.len() - tail.len()..], tail);
        assert_eq!(decode(read_messages(&b).next().unwrap().body), Some(s));
    }

    #[test]
    fn the_kernels_samples_are_read() {
        // As act_sample of Linux 6.1 sends them: interfaces of 16 bits, PROTO is an Ethernet type, padding attributes.
        #[rustfmt::skip]
        let body = wire![
            [0, 1, 0, 0],
            h(6), h(0), h(3), [0, 0],
            h(8), h(5), w(1),
            h(8), h(2), w(98),
            h(8), h(3), w(5),
            h(8), h(4), w(41),
            h(4), h(9),
            h(12), h(13), q(1_700_000_000_000_000_000),
            h(6), h(14), h(0x0800), [0, 0],
            h(6), h(15), [0xC0, 0xFE, 0, 0],
            h(4), h(16),
            h(7), h(6), [1, 2, 3, 0],
        ];
        let s = decode(&body).unwrap();
        assert_eq!((s.input, s.output, s.protocol), (3, 0, 0x0800));
        assert_eq!((s.group, s.sequence, s.rate), (5, 41, 1));
        assert!(s.probability);
        assert_eq!((s.cookie, s.header), (&[0xC0, 0xFE][..], &[1, 2, 3][..]));
        let json = serde_json::to_value(s).unwrap();
        assert_eq!(json["header"], "010203");
        assert_eq!(json["cookie"], "c0fe");
    }

    #[test]
    fn other_commands_and_messages_without_a_packet_are_no_samples() {
        let mut b = Vec::new();
        encode(&mut b, HEAD, &PacketSample::default());
        let mut body = b[16..].to_vec();
        assert!(decode(&body).is_some());
        body[0] = 2;
        assert_eq!(decode(&body), None);
        assert_eq!(decode(&[0, 1, 0, 0]), None);
        assert_eq!(decode(&[]), None);
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_read_without_a_panic(b in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut body = vec![0, 1, 0, 0];
            body.extend(b);
            if let Some(s) = decode(&body) {
                prop_assert!(s.header.len() + s.cookie.len() <= body.len());
            }
        }
    }
}
