//! What a route says of the way to its prefix, in a form that is small to keep and quick to compare.

use core::cmp::Ordering;
use core::fmt;
use core::net::IpAddr;

use crate::error::{BgpError, Result};

/// How the prefix came into BGP (RFC 4271 section 5.1.1). The lower is preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Origin {
    /// By the AS's own routing.
    Igp,
    /// By EGP.
    Egp,
    /// By other means.
    #[default]
    Incomplete,
}

/// Kind of a segment of an AS path, by its number in messages and in sFlow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// ASes in any order.
    Set = 1,
    /// ASes one behind the other.
    Sequence = 2,
}

/// The attributes of a route: next hop, preference, AS path and communities.
///
/// AS path and communities lie in one piece of memory, since tables hold hundreds of thousands of these.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PathAttributes {
    /// The border router to go to; `None` where the source does not say.
    pub next_hop: Option<IpAddr>,
    /// LOCAL_PREF, where there is one.
    pub local_pref: Option<u32>,
    /// MULTI_EXIT_DISC, where there is one.
    pub med: Option<u32>,
    /// ORIGIN.
    pub origin: Origin,
    /// Words of `words` that are the path; the rest are communities.
    pub(crate) path_words: u16,
    /// Segments (kind in the upper half, number of ASes in the lower, then the ASes), then communities.
    pub(crate) words: Box<[u32]>,
}

impl PathAttributes {
    /// Most ASes kept of a path. The longest ones seen on the Internet have some hundreds, by mistake.
    pub const MAX_ASES: usize = 1024;
    /// Most communities kept of a route.
    pub const MAX_COMMUNITIES: usize = 1024;

    /// The segments of the AS path, without those of confederations.
    pub fn segments(&self) -> impl Iterator<Item = (SegmentKind, &[u32])> {
        let mut rest = self
            .words
            .get(..usize::from(self.path_words))
            .unwrap_or(&[]);
        core::iter::from_fn(move || {
            let (&head, tail) = rest.split_first()?;
            let (ases, after) = tail.split_at_checked((head & 0xFFFF) as usize)?;
            rest = after;
            let kind = if head >> 16 == SegmentKind::Set as u32 {
                SegmentKind::Set
            } else {
                SegmentKind::Sequence
            };
            Some((kind, ases))
        })
    }

    /// The communities (RFC 1997), each a word.
    pub fn communities(&self) -> &[u32] {
        self.words
            .get(usize::from(self.path_words)..)
            .unwrap_or(&[])
    }

    /// The AS that the prefix belongs to: the last one of the path. `None` when the path is empty, which says that
    /// it is the AS of whoever tells.
    pub fn origin_as(&self) -> Option<u32> {
        let (_, ases) = self.segments().last()?;
        ases.last().copied()
    }

    /// The neighbouring AS on the way: the first one of the path.
    pub fn neighbor_as(&self) -> Option<u32> {
        let (_, ases) = self.segments().next()?;
        ases.first().copied()
    }

    /// The same without the first AS, when that is `asn`; `None` when it is another one.
    pub fn without_leading(&self, asn: u32) -> Option<PathAttributes> {
        let (SegmentKind::Sequence, [first, rest @ ..]) = self.segments().next()? else {
            return None;
        };
        if *first != asn {
            return None;
        }
        let mut words = Vec::with_capacity(self.words.len());
        if !rest.is_empty() {
            words.push((SegmentKind::Sequence as u32) << 16 | rest.len() as u32);
            words.extend_from_slice(rest);
        }
        let taken = 2 + rest.len() - words.len();
        words.extend_from_slice(self.words.get(2 + rest.len()..).unwrap_or(&[]));
        Some(PathAttributes {
            path_words: self.path_words - taken as u16,
            words: words.into(),
            ..*self
        })
    }

