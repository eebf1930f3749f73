//! The classifier: which of many rules a packet matches first, by one row of bits for each field.
//!
//! Each field of a key (an octet of an address, the protocol, a port, the TCP flags) leads by a table to the set
//! of rules that this field does not rule out. The sets, ANDed, are the rules that match; the lowest bit is the first
//! of them. So the cost does not depend on which rule matches, and up to 256 rules take one vector operation a
//! field. Octets that no rule looks at are left out. (Lakshman and Stiliadis, "High-Speed Policy-based Packet
//! Forwarding", SIGCOMM 1998: the bit-vector scheme.)

use std::net::IpAddr;

use crate::bits::{Block, ByteTable, PortTable, Rows};
use crate::key::{Key, Key4, Key6, L4, UpperLayer};
use crate::rule::{ALL, Rule};

/// Octets of a key's addresses at most.
const OCTETS: usize = 32;
/// Fields besides: protocol, two ports, flags.
const FIELDS: usize = OCTETS + 4;
const TCP: u8 = 6;

/// A table for one octet of the addresses.
struct Octet {
    at: u8,
    table: ByteTable,
}

/// The rules of one family.
struct Half {
    /// Position of each in the whole list.
    rules: Vec<u32>,
    rows: Rows,
    octets: Vec<Octet>,
    proto: ByteTable,
    sport: Option<PortTable>,
    dport: Option<PortTable>,
    flags: Option<ByteTable>,
    /// Row of the rules that do not look at ports.
    portless: u32,
    /// Row of the rules that fragments beyond the first can match.
    later: u32,
}

/// A list of rules, compiled. Reading it allocates nothing and takes the same time whatever matches.
pub struct Classifier {
    ip4: Half,
    ip6: Half,
}

impl Classifier {
    /// Compiles rules in their order. `later`: fragments beyond the first match rules by addresses and protocol,
    /// whatever those say of ports; without it they match only rules for any protocol.
    pub fn new(rules: &[Rule], later: bool) -> Classifier {
        Classifier {
            ip4: Half::new(rules, false, later),
            ip6: Half::new(rules, true, later),
        }
    }

    /// Position of the first rule that an IPv4 packet matches.
    #[inline(always)]
    pub fn find4(&self, key: &Key4) -> Option<u32> {
        // As a word, so that a key stays in registers.
        let addrs = u64::from_le_bytes(key.addrs);
        self.ip4.find(|at| (addrs >> (at % 8 * 8)) as u8, &key.l4)
    }
    /// Position of the first rule that an IPv6 packet matches.
    #[inline(always)]
    pub fn find6(&self, key: &Key6) -> Option<u32> {
        let octet = |at: u8| key.addrs.get(usize::from(at)).copied().unwrap_or(0);
        self.ip6.find(octet, &key.l4)
    }
    /// The same for either.
    pub fn find(&self, key: &Key) -> Option<u32> {
        match key {
            Key::Ip4(k) => self.find4(k),
            Key::Ip6(k) => self.find6(k),
        }
    }
}

/// The values of octet `at` of the addresses that a rule lets pass, first and last.
fn octet_range(rule: &Rule, at: usize) -> (u8, u8) {
    let ((addr, len), at) = match (rule.is_ip6(), at) {
        (false, 0..4) | (true, 0..16) => (rule.src, at),
        (false, _) => (rule.dst, at - 4),
        (true, _) => (rule.dst, at - 16),
    };
    let octet = match addr {
        IpAddr::V4(a) => a.octets().get(at).copied(),
        IpAddr::V6(a) => a.octets().get(at).copied(),
    };
    let fixed = usize::from(len).saturating_sub(at * 8).min(8);
    let free = 0xFFu8.checked_shr(fixed as u32).unwrap_or(0);
    let octet = octet.unwrap_or(0) & !free;
    (octet, octet | free)
}

/// A rule's ports, every one where it does not look.
fn ports(rule: &Rule, range: (u16, u16)) -> (u16, u16) {
    if rule.proto == 0 { ALL } else { range }
}

impl Half {
    fn new(all: &[Rule], ip6: bool, later: bool) -> Half {
        let ours = |(i, r): (usize, &Rule)| (r.is_ip6() == ip6).then_some((i as u32, *r));
        let (places, rules): (Vec<u32>, Vec<Rule>) =
            all.iter().enumerate().filter_map(ours).unzip();
        let n = rules.len();
        let mut rows = Rows::new(n);
        let octets = (0..if ip6 { OCTETS } else { 8 })
            .filter(|at| rules.iter().any(|r| octet_range(r, *at) != (0, 255)))
            .map(|at| Octet {
                at: at as u8,
                table: ByteTable::new(&mut rows, n, |i| octet_range(&rules[i], at)),
            })
            .collect();
        let proto = ByteTable::new(&mut rows, n, |i| match rules[i].proto {
            0 => (0, 255),
            p => (p, p),
        });
        let sport = PortTable::new(&mut rows, n, |i| ports(&rules[i], rules[i].sport));
        let dport = PortTable::new(&mut rows, n, |i| ports(&rules[i], rules[i].dport));
        let flags = rules.iter().any(Rule::has_flags).then(|| {
            ByteTable::each(&mut rows, n, |i, v| {
                !rules[i].has_flags() || v & rules[i].tcp_mask == rules[i].tcp_value
            })
        });
        let portless = rows.make(n, |i| !rules[i].has_ports());
        let by_fragments = rows.make(n, |i| later || rules[i].proto == 0);
        Half {
            portless: rows.keep(&portless),
            later: rows.keep(&by_fragments),
            rules: places,
            octets,
            proto,
            sport: Some(sport).filter(|t| !t.is_uniform()),
            dport: Some(dport).filter(|t| !t.is_uniform()),
            flags,
            rows,
        }
    }

    #[inline(always)]
    fn find(&self, octet: impl Fn(u8) -> u8, l4: &L4) -> Option<u32> {
        if let Some(only) = self.rows.only() {
            // What a few hundred rules need is gathered in a register.
            let mut matching = Block::ALL;
            self.each_field(octet, l4, |row| matching = matching.and(only.at(row)));
            return self.rules.get(matching.first()? as usize).copied();
        }
        let mut fields = [0u32; FIELDS];
        let mut n = 0;
        self.each_field(octet, l4, |row| {
            fields[n] = row;
            n += 1;
        });
        let fields = &fields[..n];
        (0..self.rows.blocks).find_map(|block| {
            let row = |at: u32| self.rows.all.get(at as usize + block);
            let matching = fields.iter().fold(Block::ALL, |m, &at| {
                row(at).map_or(Block::NONE, |r| m.and(r))
            });
            let first = matching.first()? as usize + block * 256;
            self.rules.get(first).copied()
        })
    }

    /// Says the row of each field that rules look at; `octet` reads the addresses.
    #[inline(always)]
    fn each_field(&self, octet: impl Fn(u8) -> u8, l4: &L4, mut field: impl FnMut(u32)) {
        field(self.proto.at(l4.proto));
        match l4.kind {
            UpperLayer::Ports => {
                if let Some(t) = &self.sport {
                    field(t.at(l4.sport));
                }
                if let Some(t) = &self.dport {
                    field(t.at(l4.dport));
                }
                if let Some(t) = self.flags.as_ref().filter(|_| l4.proto == TCP) {
                    field(t.at(l4.flags));
                }
            }
            UpperLayer::Plain => field(self.portless),
            UpperLayer::Later => field(self.later),
        }
        for o in &self.octets {
            field(o.table.at(octet(o.at)));
        }
    }
}
