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
