//! Address resolution for IPv4 over Ethernet (RFC 826; probes and announcements RFC 5227).

use std::net::Ipv4Addr;

use crate::field::{array_at, put, put_u16, u16_at};
use crate::view::view;
use crate::{EtherType, MacAddr, Result, WireError};

/// What the sender wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Who has the target address?
    Request,
    /// The sender has the sender address.
    Reply,
}

const HARDWARE_ETHERNET: u16 = 1;

mod at {
    pub const HTYPE: usize = 0;
    pub const PTYPE: usize = 2;
    pub const HLEN: usize = 4;
    pub const PLEN: usize = 5;
    pub const OPER: usize = 6;
    pub const SHA: usize = 8;
    pub const SPA: usize = 14;
    pub const THA: usize = 18;
    pub const TPA: usize = 24;
}

view! {
    /// A view of an ARP packet for Ethernet and IPv4. The address accessors are meaningful only if
    /// the type and length fields say Ethernet and IPv4, which `Repr::parse` tests.
    Packet, "Bytes of a packet for Ethernet and IPv4." PACKET_LEN = 28
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// The hardware type; 1 is Ethernet.
    #[inline]
    pub fn hardware_type(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::HTYPE)
    }

    /// The protocol type, an EtherType.
    #[inline]
    pub fn protocol_type(&self) -> EtherType {
        EtherType(u16_at(self.buffer.as_ref(), at::PTYPE))
    }

    /// Bytes of a hardware address; 6 for Ethernet.
    #[inline]
    pub fn hardware_len(&self) -> u8 {
        self.buffer.as_ref()[at::HLEN]
    }

    /// Bytes of a protocol address; 4 for IPv4.
    #[inline]
    pub fn protocol_len(&self) -> u8 {
        self.buffer.as_ref()[at::PLEN]
    }

    /// The operation number; 1 request, 2 reply.
    #[inline]
    pub fn operation(&self) -> u16 {
        u16_at(self.buffer.as_ref(), at::OPER)
    }

    /// The sender's hardware address.
    #[inline]
    pub fn sender_mac(&self) -> MacAddr {
        MacAddr(array_at(self.buffer.as_ref(), at::SHA))
    }

    /// The sender's IPv4 address.
    #[inline]
    pub fn sender_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(array_at::<4>(self.buffer.as_ref(), at::SPA))
    }

    /// The target's hardware address, of no meaning in a request.
    #[inline]
    pub fn target_mac(&self) -> MacAddr {
        MacAddr(array_at(self.buffer.as_ref(), at::THA))
    }

    /// The target's IPv4 address.
    #[inline]
    pub fn target_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(array_at::<4>(self.buffer.as_ref(), at::TPA))
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets types and lengths to Ethernet and IPv4.
    #[inline]
    pub fn set_ethernet_ipv4(&mut self) {
        let data = self.buffer.as_mut();
        put_u16(data, at::HTYPE, HARDWARE_ETHERNET);
        put_u16(data, at::PTYPE, EtherType::IPV4.0);
        data[at::HLEN] = 6;
        data[at::PLEN] = 4;
    }

    /// Sets the operation.
    #[inline]
    pub fn set_operation(&mut self, operation: Operation) {
        let number = match operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        put_u16(self.buffer.as_mut(), at::OPER, number);
    }

    /// Sets the sender's hardware address.
    #[inline]
    pub fn set_sender_mac(&mut self, addr: MacAddr) {
        put(self.buffer.as_mut(), at::SHA, &addr.0);
    }

    /// Sets the sender's IPv4 address.
    #[inline]
    pub fn set_sender_ip(&mut self, addr: Ipv4Addr) {
        put(self.buffer.as_mut(), at::SPA, &addr.octets());
    }

    /// Sets the target's hardware address.
    #[inline]
    pub fn set_target_mac(&mut self, addr: MacAddr) {
        put(self.buffer.as_mut(), at::THA, &addr.0);
    }

    /// Sets the target's IPv4 address.
    #[inline]
    pub fn set_target_ip(&mut self, addr: Ipv4Addr) {
        put(self.buffer.as_mut(), at::TPA, &addr.octets());
    }
}

