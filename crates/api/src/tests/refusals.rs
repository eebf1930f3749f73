//! VPP's number for each way in which a request about interfaces, addresses, labels and the like cannot be done.

use super::*;

#[test]
fn addresses_and_tables() {
    let world = World::new(|_| ());
    let mut c = world.client();
    for _ in 0..2 {
        let _: CreateLoopbackReply = c.ask(&CreateLoopback::default());
    }
    let address = |sw_if_index, is_add, prefix| SwInterfaceAddDelAddress {
        sw_if_index,
        is_add,
        del_all: false,
        prefix,
    };
    let mut nothing = net("10.0.0.1", 24);
    nothing.address.af = AddressFamily(7);
    for (m, retval) in [
        (address(1, true, net("10.0.0.1", 24)), 0),
        (address(2, true, net("10.0.0.2", 24)), -105),
        (address(2, false, net("10.0.0.2", 24)), -60),
        (address(1, true, net("10.1.0.1", 33)), -171),
        (address(1, true, nothing), -97),
        (address(8, true, net("10.1.0.1", 24)), -2),
    ] {
        let reply: SwInterfaceAddDelAddressReply = c.ask(&m);
        assert_eq!(reply.retval, retval, "{m:?}");
    }
    let table = |sw_if_index, vrf_id| SwInterfaceSetTable {
        sw_if_index,
        is_ipv6: false,
        vrf_id,
    };
    let reply: IpTableAddDelV2Reply = c.ask(&IpTableAddDelV2 {
        table: IpTable {
            table_id: 5,
            ..IpTable::default()
        },
        create_mfib: true,
        is_add: true,
    });
    assert_eq!(reply.retval, 0);
    for (m, retval) in [(table(1, 5), -114), (table(2, 6), -3), (table(2, 5), 0)] {
        let reply: SwInterfaceSetTableReply = c.ask(&m);
        assert_eq!(reply.retval, retval, "{m:?}");
    }
    let local: SwInterfaceIp6GetLinkLocalAddressReply =
        c.ask(&SwInterfaceIp6GetLinkLocalAddress { sw_if_index: 2 });
    assert_eq!(local.retval, -62);
    let quiet = SwInterfaceIp6ndRaConfig {
        sw_if_index: 2,
        suppress: 1,
        ..SwInterfaceIp6ndRaConfig::default()
    };
    let reply: SwInterfaceIp6ndRaConfigReply = c.ask(&quiet);
    assert_eq!(reply.retval, -62);
    let _: SwInterfaceIp6EnableDisableReply = c.ask(&SwInterfaceIp6EnableDisable {
        sw_if_index: 2,
        enable: true,
    });
    for (managed, retval) in [(0, 0), (1, -9)] {
        let reply: SwInterfaceIp6ndRaConfigReply = c.ask(&SwInterfaceIp6ndRaConfig {
            managed,
            ..quiet.clone()
        });
        assert_eq!(reply.retval, retval);
    }
}

#[test]
fn interfaces_of_other_kinds() {
    let world = World::new(|_| ());
    let mut c = world.client();
    let first = CreateLoopbackInstance {
        mac_address: [0; 6],
        is_specified: true,
        user_instance: 3,
    };
    for retval in [0, -31] {
        let made: CreateLoopbackInstanceReply = c.ask(&first);
        assert_eq!(made.retval, retval);
    }
    let group: CreateLoopbackReply = c.ask(&CreateLoopback {
        mac_address: [1, 0, 0, 0, 0, 0],
    });
    assert_eq!(group.retval, -7);
    let tap: TapDeleteV2Reply = c.ask(&TapDeleteV2 { sw_if_index: 1 });
    let pg: PgDeleteInterfaceReply = c.ask(&PgDeleteInterface { sw_if_index: 1 });
    let sub: DeleteSubifReply = c.ask(&DeleteSubif { sw_if_index: 1 });
    let ipip: IpipDelTunnelReply = c.ask(&IpipDelTunnel { sw_if_index: 1 });
    assert_eq!(
        (tap.retval, pg.retval, sub.retval, ipip.retval),
        (-2, -2, -98, -6)
    );
    let vlan: CreateVlanSubifReply = c.ask(&CreateVlanSubif {
        sw_if_index: 1,
        vlan_id: 5000,
    });
    assert_eq!(vlan.retval, -55);
    let tags: L2InterfaceVlanTagRewriteReply = c.ask(&L2InterfaceVlanTagRewrite {
        sw_if_index: 1,
        vtr_op: 4,
        ..L2InterfaceVlanTagRewrite::default()
    });
    assert_eq!(tags.retval, -72);
    let arp: ProxyArpIntfcEnableDisableReply = c.ask(&ProxyArpIntfcEnableDisable {
        sw_if_index: 1,
        enable: true,
    });
    assert_eq!(arp.retval, -9);
    let ranges: Vec<ProxyArpDetails> = c.dump(&ProxyArpDump::default());
    assert_eq!(ranges, []);
}

#[test]
fn labels_are_bound_to_the_routes_of_hosts() {
    let world = World::new(|_| ());
    let mut c = world.client();
    let _: MplsTableAddDelReply = c.ask(&MplsTableAddDel {
        mt_is_add: true,
        mt_table: MplsTable::default(),
    });
    let bind = |prefix, mb_ip_table_id, mb_is_bind| MplsIpBindUnbind {
        mb_mpls_table_id: 0,
        mb_label: 44,
        mb_ip_table_id,
        mb_is_bind,
        mb_prefix: prefix,
    };
    let labels = |c: &mut Client| -> usize {
        let all: Vec<MplsRouteDetails> = c.dump(&MplsRouteDump::default());
        all.iter().filter(|d| d.mr_route.mr_label == 44).count()
    };
    for (m, retval, there) in [
        (bind(net("10.0.0.4", 32), 0, true), 0, 2),
        (bind(net("10.0.0.4", 32), 0, true), 0, 2),
        (bind(net("10.0.0.0", 24), 0, true), -9, 2),
        (bind(net("10.0.0.4", 32), 8, true), -3, 2),
        (bind(net("10.0.0.4", 32), 0, false), 0, 0),
    ] {
        let reply: MplsIpBindUnbindReply = c.ask(&m);
        assert_eq!((reply.retval, labels(&mut c)), (retval, there), "{m:?}");
    }
}

#[test]
fn threads_are_told_of() {
    let world = World::new(|_| ());
    let mut c = world.client();
    let told: ShowThreadsReply = c.ask(&ShowThreads::default());
    let main = &told.thread_data[0];
    assert_eq!(
        (told.retval, main.id, main.name.as_str()),
        (0, 0, "parshall_main")
    );
    assert_ne!(main.pid, u32::MAX);
}
