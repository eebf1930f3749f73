//! `ip4-input` and `ip6-input`: what both do with a frame. What is right and wrong is the families' own.
//!
//! Eight packets are judged at a time, by one value that gathers all checks of a plain header; only those
//! that are not plain are looked at one by one. A good frame leaves no verdicts behind.

use std::marker::PhantomData;
use std::sync::Arc;

use parshall_buffer::{BufferIndex, Frame, IF_MIXED, Pool, PoolView};
use parshall_counters::DropReason;
use parshall_graph::wide::{Isa, WideNode};
use parshall_graph::{CONTINUE, Ctx, DROP, Dispatch};

use crate::lanes::{self, LANES};
use crate::state::{Shared, if_flags};

/// Verdict: the local node of the family, the first of both nodes' lists.
const LOCAL: u16 = 0;

/// The checks of one family.
pub trait Header: Send + 'static {
    /// Interface flag that says the family is spoken.
    const ENABLED: u32;
    /// Reason where it is not.
    const NOT_ENABLED: DropReason;

    /// Zero when packet `b` is a good plain one: unicast, one buffer, no options, no padding.
    fn wrong(view: &PoolView<'_>, b: BufferIndex) -> u32;
    /// The same of eight packets: a bit for each that is not.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[cfg(target_arch = "x86_64")]
    unsafe fn wrong_lanes(view: &PoolView<'_>, packets: &[BufferIndex; LANES]) -> u32;
    /// Length of the packet as its header tells, were its header whole.
    fn told_len(view: &PoolView<'_>, b: BufferIndex) -> u32;
    /// All checks one by one; cuts padding off. `Ok(true)` = for the router or for nobody.
    fn check(pool: &mut Pool, b: BufferIndex) -> Result<bool, DropReason>;
}

/// The node of a family.
pub struct IpInput<H> {
    shared: Arc<Shared>,
    header: PhantomData<H>,
}

impl<H: Header> IpInput<H> {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> IpInput<H> {
        IpInput {
            shared,
            header: PhantomData,
        }
    }

    /// Whether the family is spoken where a packet came in.
    fn enabled(&self, cx: &Ctx<'_>, rx_if: u32) -> bool {
        let interfaces = self.shared.interfaces(cx.rcu);
        debug_assert!(if_flags::EXISTS != H::ENABLED);
        interfaces.view(rx_if).has(H::ENABLED)
    }
}

impl<H: Header> WideNode for IpInput<H> {
    #[inline(always)]
    fn process<I: Isa>(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let packets = frame.packets();
        let common = frame.rx_if;
        let on = common != IF_MIXED && self.enabled(cx, common);
        let mut each = false;
        let mut at = 0;
        while at < packets.len() {
            let block = lanes::block(packets, at);
            let mut wrong = if on {
                wrong_lanes::<H, I>(&cx.pool.view(), &block)
            } else {
                !0
            };
            wrong &= lanes::mask(packets.len() - at);
            while wrong != 0 {
                let i = at + wrong.trailing_zeros() as usize;
                wrong &= wrong - 1;
                let b = packets[i];
                let next = match on || self.enabled(cx, cx.pool.meta(b).rx_if) {
                    true => judge::<H>(cx, b),
                    false => refuse::<H>(cx, b),
                };
                if next != CONTINUE && !each {
                    each = true;
                    cx.next[..packets.len()].fill(CONTINUE);
                }
                if each {
                    cx.next[i] = next;
                }
            }
            at += LANES;
        }
        if each {
            Dispatch::Each
        } else {
            Dispatch::All(CONTINUE)
        }
    }
}

/// A bit for each packet of a block that is not a good plain one.
#[inline(always)]
fn wrong_lanes<H: Header, I: Isa>(view: &PoolView<'_>, block: &[BufferIndex; LANES]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if I::AVX2 {
        // SAFETY: code for this level runs only where the CPU has it.
        return unsafe { H::wrong_lanes(view, block) };
    }
    let bit = |(lane, &b)| u32::from(H::wrong(view, b) != 0) << lane;
    block
        .iter()
        .enumerate()
        .map(bit)
        .fold(0, |all, bit| all | bit)
}

/// Finds out what is special about a packet. Padding, as short packets have on Ethernet, is quickly gone.
#[inline(never)]
fn judge<H: Header>(cx: &mut Ctx<'_>, b: BufferIndex) -> u16 {
    let mut view = cx.pool.view();
    let told = H::told_len(&view, b);
    if view.meta(b).head() >> 32 == 0 && told < u32::from(view.meta(b).len) {
        let len = std::mem::replace(&mut view.meta_mut(b).len, told as u16);
        if H::wrong(&view, b) == 0 {
            return CONTINUE;
        }
        view.meta_mut(b).len = len;
    }
    match H::check(cx.pool, b) {
        Err(reason) => {
            cx.pool.meta_mut(b).reason = reason.code();
            DROP
        }
        // Broadcast and multicast are for the router itself or for nobody.
        Ok(true) => LOCAL,
        Ok(false) => CONTINUE,
    }
}

/// Drops a packet of a family that its interface does not speak: for what is wrong with it, if anything.
#[cold]
fn refuse<H: Header>(cx: &mut Ctx<'_>, b: BufferIndex) -> u16 {
    let reason = H::check(cx.pool, b).err().unwrap_or(H::NOT_ENABLED);
    cx.pool.meta_mut(b).reason = reason.code();
    DROP
}
