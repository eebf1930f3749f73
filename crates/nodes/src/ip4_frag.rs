//! `ip4-frag`: cuts a packet that is too big for its link into fragments (RFC 791 section 3.2).
//!
//! The rewrite node, or the one that pushes labels, sends a packet here with the MTU in its scratch word;
//! each fragment goes back there with the same forwarding object. Options that must be copied are (RFC 791 section 3.1), others stay
//! in the first fragment.
//!
//! Drop reasons: `no_buffer_space`, `fragmentation_needed` (MTU too small to carry any payload).

use parshall_buffer::{BufferIndex, Frame, Meta};
use parshall_counters::DropReason;
use parshall_fib::{Dpo, DpoKind};
use parshall_graph::{CONSUMED, Ctx, Dispatch, Node, NodeSpec};
use parshall_wire::Ipv4Packet;

use crate::trace::format_ip4;

/// The node's description.
pub const SPEC: NodeSpec =
    NodeSpec::new("ip4-frag", &["ip4-rewrite", "mpls-label-imposition"]).format(format_ip4);

const REWRITE: u16 = 0;
const IMPOSITION: u16 = 1;
/// Longest IPv4 packet and header.
const MAX_PACKET: usize = 65_535;
const MAX_HEADER: usize = 60;

/// The node, with room to lay out a packet and a fragment.
pub struct Ip4Frag {
    packet: Box<[u8; MAX_PACKET + 1]>,
    piece: Box<[u8; MAX_PACKET + 1]>,
}

impl Ip4Frag {
    /// The node.
    pub fn new() -> Ip4Frag {
        Ip4Frag {
            packet: Box::new([0; MAX_PACKET + 1]),
            piece: Box::new([0; MAX_PACKET + 1]),
        }
    }

    /// Emits the fragments of packet `b` and says how many; `Err` leaves the packet alone.
    fn fragment(&mut self, cx: &mut Ctx<'_>, b: BufferIndex) -> Result<u64, DropReason> {
        let m = *cx.pool.meta(b);
        let mtu = m.scratch[0] as usize;
        let len = cx.pool.copy_out(b, &mut self.packet[..]);
        let whole =
            Ipv4Packet::new_checked(&self.packet[..len]).map_err(|_| DropReason::Ip4BadLength)?;
        let (header_len, first_offset, more_follow) = (
            whole.header_len(),
            usize::from(whole.fragment_offset()),
            whole.more_fragments(),
        );
        let later = later_header(&self.packet[..header_len]);
        let step = mtu.saturating_sub(header_len) & !7;
        if step == 0 {
            return Err(DropReason::FragmentationNeeded);
        }
        let labelled = Dpo::from_bits(m.dpo).kind() == DpoKind::MplsImpose;
        let back = if labelled { IMPOSITION } else { REWRITE };
        let payload = header_len..len;
        let count = payload.len().div_ceil(step).max(1);
        let buffers = count * (mtu.div_ceil(parshall_buffer::DATA_SIZE) + 1);
        if cx.pool.available() < buffers {
            return Err(DropReason::NoBufferSpace);
        }
        for k in 0..count {
            let from = header_len + k * step;
            let to = (from + step).min(len);
            let header = if k == 0 {
                &self.packet[..header_len]
            } else {
                &later.0[..later.1]
            };
            let more = to < len || more_follow;
            let n = lay_out(
                &mut self.piece[..],
                header,
                &self.packet[from..to],
                first_offset + k * step,
                more,
            );
            let Some(f) = cx.pool.packet_from(&self.piece[..n], m.rx_if) else {
                return Err(DropReason::NoBufferSpace);
            };
            inherit(cx.pool.meta_mut(f), &m);
            cx.emit(back, f);
        }
        Ok(count as u64)
    }
}

/// What a fragment has from its packet.
fn inherit(f: &mut Meta, m: &Meta) {
    f.flags.0 |= m.flags.0 & !parshall_buffer::Flags::CHAINED.0;
    (f.dpo, f.table, f.flow_hash) = (m.dpo, m.table, m.flow_hash);
    (f.trace, f.nesting) = (m.trace, m.nesting);
    f.l3 = f.data;
    f.l2 = f.data;
}

/// Header of the fragments after the first: only options with the copied flag, padded to four bytes.
fn later_header(header: &[u8]) -> ([u8; MAX_HEADER], usize) {
    let mut out = [0; MAX_HEADER];
    out[..20].copy_from_slice(&header[..20]);
    let mut n = 20;
    let mut rest = &header[20..];
    while let [kind, tail @ ..] = rest {
        let len = match (kind, tail) {
            (0, _) => break,
            (1, _) => 1,
            (_, [len, ..]) if (2..=rest.len()).contains(&usize::from(*len)) => usize::from(*len),
            _ => break,
        };
        if kind & 0x80 != 0 {
            out[n..n + len].copy_from_slice(&rest[..len]);
            n += len;
        }
        rest = &rest[len..];
    }
    let n = n.next_multiple_of(4);
    out[0] = 0x40 | (n / 4) as u8;
    (out, n)
}

/// Writes one fragment; says its length.
fn lay_out(out: &mut [u8], header: &[u8], payload: &[u8], offset: usize, more: bool) -> usize {
    let n = header.len() + payload.len();
    out[..header.len()].copy_from_slice(header);
    out[header.len()..n].copy_from_slice(payload);
    let field = (offset / 8) as u16 & 0x1FFF | if more { 0x2000 } else { 0 };
    out[6..8].copy_from_slice(&field.to_be_bytes());
    let mut p = Ipv4Packet::new_unchecked(&mut out[..n]);
    p.set_total_len(n as u16);
    p.fill_checksum();
    n
}

impl Node for Ip4Frag {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        for (i, &b) in frame.packets().iter().enumerate() {
            match self.fragment(cx, b) {
                Ok(count) => {
                    cx.count_originated(count - 1);
                    cx.pool.free(b);
                    cx.next[i] = CONSUMED;
                }
                Err(reason) => cx.drop_packet(i, b, reason),
            }
        }
        Dispatch::Each
    }
}
