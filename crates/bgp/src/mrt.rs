//! Routing tables and updates in files: MRT (RFC 6396), with several paths a prefix (RFC 8050).
//!
//! Understood are TABLE_DUMP_V2 for unicast of both families and BGP4MP(_ET) messages and state changes, which is
//! what route collectors, FRR, BIRD and GoBGP write. Whoever has the file reads it a record at a time:
//! [`Header::parse`] says how many bytes follow, [`Record::parse`] what they are.

use core::net::{IpAddr, Ipv4Addr};

use crate::attributes::{Attributes, Place};
use crate::error::{BgpError, Result};
use crate::net::{Net, read_net};
use crate::path::{PathAttributes, PathBuilder};
use crate::reader::Reader;
use crate::update::Dialect;

const TABLE_DUMP_V2: u16 = 13;
const BGP4MP: u16 = 16;
const BGP4MP_ET: u16 = 17;

/// What stands in front of every record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// When it was written, in seconds since 1970.
    pub seconds: u32,
    kind: u16,
    subtype: u16,
    /// Bytes of the record that follow.
    pub length: usize,
}

impl Header {
    /// Bytes of a header.
    pub const BYTES: usize = 12;
    /// Most bytes of a record. The largest of collectors with hundreds of peers have tens of thousands.
    pub const MAX_RECORD: usize = 4 << 20;

    /// Reads one.
    ///
    /// # Errors
    /// When the record is longer than any can be: the file is none of MRT, or broken from here on.
    pub fn parse(bytes: &[u8; Header::BYTES]) -> Result<Header> {
        const WHAT: &str = "MRT header";
        let mut r = Reader(bytes);
        let (seconds, kind, subtype) = (r.u32(WHAT)?, r.u16(WHAT)?, r.u16(WHAT)?);
        let length = r.u32(WHAT)? as usize;
        if length > Header::MAX_RECORD {
            return Err(BgpError::Limit {
                what: "bytes of an MRT record",
                count: length,
                limit: Header::MAX_RECORD,
            });
        }
        Ok(Header {
            seconds,
            kind,
            subtype,
            length,
        })
    }
}

/// A speaker that routes were heard from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Its AS.
    pub asn: u32,
}

/// A record.
#[derive(Debug, Clone)]
pub enum Record<'a> {
    /// The peers that the tables which follow speak of by number.
    Peers(Vec<Peer>),
    /// All routes to a prefix.
    Rib(Rib<'a>),
    /// A message from a peer: what is to be read with [`Message`](crate::update::Message).
    Message {
        /// Who sent it.
        peer: Peer,
        /// How it is to be read.
        dialect: Dialect,
        /// The message with its header.
        bytes: &'a [u8],
    },
    /// The session with a peer went down: what it said is no longer true.
    Down(Peer),
    /// Of another type.
    Other,
}

/// Routes to one prefix.
#[derive(Debug, Clone, Copy)]
pub struct Rib<'a> {
    /// The prefix.
    pub net: Net,
    count: u16,
    entries: &'a [u8],
    add_path: bool,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct RibEntry<'a> {
    /// Number of the peer in the list of peers.
    pub peer: u16,
    /// Path identifier, 0 without.
    pub path_id: u32,
    attributes: &'a [u8],
}

impl RibEntry<'_> {
    /// What the route says.
    ///
    /// # Errors
    /// When its attributes are broken.
    pub fn path(&self, b: &mut PathBuilder) -> Result<PathAttributes> {
        let dialect = Dialect {
            as4: true,
            ..Dialect::default()
        };
        let a = Attributes::parse(self.attributes, dialect, Place::Dump)?;
        a.path(a.reach.and_then(|r| r.0), b)
    }
}

impl<'a> Rib<'a> {
    /// The routes, up to the first that is cut short.
    pub fn entries(&self) -> impl Iterator<Item = Result<RibEntry<'a>>> + use<'a> {
        let (mut r, mut left, add_path) = (Reader(self.entries), self.count, self.add_path);
        core::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let entry = read_entry(&mut r, add_path);
            if entry.is_err() {
                left = 0;
            }
            Some(entry)
        })
    }
}

