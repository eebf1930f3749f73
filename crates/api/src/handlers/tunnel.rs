//! Tunnels: VXLAN, GRE, IP in IP.

use std::net::IpAddr;

use parshall_control::tunnel::{TunnelKind, TunnelSpec, VXLAN_PORT};
use parshall_control::{Error, Interface, Router};
use parshall_vpp_wire::msg::*;

use super::{NONE, index_of, interface_of, is_wanted};
use crate::registry::{Answers, Done, Refusal, Registry};
use crate::retval;

/// VPP's number of the way to layer 2, for what comes out of a VXLAN tunnel.
const DECAP_L2: u32 = 1;

pub(super) fn register(t: &mut Registry) {
    t.answer(|r, m: &VxlanAddDelTunnelV3| {
        if m.is_l3 {
            return Err(Refusal::unimplemented(
                "a VXLAN tunnel that is not Ethernet",
            ));
        }
        let ends = (&m.src_address, &m.dst_address);
        let ports = (m.src_port, m.dst_port);
        let spec = vxlan(ends, ports, m.vni, m.encap_vrf_id)?;
        let sw_if_index = change(r, m.is_add, m.instance, spec)?;
        Ok(VxlanAddDelTunnelV3Reply {
            retval: 0,
            sw_if_index,
        })
    });
    t.answer(|r, m: &VxlanAddDelTunnelV2| {
        let ends = (&m.src_address, &m.dst_address);
        let ports = (m.src_port, m.dst_port);
        let spec = vxlan(ends, ports, m.vni, m.encap_vrf_id)?;
        let sw_if_index = change(r, m.is_add, m.instance, spec)?;
        Ok(VxlanAddDelTunnelV2Reply {
            retval: 0,
            sw_if_index,
        })
    });
    t.answer(|r, m: &GreTunnelAddDel| {
        let sw_if_index = change(r, m.is_add, m.tunnel.instance, gre(&m.tunnel)?)?;
        Ok(GreTunnelAddDelReply {
            retval: 0,
            sw_if_index,
        })
    });
    t.answer(|r, m: &GreTunnelAddDelV2| {
        if m.tunnel.key != 0 {
            return Err(Refusal::unimplemented("a GRE tunnel with a key"));
        }
        let t = without_key(&m.tunnel);
        let sw_if_index = change(r, m.is_add, t.instance, gre(&t)?)?;
        Ok(GreTunnelAddDelV2Reply {
            retval: 0,
            sw_if_index,
        })
    });
    t.answer(|r, m: &IpipAddTunnel| {
        let sw_if_index = change(r, true, m.tunnel.instance, ipip(&m.tunnel)?)?;
        Ok(IpipAddTunnelReply {
            retval: 0,
            sw_if_index,
        })
    });
    t.ack(|r, m: &IpipDelTunnel| {
        let i = interface_of(r, m.sw_if_index)?;
        let Some(spec) = i.tunnel().filter(|t| t.kind == TunnelKind::Ipip).cloned() else {
            let why = format!("{} is no IP-in-IP tunnel", i.name);
            return Err(Refusal::new(retval::NO_ENTRY, why));
        };
        Ok(r.delete_tunnel(&spec)?)
    });
    t.dump(|r, m: &VxlanTunnelDump, out| {
        each(r, m.sw_if_index, |i, t| vxlan_details(i, t, out));
    });
    t.dump(|r, m: &VxlanTunnelV2Dump, out| {
        each(r, m.sw_if_index, |i, t| vxlan_v2_details(i, t, out));
    });
    t.dump(|r, m: &GreTunnelDump, out| {
        each(r, m.sw_if_index, |i, t| {
            if let Some(tunnel) = gre_of(i, t) {
                out.send(&GreTunnelDetails { tunnel });
            }
        });
    });
    t.dump(|r, m: &GreTunnelV2Dump, out| {
        each(r, m.sw_if_index, |i, t| {
            if let Some(tunnel) = gre_of(i, t) {
                let tunnel = with_key(tunnel);
                out.send(&GreTunnelV2Details { tunnel });
            }
        });
    });
    t.dump(|r, m: &IpipTunnelDump, out| {
        each(r, m.sw_if_index, |i, t| ipip_details(i, t, out));
    });
}

/// Both ends, where there can be a tunnel between them.
fn ends(src: &Address, dst: &Address) -> Done<(IpAddr, IpAddr)> {
    let ip = |a: &Address| {
        a.ip()
            .ok_or_else(|| Refusal::new(retval::FAMILY, "an address of no family"))
    };
    let (src, dst) = (ip(src)?, ip(dst)?);
    if src == dst {
        let why = format!("both ends have the address {src}");
        return Err(Refusal::new(retval::SAME_ENDS, why));
    }
    if dst.is_multicast() {
        return Err(Refusal::unimplemented("a tunnel to a group"));
    }
    Ok((src, dst))
}

fn vxlan(
    (src, dst): (&Address, &Address),
    (src_port, dst_port): (u16, u16),
    vni: u32,
    table: u32,
) -> Done<TunnelSpec> {
    let (src, dst) = ends(src, dst)?;
    if vni == 0 {
        return Err(Refusal::new(retval::VALUE, "a VNI is above 0"));
    }
    let port = |p: u16| if p == 0 { VXLAN_PORT } else { p };
    Ok(TunnelSpec {
        kind: TunnelKind::Vxlan {
            vni,
            src_port: port(src_port),
            dst_port: port(dst_port),
        },
        src,
        dst,
        table,
    })
}

