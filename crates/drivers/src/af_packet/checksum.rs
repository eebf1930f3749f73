//! Completing checksums that the sender left to its interface.
//!
//! The kernel says where the sum starts and where it goes; the field already holds the sum of the
//! pseudo-header (`CHECKSUM_PARTIAL`, the kernel's `include/linux/skbuff.h`), so one sum over the
//! rest completes it, whatever the protocol and however deep in a tunnel. SCTP is the exception: its
//! checksum is a CRC-32C (RFC 9260 appendix A).

use parshall_wire::Checksum;

/// Where SCTP has its checksum. No protocol with an Internet checksum has it there.
const SCTP_OFFSET: usize = 8;

/// Completes the checksum over `frame[start..]` that goes to `start + offset`; false, and nothing
/// done, when that lies outside.
pub(crate) fn complete(frame: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(covered) = frame.get_mut(start..) else {
        return false;
    };
    if offset == SCTP_OFFSET {
        return complete_sctp(covered);
    }
    if offset + 2 > covered.len() {
        return false;
    }
    let mut sum = Checksum::new();
    sum.add(covered);
    // Zero means "none" to UDP; all ones is the same number and right for every protocol.
    let value = match sum.finish() {
        0 => 0xffff,
        v => v,
    };
    covered[offset..offset + 2].copy_from_slice(&value.to_be_bytes());
    true
}

fn complete_sctp(packet: &mut [u8]) -> bool {
    if packet.len() < SCTP_OFFSET + 4 {
        return false;
    }
    packet[SCTP_OFFSET..SCTP_OFFSET + 4].fill(0);
    let crc = crc32c(packet);
    packet[SCTP_OFFSET..SCTP_OFFSET + 4].copy_from_slice(&crc.to_le_bytes());
    true
}

/// CRC-32C (Castagnoli), reflected.
fn crc32c(data: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    !data.iter().fold(!0, |crc, &byte| {
        TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8)
    })
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                0x82f6_3b78 ^ (crc >> 1)
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_wire::checksum::{l4_checksum_valid, pseudo_v4};
    use parshall_wire::{IpProtocol, PacketBuilder};
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    #[test]
    fn crc32c_check_value() {
        // RFC 3720 appendix B.4, and the usual check string.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn what_lies_outside_is_left_alone() {
        let mut frame = [7; 20];
        assert!(!complete(&mut frame, 21, 0));
        assert!(!complete(&mut frame, 10, 9));
        assert!(
            !complete(&mut frame, 10, 8),
            "an SCTP checksum has four bytes"
        );
        assert_eq!(frame, [7; 20]);
        assert!(complete(&mut frame, 8, 8));
    }

    proptest! {
        #[test]
        fn a_partial_checksum_becomes_right(len in 0usize..1500, tcp: bool) {
            let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
            let ip = PacketBuilder::bare().ipv4(src, dst);
            let (packet, offset, protocol) = if tcp {
                (ip.tcp(1, 2, parshall_wire::TcpFlags::ACK), 16, IpProtocol::TCP)
            } else {
                (ip.udp(1, 2), 6, IpProtocol::UDP)
            };
            let mut packet = packet.payload_len(len).build();
            let upper = (packet.len() - 20) as u16;
            let partial = !pseudo_v4(src, dst, protocol, upper).finish();
            packet[20 + offset..22 + offset].copy_from_slice(&partial.to_be_bytes());
            prop_assert!(complete(&mut packet, 20, offset));
            prop_assert_eq!(l4_checksum_valid(&packet), Some(true));
        }
    }
}
