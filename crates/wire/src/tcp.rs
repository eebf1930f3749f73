//! The TCP header (RFC 9293 section 3.1; ECN flags RFC 3168). No connection state.

use core::fmt;
use core::ops::BitOr;
use std::net::IpAddr;

use crate::field::{put_u16, put_u32, u16_at, u32_at};
use crate::udp::pseudo;
use crate::view::view;
use crate::{IpProtocol, Result, WireError};

mod at {
    pub const SRC_PORT: usize = 0;
    pub const DST_PORT: usize = 2;
    pub const SEQ: usize = 4;
    pub const ACK: usize = 8;
    pub const OFFSET: usize = 12;
    pub const FLAGS: usize = 13;
    pub const WINDOW: usize = 14;
    pub const CHECKSUM: usize = 16;
    pub const URGENT: usize = 18;
}

/// The eight control bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronize sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push function.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgment field is significant.
    pub const ACK: Flags = Flags(0x10);
    /// The urgent pointer is significant.
    pub const URG: Flags = Flags(0x20);
    /// ECN echo.
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced.
    pub const CWR: Flags = Flags(0x80);

    /// Whether all of `flags` are set.
    #[inline]
    pub const fn contains(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl fmt::Display for Flags {
    /// The set flags' names joined by `|`, or `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
        let mut separator = "";
        for (bit, name) in NAMES.iter().enumerate() {
            if self.0 & (1 << bit) != 0 {
                write!(f, "{separator}{name}")?;
                separator = "|";
            }
        }
        if separator.is_empty() {
            f.write_str("none")
        } else {
            Ok(())
        }
    }
}

view! {
    /// A view of a segment.
    Packet, "Bytes of a header without options." HEADER_LEN = 20,
    /// `Truncated` also if the header is longer than that, `BadLength` if it claims to be shorter than 20.
    claims check_claims
}

impl<T: AsRef<[u8]>> Packet<T> {
    #[inline]
    fn check_claims(&self) -> Result<()> {
        match self.header_len() {
            claimed if claimed < HEADER_LEN => Err(WireError::BadLength),
            claimed if claimed > self.buffer.as_ref().len() => Err(WireError::Truncated),
            _ => Ok(()),
        }
    }

    /// The source port.
    #[inline]
    pub fn src_port(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::SRC_PORT)
    }

    /// The destination port.
    #[inline]
    pub fn dst_port(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::DST_PORT)
    }

    /// The sequence number.
    #[inline]
    pub fn seq(&self) -> u32 {
        u32_at(self.buffer.as_ref(), at::SEQ)
    }

    /// The acknowledgment number.
    #[inline]
    pub fn ack(&self) -> u32 {
        u32_at(self.buffer.as_ref(), at::ACK)
    }

    /// Bytes of the header with options, 0 to 60 as it stands.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.buffer.as_ref()[at::OFFSET] >> 4) * 4
    }

    /// The control bits.
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags(self.buffer.as_ref()[at::FLAGS])
    }

    /// The window as it stands, not scaled.
    #[inline]
    pub fn window(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::WINDOW)
    }

    /// The checksum as it stands.
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::CHECKSUM)
    }

    /// The urgent pointer.
    #[inline]
    pub fn urgent(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::URGENT)
    }

    /// The option bytes, padding included.
    #[inline]
    pub fn options(&self) -> &[u8] {
        let data = self.buffer.as_ref();
        data.get(HEADER_LEN..self.header_len()).unwrap_or(&[])
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.buffer.as_ref().get(self.header_len()..).unwrap_or(&[])
    }

    /// Whether the checksum is right between these addresses; the view's bytes must be the
    /// segment and no more.
    pub fn verify_checksum(&self, src: IpAddr, dst: IpAddr) -> bool {
        let data = self.buffer.as_ref();
        let Ok(len) = u16::try_from(data.len()) else {
            return false;
        };
        pseudo(src, dst, IpProtocol::TCP, len).is_some_and(|mut sum| {
            sum.add(data);
            sum.finish() == 0
        })
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the source port.
    #[inline]
    pub fn set_src_port(&mut self, port: u16) {
        put_u16(self.buffer.as_mut(), at::SRC_PORT, port);
    }

    /// Sets the destination port.
    #[inline]
    pub fn set_dst_port(&mut self, port: u16) {
        put_u16(self.buffer.as_mut(), at::DST_PORT, port);
    }

    /// Sets the sequence number.
    #[inline]
    pub fn set_seq(&mut self, seq: u32) {
        put_u32(self.buffer.as_mut(), at::SEQ, seq);
    }

    /// Sets the acknowledgment number.
    #[inline]
    pub fn set_ack(&mut self, ack: u32) {
        put_u32(self.buffer.as_mut(), at::ACK, ack);
    }

    /// Sets the header length in bytes, a multiple of 4 from 20 to 60; reserved bits become 0.
    #[inline]
    pub fn set_header_len(&mut self, bytes: usize) {
        self.buffer.as_mut()[at::OFFSET] = (((bytes / 4) & 0x0f) as u8) << 4;
    }

    /// Sets the control bits.
    #[inline]
    pub fn set_flags(&mut self, flags: Flags) {
        self.buffer.as_mut()[at::FLAGS] = flags.0;
    }

    /// Sets the window.
    #[inline]
    pub fn set_window(&mut self, window: u16) {
        put_u16(self.buffer.as_mut(), at::WINDOW, window);
    }

    /// Sets the checksum.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put_u16(self.buffer.as_mut(), at::CHECKSUM, checksum);
    }

    /// Sets the urgent pointer.
    #[inline]
    pub fn set_urgent(&mut self, urgent: u16) {
        put_u16(self.buffer.as_mut(), at::URGENT, urgent);
    }
}

