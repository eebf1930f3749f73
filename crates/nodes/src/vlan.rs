//! VLAN tags (IEEE 802.1Q, 802.1ad): which sub-interface a frame belongs to, and changing the tags of a frame.
//!
//! A parent has one [`VlanDemux`]. The most specific sub-interface wins, in VPP's order: both tags, outer tag with
//! any inner one, outer tag alone; the same again for sub-interfaces of any outer tag; then the default one. A frame
//! tagged with VLAN 0 has a priority and no VLAN (IEEE 802.1Q section 3), so it counts as untagged.

use std::collections::HashMap;

use parshall_buffer::{BufferIndex, IF_NONE, Pool};
use parshall_counters::DropReason;

/// Type of a customer tag.
pub const DOT1Q: u16 = 0x8100;
/// Type of a service tag.
pub const DOT1AD: u16 = 0x88A8;
/// Bytes of the addresses in front of the tags.
const ADDRESSES: usize = 12;
/// The bits of a tag that name the VLAN.
const ID: u16 = 0x0FFF;

/// Whether an Ethernet type is that of a tag: the standards' two, and two that were in use before.
#[inline(always)]
pub fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, DOT1Q | DOT1AD | 0x9100 | 0x9200)
}

/// Up to two tags as they stand in a frame: type and identifier, the outermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    count: u8,
    words: [[u8; 4]; 2],
}

impl Tags {
    /// No tag.
    pub const NONE: Tags = Tags {
        count: 0,
        words: [[0; 4]; 2],
    };

    /// One tag.
    pub fn one(tpid: u16, id: u16) -> Tags {
        Tags {
            count: 1,
            words: [word(tpid, id), [0; 4]],
        }
    }
    /// Two tags; the inner one is a customer tag.
    pub fn two(tpid: u16, outer: u16, inner: u16) -> Tags {
        Tags {
            count: 2,
            words: [word(tpid, outer), word(DOT1Q, inner)],
        }
    }
    /// How many there are.
    pub fn count(&self) -> usize {
        usize::from(self.count).min(2)
    }
    /// The outermost `n` of them.
    pub fn outermost(&self, n: usize) -> Tags {
        Tags {
            count: self.count.min(n as u8),
            ..*self
        }
    }
    /// The bytes of each.
    pub fn words(&self) -> &[[u8; 4]] {
        &self.words[..self.count()]
    }
}

fn word(tpid: u16, id: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), (id & ID).to_be_bytes());
    [a, b, c, d]
}

/// A change of tags: so many are taken off, then these put on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagRewrite {
    /// Tags to take off.
    pub pop: u8,
    /// Tags to put on.
    pub push: Tags,
}

impl TagRewrite {
    /// Whether it changes nothing.
    pub fn is_nothing(&self) -> bool {
        self.pop == 0 && self.push.count == 0
    }

    /// What undoes it for frames that had `tags` (VPP's symmetric rewrite); `None` when it takes off more than those.
    pub fn inverse(&self, tags: &Tags) -> Option<TagRewrite> {
        (usize::from(self.pop) <= tags.count()).then(|| TagRewrite {
            pop: self.push.count,
            push: tags.outermost(usize::from(self.pop)),
        })
    }

    /// Changes the tags of packet `b`, whose current header is its Ethernet header.
    ///
    /// # Errors
    /// When it has fewer tags than are to be taken off, or no room in front.
    #[inline]
    pub fn apply(&self, pool: &mut Pool, b: BufferIndex) -> Result<(), DropReason> {
        let (pop, push) = (4 * usize::from(self.pop), 4 * self.push.count());
        let (m, room) = pool.parts_mut(b);
        let (at, len) = (usize::from(m.data), usize::from(m.len));
        if len < ADDRESSES + 2 + pop {
            return Err(DropReason::VlanTagMissing);
        }
        for k in (0..pop).step_by(4) {
            let t = at + ADDRESSES + k;
            if !is_tag(u16::from_be_bytes([room[t], room[t + 1]])) {
                return Err(DropReason::VlanTagMissing);
            }
        }
        let to = (at + pop).checked_sub(push);
        let to = to.ok_or(DropReason::NoHeadroom)?;
        room.copy_within(at..at + ADDRESSES, to);
        for (k, word) in self.push.words().iter().enumerate() {
            let t = to + ADDRESSES + 4 * k;
            room[t..t + 4].copy_from_slice(word);
        }
        m.data = to as u16;
        m.len = (len + push - pop) as u16;
        m.l2 = m.data;
        Ok(())
    }
}