    /// Length of the path as paths are compared by: a set counts as one (RFC 4271 section 9.1.2.2).
    pub fn path_length(&self) -> usize {
        self.segments()
            .map(|(kind, ases)| match kind {
                SegmentKind::Set => 1,
                SegmentKind::Sequence => ases.len(),
            })
            .sum()
    }

    /// `Less` when this is the better of two paths to one prefix: by local preference, length of the path, origin
    /// and, between paths by the same neighbouring AS, MED (RFC 4271 section 9.1.2). What is decided there by the
    /// router's own IGP and sessions is left equal.
    pub fn compare(&self, other: &PathAttributes) -> Ordering {
        // The customary default, for sources outside an AS that carry none.
        let preference = |p: &PathAttributes| p.local_pref.unwrap_or(100);
        let med = || {
            if self.neighbor_as() == other.neighbor_as() {
                self.med.unwrap_or(0).cmp(&other.med.unwrap_or(0))
            } else {
                Ordering::Equal
            }
        };
        preference(other)
            .cmp(&preference(self))
            .then_with(|| self.path_length().cmp(&other.path_length()))
            .then_with(|| self.origin.cmp(&other.origin))
            .then_with(med)
    }

    /// Bytes that this takes.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.words)
    }
}

/// An AS path as it is usually written: ASes with blanks between, sets in braces.
impl fmt::Display for PathAttributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (kind, ases)) in self.segments().enumerate() {
            let blank = if i == 0 { "" } else { " " };
            let (open, between, close) = match kind {
                SegmentKind::Set => ("{", ",", "}"),
                SegmentKind::Sequence => ("", " ", ""),
            };
            write!(f, "{blank}{open}")?;
            for (k, asn) in ases.iter().enumerate() {
                write!(f, "{}{asn}", if k == 0 { "" } else { between })?;
            }
            f.write_str(close)?;
        }
        Ok(())
    }
}

/// Collects the words of a [`PathAttributes`]; one serves for any number of routes.
#[derive(Debug, Default)]
pub struct PathBuilder {
    path: Vec<u32>,
    communities: Vec<u32>,
    ases: usize,
}

