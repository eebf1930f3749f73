//! A labelled stream (RFC 3032): frames with a label that the router must swap, checked at the other end.

use std::sync::Arc;

use parshall_wire::{EtherType, EthernetFrame, MacAddr, MplsStack, PacketBuilder};

use super::{Kind, Traffic, WAIT, is_timeout, paced};
use crate::error::Result;
use crate::sys::PacketSocket;
use crate::topology::{A, B, HOST_IF, Host};

/// The label that host A sends.
pub const LABEL_IN: u32 = 100;
/// The label that host B is to get.
pub const LABEL_OUT: u32 = 200;
/// Frames a second.
const PER_SECOND: u32 = 1000;
/// Bytes of payload.
const SIZE: usize = 400;

impl Traffic {
    /// Starts the stream from host A to host B.
    pub(super) fn mpls(&mut self, from: &Host, to: &Host) -> Result<()> {
        let sender = PacketSocket::open(&from.ns, HOST_IF, 0, WAIT)?;
        let receiver = PacketSocket::open(&to.ns, HOST_IF, EtherType::MPLS.0, WAIT)?;
        let stats = self.stream("mpls", Kind::Datagrams, from);
        let (theirs, stop) = (Arc::clone(&stats), self.ends.senders.clone());
        let frame = frame();
        self.thread("mpls", move || {
            paced(&stop, PER_SECOND, &theirs, |_| sender.send(&frame))
        })?;
        let stop = self.ends.receivers.clone();
        self.thread("mpls", move || {
            let mut buf = [0; 2048];
            while !stop.asked() {
                match receiver.recv(&mut buf) {
                    Ok(n) if is_ours(buf.get(..n).unwrap_or(&[])) => stats.received(n),
                    Ok(_) => {}
                    Err(e) if is_timeout(&e) => {}
                    Err(e) => stats.trouble(format!("cannot receive: {e}")),
                }
            }
        })
    }
}

/// What host A sends: UDP in IPv4 under one label.
fn frame() -> Vec<u8> {
    PacketBuilder::ethernet(MacAddr(A.host_mac), MacAddr(A.router_mac))
        .mpls(LABEL_IN)
        .ipv4(A.host4, B.host4)
        .udp(9000, 9001)
        .payload_len(SIZE)
        .build()
}

/// Whether it is what the router is to make of it.
fn is_ours(frame: &[u8]) -> bool {
    let Ok(frame) = EthernetFrame::new_checked(frame) else {
        return false;
    };
    let top = MplsStack::new(frame.payload()).next();
    frame.dst_addr() == MacAddr(B.host_mac)
        && matches!(top, Some(Ok(entry)) if entry.label().get() == LABEL_OUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_swapped_frame_counts() {
        let swapped = |label| {
            PacketBuilder::ethernet(MacAddr(B.router_mac), MacAddr(B.host_mac))
                .mpls(label)
                .ipv4(A.host4, B.host4)
                .udp(9000, 9001)
                .build()
        };
        assert!(is_ours(&swapped(LABEL_OUT)));
        assert!(!is_ours(&swapped(LABEL_IN)));
        assert!(!is_ours(&frame()));
        assert!(!is_ours(&[]));
    }
}
