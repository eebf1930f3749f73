//! Access lists on a router: made, put on interfaces, judged by, undone.

use serde_json::json;

use super::*;

#[test]
fn lists_are_made_put_on_interfaces_and_shown() {
    let mut r = router();
    script(&mut r, TWO);
    let made = run(
        &mut r,
        "set acl-plugin acl deny proto udp dport 53, permit tag dns",
    );
    assert_eq!(made, "ACL index:0");
    run(&mut r, "set acl-plugin acl permit ip6");
    script(
        &mut r,
        "set acl-plugin interface pg0 input acl 1\nset acl-plugin interface pg0 input acl 0\n\
         set acl-plugin interface pg1 output acl 0",
    );
    let shown = run(&mut r, "show acl-plugin acl index 0");
    assert_eq!(
        shown,
        "acl-index 0 count 2 tag {dns}\n        \
         0: ipv4 deny src 0.0.0.0/0 dst 0.0.0.0/0 proto 17 sport 0-65535 dport 53 packets 0 bytes 0\n        \
         1: ipv4 permit src 0.0.0.0/0 dst 0.0.0.0/0 proto 0 sport 0-65535 dport 0-65535 packets 0 bytes 0\n  \
         applied inbound on: pg0\n  applied outbound on: pg1"
    );
    let interfaces = data(&mut r, "show acl-plugin interface pg0");
    assert_eq!(interfaces[0]["input"], json!([1, 0]));
    assert!(
        run(&mut r, "show acl-plugin interface")
            .contains("pg1 (sw_if_index 2):\n  output acl(s): 0")
    );
    let why = refused(&mut r, "delete acl-plugin acl index 0");
    assert!(why.contains("in use: input of pg0"), "{why}");
    run(&mut r, "set acl-plugin interface pg0 input acl 0 del");
    run(&mut r, "set acl-plugin interface pg1 output acl 0 del");
    run(&mut r, "delete acl-plugin acl index 0");
    assert!(refused(&mut r, "show acl-plugin acl index 0").contains("no ACL 0"));
}

#[test]
fn what_cannot_be_is_refused() {
    let mut r = model();
    script(&mut r, TWO);
    assert!(refused(&mut r, "set acl-plugin interface pg0 input acl 7").contains("no ACL 7"));
    run(&mut r, "set acl-plugin acl permit");
    run(&mut r, "set acl-plugin interface pg0 input acl 0");
    assert!(refused(&mut r, "set acl-plugin interface pg0 input acl 0").contains("already"));
    assert!(
        refused(&mut r, "set acl-plugin interface pg0 output acl 0 del").contains("does not have")
    );
    assert!(
        refused(&mut r, "set acl-plugin interface local0 input acl 0")
            .contains("cannot be changed")
    );
    assert!(refused(&mut r, "set acl-plugin acl permit+reflect").contains("table of sessions"));
    assert!(
        r.acl_add_replace(Some(9), "", vec![]).is_err(),
        "replacing needs one"
    );
    let many = vec![parshall_acl::Rule::any(parshall_acl::Action::Deny, false); 16_385];
    assert!(matches!(
        r.acl_add_replace(Some(0), "", many),
        Err(Error::Full(_))
    ));
}

#[test]
fn a_failed_transaction_leaves_lists_as_they_were() {
    let mut r = model();
    script(&mut r, TWO);
    script(
        &mut r,
        "set acl-plugin acl permit tag a\nset acl-plugin interface pg0 input acl 0\n\
         set acl-plugin interface pg1 output acl 0",
    );
    let before = everything(&mut r);
    let text = "set acl-plugin acl index 0 deny tag b\nset acl-plugin acl deny tag c\n\
                set acl-plugin interface pg0 output acl 1\nset acl-plugin l4-match-nonfirst-fragment 0\n\
                set acl-plugin interface pg0 input acl 0 del\n\
                delete packet-generator interface pg1\nnonsense";
    assert!(r.run_script(text, "test").is_err());
    assert_eq!(everything(&mut r), before);
    assert!(r.acl_matches_later_fragments());
}

#[test]
fn packets_are_judged_counted_and_judged_anew() {
    let mut r = router();
    script(&mut r, TWO);
    script(
        &mut r,
        "set acl-plugin acl deny proto udp dport 1, permit dst 10.1.0.0/24\n\
         set acl-plugin interface pg0 input acl 0\n\
         set ip neighbor pg1 10.1.0.2 02:00:00:00:00:09",
    );
    let send = |r: &mut Router, name: &str, port: u16| {
        run(
            r,
            &format!(
                "packet-generator new {{ name {name} limit 100 size 64-64 interface pg0 node ip4-input \
                 data {{ UDP: 10.0.0.9 -> 10.1.0.2 UDP: 5 -> {port} incrementing 10 }} }}"
            ),
        );
        run(r, &format!("packet-generator enable-stream {name}"));
    };
    let packets = |r: &mut Router, rule: usize| {
        let rules = data(r, "show acl-plugin acl index 0");
        rules[0]["rules"][rule]["packets"].as_u64().unwrap_or(0)
    };
    send(&mut r, "bad", 1);
    send(&mut r, "good", 2);
    until(&mut r, "judging", |r| {
        packets(r, 0) == 100 && packets(r, 1) == 100
    });
    settle(&mut r);
    let sent = r.interface_totals(2).tx_packets;
    // And what announces the address.
    assert_eq!(sent - r.interface_totals(2).tx_broadcast, 100);
    run(&mut r, "set acl-plugin acl index 0 deny");
    send(&mut r, "more", 2);
    until(&mut r, "judging anew", |r| packets(r, 0) == 100);
    assert_eq!(r.interface_totals(2).tx_packets, sent);
    assert!(run(&mut r, "show errors").contains("an access list denies it"));
}
