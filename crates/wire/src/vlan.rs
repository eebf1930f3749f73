//! VLAN tags (IEEE 802.1Q clause 9.6; the 802.1ad service tag has the same layout).
//!
//! The view begins behind the tag's type (0x8100 or 0x88a8), where an Ethernet payload begins:
//! two bytes of control information, then the type of what follows.

use crate::field::{put_u16, u16_at};
use crate::view::view;
use crate::{EtherType, Result, WireError};

/// A VLAN identifier, 0 to 4094: 0 marks a frame with a priority only, 4095 is reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VlanId(u16);

impl VlanId {
    /// "No VLAN, only a priority".
    pub const PRIORITY_ONLY: VlanId = VlanId(0);

    /// An identifier, or `None` above 4094.
    pub const fn new(id: u16) -> Option<VlanId> {
        if id < 4095 { Some(VlanId(id)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// A priority code point, 0 to 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Priority(u8);

impl Priority {
    /// A priority, or `None` above 7.
    pub const fn new(priority: u8) -> Option<Priority> {
        if priority < 8 {
            Some(Priority(priority))
        } else {
            None
        }
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

view! {
    /// A view of a tag and what follows it.
    Tag, "Bytes of a tag behind its type." TAG_LEN = 4
}

impl<T: AsRef<[u8]>> Tag<T> {
    #[inline]
    fn tci(&self) -> u16 {
        u16_at(self.buffer.as_ref(), 0)
    }

    /// The priority code point.
    #[inline]
    pub fn priority(&self) -> Priority {
        Priority((self.tci() >> 13) as u8)
    }

    /// The drop eligible indicator.
    #[inline]
    pub fn drop_eligible(&self) -> bool {
        self.tci() & 0x1000 != 0
    }

    /// The 12-bit identifier as it stands, 4095 included.
    #[inline]
    pub fn vlan_id(&self) -> u16 {
        self.tci() & 0x0fff
    }

    /// The type of what follows.
    #[inline]
    pub fn ethertype(&self) -> EtherType {
        EtherType(u16_at(self.buffer.as_ref(), 2))
    }

    /// What follows the tag.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[TAG_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Tag<T> {
    #[inline]
    fn set_tci_bits(&mut self, mask: u16, bits: u16) {
        let tci = (self.tci() & !mask) | bits;
        put_u16(self.buffer.as_mut(), 0, tci);
    }

    /// Sets the priority code point.
    #[inline]
    pub fn set_priority(&mut self, priority: Priority) {
        self.set_tci_bits(0xe000, u16::from(priority.0) << 13);
    }

    /// Sets the drop eligible indicator.
    #[inline]
    pub fn set_drop_eligible(&mut self, eligible: bool) {
        self.set_tci_bits(0x1000, u16::from(eligible) << 12);
    }

    /// Sets the identifier.
    #[inline]
    pub fn set_vlan_id(&mut self, id: VlanId) {
        self.set_tci_bits(0x0fff, id.0);
    }

    /// Sets the type of what follows.
    #[inline]
    pub fn set_ethertype(&mut self, ethertype: EtherType) {
        put_u16(self.buffer.as_mut(), 2, ethertype.0);
    }

    /// What follows the tag.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.as_mut()[TAG_LEN..]
    }
}

/// A VLAN tag behind its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Priority code point.
    pub priority: Priority,
    /// Drop eligible indicator.
    pub drop_eligible: bool,
    /// The VLAN.
    pub vlan_id: VlanId,
    /// Type of what follows.
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads the tag.
    ///
    /// # Errors
    /// `Malformed` for the reserved identifier 4095.
    pub fn parse<T: AsRef<[u8]>>(tag: &Tag<T>) -> Result<Repr> {
        Ok(Repr {
            priority: tag.priority(),
            drop_eligible: tag.drop_eligible(),
            vlan_id: VlanId::new(tag.vlan_id()).ok_or(WireError::Malformed)?,
            ethertype: tag.ethertype(),
        })
    }

    /// Bytes that `emit` writes.
    pub const fn buffer_len(&self) -> usize {
        TAG_LEN
    }

    /// Writes the tag.
    ///
    /// # Errors
    /// `Truncated` if the buffer is shorter than `buffer_len`.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, tag: &mut Tag<T>) -> Result<()> {
        if tag.buffer.as_ref().len() < self.buffer_len() {
            return Err(WireError::Truncated);
        }
        tag.set_priority(self.priority);
        tag.set_drop_eligible(self.drop_eligible);
        tag.set_vlan_id(self.vlan_id);
        tag.set_ethertype(self.ethertype);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TAG: [u8; 5] = [0xb0, 0x64, 0x86, 0xdd, 0x60];

    fn repr() -> Repr {
        Repr {
            priority: Priority::new(5).unwrap(),
            drop_eligible: true,
            vlan_id: VlanId::new(100).unwrap(),
            ethertype: EtherType::IPV6,
        }
    }

    #[test]
    fn parses_golden() {
        let tag = Tag::new_checked(&TAG[..]).unwrap();
        assert_eq!(Repr::parse(&tag), Ok(repr()));
        assert_eq!(tag.payload(), [0x60]);
    }

    #[test]
    fn emits_golden_over_old_bits() {
        let mut bytes = [0xff, 0xff, 0xff, 0xff, 0x60];
        repr()
            .emit(&mut Tag::new_unchecked(&mut bytes[..]))
            .unwrap();
        assert_eq!(bytes, TAG);
    }

    #[test]
    fn refuses_short_reserved_and_out_of_range() {
        assert_eq!(Tag::new_checked(&TAG[..3]), Err(WireError::Truncated));
        let tag = Tag::new_unchecked([0x0f, 0xff, 0x08, 0x00]);
        assert_eq!(Repr::parse(&tag), Err(WireError::Malformed));
        assert_eq!((VlanId::new(4095), Priority::new(8)), (None, None));
        let mut short = Tag::new_unchecked([0u8; 3]);
        assert_eq!(repr().emit(&mut short), Err(WireError::Truncated));
    }

    proptest! {
        #[test]
        fn round_trips(tci: u16, ethertype: u16) {
            let mut bytes = [0u8; 4];
            put_u16(&mut bytes, 0, tci);
            put_u16(&mut bytes, 2, ethertype);
            if let Ok(repr) = Repr::parse(&Tag::new_checked(bytes).unwrap()) {
                let mut out = Tag::new_unchecked([0xa5u8; 4]);
                repr.emit(&mut out).unwrap();
                prop_assert_eq!(out.into_inner(), bytes);
            } else {
                prop_assert_eq!(tci & 0xfff, 0xfff);
            }
        }
    }
}