fn read_entry<'a>(r: &mut Reader<'a>, add_path: bool) -> Result<RibEntry<'a>> {
    const WHAT: &str = "RIB entry";
    let peer = r.u16(WHAT)?;
    r.u32(WHAT)?;
    let path_id = if add_path { r.u32(WHAT)? } else { 0 };
    let attributes = r.counted(WHAT)?;
    Ok(RibEntry {
        peer,
        path_id,
        attributes,
    })
}

impl<'a> Record<'a> {
    /// Reads the `header.length` bytes that follow a header.
    ///
    /// # Errors
    /// When they are not what the header says. The next record may be read all the same.
    pub fn parse(header: &Header, bytes: &'a [u8]) -> Result<Record<'a>> {
        let mut r = Reader(bytes);
        match (header.kind, header.subtype) {
            (TABLE_DUMP_V2, 1) => peers(&mut r).map(Record::Peers),
            (TABLE_DUMP_V2, 2) => rib(&mut r, false, false),
            (TABLE_DUMP_V2, 4) => rib(&mut r, true, false),
            (TABLE_DUMP_V2, 8) => rib(&mut r, false, true),
            (TABLE_DUMP_V2, 10) => rib(&mut r, true, true),
            (BGP4MP, subtype) => message(&mut r, subtype),
            (BGP4MP_ET, subtype) => {
                // Microseconds of the time.
                r.u32("BGP4MP_ET record")?;
                message(&mut r, subtype)
            }
            _ => Ok(Record::Other),
        }
    }
}

fn peers(r: &mut Reader<'_>) -> Result<Vec<Peer>> {
    const WHAT: &str = "PEER_INDEX_TABLE";
    r.u32(WHAT)?;
    r.counted(WHAT)?;
    let count = usize::from(r.u16(WHAT)?);
    // The shortest entry: type, BGP identifier, IPv4 address, AS of two bytes.
    let mut peers = Vec::with_capacity(count.min(r.0.len() / 11));
    for _ in 0..count {
        let kind = r.u8(WHAT)?;
        r.u32(WHAT)?;
        peers.push(Peer {
            address: r.ip(kind & 1 != 0, WHAT)?,
            asn: r.asn(kind & 2 != 0, WHAT)?,
        });
    }
    Ok(peers)
}

fn rib<'a>(r: &mut Reader<'a>, v6: bool, add_path: bool) -> Result<Record<'a>> {
    const WHAT: &str = "RIB record";
    r.u32(WHAT)?;
    let net = read_net(r, v6)?;
    let count = r.u16(WHAT)?;
    Ok(Record::Rib(Rib {
        net,
        count,
        entries: r.0,
        add_path,
    }))
}

/// BGP4MP: subtypes 0 and 5 are changes of state, 1, 4, 6, 7 messages, 8 to 11 those with path identifiers; in 0, 1, 6,
/// 8 and 10 an AS has two bytes.
fn message<'a>(r: &mut Reader<'a>, subtype: u16) -> Result<Record<'a>> {
    const WHAT: &str = "BGP4MP record";
    let as4 = match subtype {
        0 | 1 | 6 | 8 | 10 => false,
        4 | 5 | 7 | 9 | 11 => true,
        _ => return Ok(Record::Other),
    };
    let asn = r.asn(as4, WHAT)?;
    r.asn(as4, WHAT)?;
    r.u16(WHAT)?;
    let v6 = match r.u16(WHAT)? {
        1 => false,
        2 => true,
        afi => {
            return Err(BgpError::Value {
                what: "address family of a BGP4MP record",
                value: afi.into(),
            });
        }
    };
    let address = r.ip(v6, WHAT)?;
    r.ip(v6, WHAT)?;
    let peer = Peer { address, asn };
    Ok(match subtype {
        0 | 5 => {
            let (was, is) = (r.u16(WHAT)?, r.u16(WHAT)?);
            // RFC 4271 section 8.2.2: 6 is Established.
            if was == 6 && is != 6 {
                Record::Down(peer)
            } else {
                Record::Other
            }
        }
        // What the collector itself sent.
        6 | 7 | 10 | 11 => Record::Other,
        _ => Record::Message {
            peer,
            dialect: Dialect {
                as4,
                add_path: [subtype >= 8; 2],
            },
            bytes: r.0,
        },
    })
}

/// Writes dumps: for tests and benches, and to hand a table on.
#[derive(Debug, Default)]
pub struct DumpWriter {
    out: Vec<u8>,
    sequence: u32,
}