/// An ARP request or reply for IPv4 over Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Request or reply.
    pub operation: Operation,
    /// The sender's hardware address.
    pub sender_mac: MacAddr,
    /// The sender's IPv4 address; unspecified in a probe (RFC 5227).
    pub sender_ip: Ipv4Addr,
    /// The target's hardware address; zero in a request.
    pub target_mac: MacAddr,
    /// The target's IPv4 address.
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// The question "who has `target_ip`?".
    pub const fn request(sender_mac: MacAddr, sender_ip: Ipv4Addr, target_ip: Ipv4Addr) -> Repr {
        Repr {
            operation: Operation::Request,
            sender_mac,
            sender_ip,
            target_mac: MacAddr::ZERO,
            target_ip,
        }
    }

    /// The answer to this packet from the owner of its target address.
    pub const fn reply_from(&self, owner: MacAddr) -> Repr {
        Repr {
            operation: Operation::Reply,
            sender_mac: owner,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        }
    }

    /// Reads the packet.
    ///
    /// # Errors
    /// `Unsupported` for other hardware, protocols or operations, `Malformed` when the sender's
    /// hardware address is a group address, which no station has.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr> {
        let ethernet = (packet.hardware_type(), packet.hardware_len()) == (HARDWARE_ETHERNET, 6);
        let ipv4 = (packet.protocol_type(), packet.protocol_len()) == (EtherType::IPV4, 4);
        let operation = match packet.operation() {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return Err(WireError::Unsupported),
        };
        if !ethernet || !ipv4 {
            return Err(WireError::Unsupported);
        }
        if packet.sender_mac().is_multicast() {
            return Err(WireError::Malformed);
        }
        Ok(Repr {
            operation,
            sender_mac: packet.sender_mac(),
            sender_ip: packet.sender_ip(),
            target_mac: packet.target_mac(),
            target_ip: packet.target_ip(),
        })
    }

    /// Bytes that `emit` writes.
    pub const fn buffer_len(&self) -> usize {
        PACKET_LEN
    }

    /// Writes the packet.
    ///
    /// # Errors
    /// `Truncated` if the buffer is shorter than `buffer_len`.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) -> Result<()> {
        if packet.buffer.as_ref().len() < self.buffer_len() {
            return Err(WireError::Truncated);
        }
        packet.set_ethernet_ipv4();
        packet.set_operation(self.operation);
        packet.set_sender_mac(self.sender_mac);
        packet.set_sender_ip(self.sender_ip);
        packet.set_target_mac(self.target_mac);
        packet.set_target_ip(self.target_ip);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REQUEST: [u8; 28] = [
        0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, 0x01, 0x02, 0xfe, 0x00, 0x00, 0x00, 0x01, 0x0a,
        0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x00, 0x00, 0x02,
    ];
    const ASKER: MacAddr = MacAddr([2, 0xfe, 0, 0, 0, 1]);

    fn request() -> Repr {
        Repr::request(
            ASKER,
            Ipv4Addr::new(10, 0, 0, 1),
            Ipv4Addr::new(10, 0, 0, 2),
        )
    }

    #[test]
    fn parses_golden() {
        let packet = Packet::new_checked(&REQUEST[..]).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(request()));
    }

    #[test]
    fn emits_golden() {
        let mut packet = Packet::new_unchecked([0xffu8; 28]);
        request().emit(&mut packet).unwrap();
        assert_eq!(packet.into_inner(), REQUEST);
    }

    #[test]
    fn reply_swaps_the_ends() {
        let owner = MacAddr([2, 0xfe, 0, 0, 0, 2]);
        let reply = request().reply_from(owner);
        assert_eq!(reply.operation, Operation::Reply);
        assert_eq!((reply.sender_mac, reply.target_mac), (owner, ASKER));
        assert_eq!(reply.sender_ip, Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(reply.target_ip, Ipv4Addr::new(10, 0, 0, 1));
    }

    #[test]
    fn refuses_other_families_and_group_senders() {
        assert_eq!(
            Packet::new_checked(&REQUEST[..27]),
            Err(WireError::Truncated)
        );
        for (offset, value, error) in [
            (1, 6, WireError::Unsupported),
            (2, 0x86, WireError::Unsupported),
            (4, 8, WireError::Unsupported),
            (5, 16, WireError::Unsupported),
            (7, 3, WireError::Unsupported),
            (8, 0x03, WireError::Malformed),
        ] {
            let mut bytes = REQUEST;
            bytes[offset] = value;
            let packet = Packet::new_checked(&bytes[..]).unwrap();
            assert_eq!(Repr::parse(&packet), Err(error), "byte {offset}");
        }
    }

    proptest! {
        #[test]
        fn round_trips(request: bool, sha: [u8; 6], spa: [u8; 4], tha: [u8; 6], tpa: [u8; 4]) {
            let mut sender_mac = MacAddr(sha);
            sender_mac.0[0] &= 0xfe;
            let repr = Repr {
                operation: if request { Operation::Request } else { Operation::Reply },
                sender_mac,
                sender_ip: spa.into(),
                target_mac: MacAddr(tha),
                target_ip: tpa.into(),
            };
            let mut packet = Packet::new_unchecked([0u8; PACKET_LEN]);
            repr.emit(&mut packet).unwrap();
            prop_assert_eq!(Repr::parse(&packet), Ok(repr));
        }

        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(packet) = Packet::new_checked(&bytes[..]) {
                let _ = Repr::parse(&packet);
            }
        }
    }
}
