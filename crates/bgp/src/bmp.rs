//! What a router tells a monitoring station of its BGP sessions: BMP (RFC 7854), its own best routes (RFC 9069).
//!
//! A station reads a stream: [`frame`] finds the messages in it, [`Message::parse`] reads one. Routes come as whole BGP
//! UPDATE messages, each behind a header that names the peer it was heard from.

use core::net::{IpAddr, Ipv4Addr};

use crate::error::{BgpError, Result};
use crate::mrt::Peer;
use crate::reader::Reader;
use crate::update::{Dialect, Message as BgpMessage, Open};

/// Bytes of the common header.
const HEADER: usize = 6;
/// Most bytes of a message: two OPEN messages or an UPDATE of the largest kind (RFC 8654), and as much again.
pub const MAX_MESSAGE: usize = 256 << 10;

/// Where a routing table lies on the way of a route through the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// What a peer said, before the router's policy.
    PrePolicy,
    /// What the policy left of it.
    PostPolicy,
    /// What the router itself takes (RFC 9069).
    LocRib,
    /// What it tells a peer (RFC 8671).
    AdjRibOut,
}

/// Who routes were heard from, and which of the router's tables they lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerHeader {
    /// Address and AS. The router itself, in its own table, has the address 0.0.0.0.
    pub peer: Peer,
    /// Which table.
    pub table: Table,
    /// Tells routing instances apart, 0 = the global one.
    pub distinguisher: u64,
    /// AS paths have two bytes an AS.
    pub as2: bool,
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// A change of routes: the body of an UPDATE.
    RouteMonitoring(PeerHeader, &'a [u8]),
    /// A session came up; how its messages are to be read, and the AS of the router's own end where it is known.
    PeerUp(PeerHeader, Dialect, Option<u32>),
    /// A session went down: what was heard is no longer true.
    PeerDown(PeerHeader),
    /// The router's name, if it said one.
    Initiation(Option<&'a [u8]>),
    /// The router ends the stream.
    Termination,
    /// Of another type.
    Other(u8),
}

/// Length of the message at the front of `bytes`; `None` when that cannot be said yet.
///
/// # Errors
/// When what is there is no BMP, or longer than any message: the stream is of no more use.
pub fn frame(bytes: &[u8]) -> Result<Option<usize>> {
    if let Some(&version) = bytes.first()
        && version != 3
    {
        return Err(BgpError::Value {
            what: "BMP version",
            value: version.into(),
        });
    }
    let Some(&[_, a, b, c, d]) = bytes.first_chunk::<5>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if length > MAX_MESSAGE {
        return Err(BgpError::Limit {
            what: "bytes of a BMP message",
            count: length,
            limit: MAX_MESSAGE,
        });
    }
    if length < HEADER {
        return Err(BgpError::Value {
            what: "length of a BMP message",
            value: length as u32,
        });
    }
    Ok(Some(length))
}

impl<'a> Message<'a> {
    /// Reads one message that [`frame`] has found.
    ///
    /// # Errors
    /// When it is not what it says. The stream may go on all the same.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>> {
        const WHAT: &str = "BMP message";
        let mut r = Reader(bytes);
        let [_, _, _, _, _, kind] = r.array::<HEADER>(WHAT)?;
        Ok(match kind {
            0 => {
                let peer = peer_header(&mut r)?;
                match BgpMessage::parse(r.0)?.0 {
                    BgpMessage::Update(body) => Message::RouteMonitoring(peer, body),
                    _ => Message::Other(kind),
                }
            }
            2 => Message::PeerDown(peer_header(&mut r)?),
            3 => peer_up(&mut r)?,
            4 => Message::Initiation(system_name(&mut r)?),
            5 => Message::Termination,
            _ => Message::Other(kind),
        })
    }
}

fn peer_header(r: &mut Reader<'_>) -> Result<PeerHeader> {
    const WHAT: &str = "BMP per-peer header";
    let [kind, flags] = r.array(WHAT)?;
    let distinguisher = r.u64(WHAT)?;
    let address: [u8; 16] = r.array(WHAT)?;
    let asn = r.u32(WHAT)?;
    r.take(12, WHAT)?;
    let local = kind == 3;
    // Bits of the flags: V (IPv6), L (after the policy), A (AS paths of two bytes), O (what is told).
    let address = if flags & 0x80 != 0 && !local {
        IpAddr::from(address)
    } else {
        let [.., a, b, c, d] = address;
        Ipv4Addr::new(a, b, c, d).into()
    };
    let table = match flags {
        _ if local => Table::LocRib,
        f if f & 0x10 != 0 => Table::AdjRibOut,
        f if f & 0x40 != 0 => Table::PostPolicy,
        _ => Table::PrePolicy,
    };
    Ok(PeerHeader {
        peer: Peer { address, asn },
        table,
        distinguisher,
        as2: flags & 0x20 != 0 && !local,
    })
}

/// What both ends of a session said they can do decides how its messages are read.
fn peer_up<'a>(r: &mut Reader<'a>) -> Result<Message<'a>> {
    const WHAT: &str = "peer up notification";
    let peer = peer_header(r)?;
    r.take(20, WHAT)?;
    let (sent, rest) = BgpMessage::parse(r.0)?;
    let (received, _) = BgpMessage::parse(rest)?;
    let open = |m| match m {
        BgpMessage::Open(open) => Some(open),
        _ => None,
    };
    let (sent, received) = (open(sent), open(received));
    let how = dialect(&peer, sent.zip(received));
    Ok(Message::PeerUp(peer, how, sent.map(|s| s.asn)))
}

