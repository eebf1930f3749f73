//! Routes and tables.

use super::*;

#[test]
fn routes_come_back_as_they_were_put_in() {
    let world = World::new(|_| ());
    let mut c = world.client();
    let _: PgCreateInterfaceV3Reply = c.ask(&PgCreateInterfaceV3::default());
    let address = SwInterfaceAddDelAddress {
        sw_if_index: 1,
        is_add: true,
        del_all: false,
        prefix: net("10.0.0.1", 24),
    };
    let reply: SwInterfaceAddDelAddressReply = c.ask(&address);
    assert_eq!(reply.retval, 0);
    let told: Vec<IpAddressDetails> = c.dump(&IpAddressDump {
        sw_if_index: 1,
        is_ipv6: false,
    });
    assert_eq!(told[0].prefix, address.prefix);
    let change = |is_add, is_multipath, paths: Vec<FibPath>| IpRouteAddDel {
        is_add,
        is_multipath,
        route: IpRoute {
            prefix: net("192.0.2.0", 24),
            paths,
            ..IpRoute::default()
        },
    };
    let labelled = FibPath {
        n_labels: 1,
        label_stack: std::array::from_fn(|_| FibMplsLabel {
            label: 77,
            is_uniform: 1,
            ..FibMplsLabel::default()
        }),
        ..via("10.0.0.3", 1)
    };
    let find = |c: &mut Client| -> Option<IpRoute> {
        let table = IpTable::default();
        let all: Vec<IpRouteDetails> = c.dump(&IpRouteDump { table });
        all.into_iter()
            .map(|d| d.route)
            .find(|r| r.prefix == net("192.0.2.0", 24))
    };
    for (m, hops) in [
        (change(true, false, vec![via("10.0.0.2", 1)]), 1),
        (change(true, true, vec![labelled]), 2),
        (change(false, true, vec![via("10.0.0.2", 1)]), 1),
    ] {
        let reply: IpRouteAddDelReply = c.ask(&m);
        assert_eq!(reply.retval, 0);
        assert_eq!(find(&mut c).expect("there").paths.len(), hops);
    }
    let left = &find(&mut c).expect("there").paths[0];
    assert_eq!(
        (
            left.n_labels,
            left.label_stack[0].label,
            left.nh.address.ip4().octets()
        ),
        (1, 77, [10, 0, 0, 3])
    );
    let reply: IpRouteAddDelReply = c.ask(&change(false, false, vec![]));
    assert_eq!((reply.retval, find(&mut c)), (0, None));
    // Gone already, which is no mistake; an interface and a table that are not there are.
    let reply: IpRouteAddDelReply = c.ask(&change(false, false, vec![]));
    assert_eq!(reply.retval, 0);
    let reply: IpRouteAddDelReply = c.ask(&change(true, false, vec![via("10.0.0.2", 9)]));
    assert_eq!(reply.retval, -54);
    let mut elsewhere = change(true, false, vec![via("10.0.0.2", 1)]);
    elsewhere.route.table_id = 7;
    let reply: IpRouteAddDelReply = c.ask(&elsewhere);
    assert_eq!(reply.retval, -3);
    let table = IpTable {
        table_id: 7,
        ..IpTable::default()
    };
    let reply: IpTableAddDelV2Reply = c.ask(&IpTableAddDelV2 {
        table: table.clone(),
        is_add: true,
        create_mfib: true,
    });
    assert_eq!(reply.retval, 0);
    let reply: IpRouteAddDelReply = c.ask(&elsewhere);
    assert_eq!(reply.retval, 0);
    // What was put into a table goes with it.
    let reply: IpTableAddDelV2Reply = c.ask(&IpTableAddDelV2 {
        table,
        is_add: false,
        create_mfib: true,
    });
    assert_eq!(reply.retval, 0);
}

#[test]
fn a_dump_of_several_pages_is_whole() {
    let world = World::new(|_| ());
    let mut c = world.client();
    let _: PgCreateInterfaceV3Reply = c.ask(&PgCreateInterfaceV3::default());
    let mut lines = String::from("set interface ip address pg0 10.0.0.1/24\n");
    for n in 0..9000 {
        lines.push_str(&format!(
            "ip route add 20.0.{}.{}/32 via 10.0.0.2 pg0\n",
            n / 256,
            n % 256
        ));
    }
    let (said, _) = c.cli(&lines);
    assert_eq!(said, 0);
    let all: Vec<IpRouteDetails> = c.dump(&IpRouteDump::default());
    let ours = all
        .iter()
        .filter(|d| d.route.prefix.address.un.0[0] == 20)
        .count();
    assert_eq!(ours, 9000);
    let mut seen = std::collections::HashSet::new();
    assert!(
        all.iter()
            .all(|d| seen.insert(format!("{:?}", d.route.prefix)))
    );
}
