//! Addresses of interfaces, their tables, unnumbered ones.

use parshall_control::Family;
use parshall_vpp_wire::msg::*;

use super::{command, interface_of, is_wanted, name_of};
use crate::registry::{Done, Refusal, Registry, retval};

pub(super) fn register(t: &mut Registry) {
    t.ack(|r, m: &SwInterfaceAddDelAddress| {
        let name = name_of(r, m.sw_if_index)?;
        if m.del_all {
            return Ok(r.remove_all_addresses(&name)?);
        }
        let (ip, len) = parts(&m.prefix)?;
        if m.is_add {
            Ok(r.add_address(&name, ip, len)?)
        } else {
            Ok(r.remove_address(&name, ip, len)?)
        }
    });
    t.each_interface(|_, m: &IpAddressDump, i, out| {
        if i.index != m.sw_if_index {
            return;
        }
        for (ip, len) in i.addresses.iter().filter(|a| a.0.is_ipv6() == m.is_ipv6) {
            out.send(&IpAddressDetails {
                sw_if_index: i.index,
                prefix: Prefix::new(*ip, *len),
            });
        }
    });
    t.each_interface(|_, m: &IpDump, i, out| {
        if i.speaks(family(m.is_ipv6)) {
            out.send(&IpDetails {
                sw_if_index: i.index,
                is_ipv6: m.is_ipv6,
            });
        }
    });
    t.each_interface(|_, m: &IpUnnumberedDump, i, out| {
        if let Some(lender) = i.unnumbered.filter(|_| is_wanted(m.sw_if_index, i)) {
            out.send(&IpUnnumberedDetails {
                sw_if_index: i.index,
                ip_sw_if_index: lender,
            });
        }
    });
    t.ack(|r, m: &SwInterfaceSetUnnumbered| {
        // VPP's field names are the other way round: the first lends its addresses.
        let (lender, borrower) = (
            name_of(r, m.sw_if_index)?,
            name_of(r, m.unnumbered_sw_if_index)?,
        );
        let line = if m.is_add {
            format!("set interface unnumbered {borrower} use {lender}")
        } else {
            format!("set interface unnumbered del {borrower}")
        };
        command(r, &line).map(drop)
    });
    t.ack(|r, m: &SwInterfaceSetTable| {
        let name = name_of(r, m.sw_if_index)?;
        Ok(r.bind_table(&name, family(m.is_ipv6), m.vrf_id)?)
    });
    t.answer(|r, m: &SwInterfaceGetTable| {
        Ok(SwInterfaceGetTableReply {
            retval: 0,
            vrf_id: interface_of(r, m.sw_if_index)?.table(family(m.is_ipv6)),
        })
    });
    t.ack(|r, m: &SwInterfaceIp6EnableDisable| {
        let name = name_of(r, m.sw_if_index)?;
        Ok(r.set_ip6_enabled(&name, m.enable)?)
    });
    t.answer(|r, m: &SwInterfaceIp6GetLinkLocalAddress| {
        let ip = interface_of(r, m.sw_if_index)?.link_local();
        let ip = ip.ok_or_else(|| Refusal::new(retval::NO_ENTRY, "it does not speak IPv6"))?;
        Ok(SwInterfaceIp6GetLinkLocalAddressReply {
            retval: 0,
            ip: ip.octets(),
        })
    });
}

pub(super) fn family(is_ipv6: bool) -> Family {
    if is_ipv6 { Family::Ip6 } else { Family::Ip4 }
}

/// Address and length of a prefix.
pub(super) fn parts(p: &Prefix) -> Done<(std::net::IpAddr, u8)> {
    p.parts().ok_or_else(|| {
        let why = format!("a prefix of family {} and length {}", p.address.af.0, p.len);
        Refusal::new(retval::VALUE, why)
    })
}
