//! Metrics of interfaces.

use parshall_control::snapshot::{Counters, Interface, Snapshot};

use super::{Metric, bool_value, metric};
use crate::expose::Kind::{Counter, Gauge, Info};
use crate::expose::Sample;

/// Labels of a metric by interface.
pub(super) const IF: &[&str] = &["interface"];
const CAST: &[&str] = &["interface", "cast"];

/// The list of them.
pub(super) const METRICS: &[Metric] = &[
    metric(
        Info,
        "parshall_interface",
        "",
        &["interface", "index", "if_index", "kind", "mac"],
        "An interface: its number, its ifIndex in sFlow, its device and its Ethernet address.",
        |s| {
            let row = |i: &Interface| {
                let labels = [
                    i.name.clone(),
                    i.index.to_string(),
                    i.if_index.to_string(),
                    i.kind.clone(),
                    i.mac.clone(),
                ];
                (labels.to_vec(), 1.0)
            };
            s.interfaces.iter().map(row).collect()
        },
    ),
    metric(
        Gauge,
        "parshall_interface_admin_up",
        "",
        IF,
        "Whether the interface is administratively up.",
        |s| per_interface(s, |i| Some(bool_value(i.admin_up))),
    ),
    metric(
        Gauge,
        "parshall_interface_link_up",
        "",
        IF,
        "Whether the interface is up and its device has a link.",
        |s| per_interface(s, |i| Some(bool_value(i.link_up))),
    ),
    metric(
        Gauge,
        "parshall_interface_mtu_bytes",
        "bytes",
        IF,
        "Largest IP packet.",
        |s| per_interface(s, |i| Some(f64::from(i.mtu))),
    ),
    metric(
        Gauge,
        "parshall_interface_speed_bytes_per_second",
        "",
        IF,
        "Speed of the link; absent where it is not known.",
        |s| per_interface(s, |i| (i.speed != 0).then_some(i.speed as f64 / 8.0)),
    ),
    metric(
        Counter,
        "parshall_interface_receive_bytes",
        "bytes",
        IF,
        "Bytes of frames received, without FCS.",
        |s| count(s, |c| c.rx_bytes),
    ),
    metric(
        Counter,
        "parshall_interface_transmit_bytes",
        "bytes",
        IF,
        "Bytes of frames sent, without FCS.",
        |s| count(s, |c| c.tx_bytes),
    ),
    metric(
        Counter,
        "parshall_interface_receive_packets",
        "packets",
        CAST,
        "Frames received, by how they are addressed.",
        |s| cast(s, |c| [c.rx_packets, c.rx_multicast, c.rx_broadcast]),
    ),
    metric(
        Counter,
        "parshall_interface_transmit_packets",
        "packets",
        CAST,
        "Frames sent, by how they are addressed.",
        |s| cast(s, |c| [c.tx_packets, c.tx_multicast, c.tx_broadcast]),
    ),
    metric(
        Counter,
        "parshall_interface_receive_drops",
        "",
        IF,
        "Frames received that were dropped, whatever the reason.",
        |s| count(s, |c| c.rx_drops),
    ),
    metric(
        Counter,
        "parshall_interface_receive_errors",
        "",
        IF,
        "Frames that the device handed over broken.",
        |s| count(s, |c| c.rx_errors),
    ),
    metric(
        Counter,
        "parshall_interface_receive_missed",
        "",
        IF,
        "Frames that the device or the kernel lost before the router saw them.",
        |s| count(s, |c| c.rx_missed),
    ),
    metric(
        Counter,
        "parshall_interface_receive_no_buffer",
        "",
        IF,
        "Frames thrown away because no packet buffer was free.",
        |s| count(s, |c| c.rx_no_buffer),
    ),
    metric(
        Counter,
        "parshall_interface_punts",
        "",
        IF,
        "Frames received that the router itself consumed.",
        |s| count(s, |c| c.punts),
    ),
    metric(
        Counter,
        "parshall_interface_transmit_drops",
        "",
        IF,
        "Frames that could not be sent.",
        |s| count(s, |c| c.tx_drops),
    ),
    metric(
        Counter,
        "parshall_interface_transmit_errors",
        "",
        IF,
        "Frames that the device refused.",
        |s| count(s, |c| c.tx_errors),
    ),
];

/// A value of each interface that has one.
pub(super) fn per_interface(
    s: &Snapshot,
    value: impl Fn(&Interface) -> Option<f64>,
) -> Vec<Sample> {
    let all = s.interfaces.iter();
    all.filter_map(|i| Some((vec![i.name.clone()], value(i)?)))
        .collect()
}

fn count(s: &Snapshot, value: fn(&Counters) -> u64) -> Vec<Sample> {
    per_interface(s, |i| Some(value(&i.counters) as f64))
}

/// Packets by interface and by how they are addressed.
fn cast(s: &Snapshot, of: fn(&Counters) -> [u64; 3]) -> Vec<Sample> {
    let each = |i: &Interface| {
        let [all, multicast, broadcast] = of(&i.counters);
        let unicast = all.saturating_sub(multicast.saturating_add(broadcast));
        [
            ("unicast", unicast),
            ("multicast", multicast),
            ("broadcast", broadcast),
        ]
        .map(|(kind, n)| (vec![i.name.clone(), kind.to_owned()], n as f64))
    };
    s.interfaces.iter().flat_map(each).collect()
}
