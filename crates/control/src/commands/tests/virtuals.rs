//! Interfaces without a device: how they are made, follow their parents, and go.

use super::*;

fn link(r: &Router, name: &str) -> (bool, u32, [u8; 6]) {
    let i = r.interfaces.get(r.interfaces.find(name).unwrap()).unwrap();
    (i.link, i.mtu, i.mac)
}

#[test]
fn a_sub_interface_follows_its_parent() {
    let mut r = model();
    script(&mut r, TWO);
    assert_eq!(
        run(&mut r, "create sub-interfaces pg0 100 dot1q 7 exact-match"),
        "pg0.100"
    );
    assert_eq!(run(&mut r, "create sub pg0 5"), "pg0.5");
    script(&mut r, "set interface mtu packet 1400 pg0.5");
    script(
        &mut r,
        "set interface mtu packet 2000 pg0\nset interface mac address pg0 02:00:00:00:00:77",
    );
    assert_eq!(link(&r, "pg0.100"), (true, 2000, [2, 0, 0, 0, 0, 0x77]));
    assert_eq!(link(&r, "pg0.5").1, 1400);
    script(&mut r, "set interface state pg0 down");
    assert!(!link(&r, "pg0.5").0);
    script(
        &mut r,
        "set interface state pg0 up\nset interface mtu 0 pg0.5",
    );
    assert_eq!(link(&r, "pg0.5"), (true, 2000, [2, 0, 0, 0, 0, 0x77]));
    script(&mut r, "delete packet-generator interface pg0");
    assert!(r.interfaces.find("pg0.5").is_err() && r.interfaces.find("pg0.100").is_err());
}

#[test]
fn what_is_undone_is_as_it_was() {
    let mut r = model();
    script(&mut r, TWO);
    script(
        &mut r,
        "create sub-interfaces pg0 100\nset interface mtu packet 1300 pg0.100\nset interface state pg0.100 up\n\
         set interface ip address pg0.100 192.0.2.1/24\nset interface l2 tag-rewrite pg0.100 pop 1",
    );
    let before = data(&mut r, "show interface");
    let failed = r.atomically(|r| {
        r.delete_interface("pg0", "pg")?;
        Err::<(), _>(Error::refused("no"))
    });
    assert!(failed.is_err());
    assert_eq!(data(&mut r, "show interface"), before);
    let i = r
        .interfaces
        .get(r.interfaces.find("pg0.100").unwrap())
        .unwrap();
    assert_eq!((i.vtr.pop, i.vtr.op()), (1, 3));
}

#[test]
fn sub_interfaces_that_cannot_be_are_refused() {
    let mut r = model();
    script(&mut r, TWO);
    script(
        &mut r,
        "create sub pg0 100 dot1ad 100 inner-dot1q any\ncreate sub pg0 200-210\ncreate sub pg0 1 default",
    );
    for (line, why) in [
        ("create sub pg0 100", "of this number already"),
        (
            "create sub pg0 101 dot1ad 100 inner-dot1q any exact-match",
            "for these frames",
        ),
        ("create sub pg0 2 default", "pg0.1 for these frames"),
        ("create sub pg0.100 1", "is a sub-interface"),
        ("create sub pg0 5 dot1q 4095", "4095 is no VLAN"),
        ("create sub pg0 9-5", "neither a number nor a range"),
        ("create sub pg0 200-300", "already"),
        ("delete sub-interface pg1", "is of another kind"),
        (
            "set interface l2 tag-rewrite pg0.100 pop 2",
            "cannot be taken off",
        ),
        (
            "set interface l2 tag-rewrite pg0.200 translate 1-2 dot1q 5",
            "puts 2 on",
        ),
    ] {
        let said = refused(&mut r, line);
        assert!(said.contains(why), "{line}: {said}");
    }
    assert!(
        r.interfaces.find("pg0.300").is_err(),
        "a range is whole or not at all"
    );
}

#[test]
fn only_exact_tags_can_be_routed() {
    let mut r = model();
    script(&mut r, TWO);
    script(
        &mut r,
        "create sub pg0 7 dot1q 7\ncreate sub pg0 8 dot1q 8 exact-match",
    );
    let said = refused(&mut r, "set interface ip address pg0.7 192.0.2.1/24");
    assert!(said.contains("exact-match"), "{said}");
    script(&mut r, "set interface ip address pg0.8 192.0.2.1/24");
    assert!(refused(&mut r, "enable ip6 interface pg0.7").contains("exact-match"));
}

