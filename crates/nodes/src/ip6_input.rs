//! `ip6-input`: the header checks of RFC 8200 section 3 and the address rules of RFC 4291.
//!
//! Version and payload length must be right; link-layer padding is cut off; packets with impossible
//! addresses are dropped. Link-local and multicast destinations are for the router itself or for nobody,
//! and so is what comes from the unspecified address. A hop limit of 0 is no fault here: the packet may be
//! for the router.
//!
//! Drop reasons: `ip6_too_short`, `ip6_bad_version`, `ip6_bad_length`, `ip6_source_invalid`,
//! `ip6_destination_invalid`, `ip6_not_enabled`.

use std::sync::Arc;

use parshall_buffer::{BufferIndex, Frame, IF_MIXED, Pool};
use parshall_counters::DropReason;
use parshall_graph::{CONTINUE, Ctx, Dispatch, Node, NodeSpec};

use crate::state::{Shared, if_flags};
use crate::trace::format_ip6;

/// The node's description.
pub const SPEC: NodeSpec = NodeSpec::new("ip6-input", &["ip6-local"])
    .starting("ip6-unicast")
    .by_interface()
    .format(format_ip6);

const IP6_LOCAL: u16 = 0;

/// The node.
pub struct Ip6Input {
    shared: Arc<Shared>,
}

impl Ip6Input {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> Ip6Input {
        Ip6Input { shared }
    }
}

impl Node for Ip6Input {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let interfaces = self.shared.interfaces(cx.rcu);
        let common = frame.rx_if;
        let enabled = common != IF_MIXED && interfaces.view(common).has(if_flags::IP6);
        let mut all = true;
        for (i, &b) in frame.packets().iter().enumerate() {
            cx.next[i] = CONTINUE;
            let on = enabled || interfaces.view(cx.pool.meta(b).rx_if).has(if_flags::IP6);
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

/// Whether the packet is between two addresses of 2000::/3 or fc00::/7 and has nothing wrong.
#[inline(always)]
fn plain_and_good(pool: &Pool, b: BufferIndex) -> bool {
    let h: &[u8; 40] = pool.peek(b, 0);
    let m = pool.meta(b);
    let total = 40 + u32::from(u16::from_be_bytes([h[4], h[5]]));
    let mut wrong = u32::from(h[0] & 0xF0) ^ 0x60;
    wrong |= total ^ m.total_len();
    wrong |= u32::from(m.len < 40);
    wrong |= u32::from(!is_unicast(h[8])) | u32::from(!is_unicast(h[24]));
    wrong == 0
}

/// By first octet: global unicast (2000::/3) or unique local (fc00::/7). Everything else is looked at
/// closely.
#[inline(always)]
fn is_unicast(first: u8) -> bool {
    first & 0xE0 == 0x20 || first & 0xFE == 0xFC
}

/// Finds out what is special about a packet.
#[cold]
fn judge(cx: &mut Ctx<'_>, i: usize, b: BufferIndex, on: bool) {
    match check(cx.pool, b) {
        Err(reason) => cx.drop_packet(i, b, reason),
        Ok(_) if !on => cx.drop_packet(i, b, DropReason::Ip6NotEnabled),
        Ok(true) => cx.next[i] = IP6_LOCAL,
        Ok(false) => {}
    }
}

/// All checks one by one; cuts padding off. `Ok(true)` = for the link: multicast or link-local.
pub fn check(pool: &mut Pool, b: BufferIndex) -> Result<bool, DropReason> {
    let h: [u8; 40] = *pool.head(b, 0).ok_or(DropReason::Ip6TooShort)?;
    if h[0] >> 4 != 6 {
        return Err(DropReason::Ip6BadVersion);
    }
    let total = 40 + u32::from(u16::from_be_bytes([h[4], h[5]]));
    if total > pool.meta(b).total_len() {
        return Err(DropReason::Ip6BadLength);
    }
    pool.trim(b, total);
    let loopback = |a: &[u8]| a[..15] == [0; 15] && a[15] == 1;
    let (src, dst) = (&h[8..24], &h[24..40]);
    if src[0] == 0xFF || loopback(src) {
        return Err(DropReason::Ip6SourceInvalid);
    }
    if loopback(dst) || dst == [0; 16] {
        return Err(DropReason::Ip6DestinationInvalid);
    }
    let for_the_link = dst[0] == 0xFF || dst[0] == 0xFE && dst[1] & 0xC0 == 0x80;
    // RFC 4291 section 2.5.2: who has no address yet may speak to its link only.
    if *src == [0; 16] && !for_the_link {
        return Err(DropReason::Ip6SourceInvalid);
    }
    Ok(for_the_link)
}
