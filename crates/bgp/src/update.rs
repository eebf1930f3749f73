//! BGP messages and what an UPDATE changes (RFC 4271 section 4, RFC 4760, RFC 7606).

use crate::attributes::{Attributes, Place};
use crate::error::{BgpError, Result};
use crate::net::{Net, Nlri};
use crate::path::{PathAttributes, PathBuilder};
use crate::reader::Reader;

pub use crate::attributes::Dialect;
pub use crate::open::Open;

/// Bytes of a message's header: marker, length, type.
const HEADER: usize = 19;

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// OPEN.
    Open(Open),
    /// The body of an UPDATE, for [`Update::parse`].
    Update(&'a [u8]),
    /// Of another type, which says nothing of routes.
    Other(u8),
}

impl<'a> Message<'a> {
    /// Reads the message at the front of `bytes`, and what follows it.
    ///
    /// # Errors
    /// When it is not all there, or is none.
    pub fn parse(bytes: &'a [u8]) -> Result<(Message<'a>, &'a [u8])> {
        const WHAT: &str = "BGP message";
        let mut r = Reader(bytes);
        if r.array::<16>(WHAT)? != [0xFF; 16] {
            return Err(BgpError::Value {
                what: "marker of a BGP message",
                value: 0,
            });
        }
        let length = r.u16(WHAT)?;
        let kind = r.u8(WHAT)?;
        let Some(n) = usize::from(length).checked_sub(HEADER) else {
            return Err(BgpError::Value {
                what: "length of a BGP message",
                value: length.into(),
            });
        };
        let body = r.take(n, WHAT)?;
        let message = match kind {
            // FRR, where two connections collided and it kept no copy, tells of an OPEN without content.
            1 if body.is_empty() => Message::Other(kind),
            1 => Message::Open(Open::parse(body)?),
            2 => Message::Update(body),
            _ => Message::Other(kind),
        };
        Ok((message, r.0))
    }
}

/// A change of one route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// The route is there now, in place of what was under the same network and identifier.
    Announce(Net, u32, &'a PathAttributes),
    /// It is gone.
    Withdraw(Net, u32),
}

