//! Interfaces: list, state, sizes, names, loopbacks, sub-interfaces.

use parshall_control::{DeviceKind, DeviceSpec, Interface, Router, SubSpec, Vtr};
use parshall_nodes::vlan::{VlanId, VlanMatch};
use parshall_vpp_wire::msg::*;

use super::{NONE, delete, interface_of, is_wanted, name_of, own_mac, plain_text};
use crate::registry::{Done, Refusal, Registry, if_exists};
use crate::retval;

/// Bytes of an Ethernet header, which VPP does not count where it speaks of sizes.
const ETHERNET: u32 = 14;

pub(super) fn register(t: &mut Registry) {
    t.each_interface(|r, m: &SwInterfaceDump, i, out| {
        if matches(m, i) {
            out.send(&details(r, i));
        }
    });
    t.ack(|r, m: &SwInterfaceSetFlags| {
        let name = name_of(r, m.sw_if_index)?;
        Ok(r.set_state(
            &name,
            m.flags.has(IfStatusFlags::IF_STATUS_API_FLAG_ADMIN_UP),
        )?)
    });
    t.ack(|r, m: &SwInterfaceSetPromisc| {
        let name = name_of(r, m.sw_if_index)?;
        Ok(r.set_promiscuous(&name, m.promisc_on)?)
    });
    t.ack(|r, m: &HwInterfaceSetMtu| {
        let name = name_of(r, m.sw_if_index)?;
        Ok(r.set_mtu(&name, u32::from(m.mtu), false)?)
    });
    t.ack(|r, m: &SwInterfaceSetMtu| {
        let name = name_of(r, m.sw_if_index)?;
        // Zero stands for the parent's, which is what a sub-interface has unless told otherwise.
        match m.mtu[0] {
            0 => Ok(()),
            mtu => Ok(r.set_mtu(&name, mtu, true)?),
        }
    });
    t.ack(|r, m: &SwInterfaceSetMacAddress| {
        let name = name_of(r, m.sw_if_index)?;
        Ok(r.set_mac(&name, m.mac_address)?)
    });
    t.answer(|r, m: &SwInterfaceGetMacAddress| {
        Ok(SwInterfaceGetMacAddressReply {
            retval: 0,
            mac_address: interface_of(r, m.sw_if_index)?.mac,
        })
    });
    t.ack(|r, m: &SwInterfaceTagAddDel| set_tag(r, m));
    t.ack(|r, m: &SwInterfaceClearStats| {
        if m.sw_if_index != NONE {
            return Err(Refusal::unimplemented(
                "clearing the counters of one interface",
            ));
        }
        r.clear_interface_counters();
        Ok(())
    });
    t.answer(|r, m: &CreateLoopback| {
        let sw_if_index = loopback(r, None, m.mac_address)?;
        Ok(CreateLoopbackReply {
            retval: 0,
            sw_if_index,
        })
    });
    t.answer(|r, m: &CreateLoopbackInstance| {
        let sw_if_index = loopback(r, m.is_specified.then_some(m.user_instance), m.mac_address)?;
        Ok(CreateLoopbackInstanceReply {
            retval: 0,
            sw_if_index,
        })
    });
    t.ack(|r, m: &DeleteLoopback| delete(r, m.sw_if_index, "loop"));
    t.answer(|r, m: &CreateVlanSubif| {
        let outer = vlan(m.vlan_id, "VLAN")?;
        let takes = VlanMatch::Tagged {
            dot1ad: false,
            outer: VlanId::Is(outer),
            inner: None,
            exact: true,
        };
        let sw_if_index = create_sub(r, m.sw_if_index, m.vlan_id, takes)?;
        Ok(CreateVlanSubifReply {
            retval: 0,
            sw_if_index,
        })
    });
    t.answer(|r, m: &CreateSubif| {
        let sw_if_index = create_sub(r, m.sw_if_index, m.sub_id, taken(m)?)?;
        Ok(CreateSubifReply {
            retval: 0,
            sw_if_index,
        })
    });
    t.ack(|r, m: &DeleteSubif| {
        let i = interface_of(r, m.sw_if_index)?;
        let name = i.name.clone();
        if i.sub().is_none() {
            let why = format!("{name} is no sub-interface");
            return Err(Refusal::new(retval::NO_SUB_INTERFACE, why));
        }
        Ok(r.delete_sub_interface(&name)?)
    });
    t.ack(|r, m: &L2InterfaceVlanTagRewrite| {
        let name = name_of(r, m.sw_if_index)?;
        let tags = |e: parshall_control::Error| Refusal::new(retval::TAG_COUNT, e.to_string());
        r.set_tag_rewrite(&name, rewrite(m)?).map_err(tags)
    });
}

