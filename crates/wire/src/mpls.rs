//! MPLS label stack entries (RFC 3032 section 2; traffic class per RFC 5462).

use crate::field::{put_u32, u32_at};
use crate::view::view;
use crate::{Result, WireError};

/// How deep a [`Stack`] walk goes before it gives up: the deepest stack a router here imposes or
/// reads, and a bound on what a hostile packet can cost.
pub const MAX_LABELS: usize = 16;

/// A label of 20 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(u32);

impl Label {
    /// IPv4 explicit null.
    pub const IPV4_EXPLICIT_NULL: Label = Label(0);
    /// Router alert.
    pub const ROUTER_ALERT: Label = Label(1);
    /// IPv6 explicit null.
    pub const IPV6_EXPLICIT_NULL: Label = Label(2);
    /// Implicit null: signalled, never seen in a packet.
    pub const IMPLICIT_NULL: Label = Label(3);
    /// Generic associated channel (RFC 5586).
    pub const GAL: Label = Label(13);
    /// The first label that is not reserved (RFC 7274).
    pub const FIRST_UNRESERVED: Label = Label(16);

    /// A label, or `None` over 20 bits.
    #[inline]
    pub const fn new(label: u32) -> Option<Label> {
        if label < 1 << 20 {
            Some(Label(label))
        } else {
            None
        }
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Whether the label has a meaning of its own (0 to 15).
    #[inline]
    pub const fn is_reserved(self) -> bool {
        self.0 < Self::FIRST_UNRESERVED.0
    }
}

impl core::fmt::Display for Label {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

/// A traffic class of 3 bits, once "EXP".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TrafficClass(u8);

impl TrafficClass {
    /// A class, or `None` above 7.
    #[inline]
    pub const fn new(class: u8) -> Option<TrafficClass> {
        if class < 8 {
            Some(TrafficClass(class))
        } else {
            None
        }
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }
}

view! {
    /// A view of one entry and what follows it.
    LabelEntry, "Bytes of a label stack entry." ENTRY_LEN = 4
}

impl<T: AsRef<[u8]>> LabelEntry<T> {
    #[inline]
    fn word(&self) -> u32 {
        u32_at(self.buffer.as_ref(), 0)
    }

    /// The label.
    #[inline]
    pub fn label(&self) -> Label {
        Label(self.word() >> 12)
    }

    /// The traffic class.
    #[inline]
    pub fn traffic_class(&self) -> TrafficClass {
        TrafficClass((self.word() >> 9) as u8 & 7)
    }

    /// The bottom-of-stack bit.
    #[inline]
    pub fn is_bottom(&self) -> bool {
        self.word() & 0x100 != 0
    }

    /// The time to live in hops.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.word() as u8
    }

    /// What follows the entry: another one, or the payload if this is the bottom.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[ENTRY_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> LabelEntry<T> {
    #[inline]
    fn set_bits(&mut self, mask: u32, bits: u32) {
        let word = (self.word() & !mask) | bits;
        put_u32(self.buffer.as_mut(), 0, word);
    }

    /// Sets the label.
    #[inline]
    pub fn set_label(&mut self, label: Label) {
        self.set_bits(0xffff_f000, label.0 << 12);
    }

    /// Sets the traffic class.
    #[inline]
    pub fn set_traffic_class(&mut self, class: TrafficClass) {
        self.set_bits(0x0000_0e00, u32::from(class.0) << 9);
    }

    /// Sets the bottom-of-stack bit.
    #[inline]
    pub fn set_bottom(&mut self, bottom: bool) {
        self.set_bits(0x0000_0100, u32::from(bottom) << 8);
    }

    /// Sets the time to live.
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) {
        self.set_bits(0x0000_00ff, u32::from(ttl));
    }
}

/// One label stack entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// The label.
    pub label: Label,
    /// Traffic class.
    pub traffic_class: TrafficClass,
    /// Whether the payload follows, rather than another entry.
    pub bottom: bool,
    /// Time to live in hops.
    pub ttl: u8,
}

impl Repr {
    /// Reads the entry.
    ///
    /// # Errors
    /// `Malformed` for implicit null, which must not appear in a packet.
    pub fn parse<T: AsRef<[u8]>>(entry: &LabelEntry<T>) -> Result<Repr> {
        if entry.label() == Label::IMPLICIT_NULL {
            return Err(WireError::Malformed);
        }
        Ok(Repr {
            label: entry.label(),
            traffic_class: entry.traffic_class(),
            bottom: entry.is_bottom(),
            ttl: entry.ttl(),
        })
    }

    /// Bytes that `emit` writes.
    pub const fn buffer_len(&self) -> usize {
        ENTRY_LEN
    }

    /// The entry as the 32-bit word on the wire, in host order.
    #[inline]
    pub const fn to_word(&self) -> u32 {
        self.label.0 << 12
            | (self.traffic_class.0 as u32) << 9
            | (self.bottom as u32) << 8
            | self.ttl as u32
    }

