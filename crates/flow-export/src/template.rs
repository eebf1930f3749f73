//! The templates: which fields the records of flows and of sampling have.
//!
//! A template is put together of stretches, so that it needs no memory of its own. Its number says its shape: family of the flow and labels.

use crate::element::{Element, Item, element};
use crate::exporter::{Protocol, Settings};
use crate::flow::{Flow, MAX_LABELS};

/// Number of the first template of flows; numbers up to 255 are not for templates.
const FIRST: u16 = 256;
/// Shapes of each family: no label, one, two ...
const PER_FAMILY: u16 = MAX_LABELS as u16 + 1;

/// What the template of a flow depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) ipv6: bool,
    pub(crate) labels: u8,
}

impl Shape {
    pub(crate) fn of(flow: &Flow) -> Shape {
        Shape {
            ipv6: flow.src.is_ipv6(),
            labels: flow.labels.entries().len() as u8,
        }
    }

    /// Number of the template.
    pub(crate) fn id(self) -> u16 {
        FIRST + self.bit()
    }

    /// Place in a set of shapes.
    pub(crate) fn bit(self) -> u16 {
        u16::from(self.ipv6) * PER_FAMILY + u16::from(self.labels)
    }
}

const IPV4: &[Element] = &[
    element(8, 4, Item::Src),
    element(12, 4, Item::Dst),
    element(15, 4, Item::NextHop),
    element(18, 4, Item::BgpNextHop),
    element(9, 1, Item::SrcMask),
    element(13, 1, Item::DstMask),
    element(32, 2, Item::Icmp),
];

const IPV6: &[Element] = &[
    element(27, 16, Item::Src),
    element(28, 16, Item::Dst),
    element(62, 16, Item::NextHop),
    element(63, 16, Item::BgpNextHop),
    element(29, 1, Item::SrcMask),
    element(30, 1, Item::DstMask),
];
/// Version 9 has one field for both kinds of ICMP and a flow label of three bytes.
const IPV6_NETFLOW9: &[Element] = &[element(31, 3, Item::FlowLabel), element(32, 2, Item::Icmp)];
const IPV6_IPFIX: &[Element] = &[element(31, 4, Item::FlowLabel), element(139, 2, Item::Icmp)];

const COMMON: &[Element] = &[
    element(7, 2, Item::SrcPort),
    element(11, 2, Item::DstPort),
    element(4, 1, Item::Protocol),
    element(5, 1, Item::Tos),
    element(6, 1, Item::TcpFlags),
    element(52, 1, Item::Ttl),
    element(10, 4, Item::Input),
    element(14, 4, Item::Output),
    element(16, 4, Item::SrcAs),
    element(17, 4, Item::DstAs),
    element(128, 4, Item::DstPeerAs),
    element(129, 4, Item::SrcPeerAs),
    element(58, 2, Item::SrcVlan),
    element(59, 2, Item::DstVlan),
    element(56, 6, Item::SrcMac),
    element(80, 6, Item::DstMac),
    element(61, 1, Item::Direction),
    element(89, 1, Item::ForwardingStatus),
    element(2, 8, Item::Packets),
    element(1, 8, Item::Octets),
];

const NETFLOW9: &[Element] = &[
    element(22, 4, Item::StartUptime),
    element(21, 4, Item::EndUptime),
    element(48, 2, Item::Sampler),
];
const IPFIX: &[Element] = &[
    element(152, 8, Item::StartTime),
    element(153, 8, Item::EndTime),
    element(302, 8, Item::Sampler),
];

/// `mplsTopLabelStackSection` and those below it.
const LABELS: &[Element; MAX_LABELS] = &[
    element(70, 3, Item::Label(0)),
    element(71, 3, Item::Label(1)),
    element(72, 3, Item::Label(2)),
    element(73, 3, Item::Label(3)),
];

/// `exporterIPv4Address`, `exporterIPv6Address`.
const ORIGIN4_NETFLOW9: &[Element] = &[element(130, 4, Item::Origin)];
const ORIGIN6_NETFLOW9: &[Element] = &[element(131, 16, Item::Origin)];
/// `originalExporterIPv4Address`, `originalExporterIPv6Address` and `originalObservationDomainId` (RFC 7119): what a mediator has to say.
const ORIGIN4_IPFIX: &[Element] = &[
    element(403, 4, Item::Origin),
    element(405, 4, Item::OriginDomain),
];
const ORIGIN6_IPFIX: &[Element] = &[
    element(404, 16, Item::Origin),
    element(405, 4, Item::OriginDomain),
];

/// The fields of the template of flows of this shape.
pub(crate) fn elements(
    shape: Shape,
    settings: &Settings,
) -> impl Iterator<Item = &'static Element> {
    let ipfix = settings.protocol == Protocol::Ipfix;
    let family = match (shape.ipv6, ipfix) {
        (false, _) => [IPV4, &[]],
        (true, false) => [IPV6, IPV6_NETFLOW9],
        (true, true) => [IPV6, IPV6_IPFIX],
    };
    let origin: &'static [Element] = match (settings.origin, ipfix) {
        (None, _) => &[],
        (Some((ip, _)), false) if ip.is_ipv4() => ORIGIN4_NETFLOW9,
        (Some(_), false) => ORIGIN6_NETFLOW9,
        (Some((ip, _)), true) if ip.is_ipv4() => ORIGIN4_IPFIX,
        (Some(_), true) => ORIGIN6_IPFIX,
    };
    let labels = LABELS.get(..usize::from(shape.labels)).unwrap_or(LABELS);
    let rest = if ipfix { IPFIX } else { NETFLOW9 };
    family
        .into_iter()
        .chain([COMMON, rest, origin, labels])
        .flatten()
}

/// A template of options: about what, and what.
pub(crate) struct Options {
    pub(crate) id: u16,
    pub(crate) scope: Element,
    pub(crate) elements: &'static [Element],
}

/// The sampling interval twice: for the whole stream in the oldest field there is, which every collector reads, and as a sampler or
/// selector, to which each flow refers. Both say the same. A collector reads a record with all fields at once differently from
/// version to version, so they are apart.
const NETFLOW9_OPTIONS: [Options; 2] = [
    Options {
        id: 512,
        // Scope "System".
        scope: element(1, 4, Item::Domain),
        elements: &[element(34, 4, Item::SamplingInterval)],
    },
    Options {
        id: 513,
        scope: element(1, 4, Item::Domain),
        elements: &[
            element(48, 2, Item::Sampler),
            // Mode 2: random.
            element(49, 1, Item::Always(2)),
            element(50, 4, Item::SamplingInterval),
        ],
    },
];
const IPFIX_OPTIONS: [Options; 2] = [
    Options {
        id: 512,
        scope: element(149, 4, Item::Domain),
        elements: &[element(34, 4, Item::SamplingInterval)],
    },
    Options {
        id: 513,
        scope: element(302, 8, Item::Sampler),
        elements: &[
            // Algorithm 3 (RFC 5477): random n out of N, with n and N. The two after it are how collectors that know only
            // systematic sampling put the same.
            element(304, 2, Item::Always(3)),
            element(309, 4, Item::Always(1)),
            element(310, 4, Item::SamplingInterval),
            element(305, 4, Item::Always(1)),
            element(306, 4, Item::SamplingSpace),
        ],
    },
];

/// What is said about the sampling of a stream.
pub(crate) const fn options(protocol: Protocol) -> &'static [Options; 2] {
    match protocol {
        Protocol::Ipfix => &IPFIX_OPTIONS,
        _ => &NETFLOW9_OPTIONS,
    }
}
