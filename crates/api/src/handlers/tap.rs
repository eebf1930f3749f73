//! Taps, and their pairs with interfaces of the Linux control plane, of which there are none.

use std::net::IpAddr;

use parshall_control::{DeviceKind, DeviceSpec, Interface, Router, TapSpec};
use parshall_vpp_wire::msg::*;

use super::{NONE, delete, is_wanted};
use crate::registry::{Done, Refusal, Registry};
use crate::retval;

/// Slots of the rings that VPP would have.
const RING: u16 = 256;

pub(super) fn register(t: &mut Registry) {
    t.answer(|r, m: &TapCreateV3| {
        let sw_if_index = create(r, m)?;
        Ok(TapCreateV3Reply {
            retval: 0,
            sw_if_index,
        })
    });
    t.answer(|r, m: &TapCreateV2| {
        let sw_if_index = create(r, &newer(m))?;
        Ok(TapCreateV2Reply {
            retval: 0,
            sw_if_index,
        })
    });
    t.ack(|r, m: &TapDeleteV2| delete(r, m.sw_if_index, "tap"));
    t.each_interface(|_, m: &SwInterfaceTapV2Dump, i, out| {
        if let Some(spec) = tap_of(i).filter(|_| is_wanted(m.sw_if_index, i)) {
            out.send(&details(i, spec));
        }
    });
    t.pages(|_, _: &LcpItfPairGet, _, out| {
        out.send(&LcpItfPairGetReply {
            retval: 0,
            cursor: NONE,
        });
        Ok(None)
    });
    t.pages(|_, _: &LcpItfPairGetV2, _, out| {
        out.send(&LcpItfPairGetV2Reply {
            retval: 0,
            cursor: NONE,
        });
        Ok(None)
    });
    t.answer(|_, _: &LcpDefaultNsGet| Ok(LcpDefaultNsGetReply::default()));
}

/// An address and the length of its prefix.
type Net = (IpAddr, u8);

fn create(r: &mut Router, m: &TapCreateV3) -> Done<u32> {
    if m.tap_flags.has(TapFlags::TAP_API_FLAG_TUN) {
        return Err(Refusal::unimplemented("a tap of layer 3"));
    }
    let (p4, p6) = (&m.host_ip4_prefix, &m.host_ip6_prefix);
    let four: Option<Net> = m.host_ip4_prefix_set.then(|| (p4.address.into(), p4.len));
    let six: Option<Net> = m.host_ip6_prefix_set.then(|| (p6.address.into(), p6.len));
    for (ip, len) in four.iter().chain(&six) {
        if *len > if ip.is_ipv4() { 32 } else { 128 } {
            return Err(Refusal::new(
                retval::PREFIX_LENGTH,
                format!("{ip}/{len} is no prefix"),
            ));
        }
    }
    let gateway4 = m.host_ip4_gw_set.then(|| IpAddr::from(m.host_ip4_gw));
    let gateway6 = m.host_ip6_gw_set.then(|| IpAddr::from(m.host_ip6_gw));
    let spec = TapSpec {
        host_if: m.host_if_name_set.then(|| m.host_if_name.clone()),
        host_ns: m.host_namespace_set.then(|| m.host_namespace.clone()),
        host_mac: m.host_mac_addr_set.then_some(m.host_mac_addr),
        host_mtu: m.host_mtu_set.then_some(m.host_mtu_size),
        host_bridge: m.host_bridge_set.then(|| m.host_bridge.clone()),
        rx_ring: (m.rx_ring_sz != 0).then_some(m.rx_ring_sz),
        tx_ring: (m.tx_ring_sz != 0).then_some(m.tx_ring_sz),
        host_addrs: four.into_iter().chain(six).collect(),
        host_gateways: gateway4.into_iter().chain(gateway6).collect(),
        queues: usize::from(m.num_rx_queues).min(64),
    };
    let name = r.create_interface(DeviceSpec {
        instance: (m.id != NONE).then_some(m.id),
        name: None,
        mac: (!m.use_random_mac).then_some(m.mac_address),
        kind: DeviceKind::Tap(spec),
    })?;
    super::index_of(r, &name)
}

fn newer(m: &TapCreateV2) -> TapCreateV3 {
    TapCreateV3 {
        id: m.id,
        use_random_mac: m.use_random_mac,
        mac_address: m.mac_address,
        num_rx_queues: u16::from(m.num_rx_queues),
        num_tx_queues: 1,
        tx_ring_sz: m.tx_ring_sz,
        rx_ring_sz: m.rx_ring_sz,
        host_mtu_set: m.host_mtu_set,
        host_mtu_size: m.host_mtu_size,
        host_mac_addr_set: m.host_mac_addr_set,
        host_mac_addr: m.host_mac_addr,
        host_ip4_prefix_set: m.host_ip4_prefix_set,
        host_ip4_prefix: m.host_ip4_prefix.clone(),
        host_ip6_prefix_set: m.host_ip6_prefix_set,
        host_ip6_prefix: m.host_ip6_prefix.clone(),
        host_ip4_gw_set: m.host_ip4_gw_set,
        host_ip4_gw: m.host_ip4_gw,
        host_ip6_gw_set: m.host_ip6_gw_set,
        host_ip6_gw: m.host_ip6_gw,
        tap_flags: m.tap_flags,
        host_namespace_set: m.host_namespace_set,
        host_namespace: m.host_namespace.clone(),
        host_if_name_set: m.host_if_name_set,
        host_if_name: m.host_if_name.clone(),
        host_bridge_set: m.host_bridge_set,
        host_bridge: m.host_bridge.clone(),
        tag: m.tag.clone(),
    }
}

fn tap_of(i: &Interface) -> Option<&TapSpec> {
    match &i.spec.as_ref()?.kind {
        DeviceKind::Tap(spec) => Some(spec),
        _ => None,
    }
}

fn details(i: &Interface, spec: &TapSpec) -> SwInterfaceTapV2Details {
    let mut d = SwInterfaceTapV2Details {
        sw_if_index: i.index,
        id: i.instance,
        tx_ring_sz: spec.tx_ring.unwrap_or(RING),
        rx_ring_sz: spec.rx_ring.unwrap_or(RING),
        host_mtu_size: spec.host_mtu.unwrap_or(0),
        host_mac_addr: spec.host_mac.unwrap_or_default(),
        dev_name: i.name.clone(),
        host_if_name: spec.host_if.clone().unwrap_or_else(|| i.name.clone()),
        host_bridge: spec.host_bridge.clone().unwrap_or_default(),
        host_namespace: spec.host_ns.clone().unwrap_or_default(),
        ..SwInterfaceTapV2Details::default()
    };
    for (ip, len) in &spec.host_addrs {
        match ip {
            IpAddr::V4(a) => {
                d.host_ip4_prefix = Ip4Prefix {
                    address: a.octets(),
                    len: *len,
                }
            }
            IpAddr::V6(a) => {
                d.host_ip6_prefix = Ip6Prefix {
                    address: a.octets(),
                    len: *len,
                }
            }
        }
    }
    d
}
