//! Access lists.

use super::*;

#[test]
fn access_lists_come_back_as_they_were_put_in() {
    let world = World::new(|_| ());
    let mut c = world.client();
    let _: PgCreateInterfaceV3Reply = c.ask(&PgCreateInterfaceV3::default());
    let rule = AclRule {
        is_permit: AclAction::ACL_ACTION_API_PERMIT,
        src_prefix: net("10.0.0.0", 8),
        dst_prefix: net("0.0.0.0", 0),
        proto: IpProto::IP_API_PROTO_TCP,
        srcport_or_icmptype_last: 65535,
        dstport_or_icmpcode_first: 80,
        dstport_or_icmpcode_last: 443,
        ..AclRule::default()
    };
    let list = AclAddReplace {
        acl_index: u32::MAX,
        tag: "web".into(),
        r: vec![rule; 2],
    };
    let made: AclAddReplaceReply = c.ask(&list);
    assert_eq!((made.retval, made.acl_index), (0, 0));
    let told: Vec<AclDetails> = c.dump(&AclDump {
        acl_index: u32::MAX,
    });
    assert_eq!(
        (told.len(), &told[0].tag, &told[0].r),
        (1, &list.tag, &list.r)
    );
    let set = AclInterfaceSetAclList {
        sw_if_index: 1,
        n_input: 1,
        acls: vec![0, 0],
    };
    let reply: AclInterfaceSetAclListReply = c.ask(&set);
    assert_eq!(reply.retval, 0);
    let on: Vec<AclInterfaceListDetails> = c.dump(&AclInterfaceListDump { sw_if_index: 1 });
    assert_eq!((on[0].n_input, &on[0].acls), (1, &set.acls));
    let in_use: AclDelReply = c.ask(&AclDel { acl_index: 0 });
    let missing: AclDelReply = c.ask(&AclDel { acl_index: 7 });
    assert_eq!((in_use.retval, missing.retval), (-142, -6));
    let wrong: AclAddReplaceReply = c.ask(&AclAddReplace {
        acl_index: 7,
        ..list
    });
    assert_eq!((wrong.retval, wrong.acl_index), (-6, u32::MAX));
}

#[test]
fn mac_ip_lists_are_one_an_interface_and_leave_with_it() {
    let world = World::new(|_| ());
    let mut c = world.client();
    let _: PgCreateInterfaceV3Reply = c.ask(&PgCreateInterfaceV3::default());
    let rule = MacipAclRule {
        is_permit: AclAction::ACL_ACTION_API_PERMIT,
        src_mac: [2, 0, 0, 0, 0, 1],
        src_mac_mask: [0xFF; 6],
        src_prefix: net("2001:db8::", 32),
    };
    let list = MacipAclAddReplace {
        acl_index: u32::MAX,
        tag: "stations".into(),
        r: vec![rule; 2],
    };
    let made: MacipAclAddReplaceReply = c.ask(&list);
    assert_eq!((made.retval, made.acl_index), (0, 0));
    let wrong: MacipAclAddReplaceReply = c.ask(&MacipAclAddReplace {
        acl_index: 7,
        ..list.clone()
    });
    assert_eq!((wrong.retval, wrong.acl_index), (-6, u32::MAX));
    let told: Vec<MacipAclDetails> = c.dump(&MacipAclDump { acl_index: 0 });
    assert_eq!(
        (told.len(), &told[0].tag, &told[0].r),
        (1, &list.tag, &list.r)
    );
    let mut put = |is_add, sw_if_index, acl_index| -> i32 {
        let m = MacipAclInterfaceAddDel {
            is_add,
            sw_if_index,
            acl_index,
        };
        c.ask::<_, MacipAclInterfaceAddDelReply>(&m).retval
    };
    assert_eq!(
        (put(true, 1, 7), put(true, 9, 0), put(false, 1, 0)),
        (-6, -2, -6)
    );
    assert_eq!(
        (put(true, 1, 0), put(false, 1, 0), put(true, 1, 0)),
        (0, 0, 0)
    );
    let held: MacipAclInterfaceGetReply = c.ask(&MacipAclInterfaceGet::default());
    assert_eq!(held.acls, [u32::MAX, 0]);
    let lists = MacipAclInterfaceListDump {
        sw_if_index: u32::MAX,
    };
    let held: Vec<MacipAclInterfaceListDetails> = c.dump(&lists);
    assert_eq!((held.len(), &held[0].acls), (1, &vec![0]));
    assert!(
        c.cli("show acl-plugin macip acl")
            .1
            .contains("2001:db8::/32")
    );
    assert!(c.cli("show acl-plugin macip interface").1.contains("pg0"));
    let gone: PgDeleteInterfaceReply = c.ask(&PgDeleteInterface { sw_if_index: 1 });
    assert_eq!(gone.retval, 0);
    let held: Vec<MacipAclInterfaceListDetails> = c.dump(&lists);
    assert!(held.is_empty());
    for retval in [0, -6] {
        let gone: MacipAclDelReply = c.ask(&MacipAclDel { acl_index: 0 });
        assert_eq!(gone.retval, retval);
    }
}