/// A VLAN identifier in a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VlanId {
    /// Whatever it is.
    Any,
    /// This one.
    Is(u16),
}

/// Which frames of its parent a sub-interface takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VlanMatch {
    /// Tagged ones that no other takes.
    Default,
    /// Those without a VLAN.
    Untagged,
    /// Those with these tags.
    Tagged {
        /// The outer tag is a service tag (802.1ad), not a customer tag (802.1Q).
        dot1ad: bool,
        /// Outer VLAN.
        outer: VlanId,
        /// Inner VLAN, for those with two tags.
        inner: Option<VlanId>,
        /// There are no further tags.
        exact: bool,
    },
}

impl VlanMatch {
    /// The tags that all its frames begin with.
    pub fn tags(&self) -> Tags {
        let VlanMatch::Tagged {
            dot1ad,
            outer: VlanId::Is(outer),
            inner,
            ..
        } = *self
        else {
            return Tags::NONE;
        };
        let tpid = if dot1ad { DOT1AD } else { DOT1Q };
        match inner {
            Some(VlanId::Is(inner)) => Tags::two(tpid, outer, inner),
            _ => Tags::one(tpid, outer),
        }
    }
    /// Whether what its frames begin with is known to the last tag, so that answers can be given the same.
    pub fn is_exact(&self) -> bool {
        match *self {
            VlanMatch::Default => false,
            VlanMatch::Untagged => true,
            VlanMatch::Tagged {
                outer,
                inner,
                exact,
                ..
            } => exact && outer != VlanId::Any && inner != Some(VlanId::Any),
        }
    }
}

/// The tags of a frame as far as they matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameTags {
    /// Tags in front of the payload, three standing for any more.
    pub present: u8,
    /// Those that count: 0 for a frame with a priority only.
    pub count: u8,
    /// The outer one is a service tag.
    pub dot1ad: bool,
    /// Outer VLAN.
    pub outer: u16,
    /// Inner VLAN.
    pub inner: u16,
}

impl FrameTags {
    /// Tags of a frame that begins with these bytes and is `len` long. A tag that is cut short is none.
    #[inline(always)]
    pub fn of(head: &[u8; 24], len: u16) -> FrameTags {
        let at = |i: usize| u16::from_be_bytes([head[i], head[i + 1]]);
        let mut t = FrameTags::default();
        if !is_tag(at(12)) || len < 18 {
            return t;
        }
        t.present = 1;
        t.dot1ad = at(12) == DOT1AD;
        t.outer = at(14) & ID;
        if is_tag(at(16)) && len >= 22 {
            t.present = 2 + u8::from(is_tag(at(20)));
            t.inner = at(18) & ID;
        }
        t.count = if t.outer == 0 { 0 } else { t.present };
        t
    }
}

/// Set in a leaf whose sub-interface wants no further tags.
const EXACT: u32 = 1 << 31;

/// Sub-interfaces of one outer VLAN.
#[derive(Clone, Debug)]
struct Outer {
    single: u32,
    inner_any: u32,
    /// By inner VLAN, sorted.
    inner: Vec<(u16, u32)>,
}

impl Default for Outer {
    fn default() -> Self {
        Outer {
            single: IF_NONE,
            inner_any: IF_NONE,
            inner: Vec::new(),
        }
    }
}

/// The interface of a leaf that fits a frame with so many tags, the leaf being of `wants` tags.
#[inline(always)]
fn fits(leaf: u32, count: u8, wants: u8) -> Option<u32> {
    (leaf != IF_NONE && (count == wants || leaf & EXACT == 0)).then_some(leaf & !EXACT)
}

impl Outer {
    #[inline]
    fn find(&self, t: &FrameTags) -> Option<u32> {
        if t.count >= 2 {
            if let Ok(at) = self.inner.binary_search_by_key(&t.inner, |e| e.0)
                && let Some(found) = fits(self.inner[at].1, t.count, 2)
            {
                return Some(found);
            }
            if let Some(found) = fits(self.inner_any, t.count, 2) {
                return Some(found);
            }
        }
        fits(self.single, t.count, 1)
    }

