//! AS paths in samples, from routers of others: FRR's bgpd hears routes from another one, monitors them by BMP, and a
//! sample of a packet to such a route tells its path.
//!
//! Needs FRR (Debian: `apt-get install frr`).

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use support::{Netns, Process, Router, must, parshall};

/// Where Debian has FRR's daemons.
const BGPD: &str = "/usr/lib/frr/bgpd";

/// Announces two prefixes of IPv4 and one of IPv6, with a path and communities.
const FAR: &str = "
router bgp 65001
 bgp router-id 192.0.2.1
 no bgp ebgp-requires-policy
 no bgp network import-check
 no bgp default ipv4-unicast
 neighbor 192.0.2.2 remote-as 65000
 neighbor 192.0.2.2 update-source 192.0.2.1
 neighbor 192.0.2.2 ebgp-multihop 3
 neighbor 192.0.2.2 passive
 neighbor 192.0.2.2 timers connect 1
 address-family ipv4 unicast
  neighbor 192.0.2.2 activate
  neighbor 192.0.2.2 route-map OUT out
  network 198.51.100.0/24
  network 203.0.113.0/24
 exit-address-family
 address-family ipv6 unicast
  neighbor 192.0.2.2 activate
  neighbor 192.0.2.2 route-map OUT6 out
  network 2001:db8:5::/48
 exit-address-family
route-map OUT permit 10
 set as-path prepend 65001 4200000001
 set community 65001:100 no-export
route-map OUT6 permit 10
 set as-path prepend 65009
 set ipv6 next-hop global 2001:db8::9
";

/// Hears them, leaves one out by its policy, and reports both tables by BMP.
const NEAR: &str = "
router bgp 65000
 bgp router-id 192.0.2.2
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 neighbor 192.0.2.1 remote-as 65001
 neighbor 192.0.2.1 update-source 192.0.2.2
 neighbor 192.0.2.1 ebgp-multihop 3
 neighbor 192.0.2.1 timers connect 1
 address-family ipv4 unicast
  neighbor 192.0.2.1 activate
  neighbor 192.0.2.1 soft-reconfiguration inbound
 exit-address-family
 address-family ipv6 unicast
  neighbor 192.0.2.1 activate
  neighbor 192.0.2.1 soft-reconfiguration inbound
 exit-address-family
 bmp targets station
  bmp monitor ipv4 unicast pre-policy
  bmp monitor ipv4 unicast post-policy
  bmp monitor ipv6 unicast pre-policy
  bmp monitor ipv6 unicast post-policy
  bmp connect 127.0.0.1 port 10179 min-retry 100 max-retry 1000
 exit
";

/// A bgpd of this configuration, on its own: it needs no other daemon of FRR.
fn bgpd(ns: &Netns, dir: &Path, name: &str, address: &str, config: &str) -> Process {
    assert!(
        Path::new(BGPD).exists(),
        "{BGPD} is needed for this test: apt-get install frr"
    );
    let of = |what: &str| dir.join(format!("{name}.{what}"));
    std::fs::write(of("conf"), config).unwrap();
    std::fs::create_dir(of("vty")).unwrap();
    ns.spawn(&format!(
        "{BGPD} -f {} -i {} --vty_socket {} -l {address} -P 0 -Z -n -S -M bmp",
        of("conf").display(),
        of("pid").display(),
        of("vty").display()
    ))
}

/// Source and path of the best route to an address.
fn best(router: &Router, addr: &str) -> Option<(String, String)> {
    let (there, text) = router.try_ctl(&format!("show bgp route {addr}"));
    let mut lines = text.lines().filter(|_| there);
    let path = lines.find_map(|l| l.strip_prefix("> as-path "))?;
    let path = path.split(" next-hop").next()?;
    let from = lines.next()?.trim_start().strip_prefix("from ")?;
    Some((from.to_owned(), path.to_owned()))
}

