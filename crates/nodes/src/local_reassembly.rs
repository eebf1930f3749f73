//! `ip4-local-full-reassembly` and `ip6-local-full-reassembly`: fragments for the router itself are put together again, so that
//! tunnels end here whose outer packets were fragmented, and long pings are answered.
//!
//! RFC 791, RFC 8200 section 4.5, RFC 5722 (overlaps), RFC 1122 section 3.3.2 (time exceeded). See `reassembly.rs` for how much
//! may wait. Workers put together what comes to them: fragments of one packet that come to different workers time out.
//!
//! Drop reasons: `fragment_malformed`, `fragment_overlap`, `reassembly_timeout`, `reassembly_full`, `nd_fragmented`.

use std::sync::Arc;

use parshall_buffer::{BufferIndex, Flags, Frame};
use parshall_counters::DropReason;
use parshall_graph::{CONSUMED, Ctx, DROP, Dispatch, Node, NodeSpec};
use parshall_wire::{IpProtocol, Ipv4Packet, Ipv6Packet};

use crate::icmp_error::{IcmpAsk, ask};
use crate::reassembly::{LONGEST, PIECES, PacketKey, Piece, Put, Reassembly, copy_payload};
use crate::state::Shared;
use crate::trace::{format_ip4, format_ip6};
use crate::tunnel_input::table_of;

/// Description of the IPv4 node.
pub const SPEC4: NodeSpec = NodeSpec::new(
    "ip4-local-full-reassembly",
    &["ip4-local", "ip4-icmp-error"],
)
.format(format_ip4);
/// Description of the IPv6 node: its next nodes stand in the same order.
pub const SPEC6: NodeSpec = NodeSpec::new(
    "ip6-local-full-reassembly",
    &["ip6-local", "ip6-icmp-error"],
)
.format(format_ip6);

const LOCAL: u16 = 0;
const ICMP_ERROR: u16 = 1;
/// One buffer in so many may be held by fragments of a family that wait.
const SHARE: usize = 16;
/// One buffer in so many is left to others.
const QUARTER: usize = 4;
/// Bytes of an IPv6 header and of a fragment header.
const HEADER6: usize = 40;
const FRAGMENT6: usize = 8;

/// The node of one family.
pub struct LocalReassembly {
    shared: Arc<Shared>,
    ip6: bool,
    waiting: Reassembly,
    /// Where a packet is put together.
    whole: Box<[u8; LONGEST + HEADER6]>,
}

/// A fragment, and the packet that it is of.
struct Found {
    key: PacketKey,
    piece: Piece,
    more: bool,
}

impl LocalReassembly {
    /// Over this state, for IPv6 or IPv4.
    pub fn new(shared: Arc<Shared>, ip6: bool) -> LocalReassembly {
        LocalReassembly {
            shared,
            ip6,
            waiting: Reassembly::new(),
            whole: Box::new([0; LONGEST + HEADER6]),
        }
    }

    fn take(&mut self, cx: &mut Ctx<'_>, i: usize, b: BufferIndex) {
        let found = if self.ip6 { look6(cx, b) } else { look4(cx, b) };
        let Some(mut found) = found else {
            return cx.drop_packet(i, b, DropReason::FragmentMalformed);
        };
        let interfaces = self.shared.interfaces(cx.rcu);
        found.key.table = table_of(cx, interfaces, b, self.ip6);
        // What waits leaves most buffers to the others, and room to those that wait for neighbours.
        let most = cx.pool.capacity() / SHARE;
        let crowded = cx.pool.available() < cx.pool.capacity() / QUARTER;
        let (key, piece, now) = (found.key, found.piece, cx.now);
        let (mut out, mut count, mut dropped) = ([piece; PIECES], 0, 0);
        let mut give = |p: Piece, why: Option<DropReason>| match why {
            None => {
                out[count] = p;
                count += 1;
            }
            Some(reason) => {
                cx.pool.meta_mut(p.buffer).reason = reason.code();
                cx.emit(DROP, p.buffer);
                dropped += 1;
            }
        };
        self.waiting
            .make_room(if crowded { 1 } else { most }, &mut give);
        let done = self.waiting.put(key, piece, found.more, now, &mut give);
        release(cx, dropped);
        match done {
            Put::Whole => self.finish(cx, i, b, &out[..count]),
            Put::Kept => {
                cx.counters.held.add(1);
                cx.next[i] = CONSUMED;
            }
            Put::Refused(reason) => cx.drop_packet(i, b, reason),
        }
    }