    fn add(&mut self, inner: Option<VlanId>, leaf: u32) {
        match inner {
            None => self.single = leaf,
            Some(VlanId::Any) => self.inner_any = leaf,
            Some(VlanId::Is(id)) => match self.inner.binary_search_by_key(&id, |e| e.0) {
                Ok(at) => self.inner[at].1 = leaf,
                Err(at) => self.inner.insert(at, (id, leaf)),
            },
        }
    }
}

/// Sub-interfaces of a parent whose outer tag is of one type.
#[derive(Clone, Debug, Default)]
struct Outers {
    /// By VLAN: place in `found`, and one; 0 = none.
    place: Vec<u16>,
    found: Vec<Outer>,
    any: Outer,
}

impl Outers {
    #[inline]
    fn find(&self, t: &FrameTags) -> Option<u32> {
        let place = self.place.get(usize::from(t.outer)).copied().unwrap_or(0);
        usize::from(place)
            .checked_sub(1)
            .and_then(|at| self.found.get(at)?.find(t))
            .or_else(|| self.any.find(t))
    }

    fn add(&mut self, outer: VlanId, inner: Option<VlanId>, leaf: u32) {
        let VlanId::Is(id) = outer else {
            return self.any.add(inner, leaf);
        };
        self.place.resize(usize::from(ID) + 1, 0);
        let place = &mut self.place[usize::from(id & ID)];
        if *place == 0 {
            self.found.push(Outer::default());
            *place = self.found.len() as u16;
        }
        self.found[usize::from(*place) - 1].add(inner, leaf);
    }
}

/// Which sub-interface of a parent takes a frame.
#[derive(Clone, Debug)]
pub struct VlanDemux {
    /// Customer tags and service tags.
    outers: [Outers; 2],
    default: u32,
    untagged: u32,
}

impl VlanDemux {
    /// Over these sub-interfaces. No two take the same frames; if they do, the later one counts.
    pub fn new(subs: impl IntoIterator<Item = (VlanMatch, u32)>) -> VlanDemux {
        let mut d = VlanDemux {
            outers: [Outers::default(), Outers::default()],
            default: IF_NONE,
            untagged: IF_NONE,
        };
        for (m, index) in subs {
            match m {
                VlanMatch::Default => d.default = index,
                VlanMatch::Untagged => d.untagged = index,
                VlanMatch::Tagged {
                    dot1ad,
                    outer,
                    inner,
                    exact,
                } => {
                    let leaf = if exact { index | EXACT } else { index };
                    d.outers[usize::from(dot1ad)].add(outer, inner, leaf);
                }
            }
        }
        d
    }

    /// The sub-interface that takes a frame with these tags.
    #[inline]
    pub fn find(&self, t: &FrameTags) -> Option<u32> {
        let some = |index: u32| (index != IF_NONE).then_some(index);
        if t.count == 0 {
            return some(self.untagged);
        }
        self.outers[usize::from(t.dot1ad)]
            .find(t)
            .or_else(|| some(self.default))
    }
}

/// What an interface has to do with tags.
#[derive(Clone, Debug)]
pub struct VlanView {
    /// Its sub-interfaces, when it has some.
    pub demux: Option<VlanDemux>,
    /// The interface it is a sub-interface of, [`IF_NONE`] = none.
    pub parent: u32,
    /// Tags of what is routed out of it.
    pub tags: Tags,
    /// Change of the tags of what comes in, where it is not routed.
    pub rewrite_in: TagRewrite,
    /// Change of the tags of what goes out, where it is not routed.
    pub rewrite_out: TagRewrite,
}

impl VlanView {
    /// Nothing at all.
    pub const NONE: VlanView = VlanView {
        demux: None,
        parent: IF_NONE,
        tags: Tags::NONE,
        rewrite_in: TagRewrite {
            pop: 0,
            push: Tags::NONE,
        },
        rewrite_out: TagRewrite {
            pop: 0,
            push: Tags::NONE,
        },
    };
}

/// By interface, for those that have to do with tags.
pub type VlanViews = HashMap<u32, VlanView>;
