//! MAC-IP lists: which stations may send from which addresses, as VPP's acl plugin has them.
//!
//! A rule names a source address of the link layer under a mask and a source prefix; the first that matches decides (of two
//! for the very same, the later), and what matches none is denied. IPv4 packets are judged by their source, ARP by the sender it tells of (RFC 826), IPv6 packets by their source; frames of
//! other protocols pass. Rules of the same mask and length are found together, so a list costs what it has combinations of these.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

const ETHERNET: usize = 14;

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacipRule {
    /// What matches passes.
    pub permit: bool,
    /// Source address of the link layer; what the mask does not cover means nothing.
    pub mac: [u8; 6],
    /// Its bits that count.
    pub mask: [u8; 6],
    /// Source address and the bits of it that count, at most as many as its family has.
    pub src: (IpAddr, u8),
}

/// Address of the link layer and of the network, each under its mask.
type Pair = (u64, u128);

/// Rules with the same masks.
struct Group {
    mask: Pair,
    /// Place of the first of them in the list.
    first: usize,
    /// Place in the list and verdict, by what is to be there.
    rules: HashMap<Pair, (usize, bool)>,
}

/// A list, compiled.
pub struct Macip {
    rules: Arc<[MacipRule]>,
    four: Vec<Group>,
    six: Vec<Group>,
}

fn number(mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// An address's bits, and the mask for a prefix of it.
fn bits(ip: IpAddr, len: u8) -> (u128, u128) {
    let (bits, wide) = match ip {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()), 32),
        IpAddr::V6(ip) => (ip.to_bits(), 128),
    };
    let host = wide - u32::from(len).min(wide);
    (bits, u128::MAX.checked_shl(host).unwrap_or(0))
}

fn compile(rules: &[MacipRule], six: bool) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let (ip, len) = rule.src;
        if ip.is_ipv6() != six {
            continue;
        }
        let (ip, ip_mask) = bits(ip, len);
        let mask = (number(rule.mask), ip_mask);
        let found = groups.iter().position(|g| g.mask == mask);
        let group = found.unwrap_or_else(|| {
            groups.push(Group {
                mask,
                first: at,
                rules: HashMap::new(),
            });
            groups.len() - 1
        });
        let pair = (number(rule.mac) & mask.0, ip & mask.1);
        // Of two for the same the later holds, as in VPP.
        groups[group].rules.insert(pair, (at, rule.permit));
    }
    groups
}

fn permits(groups: &[Group], mac: [u8; 6], ip: u128) -> bool {
    let mac = number(mac);
    let mut best: Option<(usize, bool)> = None;
    for g in groups {
        if best.is_some_and(|b| b.0 < g.first) {
            // Groups stand in the order of their first rules.
            break;
        }
        let found = g.rules.get(&(mac & g.mask.0, ip & g.mask.1)).copied();
        best = best.into_iter().chain(found).min();
    }
    best.is_some_and(|b| b.1)
}

impl Macip {
    /// Compiles rules.
    pub fn new(rules: Vec<MacipRule>) -> Macip {
        Macip {
            four: compile(&rules, false),
            six: compile(&rules, true),
            rules: rules.into(),
        }
    }

    /// The rules, in order.
    pub fn rules(&self) -> &[MacipRule] {
        &self.rules
    }

    /// Whether a station may send this IPv4 packet; one cut short it may not.
    #[inline]
    pub fn permits_ip4(&self, mac: [u8; 6], packet: &[u8]) -> bool {
        let src = packet.get(12..16).and_then(|s| s.first_chunk::<4>());
        src.is_some_and(|s| permits(&self.four, mac, u128::from(u32::from_be_bytes(*s))))
    }

    /// Whether a station may send this IPv6 packet; one cut short it may not.
    #[inline]
    pub fn permits_ip6(&self, mac: [u8; 6], packet: &[u8]) -> bool {
        let src = packet.get(8..24).and_then(|s| s.first_chunk::<16>());
        src.is_some_and(|s| permits(&self.six, mac, u128::from_be_bytes(*s)))
    }

    /// Whether whoever an ARP packet tells of may send from that address.
    fn permits_arp(&self, packet: &[u8]) -> bool {
        let mac = packet.get(8..14).and_then(|s| s.first_chunk::<6>());
        let ip = packet.get(14..18).and_then(|s| s.first_chunk::<4>());
        mac.zip(ip)
            .is_some_and(|(mac, ip)| permits(&self.four, *mac, u128::from(u32::from_be_bytes(*ip))))
    }

