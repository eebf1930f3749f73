//! Path attributes as they lie in messages and dumps (RFC 4271 section 4.3, RFC 4760, RFC 6793, RFC 1997).
//!
//! What is wrong with an attribute does not end a session but withdraws the routes that carry it (RFC 7606): the first
//! fault is kept beside what could be read. Only networks that cannot be told apart any more are an error.

use core::net::IpAddr;

use crate::error::{BgpError, Result};
use crate::net::Nlri;
use crate::path::{Origin, PathAttributes, PathBuilder, SegmentKind};
use crate::reader::Reader;

const ORIGIN: u8 = 1;
const AS_PATH: u8 = 2;
const NEXT_HOP: u8 = 3;
const MULTI_EXIT_DISC: u8 = 4;
const LOCAL_PREF: u8 = 5;
const COMMUNITIES: u8 = 8;
const MP_REACH_NLRI: u8 = 14;
const MP_UNREACH_NLRI: u8 = 15;
const AS4_PATH: u8 = 17;

/// Attribute flag: the length has two bytes.
const EXTENDED_LENGTH: u8 = 0x10;
const AFI_IP4: u16 = 1;
const AFI_IP6: u16 = 2;
const SAFI_UNICAST: u8 = 1;

/// How a message is to be read, as its two ends have agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dialect {
    /// AS paths have four bytes an AS (RFC 6793).
    pub as4: bool,
    /// Networks of IPv4, and of IPv6, have path identifiers (RFC 7911).
    pub add_path: [bool; 2],
}

/// Where attributes stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In an UPDATE message.
    Update,
    /// In a table dump, where MP_REACH_NLRI is but a next hop (RFC 6396 section 4.3.4).
    Dump,
}

/// The attributes of a message, most of them still as bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attributes<'a> {
    dialect: Dialect,
    origin: Option<Origin>,
    as_path: Option<&'a [u8]>,
    as4_path: Option<&'a [u8]>,
    next_hop: Option<IpAddr>,
    med: Option<u32>,
    local_pref: Option<u32>,
    communities: &'a [u8],
    /// Next hop and networks of MP_REACH_NLRI.
    pub reach: Option<(Option<IpAddr>, Nlri<'a>)>,
    /// Networks of MP_UNREACH_NLRI.
    pub unreach: Option<Nlri<'a>>,
    /// The first thing found wrong.
    pub fault: Option<BgpError>,
}

impl<'a> Attributes<'a> {
    /// Reads a list of attributes.
    ///
    /// # Errors
    /// When the networks in it cannot be read.
    pub fn parse(bytes: &'a [u8], dialect: Dialect, place: Place) -> Result<Attributes<'a>> {
        let mut all = Attributes {
            dialect,
            ..Attributes::default()
        };
        let (mut r, mut seen) = (Reader(bytes), [false; 256]);
        while !r.0.is_empty() {
            let (kind, value) = match attribute(&mut r) {
                Ok(a) => a,
                Err(e) => {
                    // Where the next one begins is not known.
                    all.fault.get_or_insert(e);
                    break;
                }
            };
            let again = core::mem::replace(&mut seen[usize::from(kind)], true);
            match kind {
                MP_REACH_NLRI | MP_UNREACH_NLRI if again => {
                    return Err(BgpError::Value {
                        what: "attribute that stands twice",
                        value: kind.into(),
                    });
                }
                // The first one counts (RFC 7606 section 3 g).
                _ if again => {}
                MP_REACH_NLRI => all.reach = reach(value, dialect, place)?,
                MP_UNREACH_NLRI => all.unreach = unreach(value, dialect)?,
                _ => {
                    if let Err(e) = all.take(kind, value) {
                        all.fault.get_or_insert(e);
                    }
                }
            }
        }
        Ok(all)
    }

    fn take(&mut self, kind: u8, value: &'a [u8]) -> Result<()> {
        let word = |what| {
            let mut r = Reader(value);
            let word = r.u32(what)?;
            ended(&r, what).map(|()| word)
        };
        match kind {
            ORIGIN => {
                self.origin = Some(match value {
                    [0] => Origin::Igp,
                    [1] => Origin::Egp,
                    [2] => Origin::Incomplete,
                    _ => {
                        return Err(BgpError::Value {
                            what: "ORIGIN",
                            value: value.first().copied().unwrap_or(0).into(),
                        });
                    }
                });
            }
            AS_PATH => self.as_path = Some(value),
            AS4_PATH => self.as4_path = Some(value),
            NEXT_HOP => {
                let mut r = Reader(value);
                self.next_hop = Some(r.ip(false, "NEXT_HOP")?);
                ended(&r, "NEXT_HOP")?;
            }
            MULTI_EXIT_DISC => self.med = Some(word("MULTI_EXIT_DISC")?),
            LOCAL_PREF => self.local_pref = Some(word("LOCAL_PREF")?),
            COMMUNITIES => {
                if !value.len().is_multiple_of(4) {
                    return Err(BgpError::Value {
                        what: "length of COMMUNITIES",
                        value: value.len() as u32,
                    });
                }
                self.communities = value;
            }
            _ => {}
        }
        Ok(())
    }

    /// What is kept of them, with `next_hop` where the networks have one of their own.
    ///
    /// # Errors
    /// When something is wrong with an attribute, or one that must be there is missing.
    pub fn path(&self, next_hop: Option<IpAddr>, b: &mut PathBuilder) -> Result<PathAttributes> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let as_path = self.as_path.ok_or(BgpError::Missing("AS_PATH"))?;
        b.clear();
        self.build_path(as_path, b)?;
        b.communities(
            self.communities
                .chunks_exact(4)
                .filter_map(|c| c.first_chunk().copied().map(u32::from_be_bytes)),
        )?;
        let mut path = b.build();
        path.next_hop = next_hop.or(self.next_hop);
        path.local_pref = self.local_pref;
        path.med = self.med;
        path.origin = self.origin.ok_or(BgpError::Missing("ORIGIN"))?;
        Ok(path)
    }

