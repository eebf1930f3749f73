//! Drops on the way through routes, neighbours, the router's own addresses and labels.

use super::*;

pub(super) fn routes_and_neighbours() -> Vec<Case> {
    use DropReason as D;
    let lookup = |reason, dpo: Dpo| {
        let frame = to([10, 66, 0, 1]).build();
        Case::frame(reason, "ip4-lookup", with_route(|_| dpo), frame)
    };
    let looping = with_route(|lab| {
        let other = lab.shared.ip4.create().unwrap();
        lab.route4_in(other, "10.66.0.0/16", Dpo::new(DpoKind::LookupIp4, 0));
        Dpo::new(DpoKind::LookupIp4, other)
    });
    let waiting = to([10, 0, 2, 77]).build();
    let (first, nine) = (waiting.clone(), vec![waiting.clone(); 9]);
    let arp = |target_ip: [u8; 4]| {
        to_router(1).arp(ArpRepr {
            operation: ArpOperation::Request,
            sender_mac: host_mac(1),
            sender_ip: HOST.into(),
            target_mac: MacAddr([0; 6]),
            target_ip: target_ip.into(),
        })
    };
    let at = |reason, node, frame| Case::frame(reason, node, Lab::new(), frame);
    vec![
        lookup(D::RouteBlackhole, Dpo::BLACKHOLE),
        lookup(D::RouteProhibit, Dpo::PROHIBIT),
        lookup(D::RouteUnreachable, Dpo::UNREACHABLE),
        Case {
            node: Some("ip4-rewrite"),
            ..lookup(D::NoAdjacency, Dpo::new(DpoKind::Adjacency, 4000))
        },
        Case::frame(
            D::LookupLoop,
            "ip4-lookup",
            looping,
            to([10, 66, 0, 1]).build(),
        ),
        at(D::UnresolvedNeighbor, "ip4-arp", waiting.clone())
            .leaving()
            .act(move |lab| {
                lab.send(1, &first);
                let failed = HoldMessage::Failed {
                    if_index: 2,
                    ip: [10u8, 0, 2, 77],
                };
                lab.tell("ip4-arp", failed);
            }),
        at(D::NeighborQueueFull, "ip4-arp", waiting)
            .leaving()
            .act(move |lab| drop(lab.send_all(1, &nine))),
        at(
            D::ArpMalformed,
            "arp-input",
            edited(arp([10, 0, 1, 1]), |f| f.truncate(20)),
        ),
        at(D::ArpNotForUs, "arp-input", arp([10, 0, 1, 9]).build()),
    ]
}

/// A neighbour solicitation for `target` from the host on interface 1.
pub(super) fn solicitation(target: std::net::Ipv6Addr, hops: u8, code: u8) -> Vec<u8> {
    let mut body = target.octets().to_vec();
    body.extend([1, 1]);
    body.extend(host_mac(1).0);
    to_router(1)
        .ipv6(host6(1), router6(1))
        .ttl(hops)
        .protocol(IpProtocol::ICMPV6)
        .payload(&icmp6(135, code, 0, &body))
        .build()
}

pub(super) fn local() -> Vec<Case> {
    use DropReason as D;
    let at = |reason, node, frame| Case::frame(reason, node, Lab::new(), frame);
    let own = [10, 0, 1, 1];
    let other = to_router(1).ipv4(HOST.into(), own.into());
    let ping = |kind| {
        other
            .clone()
            .protocol(IpProtocol::ICMP)
            .payload(&icmp4(kind, 0, 7, &[9; 12]))
    };
    vec![
        at(
            D::NdMalformed,
            "ip6-icmp-input",
            solicitation(router6(1), 255, 1),
        ),
        at(
            D::NdBadHopLimit,
            "ip6-icmp-input",
            solicitation(router6(1), 64, 0),
        ),
        at(
            D::NdNotForUs,
            "ip6-icmp-input",
            solicitation(router6(2), 255, 0),
        ),
        at(
            D::LocalNoProtocol,
            "ip4-local",
            other
                .clone()
                .protocol(IpProtocol(99))
                .payload_len(30)
                .build(),
        ),
        at(D::LocalNoPort, "ip4-local", to(own).build()),
        at(
            D::LocalBadChecksum,
            "ip4-icmp-input",
            edited(ping(8), |f| f[36] ^= 1),
        ),
        at(D::IcmpUnhandled, "ip4-icmp-input", ping(13).build()),
        at(
            D::FragmentMalformed,
            "ip4-local-full-reassembly",
            to(own).fragment(0, true).build(),
        ),
    ]
}