fn dialect(peer: &PeerHeader, opens: Option<(Open, Open)>) -> Dialect {
    let both = |f: usize| {
        opens.is_some_and(|(sent, received)| sent.takes_paths[f] && received.gives_paths[f])
    };
    Dialect {
        as4: !peer.as2,
        add_path: [both(0), both(1)],
    }
}

/// The information of type 2 (RFC 7854 section 4.4).
fn system_name<'a>(r: &mut Reader<'a>) -> Result<Option<&'a [u8]>> {
    const WHAT: &str = "initiation message";
    let mut name = None;
    while !r.0.is_empty() {
        let kind = r.u16(WHAT)?;
        let value = r.counted(WHAT)?;
        if kind == 2 {
            name = Some(value);
        }
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut m = vec![3];
        m.extend((HEADER as u32 + body.len() as u32).to_be_bytes());
        m.push(kind);
        m.extend(body);
        m
    }

    fn peer(kind: u8, flags: u8, last: u8) -> Vec<u8> {
        let mut p = vec![kind, flags];
        p.extend([0, 0, 0, 0, 0, 0, 0, 9]);
        p.extend([0; 12]);
        p.extend([192, 0, 2, last]);
        p.extend([0, 1, 0x11, 0x70]);
        p.extend([10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        p
    }

    fn bgp(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut m = vec![0xFF; 16];
        m.extend((19 + body.len() as u16).to_be_bytes());
        m.push(kind);
        m.extend(body);
        m
    }

    fn open(add_path: u8) -> Vec<u8> {
        bgp(
            1,
            &[
                4, 0x5B, 0xA0, 0, 180, 1, 2, 3, 4, 8, 2, 6, 69, 4, 0, 2, 1, add_path,
            ],
        )
    }

    #[test]
    fn messages_are_found_in_the_stream() {
        let m = message(5, &[]);
        assert_eq!(frame(&[]), Ok(None));
        for n in 1..5 {
            assert_eq!(frame(&m[..n]), Ok(None), "{n}");
        }
        assert_eq!(frame(&m), Ok(Some(6)));
        assert_eq!(
            frame(&[1]).unwrap_err().to_string(),
            "BMP version cannot be 1"
        );
        assert!(frame(&[3, 0, 0, 0, 5]).is_err());
        assert!(frame(&[3, 0xFF, 0, 0, 0]).is_err());
    }

    #[test]
    fn golden_messages() {
        let update = [peer(0, 0x40, 1), bgp(2, &[0, 0, 0, 0])].concat();
        let bytes = message(0, &update);
        let Message::RouteMonitoring(p, body) = Message::parse(&bytes).unwrap() else {
            panic!("no routes")
        };
        assert_eq!(
            (p.peer.asn, p.peer.address.to_string().as_str()),
            (70_000, "192.0.2.1")
        );
        assert_eq!(
            (p.table, p.distinguisher, p.as2),
            (Table::PostPolicy, 9, false)
        );
        assert_eq!(body, [0, 0, 0, 0]);
        let up = [peer(0, 0x20, 1), vec![0; 20], open(1), open(2)].concat();
        let bytes = message(3, &up);
        let Message::PeerUp(p, d, own) = Message::parse(&bytes).unwrap() else {
            panic!("no session")
        };
        assert_eq!(own, Some(23_456));
        assert_eq!((p.table, p.as2), (Table::PrePolicy, true));
        assert_eq!((d.as4, d.add_path), (false, [false, true]));
        let down = message(2, &[peer(3, 0, 0), vec![1]].concat());
        let Message::PeerDown(p) = Message::parse(&down).unwrap() else {
            panic!("no end")
        };
        assert_eq!(p.table, Table::LocRib);
        let hello = message(4, &[0, 1, 0, 1, b'x', 0, 2, 0, 2, b'r', b'1']);
        assert_eq!(Message::parse(&hello), Ok(Message::Initiation(Some(b"r1"))));
        assert_eq!(Message::parse(&message(5, &[])), Ok(Message::Termination));
        assert_eq!(Message::parse(&message(1, &[1, 2])), Ok(Message::Other(1)));
    }

    #[test]
    fn whoever_cannot_receive_paths_gets_none() {
        let up = [peer(0, 0, 1), vec![0; 20], open(2), open(2)].concat();
        let bytes = message(3, &up);
        let Ok(Message::PeerUp(_, d, _)) = Message::parse(&bytes) else {
            panic!("no session")
        };
        assert_eq!((d.as4, d.add_path), (true, [false, false]));
    }

    #[test]
    fn an_open_that_the_router_has_no_more_is_not_needed() {
        for (sent, received, own) in [
            (open(1), bgp(1, &[]), Some(23_456)),
            (bgp(1, &[]), open(2), None),
        ] {
            let up = [peer(0, 0, 1), vec![0; 20], sent, received].concat();
            let bytes = message(3, &up);
            let Ok(Message::PeerUp(_, d, asn)) = Message::parse(&bytes) else {
                panic!("no session")
            };
            assert_eq!((d.as4, d.add_path, asn), (true, [false; 2], own));
        }
    }

    #[test]
    fn a_message_cut_anywhere_is_an_error() {
        let update = [peer(0, 0, 1), bgp(2, &[0, 0, 0, 0])].concat();
        let up = [peer(0, 0, 1), vec![0; 20], open(1), open(2)].concat();
        for (kind, body) in [(0, update), (3, up), (2, peer(0, 0, 1))] {
            let whole = message(kind, &body);
            assert!(Message::parse(&whole).is_ok());
            for n in 0..whole.len() {
                assert!(Message::parse(&whole[..n]).is_err(), "{kind}: {n}");
            }
        }
    }
}
