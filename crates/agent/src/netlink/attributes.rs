//! Netlink messages as bytes: header, generic netlink header, attributes (netlink(7); `include/uapi/linux/netlink.h`).
//!
//! All numbers are in host order, everything is padded to 4 bytes with zeros. The reading side is in `parshall-linux`.

/// Flag of an attribute that holds attributes.
pub const NESTED: u16 = 0x8000;

/// What the header of a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Message type: on generic netlink the family's number.
    pub kind: u16,
    /// Number of the message at its sender.
    pub sequence: u32,
    /// The sender's netlink port.
    pub port: u32,
}

/// A message being written. The flags are zero: a notification asks nothing of the kernel, which passes it on unread.
pub struct Writer<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Writer<'a> {
    /// Begins a message behind what is in `buffer`.
    pub fn new(buffer: &'a mut Vec<u8>, head: Head) -> Writer<'a> {
        let start = buffer.len();
        buffer.extend_from_slice(&[0; 4]);
        buffer.extend_from_slice(&head.kind.to_ne_bytes());
        buffer.extend_from_slice(&[0; 2]);
        buffer.extend_from_slice(&head.sequence.to_ne_bytes());
        buffer.extend_from_slice(&head.port.to_ne_bytes());
        Writer { buffer, start }
    }

    /// Adds the header of generic netlink.
    pub fn generic(&mut self, command: u8, version: u8) -> &mut Self {
        self.buffer.extend_from_slice(&[command, version, 0, 0]);
        self
    }

    /// Adds an attribute of raw bytes; beyond what its 16-bit length can say they are cut.
    pub fn bytes(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        self.parts(kind, &[value])
    }

    /// Adds an attribute of raw bytes that lie in several places.
    pub fn parts(&mut self, kind: u16, parts: &[&[u8]]) -> &mut Self {
        let at = self.open(kind);
        for part in parts {
            let room = MAX_VALUE - (self.buffer.len() - at - 4).min(MAX_VALUE);
            self.buffer.extend_from_slice(&part[..part.len().min(room)]);
        }
        self.close(at)
    }

    /// Adds a 16-bit number.
    pub fn u16(&mut self, kind: u16, value: u16) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    /// Adds a 32-bit number.
    pub fn u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    /// Adds a 64-bit number.
    pub fn u64(&mut self, kind: u16, value: u64) -> &mut Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    /// Adds a string, given in parts, with a zero at its end.
    pub fn string(&mut self, kind: u16, parts: &[&str]) -> &mut Self {
        let at = self.open(kind);
        for part in parts {
            let room = MAX_VALUE - 1 - (self.buffer.len() - at - 4).min(MAX_VALUE - 1);
            let part = part.as_bytes();
            self.buffer.extend_from_slice(&part[..part.len().min(room)]);
        }
        self.buffer.push(0);
        self.close(at)
    }

    /// Adds an attribute that holds what `fill` adds.
    pub fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let at = self.open(kind | NESTED);
        fill(self);
        self.close(at)
    }

    /// Begins an attribute and says where.
    fn open(&mut self, kind: u16) -> usize {
        let at = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 2]);
        self.buffer.extend_from_slice(&kind.to_ne_bytes());
        at
    }

    /// Writes the length of the attribute at `at` and pads it.
    fn close(&mut self, at: usize) -> &mut Self {
        let length = (self.buffer.len() - at).min(usize::from(u16::MAX)) as u16;
        self.buffer[at..at + 2].copy_from_slice(&length.to_ne_bytes());
        let whole = (self.buffer.len() - self.start).next_multiple_of(4);
        self.buffer.resize(self.start + whole, 0);
        self
    }

    /// Ends the message: its length goes into the header.
    pub fn finish(self) {
        let length = (self.buffer.len() - self.start) as u32;
        self.buffer[self.start..self.start + 4].copy_from_slice(&length.to_ne_bytes());
    }
}

/// Longest value of an attribute.
const MAX_VALUE: usize = u16::MAX as usize - 4;

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_linux::genl::{read_attributes, read_messages};

    #[test]
    fn golden_message() {
        let mut b = vec![0xAA; 3];
        let head = Head {
            kind: 0x21,
            sequence: 7,
            port: 0x0002_0001,
        };
        let mut w = Writer::new(&mut b, head);
        w.generic(5, 1)
            .u16(1, 0x0102)
            .string(2, &["a", "b"])
            .nested(4, |w| {
                w.u32(0, 9).string(1, &["x"]);
            });
        w.finish();
        let ne16 = |n: u16| n.to_ne_bytes();
        let want = [
            &[0xAA; 3][..],
            &56u32.to_ne_bytes(),
            &ne16(0x21),
            &ne16(0),
            &7u32.to_ne_bytes(),
            &0x0002_0001u32.to_ne_bytes(),
            &[5, 1, 0, 0],
            &ne16(6),
            &ne16(1),
            &ne16(0x0102),
            &[0, 0],
            &ne16(7),
            &ne16(2),
            b"ab\0\0",
            &ne16(20),
            &ne16(4 | 0x8000),
            &ne16(8),
            &ne16(0),
            &9u32.to_ne_bytes(),
            &ne16(6),
            &ne16(1),
            b"x\0\0\0",
        ]
        .concat();
        assert_eq!(b, want);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut b = Vec::new();
        for n in 0..9usize {
            let head = Head {
                kind: 1,
                sequence: n as u32,
                port: 0,
            };
            let mut w = Writer::new(&mut b, head);
            w.bytes(3, &vec![7; n]).u64(4, u64::MAX - n as u64);
            w.finish();
        }
        let all: Vec<_> = read_messages(&b).collect();
        assert_eq!(all.len(), 9);
        for (n, m) in all.iter().enumerate() {
            assert_eq!((m.kind, m.sequence), (1, n as u32));
            let a: Vec<_> = read_attributes(m.body).collect();
            assert_eq!(a[0], (3, &vec![7; n][..]));
            assert_eq!(a[1], (4, &(u64::MAX - n as u64).to_ne_bytes()[..]));
        }
    }

    #[test]
    fn values_too_long_for_an_attribute_are_cut() {
        let mut b = Vec::new();
        let head = Head {
            kind: 1,
            sequence: 0,
            port: 0,
        };
        let mut w = Writer::new(&mut b, head);
        w.bytes(1, &vec![1; 70_000])
            .string(2, &[&"y".repeat(70_000)]);
        w.finish();
        let body = read_messages(&b).next().unwrap().body;
        let lengths: Vec<_> = read_attributes(body).map(|a| a.1.len()).collect();
        assert_eq!(lengths, [MAX_VALUE, MAX_VALUE]);
    }
}
