//! Bonds.

use parshall_control::{BondBalance, BondMode as Mode, BondSpec, Interface, Membership, Router};
use parshall_vpp_wire::msg::*;

use super::{NONE, index_of, interface_of, is_wanted, name_of, own_mac};
use crate::registry::{Done, Refusal, Registry, if_exists};
use crate::retval;

/// Largest number of a bond.
const ID_MAX: u32 = 65_534;

pub(super) fn register(t: &mut Registry) {
    t.answer(|r, m: &BondCreate| {
        let mac = own_mac(m.mac_address, m.use_custom_mac)?;
        let sw_if_index = create(r, spec(m.id, m.mode, m.lb)?, mac)?;
        Ok(BondCreateReply {
            retval: 0,
            sw_if_index,
        })
    });
    t.answer(|r, m: &BondCreate2| {
        let mac = own_mac(m.mac_address, m.use_custom_mac)?;
        let sw_if_index = create(r, spec(m.id, m.mode, m.lb)?, mac)?;
        Ok(BondCreate2Reply {
            retval: 0,
            sw_if_index,
        })
    });
    t.ack(|r, m: &BondDelete| {
        let i = interface_of(r, m.sw_if_index)?;
        let name = i.name.clone();
        if i.bond().is_none() {
            let why = format!("{name} is no bond");
            return Err(Refusal::new(retval::NO_INTERFACE, why));
        }
        Ok(r.delete_bond(&name)?)
    });
    t.answer(|r, m: &BondAddMember| {
        let bond = name_of(r, m.bond_sw_if_index)?;
        let i = interface_of(r, m.sw_if_index)?;
        let member = i.name.clone();
        if i.member.is_some() {
            let why = format!("{member} is a member of a bond already");
            return Err(Refusal::new(retval::EXISTS, why));
        }
        r.add_bond_member(&bond, &member, (m.is_passive, m.is_long_timeout))?;
        Ok(BondAddMemberReply { retval: 0 })
    });
    t.ack(|r, m: &BondDetachMember| {
        let name = name_of(r, m.sw_if_index)?;
        Ok(r.remove_bond_member(&name)?)
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

fn create(r: &mut Router, spec: BondSpec, mac: Option<[u8; 6]>) -> Done<u32> {
    let taken = |i: &Interface| i.bond().is_some() && Some(i.instance) == spec.id;
    if r.interfaces().iter().any(taken) {
        let why = format!("the number {} is another bond's", spec.id.unwrap_or(0));
        return Err(Refusal::new(retval::INSTANCE_IN_USE, why));
    }
    let name = r
        .create_bond(spec, mac)
        .map_err(if_exists(retval::INSTANCE_IN_USE))?;
    index_of(r, &name)
}

fn spec(id: u32, mode: BondMode, lb: BondLbAlgo) -> Done<BondSpec> {
    let mode = match mode {
        BondMode::BOND_API_MODE_ROUND_ROBIN => Mode::RoundRobin,
        BondMode::BOND_API_MODE_ACTIVE_BACKUP => Mode::ActiveBackup,
        BondMode::BOND_API_MODE_XOR => Mode::Xor,
        BondMode::BOND_API_MODE_BROADCAST => Mode::Broadcast,
        BondMode::BOND_API_MODE_LACP => Mode::Lacp,
        other => {
            let why = format!("bond mode {}: 1 to 5 are there", other.0);
            return Err(Refusal::new(retval::ARGUMENT, why));
        }
    };
    // Only two modes look at packets to choose a member; what the others are told does not matter.
    let balance = match lb {
        _ if !matches!(mode, Mode::Xor | Mode::Lacp) => BondBalance::L2,
        BondLbAlgo::BOND_API_LB_ALGO_L34 => BondBalance::L34,
        BondLbAlgo::BOND_API_LB_ALGO_L23 => BondBalance::L23,
        _ => BondBalance::L2,
    };
    if id != NONE && id > ID_MAX {
        let why = format!("bond number {id}: 0 to {ID_MAX} are there");
        return Err(Refusal::new(retval::ARGUMENT, why));
    }
    Ok(BondSpec {
        id: (id != NONE).then_some(id),
        mode,
        balance,
    })
}