/// Whether a dump tells of an interface. Index 0 stands for all, as in VPP: clients that leave it out send that.
fn matches(m: &SwInterfaceDump, i: &Interface) -> bool {
    if m.name_filter_valid {
        let (name, part) = (
            i.name.to_ascii_lowercase(),
            m.name_filter.to_ascii_lowercase(),
        );
        return name.contains(&part);
    }
    m.sw_if_index == 0 || is_wanted(m.sw_if_index, i)
}

/// Up and link, as VPP tells them.
pub(crate) fn status(i: &Interface) -> IfStatusFlags {
    let bit = |on: bool, flag: IfStatusFlags| if on { flag.0 } else { 0 };
    IfStatusFlags(
        bit(i.up, IfStatusFlags::IF_STATUS_API_FLAG_ADMIN_UP)
            | bit(i.up && i.link, IfStatusFlags::IF_STATUS_API_FLAG_LINK_UP),
    )
}

fn details(r: &Router, i: &Interface) -> SwInterfaceDetails {
    // Zero says that a sub-interface has its parent's. A bond has one, whether it was told or comes from its members.
    let inherits = i.inherits_mtu && i.parent.is_some();
    let mtu = if inherits { 0 } else { i.mtu };
    let mut d = SwInterfaceDetails {
        sw_if_index: i.index,
        sup_sw_if_index: i.parent.unwrap_or(i.index),
        l2_address: i.mac,
        flags: status(i),
        link_duplex: if i.speed == 0 {
            LinkDuplex::LINK_DUPLEX_API_UNKNOWN
        } else {
            LinkDuplex::LINK_DUPLEX_API_FULL
        },
        // In kbit/s.
        link_speed: u32::try_from(i.speed / 1000).unwrap_or(u32::MAX),
        link_mtu: u16::try_from(i.max_frame.saturating_sub(ETHERNET)).unwrap_or(u16::MAX),
        mtu: [mtu, 0, 0, 0],
        vtr_op: i.vtr.op(),
        vtr_push_dot1q: u32::from(i.vtr.op() != 0 && !i.vtr.dot1ad),
        vtr_tag1: i.vtr.push[0].map_or(0, u32::from),
        vtr_tag2: i.vtr.push[1].map_or(0, u32::from),
        interface_name: i.name.clone(),
        interface_dev_type: dev_type(r, i),
        tag: i.tag.clone().unwrap_or_default(),
        ..SwInterfaceDetails::default()
    };
    if let Some(sub) = i.sub() {
        let (outer, inner) = sub.vlans();
        d.type_ = IfType::IF_API_TYPE_SUB;
        d.sub_id = sub.id;
        d.sub_number_of_tags = sub.tag_count();
        (d.sub_outer_vlan_id, d.sub_inner_vlan_id) = (outer, inner);
        d.sub_if_flags = SubIfFlags(sub.flags());
    }
    d
}

/// VPP's word for a kind of device.
pub(super) fn dev_type(r: &Router, i: &Interface) -> String {
    r.kind_word(i).to_owned()
}

fn set_tag(r: &mut Router, m: &SwInterfaceTagAddDel) -> Done<()> {
    let name = name_of(r, m.sw_if_index)?;
    let tag = match m.is_add {
        true => Some(plain_text(&m.tag)?.to_owned()),
        false => None,
    };
    Ok(r.set_tag(&name, tag)?)
}

