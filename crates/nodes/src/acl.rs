//! `acl-in-ip4`, `acl-in-ip6`, `acl-in-l2` and `acl-out`: access lists, with the meaning of VPP's acl plugin.
//!
//! The first rule that matches decides, what matches none is dropped, frames that are not IP pass. On interfaces that
//! route, the input lists see unicast packets; in layer 2 and on the way out they see whole frames, through up to two
//! VLAN tags. What an interface has no lists for never comes here. Packets of one flow that follow each other are
//! looked up once. Neighbour discovery that the router itself sends passes: without it nothing would.
//!
//! A packet that hides what rules ask for (a header cut short, too many extension headers) is dropped, too.
//!
//! Drop reason: `acl_deny`.

use std::marker::PhantomData;
use std::sync::Arc;

use parshall_acl::{Classifier, Entry, Key, Key4, Key6};
use parshall_buffer::{BufferIndex, Flags, Frame, IF_MIXED, Pool};
use parshall_counters::DropReason;
use parshall_graph::wide::{Isa, WideNode};
use parshall_graph::{CONTINUE, Ctx, Dispatch, Feature, NodeSpec};

use crate::state::Shared;
use crate::trace::{format_ip4, format_ip6};

/// Description of the node for received IPv4 packets.
pub const IN_IP4: NodeSpec = input("acl-in-ip4", "ip4-unicast").format(format_ip4);
/// Description of the node for received IPv6 packets.
pub const IN_IP6: NodeSpec = input("acl-in-ip6", "ip6-unicast").format(format_ip6);
/// Description of the node for frames received in layer 2.
pub const IN_L2: NodeSpec = input("acl-in-l2", "l2-input");
/// Description of the node for what is sent.
pub const OUT: NodeSpec = NodeSpec::new("acl-out", &[]).feature(Feature {
    arc: "interface-output",
    before: &["sflow-output", "pcap-tx"],
    after: &[],
});

const fn input(name: &'static str, arc: &'static str) -> NodeSpec {
    NodeSpec::new(name, &[])
        .feature(Feature {
            arc,
            before: &[],
            after: &[],
        })
        .by_interface()
}

/// Bytes of a packet that are read where its first buffer is shorter.
const GATHERED: usize = 256;
/// A first buffer that holds so much is read alone.
const ENOUGH: u16 = 192;
const ETHERNET: usize = 14;

/// What a packet is to the rules.
pub enum Look<K> {
    /// They judge it.
    Key(K),
    /// It does not show what they ask for.
    Hidden,
    /// It is none of their business.
    Other,
}

/// Where lists are applied.
pub trait Place: Send + 'static {
    /// What rules look at there.
    type Key: Copy + PartialEq;
    /// The lists of the way out count, not those of the way in.
    const OUT: bool = false;
    /// Reads a packet from its current header on.
    fn look(bytes: &[u8]) -> Look<Self::Key>;
    /// The first rule that matches.
    fn find(rules: &Classifier, key: &Self::Key) -> Option<u32>;
    /// Whether a packet that the router made passes anyway.
    fn is_exempt(_key: &Self::Key) -> bool {
        false
    }
}

/// Received IPv4 packets.
pub struct Ip4In;
/// Received IPv6 packets.
pub struct Ip6In;
/// Frames received in layer 2.
pub struct L2In;
/// Frames that are sent.
pub struct Out;

fn shown<K>(key: Option<K>) -> Look<K> {
    key.map_or(Look::Hidden, Look::Key)
}

impl Place for Ip4In {
    type Key = Key4;
    #[inline(always)]
    fn look(bytes: &[u8]) -> Look<Key4> {
        shown(Key4::read(bytes))
    }
    #[inline(always)]
    fn find(rules: &Classifier, key: &Key4) -> Option<u32> {
        rules.find4(key)
    }
}

impl Place for Ip6In {
    type Key = Key6;
    #[inline(always)]
    fn look(bytes: &[u8]) -> Look<Key6> {
        shown(Key6::read(bytes))
    }
    #[inline(always)]
    fn find(rules: &Classifier, key: &Key6) -> Option<u32> {
        rules.find6(key)
    }
}

/// Reads a frame from its Ethernet header on.
#[inline(always)]
fn look_at_frame(bytes: &[u8]) -> Look<Key> {
    let mut at = ETHERNET;
    loop {
        let Some(kind) = bytes.get(at - 2..).and_then(|t| t.first_chunk::<2>()) else {
            return Look::Other;
        };
        let packet = &bytes[at..];
        match u16::from_be_bytes(*kind) {
            0x0800 => return shown(Key4::read(packet).map(Key::Ip4)),
            0x86DD => return shown(Key6::read(packet).map(Key::Ip6)),
            0x8100 | 0x88A8 | 0x9100 if at < ETHERNET + 8 => at += 4,
            _ => return Look::Other,
        }
    }
}

#[inline(always)]
fn find_either(rules: &Classifier, key: &Key) -> Option<u32> {
    match key {
        Key::Ip4(k) => rules.find4(k),
        Key::Ip6(k) => rules.find6(k),
    }
}

