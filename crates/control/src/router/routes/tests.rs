//! Many routes, many tables, recursive ones: through the router into the tables that workers read.

use std::collections::BTreeMap;

use parshall_fib::{Dpo, DpoKind};

use super::*;
use crate::engine::EngineConfig;

const SETUP: &str = "create packet-generator interface pg0\nset interface state pg0 up\n\
    set interface ip address pg0 10.0.0.1/24\n";

fn router() -> Router {
    let mut r = Router::model(&EngineConfig::default()).unwrap();
    r.run_script(SETUP, "setup").unwrap();
    r
}

fn via(last: u8, if_index: Option<u32>) -> Vec<Path> {
    let ip = [10, 0, 0, last].into();
    vec![Path::new(Via::NextHop { ip, if_index })]
}

fn net(n: u32) -> IpNet {
    IpNet::new((0x1400_0000 + (n << 8)).to_be_bytes().into(), 24)
}

/// What a worker finds for an address of table 0.
fn found(r: &Router, addr: u32) -> Dpo {
    let mut reader = r.shared().domain.register().unwrap();
    reader.online();
    r.shared().ip4.get(&reader, 0).lookup(&reader, addr)
}

/// The neighbour that an address leads to, through a load balance if there is one.
fn neighbor(r: &Router, addr: u32) -> Option<u8> {
    let mut dpo = found(r, addr);
    if dpo.kind() == DpoKind::LoadBalance {
        dpo = r.shared().load_balances.get_control(dpo.index())?.pick(0);
    }
    let adjacency = (dpo.kind() == DpoKind::Adjacency).then_some(dpo.index())?;
    let adjacency = r.shared().adjacencies.get_control(adjacency)?;
    Some(adjacency.next_hop_ip4().octets()[3])
}

#[test]
fn many_routes_change_together_or_not_at_all() {
    let mut r = router();
    let (a, b) = (via(2, Some(1)), via(3, Some(1)));
    let all = (0..20_000).map(|n| (net(n), if n % 2 == 0 { &a[..] } else { &b[..] }));
    assert_eq!(r.change_routes((Family::Ip4, 0), all), Ok(20_000));
    assert_eq!(
        (neighbor(&r, 0x1400_0001), neighbor(&r, 0x1400_0101)),
        (Some(2), Some(3))
    );
    let gone = [
        (net(0), &[][..]),
        (net(1), &a[..]),
        (net(1), &b[..]),
        (net(77_777), &[][..]),
    ];
    // The second came and went, the last was never there.
    assert_eq!(r.change_routes((Family::Ip4, 0), gone), Ok(3));
    assert_eq!(
        (neighbor(&r, 0x1400_0001), neighbor(&r, 0x1400_0101)),
        (None, Some(3))
    );
    let lists = r.rib.list_count();
    let bad = Path::new(Via::NextHop {
        ip: [127, 0, 0, 1].into(),
        if_index: None,
    });
    let bad = [(net(5), &[][..]), (net(6), std::slice::from_ref(&bad))];
    assert!(r.change_routes((Family::Ip4, 0), bad).is_err());
    let other: IpNet = IpNet::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 128);
    let error = r
        .change_routes((Family::Ip4, 0), [(other, &a[..])])
        .unwrap_err();
    assert_eq!(error.to_string(), "::1/128 is no ip unicast prefix");
    assert_eq!(
        (neighbor(&r, 0x1400_0501), r.rib.list_count()),
        (Some(3), lists)
    );
    // What is undone is as if it had never been.
    let undone: Result<()> = r.atomically(|r| {
        r.change_routes((Family::Ip4, 0), (0..20_000).map(|n| (net(n), &[][..])))?;
        assert_eq!(neighbor(r, 0x1400_0501), None);
        r.add_route((Family::Ip4, 0, net(0)), via(9, Some(1)))?;
        Err(Error::refused("no"))
    });
    assert!(undone.is_err());
    assert_eq!(
        (neighbor(&r, 0x1400_0501), neighbor(&r, 0x1400_0001)),
        (Some(3), None)
    );
    assert_eq!(r.rib.list_count(), lists);
}

#[test]
fn memory_after_rounds_of_changes_is_what_it_was() {
    let mut r = router();
    let empty = r.route_memory();
    let paths: Vec<_> = (2..250).map(|n| via(n, Some(1))).collect();
    let mut full = 0;
    for round in 0..8u32 {
        let all = (0..30_000).map(|n| (net(n * (round + 1)), &paths[(n % 248) as usize][..]));
        r.atomically(|r| r.change_routes((Family::Ip4, 0), all))
            .unwrap();
        r.turn();
        r.turn();
        full = if round == 0 { r.route_memory() } else { full };
        let all = (0..30_000).map(|n| (net(n * (round + 1)), &[][..]));
        for n in 0..500 {
            r.remove_route((Family::Ip4, 0, net(n * (round + 1))), &[])
                .unwrap();
        }
        r.atomically(|r| r.change_routes((Family::Ip4, 0), all))
            .unwrap();
        r.turn();
        r.turn();
        // The first large page of node memory stays, and the free indices of adjacencies.
        let left = r.route_memory() - empty;
        assert!(left < (2 << 20) + 65_536, "round {round}: {left} of {full}");
    }
    assert!(full > empty + 300_000);
}