impl DumpWriter {
    /// A table heard from one peer.
    pub fn new(peer: Peer) -> DumpWriter {
        let mut w = DumpWriter::default();
        w.record(1, |out| {
            out.extend(Ipv4Addr::UNSPECIFIED.octets());
            out.extend([0, 0, 0, 1]);
            let v6 = peer.address.is_ipv6();
            out.push(2 | u8::from(v6));
            out.extend(Ipv4Addr::UNSPECIFIED.octets());
            put_ip(out, peer.address);
            out.extend(peer.asn.to_be_bytes());
        });
        w
    }

    /// Adds a route to a network.
    pub fn route(&mut self, net: Net, path: &PathAttributes) {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        let subtype = if net.addr().is_ipv6() { 4 } else { 2 };
        self.record(subtype, |out| {
            out.extend(sequence.to_be_bytes());
            out.push(net.len());
            let n = usize::from(net.len()).div_ceil(8);
            match net.addr() {
                IpAddr::V4(a) => out.extend(&a.octets()[..n]),
                IpAddr::V6(a) => out.extend(&a.octets()[..n]),
            }
            out.extend([0, 1, 0, 0, 0, 0, 0, 0]);
            counted(out, |out| put_attributes(out, path));
        });
    }

    /// The bytes of the file.
    pub fn finish(self) -> Vec<u8> {
        self.out
    }

    fn record(&mut self, subtype: u16, body: impl FnOnce(&mut Vec<u8>)) {
        self.out.extend([0; 4]);
        self.out.extend(TABLE_DUMP_V2.to_be_bytes());
        self.out.extend(subtype.to_be_bytes());
        let at = self.out.len();
        self.out.extend([0; 4]);
        body(&mut self.out);
        let n = (self.out.len() - at - 4) as u32;
        self.out[at..at + 4].copy_from_slice(&n.to_be_bytes());
    }
}

/// A run of bytes behind its length in two bytes.
fn counted(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend([0; 2]);
    body(out);
    let n = (out.len() - at - 2) as u16;
    out[at..at + 2].copy_from_slice(&n.to_be_bytes());
}

fn put_ip(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(a) => out.extend(a.octets()),
        IpAddr::V6(a) => out.extend(a.octets()),
    }
}

