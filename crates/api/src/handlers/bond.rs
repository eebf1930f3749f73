//! Bonds.

use parshall_control::{Interface, Membership, Router};
use parshall_vpp_wire::msg::*;

use super::{NONE, command, command_makes, is_wanted, mac_option, name_of};
use crate::registry::{Done, Refusal, Registry, retval};

pub(super) fn register(t: &mut Registry) {
    t.answer(|r, m: &BondCreate| {
        let mac = mac_option("hw-addr", m.mac_address, m.use_custom_mac);
        let sw_if_index = command_makes(r, &line(m.id, m.mode, m.lb, &mac)?)?;
        Ok(BondCreateReply {
            retval: 0,
            sw_if_index,
        })
    });
    t.answer(|r, m: &BondCreate2| {
        let mac = mac_option("hw-addr", m.mac_address, m.use_custom_mac);
        let sw_if_index = command_makes(r, &line(m.id, m.mode, m.lb, &mac)?)?;
        Ok(BondCreate2Reply {
            retval: 0,
            sw_if_index,
        })
    });
    t.ack(|r, m: &BondDelete| {
        let name = name_of(r, m.sw_if_index)?;
        command(r, &format!("delete bond {name}")).map(drop)
    });
    t.answer(|r, m: &BondAddMember| {
        let (bond, member) = (name_of(r, m.bond_sw_if_index)?, name_of(r, m.sw_if_index)?);
        let passive = if m.is_passive { " passive" } else { "" };
        let slow = if m.is_long_timeout {
            " long-timeout"
        } else {
            ""
        };
        command(r, &format!("bond add {bond} {member}{passive}{slow}"))?;
        Ok(BondAddMemberReply { retval: 0 })
    });
    t.ack(|r, m: &BondDetachMember| {
        let name = name_of(r, m.sw_if_index)?;
        command(r, &format!("bond del {name}")).map(drop)
    });
    t.each_interface(|r, m: &SwBondInterfaceDump, i, out| {
        if let Some(bond) = i.bond().filter(|_| is_wanted(m.sw_if_index, i)) {
            let members = || members(r, i.index);
            out.send(&SwBondInterfaceDetails {
                sw_if_index: i.index,
                id: i.instance,
                mode: BondMode(bond.mode as u32),
                lb: BondLbAlgo(bond.balance_number()),
                numa_only: false,
                active_members: members().filter(|(_, m)| m.active).count() as u32,
                members: members().count() as u32,
                interface_name: i.name.clone(),
            });
        }
    });
    t.dump(|r, m: &SwMemberInterfaceDump, out| {
        for (i, member) in members(r, m.sw_if_index) {
            out.send(&SwMemberInterfaceDetails {
                sw_if_index: i.index,
                interface_name: i.name.clone(),
                is_passive: member.passive,
                is_long_timeout: member.long_timeout,
                is_local_numa: true,
                weight: 0,
            });
        }
    });
}

/// The members of a bond.
fn members(r: &Router, bond: u32) -> impl Iterator<Item = (&Interface, Membership)> {
    let member = move |i: &Interface| i.member.filter(|m| m.bond == bond);
    let all = r.interfaces().iter();
    all.filter_map(move |i| Some((i, member(i)?)))
}

fn line(id: u32, mode: BondMode, lb: BondLbAlgo, mac: &str) -> Done<String> {
    let mode = match mode {
        BondMode::BOND_API_MODE_ROUND_ROBIN => "round-robin",
        BondMode::BOND_API_MODE_ACTIVE_BACKUP => "active-backup",
        BondMode::BOND_API_MODE_XOR => "xor",
        BondMode::BOND_API_MODE_BROADCAST => "broadcast",
        BondMode::BOND_API_MODE_LACP => "lacp",
        other => {
            return Err(Refusal::new(
                retval::VALUE,
                format!("bond mode {}: 1 to 5 are there", other.0),
            ));
        }
    };
    // Only these two modes look at packets to choose a member.
    let balance = match lb {
        _ if !matches!(mode, "xor" | "lacp") => "",
        BondLbAlgo::BOND_API_LB_ALGO_L34 => " load-balance l34",
        BondLbAlgo::BOND_API_LB_ALGO_L23 => " load-balance l23",
        _ => " load-balance l2",
    };
    let id = if id == NONE {
        String::new()
    } else {
        format!(" id {id}")
    };
    Ok(format!("create bond mode {mode}{balance}{id}{mac}"))
}
