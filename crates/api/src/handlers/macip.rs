//! MAC-IP access lists of VPP's acl plugin: which stations may send from which addresses. Always for what comes in.

use parshall_control::{MacipAcl, MacipRule as Rule, Router};
use parshall_vpp_wire::msg::*;

use super::address::parts;
use super::{NONE, interface_of, is_wanted};
use crate::registry::{Done, Refusal, Registry};
use crate::retval;

pub(super) fn register(t: &mut Registry) {
    t.answer(|r, m: &MacipAclAdd| {
        let acl_index = r.macip_add_replace(None, &m.tag, rules(&m.r)?)?;
        Ok(MacipAclAddReply {
            acl_index,
            retval: 0,
        })
    });
    t.answer(|r, m: &MacipAclAddReplace| {
        let index = (m.acl_index != NONE).then_some(m.acl_index);
        let acl_index = r.macip_add_replace(index, &m.tag, rules(&m.r)?)?;
        Ok(MacipAclAddReplaceReply {
            acl_index,
            retval: 0,
        })
    });
    t.ack(|r, m: &MacipAclDel| Ok(r.macip_del(m.acl_index)?));
    t.ack(|r, m: &MacipAclInterfaceAddDel| {
        interface_of(r, m.sw_if_index)?;
        if m.is_add {
            return Ok(r.set_macip(m.sw_if_index, Some(m.acl_index))?);
        }
        if list_of(r, m.sw_if_index) == NONE {
            let why = format!("interface {} has no MAC-IP ACL", m.sw_if_index);
            return Err(Refusal::new(retval::NO_ENTRY, why));
        }
        Ok(r.set_macip(m.sw_if_index, None)?)
    });
    t.dump(|r, m: &MacipAclDump, out| {
        let wanted = |n: u32| m.acl_index == NONE || m.acl_index == n;
        for (n, acl) in r.macip_acls().filter(|(n, _)| wanted(*n)) {
            out.send(&details(n, acl));
        }
    });
    t.answer(|r, _: &MacipAclInterfaceGet| {
        let last = r.macip_interfaces().map(|(i, _)| i).max();
        let acls = (0..last.map_or(0, |l| l + 1)).map(|i| list_of(r, i));
        Ok(MacipAclInterfaceGetReply {
            acls: acls.collect(),
        })
    });
    t.each_interface(|r, m: &MacipAclInterfaceListDump, i, out| {
        let list = list_of(r, i.index);
        if is_wanted(m.sw_if_index, i) && list != NONE {
            out.send(&MacipAclInterfaceListDetails {
                sw_if_index: i.index,
                acls: vec![list],
            });
        }
    });
}

/// The list of an interface.
fn list_of(r: &Router, if_index: u32) -> u32 {
    let found = r.macip_interfaces().find(|(i, _)| *i == if_index);
    found.map_or(NONE, |(_, n)| n)
}

fn rules(r: &[MacipAclRule]) -> Done<Vec<Rule>> {
    let rule = |m: &MacipAclRule| {
        let permit = match m.is_permit {
            AclAction::ACL_ACTION_API_DENY => false,
            AclAction::ACL_ACTION_API_PERMIT => true,
            other => {
                let why = format!("action {} in a MAC-IP ACL", other.0);
                return Err(Refusal::new(retval::VALUE, why));
            }
        };
        Ok(Rule {
            permit,
            mac: m.src_mac,
            mask: m.src_mac_mask,
            src: parts(&m.src_prefix)?,
        })
    };
    r.iter().map(rule).collect()
}

fn details(acl_index: u32, acl: &MacipAcl) -> MacipAclDetails {
    let told = |rule: &Rule| MacipAclRule {
        is_permit: match rule.permit {
            true => AclAction::ACL_ACTION_API_PERMIT,
            false => AclAction::ACL_ACTION_API_DENY,
        },
        src_mac: rule.mac,
        src_mac_mask: rule.mask,
        src_prefix: Prefix::new(rule.src.0, rule.src.1),
    };
    MacipAclDetails {
        acl_index,
        tag: acl.tag.clone(),
        r: acl.list.rules().iter().map(told).collect(),
    }
}