fn loopback(r: &mut Router, instance: Option<u32>, mac: [u8; 6]) -> Done<u32> {
    let spec = DeviceSpec {
        instance,
        name: None,
        mac: own_mac(mac, true)?,
        kind: DeviceKind::Loopback,
    };
    let name = r
        .create_interface(spec)
        .map_err(if_exists(retval::REGISTRATION))?;
    super::index_of(r, &name)
}

fn vlan(id: u32, what: &str) -> Done<u16> {
    match u16::try_from(id) {
        Ok(id @ 1..=4094) => Ok(id),
        _ => Err(Refusal::new(
            retval::VLAN,
            format!("{what} {id}: 1 to 4094 can be"),
        )),
    }
}

fn create_sub(r: &mut Router, parent: u32, id: u32, takes: VlanMatch) -> Done<u32> {
    let i = interface_of(r, parent)?;
    let name = i.name.clone();
    if i.member.is_some() {
        let why = format!("{name} is a member of a bond");
        return Err(Refusal::new(retval::BOND_MEMBER, why));
    }
    let same = |i: &Interface| i.sub().is_some_and(|s| s.parent == parent && s.id == id);
    if r.interfaces().iter().any(same) {
        let why = format!("{name}.{id} exists already");
        return Err(Refusal::new(retval::VLAN_EXISTS, why));
    }
    let made = r.create_sub_interface(&name, SubSpec { parent, id, takes })?;
    super::index_of(r, &made)
}

/// The frames that a sub-interface asked for by flags takes.
fn taken(m: &CreateSubif) -> Done<VlanMatch> {
    let has = |flag| m.sub_if_flags.has(flag);
    if has(SubIfFlags::SUB_IF_API_FLAG_DEFAULT) {
        return Ok(VlanMatch::Default);
    }
    if has(SubIfFlags::SUB_IF_API_FLAG_NO_TAGS) {
        return Ok(VlanMatch::Untagged);
    }
    let id = |any: bool, id: u16, what| {
        if any {
            Ok(VlanId::Any)
        } else {
            vlan(u32::from(id), what).map(VlanId::Is)
        }
    };
    let any = has(SubIfFlags::SUB_IF_API_FLAG_OUTER_VLAN_ID_ANY);
    let outer = id(any, m.outer_vlan_id, "outer VLAN")?;
    let any = has(SubIfFlags::SUB_IF_API_FLAG_INNER_VLAN_ID_ANY);
    let inner = match has(SubIfFlags::SUB_IF_API_FLAG_TWO_TAGS) {
        true => Some(id(any, m.inner_vlan_id, "inner VLAN")?),
        false => None,
    };
    Ok(VlanMatch::Tagged {
        dot1ad: has(SubIfFlags::SUB_IF_API_FLAG_DOT1AD),
        outer,
        inner,
        exact: has(SubIfFlags::SUB_IF_API_FLAG_EXACT_MATCH),
    })
}

fn rewrite(m: &L2InterfaceVlanTagRewrite) -> Done<Vtr> {
    let tag = |t: u32| {
        u16::try_from(t)
            .ok()
            .filter(|t| *t < 4096)
            .ok_or_else(|| Refusal::new(retval::VALUE, format!("VLAN {t}: 0 to 4095 can be")))
    };
    let (pop, pushes) = match m.vtr_op {
        0 => (0, 0),
        1 => (0, 1),
        2 => (0, 2),
        3 => (1, 0),
        4 => (2, 0),
        5 => (1, 1),
        6 => (1, 2),
        7 => (2, 1),
        8 => (2, 2),
        op => {
            return Err(Refusal::new(
                retval::VALUE,
                format!("tag rewrite {op}: 0 to 8 are there"),
            ));
        }
    };
    let push = match pushes {
        0 => [None, None],
        1 => [Some(tag(m.tag1)?), None],
        _ => [Some(tag(m.tag1)?), Some(tag(m.tag2)?)],
    };
    Ok(Vtr {
        pop,
        push,
        dot1ad: pushes != 0 && m.push_dot1q == 0,
    })
}