fn until(router: &Router, what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        let late = start.elapsed() > Duration::from_secs(60);
        assert!(!late, "{what}: {}", router.ctl("show bgp feed"));
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_sample_tells_the_path_that_frr_has_heard() {
    let (ns, dir) = (Netns::new("bgp"), tempfile::tempdir().unwrap());
    ns.ip("address add 192.0.2.1/32 dev lo");
    ns.ip("address add 192.0.2.2/32 dev lo");
    let router = Router::start(
        &ns,
        &[
            "create packet-generator interface pg0 hw-addr 02:fe:00:00:00:00",
            "create packet-generator interface pg1",
            "set interface state pg0 up",
            "set interface state pg1 up",
            "set interface ip address pg0 10.0.0.1/24",
            "set interface ip address pg1 10.1.0.1/24",
            "ip neighbor pg1 10.1.0.2 02:00:00:00:00:02 static",
            "ip route add 198.51.100.0/24 via 10.1.0.2",
            "bgp local-as 65000",
            "bgp feed bmp listen 127.0.0.1:10179",
        ],
    );
    let far = bgpd(&ns, dir.path(), "far", "192.0.2.1", FAR);
    let _near = bgpd(&ns, dir.path(), "near", "192.0.2.2", NEAR);
    let heard = "65001 65001 4200000001";
    until(&router, "no route", || {
        best(&router, "198.51.100.1").is_some_and(|(from, path)| {
            // After the policy, and without FRR's own AS in front.
            from.ends_with("192.0.2.1 AS 65001 post-policy") && path == heard
        })
    });
    until(&router, "no IPv6 route", || {
        best(&router, "2001:db8:5::1").is_some_and(|b| b.1 == "65001 65009")
    });
    let v = router.json("show bgp route 198.51.100.0/24");
    assert_eq!(v["paths"][0]["communities"][0], "65001:100");
    assert_eq!(v["paths"][0]["communities"][1], "no-export");
    assert_eq!(v["paths"].as_array().unwrap().len(), 2);
    assert_eq!(v["paths"][0]["next_hop"], "192.0.2.1");
    sampled(&ns, &router, dir.path());
    // What the far end no longer says is no longer true.
    drop(far);
    until(&router, "routes stay", || {
        best(&router, "198.51.100.1").is_none() && best(&router, "2001:db8:5::1").is_none()
    });
    let feed = router.json("show bgp feed");
    assert_eq!(feed["feeds"][0]["skipped"], 0, "{feed}");
    assert!(router.stop());
}

/// A packet to the route is sampled; what its gateway record says.
fn sampled(ns: &Netns, router: &Router, dir: &Path) {
    let pcap = dir.join("sflow.pcap");
    let _collector = ns.spawn(&format!("{} sflow decode -p 6343", parshall().display()));
    let dump = ns.spawn(&format!(
        "tcpdump -U -i lo -w {} udp port 6343",
        pcap.display()
    ));
    std::thread::sleep(Duration::from_secs(1));
    router.ctl("sflow collector add 127.0.0.1 port 6343");
    router.ctl("sflow enable pg0 sampling-rate 1");
    router.ctl(
        "packet-generator new { name s limit 20 rate 100 size 100-100 interface pg0 node ethernet-input \
         data { IP4: 02:00:00:00:00:01 -> 02:fe:00:00:00:00 UDP: 10.0.0.9 -> 198.51.100.7 UDP: 1 -> 2 incrementing 8 } }",
    );
    router.ctl("packet-generator enable-stream s");
    std::thread::sleep(Duration::from_millis(2500));
    drop(dump);
    let file = pcap.display().to_string();
    let decoded = must(
        &parshall().display().to_string(),
        &["sflow", "decode", "-r", &file],
    );
    let count = |line: &str| decoded.lines().filter(|l| *l == line).count();
    for line in [
        "extendedType GATEWAY",
        "my_as 65000",
        "dst_as_path 65001-65001-4200000001",
        "dst_as 4200000001",
        "dst_peer_as 65001",
        "bgp_nexthop 192.0.2.1",
        // 65001:100 and no-export.
        "BGP_communities 4259905636-4294967041",
    ] {
        assert_eq!(count(line), 20, "{line}\n{decoded}");
    }
}
