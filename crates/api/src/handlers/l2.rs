//! Layer 2: cross-connects, bridge domains, the MAC table, who has which address in a bridge domain.

use std::net::IpAddr;

use parshall_control::{
    BRIDGE_ID_MAX, BridgeConfig, Domain, Flush, PortConfig, Router, Station, StationKind,
};
use parshall_nodes::bridge::PortRole;
use parshall_vpp_wire::msg::*;

use super::{NONE, index_of, interface_of, name_of, own_mac, plain_text};
use crate::registry::{Done, Refusal, Registry, if_exists, if_in_use};
use crate::retval;

pub(super) fn register(t: &mut Registry) {
    register_ports(t);
    register_domains(t);
    register_stations(t);
    register_addresses(t);
}

/// What an interface is to others at layer 2.
fn register_ports(t: &mut Registry) {
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
    t.ack(|r, m: &SwInterfaceSetL2Bridge| set_port(r, m));
    t.answer(|r, m: &BviCreate| {
        let instance = (m.user_instance != NONE).then_some(m.user_instance);
        let mac = own_mac(m.mac, true)?;
        let name = r
            .create_bvi(instance, mac)
            .map_err(if_exists(retval::REGISTRATION))?;
        Ok(BviCreateReply {
            retval: 0,
            sw_if_index: index_of(r, &name)?,
        })
    });
    t.ack(|r, m: &BviDelete| {
        let name = name_of(r, m.sw_if_index)?;
        let none = |e: parshall_control::Error| match retval::of(&e) {
            retval::WRONG_INTERFACE => Refusal::new(retval::NO_INTERFACE, e.to_string()),
            _ => e.into(),
        };
        r.delete_bvi(&name).map_err(none)
    });
}

