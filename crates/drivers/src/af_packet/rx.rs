//! Receiving from the ring: completes checksums, puts VLAN tags back, cuts super-frames.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use parshall_buffer::{Frame, Pool};
use parshall_device::{RxBurst, RxQueue};

use super::checksum;
use super::ring::Ring;
use super::segment::SuperFrame;
use super::sys::{self, VnetHeader};

/// Bytes of an Ethernet header, the least a frame has.
const ETHERNET: usize = 14;
/// Where a VLAN tag stands: behind the two addresses.
const TAG_AT: usize = 12;
/// EtherType of a tag whose own the kernel does not say.
const TPID_DEFAULT: u16 = 0x8100;
/// Longest frame taken from the socket queue: the largest IP packet with headers around it.
const LONG_FRAME: usize = 65_536 + 256;
/// After so many polls without a packet a pending socket error and drops are looked for.
const IDLE_POLLS: u32 = 64;

/// One receive queue.
pub(super) struct PacketRx {
    ring: Ring,
    fd: OwnedFd,
    if_index: u32,
    idle: u32,
    /// A super-frame of which segments are left.
    cut: SuperFrame,
    /// Where frames longer than a slot are read to.
    long: Vec<u8>,
}

/// A VLAN tag as it stands in a frame, or nothing.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tag {
    bytes: [u8; 4],
    len: usize,
}

impl PacketRx {
    pub fn new(fd: OwnedFd, ring: Ring, if_index: u32) -> PacketRx {
        let long = vec![0; VnetHeader::LEN + LONG_FRAME];
        PacketRx {
            ring,
            fd,
            if_index,
            idle: 0,
            cut: SuperFrame::default(),
            long,
        }
    }

    /// Takes the frame in the slot at our place, which is ours, and gives the slot back.
    fn take_slot(&mut self, status: u32, pool: &mut Pool, frame: &mut Frame, burst: &mut RxBurst) {
        let header = self.ring.header();
        let tag = tag_of(status, &header);
        if header.tp_snaplen < header.tp_len {
            self.ring.pass(libc::TP_STATUS_KERNEL);
            if status & libc::TP_STATUS_COPY != 0 {
                return self.take_long(tag, pool, frame, burst);
            }
            // The socket queue was full: the kernel has lost the rest of it.
            burst.missed += 1;
            return;
        }
        let (mac, len) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        let start = mac.saturating_sub(VnetHeader::LEN);
        match self.ring.bytes_mut(start, VnetHeader::LEN + len) {
            Some(bytes) => take(bytes, tag, &mut self.cut, self.if_index, pool, frame, burst),
            None => burst.errors += 1,
        }
        self.ring.pass(libc::TP_STATUS_KERNEL);
    }

    /// Takes a frame longer than a slot from the socket queue, where frames lie in the ring's order.
    fn take_long(&mut self, tag: Tag, pool: &mut Pool, frame: &mut Frame, burst: &mut RxBurst) {
        // A pending error (the interface went down meanwhile) is told first, once.
        let got = sys::receive_long(&self.fd, &mut self.long)
            .or_else(|_| sys::receive_long(&self.fd, &mut self.long));
        match got.ok().and_then(|n| self.long.get_mut(..n)) {
            Some(bytes) => take(bytes, tag, &mut self.cut, self.if_index, pool, frame, burst),
            None => burst.errors += 1,
        }
    }

    fn drain_segments(&mut self, pool: &mut Pool, frame: &mut Frame, burst: &mut RxBurst) {
        drain(&mut self.cut, self.if_index, pool, frame, burst);
    }

    /// Nothing came: looks now and then for what only shows when asked for. Says how many frames the
    /// kernel has dropped.
    fn on_idle(&mut self) -> u64 {
        self.idle += 1;
        if self.idle < IDLE_POLLS {
            return 0;
        }
        self.idle = 0;
        sys::clear_error(&self.fd);
        sys::drops(&self.fd)
    }
}

