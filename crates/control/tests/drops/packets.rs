//! Drops of frames and packets that are wrong, or that nobody here takes.

use super::*;

pub(super) fn ethernet() -> Vec<Case> {
    use DropReason as D;
    let mut alone = Lab::new();
    alone.harness.add_virtual(2, "bond-output", 1514);
    let mut untag = with_peer(2);
    untag.retag(
        1,
        TagRewrite {
            pop: 1,
            ..TagRewrite::default()
        },
    );
    let at = |reason, frame| Case::frame(reason, "ethernet-input", Lab::new(), frame);
    vec![
        at(D::EthernetTooShort, vec![7; 10]),
        at(D::NotOurMac, edited(to(FAR), |f| f[5] = 99)),
        at(D::SourceMacMulticast, edited(to(FAR), |f| f[6] |= 1)),
        at(
            D::UnicastInGroupFrame,
            edited(to(FAR), |f| f[..6].fill(0xFF)),
        ),
        at(
            D::UnknownEthertype,
            edited(to(FAR), |f| set_type(f, 0x9999)),
        ),
        at(D::UnknownVlan, edited(to(FAR), |f| set_type(f, 0x8100))),
        Case::frame(D::VlanTagMissing, "ethernet-input", untag, to(FAR).build()),
        at(D::LlcUnsupported, edited(to(FAR), |f| set_type(f, 0x0050))),
        Case::frame(D::BondNoMember, "bond-output", alone, to(FAR).build())
            .leaving()
            .shows(Shows::Bytes(1, left())),
        Case::frame(D::L2NoPeer, "l2-input", with_peer(IF_NONE), to(FAR).build()),
    ]
}

pub(super) fn ip4() -> Vec<Case> {
    use DropReason as D;
    let at = |reason, node, frame| Case::frame(reason, node, Lab::new(), frame);
    let input = |reason, frame| at(reason, "ip4-input", frame);
    let from = |reason, src| input(reason, udp(to_router(1), src, FAR).build());
    let group = PacketBuilder::ethernet(host_mac(1), MacAddr([1, 0, 0x5E, 1, 1, 1]));
    let narrow = with_route(|lab| lab.adj4(2, host4(2), 576));
    vec![
        input(D::Ip4TooShort, edited(to(FAR), |f| f.truncate(30))),
        input(D::Ip4BadVersion, edited(to(FAR), |f| f[14] = 0x55)),
        input(D::Ip4BadHeaderLength, edited(to(FAR), |f| f[14] = 0x44)),
        input(D::Ip4BadLength, edited4(to(FAR), |f| f[16] = 9)),
        input(D::Ip4BadChecksum, edited(to(FAR), |f| f[24] ^= 1)),
        at(D::Ip4TtlExpired, "ip4-rewrite", to(FAR).ttl(1).build()),
        Case::frame(
            D::Ip4NotEnabled,
            "ip4-input",
            without(if_flags::IP4),
            to(FAR).build(),
        ),
        from(D::Ip4SourceUnspecified, [0, 1, 2, 3]),
        from(D::Ip4SourceLoopback, [127, 0, 0, 1]),
        from(D::Ip4SourceMulticast, [224, 0, 0, 1]),
        from(D::Ip4SourceClassE, [240, 0, 0, 1]),
        from(D::Ip4SourceBroadcast, [255; 4]),
        input(D::Ip4DestinationUnspecified, to([0, 0, 0, 9]).build()),
        input(D::Ip4DestinationLoopback, to([127, 0, 0, 1]).build()),
        input(D::Ip4DestinationClassE, to([240, 0, 0, 1]).build()),
        at(
            D::Ip4Multicast,
            "ip4-local",
            udp(group, HOST, [224, 1, 1, 1]).build(),
        ),
        at(D::NoRoute, "ip4-lookup", to([203, 0, 113, 1]).build()),
        Case::frame(
            D::FragmentationNeeded,
            "ip4-rewrite",
            narrow,
            to([10, 66, 0, 1]).dont_fragment().total_len(1400).build(),
        )
        .leaving(),
    ]
}

pub(super) fn ip6() -> Vec<Case> {
    use DropReason as D;
    let at = |reason, node, frame| Case::frame(reason, node, Lab::new(), frame);
    let input = |reason, frame| at(reason, "ip6-input", frame);
    let (host, far) = ("2001:db8:0:1::2", "2001:db8:12::9");
    let plain = || udp6(host, far);
    let narrow = Lab::new();
    narrow.route6("2001:db8:66::/48", narrow.adj6(2, host6(2), 1280));
    let group = PacketBuilder::ethernet(host_mac(1), MacAddr([0x33, 0x33, 0, 0, 1, 1]));
    let group = group.ipv6(host.parse().unwrap(), "ff0e::101".parse().unwrap());
    vec![
        input(D::Ip6TooShort, edited(plain(), |f| f.truncate(40))),
        input(D::Ip6BadVersion, edited(plain(), |f| f[14] = 0x50)),
        input(D::Ip6BadLength, edited(plain(), |f| f[18] = 9)),
        at(D::Ip6HopLimitExpired, "ip6-rewrite", plain().ttl(1).build()),
        Case::frame(
            D::Ip6NotEnabled,
            "ip6-input",
            without(if_flags::IP6),
            plain().build(),
        ),
        input(D::Ip6SourceUnspecified, udp6("::", far).build()),
        input(D::Ip6SourceLoopback, udp6("::1", far).build()),
        input(D::Ip6SourceMulticast, udp6("ff02::1", far).build()),
        at(
            D::Ip6SourceLinkLocal,
            "ip6-rewrite",
            udp6("fe80::9", far).build(),
        ),
        input(D::Ip6DestinationUnspecified, udp6(host, "::").build()),
        input(D::Ip6DestinationLoopback, udp6(host, "::1").build()),
        at(
            D::Ip6Multicast,
            "ip6-local",
            group.udp(1, 2).payload_len(50).build(),
        ),
        at(D::Ip6LinkLocal, "ip6-local", udp6(host, "fe80::99").build()),
        Case::frame(
            D::PacketTooBig,
            "ip6-rewrite",
            narrow,
            udp6(host, "2001:db8:66::1").total_len(1400).build(),
        )
        .leaving(),
    ]
}