#[test]
fn thousands_of_tables_come_and_go() {
    let mut r = router();
    let before = r.route_memory();
    for id in 1..=4096 {
        r.add_table(Family::Ip4, id).unwrap();
        r.add_table(Family::Ip6, id).unwrap();
    }
    let each = (r.route_memory() - before) / 4096;
    assert!(
        each < 4096,
        "{each} bytes for two tables and the link-local route"
    );
    let same = via(2, Some(1));
    for id in 1..=4096u32 {
        let some = (0..3).map(|n| (net(n * 7 + id), &same[..]));
        r.change_routes((Family::Ip4, id), some).unwrap();
    }
    let error = r.remove_table(Family::Ip4, 4096).unwrap_err().to_string();
    assert_eq!(error, "ip table 4096 still has 3 routes");
    for id in 1..=4096u32 {
        let some = (0..3).map(|n| (net(n * 7 + id), &[][..]));
        assert_eq!(r.change_routes((Family::Ip4, id), some), Ok(3));
        r.remove_table(Family::Ip4, id).unwrap();
        r.remove_table(Family::Ip6, id).unwrap();
    }
    r.turn();
    r.turn();
    let left = r.route_memory().saturating_sub(before);
    // The first large page of node memory of each family, and the free indices.
    assert!(left < 6 << 20, "{left}");
}

#[test]
fn too_many_tables_is_an_error_that_names_the_limit() {
    let mut r = router();
    let mut id = 1;
    let error = loop {
        match r.add_table(Family::Ip4, id) {
            Ok(()) => id += 1,
            Err(e) => break e.to_string(),
        }
    };
    assert_eq!(error, "set of IPv4 tables full: the limit is 8192 tables");
    r.remove_table(Family::Ip4, 9).unwrap();
    r.turn();
    r.turn();
    assert_eq!(r.add_table(Family::Ip4, 9), Ok(()));
}

#[test]
fn a_next_hop_that_moves_takes_all_routes_along_at_once() {
    let mut r = router();
    let igp = (Family::Ip4, 0, IpNet::new([50, 0, 0, 0].into(), 8));
    r.add_route(igp, via(2, Some(1))).unwrap();
    let bgp = [Path::new(Via::NextHop {
        ip: [50, 1, 1, 1].into(),
        if_index: None,
    })];
    let all = (0..10_000).map(|n| (net(n), &bgp[..]));
    r.change_routes((Family::Ip4, 0), all).unwrap();
    let object = found(&r, 0x1400_0001);
    let to = |r: &Router| [0x1400_0001, 0x1400_0000 + (9_999 << 8)].map(|a| neighbor(r, a));
    assert_eq!(
        (object.kind(), to(&r)),
        (DpoKind::LoadBalance, [Some(2); 2])
    );
    // A better way, another way, no way: the routes' object stays.
    let nearer = (Family::Ip4, 0, IpNet::new([50, 1, 0, 0].into(), 16));
    r.add_route(nearer, via(3, Some(1))).unwrap();
    assert_eq!(to(&r), [Some(3); 2]);
    r.replace_route(nearer, via(4, Some(1))).unwrap();
    assert_eq!(to(&r), [Some(4); 2]);
    r.remove_route(nearer, &[]).unwrap();
    assert_eq!(to(&r), [Some(2); 2]);
    r.remove_route(igp, &[]).unwrap();
    assert_eq!((to(&r), found(&r, 0x1400_0001)), ([None; 2], object));
    r.add_route(igp, via(5, Some(1))).unwrap();
    assert_eq!((to(&r), found(&r, 0x1400_0001)), ([Some(5); 2], object));
}

#[test]
fn weighted_paths_share_flows_by_weight() {
    let mut r = router();
    let mut paths = [via(2, Some(1)), via(3, Some(1))].concat();
    paths[1].weight = 3;
    r.add_route((Family::Ip4, 0, net(1)), paths).unwrap();
    let dpo = found(&r, 0x1400_0101);
    let lb = r.shared().load_balances.get_control(dpo.index()).unwrap();
    let mut flows = BTreeMap::new();
    for hash in 0..1024u32 {
        *flows.entry(lb.pick(hash)).or_insert(0) += 1;
    }
    let mut counts: Vec<_> = flows.into_values().collect();
    counts.sort_unstable();
    assert_eq!(counts, [256, 768]);
}
