//! `macip-in-l2`, `macip-in-ip4` and `macip-in-ip6`: stations send from their own addresses only, with the meaning of VPP's MAC-IP lists.
//!
//! Frames of a bridge domain's ports and of cross-connects are judged whole, ARP among them; on interfaces that route, unicast packets by
//! the source of the frame they came in. What an interface has no list for never comes here.
//!
//! Drop reason: `acl_deny`.

use std::marker::PhantomData;
use std::sync::Arc;

use parshall_acl::Macip;
use parshall_buffer::{BufferIndex, Frame, Pool};
use parshall_counters::DropReason;
use parshall_graph::{CONTINUE, Ctx, Dispatch, Feature, Node, NodeSpec};

use crate::state::Shared;
use crate::trace::{format_ip4, format_ip6};

/// Description of the node for frames received in layer 2.
pub const IN_L2: NodeSpec = spec("macip-in-l2", "l2-input", &["acl-in-l2"]);
/// Description of the node for received IPv4 packets.
pub const IN_IP4: NodeSpec =
    spec("macip-in-ip4", "ip4-unicast", &["acl-in-ip4"]).format(format_ip4);
/// Description of the node for received IPv6 packets.
pub const IN_IP6: NodeSpec =
    spec("macip-in-ip6", "ip6-unicast", &["acl-in-ip6"]).format(format_ip6);

const fn spec(name: &'static str, arc: &'static str, before: &'static [&'static str]) -> NodeSpec {
    NodeSpec::new(name, &[]).feature(Feature {
        arc,
        before,
        after: &[],
    })
}

/// Bytes that are read of a packet whose first buffer is shorter.
const GATHERED: usize = 64;

/// Where lists are applied.
pub trait Place: Send + 'static {
    /// Whether `bytes`, from the current header on, may come from `mac`.
    fn permits(list: &Macip, mac: [u8; 6], bytes: &[u8]) -> bool;
}

/// Frames in layer 2.
pub struct L2In;
/// IPv4 packets.
pub struct Ip4In;
/// IPv6 packets.
pub struct Ip6In;

impl Place for L2In {
    fn permits(list: &Macip, _: [u8; 6], bytes: &[u8]) -> bool {
        list.permits_frame(bytes)
    }
}

impl Place for Ip4In {
    fn permits(list: &Macip, mac: [u8; 6], bytes: &[u8]) -> bool {
        list.permits_ip4(mac, bytes)
    }
}

impl Place for Ip6In {
    fn permits(list: &Macip, mac: [u8; 6], bytes: &[u8]) -> bool {
        list.permits_ip6(mac, bytes)
    }
}

/// The node for one place.
pub struct MacipIn<P: Place> {
    shared: Arc<Shared>,
    place: PhantomData<P>,
}

impl<P: Place> MacipIn<P> {
    /// Over this state.
    pub fn new(shared: Arc<Shared>) -> MacipIn<P> {
        MacipIn {
            shared,
            place: PhantomData,
        }
    }
}

fn permits<P: Place>(list: &Macip, pool: &mut Pool, b: BufferIndex) -> bool {
    let m = pool.meta(b);
    let (l2, short) = (m.l2, m.tail_len != 0 && usize::from(m.len) < GATHERED);
    let mac = *pool.view().peek::<6>(b, l2.saturating_add(6));
    if !short {
        return P::permits(list, mac, pool.bytes(b));
    }
    let mut bytes = [0; GATHERED];
    let n = pool.copy_out(b, &mut bytes);
    P::permits(list, mac, &bytes[..n])
}

impl<P: Place> Node for MacipIn<P> {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let tables = self.shared.macips.load(cx.rcu);
        let packets = frame.packets();
        cx.next[..packets.len()].fill(CONTINUE);
        let mut denied = false;
        for (i, &b) in packets.iter().enumerate() {
            let interface = cx.pool.meta(b).rx_if as usize;
            let list = tables.input.get(interface).and_then(Option::as_ref);
            if list.is_some_and(|l| !permits::<P>(l, cx.pool, b)) {
                cx.drop_packet(i, b, DropReason::AclDeny);
                denied = true;
            }
        }
        if denied {
            Dispatch::Each
        } else {
            Dispatch::All(CONTINUE)
        }
    }
}