impl RxQueue for PacketRx {
    fn poll(&mut self, pool: &mut Pool, frame: &mut Frame, _now: u64) -> RxBurst {
        let mut burst = RxBurst::default();
        let mut seen = 0;
        self.drain_segments(pool, frame, &mut burst);
        while frame.room() > 0 {
            let status = self.ring.status();
            if status & libc::TP_STATUS_USER == 0 {
                break;
            }
            seen |= status;
            self.take_slot(status, pool, frame, &mut burst);
            self.drain_segments(pool, frame, &mut burst);
        }
        if seen == 0 {
            burst.missed += self.on_idle();
        } else {
            self.idle = 0;
        }
        // The kernel marks slots from its first drop until it is asked how many there were.
        if seen & libc::TP_STATUS_LOSING != 0 {
            burst.missed += sys::drops(&self.fd);
        }
        frame.rx_if = self.if_index;
        burst
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.fd.as_raw_fd())
    }

    fn due(&self, now: u64) -> Option<u64> {
        // Segments at hand do not show on the descriptor.
        self.cut.pending().then_some(now)
    }
}

/// The tag the kernel took out of a frame.
fn tag_of(status: u32, header: &libc::tpacket2_hdr) -> Tag {
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return Tag::default();
    }
    let told = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let tpid = if told {
        header.tp_vlan_tpid
    } else {
        TPID_DEFAULT
    };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), header.tp_vlan_tci.to_be_bytes());
    Tag {
        bytes: [a, b, c, d],
        len: 4,
    }
}

/// Makes packets of one frame as the kernel gave it, vnet header in front. A super-frame goes into
/// `cut` and is handed out from there.
pub(crate) fn take(
    bytes: &mut [u8],
    tag: Tag,
    cut: &mut SuperFrame,
    if_index: u32,
    pool: &mut Pool,
    frame: &mut Frame,
    burst: &mut RxBurst,
) {
    let Some((vnet, data)) = bytes.split_first_chunk_mut() else {
        burst.errors += 1;
        return;
    };
    let vnet = VnetHeader::parse(vnet);
    if data.len() < ETHERNET {
        burst.errors += 1;
        return;
    }
    if vnet.gso_type != VnetHeader::GSO_NONE {
        let (macs, rest) = data.split_at(TAG_AT);
        let csum_start = vnet.csum_start.saturating_add(tag.len as u16);
        if !cut.load(
            &[macs, &tag.bytes[..tag.len], rest],
            &VnetHeader { csum_start, ..vnet },
        ) {
            burst.errors += 1;
        }
        return;
    }
    if vnet.flags & VnetHeader::NEEDS_CSUM != 0 {
        let (start, offset) = (usize::from(vnet.csum_start), usize::from(vnet.csum_offset));
        if !checksum::complete(data, start, offset) {
            burst.errors += 1;
            return;
        }
    }
    if tag.len == 0 {
        deliver(&[data], if_index, pool, frame, burst);
    } else {
        let (macs, rest) = data.split_at(TAG_AT);
        deliver(&[macs, &tag.bytes, rest], if_index, pool, frame, burst);
    }
}

/// Hands out segments of the super-frame at hand while the frame has room.
pub(crate) fn drain(
    cut: &mut SuperFrame,
    if_index: u32,
    pool: &mut Pool,
    frame: &mut Frame,
    burst: &mut RxBurst,
) {
    while cut.pending() && frame.room() > 0 {
        let mut room = SuperFrame::header_room();
        match cut.next(&mut room) {
            Some(s) => deliver(&[s.header, s.payload], if_index, pool, frame, burst),
            None => burst.errors += 1,
        }
    }
}

/// Makes one packet of `parts` and adds it to the frame.
fn deliver(
    parts: &[&[u8]],
    if_index: u32,
    pool: &mut Pool,
    frame: &mut Frame,
    burst: &mut RxBurst,
) {
    let len: usize = parts.iter().map(|p| p.len()).sum();
    match pool.packet_from_parts(parts.iter().copied(), len, if_index) {
        Some(b) => {
            frame.push(b);
            burst.bytes += len as u64;
        }
        None => burst.no_buffer += 1,
    }
}