/// Fragments for the router.
pub(super) fn fragments() -> Vec<Case> {
    use DropReason as D;
    let node = "ip4-local-full-reassembly";
    let piece = |ident| {
        let udp = to_router(1).ipv4(HOST.into(), [10, 0, 1, 1].into());
        let udp = udp.ident(ident).fragment(0, true);
        udp.protocol(IpProtocol::UDP).payload_len(56).build()
    };
    let at = |reason| Case::frame(reason, node, Lab::new(), piece(1));
    let mut discovery = solicitation(router6(1), 255, 0);
    // An only fragment: its header goes in front of the message.
    discovery[20] = 44;
    discovery[19] += 8;
    discovery.splice(54..54, [58, 0, 0, 0, 0, 0, 0, 1]);
    vec![
        at(D::FragmentOverlap).act(move |lab| {
            lab.send(1, &piece(1));
            lab.send(1, &piece(1));
        }),
        at(D::ReassemblyTimeout).act(move |lab| {
            lab.send(1, &piece(1));
            lab.wait(3 * SECOND);
        }),
        at(D::ReassemblyFull).act(move |lab| {
            for ident in 1..=257 {
                lab.now += 1;
                lab.send(1, &piece(ident));
            }
        }),
        Case::frame(D::NdFragmented, "ip6-local", Lab::new(), discovery),
    ]
}

pub(super) fn labels() -> Vec<Case> {
    use DropReason as D;
    let labelled = |label, ttl| udp(to_router(1).mpls(label).ttl(ttl), HOST, FAR);
    let at = |reason, node, lab, frame| Case::frame(reason, node, lab, frame);
    let bad = Lab::new();
    let next = bad.adj_mpls(2, MTU);
    bad.label(17, true, bad.dispose(Payload::Mpls, TtlMode::Uniform, next));
    vec![
        at(
            D::MplsNotEnabled,
            "mpls-input",
            without(if_flags::MPLS),
            labelled(16, 9).build(),
        ),
        at(
            D::MplsTooShort,
            "mpls-input",
            Lab::new(),
            edited(labelled(16, 9), |f| f.truncate(16)),
        ),
        at(
            D::MplsTtlExpired,
            "mpls-input",
            Lab::new(),
            labelled(16, 1).build(),
        ),
        at(
            D::MplsNoLabel,
            "mpls-lookup",
            Lab::new(),
            labelled(16, 9).build(),
        ),
        at(
            D::MplsBadStack,
            "mpls-disposition",
            bad,
            labelled(17, 9).build(),
        ),
    ]
}

/// A node with a mistake: its verdict is no next node of it.
pub(super) struct Mistaken;

impl Node for Mistaken {
    fn process(&mut self, _cx: &mut Ctx<'_>, _frame: &mut Frame) -> Dispatch {
        Dispatch::All(77)
    }
}

pub(super) fn mistakes() -> Vec<Case> {
    let spec = NodeSpec::new("mistaken", &[]).feature(Feature {
        arc: "ip4-unicast",
        before: &[],
        after: &[],
    });
    let lab = Lab::with_node(spec, Box::new(Mistaken));
    lab.graph.set_feature("mistaken", 1, true).unwrap();
    // The last node of the list, so beyond those whose place is known: what it has in hand is shown.
    let ip = to(FAR).build()[14..].to_vec();
    let case = Case::frame(DropReason::NodeFault, "mistaken", lab, to(FAR).build());
    vec![case.shows(Shows::Bytes(1, ip))]
}
