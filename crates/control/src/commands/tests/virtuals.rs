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
