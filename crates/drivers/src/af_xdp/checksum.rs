//! Completing checksums that a local sender left to its interface.
//!
//! A packet that another namespace or a process of this host sends through a veth or tap has never been
//! on a wire, and often no checksum: its field holds the sum of the pseudo-header and the kernel's own
//! notes say that the rest is to be added (`CHECKSUM_PARTIAL`, the kernel's
//! `include/linux/skbuff.h`). XDP does not pass these notes on. But the field can be recognised, by
//! that very sum, and completing it is always right: over a packet whose checksum happens to have that
//! value and is right already, the same value comes out again.
//!
//! Looks through VLAN tags, MPLS labels, IPv4, IPv6 with extension headers, and IP in IP, at TCP and UDP.
//! It does not look into VXLAN and GRE. Fragments have their checksums: the kernel completes before it
//! cuts.

use parshall_wire::Checksum;

/// Headers looked through at most.
const DEPTH: usize = 12;

const ETHERTYPE_IP4: u16 = 0x0800;
const ETHERTYPE_IP6: u16 = 0x86dd;
const ETHERTYPE_MPLS: [u16; 2] = [0x8847, 0x8848];
const ETHERTYPE_VLAN: [u16; 2] = [0x8100, 0x88a8];
const TCP: u8 = 6;
const UDP: u8 = 17;
const IP4_IN_IP: u8 = 4;
const IP6_IN_IP: u8 = 41;
/// IPv6 extension headers with a length of their own: hop-by-hop options, routing, destination options.
const EXTENSIONS: [u8; 3] = [0, 43, 60];

/// A transport header that was found.
struct Transport {
    /// Where it starts, and where the packet ends.
    at: usize,
    end: usize,
    /// Offset of its checksum field.
    field: usize,
    /// Sum of the pseudo-header.
    pseudo: u16,
}

/// Completes the checksum of the frame whose first bytes are `head` (all its headers, at least) and the
/// rest `tail`, piece by piece, if it is unfinished. Says whether it was.
pub(super) fn complete<'t>(
    head: &mut [u8],
    len: usize,
    tail: impl Iterator<Item = &'t [u8]>,
) -> bool {
    let Some(t) = find(head, len) else {
        return false;
    };
    let at = t.at + t.field;
    let Some(&[a, b]) = head.get(at..at + 2) else {
        return false;
    };
    if u16::from_be_bytes([a, b]) != t.pseudo || len < t.end {
        return false;
    }
    let mut sum = Checksum::new();
    let mut left = t.end - t.at;
    let mut add = |piece: &[u8]| {
        let piece = &piece[..piece.len().min(left)];
        sum.add(piece);
        left -= piece.len();
    };
    add(&head[t.at..]);
    tail.for_each(&mut add);
    if left != 0 {
        return false;
    }
    // Zero means "none" to UDP; all ones is the same number and right for TCP too.
    let value = match sum.finish() {
        0 => 0xffff,
        v => v,
    };
    head[at..at + 2].copy_from_slice(&value.to_be_bytes());
    true
}

fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*b.get(at..)?.first_chunk()?))
}

/// Finds the transport header of a frame of `len` bytes.
fn find(head: &[u8], len: usize) -> Option<Transport> {
    let mut kind = u16_at(head, 12)?;
    let mut at = 14;
    for _ in 0..DEPTH {
        if ETHERTYPE_VLAN.contains(&kind) {
            kind = u16_at(head, at + 2)?;
            at += 4;
        } else if ETHERTYPE_MPLS.contains(&kind) {
            let is_bottom = head.get(at + 2)? & 1 != 0;
            at += 4;
            if is_bottom {
                kind = match head.get(at)? >> 4 {
                    4 => ETHERTYPE_IP4,
                    6 => ETHERTYPE_IP6,
                    _ => return None,
                };
            }
        } else {
            break;
        }
    }
    ip(head, at, len, kind)
}

