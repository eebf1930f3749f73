//! What interfaces are made of.

use std::net::IpAddr;

use parshall_drivers::af_xdp::{AfXdpConfig, CopyMode};
use parshall_drivers::memif::Role;
use parshall_nodes::vlan::{VlanId, VlanMatch};
use serde_json::{Value, json};

use super::section::Section;
use crate::drivers::{DeviceKind, DeviceSpec, MemifSpec, TapSpec};
use crate::interface::Interface;

/// What an interface is made of.
pub(super) fn device(r: &mut Section, spec: &DeviceSpec, i: &Interface) {
    if i.parent.is_none() && i.name != spec.kind.default_name(i.instance) {
        r.put("type", spec.kind.type_name());
    }
    match &spec.kind {
        DeviceKind::Pg | DeviceKind::Loopback | DeviceKind::Virtual(_) => {}
        DeviceKind::Pcap {
            rx,
            tx,
            looping,
            speed,
        } => {
            r.some("receive", rx.as_ref().map(|p| p.display().to_string()));
            r.some("transmit", tx.as_ref().map(|p| p.display().to_string()));
            r.on("loop", *looping);
            r.some("speed", *speed);
        }
        DeviceKind::Tap(t) => tap(r, t),
        DeviceKind::AfPacket {
            host_if,
            host_ns,
            queues,
        } => {
            r.put("host-interface", host_if.as_str());
            r.some("namespace", host_ns.as_deref());
            r.unless("queues", *queues as u64, 0);
        }
        DeviceKind::Memif(m) => memif(r, m),
        DeviceKind::AfXdp(c) => af_xdp(r, c),
    }
}

/// The frames of a sub-interface; what numbers alone do not say in the words of the command.
pub(super) fn encapsulation(takes: &VlanMatch) -> Value {
    let words = |text: &str| json!({ "match": text });
    let VlanMatch::Tagged {
        dot1ad,
        outer,
        inner,
        exact,
    } = *takes
    else {
        return words(if *takes == VlanMatch::Default {
            "default"
        } else {
            "untagged"
        });
    };
    let kind = if dot1ad { "dot1ad" } else { "dot1q" };
    let shown = |v: VlanId| match v {
        VlanId::Is(n) => n.to_string(),
        VlanId::Any => "any".into(),
    };
    let mut r = Section::default();
    match (outer, inner) {
        (VlanId::Is(n), None) => r.put(kind, n),
        (VlanId::Is(n), Some(VlanId::Is(m))) => {
            r.put(kind, n);
            r.put("inner-dot1q", m);
        }
        _ => {
            let mut text = format!("{kind} {}", shown(outer));
            if let Some(inner) = inner {
                text += &format!(" inner-dot1q {}", shown(inner));
            }
            if exact {
                text += " exact-match";
            }
            return words(&text);
        }
    }
    r.on("exact-match", exact);
    r.0.into()
}

fn tap(r: &mut Section, t: &TapSpec) {
    r.some("host-interface", t.host_if.as_deref());
    r.some("namespace", t.host_ns.as_deref());
    r.some("host-mac", t.host_mac.map(crate::text::mac));
    r.some("host-mtu", t.host_mtu);
    r.some("host-bridge", t.host_bridge.as_deref());
    r.some("rx-queue-size", t.rx_ring);
    r.some("tx-queue-size", t.tx_ring);
    let prefixes = t.host_addrs.iter().map(|(a, l)| format!("{a}/{l}").into());
    r.list("host-addresses", prefixes.collect());
    let gateways = t
        .host_gateways
        .iter()
        .map(|a: &IpAddr| a.to_string().into());
    r.list("host-gateways", gateways.collect());
    r.unless("queues", t.queues as u64, 0);
}

fn memif(r: &mut Section, m: &MemifSpec) {
    let usual = MemifSpec::default();
    r.put("socket-id", m.socket_id);
    r.put("id", m.id);
    if m.role == Role::Slave {
        r.put("role", "slave");
    }
    r.unless("ring-size", m.ring_size.into(), usual.ring_size.into());
    r.unless(
        "buffer-size",
        m.buffer_size.into(),
        usual.buffer_size.into(),
    );
    r.unless("queues", m.rx_queues as u64, usual.rx_queues as u64);
    r.unless("tx-queues", m.tx_queues as u64, usual.tx_queues as u64);
    r.some("secret", m.secret.as_deref());
}

fn af_xdp(r: &mut Section, c: &AfXdpConfig) {
    r.put("host-interface", c.host_if.as_str());
    r.some("namespace", c.host_ns.as_deref());
    r.unless("queues", c.rx_queues as u64, 0);
    r.unless("tx-queues", c.tx_queues as u64, 0);
    r.unless("rx-queue-size", c.rx_ring.into(), 0);
    r.unless("tx-queue-size", c.tx_ring.into(), 0);
    match c.copy {
        CopyMode::Auto => {}
        CopyMode::Copy => r.put("copy-mode", "copy"),
        CopyMode::ZeroCopy => r.put("copy-mode", "zero-copy"),
    }
    if let Some(mode) = c.xdp {
        let native = mode == parshall_drivers::af_xdp::XdpMode::Native;
        r.put("xdp-mode", if native { "native" } else { "generic" });
    }
    r.some("busy-poll", c.busy_poll);
}
