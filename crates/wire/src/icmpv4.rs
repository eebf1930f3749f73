//! ICMP for IPv4 (RFC 792; codes RFC 1122 and 1812; next-hop MTU RFC 1191).
//!
//! The errors a router sends, whole packets, are built in `icmp_error.rs`.

use crate::checksum::checksum;
use crate::field::{put_u16, put_u32, u16_at, u32_at};
use crate::view::view;
use crate::{Result, WireError};

/// A message type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageType(pub u8);

impl MessageType {
    /// Echo reply.
    pub const ECHO_REPLY: MessageType = MessageType(0);
    /// Destination unreachable.
    pub const UNREACHABLE: MessageType = MessageType(3);
    /// Source quench (deprecated by RFC 6633).
    pub const SOURCE_QUENCH: MessageType = MessageType(4);
    /// Redirect.
    pub const REDIRECT: MessageType = MessageType(5);
    /// Echo request.
    pub const ECHO_REQUEST: MessageType = MessageType(8);
    /// Time exceeded.
    pub const TIME_EXCEEDED: MessageType = MessageType(11);
    /// Parameter problem.
    pub const PARAM_PROBLEM: MessageType = MessageType(12);

    /// Whether the message reports an error, so that no error may be sent about it.
    #[inline]
    pub const fn is_error(self) -> bool {
        matches!(
            self,
            Self::UNREACHABLE
                | Self::SOURCE_QUENCH
                | Self::REDIRECT
                | Self::TIME_EXCEEDED
                | Self::PARAM_PROBLEM
        )
    }
}

mod at {
    pub const TYPE: usize = 0;
    pub const CODE: usize = 1;
    pub const CHECKSUM: usize = 2;
    pub const REST: usize = 4;
    pub const IDENT: usize = 4;
    pub const SEQ: usize = 6;
    pub const MTU: usize = 6;
    pub const POINTER: usize = 4;
}

view! {
    /// A view of a message; its bytes must be the IP payload and no more.
    Packet, "Bytes of the header." HEADER_LEN = 8
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// The message type.
    #[inline]
    pub fn msg_type(&self) -> MessageType {
        MessageType(self.buffer.as_ref()[at::TYPE])
    }

    /// The code, whose meaning depends on the type.
    #[inline]
    pub fn code(&self) -> u8 {
        self.buffer.as_ref()[at::CODE]
    }

    /// The checksum as it stands.
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::CHECKSUM)
    }

    /// Of an echo message: the identifier.
    #[inline]
    pub fn echo_ident(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::IDENT)
    }

    /// Of an echo message: the sequence number.
    #[inline]
    pub fn echo_seq(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::SEQ)
    }

    /// Of "fragmentation needed": the next hop's MTU in bytes, 0 from a router older than
    /// RFC 1191.
    #[inline]
    pub fn mtu(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::MTU)
    }

    /// Of a parameter problem: the byte of the original header that is wrong.
    #[inline]
    pub fn pointer(&self) -> u8 {
        self.buffer.as_ref()[at::POINTER]
    }

    /// The four bytes behind the checksum, as one number.
    #[inline]
    pub fn rest_of_header(&self) -> u32 {
        u32_at(self.buffer.as_ref(), at::REST)
    }

    /// What follows the header: echo data, or the start of the original datagram.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..]
    }

    /// Whether the checksum is right.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        checksum(self.buffer.as_ref()) == 0
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the message type.
    #[inline]
    pub fn set_msg_type(&mut self, msg_type: MessageType) {
        self.buffer.as_mut()[at::TYPE] = msg_type.0;
    }

    /// Sets the code.
    #[inline]
    pub fn set_code(&mut self, code: u8) {
        self.buffer.as_mut()[at::CODE] = code;
    }

    /// Sets the checksum.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put_u16(self.buffer.as_mut(), at::CHECKSUM, checksum);
    }

    /// Sets the four bytes behind the checksum.
    #[inline]
    pub fn set_rest_of_header(&mut self, word: u32) {
        put_u32(self.buffer.as_mut(), at::REST, word);
    }

    /// Computes and sets the checksum.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let sum = checksum(self.buffer.as_ref());
        self.set_checksum(sum);
    }

    /// What follows the header.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.as_mut()[HEADER_LEN..]
    }
}