    /// Makes one packet of fragments, of which that at position `i` came last. The first lives on in it, the others were
    /// consumed.
    fn finish(&mut self, cx: &mut Ctx<'_>, i: usize, b: BufferIndex, pieces: &[Piece]) {
        release(cx, pieces.len() - 1);
        let made = match self.join(cx, pieces) {
            Ok(made) => made,
            Err(reason) => {
                for p in pieces.iter().filter(|p| p.buffer != b) {
                    cx.pool.meta_mut(p.buffer).reason = reason.code();
                    cx.emit(DROP, p.buffer);
                }
                return cx.drop_packet(i, b, reason);
            }
        };
        for p in &pieces[1..] {
            cx.count_punted(cx.pool.meta(p.buffer).rx_if);
        }
        pieces.iter().for_each(|p| cx.pool.free(p.buffer));
        cx.next[i] = CONSUMED;
        if self.ip6 && is_discovery(cx.pool.bytes(made)) {
            cx.pool.meta_mut(made).reason = DropReason::NdFragmented.code();
            return cx.emit(DROP, made);
        }
        cx.emit(LOCAL, made);
    }

    /// The packet that these are the fragments of; an error, and nothing freed, when it would be too long or there is no
    /// room.
    fn join(&mut self, cx: &mut Ctx<'_>, pieces: &[Piece]) -> Result<BufferIndex, DropReason> {
        let first = pieces[0];
        let meta = *cx.pool.meta(first.buffer);
        let len = self
            .lay_out(cx, first, pieces)
            .ok_or(DropReason::FragmentMalformed)?;
        let made = cx.pool.packet_from(&self.whole[..len], meta.rx_if);
        let made = made.ok_or(DropReason::NoBufferSpace)?;
        let m = cx.pool.meta_mut(made);
        m.flags.0 |= meta.flags.0 & !Flags::CHAINED.0;
        (m.dpo, m.table, m.flow_hash) = (meta.dpo, meta.table, meta.flow_hash);
        (m.trace, m.nesting) = (meta.trace, meta.nesting);
        Ok(made)
    }

    /// Writes the packet, and says its length; `None` when it is longer than any can be.
    fn lay_out(&mut self, cx: &mut Ctx<'_>, first: Piece, pieces: &[Piece]) -> Option<usize> {
        let head = usize::from(first.head);
        let header = self.whole.get_mut(..head)?;
        header.copy_from_slice(cx.pool.bytes(first.buffer).get(..head)?);
        let mut end = match self.ip6 {
            true => drop_fragment_header(header)?,
            false => head,
        };
        for p in pieces {
            end = copy_payload(cx.pool, *p, &mut self.whole[..], end)?;
        }
        let whole = &mut self.whole[..end];
        if self.ip6 {
            let len = u16::try_from(end - HEADER6).ok()?;
            whole[4..6].copy_from_slice(&len.to_be_bytes());
        } else {
            whole[2..4].copy_from_slice(&u16::try_from(end).ok()?.to_be_bytes());
            whole[6..8].fill(0);
            Ipv4Packet::new_unchecked(whole).fill_checksum();
        }
        Some(end)
    }
}

/// So many fragments wait no more.
fn release(cx: &Ctx<'_>, count: usize) {
    let held = &cx.counters.held;
    held.set(held.get() - count as u64);
}

/// Reads an IPv4 fragment; `None` when it cannot be part of a packet.
fn look4(cx: &Ctx<'_>, b: BufferIndex) -> Option<Found> {
    let h: [u8; 20] = *cx.pool.peek(b, 0);
    let head = u16::from(h[0] & 15) * 4;
    let field = u16::from_be_bytes([h[6], h[7]]);
    let (total, ident) = (
        u16::from_be_bytes([h[2], h[3]]),
        u16::from_be_bytes([h[4], h[5]]),
    );
    let address = |at: usize| {
        let mut a = [0; 16];
        a[..4].copy_from_slice(&h[at..at + 4]);
        a
    };
    let key = PacketKey {
        addresses: [address(12), address(16)],
        ident: ident.into(),
        table: 0,
        protocol: h[9],
    };
    let more = field & 0x2000 != 0;
    let from = usize::from(field & 0x1FFF) * 8;
    let piece = piece(cx, b, head, (total.into(), from), more)?;
    Some(Found { key, piece, more })
}

