//! Per-packet metadata: exactly one cache line, next to the packet it describes.

/// Interface index that means "none".
pub const IF_NONE: u32 = u32::MAX;

/// A packet: the number of its first buffer in the worker's [`Pool`](crate::Pool).
///
/// Only a pool makes one (tests aside), which is why a pool may trust it without a bounds check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default, PartialOrd, Ord)]
#[repr(transparent)]
pub struct BufferIndex(pub(crate) u32);

impl BufferIndex {
    /// The plain number, for messages and maps.
    pub fn raw(self) -> u32 {
        self.0
    }
}

/// Bits of [`Meta::flags`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct Flags(pub u16);

impl Flags {
    /// More bytes follow in the buffer [`Meta::next`].
    pub const CHAINED: Flags = Flags(1);
    /// The packet's way through the graph is recorded (`trace add`).
    pub const TRACED: Flags = Flags(1 << 1);
    /// The router itself made this packet; it was not received.
    pub const ORIGINATED: Flags = Flags(1 << 2);
    /// It waited for a neighbour. The second word of [`Meta::scratch`] says since when, until a node has another
    /// use for it.
    pub const HELD: Flags = Flags(1 << 3);
    /// It is a copy of a received packet, made to go out on more than one interface: not itself received.
    pub const COPY: Flags = Flags(1 << 4);

    /// Whether every bit of `other` is set.
    #[inline(always)]
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
    /// Sets the bits of `other`.
    #[inline(always)]
    pub fn set(&mut self, other: Flags) {
        self.0 |= other.0;
    }
    /// Clears the bits of `other`.
    #[inline(always)]
    pub fn clear(&mut self, other: Flags) {
        self.0 &= !other.0;
    }
}

/// What travels with a packet. Offsets count from the start of the buffer's headroom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Meta {
    /// Offset of the current header: what the next node parses.
    pub data: u16,
    /// Bytes of this buffer from `data` on.
    pub len: u16,
    /// What is true of the packet.
    pub flags: Flags,
    /// Why it is dropped (a `DropReason` number), once it is on its way to `drop`.
    pub reason: u16,
    /// Bytes in the buffers after this one; 0 without a chain. Whole length = `len + tail_len`.
    pub tail_len: u32,
    /// The next buffer of the chain, valid with [`Flags::CHAINED`].
    pub next: BufferIndex,
    /// Interface it came in on, [`IF_NONE`] for packets the router made.
    pub rx_if: u32,
    /// Interface it goes out on, once known.
    pub tx_if: u32,
    /// Offset of the link-layer header of the packet as received.
    pub l2: u16,
    /// Offset of the network-layer header, once found.
    pub l3: u16,
    /// Hash over the 5-tuple, 0 = not computed.
    pub flow_hash: u32,
    /// Forwarding object the last lookup chose (a `Dpo`).
    pub dpo: u32,
    /// Table the next lookup uses; [`IF_NONE`] = that of the receiving interface.
    pub table: u32,
    /// Node that dropped it (graph node number).
    pub drop_node: u16,
    /// TTL of the label popped last (RFC 3443), 0 = none was.
    pub mpls_ttl: u8,
    /// Traffic class and bottom-of-stack bit of the label popped last: `tc << 1 | s`.
    pub mpls_tc_s: u8,
    /// Identity of the packet in the trace, valid with [`Flags::TRACED`].
    pub trace: u32,
    /// For a node's own use between itself and the next node.
    pub scratch: [u32; 2],
    /// Interfaces without a device that it has left through: what is made of it must not go round for ever.
    pub nesting: u32,
}

impl Meta {
    /// Metadata of a packet of `len` bytes just received on `rx_if`, its header at offset `data`.
    #[inline(always)]
    pub fn received(data: u16, len: u16, rx_if: u32) -> Meta {
        Meta {
            data,
            len,
            flags: Flags(0),
            reason: 0,
            tail_len: 0,
            next: BufferIndex(0),
            rx_if,
            tx_if: IF_NONE,
            l2: data,
            l3: data,
            flow_hash: 0,
            dpo: 0,
            table: IF_NONE,
            drop_node: 0,
            mpls_ttl: 0,
            mpls_tc_s: 0,
            trace: 0,
            scratch: [0; 2],
            nesting: 0,
        }
    }

    /// `data`, `len`, `flags` and `reason`, the first in the lowest 16 bits. With nothing above bit 31 the
    /// packet is a plain one: received, in one buffer, not traced, not on its way to `drop`.
    #[inline(always)]
    pub fn head(&self) -> u64 {
        #[cfg(target_endian = "little")]
        {
            // In one load. The compiler joins the fields into one only where nobody uses them by themselves.
            // SAFETY: the first eight bytes of a `repr(C)` Meta are these fields, without padding; it is
            // aligned to more than eight.
            unsafe { std::ptr::from_ref(self).cast::<u64>().read() }
        }
        #[cfg(target_endian = "big")]
        {
            u64::from(self.data)
                | u64::from(self.len) << 16
                | u64::from(self.flags.0) << 32
                | u64::from(self.reason) << 48
        }
    }
    /// Sets the four fields of [`head`](Self::head).
    #[inline(always)]
    pub fn set_head(&mut self, head: u64) {
        self.data = head as u16;
        self.len = (head >> 16) as u16;
        self.flags = Flags((head >> 32) as u16);
        self.reason = (head >> 48) as u16;
    }

    /// Bytes of the whole packet from the current header on, chain included.
    #[inline(always)]
    pub fn total_len(&self) -> u32 {
        u32::from(self.len) + self.tail_len
    }
}

const _: () = assert!(size_of::<Meta>() == 64);