impl Place for L2In {
    type Key = Key;
    #[inline(always)]
    fn look(bytes: &[u8]) -> Look<Key> {
        look_at_frame(bytes)
    }
    #[inline(always)]
    fn find(rules: &Classifier, key: &Key) -> Option<u32> {
        find_either(rules, key)
    }
}

impl Place for Out {
    type Key = Key;
    const OUT: bool = true;
    #[inline(always)]
    fn look(bytes: &[u8]) -> Look<Key> {
        look_at_frame(bytes)
    }
    #[inline(always)]
    fn find(rules: &Classifier, key: &Key) -> Option<u32> {
        find_either(rules, key)
    }
    fn is_exempt(key: &Key) -> bool {
        // RFC 4861: router solicitation to redirect.
        matches!(key, Key::Ip6(k) if k.l4.proto == 58 && (133..=137).contains(&k.l4.sport))
    }
}

/// The node for one place.
pub struct Acl<P: Place> {
    shared: Arc<Shared>,
    /// Its worker's place in the counters of rules.
    seat: usize,
    place: PhantomData<P>,
}

/// Packets that the same rule decided, one after the other.
struct Run<'t, K> {
    entry: &'t Entry,
    key: Option<K>,
    found: Option<u32>,
    permit: bool,
    packets: u64,
    bytes: u64,
}

impl<K> Run<'_, K> {
    #[inline(always)]
    fn count(&self, seat: usize) {
        if self.packets != 0 {
            self.entry.count(seat, self.found, self.packets, self.bytes);
        }
    }
}

impl<P: Place> Acl<P> {
    /// Over this state; `seat` is the worker's place in the counters of rules.
    pub fn new(shared: Arc<Shared>, seat: usize) -> Acl<P> {
        Acl {
            shared,
            seat,
            place: PhantomData,
        }
    }

    /// Whether packet `b` may go on, by what `entry` says of it; counts it.
    #[inline(always)]
    fn judge<'t>(
        &self,
        pool: &Pool,
        b: BufferIndex,
        entry: &'t Entry,
        run: &mut Option<Run<'t, P::Key>>,
    ) -> bool {
        let key = match look::<P>(pool, b) {
            Look::Key(k) => Some(k),
            Look::Hidden => None,
            Look::Other => return true,
        };
        let m = pool.meta(b);
        let made_here = m.flags.has(Flags::ORIGINATED);
        if P::OUT && made_here && key.as_ref().is_some_and(P::is_exempt) {
            return true;
        }
        let bytes = u64::from(m.total_len());
        if let Some(r) = run.as_mut()
            && std::ptr::eq(r.entry, entry)
            && r.key == key
        {
            (r.packets, r.bytes) = (r.packets + 1, r.bytes + bytes);
            return r.permit;
        }
        let found = key.and_then(|k| P::find(&entry.lists.classifier, &k));
        if let Some(r) = run.as_mut()
            && std::ptr::eq(r.entry, entry)
            && r.found == found
        {
            (r.key, r.packets, r.bytes) = (key, r.packets + 1, r.bytes + bytes);
            return r.permit;
        }
        if let Some(r) = run {
            r.count(self.seat);
        }
        let permit = entry.lists.permits(found);
        *run = Some(Run {
            entry,
            key,
            found,
            permit,
            packets: 1,
            bytes,
        });
        permit
    }
}

/// Reads a packet; one whose first buffer may not hold all headers is put together first.
#[inline(always)]
fn look<P: Place>(pool: &Pool, b: BufferIndex) -> Look<P::Key> {
    let m = pool.meta(b);
    if m.tail_len == 0 || m.len >= ENOUGH {
        return P::look(pool.bytes(b));
    }
    gathered::<P>(pool, b)
}

#[cold]
fn gathered<P: Place>(pool: &Pool, b: BufferIndex) -> Look<P::Key> {
    let mut bytes = [0; GATHERED];
    let n = pool.copy_out(b, &mut bytes);
    P::look(&bytes[..n])
}

impl<P: Place> WideNode for Acl<P> {
    #[inline(always)]
    fn process<I: Isa>(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        let tables = self.shared.acls.load(cx.rcu);
        let table = if P::OUT {
            &tables.output
        } else {
            &tables.input
        };
        let of = |interface: u32| table.get(interface as usize).and_then(Option::as_ref);
        let common = if P::OUT { frame.tx_if } else { frame.rx_if };
        let shared_entry = of(common);
        let packets = frame.packets();
        let mut run: Option<Run<'_, P::Key>> = None;
        let mut each = false;
        for (i, &b) in packets.iter().enumerate() {
            let entry = if common == IF_MIXED {
                let m = cx.pool.meta(b);
                of(if P::OUT { m.tx_if } else { m.rx_if })
            } else {
                shared_entry
            };
            if entry.is_none_or(|e| self.judge(cx.pool, b, e, &mut run)) {
                continue;
            }
            if !each {
                each = true;
                cx.next[..packets.len()].fill(CONTINUE);
            }
            cx.drop_packet(i, b, DropReason::AclDeny);
        }
        if let Some(r) = run {
            r.count(self.seat);
        }
        if each {
            Dispatch::Each
        } else {
            Dispatch::All(CONTINUE)
        }
    }
}
