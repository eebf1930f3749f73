//! ICMP for IPv6 (RFC 4443): echo and errors.
//!
//! Neighbour discovery is in `ndisc.rs`; the errors a router sends, whole packets, are built in
//! `icmp_error.rs`.

use std::net::Ipv6Addr;

use crate::checksum::pseudo_v6;
use crate::field::{put_u16, put_u32, u16_at, u32_at};
use crate::view::view;
use crate::{IpProtocol, Result, WireError};

/// A message type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageType(pub u8);

impl MessageType {
    /// Destination unreachable.
    pub const UNREACHABLE: MessageType = MessageType(1);
    /// Packet too big.
    pub const PACKET_TOO_BIG: MessageType = MessageType(2);
    /// Time exceeded.
    pub const TIME_EXCEEDED: MessageType = MessageType(3);
    /// Parameter problem.
    pub const PARAM_PROBLEM: MessageType = MessageType(4);
    /// Echo request.
    pub const ECHO_REQUEST: MessageType = MessageType(128);
    /// Echo reply.
    pub const ECHO_REPLY: MessageType = MessageType(129);
    /// Router solicitation (RFC 4861).
    pub const ROUTER_SOLICIT: MessageType = MessageType(133);
    /// Router advertisement (RFC 4861).
    pub const ROUTER_ADVERT: MessageType = MessageType(134);
    /// Neighbour solicitation (RFC 4861).
    pub const NEIGHBOR_SOLICIT: MessageType = MessageType(135);
    /// Neighbour advertisement (RFC 4861).
    pub const NEIGHBOR_ADVERT: MessageType = MessageType(136);
    /// Redirect (RFC 4861).
    pub const REDIRECT: MessageType = MessageType(137);

    /// Whether the message reports an error.
    #[inline]
    pub const fn is_error(self) -> bool {
        self.0 < 128
    }

    /// Whether the message belongs to neighbour discovery.
    #[inline]
    pub const fn is_ndisc(self) -> bool {
        matches!(self.0, 133..=137)
    }
}

mod at {
    pub const TYPE: usize = 0;
    pub const CODE: usize = 1;
    pub const CHECKSUM: usize = 2;
    pub const REST: usize = 4;
    pub const IDENT: usize = 4;
    pub const SEQ: usize = 6;
}

view! {
    /// A view of a message; its bytes must be the upper layer of the packet and no more.
    Packet, "Bytes of the header." HEADER_LEN = 8
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// The whole message.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

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

    /// The four bytes behind the checksum: the MTU of a "packet too big", the pointer of a
    /// parameter problem.
    #[inline]
    pub fn rest_of_header(&self) -> u32 {
        u32_at(self.buffer.as_ref(), at::REST)
    }

    /// What follows the header: echo data, or the start of the original packet.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[HEADER_LEN..]
    }

    /// Whether the checksum is right between these addresses.
    #[inline]
    pub fn verify_checksum(&self, src: &Ipv6Addr, dst: &Ipv6Addr) -> bool {
        self.sum(src, dst) == 0
    }

    #[inline]
    fn sum(&self, src: &Ipv6Addr, dst: &Ipv6Addr) -> u16 {
        let data = self.buffer.as_ref();
        let mut sum = pseudo_v6(src, dst, IpProtocol::ICMPV6, data.len() as u32);
        sum.add(data);
        sum.finish()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// The whole message.
    #[inline]
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.as_mut()
    }

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

    /// Computes and sets the checksum between these addresses.
    #[inline]
    pub fn fill_checksum(&mut self, src: &Ipv6Addr, dst: &Ipv6Addr) {
        self.set_checksum(0);
        let sum = self.sum(src, dst);
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
#[repr(u8)]
pub enum Unreachable {
    /// No route.
    NoRoute = 0,
    /// Prohibited by policy.
    Prohibited = 1,
    /// Beyond the scope of the source address.
    BeyondScope = 2,
    /// The neighbour does not answer, or any other reason.
    Address = 3,
    /// Nobody listens on the port.
    Port = 4,
    /// The source address failed the ingress or egress policy.
    SourcePolicy = 5,
    /// A reject route.
    RejectRoute = 6,
    /// A source route could not be followed (RFC 8883 takes this code from RFC 6550).
    SourceRoute = 7,
}

impl Unreachable {
    fn from_code(code: u8) -> Option<Unreachable> {
        Some(match code {
            0 => Self::NoRoute,
            1 => Self::Prohibited,
            2 => Self::BeyondScope,
            3 => Self::Address,
            4 => Self::Port,
            5 => Self::SourcePolicy,
            6 => Self::RejectRoute,
            7 => Self::SourceRoute,
            _ => return None,
        })
    }
}

/// Which time was exceeded; the order is that of the codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TimeExceeded {
    /// The hop limit, in transit.
    HopLimit = 0,
    /// The time to reassemble fragments.
    Reassembly = 1,
}