fn gre(t: &GreTunnel) -> Done<TunnelSpec> {
    plain(t.mode, t.flags)?;
    let kind = match t.type_ {
        GreTunnelType::GRE_API_TUNNEL_TYPE_L3 => TunnelKind::Gre,
        GreTunnelType::GRE_API_TUNNEL_TYPE_TEB => TunnelKind::GreTeb,
        other => {
            let what = format!("a GRE tunnel of type {}", other.0);
            return Err(Refusal::unimplemented(&what));
        }
    };
    let (src, dst) = ends(&t.src, &t.dst)?;
    Ok(TunnelSpec {
        kind,
        src,
        dst,
        table: t.outer_table_id,
    })
}

fn ipip(t: &IpipTunnel) -> Done<TunnelSpec> {
    plain(t.mode, t.flags)?;
    if t.dscp != IpDscp::default() {
        return Err(Refusal::unimplemented("a tunnel with a DSCP of its own"));
    }
    let (src, dst) = ends(&t.src, &t.dst)?;
    Ok(TunnelSpec {
        kind: TunnelKind::Ipip,
        src,
        dst,
        table: t.table_id,
    })
}

/// Refuses what tunnels here do not do: several other ends, and fields copied between headers.
fn plain(mode: TunnelMode, flags: TunnelEncapDecapFlags) -> Done<()> {
    if mode != TunnelMode::TUNNEL_API_MODE_P2P {
        return Err(Refusal::unimplemented("a tunnel with several other ends"));
    }
    if flags != TunnelEncapDecapFlags::default() {
        return Err(Refusal::unimplemented(
            "a tunnel that copies fields between headers",
        ));
    }
    Ok(())
}

/// Makes or deletes a tunnel, and says which interface it is or was.
fn change(r: &mut Router, add: bool, instance: u32, spec: TunnelSpec) -> Done<u32> {
    if add {
        let there = match spec.kind {
            TunnelKind::Vxlan { .. } => retval::TUNNEL_EXISTS,
            _ => retval::INTERFACE_EXISTS,
        };
        let refuse = |e: Error| match e {
            Error::Exists(why) => Refusal::new(there, why),
            Error::InterfaceExists(_) => Refusal::new(retval::INSTANCE_IN_USE, e.to_string()),
            e => e.into(),
        };
        let instance = (instance != NONE).then_some(instance);
        let name = r.create_tunnel(instance, spec).map_err(refuse)?;
        return index_of(r, &name);
    }
    let was = r.find_tunnel(&spec).map_or(NONE, |i| i.index);
    r.delete_tunnel(&spec)?;
    Ok(was)
}

/// The tunnels that a dump is to tell of.
fn each(r: &Router, wanted: u32, mut f: impl FnMut(&Interface, &TunnelSpec)) {
    for (i, t) in r.tunnels().filter(|(i, _)| is_wanted(wanted, i)) {
        f(i, t);
    }
}

fn vxlan_details(i: &Interface, t: &TunnelSpec, out: &mut Answers) {
    if let TunnelKind::Vxlan { vni, .. } = t.kind {
        out.send(&VxlanTunnelDetails {
            sw_if_index: i.index,
            instance: i.instance,
            src_address: t.src.into(),
            dst_address: t.dst.into(),
            mcast_sw_if_index: NONE,
            encap_vrf_id: t.table,
            decap_next_index: DECAP_L2,
            vni,
        });
    }
}

fn vxlan_v2_details(i: &Interface, t: &TunnelSpec, out: &mut Answers) {
    if let TunnelKind::Vxlan {
        vni,
        src_port,
        dst_port,
    } = t.kind
    {
        out.send(&VxlanTunnelV2Details {
            sw_if_index: i.index,
            instance: i.instance,
            src_address: t.src.into(),
            dst_address: t.dst.into(),
            src_port,
            dst_port,
            mcast_sw_if_index: NONE,
            encap_vrf_id: t.table,
            decap_next_index: DECAP_L2,
            vni,
        });
    }
}

/// A tunnel as GRE's messages tell it, if it is one of GRE.
fn gre_of(i: &Interface, t: &TunnelSpec) -> Option<GreTunnel> {
    let type_ = match t.kind {
        TunnelKind::Gre => GreTunnelType::GRE_API_TUNNEL_TYPE_L3,
        TunnelKind::GreTeb => GreTunnelType::GRE_API_TUNNEL_TYPE_TEB,
        TunnelKind::Vxlan { .. } | TunnelKind::Ipip => return None,
    };
    Some(GreTunnel {
        type_,
        instance: i.instance,
        outer_table_id: t.table,
        sw_if_index: i.index,
        src: t.src.into(),
        dst: t.dst.into(),
        ..GreTunnel::default()
    })
}

fn without_key(t: &GreTunnelV2) -> GreTunnel {
    GreTunnel {
        type_: t.type_,
        mode: t.mode,
        flags: t.flags,
        session_id: t.session_id,
        instance: t.instance,
        outer_table_id: t.outer_table_id,
        sw_if_index: t.sw_if_index,
        src: t.src.clone(),
        dst: t.dst.clone(),
    }
}

fn with_key(t: GreTunnel) -> GreTunnelV2 {
    GreTunnelV2 {
        type_: t.type_,
        mode: t.mode,
        flags: t.flags,
        session_id: t.session_id,
        instance: t.instance,
        outer_table_id: t.outer_table_id,
        sw_if_index: t.sw_if_index,
        src: t.src,
        dst: t.dst,
        key: 0,
    }
}

fn ipip_details(i: &Interface, t: &TunnelSpec, out: &mut Answers) {
    if t.kind == TunnelKind::Ipip {
        out.send(&IpipTunnelDetails {
            tunnel: IpipTunnel {
                instance: i.instance,
                src: t.src.into(),
                dst: t.dst.into(),
                sw_if_index: i.index,
                table_id: t.table,
                ..IpipTunnel::default()
            },
        });
    }
}