/// Follows IP headers from `at` on.
fn ip(head: &[u8], mut at: usize, len: usize, mut kind: u16) -> Option<Transport> {
    for _ in 0..DEPTH {
        let (end, next, protocol, pseudo) = match kind {
            ETHERTYPE_IP4 => ip4(head, at)?,
            ETHERTYPE_IP6 => ip6(head, at)?,
            _ => return None,
        };
        if end > len || next > end {
            return None;
        }
        let field = match protocol {
            TCP => 16,
            UDP => 6,
            IP4_IN_IP | IP6_IN_IP => {
                kind = if protocol == IP4_IN_IP {
                    ETHERTYPE_IP4
                } else {
                    ETHERTYPE_IP6
                };
                at = next;
                continue;
            }
            _ => return None,
        };
        let mut sum = pseudo;
        sum.add_u16(u16::from(protocol));
        // IPv6 counts the length in 32 bits, of which the upper are zero here.
        sum.add_u16(u16::try_from(end - next).ok()?);
        return Some(Transport {
            at: next,
            end,
            field,
            pseudo: !sum.finish(),
        });
    }
    None
}

/// End of the packet, start and protocol of what is in it, sum of its addresses.
type Layer = (usize, usize, u8, Checksum);

fn ip4(head: &[u8], at: usize) -> Option<Layer> {
    let h = head.get(at..)?.first_chunk::<20>()?;
    let header = usize::from(h[0] & 15) * 4;
    let is_fragment = u16::from_be_bytes([h[6], h[7]]) & 0x3fff != 0;
    if h[0] >> 4 != 4 || header < 20 || is_fragment {
        return None;
    }
    let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
    let mut sum = Checksum::new();
    sum.add(&h[12..20]);
    Some((at + total, at + header, h[9], sum))
}