/// What is wrong with a header; the order is that of the codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ParamProblem {
    /// A field has a wrong value.
    Field = 0,
    /// The next header is of an unknown type.
    NextHeader = 1,
    /// An option is of an unknown type.
    Option = 2,
}

/// What an error message reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The destination cannot be reached.
    Unreachable(Unreachable),
    /// The packet does not fit the next hop.
    PacketTooBig {
        /// The next hop's MTU in bytes.
        mtu: u32,
    },
    /// The packet took too long.
    TimeExceeded(TimeExceeded),
    /// A header is wrong.
    ParamProblem {
        /// In which way.
        problem: ParamProblem,
        /// The byte of the original packet that is wrong.
        pointer: u32,
    },
}

impl ErrorKind {
    /// Type, code and the four bytes behind the checksum.
    pub(crate) const fn to_fields(self) -> (MessageType, u8, u32) {
        match self {
            Self::Unreachable(reason) => (MessageType::UNREACHABLE, reason as u8, 0),
            Self::PacketTooBig { mtu } => (MessageType::PACKET_TOO_BIG, 0, mtu),
            Self::TimeExceeded(which) => (MessageType::TIME_EXCEEDED, which as u8, 0),
            Self::ParamProblem { problem, pointer } => {
                (MessageType::PARAM_PROBLEM, problem as u8, pointer)
            }
        }
    }

    fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Option<ErrorKind> {
        let (code, rest) = (packet.code(), packet.rest_of_header());
        Some(match (packet.msg_type(), code) {
            (MessageType::UNREACHABLE, _) => Self::Unreachable(Unreachable::from_code(code)?),
            // RFC 4443 section 3.2: the receiver ignores this code.
            (MessageType::PACKET_TOO_BIG, _) => Self::PacketTooBig { mtu: rest },
            (MessageType::TIME_EXCEEDED, 0) => Self::TimeExceeded(TimeExceeded::HopLimit),
            (MessageType::TIME_EXCEEDED, 1) => Self::TimeExceeded(TimeExceeded::Reassembly),
            (MessageType::PARAM_PROBLEM, 0..=2) => {
                let problem = match code {
                    0 => ParamProblem::Field,
                    1 => ParamProblem::NextHeader,
                    _ => ParamProblem::Option,
                };
                Self::ParamProblem {
                    problem,
                    pointer: rest,
                }
            }
            _ => return None,
        })
    }

    /// Whether the error may answer a packet to a group: path MTU discovery works for multicast,
    /// too, and an option may ask for it.
    pub(crate) const fn may_answer_multicast(self) -> bool {
        matches!(
            self,
            Self::PacketTooBig { .. }
                | Self::ParamProblem {
                    problem: ParamProblem::Option,
                    ..
                }
        )
    }
}

/// An ICMPv6 echo or error.
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
    /// An error about a packet.
    Error {
        /// What went wrong.
        kind: ErrorKind,
        /// The start of the packet, from its IPv6 header on.
        original: &'a [u8],
    },
}

impl<'a> Repr<'a> {
    /// Reads a message that came from `src` to `dst`.
    ///
    /// # Errors
    /// `BadChecksum`; `Unsupported` for other types (neighbour discovery among them) and codes.
    pub fn parse<T: AsRef<[u8]> + ?Sized>(
        src: &Ipv6Addr,
        dst: &Ipv6Addr,
        packet: &Packet<&'a T>,
    ) -> Result<Repr<'a>> {
        let payload = packet
            .buffer
            .as_ref()
            .get(HEADER_LEN..)
            .ok_or(WireError::Truncated)?;
        if !packet.verify_checksum(src, dst) {
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

    /// Writes the message with its checksum between `src` and `dst`. The buffer must be of just
    /// `buffer_len` bytes, for the checksum covers all of it.
    ///
    /// # Errors
    /// `Truncated` or `BadLength` if the buffer is shorter or longer than `buffer_len`.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        src: &Ipv6Addr,
        dst: &Ipv6Addr,
        packet: &mut Packet<T>,
    ) -> Result<()> {
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
        packet.fill_checksum(src, dst);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SRC: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    const DST: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
    const ECHO: [u8; 12] = [
        0x80, 0x00, 0x19, 0xb3, 0x12, 0x34, 0xab, 0xcd, 0xaa, 0x00, 0x00, 0xff,
    ];
    const TOO_BIG: [u8; 12] = [
        0x02, 0x00, 0x9b, 0xb4, 0x00, 0x00, 0x05, 0x00, 0x60, 0x00, 0x00, 0x00,
    ];

    fn echo() -> Repr<'static> {
        Repr::EchoRequest {
            ident: 0x1234,
            seq: 0xabcd,
            data: &ECHO[8..],
        }
    }

