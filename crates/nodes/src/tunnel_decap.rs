//! Many packets out of one tunnel over IPv4: what `tunnel-input` does with those that are like the one before them.
//!
//! The first packet of a run is judged in full; those behind it are compared with it in words. What differs in nothing but
//! length, the outer source port and what a tunnel does not look at comes out of the same tunnel, behind as many bytes.

use parshall_buffer::{BufferIndex, IF_NONE, PoolView};

use crate::tunnel::{PROTO_GRE, PROTO_IP4, PROTO_IP6, PROTO_UDP};

/// Bytes of an IPv4 header without options.
const IP4: u16 = 20;
/// Bytes that are compared: all headers of VXLAN.
const COMPARED: usize = 40;

/// What packets of a run have in common.
pub struct Alike {
    table: u32,
    rx_if: u32,
    expected: [u64; COMPARED / 8],
    matters: [u64; COMPARED / 8],
    /// Whether a UDP header says how long the packet is.
    udp: bool,
    nesting: u32,
}

/// The compared words, as on the wire, read big-endian.
#[inline(always)]
fn words(view: &PoolView<'_>, b: BufferIndex, at: u16) -> [u64; COMPARED / 8] {
    let h: &[u8; COMPARED] = view.peek(b, at);
    std::array::from_fn(|w| u64::from_be_bytes(std::array::from_fn(|i| h[8 * w + i])))
}

impl Alike {
    /// What is to be the same in packets that follow `b`, a packet that a tunnel claims; `None` = it has options, lies
    /// in several buffers, or is of a kind that is judged one by one.
    #[inline(always)]
    pub fn to(view: &PoolView<'_>, b: BufferIndex) -> Option<Alike> {
        let m = view.meta(b);
        let expected = words(view, b, m.data);
        // Version and header length, and that it is no fragment; protocol and source; destination.
        let mut matters = [
            0xFF << 56 | 0x3FFF,
            0x00FF_0000_FFFF_FFFF,
            0xFFFF_FFFF << 32,
            0,
            0,
        ];
        let protocol = (expected[1] >> 48) as u8;
        match protocol {
            // The port; the flag that there is a network identifier; the identifier.
            PROTO_UDP => {
                matters[2] |= 0xFFFF;
                matters[3] = 0x08 << 24;
                matters[4] = 0xFFFF_FF00 << 32;
            }
            // Flags and what is carried.
            PROTO_GRE if expected[2] as u32 >> 16 == 0 => matters[2] |= 0xFFFF_FFFF,
            PROTO_IP4 | PROTO_IP6 => {}
            _ => return None,
        }
        (expected[0] >> 56 == 0x45 && m.head() >> 32 == 0).then_some(Alike {
            table: m.table,
            rx_if: m.rx_if,
            expected,
            matters,
            udp: protocol == PROTO_UDP,
            nesting: m.nesting,
        })
    }

    /// Takes the packets that `packets` begins with, as far as they are alike, out of the tunnel of interface `if_index`,
    /// behind `skip` bytes. Says how many, and how many bytes they have together.
    #[inline(always)]
    pub fn run(
        &self,
        view: &mut PoolView<'_>,
        packets: &[BufferIndex],
        if_index: u32,
        skip: u16,
    ) -> (usize, u64) {
        let mut bytes = 0;
        for (i, &b) in packets.iter().enumerate() {
            match self.inner(view, b, skip) {
                Some((at, len)) => {
                    received(view, b, at, len, if_index);
                    bytes += u64::from(len);
                }
                None => return (i, bytes),
            }
        }
        (packets.len(), bytes)
    }

    /// Where what is inside packet `b` begins, and how long it is; `None` = it is not alike.
    #[inline(always)]
    fn inner(&self, view: &PoolView<'_>, b: BufferIndex, skip: u16) -> Option<(u16, u16)> {
        let m = view.meta(b);
        let head = m.head();
        let (at, len) = (head as u16, (head >> 16) as u16);
        let word = words(view, b, at);
        let differs = |i: usize| (word[i] ^ self.expected[i]) & self.matters[i];
        let other = (m.table ^ self.table) | (m.rx_if ^ self.rx_if) | (m.nesting ^ self.nesting);
        let any = (0..word.len()).fold(head >> 32 | u64::from(other), |or, i| or | differs(i));
        // Without UDP the packet is as long as its buffer says.
        let told = if self.udp {
            (word[3] >> 48) as u16
        } else {
            len.wrapping_sub(IP4)
        };
        let least = skip - IP4;
        let plain = any == 0 && len >= skip && told >= least && told <= len - IP4;
        plain.then(|| (at + skip, told - least))
    }
}

/// Writes down that what is left of packet `b`, `len` bytes at `at`, was received on `if_index`.
#[inline(always)]
pub fn received(view: &mut PoolView<'_>, b: BufferIndex, at: u16, len: u16, if_index: u32) {
    let m = view.meta_mut(b);
    m.set_head(u64::from(at) | u64::from(len) << 16);
    (m.l2, m.l3, m.rx_if) = (at, at, if_index);
    (m.table, m.flow_hash, m.dpo) = (IF_NONE, 0, 0);
    m.nesting += 1;
}
