//! Addresses of interfaces, their tables, unnumbered ones.

use parshall_control::{Error, Family, Interface, Router};
use parshall_vpp_wire::msg::*;

use super::{interface_of, is_wanted, name_of};
use crate::registry::{Done, Refusal, Registry};
use crate::retval;

pub(super) fn register(t: &mut Registry) {
    t.ack(|r, m: &SwInterfaceAddDelAddress| {
        let name = name_of(r, m.sw_if_index)?;
        if m.del_all {
            return Ok(r.remove_all_addresses(&name)?);
        }
        let (ip, len) = parts(&m.prefix)?;
        if m.is_add {
            return Ok(r.add_address(&name, ip, len)?);
        }
        let has = |i: &Interface| i.addresses.contains(&(ip, len));
        if !interface_of(r, m.sw_if_index).is_ok_and(has) {
            let why = format!("{name} does not have the address {ip}/{len}");
            return Err(Refusal::new(retval::NO_ADDRESS, why));
        }
        Ok(r.remove_address(&name, ip, len)?)
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
        Ok(r.set_unnumbered(&borrower, m.is_add.then_some(lender.as_str()))?)
    });
    t.ack(|r, m: &SwInterfaceSetTable| {
        let name = name_of(r, m.sw_if_index)?;
        let addresses = |e: Error| match e {
            Error::Interface { .. } => Refusal::new(retval::ADDRESS_FOUND, e.to_string()),
            e => e.into(),
        };
        r.bind_table(&name, family(m.is_ipv6), m.vrf_id)
            .map_err(addresses)
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
    t.ack(|r, m: &SwInterfaceIp6ndRaConfig| advertise(r, m));
    t.answer(|r, m: &SwInterfaceIp6GetLinkLocalAddress| {
        let ip = interface_of(r, m.sw_if_index)?.link_local();
        let ip = ip.ok_or_else(|| Refusal::new(retval::NO_IP6, "it does not speak IPv6"))?;
        Ok(SwInterfaceIp6GetLinkLocalAddressReply {
            retval: 0,
            ip: ip.octets(),
        })
    });
}

/// Router advertisements are never sent: to suppress them is done already, everything else cannot be.
fn advertise(r: &mut Router, m: &SwInterfaceIp6ndRaConfig) -> Done<()> {
    let i = interface_of(r, m.sw_if_index)?;
    if !i.speaks(Family::Ip6) {
        let why = format!("{} does not speak IPv6", i.name);
        return Err(Refusal::new(retval::NO_IP6, why));
    }
    let quiet = SwInterfaceIp6ndRaConfig {
        sw_if_index: m.sw_if_index,
        suppress: m.suppress,
        ..SwInterfaceIp6ndRaConfig::default()
    };
    match *m == quiet {
        true => Ok(()),
        false => Err(Refusal::unimplemented("sending router advertisements")),
    }
}

pub(super) fn family(is_ipv6: bool) -> Family {
    if is_ipv6 { Family::Ip6 } else { Family::Ip4 }
}

/// Address and length of a prefix.
pub(super) fn parts(p: &Prefix) -> Done<(std::net::IpAddr, u8)> {
    p.parts().ok_or_else(|| {
        let retval = match p.address.ip() {
            Some(_) => retval::PREFIX_LENGTH,
            None => retval::FAMILY,
        };
        let why = format!("a prefix of family {} and length {}", p.address.af.0, p.len);
        Refusal::new(retval, why)
    })
}
