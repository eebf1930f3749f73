//! Access lists: VPP's acl plugin. Lists have numbers, and an interface has lists for what comes in and for what goes out.

use parshall_control::{AclAction as RuleAction, AclRule as Rule, Router};
use parshall_vpp_wire::msg;
use parshall_vpp_wire::msg::*;

use super::address::parts;
use super::{NONE, is_wanted, name_of};
use crate::registry::{Done, Refusal, Registry, if_exists, if_in_use};
use crate::retval;

pub(super) fn register(t: &mut Registry) {
    t.answer(|_, _: &AclPluginGetVersion| Ok(AclPluginGetVersionReply { major: 1, minor: 4 }));
    t.answer(|r, m: &AclAddReplace| {
        let rules = m.r.iter().map(rule).collect::<Done<Vec<Rule>>>()?;
        let index = (m.acl_index != NONE).then_some(m.acl_index);
        if let Some(index) = index {
            known(r, index)?;
        }
        let acl_index = r.acl_add_replace(index, &m.tag, rules)?;
        Ok(AclAddReplaceReply {
            acl_index,
            retval: 0,
        })
    });
    t.ack(|r, m: &AclDel| {
        known(r, m.acl_index)?;
        let input = r
            .acl_interfaces()
            .any(|(_, l)| l.input.contains(&m.acl_index));
        let used = match input {
            true => retval::ACL_IN_USE_INPUT,
            false => retval::ACL_IN_USE_OUTPUT,
        };
        r.acl_del(m.acl_index).map_err(if_in_use(used))
    });
    t.ack(|r, m: &AclInterfaceSetAclList| {
        let input = usize::from(m.n_input).min(m.acls.len());
        let (input, output) = m.acls.split_at(input);
        set(r, m.sw_if_index, input.to_vec(), output.to_vec())
    });
    t.ack(|r, m: &AclInterfaceAddDel| {
        let (mut input, mut output) = lists(r, m.sw_if_index);
        let list = if m.is_input { &mut input } else { &mut output };
        let there = list.iter().position(|n| *n == m.acl_index);
        match (m.is_add, there) {
            (true, None) => list.push(m.acl_index),
            (false, Some(at)) => drop(list.remove(at)),
            (true, Some(_)) => {
                let there = match m.is_input {
                    true => retval::ACL_IN_USE_INPUT,
                    false => retval::ACL_IN_USE_OUTPUT,
                };
                let why = format!("ACL {} is there already", m.acl_index);
                return Err(Refusal::new(there, why));
            }
            (false, None) => {
                return Err(Refusal::new(
                    retval::NO_ENTRY,
                    format!("ACL {} is not there", m.acl_index),
                ));
            }
        }
        set(r, m.sw_if_index, input, output)
    });
    t.dump(|r, m: &AclDump, out| {
        for (acl_index, acl) in r
            .acls()
            .filter(|(n, _)| m.acl_index == NONE || m.acl_index == *n)
        {
            out.send(&AclDetails {
                acl_index,
                tag: acl.tag().to_owned(),
                r: acl.rules().iter().map(told).collect(),
            });
        }
    });
    t.each_interface(|r, m: &AclInterfaceListDump, i, out| {
        if !is_wanted(m.sw_if_index, i) {
            return;
        }
        let (input, output) = lists(r, i.index);
        if !(input.is_empty() && output.is_empty() && m.sw_if_index == NONE) {
            out.send(&AclInterfaceListDetails {
                sw_if_index: i.index,
                n_input: u8::try_from(input.len()).unwrap_or(u8::MAX),
                acls: input.into_iter().chain(output).collect(),
            });
        }
    });
    // Matches are always counted.
    t.ack(|_, _: &AclStatsIntfCountersEnable| Ok(()));
}

fn known(r: &Router, index: u32) -> Done<()> {
    let missing = |e: parshall_control::Error| Refusal::new(retval::NO_ENTRY, e.to_string());
    r.acl(index).map(drop).map_err(missing)
}

/// The lists of an interface, for what comes in and for what goes out.
fn lists(r: &Router, index: u32) -> (Vec<u32>, Vec<u32>) {
    let found = r.acl_interfaces().find(|(n, _)| *n == index);
    found.map_or_else(Default::default, |(_, l)| {
        (l.input.clone(), l.output.clone())
    })
}

fn set(r: &mut Router, index: u32, input: Vec<u32>, output: Vec<u32>) -> Done<()> {
    name_of(r, index)?;
    for n in input.iter().chain(&output) {
        known(r, *n)?;
    }
    r.acl_interface_set_acl_list(index, input, output)
        .map_err(if_exists(retval::ENTRY_EXISTS))
}

fn rule(m: &msg::AclRule) -> Done<Rule> {
    let action = match m.is_permit {
        AclAction::ACL_ACTION_API_DENY => RuleAction::Deny,
        AclAction::ACL_ACTION_API_PERMIT => RuleAction::Permit,
        AclAction::ACL_ACTION_API_PERMIT_REFLECT => {
            return Err(Refusal::unimplemented("permit+reflect in an ACL"));
        }
        other => {
            return Err(Refusal::new(
                retval::VALUE,
                format!("ACL action {}", other.0),
            ));
        }
    };
    let (src, dst) = (parts(&m.src_prefix)?, parts(&m.dst_prefix)?);
    Ok(Rule {
        action,
        src,
        dst,
        proto: m.proto.0,
        sport: (m.srcport_or_icmptype_first, m.srcport_or_icmptype_last),
        dport: (m.dstport_or_icmpcode_first, m.dstport_or_icmpcode_last),
        tcp_mask: m.tcp_flags_mask,
        tcp_value: m.tcp_flags_value,
    })
}

fn told(rule: &Rule) -> msg::AclRule {
    msg::AclRule {
        is_permit: match rule.action {
            RuleAction::Permit => AclAction::ACL_ACTION_API_PERMIT,
            RuleAction::PermitReflect => AclAction::ACL_ACTION_API_PERMIT_REFLECT,
            RuleAction::Deny => AclAction::ACL_ACTION_API_DENY,
        },
        src_prefix: Prefix::new(rule.src.0, rule.src.1),
        dst_prefix: Prefix::new(rule.dst.0, rule.dst.1),
        proto: IpProto(rule.proto),
        srcport_or_icmptype_first: rule.sport.0,
        srcport_or_icmptype_last: rule.sport.1,
        dstport_or_icmpcode_first: rule.dport.0,
        dstport_or_icmpcode_last: rule.dport.1,
        tcp_flags_mask: rule.tcp_mask,
        tcp_flags_value: rule.tcp_value,
    }
}