/// What an UPDATE message changes.
#[derive(Debug, Clone)]
pub struct Update<'a> {
    /// Networks gone, of both kinds of place.
    withdrawn: [Nlri<'a>; 2],
    announced: [(Nlri<'a>, Result<PathAttributes>); 2],
}

impl<'a> Update<'a> {
    /// Reads the body of a message.
    ///
    /// # Errors
    /// When it cannot be said which networks it is about.
    pub fn parse(body: &'a [u8], dialect: Dialect, b: &mut PathBuilder) -> Result<Update<'a>> {
        let mut r = Reader(body);
        let v4 = |bytes| Nlri::new(bytes, false, dialect.add_path[0]).checked();
        let withdrawn = v4(r.counted("withdrawn routes")?)?;
        let attributes = r.counted("path attributes")?;
        let announced = v4(r.0)?;
        let a = Attributes::parse(attributes, dialect, Place::Update)?;
        let (hop, reach) = a.reach.unwrap_or((None, Nlri::NONE));
        // Attributes are looked at only where there is a network to have them.
        let mut path = |nlri: &Nlri<'_>, hop| {
            if nlri.is_empty() {
                Err(BgpError::Missing("NLRI"))
            } else {
                a.path(hop, b)
            }
        };
        let paths = (path(&announced, None), path(&reach, hop));
        Ok(Update {
            withdrawn: [withdrawn, a.unreach.unwrap_or(Nlri::NONE)],
            announced: [(announced, paths.0), (reach, paths.1)],
        })
    }

    /// Whether it says that all routes were told (RFC 4724 section 2), of either family.
    pub fn is_end_of_rib(&self) -> bool {
        self.withdrawn.iter().all(Nlri::is_empty) && self.announced.iter().all(|a| a.0.is_empty())
    }

    /// Withdrawals first, then routes; routes with broken attributes are withdrawn (RFC 7606 section 2).
    pub fn changes(&self) -> impl Iterator<Item = Change<'_>> {
        let withdrawn = self
            .withdrawn
            .iter()
            .flat_map(Nlri::iter)
            .map(|(id, net)| Change::Withdraw(net, id));
        let announced = self.announced.iter().flat_map(|(nlri, path)| {
            nlri.iter().map(move |(id, net)| match path {
                Ok(p) => Change::Announce(net, id, p),
                Err(_) => Change::Withdraw(net, id),
            })
        });
        withdrawn.chain(announced)
    }

    /// What is wrong with the attributes, when routes are withdrawn for it.
    pub fn fault(&self) -> Option<BgpError> {
        let mut with_nets = self.announced.iter().filter(|a| !a.0.is_empty());
        with_nets.find_map(|a| a.1.as_ref().err().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AS4: Dialect = Dialect {
        as4: true,
        add_path: [false; 2],
    };

    /// RFC 4271's layout: one IPv4 network gone, two announced, one of IPv6 announced and one gone.
    #[rustfmt::skip]
    fn golden() -> Vec<u8> {
        let mut m = vec![0xFF; 16];
        m.extend([0, 0, 2,
            0, 3, 16, 10, 9,
            0, 62,
            0x40, 1, 1, 2,
            0x40, 2, 6, 2, 1, 0, 0, 0xFD, 0xE9,
            0x40, 3, 4, 192, 0, 2, 1,
            0x80, 14, 26, 0, 2, 1, 16]);
        m.extend([0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
        m.extend([0, 32, 0x20, 0x01, 0x0D, 0xB8,
            0x80, 15, 10, 0, 2, 1, 48, 0x20, 0x01, 0x0D, 0xB9, 0, 1,
            8, 20, 24, 198, 51, 100]);
        let n = m.len() as u16;
        m[16..18].copy_from_slice(&n.to_be_bytes());
        m
    }

    fn shown(u: &Update<'_>) -> Vec<String> {
        let show = |c| match c {
            Change::Announce(net, id, p) => format!("+{net} {id} {p} {}", p.next_hop.unwrap()),
            Change::Withdraw(net, id) => format!("-{net} {id}"),
        };
        u.changes().map(show).collect()
    }

    #[test]
    fn golden_update_of_both_families() {
        let bytes = golden();
        let (Message::Update(body), rest) = Message::parse(&bytes).unwrap() else {
            panic!("no update")
        };
        assert!(rest.is_empty());
        let u = Update::parse(body, AS4, &mut PathBuilder::default()).unwrap();
        let want = [
            "-10.9.0.0/16 0",
            "-2001:db9:1::/48 0",
            "+20.0.0.0/8 0 65001 192.0.2.1",
            "+198.51.100.0/24 0 65001 192.0.2.1",
            "+2001:db8::/32 0 65001 2001:db8::9",
        ];
        assert_eq!(shown(&u), want);
        assert!(!u.is_end_of_rib() && u.fault().is_none());
    }

    #[test]
    fn broken_attributes_withdraw_and_broken_networks_are_refused() {
        let mut bytes = golden();
        let at = 19 + 5 + 2 + 3;
        bytes[at] = 9;
        let (Message::Update(body), _) = Message::parse(&bytes).unwrap() else {
            panic!("no update")
        };
        let u = Update::parse(body, AS4, &mut PathBuilder::default()).unwrap();
        assert_eq!(u.fault().unwrap().to_string(), "ORIGIN cannot be 9");
        assert!(u.changes().all(|c| matches!(c, Change::Withdraw(..))));
        assert_eq!(u.changes().count(), 5);
        let end = bytes.len();
        bytes[end - 4] = 33;
        let (Message::Update(body), _) = Message::parse(&bytes).unwrap() else {
            panic!("no update")
        };
        assert!(Update::parse(body, AS4, &mut PathBuilder::default()).is_err());
    }

    #[test]
    fn the_end_of_a_table_is_known() {
        let parse = |b: &[u8]| {
            Update::parse(b, AS4, &mut PathBuilder::default())
                .unwrap()
                .is_end_of_rib()
        };
        assert!(parse(&[0, 0, 0, 0]));
        assert!(parse(&[0, 0, 0, 6, 0x80, 15, 3, 0, 2, 1]));
    }

    proptest! {
        #[test]
        fn nothing_read_is_out_of_range(body in proptest::collection::vec(any::<u8>(), 0..200), as4: bool, add: [bool; 2]) {
            let dialect = Dialect { as4, add_path: add };
            if let Ok(u) = Update::parse(&body, dialect, &mut PathBuilder::default()) {
                for c in u.changes() {
                    let (Change::Announce(net, ..) | Change::Withdraw(net, _)) = c;
                    let bits = if net.addr().is_ipv4() { 32 } else { 128 };
                    prop_assert!(net.len() <= bits);
                }
            }
        }

        #[test]
        fn a_changed_byte_does_no_harm(at in 0usize..120, to: u8) {
            let mut bytes = golden();
            let at = at % bytes.len();
            bytes[at] = to;
            if let Ok((Message::Update(body), _)) = Message::parse(&bytes)
                && let Ok(u) = Update::parse(body, AS4, &mut PathBuilder::default()) {
                // A network takes a byte at least.
                prop_assert!(u.changes().count() <= body.len());
            }
        }
    }
}
