//! The `data { ... }` part of a stream's text: headers layer by layer, then a payload.
//!
//! Each layer names the next one's protocol, as VPP has it: `IP4: 1.2.3 -> 4.5.6` is an Ethernet header,
//! `UDP: 10.0.0.1 -> 10.0.0.2` the IPv4 header below it, `UDP: 1234 -> 2345` the UDP header. Lengths and
//! checksums that are not given follow from the rest. Formats: RFC 791, 8200, 768, 9293, 792, 4443, 826,
//! 3032.

use super::fields::{Edit, Fixup, Pseudo, Values};
use super::names::{
    ARP, ICMP4_TYPES, ICMP6_TYPES, IP4, IP6, MPLS, TCP_FLAGS, VLAN, ether_type, flag4, named,
    names, protocol,
};
use super::scan::{ParseError, Range, Scanner};

/// The node the packets are made for, which says what they start with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Ethernet,
    Network(u16),
}

/// What fills a frame behind its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    Zero,
    /// Bytes that count up from 0 to one less than this and start again.
    Counting(u32),
}

/// The frame as far as the text gives it.
#[derive(Debug)]
pub(super) struct Draft {
    /// Headers, and the payload when it is given byte by byte.
    pub bytes: Vec<u8>,
    pub edits: Vec<Edit>,
    lengths: Vec<Fixup>,
    checksums: Vec<Fixup>,
    pub fill: Fill,
}

type Result<T> = std::result::Result<T, ParseError>;

/// Where a field is: offset, bytes of the integer around it, bits below it, its bits.
type Place = (usize, usize, u32, u32);

impl Draft {
    /// Reads all layers and the payload.
    pub fn read(s: &mut Scanner<'_>, start: Start) -> Result<Draft> {
        let mut draft = Draft {
            bytes: Vec::new(),
            edits: Vec::new(),
            lengths: Vec::new(),
            checksums: Vec::new(),
            fill: Fill::Zero,
        };
        match start {
            Start::Ethernet if is_payload(s) => {}
            Start::Ethernet => draft.ethernet(s)?,
            Start::Network(kind) => {
                // The interface's own address becomes the destination when the stream is made.
                draft.bytes.resize(12, 0);
                draft.bytes.extend(kind.to_be_bytes());
                draft.network(s, kind)?;
            }
        }
        draft.payload(s)?;
        if s.at_end() {
            Ok(draft)
        } else {
            Err(s.expected("the end of the packet data"))
        }
    }

    /// Lengths and checksums in the order in which they must be set.
    pub fn fixups(&self) -> Vec<Fixup> {
        let lengths = self.lengths.iter();
        // Checksums cover lengths, never the other way round.
        lengths.chain(&self.checksums).copied().collect()
    }

    fn grow(&mut self, n: usize) -> usize {
        let at = self.bytes.len();
        self.bytes.resize(at + n, 0);
        at
    }

    /// Puts the first value of a range into the frame, and notes the rest of it.
    fn put(&mut self, (at, bytes, shift, bits): Place, range: Range) {
        let field = &mut self.bytes[at..at + bytes];
        let old = field.iter().fold(0u128, |n, &b| n << 8 | u128::from(b));
        let new = old | range.first << shift;
        field.copy_from_slice(&new.to_be_bytes()[16 - bytes..]);
        if let Some(last) = range.last {
            let first = range.first;
            let values = if range.random {
                Values::Random { first, last }
            } else {
                Values::Increment { first, last }
            };
            self.edits.push(Edit {
                at,
                bytes,
                shift,
                bits,
                values,
            });
        }
    }

    fn number(&mut self, s: &mut Scanner<'_>, place: Place) -> Result<()> {
        let range = s.range(|s| s.number_of(place.3))?;
        self.put(place, range);
        Ok(())
    }