    /// Writes the entry.
    ///
    /// # Errors
    /// `Truncated` if the buffer is shorter than `buffer_len`.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, entry: &mut LabelEntry<T>) -> Result<()> {
        if entry.buffer.as_ref().len() < self.buffer_len() {
            return Err(WireError::Truncated);
        }
        put_u32(entry.buffer.as_mut(), 0, self.to_word());
        Ok(())
    }
}

/// A walk over a label stack, top first. Ends behind the bottom entry, or after one error:
/// `Truncated` when the bytes end first, `Malformed` after [`MAX_LABELS`] entries.
#[derive(Debug, Clone)]
pub struct Stack<'a> {
    rest: &'a [u8],
    seen: usize,
    done: bool,
}

impl<'a> Stack<'a> {
    /// A walk over the stack at the start of `data`.
    pub const fn new(data: &'a [u8]) -> Stack<'a> {
        Stack {
            rest: data,
            seen: 0,
            done: false,
        }
    }

    /// What follows the entries walked so far: the payload, once the walk has ended.
    pub const fn payload(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Stack<'a> {
    type Item = Result<LabelEntry<&'a [u8]>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        if self.seen == MAX_LABELS {
            self.done = true;
            return Some(Err(WireError::Malformed));
        }
        let Some((entry, rest)) = self.rest.split_at_checked(ENTRY_LEN) else {
            self.done = true;
            return Some(Err(WireError::Truncated));
        };
        let entry = LabelEntry { buffer: entry };
        self.done = entry.is_bottom();
        self.rest = rest;
        self.seen += 1;
        Some(Ok(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Label 16 with class 5, then label 1048575 at the bottom, then a byte of payload.
    const STACK: [u8; 9] = [0x00, 0x01, 0x0a, 0x40, 0xff, 0xff, 0xf1, 0xff, 0x45];

    fn top() -> Repr {
        Repr {
            label: Label::FIRST_UNRESERVED,
            traffic_class: TrafficClass::new(5).unwrap(),
            bottom: false,
            ttl: 64,
        }
    }

    #[test]
    fn parses_golden() {
        let mut stack = Stack::new(&STACK);
        let entries: Vec<_> = stack
            .by_ref()
            .map(|e| Repr::parse(&e.unwrap()).unwrap())
            .collect();
        let bottom = Repr {
            label: Label::new(0xf_ffff).unwrap(),
            traffic_class: TrafficClass::default(),
            bottom: true,
            ttl: 255,
        };
        assert_eq!(entries, [top(), bottom]);
        assert_eq!(stack.payload(), [0x45]);
    }

    #[test]
    fn emits_golden() {
        let mut entry = LabelEntry::new_unchecked([0xffu8; 4]);
        top().emit(&mut entry).unwrap();
        assert_eq!(entry.into_inner(), STACK[..4]);
        let mut entry = LabelEntry::new_unchecked([0xffu8; 4]);
        entry.set_label(top().label);
        entry.set_traffic_class(top().traffic_class);
        entry.set_bottom(false);
        entry.set_ttl(64);
        assert_eq!(entry.into_inner(), STACK[..4]);
    }

    #[test]
    fn refuses_out_of_range_short_and_implicit_null() {
        assert_eq!((Label::new(1 << 20), TrafficClass::new(8)), (None, None));
        assert_eq!(
            LabelEntry::new_checked(&STACK[..3]),
            Err(WireError::Truncated)
        );
        let null = LabelEntry::new_unchecked([0, 0, 0x31, 0x40]);
        assert_eq!(Repr::parse(&null), Err(WireError::Malformed));
        let mut short = LabelEntry::new_unchecked([0u8; 3]);
        assert_eq!(top().emit(&mut short), Err(WireError::Truncated));
        assert!(Label::GAL.is_reserved() && !top().label.is_reserved());
    }

    #[test]
    fn a_walk_without_a_bottom_ends() {
        let last = |bytes: &'static [u8]| Stack::new(bytes).last();
        assert_eq!(last(&STACK[..7]), Some(Err(WireError::Truncated)));
        assert_eq!(last(&[0; 4 * 40]), Some(Err(WireError::Malformed)));
        assert_eq!(Stack::new(&[0; 4 * 40]).count(), MAX_LABELS + 1);
    }

    proptest! {
        #[test]
        fn every_word_round_trips(word: u32) {
            let entry = LabelEntry::new_checked(word.to_be_bytes()).unwrap();
            if let Ok(repr) = Repr::parse(&entry) {
                prop_assert_eq!(repr.to_word(), word);
                let mut out = LabelEntry::new_unchecked([0xa5; 4]);
                repr.emit(&mut out).unwrap();
                prop_assert_eq!(out.into_inner(), word.to_be_bytes());
            } else {
                prop_assert_eq!(word >> 12, 3);
            }
        }
    }
}