    fn too_big() -> Repr<'static> {
        Repr::Error {
            kind: ErrorKind::PacketTooBig { mtu: 1280 },
            original: &TOO_BIG[8..],
        }
    }

    #[test]
    fn parses_golden() {
        let packet = Packet::new_checked(&ECHO[..]).unwrap();
        assert_eq!(Repr::parse(&SRC, &DST, &packet), Ok(echo()));
        let packet = Packet::new_checked(&TOO_BIG[..]).unwrap();
        assert_eq!(Repr::parse(&SRC, &DST, &packet), Ok(too_big()));
    }

    #[test]
    fn emits_golden() {
        for (repr, golden) in [(echo(), ECHO), (too_big(), TOO_BIG)] {
            let mut packet = Packet::new_unchecked([0xff; 12]);
            repr.emit(&SRC, &DST, &mut packet).unwrap();
            assert_eq!(packet.into_inner(), golden);
        }
    }

    #[test]
    fn refuses_short_broken_and_unknown() {
        assert_eq!(Packet::new_checked(&ECHO[..7]), Err(WireError::Truncated));
        let parse =
            |bytes: &[u8]| Repr::parse(&SRC, &DST, &Packet::new_unchecked(bytes)).map(|_| ());
        assert_eq!(parse(&ECHO[..7]), Err(WireError::Truncated));
        let of_type = |msg_type: u8, code: u8| {
            let mut packet = Packet::new_unchecked(ECHO);
            packet.set_msg_type(MessageType(msg_type));
            packet.set_code(code);
            packet.fill_checksum(&SRC, &DST);
            parse(&packet.into_inner())
        };
        assert_eq!((of_type(128, 0), of_type(2, 9)), (Ok(()), Ok(())));
        for (msg_type, code) in [(128, 1), (1, 8), (3, 2), (4, 3), (135, 0)] {
            assert_eq!(of_type(msg_type, code), Err(WireError::Unsupported));
        }
        let mut broken = ECHO;
        broken[11] ^= 1;
        assert_eq!(parse(&broken), Err(WireError::BadChecksum));
        let emit = |len: usize| echo().emit(&SRC, &DST, &mut Packet::new_unchecked(vec![0; len]));
        assert_eq!(
            (emit(11), emit(13)),
            (Err(WireError::Truncated), Err(WireError::BadLength))
        );
    }

    fn any_kind() -> impl Strategy<Value = ErrorKind> {
        let problem = prop_oneof![
            Just(ParamProblem::Field),
            Just(ParamProblem::NextHeader),
            Just(ParamProblem::Option),
        ];
        prop_oneof![
            (0u8..8).prop_map(|c| ErrorKind::Unreachable(Unreachable::from_code(c).unwrap())),
            any::<u32>().prop_map(|mtu| ErrorKind::PacketTooBig { mtu }),
            Just(ErrorKind::TimeExceeded(TimeExceeded::HopLimit)),
            Just(ErrorKind::TimeExceeded(TimeExceeded::Reassembly)),
            (problem, any::<u32>())
                .prop_map(|(problem, pointer)| ErrorKind::ParamProblem { problem, pointer }),
        ]
    }

    proptest! {
        #[test]
        fn round_trips(
            which in 0..3, ident: u16, seq: u16, kind in any_kind(), src: [u8; 16], dst: [u8; 16],
            data in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let repr = match which {
                0 => Repr::EchoRequest { ident, seq, data: &data },
                1 => Repr::EchoReply { ident, seq, data: &data },
                _ => Repr::Error { kind, original: &data },
            };
            let (src, dst) = (src.into(), dst.into());
            let mut packet = Packet::new_unchecked(vec![0xa5; repr.buffer_len()]);
            repr.emit(&src, &dst, &mut packet).unwrap();
            let bytes = packet.into_inner();
            let packet = Packet::new_checked(&bytes[..]).unwrap();
            prop_assert_eq!(Repr::parse(&src, &dst, &packet), Ok(repr));
        }

        #[test]
        fn any_bytes_are_answered(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..120),
            fill: bool,
        ) {
            if let Ok(mut packet) = Packet::new_checked(&mut bytes[..]) {
                if fill {
                    packet.fill_checksum(&SRC, &DST);
                }
                let bytes: &[u8] = packet.into_inner();
                let _ = Repr::parse(&SRC, &DST, &Packet::new_unchecked(bytes));
            }
        }
    }
}
