//! A dropped packet as a worker leaves it in its ring of drops: who it was, where it was lost, and its first bytes.

/// Most header bytes kept of a dropped packet, as hsflowd sends.
pub const DROP_HEADER: usize = 128;

/// What the bytes of a dropped packet begin with: the protocol of an sFlow raw header record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HeaderProtocol {
    /// An Ethernet header.
    #[default]
    Ethernet = 1,
    /// An IPv4 header: the packet had no link-layer header yet.
    Ip4 = 11,
    /// An IPv6 header.
    Ip6 = 12,
    /// A label stack.
    Mpls = 13,
}

impl HeaderProtocol {
    /// The Ethernet type of a frame that would carry it.
    pub const fn ethertype(self) -> u16 {
        match self {
            HeaderProtocol::Ethernet => 0,
            HeaderProtocol::Ip4 => 0x0800,
            HeaderProtocol::Ip6 => 0x86DD,
            HeaderProtocol::Mpls => 0x8847,
        }
    }
}

/// A dropped packet: written once, in place.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct DropSlot {
    /// Monotonic time in ns.
    pub time: u64,
    /// Interface the packet came in on, `u32::MAX` for packets the router made.
    pub rx_if: u32,
    /// Interface it was about to leave by, `u32::MAX` when that was not known yet.
    pub tx_if: u32,
    /// Bytes of the whole packet from the first of `header` on, without FCS.
    pub frame_len: u32,
    /// Number of the reason.
    pub reason: u16,
    /// Number of the graph's slot (node or transmit queue) that gave it up.
    pub slot: u16,
    /// Bytes of `header` in use.
    pub header_len: u16,
    /// What `header` begins with.
    pub protocol: HeaderProtocol,
    /// First bytes of the packet.
    pub header: [u8; DROP_HEADER],
}

impl Default for DropSlot {
    fn default() -> Self {
        DropSlot {
            time: 0,
            rx_if: u32::MAX,
            tx_if: u32::MAX,
            frame_len: 0,
            reason: 0,
            slot: 0,
            header_len: 0,
            protocol: HeaderProtocol::Ethernet,
            header: [0; DROP_HEADER],
        }
    }
}

impl DropSlot {
    /// The first bytes of the packet.
    pub fn bytes(&self) -> &[u8] {
        &self.header[..usize::from(self.header_len).min(DROP_HEADER)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_lies_about_its_length_is_cut() {
        let slot = DropSlot {
            header_len: u16::MAX,
            ..DropSlot::default()
        };
        assert_eq!(slot.bytes().len(), DROP_HEADER);
        assert_eq!(size_of::<DropSlot>() % 64, 0);
    }
}
