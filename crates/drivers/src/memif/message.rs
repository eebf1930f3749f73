//! The control messages of memif, protocol version 2.0: bytes in, bytes out.
//!
//! Owns the layout of the 128-byte messages that both ends exchange over a `SOCK_SEQPACKET` socket, as in
//! libmemif's `memif.h` and DPDK's `drivers/net/memif/memif.h`. Knows no socket and no descriptor: those
//! that travel with `ADD_REGION` and `ADD_RING` are the channel's. Both ends share a host, so numbers are
//! in its byte order.

use std::fmt;

/// Length of every message in bytes.
pub const MESSAGE_LEN: usize = 128;
/// The protocol version spoken here: 2.0.
pub const VERSION: u16 = 0x0200;
/// Mode of an interface whose packets start with an Ethernet header.
pub const MODE_ETHERNET: u8 = 0;
/// In [`AddRing::flags`]: the ring goes from slave to master.
pub const RING_TO_MASTER: u16 = 1;

const ACK: u16 = 1;
const HELLO: u16 = 2;
const INIT: u16 = 3;
const ADD_REGION: u16 = 4;
const ADD_RING: u16 = 5;
const CONNECT: u16 = 6;
const CONNECTED: u16 = 7;
const DISCONNECT: u16 = 8;

/// A text of at most `N` bytes, ended by a zero byte if shorter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const N: usize>(pub [u8; N]);

impl<const N: usize> Text<N> {
    /// `text`, cut to `N - 1` bytes so that the peer always finds an end.
    pub fn new(text: &str) -> Text<N> {
        let mut bytes = [0; N];
        for (to, from) in bytes
            .iter_mut()
            .take(N.saturating_sub(1))
            .zip(text.as_bytes())
        {
            *to = *from;
        }
        Text(bytes)
    }

    /// The bytes before the first zero.
    pub fn bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(N);
        &self.0[..end]
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    /// What a peer calls itself goes to logs and terminals: only visible ASCII is let through.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |b: &u8| match b {
            b' '..=b'~' => char::from(*b),
            _ => '?',
        };
        self.bytes()
            .iter()
            .try_for_each(|b| fmt::Write::write_char(f, shown(b)))
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Master to slave, first of all: what it can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Name of the program.
    pub name: Text<32>,
    /// Lowest version it speaks.
    pub min_version: u16,
    /// Highest version it speaks.
    pub max_version: u16,
    /// Highest region number it takes.
    pub max_region: u16,
    /// Highest number of a ring towards the slave.
    pub max_to_slave_ring: u16,
    /// Highest number of a ring towards the master.
    pub max_to_master_ring: u16,
    /// Binary logarithm of the longest ring it takes.
    pub max_log2_ring_size: u8,
}

/// Slave to master: which interface it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init {
    /// Version to be spoken.
    pub version: u16,
    /// Interface id.
    pub id: u32,
    /// What packets are: [`MODE_ETHERNET`], 1 = IP, 2 = punt/inject.
    pub mode: u8,
    /// Shared secret; empty = none.
    pub secret: Text<24>,
    /// Name of the program.
    pub name: Text<32>,
}

/// Slave to master: a region of shared memory; its descriptor travels along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddRegion {
    /// Number, from 0 on.
    pub index: u16,
    /// Bytes.
    pub size: u64,
}

/// Slave to master: a ring; the eventfd that wakes its reader travels along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddRing {
    /// [`RING_TO_MASTER`] or 0.
    pub flags: u16,
    /// Number among the rings of its direction, from 0 on.
    pub index: u16,
    /// Region it lies in.
    pub region: u16,
    /// Where in the region, in bytes.
    pub offset: u32,
    /// Binary logarithm of its number of descriptors.
    pub log2_ring_size: u8,
    /// Bytes of private metadata in front of packets.
    pub private_hdr_size: u16,
}

impl AddRing {
    /// Whether it goes from slave to master.
    pub fn to_master(&self) -> bool {
        self.flags & RING_TO_MASTER != 0
    }
}

/// A control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The last message was taken.
    Ack,
    /// Master's greeting.
    Hello(Hello),
    /// Slave's request.
    Init(Init),
    /// A region.
    AddRegion(AddRegion),
    /// A ring.
    AddRing(AddRing),
    /// Slave is ready; the name of its interface.
    Connect(Text<32>),
    /// Master is ready; the name of its interface.
    Connected(Text<32>),
    /// The end, and why.
    Disconnect {
        /// Error number, without agreed meaning.
        code: u32,
        /// Reason for people.
        reason: Text<96>,
    },
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// Not 128 bytes but so many.
    Length(usize),
    /// There is no message of this type.
    Type(u16),
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageError::Length(n) => {
                write!(f, "a message of {n} bytes in place of {MESSAGE_LEN}")
            }
            MessageError::Type(t) => write!(f, "unknown message type {t}"),
        }
    }
}

