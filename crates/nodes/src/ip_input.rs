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
use crate::state::Shared;

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
        self.shared.interfaces(cx.rcu).view(rx_if).has(H::ENABLED)
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

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::ip4_input::Ip4Header;
    use crate::ip6_input::Ip6Header;
    use parshall_buffer::Flags;
    use parshall_graph::wide::has_v3;
    use parshall_wire::{MacAddr, PacketBuilder};

    /// Numbers of xorshift64, for spoiling packets.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, n: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 16) as usize % n
        }
    }

    /// Changes a packet or its metadata in one place of those that the checks look at, or not at all.
    fn spoil(pool: &mut Pool, b: BufferIndex, header: usize, numbers: &mut Numbers) {
        match numbers.below(8) {
            0 | 1 => {}
            2 => pool.meta_mut(b).len = numbers.below(80) as u16,
            3 => pool.meta_mut(b).flags.set(Flags::ORIGINATED),
            4 => pool.meta_mut(b).reason = 7,
            5 => {
                let first = [0, 1, 127, 223, 224, 239, 240, 255, 0x1F, 0x40, 0xFB, 0xFE];
                let at = [8, 12, 16, 24][numbers.below(4)];
                pool.peek_mut::<1>(b, at)[0] = first[numbers.below(first.len())];
            }
            _ => {
                let (at, bit) = (numbers.below(header), numbers.below(8));
                pool.peek_mut::<1>(b, at)[0] ^= 1 << bit;
            }
        }
        // A right checksum, so that what else is wrong shows.
        if header == 20 && numbers.below(4) != 0 {
            let h: &mut [u8; 20] = pool.peek_mut(b, 0);
            [h[10], h[11]] = [0; 2];
            let sum = parshall_wire::checksum::checksum(&h[..]);
            [h[10], h[11]] = sum.to_be_bytes();
        }
    }

    fn lanes_agree<H: Header>(good: &[u8], header: usize) {
        assert!(has_v3(), "this test needs a CPU with AVX2");
        let mut pool = Pool::new(LANES).unwrap();
        let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
        let (mut right, mut wrong) = (0, 0);
        for _ in 0..50_000 {
            let block = std::array::from_fn(|_| pool.packet_from(good, 1).unwrap());
            for b in block {
                spoil(&mut pool, b, header, &mut numbers);
            }
            let view = pool.view();
            let one_by_one = wrong_lanes::<H, parshall_graph::wide::Base>(&view, &block);
            // SAFETY: asserted above.
            let at_once = unsafe { H::wrong_lanes(&view, &block) };
            assert_eq!(at_once, one_by_one);
            wrong += at_once.count_ones();
            right += (!at_once & 0xFF).count_ones();
            pool.free_bulk(&block);
        }
        assert!(
            right > 50_000 && wrong > 50_000,
            "{right} right, {wrong} wrong"
        );
    }

    #[test]
    fn eight_headers_at_once_are_judged_as_one_by_one() {
        let builder = || PacketBuilder::ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
        let four = builder().ipv4([192, 0, 2, 1].into(), [198, 51, 100, 7].into());
        let four = four.udp(1, 2).payload_len(30).build();
        lanes_agree::<Ip4Header>(&four[14..], 20);
        let address = |last| std::net::Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, last);
        let six = builder().ipv6(address(1), address(2)).udp(1, 2);
        lanes_agree::<Ip6Header>(&six.payload_len(30).build()[14..], 40);
    }
}
