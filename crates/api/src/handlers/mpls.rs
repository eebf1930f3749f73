//! MPLS: the table, labels, interfaces.

use parshall_control::{Family, IpNet, Path, Router, Via};
use parshall_vpp_wire::msg::*;

use super::address::parts;
use super::route::{fib_path, path};
use super::{is_wanted, name_of};
use crate::registry::{Answers, Done, Refusal, Registry};
use crate::retval;

pub(super) fn register(t: &mut Registry) {
    t.ack(|r, m: &MplsTableAddDel| {
        only_table(m.mt_table.mt_table_id)?;
        // Making it twice is no mistake in VPP.
        if r.has_mpls_table() == m.mt_is_add {
            return Ok(());
        }
        if !m.mt_is_add {
            for (label, eos, _) in r.labels() {
                r.remove_label(label, eos)?;
            }
        }
        Ok(r.set_mpls_table(m.mt_is_add)?)
    });
    t.dump(|r, _: &MplsTableDump, out| {
        if r.has_mpls_table() {
            let mt_table = MplsTable {
                mt_table_id: 0,
                mt_name: "MPLS-VRF:0".into(),
            };
            out.send(&MplsTableDetails { mt_table });
        }
    });
    t.answer(|r, m: &MplsRouteAddDel| {
        change(r, &m.mr_route, m.mr_is_add, m.mr_is_multipath)?;
        Ok(MplsRouteAddDelReply {
            retval: 0,
            stats_index: 0,
        })
    });
    t.dump(|r, m: &MplsRouteDump, out| dump(r, m, out));
    t.ack(|r, m: &SwInterfaceSetMplsEnable| {
        let name = name_of(r, m.sw_if_index)?;
        Ok(r.set_mpls(&name, m.enable)?)
    });
    t.ack(|r, m: &MplsIpBindUnbind| bind(r, m));
    t.each_interface(|_, m: &MplsInterfaceDump, i, out| {
        if i.mpls && is_wanted(m.sw_if_index, i) {
            out.send(&MplsInterfaceDetails {
                sw_if_index: i.index,
            });
        }
    });
}

fn only_table(id: u32) -> Done<()> {
    if id == 0 {
        return Ok(());
    }
    Err(Refusal::new(
        retval::NO_TABLE,
        format!("no mpls table {id}: 0 is the only one"),
    ))
}

/// Binds a label to a host's route: packets with it go where that route leads, whatever becomes of it.
fn bind(r: &mut Router, m: &MplsIpBindUnbind) -> Done<()> {
    only_table(m.mb_mpls_table_id)?;
    let (ip, len) = parts(&m.mb_prefix)?;
    let (f, net) = (Family::of(ip), IpNet::new(ip, len));
    if !r.tables().any(|t| t == (f, m.mb_ip_table_id)) {
        let why = format!("no {} table {}", f.word(), m.mb_ip_table_id);
        return Err(Refusal::new(retval::NO_TABLE, why));
    }
    if !net.is_host() || m.mb_ip_table_id != 0 {
        return Err(Refusal::unimplemented(
            "a label for a prefix that is no host's, or of another table than 0,",
        ));
    }
    for eos in [true, false] {
        if r.has_label(m.mb_label, eos) {
            r.remove_label(m.mb_label, eos)?;
        }
        if m.mb_is_bind {
            let if_index = None;
            let path = Path::new(Via::NextHop { ip, if_index });
            r.add_label(m.mb_label, eos, vec![path])?;
        }
    }
    Ok(())
}

fn change(r: &mut Router, m: &MplsRoute, add: bool, multipath: bool) -> Done<()> {
    only_table(m.mr_table_id)?;
    if m.mr_is_multicast {
        return Err(Refusal::unimplemented("multicast of labelled packets"));
    }
    let (label, eos) = (m.mr_label, m.mr_eos != 0);
    let paths: Vec<Path> = m.mr_paths.iter().map(|p| path(r, p)).collect::<Done<_>>()?;
    let have = r.labels().into_iter().find(|l| (l.0, l.1) == (label, eos));
    if add {
        if have.is_some() && !multipath {
            r.remove_label(label, eos)?;
        }
        return Ok(r.add_label(label, eos, paths)?);
    }
    let Some((.., have)) = have else {
        return Ok(());
    };
    r.remove_label(label, eos)?;
    let keep: Vec<Path> = have
        .into_iter()
        .filter(|h| !paths.iter().any(|p| p.same_way(h)))
        .collect();
    if multipath && !keep.is_empty() {
        r.add_label(label, eos, keep)?;
    }
    Ok(())
}

fn dump(r: &Router, m: &MplsRouteDump, out: &mut Answers) {
    if m.table.mt_table_id != 0 {
        return;
    }
    for (label, eos, paths) in r.labels() {
        let mr_route = MplsRoute {
            mr_table_id: 0,
            mr_label: label,
            mr_eos: u8::from(eos),
            mr_eos_proto: 0,
            mr_is_multicast: false,
            mr_paths: paths.iter().map(|p| fib_path(p, 0, Family::Ip4)).collect(),
        };
        out.send(&MplsRouteDetails { mr_route });
    }
}