impl Message {
    /// Reads a message. What stands behind its fields is not looked at.
    ///
    /// # Errors
    /// When the length or the type is wrong. Whether the fields make sense is the reader's business.
    pub fn parse(bytes: &[u8]) -> Result<Message, MessageError> {
        let bytes: &[u8; MESSAGE_LEN] = bytes
            .try_into()
            .map_err(|_| MessageError::Length(bytes.len()))?;
        let mut r = Reader { bytes, at: 0 };
        let kind = r.u16();
        Ok(match kind {
            ACK => Message::Ack,
            HELLO => Message::Hello(Hello {
                name: r.text(),
                min_version: r.u16(),
                max_version: r.u16(),
                max_region: r.u16(),
                max_to_slave_ring: r.u16(),
                max_to_master_ring: r.u16(),
                max_log2_ring_size: r.u8(),
            }),
            INIT => Message::Init(Init {
                version: r.u16(),
                id: r.u32(),
                mode: r.u8(),
                secret: r.text(),
                name: r.text(),
            }),
            ADD_REGION => Message::AddRegion(AddRegion {
                index: r.u16(),
                size: r.u64(),
            }),
            ADD_RING => Message::AddRing(AddRing {
                flags: r.u16(),
                index: r.u16(),
                region: r.u16(),
                offset: r.u32(),
                log2_ring_size: r.u8(),
                private_hdr_size: r.u16(),
            }),
            CONNECT => Message::Connect(r.text()),
            CONNECTED => Message::Connected(r.text()),
            DISCONNECT => Message::Disconnect {
                code: r.u32(),
                reason: r.text(),
            },
            other => return Err(MessageError::Type(other)),
        })
    }

    /// Writes the message; bytes behind its fields are zero.
    pub fn encode(&self) -> [u8; MESSAGE_LEN] {
        let mut w = Writer {
            bytes: [0; MESSAGE_LEN],
            at: 0,
        };
        w.put(&self.kind().to_ne_bytes());
        match self {
            Message::Ack => {}
            Message::Hello(h) => {
                w.put(&h.name.0);
                for n in [
                    h.min_version,
                    h.max_version,
                    h.max_region,
                    h.max_to_slave_ring,
                    h.max_to_master_ring,
                ] {
                    w.put(&n.to_ne_bytes());
                }
                w.put(&[h.max_log2_ring_size]);
            }
            Message::Init(i) => {
                w.put(&i.version.to_ne_bytes());
                w.put(&i.id.to_ne_bytes());
                w.put(&[i.mode]);
                w.put(&i.secret.0);
                w.put(&i.name.0);
            }
            Message::AddRegion(r) => {
                w.put(&r.index.to_ne_bytes());
                w.put(&r.size.to_ne_bytes());
            }
            Message::AddRing(r) => {
                w.put(&r.flags.to_ne_bytes());
                w.put(&r.index.to_ne_bytes());
                w.put(&r.region.to_ne_bytes());
                w.put(&r.offset.to_ne_bytes());
                w.put(&[r.log2_ring_size]);
                w.put(&r.private_hdr_size.to_ne_bytes());
            }
            Message::Connect(name) | Message::Connected(name) => w.put(&name.0),
            Message::Disconnect { code, reason } => {
                w.put(&code.to_ne_bytes());
                w.put(&reason.0);
            }
        }
        w.bytes
    }

    /// A `DISCONNECT` that says why.
    pub fn disconnect(reason: &str) -> Message {
        Message::Disconnect {
            code: 0,
            reason: Text::new(reason),
        }
    }

    /// Its name in the protocol.
    pub fn name(&self) -> &'static str {
        match self {
            Message::Ack => "ACK",
            Message::Hello(_) => "HELLO",
            Message::Init(_) => "INIT",
            Message::AddRegion(_) => "ADD_REGION",
            Message::AddRing(_) => "ADD_RING",
            Message::Connect(_) => "CONNECT",
            Message::Connected(_) => "CONNECTED",
            Message::Disconnect { .. } => "DISCONNECT",
        }
    }

    fn kind(&self) -> u16 {
        match self {
            Message::Ack => ACK,
            Message::Hello(_) => HELLO,
            Message::Init(_) => INIT,
            Message::AddRegion(_) => ADD_REGION,
            Message::AddRing(_) => ADD_RING,
            Message::Connect(_) => CONNECT,
            Message::Connected(_) => CONNECTED,
            Message::Disconnect { .. } => DISCONNECT,
        }
    }
}

/// Takes fields off the front. The longest message's fields end at 102 of 128 bytes, so none is ever short.
struct Reader<'a> {
    bytes: &'a [u8; MESSAGE_LEN],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let field = self.bytes.get(self.at..).and_then(|b| b.first_chunk());
        self.at += N;
        field.copied().unwrap_or([0; N])
    }
    fn u8(&mut self) -> u8 {
        u8::from_ne_bytes(self.take())
    }
    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }
    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }
    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }
    fn text<const N: usize>(&mut self) -> Text<N> {
        Text(self.take())
    }
}

