//! `ip4-input`: the header checks of RFC 1812 section 5.2.2 and the address checks of section 5.3.7.
//!
//! Version, header length, total length and checksum must be right; link-layer padding is cut off; packets
//! with impossible addresses are dropped. A TTL of 0 is no fault here: the packet may be for the router
//! (section 4.2.2.9). All checks of a plain 20-byte header are gathered in one value, so a good packet
//! takes one branch.
//!
//! Drop reasons: `ip4_too_short`, `ip4_bad_version`, `ip4_bad_header_length`, `ip4_bad_length`,
//! `ip4_bad_checksum`, `ip4_source_invalid`, `ip4_destination_invalid`, `ip4_not_enabled`.

use std::sync::Arc;

use parshall_buffer::{BufferIndex, Frame, IF_MIXED, Pool};
use parshall_counters::DropReason;
use parshall_graph::{CONTINUE, Ctx, Dispatch, Node, NodeSpec};

use crate::state::{Shared, if_flags};
use crate::trace::format_ip4;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("ip4-input", &["ip4-local"])
    .starting("ip4-unicast")
    .by_interface()
    .format(format_ip4);

const IP4_LOCAL: u16 = 0;

const SRC_BAD: u8 = 1;
const DST_BAD: u8 = 2;
const DST_GROUP: u8 = 4;

/// By first octet, what an address may not be (RFC 1122 section 3.2.1.3, RFC 5735).
const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    class[0] = SRC_BAD | DST_BAD;
    class[127] = SRC_BAD | DST_BAD;
    let mut i = 224;
    while i < 256 {
        class[i] = SRC_BAD | if i < 240 { DST_GROUP } else { DST_BAD };
        i += 1;
    }
    class
};

/// The node.
pub struct Ip4Input {
    shared: Arc<Shared>,
}

impl Ip4Input {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> Ip4Input {
        Ip4Input { shared }
    }
}

impl Node for Ip4Input {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let interfaces = self.shared.interfaces(cx.rcu);
        let common = frame.rx_if;
        let enabled = common != IF_MIXED && interfaces.view(common).has(if_flags::IP4);
        let mut all = true;
        for (i, &b) in frame.packets().iter().enumerate() {
            cx.next[i] = CONTINUE;
            let on = enabled || interfaces.view(cx.pool.meta(b).rx_if).has(if_flags::IP4);
            if !plain_and_good(cx.pool, b) || !on {
                judge(cx, i, b, on);
                all = false;
            }
        }
        if all {
            Dispatch::All(CONTINUE)
        } else {
            Dispatch::Each
        }
    }
}

/// Whether the packet is a good one without options and padding, unicast, still alive.
#[inline(always)]
fn plain_and_good(pool: &Pool, b: BufferIndex) -> bool {
    let h: &[u8; 20] = pool.peek(b, 0);
    let m = pool.meta(b);
    let total = u32::from(u16::from_be_bytes([h[2], h[3]]));
    let mut wrong = u32::from(h[0] ^ 0x45);
    wrong |= total ^ m.total_len();
    wrong |= u32::from(m.len < 20);
    wrong |= u32::from(
        CLASS[usize::from(h[12])] & SRC_BAD | CLASS[usize::from(h[16])] & (DST_BAD | DST_GROUP),
    );
    wrong |= u32::from(fold(h) ^ 0xFFFF);
    wrong == 0
}

/// Ones' complement sum of a 20-byte header, folded to 16 bits: 0xFFFF when the checksum is right.
/// Order of bytes does not matter to that (RFC 1071 section 2(B)).
#[inline(always)]
fn fold(h: &[u8; 20]) -> u16 {
    let word = |i: usize| u64::from(u32::from_le_bytes([h[i], h[i + 1], h[i + 2], h[i + 3]]));
    let sum = word(0) + word(4) + word(8) + word(12) + word(16);
    let sum = (sum & 0xFFFF_FFFF) + (sum >> 32);
    let sum = (sum & 0xFFFF) + ((sum >> 16) & 0xFFFF) + (sum >> 32);
    let sum = (sum & 0xFFFF) + (sum >> 16);
    ((sum & 0xFFFF) + (sum >> 16)) as u16
}

/// Finds out what is special about a packet.
#[cold]
fn judge(cx: &mut Ctx<'_>, i: usize, b: BufferIndex, on: bool) {
    match check(cx.pool, b) {
        Err(reason) => cx.drop_packet(i, b, reason),
        Ok(_) if !on => cx.drop_packet(i, b, DropReason::Ip4NotEnabled),
        // Broadcast and multicast are for the router itself or for nobody.
        Ok(true) => cx.next[i] = IP4_LOCAL,
        Ok(false) => {}
    }
}

/// All checks one by one; cuts padding off. `Ok(true)` = limited broadcast or multicast.
pub fn check(pool: &mut Pool, b: BufferIndex) -> Result<bool, DropReason> {
    let h: [u8; 20] = *pool.head(b, 0).ok_or(DropReason::Ip4TooShort)?;
    if h[0] >> 4 != 4 {
        return Err(DropReason::Ip4BadVersion);
    }
    let header_len = usize::from(h[0] & 15) * 4;
    if header_len < 20 {
        return Err(DropReason::Ip4BadHeaderLength);
    }
    let header = pool
        .bytes(b)
        .get(..header_len)
        .ok_or(DropReason::Ip4BadHeaderLength)?;
    if parshall_wire::checksum::checksum(header) != 0 {
        return Err(DropReason::Ip4BadChecksum);
    }
    let total = u32::from(u16::from_be_bytes([h[2], h[3]]));
    if total < header_len as u32 || total > pool.meta(b).total_len() {
        return Err(DropReason::Ip4BadLength);
    }
    pool.trim(b, total);
    let (src, dst) = (CLASS[usize::from(h[12])], CLASS[usize::from(h[16])]);
    if src & SRC_BAD != 0 {
        return Err(DropReason::Ip4SourceInvalid);
    }
    if dst & DST_GROUP != 0 || h[16..20] == [255; 4] {
        return Ok(true);
    }
    if dst & DST_BAD != 0 {
        return Err(DropReason::Ip4DestinationInvalid);
    }
    Ok(false)
}