fn put_attributes(out: &mut Vec<u8>, p: &PathAttributes) {
    let word = |out: &mut Vec<u8>, kind: u8, v: u32| {
        out.extend([0x40, kind, 4]);
        out.extend(v.to_be_bytes());
    };
    out.extend([0x40, 1, 1, p.origin as u8]);
    out.extend([0x50, 2]);
    counted(out, |out| {
        for (kind, ases) in p.segments() {
            // A segment holds 255.
            for part in ases.chunks(255) {
                out.extend([kind as u8, part.len() as u8]);
                part.iter().for_each(|a| out.extend(a.to_be_bytes()));
            }
        }
    });
    match p.next_hop {
        Some(IpAddr::V4(a)) => {
            out.extend([0x40, 3, 4]);
            out.extend(a.octets());
        }
        Some(IpAddr::V6(a)) => {
            out.extend([0x80, 14, 17, 16]);
            out.extend(a.octets());
        }
        None => {}
    }
    p.med.into_iter().for_each(|v| word(out, 4, v));
    p.local_pref.into_iter().for_each(|v| word(out, 5, v));
    if !p.communities().is_empty() {
        out.extend([0xD0, 8]);
        counted(out, |out| {
            p.communities()
                .iter()
                .for_each(|c| out.extend(c.to_be_bytes()));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{Origin, SegmentKind};

    fn records(mut bytes: &[u8]) -> Vec<Record<'_>> {
        let mut all = Vec::new();
        while let Some((head, rest)) = bytes.split_first_chunk() {
            let h = Header::parse(head).unwrap();
            all.push(Record::parse(&h, &rest[..h.length]).unwrap());
            bytes = &rest[h.length..];
        }
        all
    }

    fn sample(v6: bool) -> PathAttributes {
        let mut b = PathBuilder::default();
        b.segment(SegmentKind::Sequence, [65_001, 70_000].into_iter())
            .unwrap();
        b.segment(SegmentKind::Set, [1, 2].into_iter()).unwrap();
        b.communities([7, 8].into_iter()).unwrap();
        PathAttributes {
            next_hop: Some(
                if v6 { "2001:db8::1" } else { "192.0.2.1" }
                    .parse()
                    .unwrap(),
            ),
            local_pref: Some(50),
            med: Some(3),
            origin: Origin::Egp,
            ..b.build()
        }
    }

    #[test]
    fn a_dump_that_was_written_is_read_back() {
        let peer = Peer {
            address: "2001:db8::7".parse().unwrap(),
            asn: 70_000,
        };
        let nets = ["10.0.0.0/9", "0.0.0.0/0", "2001:db8:2::/47"];
        let mut w = DumpWriter::new(peer);
        for n in nets {
            w.route(n.parse().unwrap(), &sample(n.contains(':')));
        }
        let bytes = w.finish();
        let all = records(&bytes);
        let Record::Peers(peers) = &all[0] else {
            panic!("no peers")
        };
        assert_eq!(peers, &[peer]);
        for (r, n) in all[1..].iter().zip(nets) {
            let Record::Rib(rib) = r else {
                panic!("no routes")
            };
            assert_eq!(rib.net.to_string(), n);
            let entries: Vec<_> = rib.entries().map(Result::unwrap).collect();
            assert_eq!((entries.len(), entries[0].peer), (1, 0));
            let path = entries[0].path(&mut PathBuilder::default()).unwrap();
            assert_eq!(path, sample(n.contains(':')));
        }
    }

    /// A BGP4MP_MESSAGE_AS4 with an empty UPDATE, and a BGP4MP_ET state change from Established to Idle.
    #[rustfmt::skip]
    const UPDATES: &[u8] = &[
        0, 0, 0, 1, 0, 16, 0, 4, 0, 0, 0, 43,
        0, 1, 0x11, 0x70, 0, 0, 0xFD, 0xE9, 0, 0, 0, 1, 192, 0, 2, 1, 192, 0, 2, 2,
        0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
        0, 23, 2, 0, 0, 0, 0,
        0, 0, 0, 2, 0, 17, 0, 0, 0, 0, 0, 24,
        0, 0, 0, 9, 0xFD, 0xEA, 0xFD, 0xE9, 0, 0, 0, 1, 192, 0, 2, 3, 192, 0, 2, 2, 0, 6, 0, 1,
    ];

    #[test]
    fn golden_updates() {
        let all = records(UPDATES);
        let Record::Message {
            peer,
            dialect,
            bytes,
        } = &all[0]
        else {
            panic!("no message")
        };
        assert_eq!(
            (peer.asn, peer.address.to_string().as_str()),
            (70_000, "192.0.2.1")
        );
        assert_eq!((dialect.as4, dialect.add_path), (true, [false; 2]));
        assert_eq!(bytes.len(), 23);
        let Record::Down(peer) = &all[1] else {
            panic!("no change of state")
        };
        assert_eq!(peer.asn, 65_002);
    }

    #[test]
    fn what_records_claim_is_checked() {
        let head = |kind: u16, subtype: u16, length: u32| {
            let mut h = [0; 12];
            h[4..6].copy_from_slice(&kind.to_be_bytes());
            h[6..8].copy_from_slice(&subtype.to_be_bytes());
            h[8..].copy_from_slice(&length.to_be_bytes());
            Header::parse(&h)
        };
        let e = head(13, 2, u32::MAX).unwrap_err();
        assert_eq!(
            e.to_string(),
            "bytes of an MRT record: 4294967295 are over the limit of 4194304"
        );
        // 65,535 peers in nothing, 65,535 routes in nothing.
        let peers = head(13, 1, 8).unwrap();
        assert!(Record::parse(&peers, &[0, 0, 0, 0, 0, 0, 0xFF, 0xFF]).is_err());
        let rib = head(13, 2, 7).unwrap();
        let Record::Rib(r) = Record::parse(&rib, &[0, 0, 0, 0, 0, 0xFF, 0xFF]).unwrap() else {
            panic!("no routes")
        };
        let all: Vec<_> = r.entries().collect();
        assert!(all.len() == 1 && all[0].is_err());
        let foreign = head(11, 0, 0).unwrap();
        assert!(matches!(Record::parse(&foreign, &[]), Ok(Record::Other)));
    }
}
