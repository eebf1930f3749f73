//! Tunnels and bonds: as they were asked for they are told of, and each refusal has VPP's number.

use super::*;

fn address(ip: &str) -> Address {
    let ip: std::net::IpAddr = ip.parse().expect("an address");
    ip.into()
}

fn vxlan() -> VxlanAddDelTunnelV3 {
    VxlanAddDelTunnelV3 {
        is_add: true,
        instance: 7,
        src_address: address("192.0.2.1"),
        dst_address: address("192.0.2.2"),
        mcast_sw_if_index: u32::MAX,
        decap_next_index: u32::MAX,
        vni: 100,
        ..VxlanAddDelTunnelV3::default()
    }
}

#[test]
fn vxlan_tunnels_are_told_of() {
    let world = World::new(|_| ());
    let mut c = world.client();
    let made: VxlanAddDelTunnelV3Reply = c.ask(&vxlan());
    assert_eq!((made.retval, made.sw_if_index), (0, 1));
    let six = VxlanAddDelTunnelV2 {
        is_add: true,
        instance: u32::MAX,
        src_address: address("2001:db8::1"),
        dst_address: address("2001:db8::2"),
        dst_port: 4790,
        vni: 9,
        ..VxlanAddDelTunnelV2::default()
    };
    let made: VxlanAddDelTunnelV2Reply = c.ask(&six);
    assert_eq!(made.retval, 0);
    let all = VxlanTunnelV2Dump {
        sw_if_index: u32::MAX,
    };
    let told: Vec<VxlanTunnelV2Details> = c.dump(&all);
    assert_eq!(told.len(), 2);
    let (a, b) = (&told[0], &told[1]);
    assert_eq!(
        (a.sw_if_index, a.instance, a.vni, a.dst_port),
        (1, 7, 100, 4789)
    );
    assert_eq!(
        (&a.src_address, &a.dst_address),
        (&address("192.0.2.1"), &address("192.0.2.2"))
    );
    assert_eq!((&b.dst_address, b.dst_port), (&six.dst_address, 4790));
    let one: Vec<VxlanTunnelDetails> = c.dump(&VxlanTunnelDump { sw_if_index: 1 });
    assert_eq!((one.len(), one[0].vni), (1, 100));
    let gone: VxlanAddDelTunnelV3Reply = c.ask(&VxlanAddDelTunnelV3 {
        is_add: false,
        ..vxlan()
    });
    assert_eq!((gone.retval, gone.sw_if_index), (0, 1));
    let told: Vec<VxlanTunnelV2Details> = c.dump(&all);
    assert_eq!(told.len(), 1);
}

#[test]
fn vxlan_refusals_have_vpps_numbers() {
    let world = World::new(|_| ());
    let mut c = world.client();
    let made: VxlanAddDelTunnelV3Reply = c.ask(&vxlan());
    assert_eq!(made.retval, 0);
    let other = || VxlanAddDelTunnelV3 {
        vni: 101,
        ..vxlan()
    };
    for (m, retval) in [
        (vxlan(), -75),
        (other(), -147),
        (
            VxlanAddDelTunnelV3 {
                is_add: false,
                ..other()
            },
            -6,
        ),
        (
            VxlanAddDelTunnelV3 {
                dst_address: address("192.0.2.1"),
                ..other()
            },
            -82,
        ),
        (
            VxlanAddDelTunnelV3 {
                encap_vrf_id: 9,
                ..other()
            },
            -3,
        ),
        (
            VxlanAddDelTunnelV3 {
                vni: 1 << 24,
                ..other()
            },
            -7,
        ),
        (
            VxlanAddDelTunnelV3 {
                is_l3: true,
                ..other()
            },
            -9,
        ),
        (
            VxlanAddDelTunnelV3 {
                dst_address: address("239.0.0.1"),
                ..other()
            },
            -9,
        ),
    ] {
        let reply: VxlanAddDelTunnelV3Reply = c.ask(&m);
        assert_eq!(reply.retval, retval, "{m:?}");
    }
}