    /// The AS path; where an old speaker stood in between, put together from both of its forms (RFC 6793 section
    /// 4.2.3): the leading ASes of the short one that are not in the long one, then the long one.
    fn build_path(&self, as_path: &[u8], b: &mut PathBuilder) -> Result<()> {
        let short = Segments::new(as_path, self.dialect.as4);
        let long = self.as4_path.filter(|_| !self.dialect.as4);
        let Some(long) = long.map(|p| Segments::new(p, true)) else {
            return short.into_builder(usize::MAX, b);
        };
        // A long form that cannot be read is ignored (RFC 6793 section 6).
        match (short.length()?, long.length()) {
            (n, Ok(m)) if m <= n => {
                short.into_builder(n - m, b)?;
                long.into_builder(usize::MAX, b)
            }
            _ => short.into_builder(usize::MAX, b),
        }
    }
}

fn ended(r: &Reader<'_>, what: &'static str) -> Result<()> {
    if r.0.is_empty() {
        return Ok(());
    }
    Err(BgpError::Value {
        what,
        value: r.0.len() as u32,
    })
}

fn attribute<'a>(r: &mut Reader<'a>) -> Result<(u8, &'a [u8])> {
    const WHAT: &str = "path attribute";
    let [flags, kind] = r.array(WHAT)?;
    let n = if flags & EXTENDED_LENGTH != 0 {
        usize::from(r.u16(WHAT)?)
    } else {
        usize::from(r.u8(WHAT)?)
    };
    r.take(n, WHAT).map(|value| (kind, value))
}

/// Whether networks are of IPv6; `None` for anything but unicast of the two families.
fn family(r: &mut Reader<'_>, what: &'static str) -> Result<Option<bool>> {
    let (afi, safi) = (r.u16(what)?, r.u8(what)?);
    Ok(match (afi, safi) {
        (AFI_IP4, SAFI_UNICAST) => Some(false),
        (AFI_IP6, SAFI_UNICAST) => Some(true),
        _ => None,
    })
}

fn reach(
    value: &[u8],
    dialect: Dialect,
    place: Place,
) -> Result<Option<(Option<IpAddr>, Nlri<'_>)>> {
    const WHAT: &str = "MP_REACH_NLRI";
    let mut r = Reader(value);
    // Some dumps hold the whole attribute all the same; a next hop's length is never 0.
    if place == Place::Dump && value.first() != Some(&0) {
        let n = r.u8(WHAT)?;
        let hop = next_hop(r.take(n.into(), WHAT)?);
        return Ok(Some((hop, Nlri::NONE)));
    }
    let Some(v6) = family(&mut r, WHAT)? else {
        return Ok(None);
    };
    let n = r.u8(WHAT)?;
    let hop = next_hop(r.take(n.into(), WHAT)?);
    r.u8(WHAT)?;
    let nlri = Nlri::new(r.0, v6, dialect.add_path[usize::from(v6)]).checked()?;
    Ok(Some((hop, nlri)))
}