    /// Whether a frame may be sent, from its Ethernet header on; up to two VLAN tags are looked through.
    pub fn permits_frame(&self, frame: &[u8]) -> bool {
        let Some(mac) = frame.get(6..12).and_then(|s| s.first_chunk::<6>()) else {
            return false;
        };
        let mut at = ETHERNET;
        loop {
            let kind = frame.get(at - 2..at).and_then(|k| k.first_chunk::<2>());
            let Some(kind) = kind else {
                return false;
            };
            let packet = &frame[at..];
            match u16::from_be_bytes(*kind) {
                0x0800 => return self.permits_ip4(*mac, packet),
                0x86DD => return self.permits_ip6(*mac, packet),
                0x0806 => return self.permits_arp(packet),
                0x8100 | 0x88A8 | 0x9100 if at < ETHERNET + 8 => at += 4,
                _ => return true,
            }
        }
    }
}

/// What workers read: the list of each interface.
#[derive(Default)]
pub struct MacipTables {
    /// By interface.
    pub input: Vec<Option<Arc<Macip>>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(permit: bool, mac: u8, mask: [u8; 6], ip: &str, len: u8) -> MacipRule {
        MacipRule {
            permit,
            mac: [2, 0, 0, 0, 0, mac],
            mask,
            src: (ip.parse().expect("an address"), len),
        }
    }

    fn ip4(last: u8) -> Vec<u8> {
        let mut p = vec![0x45; 20];
        p[12..16].copy_from_slice(&[10, 0, 0, last]);
        p
    }

    fn frame(mac: u8, kind: [u8; 2], tags: usize, packet: &[u8]) -> Vec<u8> {
        let mut f = vec![0xFF; 6];
        f.extend([2, 0, 0, 0, 0, mac]);
        (0..tags).for_each(|_| f.extend([0x81, 0, 0, 7]));
        f.extend(kind);
        f.extend(packet);
        f
    }

    const ALL: [u8; 6] = [0xFF; 6];
    const OUI: [u8; 6] = [0xFF, 0xFF, 0xFF, 0, 0, 0];

    #[test]
    fn the_first_rule_that_matches_decides_and_none_denies() {
        let list = Macip::new(vec![
            rule(false, 1, ALL, "10.0.0.9", 32),
            rule(true, 1, ALL, "10.0.0.0", 24),
            rule(false, 0, OUI, "10.0.0.0", 24),
            rule(true, 0, [0; 6], "10.0.0.7", 32),
        ]);
        let may = |mac, ip| list.permits_ip4([2, 0, 0, 0, 0, mac], &ip4(ip));
        assert!(may(1, 1) && !may(1, 9) && !may(2, 1));
        // The third comes before the fourth, though that is longer.
        assert!(!may(2, 7));
        assert!(list.permits_ip4([4, 0, 0, 0, 0, 2], &ip4(7)));
        assert!(!list.permits_ip4([4, 0, 0, 0, 0, 2], &ip4(8)));
        assert!(!list.permits_ip6([2, 0, 0, 0, 0, 1], &[0; 40]));
    }

    #[test]
    fn of_two_rules_for_the_same_the_later_holds() {
        let rules = [false, true].map(|permit| rule(permit, 1, ALL, "10.0.0.1", 32));
        let list = Macip::new(rules.to_vec());
        assert!(list.permits_ip4([2, 0, 0, 0, 0, 1], &ip4(1)));
    }

    #[test]
    fn masks_of_no_bits_match_everything() {
        let list = Macip::new(vec![
            rule(true, 9, [0; 6], "1.2.3.4", 0),
            rule(true, 9, [0; 6], "2001:db8::1", 0),
        ]);
        assert!(list.permits_ip4([6; 6], &ip4(200)));
        assert!(list.permits_ip6([6; 6], &[0xAB; 40]));
        assert!(!Macip::new(Vec::new()).permits_ip4([6; 6], &ip4(1)));
    }

    #[test]
    fn frames_are_judged_behind_tags_and_arp_by_its_sender() {
        let list = Macip::new(vec![rule(true, 1, ALL, "10.0.0.1", 32)]);
        for tags in 0..3 {
            assert!(list.permits_frame(&frame(1, [8, 0], tags, &ip4(1))));
            assert!(!list.permits_frame(&frame(2, [8, 0], tags, &ip4(1))));
        }
        let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1];
        assert!(list.permits_frame(&frame(3, [8, 6], 0, &arp)));
        arp[17] = 2;
        assert!(!list.permits_frame(&frame(1, [8, 6], 0, &arp)));
        // Other protocols are none of its business; what is cut short is.
        assert!(list.permits_frame(&frame(2, [0x88, 0xCC], 0, &[])));
        assert!(!list.permits_frame(&frame(1, [8, 0], 0, &ip4(1)[..14])));
        assert!(!list.permits_frame(&[0; 11]));
        assert!(!list.permits_frame(&frame(1, [0x86, 0xDD], 0, &[0; 40])));
    }
}