fn ip6(head: &[u8], at: usize) -> Option<Layer> {
    let h = head.get(at..)?.first_chunk::<40>()?;
    if h[0] >> 4 != 6 {
        return None;
    }
    let end = at + 40 + usize::from(u16::from_be_bytes([h[4], h[5]]));
    let mut sum = Checksum::new();
    sum.add(&h[8..40]);
    let (mut protocol, mut next) = (h[6], at + 40);
    for _ in 0..DEPTH {
        if !EXTENSIONS.contains(&protocol) {
            return Some((end, next, protocol, sum));
        }
        protocol = *head.get(next)?;
        next += (usize::from(*head.get(next + 1)?) + 1) * 8;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An IPv4 UDP frame whose checksum is right, and where that stands.
    fn udp4(payload: &[u8]) -> (Vec<u8>, usize) {
        let mut f = vec![0u8; 14];
        f[12..14].copy_from_slice(&[8, 0]);
        let total = (28 + payload.len()) as u16;
        f.extend([0x45, 0]);
        f.extend(total.to_be_bytes());
        f.extend([0, 0, 0x40, 0, 64, UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        f.extend([0x12, 0x34, 0, 53]);
        f.extend((8 + payload.len() as u16).to_be_bytes());
        f.extend([0, 0]);
        f.extend(payload);
        let mut sum = Checksum::new();
        sum.add(&f[26..34]);
        sum.add_u16(17);
        sum.add_u16(total - 20);
        sum.add(&f[34..]);
        let value = match sum.finish() {
            0 => 0xffff,
            v => v,
        };
        f[40..42].copy_from_slice(&value.to_be_bytes());
        (f, 40)
    }

    /// The frame as a sender hands it over that leaves the rest to its interface.
    fn unfinished(frame: &[u8], at: usize) -> Vec<u8> {
        let mut f = frame.to_vec();
        let t = find(&f, f.len()).unwrap();
        assert_eq!(t.at + t.field, at);
        f[at..at + 2].copy_from_slice(&t.pseudo.to_be_bytes());
        f
    }

    #[test]
    fn an_unfinished_checksum_becomes_the_right_one() {
        let (good, at) = udp4(b"twelve bytes");
        // Known by hand: the sum of 10.0.0.1, 10.0.0.2, protocol 17 and length 20.
        let t = find(&good, good.len()).unwrap();
        assert_eq!(t.pseudo, 0x0a00 + 1 + 0x0a00 + 2 + 17 + 20);
        let mut f = unfinished(&good, at);
        let len = f.len();
        assert!(complete(&mut f, len, std::iter::empty()));
        assert_eq!(f, good);
        assert!(!complete(&mut f, len, std::iter::empty()), "done already");
    }

    #[test]
    fn headers_in_front_are_looked_through() {
        let (good, _) = udp4(b"odd");
        let ip = &good[14..];
        let tagged = [&good[..12], &[0x81, 0, 0, 5, 8, 0], ip].concat();
        let labelled = [&good[..12], &[0x88, 0x47, 0, 1, 0, 64, 0, 1, 1, 64], ip].concat();
        let outer_len = (20 + ip.len()) as u16;
        let [a, b] = outer_len.to_be_bytes();
        let outer = [
            0x45, 0, a, b, 0, 0, 0, 0, 64, 4, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2,
        ];
        let tunnelled = [&good[..14], &outer, ip].concat();
        for frame in [tagged, labelled, tunnelled] {
            let at = frame.len() - ip.len() + 26;
            let mut f = unfinished(&frame, at);
            let len = f.len();
            assert!(complete(&mut f, len, std::iter::empty()));
            assert_eq!(f, frame);
        }
    }

    #[test]
    fn ipv6_with_options_and_tcp() {
        let mut f = vec![0u8; 14];
        f[12..14].copy_from_slice(&[0x86, 0xdd]);
        f.extend([0x60, 0, 0, 0, 0, 28, 0, 64]);
        f.extend([0x20; 16]);
        f.extend([0x30; 16]);
        f.extend([TCP, 0, 1, 4, 0, 0, 0, 0]);
        let at = f.len() + 16;
        f.extend([0u8; 20]);
        let t = find(&f, f.len()).unwrap();
        f[at..at + 2].copy_from_slice(&t.pseudo.to_be_bytes());
        let len = f.len();
        assert!(complete(&mut f, len, std::iter::empty()));
        // 8 times 0x2020, 8 times 0x3030, 6, 20: folded and complemented.
        let sum = 8 * 0x2020u32 + 8 * 0x3030 + 6 + 20;
        let folded = (sum & 0xffff) + (sum >> 16);
        assert_eq!(f[at..at + 2], (!(folded as u16)).to_be_bytes());
    }

    #[test]
    fn fragments_and_cut_off_packets_are_left_alone() {
        let (good, at) = udp4(b"payload");
        let base = unfinished(&good, at);
        for (place, value) in [(20, 0x20), (21, 1), (14, 0x44), (17, 200)] {
            let mut f = base.clone();
            f[place] = value;
            let before = f.clone();
            let len = f.len();
            assert!(!complete(&mut f, len, std::iter::empty()), "{place}");
            assert_eq!(f, before);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(mut frame in proptest::collection::vec(any::<u8>(), 0..200), kind in 0usize..5) {
            let kinds = [0x0800u16, 0x86dd, 0x8100, 0x8847, 0x88a8];
            if frame.len() > 14 {
                frame[12..14].copy_from_slice(&kinds[kind].to_be_bytes());
                frame[14] = if kind == 1 { 0x60 } else { 0x45 };
            }
            let before = frame.clone();
            let len = frame.len();
            if !complete(&mut frame, len, std::iter::empty()) {
                prop_assert_eq!(before, frame);
            }
        }

        #[test]
        fn a_packet_in_pieces_is_the_packet(payload in proptest::collection::vec(any::<u8>(), 0..400), cut in 0usize..400) {
            let (good, at) = udp4(&payload);
            let mut f = unfinished(&good, at);
            let len = f.len();
            let (head, tail) = f.split_at_mut((42 + cut).min(len));
            let tail = tail.to_vec();
            prop_assert!(complete(head, len, tail.chunks(7)));
            prop_assert_eq!(f, good);
        }
    }
}
