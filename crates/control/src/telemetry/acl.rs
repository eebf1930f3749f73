//! Which access list dropped a packet: asked again, with the first bytes of the packet that the drop left.
//!
//! Lists that were changed since answer for themselves: what is told is what would drop the packet now.

use parshall_acl::{AclTables, Key, Key4, Key6};
use parshall_agent::AclMatch;
use parshall_sample::{DropSlot, HeaderProtocol};

use super::port::Port;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Most tags that the nodes look behind.
const MAX_TAGS: usize = 2;

/// The list of `port` that decides about a packet now: that of the first rule that matches, or the last one, behind which
/// everything is denied.
pub(super) fn decided(
    tables: &AclTables,
    port: &Port,
    slot: &DropSlot,
    outward: bool,
) -> Option<AclMatch> {
    let table = if outward {
        &tables.output
    } else {
        &tables.input
    };
    let entry = table.get(port.index as usize)?.as_ref()?;
    let rules = &entry.lists;
    let found = key(slot).and_then(|k| rules.classifier.find(&k));
    if rules.permits(found) {
        return None;
    }
    let names = &port.acls[usize::from(outward)];
    let at = rules.list_of(found);
    let (number, name) = names.get(at.unwrap_or(names.len().checked_sub(1)?))?;
    Some(AclMatch {
        number: *number,
        name: name.clone(),
        outward,
    })
}

/// What rules look at in a dropped packet.
fn key(slot: &DropSlot) -> Option<Key> {
    let bytes = slot.bytes();
    let (kind, at) = match slot.protocol {
        HeaderProtocol::Ethernet => network(bytes)?,
        other => (other.ethertype(), 0),
    };
    let packet = bytes.get(at..)?;
    match kind {
        0x0800 => Key4::read(packet).map(Key::Ip4),
        0x86DD => Key6::read(packet).map(Key::Ip6),
        _ => None,
    }
}

/// Type and place of what a frame carries.
fn network(frame: &[u8]) -> Option<(u16, usize)> {
    let mut at = ETHERNET;
    loop {
        let kind = u16::from_be_bytes(*frame.get(at - 2..)?.first_chunk()?);
        match kind {
            0x8100 | 0x88A8 | 0x9100 if at < ETHERNET + 4 * MAX_TAGS => at += 4,
            _ => return Some((kind, at)),
        }
    }
}
