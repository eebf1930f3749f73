//! Bridge domains, their ports and stations.

use super::*;

fn domain(bd_id: u32, is_add: bool) -> BridgeDomainAddDelV2 {
    BridgeDomainAddDelV2 {
        bd_id,
        flood: true,
        uu_flood: true,
        forward: true,
        learn: true,
        is_add,
        ..BridgeDomainAddDelV2::default()
    }
}

fn port(rx_sw_if_index: u32, bd_id: u32, port_type: L2PortType) -> SwInterfaceSetL2Bridge {
    SwInterfaceSetL2Bridge {
        rx_sw_if_index,
        bd_id,
        port_type,
        shg: 1,
        enable: true,
    }
}

#[test]
fn bridge_domains_come_back_as_they_were_put_in() {
    let world = World::new(|_| ());
    let mut c = world.client();
    let _: PgCreateInterfaceV3Reply = c.ask(&PgCreateInterfaceV3::default());
    let bvi: BviCreateReply = c.ask(&BviCreate {
        mac: [2, 0, 0, 0, 0, 7],
        user_instance: 4,
    });
    assert_eq!((bvi.retval, bvi.sw_if_index), (0, 2));
    let mut wanted = domain(10, true);
    (wanted.arp_term, wanted.mac_age) = (true, 5);
    wanted.bd_tag = "yellow".into();
    let made: BridgeDomainAddDelV2Reply = c.ask(&wanted);
    assert_eq!((made.retval, made.bd_id), (0, 10));
    for m in [
        port(1, 10, L2PortType::L2_API_PORT_TYPE_NORMAL),
        port(2, 10, L2PortType::L2_API_PORT_TYPE_BVI),
    ] {
        let reply: SwInterfaceSetL2BridgeReply = c.ask(&m);
        assert_eq!(reply.retval, 0);
    }
    let told: Vec<BridgeDomainDetails> = c.dump(&BridgeDomainDump {
        bd_id: u32::MAX,
        sw_if_index: u32::MAX,
    });
    let d = &told[0];
    assert_eq!(
        (told.len(), d.bvi_sw_if_index, d.uu_fwd_sw_if_index),
        (1, 2, u32::MAX)
    );
    assert_eq!(
        (d.learn, d.arp_term, d.arp_ufwd, d.mac_age),
        (true, true, false, 5)
    );
    assert_eq!((d.bd_tag.as_str(), d.sw_if_details.len()), ("yellow", 2));
    let flags: BridgeFlagsReply = c.ask(&BridgeFlags {
        bd_id: 10,
        is_set: false,
        flags: BdFlags::BRIDGE_API_FLAG_LEARN,
    });
    // Forwarding, flooding of both kinds and ARP are left.
    assert_eq!((flags.retval, flags.resulting_feature_bitmap), (0, 30));
    let names: Vec<SwInterfaceDetails> = c.dump(&all());
    assert_eq!(names[2].interface_name, "bvi4");
}

#[test]
fn refusals_about_bridge_domains_have_vpps_numbers() {
    let world = World::new(|_| ());
    let mut c = world.client();
    for _ in 0..2 {
        let made: BviCreateReply = c.ask(&BviCreate {
            user_instance: u32::MAX,
            ..BviCreate::default()
        });
        assert_eq!(made.retval, 0);
    }
    let taken: BviCreateReply = c.ask(&BviCreate::default());
    assert_eq!(taken.retval, -31);
    for (m, retval) in [
        (domain(10, true), 0),
        (domain(10, true), -119),
        (domain(1 << 24, true), -122),
        (domain(0, false), -121),
        (domain(11, false), -6),
    ] {
        let reply: BridgeDomainAddDelV2Reply = c.ask(&m);
        assert_eq!(reply.retval, retval, "{m:?}");
    }
    let bvi = L2PortType::L2_API_PORT_TYPE_BVI;
    for (m, retval) in [
        (port(1, 10, bvi), 0),
        (port(2, 10, bvi), -152),
        (port(9, 10, bvi), -2),
        (port(2, 10, L2PortType(7)), -7),
        (port(2, 0, bvi), -121),
    ] {
        let reply: SwInterfaceSetL2BridgeReply = c.ask(&m);
        assert_eq!(reply.retval, retval, "{m:?}");
    }
    let used: BridgeDomainAddDelV2Reply = c.ask(&domain(10, false));
    assert_eq!(used.retval, -120);
    let limit: BridgeDomainSetLearnLimitReply = c.ask(&BridgeDomainSetLearnLimit {
        bd_id: 10,
        learn_limit: 5,
    });
    assert_eq!(limit.retval, 0);
    let limit: BridgeDomainSetLearnLimitReply = c.ask(&BridgeDomainSetLearnLimit {
        bd_id: 0,
        learn_limit: 5,
    });
    assert_eq!(limit.retval, -121);
    for (sw_if_index, retval) in [(2, 0), (2, -2), (0, -2)] {
        let gone: BviDeleteReply = c.ask(&BviDelete { sw_if_index });
        assert_eq!(gone.retval, retval, "{sw_if_index}");
    }
    // A domain whose number is left to the router.
    let free: BridgeDomainAddDelV2Reply = c.ask(&domain(u32::MAX, true));
    assert_eq!((free.retval, free.bd_id), (0, 1));
}