/// Why a destination is unreachable; the order is that of the codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unreachable {
    /// No route to the network.
    Net,
    /// The host does not answer address resolution.
    Host,
    /// The host does not speak the protocol.
    Protocol,
    /// Nobody listens on the port.
    Port,
    /// Too large for the next hop, and must not be fragmented.
    FragmentationNeeded {
        /// The next hop's MTU in bytes; 0 from a router older than RFC 1191.
        mtu: u16,
    },
    /// A source route could not be followed.
    SourceRouteFailed,
    /// The network is not known.
    NetUnknown,
    /// The host is not known.
    HostUnknown,
    /// The source is isolated (obsolete).
    SourceIsolated,
    /// The network is prohibited by policy.
    NetProhibited,
    /// The host is prohibited by policy.
    HostProhibited,
    /// No route to the network for this type of service.
    NetTos,
    /// No route to the host for this type of service.
    HostTos,
    /// Prohibited by policy (RFC 1812).
    Prohibited,
    /// Precedence violation (RFC 1812).
    HostPrecedence,
    /// Precedence too low (RFC 1812).
    PrecedenceCutoff,
}

impl Unreachable {
    /// By code; `mtu` is used by code 4 only.
    fn from_code(code: u8, mtu: u16) -> Option<Unreachable> {
        Some(match code {
            0 => Self::Net,
            1 => Self::Host,
            2 => Self::Protocol,
            3 => Self::Port,
            4 => Self::FragmentationNeeded { mtu },
            5 => Self::SourceRouteFailed,
            6 => Self::NetUnknown,
            7 => Self::HostUnknown,
            8 => Self::SourceIsolated,
            9 => Self::NetProhibited,
            10 => Self::HostProhibited,
            11 => Self::NetTos,
            12 => Self::HostTos,
            13 => Self::Prohibited,
            14 => Self::HostPrecedence,
            15 => Self::PrecedenceCutoff,
            _ => return None,
        })
    }

    /// The code on the wire.
    pub const fn code(self) -> u8 {
        match self {
            Self::Net => 0,
            Self::Host => 1,
            Self::Protocol => 2,
            Self::Port => 3,
            Self::FragmentationNeeded { .. } => 4,
            Self::SourceRouteFailed => 5,
            Self::NetUnknown => 6,
            Self::HostUnknown => 7,
            Self::SourceIsolated => 8,
            Self::NetProhibited => 9,
            Self::HostProhibited => 10,
            Self::NetTos => 11,
            Self::HostTos => 12,
            Self::Prohibited => 13,
            Self::HostPrecedence => 14,
            Self::PrecedenceCutoff => 15,
        }
    }
}

/// Which time was exceeded; the order is that of the codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimeExceeded {
    /// The time to live, in transit.
    Ttl,
    /// The time to reassemble fragments.
    Reassembly,
}

/// What an error message reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The destination cannot be reached.
    Unreachable(Unreachable),
    /// The datagram took too long.
    TimeExceeded(TimeExceeded),
    /// A header field is wrong.
    ParamProblem {
        /// The byte of the original header that is wrong.
        pointer: u8,
    },
}

impl ErrorKind {
    /// Type, code and the four bytes behind the checksum.
    pub(crate) const fn to_fields(self) -> (MessageType, u8, u32) {
        match self {
            Self::Unreachable(Unreachable::FragmentationNeeded { mtu }) => {
                (MessageType::UNREACHABLE, 4, mtu as u32)
            }
            Self::Unreachable(reason) => (MessageType::UNREACHABLE, reason.code(), 0),
            Self::TimeExceeded(TimeExceeded::Ttl) => (MessageType::TIME_EXCEEDED, 0, 0),
            Self::TimeExceeded(TimeExceeded::Reassembly) => (MessageType::TIME_EXCEEDED, 1, 0),
            Self::ParamProblem { pointer } => {
                (MessageType::PARAM_PROBLEM, 0, (pointer as u32) << 24)
            }
        }
    }

    fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Option<ErrorKind> {
        let code = packet.code();
        match packet.msg_type() {
            MessageType::UNREACHABLE => {
                Unreachable::from_code(code, packet.mtu()).map(Self::Unreachable)
            }
            MessageType::TIME_EXCEEDED if code == 0 => Some(Self::TimeExceeded(TimeExceeded::Ttl)),
            MessageType::TIME_EXCEEDED if code == 1 => {
                Some(Self::TimeExceeded(TimeExceeded::Reassembly))
            }
            MessageType::PARAM_PROBLEM if code == 0 => Some(Self::ParamProblem {
                pointer: packet.pointer(),
            }),
            _ => None,
        }
    }
}

/// An ICMP message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Repr<'a> {
    /// "Are you there?"
    EchoRequest {
        /// Chosen by the asker, returned unchanged.
        ident: u16,
        /// Chosen by the asker, returned unchanged.
        seq: u16,
        /// Chosen by the asker, returned unchanged.
        data: &'a [u8],
    },
    /// The answer to an echo request.
    EchoReply {
        /// The request's.
        ident: u16,
        /// The request's.
        seq: u16,
        /// The request's.
        data: &'a [u8],
    },
    /// An error about a datagram.
    Error {
        /// What went wrong.
        kind: ErrorKind,
        /// The start of the datagram, from its IP header on.
        original: &'a [u8],
    },
}

