//! Bonds.

use parshall_vpp_wire::msg::*;

use super::{NONE, command, command_makes, mac_option, name_of};
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
    t.dump(|_, _: &SwBondInterfaceDump, _| {});
    t.dump(|_, _: &SwMemberInterfaceDump, _| {});
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