#[test]
fn stations_and_addresses_of_a_domain_are_told_of() {
    let world = World::new(|_| ());
    let mut c = world.client();
    let _: PgCreateInterfaceV3Reply = c.ask(&PgCreateInterfaceV3::default());
    let normal = L2PortType::L2_API_PORT_TYPE_NORMAL;
    let _: SwInterfaceSetL2BridgeReply = c.ask(&port(1, 10, normal));
    let station = L2fibAddDel {
        mac: [2, 0, 0, 0, 0, 5],
        bd_id: 10,
        sw_if_index: 1,
        is_add: true,
        static_mac: true,
        ..L2fibAddDel::default()
    };
    let group = [1, 0, 0x5e, 0, 0, 1];
    for (m, retval) in [
        (station.clone(), 0),
        (
            L2fibAddDel {
                bd_id: 11,
                ..station.clone()
            },
            -6,
        ),
        (
            L2fibAddDel {
                sw_if_index: 0,
                ..station.clone()
            },
            -2,
        ),
        (
            L2fibAddDel {
                mac: group,
                ..station.clone()
            },
            -7,
        ),
    ] {
        let reply: L2fibAddDelReply = c.ask(&m);
        assert_eq!(reply.retval, retval, "{m:?}");
    }
    let told: Vec<L2FibTableDetails> = c.dump(&L2FibTableDump { bd_id: 10 });
    assert_eq!(
        (told.len(), told[0].mac, told[0].static_mac),
        (1, station.mac, true)
    );
    for retval in [0, -6] {
        let gone: L2fibAddDelReply = c.ask(&L2fibAddDel {
            is_add: false,
            ..station.clone()
        });
        assert_eq!(gone.retval, retval);
    }
    let entry = BdIpMac {
        bd_id: 10,
        ip: net("10.0.0.9", 32).address,
        mac: station.mac,
    };
    let change = |is_add| BdIpMacAddDel {
        is_add,
        entry: entry.clone(),
    };
    let reply: BdIpMacAddDelReply = c.ask(&change(true));
    assert_eq!(reply.retval, 0);
    let told: Vec<BdIpMacDetails> = c.dump(&BdIpMacDump { bd_id: u32::MAX });
    assert_eq!((told.len(), &told[0].entry), (1, &entry));
    for retval in [0, -1] {
        let reply: BdIpMacAddDelReply = c.ask(&change(false));
        assert_eq!(reply.retval, retval);
    }
}

#[test]
fn learn_limits_are_a_domains_own_or_the_default() {
    let world = World::new(|_| ());
    let mut c = world.client();
    let default = BridgeDomainSetDefaultLearnLimit { learn_limit: 4 };
    let reply: BridgeDomainSetDefaultLearnLimitReply = c.ask(&default);
    assert_eq!(reply.retval, 0);
    for id in [1, 2] {
        let made: BridgeDomainAddDelV2Reply = c.ask(&domain(id, true));
        assert_eq!(made.retval, 0);
    }
    let own = BridgeDomainSetLearnLimit {
        bd_id: 2,
        learn_limit: 5,
    };
    let reply: BridgeDomainSetLearnLimitReply = c.ask(&own);
    assert_eq!(reply.retval, 0);
    let limit = |id| {
        let job = move |r: &mut Router| r.bridge_domain(id).map(|d| d.config.learn_limit).ok();
        world.asker.ask(job).flatten().flatten()
    };
    assert_eq!((limit(1), limit(2)), (Some(4), Some(5)));
}

#[test]
fn owners_of_addresses_are_of_both_families() {
    let world = World::new(|_| ());
    let mut c = world.client();
    let _: BridgeDomainAddDelV2Reply = c.ask(&domain(1, true));
    let entry = |ip: &str, len| BdIpMac {
        bd_id: 1,
        ip: net(ip, len).address,
        mac: [2, 0, 0, 0, 0, 9],
    };
    let entries = [entry("10.0.0.9", 32), entry("2001:db8::9", 128)];
    for entry in &entries {
        let reply: BdIpMacAddDelReply = c.ask(&BdIpMacAddDel {
            is_add: true,
            entry: entry.clone(),
        });
        assert_eq!(reply.retval, 0);
    }
    let all = BdIpMacDump { bd_id: 1 };
    let told: Vec<BdIpMacDetails> = c.dump(&all);
    let told: Vec<BdIpMac> = told.into_iter().map(|d| d.entry).collect();
    assert_eq!(told, entries);
    let other = BdIpMac {
        mac: [2, 0, 0, 0, 0, 8],
        ..entries[1].clone()
    };
    for (entry, retval) in [(other, -1), (entries[1].clone(), 0)] {
        let reply: BdIpMacAddDelReply = c.ask(&BdIpMacAddDel {
            is_add: false,
            entry,
        });
        assert_eq!(reply.retval, retval);
    }
    let reply: BdIpMacFlushReply = c.ask(&BdIpMacFlush { bd_id: 1 });
    let told: Vec<BdIpMacDetails> = c.dump(&all);
    assert_eq!((reply.retval, told.len()), (0, 0));
}
