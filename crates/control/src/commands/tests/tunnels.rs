//! Tunnels: made, shown, refused, undone; and packets that go through them.

use super::*;

#[test]
fn tunnels_are_made_shown_and_deleted() {
    let mut r = model();
    script(&mut r, TWO);
    let vxlan = "create vxlan tunnel src 10.0.0.1 dst 10.0.0.2 instance 7 vni 100 decap-next l2";
    assert_eq!(run(&mut r, vxlan), "vxlan_tunnel7");
    assert_eq!(
        run(&mut r, "create ipip tunnel src 10.0.0.1 dst 10.0.0.2"),
        "ipip0"
    );
    assert_eq!(
        run(
            &mut r,
            "create gre tunnel src 2001:db8::1 dst 2001:db8::2 teb"
        ),
        "gre0"
    );
    assert_eq!(
        run(&mut r, "create gre tunnel src 2001:db8::1 dst 2001:db8::2"),
        "gre1"
    );
    assert_eq!(
        run(&mut r, "show vxlan tunnel"),
        "[0] instance 7 src 10.0.0.1 dst 10.0.0.2 src_port 4789 dst_port 4789 vni 100 table-ID 0 sw-if-idx 3 [decap-next-l2]"
    );
    assert!(run(&mut r, "show ipip tunnel").contains("payload L3 point-to-point"));
    assert_eq!(data(&mut r, "show gre tunnel")[0]["payload"], "TEB");
    let again = "create vxlan tunnel src 10.0.0.1 dst 10.0.0.2 vni 100";
    assert!(refused(&mut r, again).contains("vxlan_tunnel7 is this tunnel already"));
    assert!(
        refused(
            &mut r,
            "create ipip tunnel src 10.0.0.1 dst 10.0.0.9 instance 0"
        )
        .contains("exists")
    );
    run(
        &mut r,
        "create vxlan tunnel instance 7 src 10.0.0.1 dst 10.0.0.2 vni 100 del",
    );
    run(
        &mut r,
        "create gre tunnel src 2001:db8::1 dst 2001:db8::2 teb del",
    );
    run(&mut r, "delete gre tunnel gre1");
    assert!(refused(&mut r, "delete gre tunnel ipip0").contains("another kind"));
    run(&mut r, "delete ipip tunnel ipip0");
    assert_eq!(r.tunnels().count(), 0);
}

#[test]
fn what_cannot_be_a_tunnel_is_refused() {
    let mut r = model();
    script(&mut r, TWO);
    let mut why = |line: &str| refused(&mut r, line);
    assert!(why("create ipip tunnel src 10.0.0.1 dst 2001:db8::1").contains("different families"));
    assert!(why("create ipip tunnel src 10.0.0.1 dst 10.0.0.1").contains("same address"));
    assert!(why("create ipip tunnel src 10.0.0.1 dst 224.0.0.5").contains("groups"));
    assert!(why("create ipip tunnel src 10.0.0.1").contains("needs `dst`"));
    assert!(why("create vxlan tunnel src 10.0.0.1 dst 10.0.0.2").contains("`vni`"));
    assert!(
        why("create gre tunnel src 10.0.0.1 dst 10.0.0.2 outer-table-id 5")
            .contains("no ip table 5")
    );
    assert!(why("create gre tunnel src 10.0.0.1 dst 10.0.0.2 del").contains("no such tunnel"));
    run(&mut r, "ip table add 5");
    run(
        &mut r,
        "create gre tunnel src 10.0.0.1 dst 10.0.0.2 outer-table-id 5",
    );
    assert!(refused(&mut r, "ip table del 5").contains("gre0"));
}

#[test]
fn a_failed_transaction_leaves_tunnels_as_they_were() {
    let mut r = model();
    script(&mut r, TWO);
    script(
        &mut r,
        "create ipip tunnel src 10.0.0.1 dst 10.0.0.2\nset interface state ipip0 up\n\
         set interface ip address ipip0 192.0.2.1/30\nip route add 203.0.113.0/24 via ipip0",
    );
    let before = everything(&mut r);
    let text =
        "create vxlan tunnel src 10.0.0.1 dst 10.0.0.2 vni 1\ndelete ipip tunnel ipip0\nnonsense";
    assert!(r.run_script(text, "test").is_err());
    assert_eq!(everything(&mut r), before);
    assert!(
        r.shared()
            .tunnels
            .read_control(&r.shared().domain)
            .view(3)
            .is_some()
    );
}

/// Two tunnels that lead to each other through a second pair of addresses, and a packet through both.
#[test]
fn packets_go_in_at_one_end() {
    let mut r = router();
    script(&mut r, TWO);
    script(
        &mut r,
        "set ip neighbor pg1 10.1.0.2 02:00:00:00:00:09\n\
         create ipip tunnel src 10.1.0.1 dst 10.1.0.2\nset interface state ipip0 up\n\
         set interface ip address ipip0 192.0.2.1/30\nip route add 203.0.113.0/24 via ipip0\n\
         ip route add 198.51.100.0/24 via 192.0.2.2 ipip0",
    );
    settle(&mut r);
    let before = r.interface_totals(2);
    for (name, to) in [
        ("a", "203.0.113.9"),
        ("b", "198.51.100.9"),
        ("c", "192.0.2.2"),
    ] {
        run(
            &mut r,
            &format!(
                "packet-generator new {{ name {name} limit 10 size 64-64 interface pg0 node ip4-input \
                 data {{ UDP: 10.0.0.9 -> {to} UDP: 5 -> 6 incrementing 10 }} }}"
            ),
        );
        run(&mut r, &format!("packet-generator enable-stream {name}"));
    }
    until(&mut r, "sending", |r| {
        r.interface_totals(2).tx_packets - before.tx_packets == 30
    });
    let index = r.interfaces.find("ipip0").unwrap();
    // It counts the packets as they go in: without the IPv4 header and the link's that are put in front.
    let (inside, link) = (r.interface_totals(index), r.interface_totals(2));
    assert_eq!(inside.tx_packets, 30);
    let outside = link.tx_bytes - before.tx_bytes;
    assert_eq!(inside.tx_bytes + 30 * (20 + 14), outside);
}

#[test]
fn a_tunnel_through_itself_ends() {
    let mut r = router();
    script(&mut r, TWO);
    script(
        &mut r,
        "create ipip tunnel src 10.1.0.1 dst 198.51.100.1\nset interface state ipip0 up\n\
         set interface ip address ipip0 192.0.2.1/30\nip route add 198.51.100.0/24 via ipip0",
    );
    run(
        &mut r,
        "packet-generator new { name x limit 10 size 64-64 interface pg0 node ip4-input \
         data { UDP: 10.0.0.9 -> 198.51.100.7 UDP: 5 -> 6 incrementing 10 } }",
    );
    run(&mut r, "packet-generator enable-stream x");
    until(&mut r, "an end", |r| {
        run(r, "show errors").contains("too many tunnels")
    });
}
