//! What 1.2 million routes take, by the accounts and by what the system gave this process: the accounts
//! must not leave anything out. Alone in its program, because other tests would take memory too.

use std::net::Ipv4Addr;

use parshall_bench::internet::{self, NEXT_HOPS};
use parshall_control::{EngineConfig, Family, IpNet, Path, Router, Via};

const ROUTES: usize = 1_200_000;
/// Routes set together: few, so that little memory is needed only in passing.
const TOGETHER: usize = 10_000;

/// Resident bytes of this process.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("/proc is mounted");
    let pages = text.split(' ').nth(1).expect("resident pages");
    pages.parse::<usize>().expect("a number") * 4096
}

#[test]
fn the_accounts_agree_with_the_system_and_stay_below_60_bytes() {
    let setup = "create packet-generator interface pg0\nset interface state pg0 up\n\
        set interface ip address pg0 198.18.0.1/16\n";
    let mut router = Router::model(&EngineConfig::default()).unwrap();
    router.run_script(setup, "setup").unwrap();
    let hop = |n: u32| Via::NextHop {
        ip: Ipv4Addr::from_bits(0xC612_0100 + n).into(),
        if_index: Some(1),
    };
    let paths: Vec<_> = (0..NEXT_HOPS).map(|n| [Path::new(hop(n))]).collect();
    let routes: Vec<(IpNet, &[Path])> = internet::grown4(ROUTES)
        .unwrap()
        .into_iter()
        .map(|p| {
            let net = IpNet::new(p.ip().into(), p.len());
            (net, &paths[internet::next_hop(p) as usize][..])
        })
        .collect();
    let (accounts, system) = (router.route_memory(), resident());
    for some in routes.chunks(TOGETHER) {
        let set = router.change_routes((Family::Ip4, 0), some.iter().copied());
        assert_eq!(set, Ok(some.len()));
        router.turn();
    }
    let accounts = router.route_memory() - accounts;
    let system = resident() - system;
    let each = |bytes: usize| bytes as f64 / ROUTES as f64;
    let found = format!(
        "accounts {:.1}, system {:.1} bytes a route",
        each(accounts),
        each(system)
    );
    println!("{found}");
    assert!(each(accounts) <= 60.0 && each(system) <= 60.0, "{found}");
    // Pages that are reserved but not touched yet, one way; garbage of the allocator, the other.
    assert!(accounts < system * 5 / 4 + (4 << 20), "{found}");
    assert!(system < accounts * 3 / 2 + (8 << 20), "{found}");
}