struct Writer {
    bytes: [u8; MESSAGE_LEN],
    at: usize,
}

impl Writer {
    fn put(&mut self, field: &[u8]) {
        if let Some(to) = self.bytes.get_mut(self.at..self.at + field.len()) {
            to.copy_from_slice(field);
        }
        self.at += field.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `front`, then zeros.
    fn padded(front: &[u8]) -> Vec<u8> {
        let mut all = front.to_vec();
        all.resize(MESSAGE_LEN, 0);
        all
    }

    /// Each message beside its bytes on a little-endian host, written down from the C structures.
    fn golden() -> Vec<(Message, Vec<u8>)> {
        let text = |s: &[u8], n: usize| {
            let mut t = s.to_vec();
            t.resize(n, 0);
            t
        };
        let hello = Hello {
            name: Text::new("DPDK 22.11.11"),
            min_version: VERSION,
            max_version: VERSION,
            max_region: 255,
            max_to_slave_ring: 7,
            max_to_master_ring: 3,
            max_log2_ring_size: 14,
        };
        let init = Init {
            version: VERSION,
            id: 0x0403_0201,
            mode: MODE_ETHERNET,
            secret: Text::new("s3cret"),
            name: Text::new("vpp"),
        };
        let ring = AddRing {
            flags: RING_TO_MASTER,
            index: 2,
            region: 1,
            offset: 0x0001_0080,
            log2_ring_size: 10,
            private_hdr_size: 0,
        };
        vec![
            (Message::Ack, padded(&[1, 0])),
            (
                Message::Hello(hello),
                padded(
                    &[
                        &[2, 0][..],
                        &text(b"DPDK 22.11.11", 32),
                        &[0, 2, 0, 2, 255, 0, 7, 0, 3, 0, 14],
                    ]
                    .concat(),
                ),
            ),
            (
                Message::Init(init),
                padded(
                    &[
                        &[3, 0, 0, 2, 1, 2, 3, 4, 0][..],
                        &text(b"s3cret", 24),
                        &text(b"vpp", 32),
                    ]
                    .concat(),
                ),
            ),
            (
                Message::AddRegion(AddRegion {
                    index: 1,
                    size: 0x0040_0000,
                }),
                padded(&[4, 0, 1, 0, 0, 0, 0x40, 0, 0, 0, 0, 0]),
            ),
            (
                Message::AddRing(ring),
                padded(&[5, 0, 1, 0, 2, 0, 1, 0, 0x80, 0, 1, 0, 10, 0, 0]),
            ),
            (
                Message::Connect(Text::new("memif0/0")),
                padded(b"\x06\x00memif0/0"),
            ),
            (
                Message::Connected(Text::new("net_memif0")),
                padded(b"\x07\x00net_memif0"),
            ),
            (
                Message::disconnect("ID not found"),
                padded(b"\x08\x00\0\0\0\0ID not found"),
            ),
        ]
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn messages_are_the_bytes_of_the_c_structures_both_ways() {
        for (message, bytes) in golden() {
            assert_eq!(message.encode()[..], bytes, "{}", message.name());
            assert_eq!(Message::parse(&bytes), Ok(message));
        }
    }

    #[test]
    fn other_lengths_and_types_are_refused() {
        assert_eq!(Message::parse(&[0; 127]), Err(MessageError::Length(127)));
        assert_eq!(Message::parse(&[0; 129]), Err(MessageError::Length(129)));
        assert_eq!(Message::parse(&[]), Err(MessageError::Length(0)));
        for kind in [0u16, 9, u16::MAX] {
            let bytes = padded(&kind.to_ne_bytes());
            assert_eq!(Message::parse(&bytes), Err(MessageError::Type(kind)));
        }
    }

    #[test]
    fn texts_are_cut_ended_and_made_harmless() {
        let long = Text::<8>::new("0123456789");
        assert_eq!(
            (long.bytes(), long.to_string()),
            (&b"0123456"[..], "0123456".into())
        );
        let rude = Text::<8>(*b"a\x1b[2J\n\xffb");
        assert_eq!(rude.to_string(), "a?[2J??b");
    }

    proptest! {
        #[test]
        fn what_parses_encodes_to_the_same_fields(kind in 1u16..=8, body in prop::array::uniform32(any::<[u8; 4]>())) {
            let mut bytes = body.concat();
            bytes[..2].copy_from_slice(&kind.to_ne_bytes());
            let message = Message::parse(&bytes).unwrap();
            let again = message.encode();
            prop_assert_eq!(Message::parse(&again), Ok(message));
            let written = again.iter().rposition(|b| *b != 0).map_or(0, |n| n + 1);
            prop_assert_eq!(&again[..written], &bytes[..written]);
        }
    }
}
