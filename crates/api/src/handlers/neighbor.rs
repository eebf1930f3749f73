//! Neighbours.

use parshall_control::{Family, NeighborState, Router};
use parshall_vpp_wire::msg;
use parshall_vpp_wire::msg::*;

use super::{NONE, name_of};
use crate::registry::{Answers, Done, Refusal, Registry};
use crate::retval;

pub(super) fn register(t: &mut Registry) {
    t.answer(|r, m: &IpNeighborAddDel| {
        change(r, &m.neighbor, m.is_add)?;
        Ok(IpNeighborAddDelReply {
            retval: 0,
            stats_index: 0,
        })
    });
    t.dump(dump);
    // Nobody else's addresses are answered for.
    t.dump(|_, _: &ProxyArpDump, _| {});
    t.dump(|_, _: &ProxyArpIntfcDump, _| {});
    t.ack(|r, m: &IpNeighborFlush| {
        let family = family(m.af);
        let all: Vec<_> = r.neighbors(family).map(|(key, _)| *key).collect();
        for key in all
            .iter()
            .filter(|k| m.sw_if_index == NONE || m.sw_if_index == k.if_index)
        {
            let name = name_of(r, key.if_index)?;
            r.remove_neighbor(&name, key.ip)?;
        }
        Ok(())
    });
}

fn family(af: AddressFamily) -> Family {
    super::address::family(af == AddressFamily::ADDRESS_IP6)
}

fn change(r: &mut Router, n: &msg::IpNeighbor, add: bool) -> Done<()> {
    let name = name_of(r, n.sw_if_index)?;
    let ip = n.ip_address.ip();
    let ip = ip.ok_or_else(|| Refusal::new(retval::VALUE, "an address of no family"))?;
    if add {
        let fixed = n.flags.has(IpNeighborFlags::IP_API_NEIGHBOR_FLAG_STATIC);
        return Ok(r.add_neighbor(&name, ip, n.mac_address, fixed)?);
    }
    let there = r
        .neighbors(Family::of(ip))
        .any(|(k, _)| (k.if_index, k.ip) == (n.sw_if_index, ip));
    if !there {
        return Err(Refusal::new(
            retval::NO_ENTRY,
            format!("no neighbour {ip} on {name}"),
        ));
    }
    Ok(r.remove_neighbor(&name, ip)?)
}

fn dump(r: &Router, m: &IpNeighborDump, out: &mut Answers) {
    let mut all: Vec<_> = r.neighbors(family(m.af)).collect();
    all.sort_unstable_by_key(|(key, _)| **key);
    for (key, n) in all {
        let Some(mac_address) = n.mac else { continue };
        if m.sw_if_index != NONE && m.sw_if_index != key.if_index {
            continue;
        }
        let flags = if n.state == NeighborState::Static {
            IpNeighborFlags::IP_API_NEIGHBOR_FLAG_STATIC
        } else {
            IpNeighborFlags::IP_API_NEIGHBOR_FLAG_NONE
        };
        out.send(&IpNeighborDetails {
            age: r.age(n),
            neighbor: msg::IpNeighbor {
                sw_if_index: key.if_index,
                flags,
                mac_address,
                ip_address: key.ip.into(),
            },
        });
    }
}