    fn set(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn ethernet(&mut self, s: &mut Scanner<'_>) -> Result<()> {
        let mut kind = ether_type(s)?;
        let at = self.grow(14);
        self.put((at + 6, 6, 0, 48), s.range(Scanner::mac)?);
        s.expect("->")?;
        self.put((at, 6, 0, 48), s.range(Scanner::mac)?);
        let mut type_at = at + 12;
        for n in 0.. {
            if !s.keyword("vlan") {
                break;
            }
            if n == 2 {
                return Err(s.error("at most two VLAN tags are possible"));
            }
            self.set(type_at, &VLAN.to_be_bytes());
            let tag = self.grow(4);
            type_at = tag + 2;
            self.number(s, (tag, 2, 0, 12))?;
            if s.keyword("priority") {
                self.number(s, (tag, 2, 13, 3))?;
            }
            if s.keyword("cfi") {
                self.number(s, (tag, 2, 12, 1))?;
            }
        }
        if kind == IP4 && is_ip6(s) {
            // VPP's own scripts never do this, but the mistake is easy to make and hard to see.
            return Err(s.error("an IP4 Ethernet header cannot carry IPv6 addresses, write IP6"));
        }
        self.set(type_at, &kind.to_be_bytes());
        if is_payload(s) {
            kind = 0;
        }
        self.network(s, kind)
    }

    fn network(&mut self, s: &mut Scanner<'_>, kind: u16) -> Result<()> {
        match kind {
            _ if is_payload(s) => Ok(()),
            IP4 => self.ip4(s),
            IP6 => self.ip6(s),
            ARP => self.arp(s),
            MPLS => self.mpls(s),
            _ => Ok(()),
        }
    }

    fn mpls(&mut self, s: &mut Scanner<'_>) -> Result<()> {
        loop {
            if !s.keyword("MPLS:") {
                return Err(s.expected("`MPLS: label N`"));
            }
            if !s.keyword("label") {
                return Err(s.expected("`label`"));
            }
            let at = self.grow(4);
            self.number(s, (at, 4, 12, 20))?;
            if s.keyword("exp") {
                self.number(s, (at, 4, 9, 3))?;
            }
            if s.keyword("ttl") {
                self.number(s, (at, 4, 0, 8))?;
            } else {
                self.bytes[at + 3] = 255;
            }
            if !s.peek().eq_ignore_ascii_case("MPLS:") {
                self.bytes[at + 2] |= 1;
                break;
            }
        }
        if is_payload(s) {
            return Ok(());
        }
        if is_ip6(s) { self.ip6(s) } else { self.ip4(s) }
    }

    fn arp(&mut self, s: &mut Scanner<'_>) -> Result<()> {
        let at = self.grow(28);
        self.set(at, &[0, 1, 8, 0, 6, 4]);
        let operation = match s.peek().trim_end_matches(':') {
            w if w.eq_ignore_ascii_case("request") => 1,
            w if w.eq_ignore_ascii_case("reply") => 2,
            _ => return Err(s.expected("`request:` or `reply:`")),
        };
        s.at += s.peek().trim_end_matches(':').len();
        s.expect(":")?;
        self.bytes[at + 7] = operation;
        for (i, mac) in [at + 8, at + 18].into_iter().enumerate() {
            if i == 1 {
                s.expect("->")?;
            }
            self.put((mac, 6, 0, 48), s.range(Scanner::mac)?);
            s.expect("/")?;
            self.put((mac + 6, 4, 0, 32), s.range(Scanner::ip4)?);
        }
        Ok(())
    }

    fn ip4(&mut self, s: &mut Scanner<'_>) -> Result<()> {
        let protocol = protocol(s)?;
        let ip = self.grow(20);
        self.set(ip, &[0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol]);
        // The addresses may be left out (all zero).
        let options = [
            "version", "tos", "ttl", "length", "df", "mf", "checksum", "fragment",
        ];
        if !is_payload(s) && !options.iter().any(|o| s.peek().eq_ignore_ascii_case(o)) {
            self.put((ip + 12, 4, 0, 32), s.range(Scanner::ip4)?);
            s.expect("->")?;
            self.put((ip + 16, 4, 0, 32), s.range(Scanner::ip4)?);
        }
        let given = self.ip4_options(s, ip)?;
        if !given.0 {
            self.lengths.push(Fixup::Ipv4Length { ip });
        }
        self.transport(s, protocol, Pseudo::V4(ip, protocol))?;
        if !given.1 {
            self.checksums.push(Fixup::Ipv4Checksum { ip, len: 20 });
        }
        Ok(())
    }

    /// Reads IPv4 fields, and says whether length and checksum were among them.
    fn ip4_options(&mut self, s: &mut Scanner<'_>, ip: usize) -> Result<(bool, bool)> {
        let (mut length, mut checksum) = (false, false);
        loop {
            if let Some((at, bit)) = flag4(s, ip) {
                self.bytes[at] |= bit;
                continue;
            }
            let place = match s.peek().to_ascii_lowercase().as_str() {
                "version" => (ip, 1, 4, 4),
                "header-length" => (ip, 1, 0, 4),
                "tos" => (ip + 1, 1, 0, 8),
                "ttl" => (ip + 8, 1, 0, 8),
                "length" => (ip + 2, 2, 0, 16),
                "checksum" => (ip + 10, 2, 0, 16),
                "fragment" => {
                    self.fragment(s, ip)?;
                    continue;
                }
                _ => return Ok((length, checksum)),
            };
            length |= place.0 == ip + 2;
            checksum |= place.0 == ip + 10;
            s.word("an option")?;
            // These have a default that the value replaces.
            let mask = ((1u16 << place.3.min(8)) - 1) as u8;
            if place.1 == 1 {
                self.bytes[place.0] &= !(mask << place.2);
            }
            self.number(s, place)?;
        }
    }

    /// `fragment id N offset M`, the offset in bytes.
    fn fragment(&mut self, s: &mut Scanner<'_>, ip: usize) -> Result<()> {
        s.word("fragment")?;
        if !s.keyword("id") {
            return Err(s.expected("`id`"));
        }
        self.number(s, (ip + 4, 2, 0, 16))?;
        if !s.keyword("offset") {
            return Err(s.expected("`offset`"));
        }
        let mut range = s.range(|s| s.number_of(16))?;
        range.first /= 8;
        range.last = range.last.map(|n| n / 8);
        self.put((ip + 6, 2, 0, 13), range);
        Ok(())
    }

    fn ip6(&mut self, s: &mut Scanner<'_>) -> Result<()> {
        // ICMP in an IPv6 header can only mean ICMPv6.
        let protocol = match protocol(s)? {
            1 => 58,
            other => other,
        };
        let ip = self.grow(40);
        self.set(ip, &[0x60, 0, 0, 0, 0, 0, protocol, 64]);
        self.put((ip + 8, 16, 0, 128), s.range(Scanner::ip6)?);
        s.expect("->")?;
        self.put((ip + 24, 16, 0, 128), s.range(Scanner::ip6)?);
        let mut length = false;
        loop {
            let place = match s.peek().to_ascii_lowercase().as_str() {
                "version" => (ip, 1, 4, 4),
                "traffic-class" => (ip, 2, 4, 8),
                "flow-label" => (ip, 4, 0, 20),
                "length" => (ip + 4, 2, 0, 16),
                "hop-limit" => (ip + 7, 1, 0, 8),
                _ => break,
            };
            length |= place.0 == ip + 4;
            if s.keyword("version") {
                self.bytes[ip] &= 0x0f;
            } else {
                s.word("an option")?;
            }
            if place.0 == ip + 7 {
                self.bytes[ip + 7] = 0;
            }
            self.number(s, place)?;
        }
        if !length {
            self.lengths.push(Fixup::Ipv6Length { ip });
        }
        self.transport(s, protocol, Pseudo::V6(ip, protocol))
    }

    fn transport(&mut self, s: &mut Scanner<'_>, protocol: u8, pseudo: Pseudo) -> Result<()> {
        match protocol {
            17 if s.keyword("UDP:") => self.udp(s, pseudo),
            6 if s.keyword("TCP:") => self.tcp(s, pseudo),
            1 if s.keyword("ICMP") => self.icmp(s, &ICMP4_TYPES, Pseudo::None),
            58 if s.keyword("ICMP") || s.keyword("ICMP6") => self.icmp(s, &ICMP6_TYPES, pseudo),
            _ if is_payload(s) => Ok(()),
            6 => Err(s.expected("`TCP: PORT -> PORT`, `incrementing N` or `hex 0x...`")),
            17 => Err(s.expected("`UDP: PORT -> PORT`, `incrementing N` or `hex 0x...`")),
            _ => Err(s.expected("`incrementing N` or `hex 0x...`")),
        }
    }

    fn ports(&mut self, s: &mut Scanner<'_>, at: usize) -> Result<()> {
        self.number(s, (at, 2, 0, 16))?;
        s.expect("->")?;
        self.number(s, (at + 2, 2, 0, 16))
    }

    fn udp(&mut self, s: &mut Scanner<'_>, pseudo: Pseudo) -> Result<()> {
        let at = self.grow(8);
        self.ports(s, at)?;
        let (mut length, mut checksum) = (false, false);
        loop {
            if s.keyword("length") {
                self.number(s, (at + 4, 2, 0, 16))?;
                length = true;
            } else if s.keyword("checksum") {
                self.number(s, (at + 6, 2, 0, 16))?;
                checksum = true;
            } else {
                break;
            }
        }
        if !length {
            self.lengths.push(Fixup::UdpLength { udp: at });
        }
        if !checksum {
            self.checksums.push(Fixup::Checksum {
                at,
                field: 6,
                end: None,
                pseudo,
            });
        }
        Ok(())
    }

    fn tcp(&mut self, s: &mut Scanner<'_>, pseudo: Pseudo) -> Result<()> {
        let at = self.grow(20);
        self.ports(s, at)?;
        self.bytes[at + 12] = 0x50;
        self.set(at + 14, &4096u16.to_be_bytes());
        let mut checksum = false;
        loop {
            if let Some(bit) = named(&TCP_FLAGS, s.peek()) {
                s.word("a flag")?;
                self.bytes[at + 13] |= bit;
            } else if s.keyword("window") {
                self.set(at + 14, &[0, 0]);
                self.number(s, (at + 14, 2, 0, 16))?;
            } else if s.keyword("seqnum") {
                self.number(s, (at + 4, 4, 0, 32))?;
            } else if s.keyword("acknum") {
                self.number(s, (at + 8, 4, 0, 32))?;
            } else if s.keyword("checksum") {
                self.number(s, (at + 16, 2, 0, 16))?;
                checksum = true;
            } else {
                break;
            }
        }
        if !checksum {
            self.checksums.push(Fixup::Checksum {
                at,
                field: 16,
                end: None,
                pseudo,
            });
        }
        Ok(())
    }

    fn icmp(&mut self, s: &mut Scanner<'_>, types: &[(&str, u8)], pseudo: Pseudo) -> Result<()> {
        let Some(kind) = named(types, s.peek()) else {
            return Err(s.expected(&format!("one of {}", names(types))));
        };
        s.word("a type")?;
        let at = self.grow(4);
        self.bytes[at] = kind;
        if s.keyword("checksum") {
            return self.number(s, (at + 2, 2, 0, 16));
        }
        self.checksums.push(Fixup::Checksum {
            at,
            field: 2,
            end: None,
            pseudo,
        });
        Ok(())
    }

    fn payload(&mut self, s: &mut Scanner<'_>) -> Result<()> {
        if s.keyword("hex") {
            let bytes = s.hex()?;
            self.bytes.extend(bytes);
        } else if s.keyword("incrementing") {
            let place = s.clone();
            match u32::try_from(s.number()?) {
                Ok(n) if n > 0 => self.fill = Fill::Counting(n),
                _ => return Err(place.clone().expected("a number of bytes from 1")),
            }
        }
        Ok(())
    }
}

fn is_payload(s: &mut Scanner<'_>) -> bool {
    let word = s.peek();
    word.is_empty() || word.eq_ignore_ascii_case("hex") || word.eq_ignore_ascii_case("incrementing")
}

/// Whether the next header has IPv6 addresses: looks behind its protocol.
fn is_ip6(s: &Scanner<'_>) -> bool {
    let mut ahead = s.clone();
    ahead.word("").is_ok() && ahead.range(Scanner::ip6).is_ok()
}