/// A TCP header without options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// Window, not scaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
}

impl Repr {
    /// Reads the header; options are dropped, the checksum is `Packet::verify_checksum`'s matter.
    ///
    /// # Errors
    /// `Truncated`, `BadLength` as in `Packet::new_checked`; `Malformed` for a port 0.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr> {
        packet.check_len()?;
        if packet.src_port() == 0 || packet.dst_port() == 0 {
            return Err(WireError::Malformed);
        }
        Ok(Repr {
            src_port: packet.src_port(),
            dst_port: packet.dst_port(),
            seq: packet.seq(),
            ack: packet.ack(),
            flags: packet.flags(),
            window: packet.window(),
            urgent: packet.urgent(),
        })
    }

    /// Bytes that `emit` writes: the header.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header with a checksum of 0; fill it when the payload is in place.
    ///
    /// # Errors
    /// `Truncated` if the buffer is shorter than `buffer_len`.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) -> Result<()> {
        if packet.buffer.as_ref().len() < self.buffer_len() {
            return Err(WireError::Truncated);
        }
        packet.set_src_port(self.src_port);
        packet.set_dst_port(self.dst_port);
        packet.set_seq(self.seq);
        packet.set_ack(self.ack);
        packet.set_header_len(HEADER_LEN);
        packet.set_flags(self.flags);
        packet.set_window(self.window);
        packet.set_checksum(0);
        packet.set_urgent(self.urgent);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEGMENT: [u8; 22] = [
        0x30, 0x39, 0x00, 0x50, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x02, 0x50, 0x18, 0x20,
        0x00, 0x00, 0x00, 0x00, 0x00, 0x68, 0x69,
    ];

    fn repr() -> Repr {
        Repr {
            src_port: 12345,
            dst_port: 80,
            seq: 1,
            ack: 2,
            flags: Flags::PSH | Flags::ACK,
            window: 8192,
            urgent: 0,
        }
    }

    #[test]
    fn parses_golden() {
        let packet = Packet::new_checked(&SEGMENT[..]).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(repr()));
        assert_eq!(packet.payload(), b"hi");
        assert!(packet.options().is_empty());
        assert_eq!(packet.flags().to_string(), "PSH|ACK");
        assert_eq!(Flags::default().to_string(), "none");
    }

    #[test]
    fn emits_golden() {
        let mut bytes = SEGMENT;
        bytes[..20].fill(0xff);
        repr()
            .emit(&mut Packet::new_unchecked(&mut bytes[..]))
            .unwrap();
        assert_eq!(bytes, SEGMENT);
    }

    #[test]
    fn options_and_payload_part_at_the_data_offset() {
        let mut bytes = SEGMENT.to_vec();
        bytes.splice(20..20, [2, 4, 5, 0xb4]);
        Packet::new_unchecked(&mut bytes[..]).set_header_len(24);
        let packet = Packet::new_checked(&bytes[..]).unwrap();
        assert_eq!(packet.options(), [2, 4, 5, 0xb4]);
        assert_eq!(packet.payload(), b"hi");
    }

    #[test]
    fn refuses_bad_lengths_and_port_zero() {
        let with = |at: usize, value: u8| {
            let mut bytes = SEGMENT;
            bytes[at] = value;
            Packet::new_checked(bytes)
                .and_then(|p| Repr::parse(&p))
                .map(|_| ())
        };
        assert_eq!(with(12, 0x40), Err(WireError::BadLength));
        assert_eq!(with(12, 0x60), Err(WireError::Truncated));
        assert_eq!(with(3, 0), Err(WireError::Malformed));
        let mut bytes = SEGMENT;
        bytes[..2].fill(0);
        assert_eq!(
            Repr::parse(&Packet::new_unchecked(bytes)),
            Err(WireError::Malformed)
        );
        assert_eq!(
            Packet::new_checked(&SEGMENT[..19]),
            Err(WireError::Truncated)
        );
        assert_eq!(
            repr().emit(&mut Packet::new_unchecked([0; 19])),
            Err(WireError::Truncated)
        );
    }

    proptest! {
        #[test]
        fn round_trips(
            src_port in 1u16.., dst_port in 1u16.., seq: u32, ack: u32, flags: u8,
            window: u16, urgent: u16,
        ) {
            let repr = Repr { src_port, dst_port, seq, ack, flags: Flags(flags), window, urgent };
            let mut packet = Packet::new_unchecked([0xa5; HEADER_LEN]);
            repr.emit(&mut packet).unwrap();
            prop_assert_eq!(Repr::parse(&packet), Ok(repr));
        }

        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(packet) = Packet::new_checked(&bytes[..]) {
                let _ = Repr::parse(&packet);
                prop_assert_eq!(20 + packet.options().len() + packet.payload().len(), bytes.len());
            }
        }
    }
}
