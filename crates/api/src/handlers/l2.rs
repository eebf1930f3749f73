//! Layer 2: cross-connects, bridge domains, the MAC table.

use parshall_control::{BRIDGE_ID_MAX, Domain, Router, StationKind};
use parshall_nodes::bridge::PortRole;
use parshall_vpp_wire::msg::*;

use super::{NONE, command, command_makes, mac_option, mac_text, name_of};
use crate::handlers::interface::word;
use crate::registry::{Done, Refusal, Registry, retval};

pub(super) fn register(t: &mut Registry) {
    t.ack(|r, m: &SwInterfaceSetL2Xconnect| {
        let rx = name_of(r, m.rx_sw_if_index)?;
        if !m.enable {
            return Ok(r.set_l3(&rx)?);
        }
        let tx = name_of(r, m.tx_sw_if_index)?;
        Ok(r.set_xconnect(&rx, &tx)?)
    });
    t.each_interface(|_, _: &L2XconnectDump, i, out| {
        if let Some(tx_sw_if_index) = i.xconnect {
            out.send(&L2XconnectDetails {
                rx_sw_if_index: i.index,
                tx_sw_if_index,
            });
        }
    });
    t.ack(|r, m: &BridgeDomainAddDel| {
        let (flags, age) = (
            Flags::of(
                m.flood, m.uu_flood, m.forward, m.learn, m.arp_term, m.arp_ufwd,
            ),
            m.mac_age,
        );
        set_bridge(r, m.bd_id, m.is_add, (&flags, age, &m.bd_tag))
    });
    t.answer(|r, m: &BridgeDomainAddDelV2| {
        let flags = Flags::of(
            m.flood, m.uu_flood, m.forward, m.learn, m.arp_term, m.arp_ufwd,
        );
        let bd_id = if m.bd_id == NONE {
            free_bridge(r)?
        } else {
            m.bd_id
        };
        set_bridge(r, bd_id, m.is_add, (&flags, m.mac_age, &m.bd_tag))?;
        Ok(BridgeDomainAddDelV2Reply { retval: 0, bd_id })
    });
    t.ack(|r, m: &BridgeDomainSetMacAge| {
        command(
            r,
            &format!("set bridge-domain mac-age {} {}", m.bd_id, m.mac_age),
        )
        .map(drop)
    });
    t.answer(|r, m: &BridgeFlags| {
        for (flag, name) in FLAGS {
            if m.flags.has(*flag) {
                let off = if m.is_set { "" } else { " disable" };
                command(r, &format!("set bridge-domain {name} {}{off}", m.bd_id))?;
            }
        }
        Ok(BridgeFlagsReply {
            retval: 0,
            resulting_feature_bitmap: m.flags.0,
        })
    });
    t.ack(|r, m: &SwInterfaceSetL2Bridge| {
        let name = name_of(r, m.rx_sw_if_index)?;
        if !m.enable {
            return command(r, &format!("set interface l3 {name}")).map(drop);
        }
        let kind = match m.port_type {
            L2PortType::L2_API_PORT_TYPE_BVI => " bvi",
            L2PortType::L2_API_PORT_TYPE_UU_FWD => " uu-fwd",
            _ => "",
        };
        let group = if m.shg == 0 {
            String::new()
        } else {
            format!(" {}", m.shg)
        };
        command(
            r,
            &format!("set interface l2 bridge {name} {}{kind}{group}", m.bd_id),
        )
        .map(drop)
    });
    t.ack(|r, m: &L2fibAddDel| {
        let mac = mac_text(m.mac);
        if !m.is_add {
            return command(r, &format!("l2fib del {mac} {}", m.bd_id)).map(drop);
        }
        let line = if m.filter_mac {
            format!("l2fib add {mac} {} filter", m.bd_id)
        } else {
            let name = name_of(r, m.sw_if_index)?;
            let bvi = if m.bvi_mac { " bvi" } else { "" };
            let fixed = if m.static_mac { " static" } else { "" };
            format!("l2fib add {mac} {} {name}{fixed}{bvi}", m.bd_id)
        };
        command(r, &line).map(drop)
    });
    t.ack(|r, _: &L2fibFlushAll| command(r, "l2fib flush-mac all").map(drop));
    t.ack(|r, m: &L2fibFlushBd| {
        command(r, &format!("l2fib flush-mac bridge-domain {}", m.bd_id)).map(drop)
    });
    t.ack(|r, m: &L2fibFlushInt| {
        let name = name_of(r, m.sw_if_index)?;
        command(r, &format!("l2fib flush-mac interface {name}")).map(drop)
    });
    t.answer(|r, m: &BviCreate| {
        let instance = if m.user_instance == NONE {
            String::new()
        } else {
            format!(" instance {}", m.user_instance)
        };
        let mac = mac_option("mac", m.mac, true);
        let sw_if_index = command_makes(r, &format!("bvi create{instance}{mac}"))?;
        Ok(BviCreateReply {
            retval: 0,
            sw_if_index,
        })
    });
    t.ack(|r, m: &BviDelete| {
        let name = name_of(r, m.sw_if_index)?;
        command(r, &format!("bvi delete {name}")).map(drop)
    });
    t.dump(|r, m: &BridgeDomainDump, out| {
        let wanted = |id: u32, d: &Domain| {
            (m.bd_id == NONE || m.bd_id == id)
                && (m.sw_if_index == NONE || d.ports.contains(&m.sw_if_index))
        };
        for (id, domain) in r.bridge_domains().filter(|(id, d)| wanted(*id, d)) {
            out.send(&details(r, id, domain));
        }
    });
    t.dump(|r, m: &L2FibTableDump, out| {
        for e in r.l2fib_entries().into_iter().filter(|e| e.bd_id == m.bd_id) {
            out.send(&L2FibTableDetails {
                bd_id: e.bd_id,
                mac: e.mac,
                sw_if_index: e.if_index.unwrap_or(NONE),
                static_mac: e.kind.is_some(),
                filter_mac: e.kind == Some(StationKind::Filter),
                bvi_mac: e.kind == Some(StationKind::Bvi),
            });
        }
    });
}