impl PathBuilder {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.path.clear();
        self.communities.clear();
        self.ases = 0;
    }

    /// Adds a segment; an empty one says nothing and is left out.
    ///
    /// # Errors
    /// When the path gets longer than is kept.
    pub fn segment(&mut self, kind: SegmentKind, ases: impl Iterator<Item = u32>) -> Result<()> {
        let head = self.path.len();
        self.path.push(0);
        self.path.extend(ases);
        let n = self.path.len() - head - 1;
        self.ases += n;
        if n == 0 {
            self.path.truncate(head);
        } else if self.ases > PathAttributes::MAX_ASES {
            return Err(BgpError::Limit {
                what: "ASes in a path",
                count: self.ases,
                limit: PathAttributes::MAX_ASES,
            });
        } else if let Some(word) = self.path.get_mut(head) {
            *word = (kind as u32) << 16 | n as u32;
        }
        Ok(())
    }

    /// Adds communities.
    ///
    /// # Errors
    /// When there are more than are kept.
    pub fn communities(&mut self, words: impl Iterator<Item = u32>) -> Result<()> {
        self.communities.extend(words);
        let count = self.communities.len();
        if count > PathAttributes::MAX_COMMUNITIES {
            return Err(BgpError::Limit {
                what: "communities of a route",
                count,
                limit: PathAttributes::MAX_COMMUNITIES,
            });
        }
        Ok(())
    }

    /// What was collected, as attributes without next hop, preference and origin.
    pub fn build(&mut self) -> PathAttributes {
        let path_words = self.path.len();
        self.path.append(&mut self.communities);
        let built = PathAttributes {
            // A segment has at least one AS, so that the words are at most twice the limit.
            path_words: u16::try_from(path_words).unwrap_or(0),
            words: self.path.as_slice().into(),
            ..PathAttributes::default()
        };
        self.clear();
        built
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(segments: &[(SegmentKind, &[u32])], communities: &[u32]) -> PathAttributes {
        let mut b = PathBuilder::default();
        for (kind, ases) in segments {
            b.segment(*kind, ases.iter().copied()).unwrap();
        }
        b.communities(communities.iter().copied()).unwrap();
        b.build()
    }

    use SegmentKind::{Sequence, Set};

    #[test]
    fn segments_and_communities_come_back() {
        let segments: [(SegmentKind, &[u32]); 2] =
            [(Sequence, &[65_001, 4_200_000_000]), (Set, &[3, 2])];
        let p = path(&segments, &[1 << 16 | 2]);
        assert_eq!(p.segments().collect::<Vec<_>>(), segments);
        assert_eq!(p.communities(), [65_538]);
        assert_eq!((p.origin_as(), p.neighbor_as()), (Some(2), Some(65_001)));
        assert_eq!(p.path_length(), 3);
        assert_eq!(p.to_string(), "65001 4200000000 {3,2}");
        let none = path(&[(Sequence, &[])], &[]);
        assert_eq!(
            (none.origin_as(), none.neighbor_as(), none.path_length()),
            (None, None, 0)
        );
    }

    #[test]
    fn the_first_as_can_be_taken_off() {
        let p = path(&[(Sequence, &[7, 7, 8]), (Set, &[9])], &[5]);
        let q = p.without_leading(7).unwrap();
        assert_eq!(q, path(&[(Sequence, &[7, 8]), (Set, &[9])], &[5]));
        let last = path(&[(Sequence, &[7]), (Set, &[9])], &[5]);
        assert_eq!(last.without_leading(7).unwrap(), path(&[(Set, &[9])], &[5]));
        assert_eq!(p.without_leading(8), None);
        assert_eq!(path(&[(Set, &[7])], &[]).without_leading(7), None);
        assert_eq!(path(&[], &[7]).without_leading(7), None);
    }

    #[test]
    fn too_long_a_path_is_refused() {
        let mut b = PathBuilder::default();
        b.segment(Sequence, 0..1024).unwrap();
        let e = b.segment(Set, 0..1).unwrap_err();
        assert_eq!(
            e.to_string(),
            "ASes in a path: 1025 are over the limit of 1024"
        );
        b.clear();
        assert!(b.communities(0..1025).is_err());
        b.clear();
        b.segment(Set, std::iter::once(1)).unwrap();
        assert_eq!(b.build(), path(&[(Set, &[1])], &[]));
    }

    #[test]
    fn the_better_path_is_found_as_the_rfc_says() {
        let base = path(&[(Sequence, &[1, 2])], &[]);
        let with = |change: fn(&mut PathAttributes)| {
            let mut p = base.clone();
            change(&mut p);
            p
        };
        let preferred = PathAttributes {
            local_pref: Some(200),
            ..path(&[(Sequence, &[1, 2, 3, 4])], &[])
        };
        let set = path(&[(Sequence, &[1]), (Set, &[5, 6, 7])], &[]);
        let order = [
            (&preferred, &base, Ordering::Less),
            (&with(|p| p.local_pref = Some(100)), &base, Ordering::Equal),
            (
                &path(&[(Sequence, &[1, 2, 2])], &[]),
                &base,
                Ordering::Greater,
            ),
            (&set, &base, Ordering::Equal),
            (&with(|p| p.origin = Origin::Igp), &base, Ordering::Less),
            (&with(|p| p.med = Some(5)), &base, Ordering::Greater),
        ];
        for (a, b, want) in order {
            assert_eq!(a.compare(b), want, "{a:?} {b:?}");
            assert_eq!(b.compare(a), want.reverse());
        }
        // MED is between neighbours of one AS only.
        let other = PathAttributes {
            med: Some(9),
            ..path(&[(Sequence, &[7, 2])], &[])
        };
        assert_eq!(other.compare(&base), Ordering::Equal);
    }
}