#[test]
fn gre_and_ipip_tunnels_are_told_of() {
    let world = World::new(|_| ());
    let mut c = world.client();
    let tunnel = GreTunnel {
        type_: GreTunnelType::GRE_API_TUNNEL_TYPE_TEB,
        instance: 3,
        sw_if_index: u32::MAX,
        src: address("192.0.2.1"),
        dst: address("192.0.2.2"),
        ..GreTunnel::default()
    };
    let gre = |is_add, tunnel: &GreTunnel| GreTunnelAddDel {
        is_add,
        tunnel: tunnel.clone(),
    };
    let made: GreTunnelAddDelReply = c.ask(&gre(true, &tunnel));
    assert_eq!((made.retval, made.sw_if_index), (0, 1));
    let told: Vec<GreTunnelDetails> = c.dump(&GreTunnelDump {
        sw_if_index: u32::MAX,
    });
    let expected = GreTunnel {
        sw_if_index: 1,
        ..tunnel.clone()
    };
    assert_eq!((told.len(), &told[0].tunnel), (1, &expected));
    let again: GreTunnelAddDelReply = c.ask(&gre(true, &tunnel));
    assert_eq!(again.retval, -79);
    let many = GreTunnel {
        mode: TunnelMode::TUNNEL_API_MODE_MP,
        ..tunnel.clone()
    };
    let refused: GreTunnelAddDelReply = c.ask(&gre(true, &many));
    assert_eq!(refused.retval, -9);
    let gone: GreTunnelAddDelReply = c.ask(&gre(false, &tunnel));
    assert_eq!((gone.retval, gone.sw_if_index), (0, 1));
    let tunnel = IpipTunnel {
        instance: u32::MAX,
        src: address("2001:db8::1"),
        dst: address("2001:db8::2"),
        ..IpipTunnel::default()
    };
    let made: IpipAddTunnelReply = c.ask(&IpipAddTunnel { tunnel });
    assert_eq!(made.retval, 0);
    let told: Vec<IpipTunnelDetails> = c.dump(&IpipTunnelDump {
        sw_if_index: made.sw_if_index,
    });
    assert_eq!(told[0].tunnel.dst, address("2001:db8::2"));
    for retval in [0, -2] {
        let gone: IpipDelTunnelReply = c.ask(&IpipDelTunnel {
            sw_if_index: made.sw_if_index,
        });
        assert_eq!(gone.retval, retval);
    }
}

#[test]
fn bonds_have_members_and_a_size() {
    let world = World::new(|_| ());
    let mut c = world.client();
    for interface_id in [0, 1] {
        let _: PgCreateInterfaceV3Reply = c.ask(&PgCreateInterfaceV3 {
            interface_id,
            ..PgCreateInterfaceV3::default()
        });
    }
    let bond = BondCreate2 {
        mode: BondMode::BOND_API_MODE_XOR,
        lb: BondLbAlgo::BOND_API_LB_ALGO_L34,
        use_custom_mac: true,
        mac_address: [2, 0, 0, 0, 0, 9],
        id: 5,
        ..BondCreate2::default()
    };
    let made: BondCreate2Reply = c.ask(&bond);
    assert_eq!((made.retval, made.sw_if_index), (0, 3));
    let taken: BondCreate2Reply = c.ask(&bond);
    assert_eq!(taken.retval, -147);
    let odd: BondCreate2Reply = c.ask(&BondCreate2 {
        mode: BondMode(9),
        id: 6,
        ..bond
    });
    assert_eq!(odd.retval, -73);
    let member = |sw_if_index| BondAddMember {
        sw_if_index,
        bond_sw_if_index: 3,
        ..BondAddMember::default()
    };
    for (index, retval) in [(1, 0), (1, -81), (3, -71), (9, -2)] {
        let reply: BondAddMemberReply = c.ask(&member(index));
        assert_eq!(reply.retval, retval, "{index}");
    }
    let told: Vec<SwBondInterfaceDetails> = c.dump(&SwBondInterfaceDump {
        sw_if_index: u32::MAX,
    });
    assert_eq!(
        (told[0].id, told[0].mode, told[0].lb, told[0].members),
        (5, bond.mode, bond.lb, 1)
    );
    // A bond has an MTU before it is told one; zero would say that it follows a parent.
    let told: Vec<SwInterfaceDetails> = c.dump(&SwInterfaceDump {
        sw_if_index: 3,
        ..SwInterfaceDump::default()
    });
    assert_eq!(
        (told[0].mtu[0], told[0].l2_address),
        (9000, bond.mac_address)
    );
    let sub: CreateVlanSubifReply = c.ask(&CreateVlanSubif {
        sw_if_index: 1,
        vlan_id: 100,
    });
    assert_eq!(sub.retval, -80);
    for retval in [0, -71] {
        let gone: BondDetachMemberReply = c.ask(&BondDetachMember { sw_if_index: 1 });
        assert_eq!(gone.retval, retval);
    }
    for (index, retval) in [(1, -2), (3, 0), (3, -2)] {
        let gone: BondDeleteReply = c.ask(&BondDelete { sw_if_index: index });
        assert_eq!(gone.retval, retval, "{index}");
    }
}