fn unreach(value: &[u8], dialect: Dialect) -> Result<Option<Nlri<'_>>> {
    let mut r = Reader(value);
    let Some(v6) = family(&mut r, "MP_UNREACH_NLRI")? else {
        return Ok(None);
    };
    let nlri = Nlri::new(r.0, v6, dialect.add_path[usize::from(v6)]).checked()?;
    Ok(Some(nlri))
}

/// The first address: a second one, link-local, may follow that of IPv6 (RFC 2545 section 3).
fn next_hop(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Reader(bytes).ip(false, "").ok(),
        16 | 32 => Reader(bytes).ip(true, "").ok(),
        _ => None,
    }
}

/// The segments of an AS path as bytes.
#[derive(Clone, Copy)]
struct Segments<'a> {
    bytes: &'a [u8],
    as4: bool,
}

impl<'a> Segments<'a> {
    fn new(bytes: &'a [u8], as4: bool) -> Segments<'a> {
        Segments { bytes, as4 }
    }

    /// Kind and ASes of the next one; confederation segments have none here (RFC 5065: they never leave one).
    fn next(&self, r: &mut Reader<'a>) -> Result<(SegmentKind, &'a [u8])> {
        const WHAT: &str = "AS_PATH segment";
        let [kind, n] = r.array(WHAT)?;
        let width = if self.as4 { 4 } else { 2 };
        let ases = r.take(usize::from(n) * width, WHAT)?;
        match kind {
            1 => Ok((SegmentKind::Set, ases)),
            2 => Ok((SegmentKind::Sequence, ases)),
            3 | 4 => Ok((SegmentKind::Sequence, &[])),
            _ => Err(BgpError::Value {
                what: WHAT,
                value: kind.into(),
            }),
        }
    }

    fn ases(&self, bytes: &'a [u8]) -> impl Iterator<Item = u32> + use<'a> {
        let (as4, mut r) = (self.as4, Reader(bytes));
        core::iter::from_fn(move || r.asn(as4, "").ok())
    }

    /// Length of the path, a set counting as one.
    fn length(&self) -> Result<usize> {
        let (mut r, mut n) = (Reader(self.bytes), 0);
        while !r.0.is_empty() {
            let (kind, ases) = self.next(&mut r)?;
            n += match kind {
                SegmentKind::Set => 1,
                SegmentKind::Sequence => self.ases(ases).count(),
            };
        }
        Ok(n)
    }

    /// Adds the first `most` ASes.
    fn into_builder(self, mut most: usize, b: &mut PathBuilder) -> Result<()> {
        let mut r = Reader(self.bytes);
        while !r.0.is_empty() {
            let (kind, ases) = self.next(&mut r)?;
            match kind {
                _ if most == 0 => {}
                SegmentKind::Set => {
                    b.segment(kind, self.ases(ases))?;
                    most -= 1;
                }
                SegmentKind::Sequence => {
                    let n = self.ases(ases).count().min(most);
                    b.segment(kind, self.ases(ases).take(n))?;
                    most -= n;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(bytes: &[u8], as4: bool) -> Result<PathAttributes> {
        let dialect = Dialect {
            as4,
            ..Dialect::default()
        };
        Attributes::parse(bytes, dialect, Place::Update)?.path(None, &mut PathBuilder::default())
    }

    #[rustfmt::skip]
    const GOLDEN: &[u8] = &[
        0x40, 1, 1, 0,
        0x40, 2, 10, 2, 2, 0, 0, 0xFD, 0xE9, 0xFA, 0x56, 0xEA, 0x00,
        0x40, 3, 4, 192, 0, 2, 1,
        0x80, 4, 4, 0, 0, 0, 5,
        0x40, 5, 4, 0, 0, 0, 200,
        0xD0, 8, 0, 8, 0xFD, 0xE9, 0, 100, 0xFF, 0xFF, 0xFF, 0x01,
    ];

    #[test]
    fn golden_attributes() {
        let p = path(GOLDEN, true).unwrap();
        assert_eq!(p.to_string(), "65001 4200000000");
        assert_eq!(p.next_hop, Some("192.0.2.1".parse().unwrap()));
        assert_eq!(
            (p.med, p.local_pref, p.origin),
            (Some(5), Some(200), Origin::Igp)
        );
        assert_eq!(p.communities(), [65_001 << 16 | 100, 0xFFFF_FF01]);
    }

    #[test]
    fn every_cut_is_a_fault_or_a_missing_attribute() {
        for n in 0..GOLDEN.len() {
            let got = path(&GOLDEN[..n], true);
            // After AS_PATH the attributes that follow are optional, but only a cut between two is whole.
            let between = [17, 24, 31, 38];
            assert_eq!(got.is_ok(), between.contains(&n), "{n}: {got:?}");
        }
    }

    #[test]
    fn both_forms_of_a_path_are_put_together() {
        let both = |short: &[u8], long: &[u8]| {
            let mut a = vec![0x40, 1, 1, 0, 0x40, 2, short.len() as u8];
            a.extend(short);
            a.extend([0xC0, 17, long.len() as u8]);
            a.extend(long);
            path(&a, false).unwrap().to_string()
        };
        // AS_TRANS (23456) stands for what does not fit.
        let short = [2, 3, 0, 1, 0x5B, 0xA0, 0x5B, 0xA0];
        let long = [2, 2, 0, 1, 0, 0, 0, 2, 0, 0];
        assert_eq!(both(&short, &long), "1 65536 131072");
        // A long form that is longer, or broken, is none.
        let longer = [2, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3];
        assert_eq!(both(&[2, 2, 0, 1, 0x5B, 0xA0], &longer), "1 23456");
        assert_eq!(both(&short, &[2, 9, 0]), "1 23456 23456");
    }

    #[test]
    fn sets_count_once_and_confederations_not_at_all() {
        let bytes = [
            0x40, 1, 1, 0, 0x40, 2, 20, 3, 1, 0, 9, 2, 1, 0, 1, 1, 2, 0, 5, 0, 6, 4, 2, 0, 7, 0, 8,
        ];
        let p = path(&bytes[..], false);
        let p = p.unwrap();
        assert_eq!((p.to_string().as_str(), p.path_length()), ("1 {5,6}", 2));
    }

    #[test]
    fn faults_name_the_attribute() {
        let wrong = |bytes: &[u8]| path(bytes, true).unwrap_err().to_string();
        assert_eq!(wrong(&[0x40, 1, 1, 0]), "the AS_PATH attribute is missing");
        assert_eq!(wrong(&[0x40, 2, 0]), "the ORIGIN attribute is missing");
        assert_eq!(wrong(&[0x40, 1, 1, 3]), "ORIGIN cannot be 3");
        assert_eq!(wrong(&[0x40, 3, 5, 1, 2, 3, 4, 5]), "NEXT_HOP cannot be 1");
        assert_eq!(
            wrong(&[0xC0, 8, 3, 0, 0, 0]),
            "length of COMMUNITIES cannot be 3"
        );
        assert_eq!(
            wrong(&[0x40, 1, 1, 0, 0x40, 2, 2, 5, 0]),
            "AS_PATH segment cannot be 5"
        );
        // The first of two counts.
        let twice = [
            0x40, 1, 1, 0, 0x40, 2, 0, 0x40, 5, 4, 0, 0, 0, 1, 0x40, 5, 4, 0, 0, 0, 2,
        ];
        assert_eq!(path(&twice, true).unwrap().local_pref, Some(1));
    }

    #[test]
    fn next_hops_of_both_families() {
        fn reach(v: &[u8], place: Place) -> Result<Option<(Option<IpAddr>, Nlri<'_>)>> {
            super::reach(v, Dialect::default(), place)
        }
        let mut whole = vec![0, 2, 1, 32];
        whole.extend([0x20; 16]);
        whole.extend([0xFE; 16]);
        whole.extend([0, 16, 0x20, 0x01]);
        let hop: IpAddr = "2020:2020:2020:2020:2020:2020:2020:2020".parse().unwrap();
        for place in [Place::Update, Place::Dump] {
            let (h, nlri) = reach(&whole, place).unwrap().unwrap();
            assert_eq!(h, Some(hop));
            assert_eq!(nlri.iter().next().unwrap().1.to_string(), "2001::/16");
        }
        assert!(reach(&whole[3..20], Place::Dump).is_err());
        let mut short = vec![16];
        short.extend([0x20; 16]);
        assert_eq!(reach(&short, Place::Dump).unwrap().unwrap().0, Some(hop));
        // Families that are not looked at.
        assert_eq!(reach(&[0, 25, 70, 0, 0], Place::Update).unwrap(), None);
    }
}
