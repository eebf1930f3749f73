//! Tunnels: VXLAN, GRE, IP in IP.

use std::net::IpAddr;

use parshall_control::Router;
use parshall_vpp_wire::msg::*;

use super::{NONE, command, command_makes, index_of, name_of};
use crate::registry::{Done, Refusal, Registry, retval};

pub(super) fn register(t: &mut Registry) {
    t.answer(|r, m: &VxlanAddDelTunnelV3| {
        let ends = (ip(&m.src_address)?, ip(&m.dst_address)?);
        let sw_if_index = vxlan(
            r,
            m.is_add,
            ends,
            (m.instance, m.vni, m.encap_vrf_id, m.is_l3),
        )?;
        Ok(VxlanAddDelTunnelV3Reply {
            retval: 0,
            sw_if_index,
        })
    });
    t.answer(|r, m: &VxlanAddDelTunnelV2| {
        let ends = (ip(&m.src_address)?, ip(&m.dst_address)?);
        let sw_if_index = vxlan(
            r,
            m.is_add,
            ends,
            (m.instance, m.vni, m.encap_vrf_id, false),
        )?;
        Ok(VxlanAddDelTunnelV2Reply {
            retval: 0,
            sw_if_index,
        })
    });
    t.answer(|r, m: &GreTunnelAddDel| {
        let sw_if_index = gre(r, m.is_add, &m.tunnel)?;
        Ok(GreTunnelAddDelReply {
            retval: 0,
            sw_if_index,
        })
    });
    t.answer(|r, m: &IpipAddTunnel| {
        let (src, dst) = (ip(&m.tunnel.src)?, ip(&m.tunnel.dst)?);
        let instance = option("instance", m.tunnel.instance);
        let table = option("outer-table-id", zero_is_none(m.tunnel.table_id));
        let sw_if_index = command_makes(
            r,
            &format!("create ipip tunnel src {src} dst {dst}{instance}{table}"),
        )?;
        Ok(IpipAddTunnelReply {
            retval: 0,
            sw_if_index,
        })
    });
    t.ack(|r, m: &IpipDelTunnel| {
        let name = name_of(r, m.sw_if_index)?;
        command(r, &format!("delete ipip tunnel {name}")).map(drop)
    });
    t.dump(|_, _: &VxlanTunnelDump, _| {});
    t.dump(|_, _: &VxlanTunnelV2Dump, _| {});
    t.dump(|_, _: &GreTunnelDump, _| {});
    t.dump(|_, _: &IpipTunnelDump, _| {});
}

fn ip(a: &Address) -> Done<IpAddr> {
    a.ip()
        .ok_or_else(|| Refusal::new(retval::VALUE, "an address of no family"))
}

/// A word of a command and its number, nothing where there is none.
fn option(word: &str, n: u32) -> String {
    if n == NONE {
        String::new()
    } else {
        format!(" {word} {n}")
    }
}

fn zero_is_none(n: u32) -> u32 {
    if n == 0 { NONE } else { n }
}

fn vxlan(
    r: &mut Router,
    add: bool,
    (src, dst): (IpAddr, IpAddr),
    (instance, vni, table, l3): (u32, u32, u32, bool),
) -> Done<u32> {
    let instance = option("instance", instance);
    let table = option("encap-vrf-id", zero_is_none(table));
    let line = format!("create vxlan tunnel src {src} dst {dst}{instance} vni {vni}{table}");
    if !add {
        command(r, &format!("{line} del"))?;
        return Ok(NONE);
    }
    let next = if l3 { " l3" } else { " decap-next l2" };
    command_makes(r, &format!("{line}{next}"))
}

fn gre(r: &mut Router, add: bool, t: &GreTunnel) -> Done<u32> {
    let (src, dst) = (ip(&t.src)?, ip(&t.dst)?);
    let kind = match t.type_ {
        GreTunnelType::GRE_API_TUNNEL_TYPE_L3 => "",
        GreTunnelType::GRE_API_TUNNEL_TYPE_TEB => " teb",
        other => {
            return Err(Refusal::unimplemented(&format!(
                "a GRE tunnel of type {}",
                other.0
            )));
        }
    };
    let instance = option("instance", t.instance);
    let table = option("outer-table-id", zero_is_none(t.outer_table_id));
    let line = format!("create gre tunnel src {src} dst {dst}{instance}{table}{kind}");
    if add {
        return command_makes(r, &line);
    }
    command(r, &format!("{line} del"))?;
    Ok(index_of(r, "").unwrap_or(NONE))
}