/// Flags of a bridge domain and their words.
const FLAGS: &[(BdFlags, &str)] = &[
    (BdFlags::BRIDGE_API_FLAG_LEARN, "learn"),
    (BdFlags::BRIDGE_API_FLAG_FWD, "forward"),
    (BdFlags::BRIDGE_API_FLAG_FLOOD, "flood"),
    (BdFlags::BRIDGE_API_FLAG_UU_FLOOD, "uu-flood"),
    (BdFlags::BRIDGE_API_FLAG_ARP_TERM, "arp term"),
    (BdFlags::BRIDGE_API_FLAG_ARP_UFWD, "arp-ufwd"),
];

/// What a bridge domain does, as words of the command that makes it.
struct Flags(String);

impl Flags {
    fn of(
        flood: bool,
        uu_flood: bool,
        forward: bool,
        learn: bool,
        arp_term: bool,
        arp_ufwd: bool,
    ) -> Flags {
        let word = |name: &str, on: bool| format!(" {name} {}", u8::from(on));
        Flags(
            [
                word("flood", flood),
                word("uu-flood", uu_flood),
                word("forward", forward),
                word("learn", learn),
                word("arp-term", arp_term),
                word("arp-ufwd", arp_ufwd),
            ]
            .concat(),
        )
    }
}

fn set_bridge(
    r: &mut Router,
    id: u32,
    add: bool,
    (flags, age, tag): (&Flags, u8, &str),
) -> Done<()> {
    if !add {
        return command(r, &format!("create bridge-domain {id} del")).map(drop);
    }
    let tag = if tag.is_empty() {
        String::new()
    } else {
        format!(" bd-tag {}", word(tag)?)
    };
    command(
        r,
        &format!("create bridge-domain {id}{} mac-age {age}{tag}", flags.0),
    )
    .map(drop)
}

/// A number that no bridge domain has.
fn free_bridge(r: &Router) -> Done<u32> {
    let free = (1..=BRIDGE_ID_MAX).find(|id| r.bridge_domain(*id).is_err());
    free.ok_or_else(|| {
        Refusal::new(
            retval::UNSPECIFIED,
            "all numbers of bridge domains are taken",
        )
    })
}

fn details(r: &Router, bd_id: u32, d: &Domain) -> BridgeDomainDetails {
    let port = |i: &u32| r.bridge_port(*i);
    let of_role = |role| {
        let has = |i: &&u32| port(i).is_some_and(|p| p.role == role);
        d.ports.iter().find(has).copied().unwrap_or(NONE)
    };
    let member = |i: &u32| BridgeDomainSwIf {
        context: 0,
        sw_if_index: *i,
        shg: port(i).map_or(0, |p| p.shg),
    };
    BridgeDomainDetails {
        bd_id,
        flood: d.config.flood,
        uu_flood: d.config.uu_flood,
        forward: d.config.forward,
        learn: d.config.learn,
        arp_term: d.config.arp_term,
        arp_ufwd: d.config.arp_ufwd,
        mac_age: d.config.mac_age,
        bd_tag: d.config.tag.clone(),
        bvi_sw_if_index: of_role(PortRole::Bvi),
        uu_fwd_sw_if_index: of_role(PortRole::UuFwd),
        sw_if_details: d.ports.iter().map(member).collect(),
    }
}