impl<'a> Repr<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// `BadChecksum`; `Unsupported` for other types and codes.
    pub fn parse<T: AsRef<[u8]> + ?Sized>(packet: &Packet<&'a T>) -> Result<Repr<'a>> {
        let payload = packet
            .buffer
            .as_ref()
            .get(HEADER_LEN..)
            .ok_or(WireError::Truncated)?;
        if !packet.verify_checksum() {
            return Err(WireError::BadChecksum);
        }
        let (ident, seq) = (packet.echo_ident(), packet.echo_seq());
        match (packet.msg_type(), packet.code()) {
            (MessageType::ECHO_REQUEST, 0) => Ok(Repr::EchoRequest {
                ident,
                seq,
                data: payload,
            }),
            (MessageType::ECHO_REPLY, 0) => Ok(Repr::EchoReply {
                ident,
                seq,
                data: payload,
            }),
            _ => ErrorKind::parse(packet)
                .map(|kind| Repr::Error {
                    kind,
                    original: payload,
                })
                .ok_or(WireError::Unsupported),
        }
    }

    const fn data(&self) -> &'a [u8] {
        match self {
            Repr::EchoRequest { data, .. } | Repr::EchoReply { data, .. } => data,
            Repr::Error { original, .. } => original,
        }
    }

    /// Bytes that `emit` writes: header and data.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN + self.data().len()
    }

    /// Writes the message with its checksum. The buffer must be of just `buffer_len` bytes, for
    /// the checksum covers all of it.
    ///
    /// # Errors
    /// `Truncated` or `BadLength` if the buffer is shorter or longer than `buffer_len`.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) -> Result<()> {
        let len = packet.buffer.as_ref().len();
        if len < self.buffer_len() {
            return Err(WireError::Truncated);
        }
        if len > self.buffer_len() {
            return Err(WireError::BadLength);
        }
        let echo = |ident: u16, seq: u16| u32::from(ident) << 16 | u32::from(seq);
        let (msg_type, code, rest) = match *self {
            Repr::EchoRequest { ident, seq, .. } => {
                (MessageType::ECHO_REQUEST, 0, echo(ident, seq))
            }
            Repr::EchoReply { ident, seq, .. } => (MessageType::ECHO_REPLY, 0, echo(ident, seq)),
            Repr::Error { kind, .. } => kind.to_fields(),
        };
        packet.set_msg_type(msg_type);
        packet.set_code(code);
        packet.set_rest_of_header(rest);
        packet.payload_mut().copy_from_slice(self.data());
        packet.fill_checksum();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ECHO: [u8; 12] = [
        0x08, 0x00, 0x8f, 0x59, 0x12, 0x34, 0xab, 0xcd, 0xaa, 0x00, 0x00, 0xa4,
    ];
    // Host 10.0.0.1 asked for 10.0.0.2 with UDP; "fragmentation needed, MTU 1400".
    const FRAG_NEEDED: [u8; 36] = [
        0x03, 0x04, 0xeb, 0xc3, 0x00, 0x00, 0x05, 0x78, 0x45, 0x00, 0x00, 0x1c, 0x00, 0x00, 0x40,
        0x00, 0x40, 0x11, 0x26, 0xcf, 0x0a, 0x00, 0x00, 0x01, 0x0a, 0x00, 0x00, 0x02, 0x03, 0xe8,
        0x07, 0xd0, 0x00, 0x08, 0x00, 0x00,
    ];

    fn echo() -> Repr<'static> {
        Repr::EchoRequest {
            ident: 0x1234,
            seq: 0xabcd,
            data: &[0xaa, 0, 0, 0xa4],
        }
    }

    fn frag_needed() -> Repr<'static> {
        Repr::Error {
            kind: ErrorKind::Unreachable(Unreachable::FragmentationNeeded { mtu: 1400 }),
            original: &FRAG_NEEDED[8..],
        }
    }

    #[test]
    fn parses_golden() {
        assert_eq!(
            Repr::parse(&Packet::new_checked(&ECHO[..]).unwrap()),
            Ok(echo())
        );
        let packet = Packet::new_checked(&FRAG_NEEDED[..]).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(frag_needed()));
    }

    #[test]
    fn emits_golden() {
        for (repr, golden) in [(echo(), &ECHO[..]), (frag_needed(), &FRAG_NEEDED[..])] {
            let mut packet = Packet::new_unchecked(vec![0xff; repr.buffer_len()]);
            repr.emit(&mut packet).unwrap();
            assert_eq!(packet.into_inner(), golden);
        }
    }

    #[test]
    fn refuses_short_broken_and_unknown() {
        assert_eq!(Packet::new_checked(&ECHO[..7]), Err(WireError::Truncated));
        assert_eq!(
            Repr::parse(&Packet::new_unchecked(&ECHO[..7])),
            Err(WireError::Truncated)
        );
        let parse = |msg_type: u8, code: u8| {
            let mut packet = Packet::new_unchecked(ECHO);
            packet.set_msg_type(MessageType(msg_type));
            packet.set_code(code);
            packet.fill_checksum();
            let bytes = packet.into_inner();
            Repr::parse(&Packet::new_unchecked(&bytes[..])).map(|_| ())
        };
        assert_eq!(parse(8, 0), Ok(()));
        for (msg_type, code) in [(8, 1), (3, 16), (11, 2), (12, 1), (13, 0)] {
            assert_eq!(parse(msg_type, code), Err(WireError::Unsupported));
        }
        let mut broken = ECHO;
        broken[11] ^= 1;
        let packet = Packet::new_unchecked(&broken[..]);
        assert_eq!(Repr::parse(&packet), Err(WireError::BadChecksum));
        assert_eq!(
            echo().emit(&mut Packet::new_unchecked([0; 11])),
            Err(WireError::Truncated)
        );
        assert_eq!(
            echo().emit(&mut Packet::new_unchecked([0; 13])),
            Err(WireError::BadLength)
        );
    }

    fn any_kind() -> impl Strategy<Value = ErrorKind> {
        prop_oneof![
            (0u8..16, any::<u16>()).prop_map(|(code, mtu)| {
                ErrorKind::Unreachable(Unreachable::from_code(code, mtu).unwrap())
            }),
            Just(ErrorKind::TimeExceeded(TimeExceeded::Ttl)),
            Just(ErrorKind::TimeExceeded(TimeExceeded::Reassembly)),
            any::<u8>().prop_map(|pointer| ErrorKind::ParamProblem { pointer }),
        ]
    }

    proptest! {
        #[test]
        fn round_trips(
            which in 0..3, ident: u16, seq: u16, kind in any_kind(),
            data in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let repr = match which {
                0 => Repr::EchoRequest { ident, seq, data: &data },
                1 => Repr::EchoReply { ident, seq, data: &data },
                _ => Repr::Error { kind, original: &data },
            };
            let mut packet = Packet::new_unchecked(vec![0xa5; repr.buffer_len()]);
            repr.emit(&mut packet).unwrap();
            let bytes = packet.into_inner();
            prop_assert_eq!(Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()), Ok(repr));
        }

        #[test]
        fn any_bytes_are_answered(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..120),
            fill: bool,
        ) {
            if let Ok(mut packet) = Packet::new_checked(&mut bytes[..]) {
                if fill {
                    packet.fill_checksum();
                }
                let _ = Repr::parse(&Packet::new_unchecked(packet.into_inner() as &[u8]));
            }
        }
    }
}