/// Reads an IPv6 fragment; `None` when it cannot be part of a packet.
fn look6(cx: &Ctx<'_>, b: BufferIndex) -> Option<Found> {
    let bytes = cx.pool.bytes(b);
    let ip = Ipv6Packet::new_unchecked(bytes);
    let mut headers = ip.extension_headers().map_while(Result::ok);
    let header = headers.find(|h| h.kind == IpProtocol::FRAGMENT)?;
    let fragment = header.fragment()?;
    let head = (HEADER6 + header.offset + FRAGMENT6) as u16;
    let key = PacketKey {
        addresses: [ip.src_addr().octets(), ip.dst_addr().octets()],
        ident: fragment.ident,
        table: 0,
        protocol: 0,
    };
    let total = HEADER6 + usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
    let from = usize::from(fragment.offset);
    let piece = piece(cx, b, head, (total, from), fragment.more)?;
    Some(Found {
        key,
        piece,
        more: fragment.more,
    })
}

/// The fragment of `total` bytes whose payload belongs at `from`; `None` when it is empty, is not there as it says, ends
/// behind the longest packet, or has an end in the middle that none can have.
fn piece(
    cx: &Ctx<'_>,
    b: BufferIndex,
    head: u16,
    (total, from): (usize, usize),
    more: bool,
) -> Option<Piece> {
    let m = cx.pool.meta(b);
    let there = m.len >= head && m.total_len() as usize >= total;
    let len = total.checked_sub(usize::from(head)).filter(|n| *n != 0)?;
    let to = from + len;
    if !there || to > LONGEST || more && len % 8 != 0 {
        return None;
    }
    Some(Piece {
        buffer: b,
        head,
        from: from as u16,
        to: to as u16,
    })
}

/// Takes the fragment header off the end of a packet's headers; says how long they are then.
fn drop_fragment_header(headers: &mut [u8]) -> Option<usize> {
    let head = headers.len().checked_sub(FRAGMENT6)?;
    let next = headers[head];
    let ip = Ipv6Packet::new_unchecked(&*headers);
    let before = ip
        .extension_headers()
        .map_while(Result::ok)
        .take_while(|h| h.kind != IpProtocol::FRAGMENT)
        .last();
    let named_at = before.map_or(6, |h| HEADER6 + h.offset);
    *headers.get_mut(named_at)? = next;
    Some(head)
}

/// Neighbour discovery may not come in fragments (RFC 6980): whoever looks at links could not see it.
pub fn is_discovery(packet: &[u8]) -> bool {
    let upper = Ipv6Packet::new_unchecked(packet).upper_layer();
    upper.is_ok_and(|u| {
        let kind = packet.get(u.offset).copied().unwrap_or(0);
        u.protocol == IpProtocol::ICMPV6 && (133..=137).contains(&kind)
    })
}

impl Node for LocalReassembly {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        for (i, &b) in frame.packets().iter().enumerate() {
            self.take(cx, i, b);
        }
        Dispatch::Each
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn deadline(&self) -> Option<u64> {
        self.waiting.deadline()
    }

    fn tick(&mut self, cx: &mut Ctx<'_>) {
        let mut count = 0;
        let error = if self.ip6 {
            IcmpAsk::reassembly_time_exceeded6()
        } else {
            IcmpAsk::reassembly_time_exceeded4()
        };
        self.waiting.expire(cx.now, |p| {
            ask(cx, p.buffer, DropReason::ReassemblyTimeout, error);
            // The sender is told by its first fragment, if that came.
            cx.emit(if p.from == 0 { ICMP_ERROR } else { DROP }, p.buffer);
            count += 1;
        });
        release(cx, count);
    }
}