#[test]
fn an_unnumbered_interface_speaks_under_the_addresses_of_another() {
    let mut r = model();
    script(&mut r, TWO);
    script(
        &mut r,
        "create loopback interface instance 4 mac 02:00:00:00:00:04\nset interface ip address loop4 192.0.2.1/32\n\
         create sub pg0 9\nset interface unnumbered pg0.9 use loop4\nset interface tag loop4 vppcfg",
    );
    let table = r.interfaces.table(|_, _| 0);
    let index = r.interfaces.find("pg0.9").unwrap();
    let ours = table.addresses(index).unwrap();
    assert_eq!(ours.ip4, [("192.0.2.1".parse().unwrap(), 32)]);
    assert!(table.view(index).has(parshall_nodes::if_flags::IP4));
    script(&mut r, "set interface ip address loop4 198.51.100.1/32");
    assert_eq!(r.interfaces.get(index).unwrap().borrowed.len(), 2);
    for (line, why) in [
        (
            "set interface unnumbered pg0 use pg0.9",
            "which has its own",
        ),
        (
            "set interface unnumbered pg1 use loop4",
            "has addresses of its own",
        ),
        (
            "set interface ip address pg0.9 203.0.113.1/24",
            "uses the addresses of another",
        ),
    ] {
        let said = refused(&mut r, line);
        assert!(said.contains(why), "{line}: {said}");
    }
    let shown = data(&mut r, "show interface loop4");
    assert_eq!(shown[0]["tag"], "vppcfg");
    script(&mut r, "delete loopback interface intfc loop4");
    assert_eq!(r.interfaces.get(index).unwrap().unnumbered, None);
    assert!(r.interfaces.get(index).unwrap().borrowed.is_empty());
}

#[test]
fn a_bond_has_what_its_members_have() {
    let mut r = model();
    script(
        &mut r,
        "create packet-generator interface pg0 hw-addr 02:fe:00:00:00:00\ncreate packet-generator interface pg1\n\
         create bond id 3 mode xor load-balance l34\nset interface state BondEthernet3 up",
    );
    assert!(!link(&r, "BondEthernet3").0);
    script(
        &mut r,
        "bond add BondEthernet3 pg0\nbond add BondEthernet3 pg1\ncreate sub BondEthernet3 7",
    );
    assert_eq!(link(&r, "BondEthernet3").2, [2, 0xfe, 0, 0, 0, 0]);
    assert_eq!(link(&r, "BondEthernet3.7").2, [2, 0xfe, 0, 0, 0, 0]);
    assert!(
        link(&r, "BondEthernet3.7").0,
        "members came up with the bond"
    );
    let shown = data(&mut r, "show bond");
    assert_eq!(
        shown[0]["active_members"],
        serde_json::json!(["pg0", "pg1"])
    );
    for (line, why) in [
        ("bond add BondEthernet3 pg0", "member of a bond already"),
        ("bond add pg0 pg1", "is no bond"),
        ("bond add BondEthernet3 BondEthernet3.7", "has no device"),
        (
            "set interface ip address pg0 192.0.2.1/24",
            "its settings are the bond's",
        ),
        ("create sub pg0 1", "its settings are the bond's"),
        ("create bond id 3 mode xor", "exists already"),
        ("create bond mode broadcast load-balance l2", "xor and lacp"),
        ("delete bond pg0", "is of another kind"),
    ] {
        let said = refused(&mut r, line);
        assert!(said.contains(why), "{line}: {said}");
    }
    script(&mut r, "set interface state pg0 down");
    assert_eq!(
        data(&mut r, "show bond")[0]["active_members"],
        serde_json::json!(["pg1"])
    );
    script(&mut r, "bond del BondEthernet3 pg1");
    assert!(!link(&r, "BondEthernet3").0);
    let before = data(&mut r, "show interface");
    let failed = r.atomically(|r| {
        r.delete_bond("BondEthernet3")?;
        Err::<(), _>(Error::refused("no"))
    });
    assert!(failed.is_err());
    assert_eq!(data(&mut r, "show interface"), before);
    script(&mut r, "delete bond BondEthernet3");
    assert!(r.interfaces.find("BondEthernet3.7").is_err());
    script(&mut r, "set interface ip address pg0 192.0.2.1/24");
}