/// Bridge domains.
fn register_domains(t: &mut Registry) {
    t.ack(|r, m: &BridgeDomainAddDel| add_del(r, &newer(m)).map(drop));
    t.answer(|r, m: &BridgeDomainAddDelV2| {
        let bd_id = add_del(r, m)?;
        Ok(BridgeDomainAddDelV2Reply { retval: 0, bd_id })
    });
    t.ack(|r, m: &BridgeDomainSetMacAge| {
        changeable(m.bd_id)?;
        Ok(r.set_bridge_config(m.bd_id, |c| c.mac_age = m.mac_age)?)
    });
    t.ack(|r, m: &BridgeDomainSetLearnLimit| {
        changeable(m.bd_id)?;
        let limit = Some(m.learn_limit);
        Ok(r.set_bridge_config(m.bd_id, |c| c.learn_limit = limit)?)
    });
    t.ack(|r, m: &BridgeDomainSetDefaultLearnLimit| {
        r.set_default_learn_limit(Some(m.learn_limit));
        Ok(())
    });
    t.answer(|r, m: &BridgeFlags| {
        changeable(m.bd_id)?;
        let flags = m.flags;
        r.set_bridge_config(m.bd_id, |c| switch(c, flags, m.is_set))?;
        let config = &r.bridge_domain(m.bd_id)?.config;
        Ok(BridgeFlagsReply {
            retval: 0,
            resulting_feature_bitmap: flags_of(config),
        })
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
}

/// The MAC table.
fn register_stations(t: &mut Registry) {
    t.ack(|r, m: &L2fibAddDel| {
        r.bridge_domain(m.bd_id)?;
        if !m.is_add {
            return Ok(r.remove_station(m.bd_id, m.mac)?);
        }
        let kind = match (m.filter_mac, m.bvi_mac) {
            (true, _) => StationKind::Filter,
            (_, true) => StationKind::Bvi,
            _ => StationKind::Static,
        };
        let if_index = (kind != StationKind::Filter).then_some(m.sw_if_index);
        if let Some(index) = if_index {
            let name = name_of(r, index)?;
            if r.bridge_port(index).is_none_or(|p| p.bd_id != m.bd_id) {
                let why = format!("{name} is no port of bridge domain {}", m.bd_id);
                return Err(Refusal::new(retval::NO_INTERFACE, why));
            }
        }
        Ok(r.add_station(m.bd_id, m.mac, Station { if_index, kind })?)
    });
    t.ack(|r, _: &L2fibFlushAll| Ok(r.flush_stations(Flush::All).map(drop)?));
    t.ack(|r, m: &L2fibFlushBd| Ok(r.flush_stations(Flush::Domain(m.bd_id)).map(drop)?));
    t.ack(|r, m: &L2fibFlushInt| {
        let index = interface_of(r, m.sw_if_index)?.index;
        Ok(r.flush_stations(Flush::Interface(index)).map(drop)?)
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

/// Who has which address in a bridge domain.
fn register_addresses(t: &mut Registry) {
    t.ack(|r, m: &BdIpMacAddDel| {
        let e = &m.entry;
        changeable(e.bd_id)?;
        let domain = r.bridge_domain(e.bd_id)?;
        let ip = e.ip.ip();
        let ip = ip.ok_or_else(|| Refusal::new(retval::FAMILY, "an address of no family"))?;
        let owner = match ip {
            IpAddr::V4(ip) => domain.arp.get(&ip),
            IpAddr::V6(ip) => domain.nd.get(&ip),
        };
        if !m.is_add && owner != Some(&e.mac) {
            let why = format!(
                "bridge domain {} does not know {ip} by that address",
                e.bd_id
            );
            // VPP has no other number for it.
            return Err(Refusal::new(retval::UNSPECIFIED, why));
        }
        set_owner(r, e.bd_id, ip, m.is_add.then_some(e.mac))
    });
    t.ack(|r, m: &BdIpMacFlush| {
        changeable(m.bd_id)?;
        let all: Vec<_> = owners(r.bridge_domain(m.bd_id)?).collect();
        for (ip, _) in all {
            set_owner(r, m.bd_id, ip, None)?;
        }
        Ok(())
    });
    t.dump(|r, m: &BdIpMacDump, out| {
        let wanted = |(id, _): &(u32, &Domain)| m.bd_id == NONE || m.bd_id == *id;
        for (bd_id, domain) in r.bridge_domains().filter(wanted) {
            for (ip, mac) in owners(domain) {
                let ip = ip.into();
                out.send(&BdIpMacDetails {
                    entry: BdIpMac { bd_id, ip, mac },
                });
            }
        }
    });
}

/// Owners of addresses that a bridge domain knows, of both families.
fn owners(d: &Domain) -> impl Iterator<Item = (IpAddr, [u8; 6])> {
    let four = d.arp.iter().map(|(ip, mac)| (IpAddr::from(*ip), *mac));
    four.chain(d.nd.iter().map(|(ip, mac)| (IpAddr::from(*ip), *mac)))
}

fn set_owner(r: &mut Router, bd_id: u32, ip: IpAddr, mac: Option<[u8; 6]>) -> Done<()> {
    match ip {
        IpAddr::V4(ip) => r.set_bridge_arp(bd_id, ip, mac)?,
        IpAddr::V6(ip) => r.set_bridge_nd(bd_id, ip, mac)?,
    }
    Ok(())
}

/// Refuses what is none of the domains that can be changed.
fn changeable(id: u32) -> Done<()> {
    if id == 0 {
        let why = "bridge domain 0 can be neither changed nor deleted";
        return Err(Refusal::new(retval::BRIDGE_FIXED, why));
    }
    Ok(())
}

/// The switches of a bridge domain, and the flag that stands for each.
fn switches(c: &mut BridgeConfig) -> [(BdFlags, &mut bool); 6] {
    [
        (BdFlags::BRIDGE_API_FLAG_LEARN, &mut c.learn),
        (BdFlags::BRIDGE_API_FLAG_FWD, &mut c.forward),
        (BdFlags::BRIDGE_API_FLAG_FLOOD, &mut c.flood),
        (BdFlags::BRIDGE_API_FLAG_UU_FLOOD, &mut c.uu_flood),
        (BdFlags::BRIDGE_API_FLAG_ARP_TERM, &mut c.arp_term),
        (BdFlags::BRIDGE_API_FLAG_ARP_UFWD, &mut c.arp_ufwd),
    ]
}

/// Turns what the flags say on or off.
fn switch(c: &mut BridgeConfig, flags: BdFlags, on: bool) {
    for (_, setting) in switches(c).into_iter().filter(|(f, _)| flags.has(*f)) {
        *setting = on;
    }
}

/// The switches that are on.
fn flags_of(c: &BridgeConfig) -> u32 {
    let mut c = c.clone();
    let on = switches(&mut c).into_iter().filter(|(_, on)| **on);
    on.fold(0, |all, (flag, _)| all | flag.0)
}

fn set_port(r: &mut Router, m: &SwInterfaceSetL2Bridge) -> Done<()> {
    let name = name_of(r, m.rx_sw_if_index)?;
    let role = match m.port_type {
        L2PortType::L2_API_PORT_TYPE_NORMAL => PortRole::Normal,
        L2PortType::L2_API_PORT_TYPE_BVI => PortRole::Bvi,
        L2PortType::L2_API_PORT_TYPE_UU_FWD => PortRole::UuFwd,
        other => {
            let why = format!("port type {}: 0 to 2 are there", other.0);
            return Err(Refusal::new(retval::VALUE, why));
        }
    };
    if !m.enable {
        return Ok(r.set_l3(&name)?);
    }
    numbered(m.bd_id)?;
    let has_it = |p: &u32| *p != m.rx_sw_if_index && is_bvi(r, *p);
    let domain = r.bridge_domain(m.bd_id).ok();
    if role == PortRole::Bvi && domain.is_some_and(|d| d.ports.iter().any(has_it)) {
        let why = format!("bridge domain {} has a routed interface already", m.bd_id);
        return Err(Refusal::new(retval::HAS_BVI, why));
    }
    let port = PortConfig {
        bd_id: m.bd_id,
        shg: m.shg,
        role,
    };
    Ok(r.set_bridge(&name, Some(port))?)
}

fn is_bvi(r: &Router, index: u32) -> bool {
    r.bridge_port(index)
        .is_some_and(|p| p.role == PortRole::Bvi)
}

/// Refuses numbers that no bridge domain can have.
fn numbered(id: u32) -> Done<()> {
    changeable(id)?;
    if id > BRIDGE_ID_MAX {
        let why = format!("bridge domain {id}: {BRIDGE_ID_MAX} is the last number");
        return Err(Refusal::new(retval::BRIDGE_NUMBER, why));
    }
    Ok(())
}

fn newer(m: &BridgeDomainAddDel) -> BridgeDomainAddDelV2 {
    BridgeDomainAddDelV2 {
        bd_id: m.bd_id,
        flood: m.flood,
        uu_flood: m.uu_flood,
        forward: m.forward,
        learn: m.learn,
        arp_term: m.arp_term,
        arp_ufwd: m.arp_ufwd,
        mac_age: m.mac_age,
        bd_tag: m.bd_tag.clone(),
        is_add: m.is_add,
    }
}

/// Makes or deletes a bridge domain, and says which.
fn add_del(r: &mut Router, m: &BridgeDomainAddDelV2) -> Done<u32> {
    if !m.is_add {
        changeable(m.bd_id)?;
        let refuse = if_in_use(retval::BRIDGE_IN_USE);
        r.delete_bridge_domain(m.bd_id).map_err(refuse)?;
        return Ok(m.bd_id);
    }
    let bd_id = match m.bd_id {
        NONE => free_bridge(r)?,
        id => id,
    };
    numbered(bd_id)?;
    if !m.bd_tag.is_empty() {
        plain_text(&m.bd_tag)?;
    }
    let config = BridgeConfig {
        learn: m.learn,
        forward: m.forward,
        flood: m.flood,
        uu_flood: m.uu_flood,
        arp_term: m.arp_term,
        arp_ufwd: m.arp_ufwd,
        mac_age: m.mac_age,
        learn_limit: r.default_learn_limit(),
        tag: m.bd_tag.clone(),
    };
    r.create_bridge_domain(bd_id, config)
        .map_err(if_exists(retval::BRIDGE_EXISTS))?;
    Ok(bd_id)
}

/// A number that no bridge domain has.
fn free_bridge(r: &Router) -> Done<u32> {
    let free = (1..=BRIDGE_ID_MAX).find(|id| r.bridge_domain(*id).is_err());
    free.ok_or_else(|| Refusal::new(retval::AGAIN, "all numbers of bridge domains are taken"))
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
