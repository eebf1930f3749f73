//! Interfaces: made, told of, deleted; sFlow on them; command lines.

use super::*;

#[test]
fn interfaces_are_made_told_of_and_deleted() {
    let world = World::new(|_| ());
    let mut c = world.client();
    let names = |c: &mut Client| -> Vec<String> {
        let all: Vec<SwInterfaceDetails> = c.dump(&all());
        all.into_iter().map(|d| d.interface_name).collect()
    };
    assert_eq!(names(&mut c), ["local0"]);
    let made: PgCreateInterfaceV3Reply = c.ask(&PgCreateInterfaceV3::default());
    assert_eq!((made.retval, made.sw_if_index), (0, 1));
    let again: PgCreateInterfaceV3Reply = c.ask(&PgCreateInterfaceV3::default());
    assert_eq!(again, made);
    let made: CreateLoopbackReply = c.ask(&CreateLoopback::default());
    assert_eq!(made.sw_if_index, 2);
    let sub: CreateVlanSubifReply = c.ask(&CreateVlanSubif {
        sw_if_index: 1,
        vlan_id: 100,
    });
    assert_eq!((sub.retval, sub.sw_if_index), (0, 3));
    let sub: CreateVlanSubifReply = c.ask(&CreateVlanSubif {
        sw_if_index: 1,
        vlan_id: 100,
    });
    assert_eq!(sub.retval, -56);
    assert_eq!(names(&mut c), ["local0", "pg0", "loop0", "pg0.100"]);
    let one: Vec<SwInterfaceDetails> = c.dump(&SwInterfaceDump {
        sw_if_index: 3,
        ..SwInterfaceDump::default()
    });
    let d = &one[0];
    assert_eq!(
        (
            d.sup_sw_if_index,
            d.sub_id,
            d.sub_number_of_tags,
            d.sub_outer_vlan_id
        ),
        (1, 100, 1, 100)
    );
    assert_eq!(
        (d.type_, d.interface_dev_type.as_str()),
        (IfType::IF_API_TYPE_SUB, "pg")
    );
    let up = SwInterfaceSetFlags {
        sw_if_index: 1,
        flags: IfStatusFlags::IF_STATUS_API_FLAG_ADMIN_UP,
    };
    let reply: SwInterfaceSetFlagsReply = c.ask(&up);
    assert_eq!(reply.retval, 0);
    let filter = SwInterfaceDump {
        name_filter_valid: true,
        name_filter: "PG0".into(),
        ..all()
    };
    let told: Vec<SwInterfaceDetails> = c.dump(&filter);
    assert_eq!((told.len(), told[0].flags), (2, IfStatusFlags(3)));
    let gone: SwInterfaceSetFlagsReply = c.ask(&SwInterfaceSetFlags {
        sw_if_index: 99,
        ..up
    });
    assert_eq!(gone.retval, -2);
    let reply: PgDeleteInterfaceReply = c.ask(&PgDeleteInterface { sw_if_index: 1 });
    assert_eq!(reply.retval, 0);
    assert_eq!(names(&mut c), ["local0", "loop0"]);
}

#[test]
fn sflow_is_set_as_in_vpp() {
    let world = World::new(|_| ());
    let mut c = world.client();
    for interface_id in [0, 1] {
        let _: PgCreateInterfaceV3Reply = c.ask(&PgCreateInterfaceV3 {
            interface_id,
            ..PgCreateInterfaceV3::default()
        });
    }
    let _: CreateVlanSubifReply = c.ask(&CreateVlanSubif {
        sw_if_index: 1,
        vlan_id: 7,
    });
    let rate: SflowSamplingRateGetReply = c.ask(&SflowSamplingRateGet::default());
    let poll: SflowPollingIntervalGetReply = c.ask(&SflowPollingIntervalGet::default());
    let header: SflowHeaderBytesGetReply = c.ask(&SflowHeaderBytesGet::default());
    assert_eq!(
        (rate.sampling_n, poll.polling_s, header.header_b),
        (10_000, 20, 128)
    );
    for (hw_if_index, enable_disable, expected) in [
        (1, true, 0),
        (2, true, 0),
        (1, true, -81),
        (3, true, 0),
        (3, false, 0),
        (9, true, -2),
        (0, true, -2),
        (2, false, 0),
        (2, false, -81),
    ] {
        let reply: SflowEnableDisableReply = c.ask(&SflowEnableDisable {
            enable_disable,
            hw_if_index,
        });
        assert_eq!(reply.retval, expected, "{hw_if_index} {enable_disable}");
    }
    let on: Vec<SflowInterfaceDetails> = c.dump(&SflowInterfaceDump {
        hw_if_index: u32::MAX,
    });
    assert_eq!(on, [SflowInterfaceDetails { hw_if_index: 1 }]);
    let on: Vec<SflowInterfaceDetails> = c.dump(&SflowInterfaceDump { hw_if_index: 1234 });
    assert_eq!(on, []);
    for (set, told) in [(100, 100), (0, 0), (u32::MAX, 1 << 30)] {
        let reply: SflowSamplingRateSetReply = c.ask(&SflowSamplingRateSet { sampling_n: set });
        let rate: SflowSamplingRateGetReply = c.ask(&SflowSamplingRateGet::default());
        assert_eq!((reply.retval, rate.sampling_n), (0, told));
    }
    let reply: SflowHeaderBytesSetReply = c.ask(&SflowHeaderBytesSet { header_b: 65 });
    let header: SflowHeaderBytesGetReply = c.ask(&SflowHeaderBytesGet::default());
    assert_eq!((reply.retval, header.header_b), (0, 96));
    for (set, told) in [(2, 2), (3, 3), (9, 3), (1, 1)] {
        let reply: SflowDirectionSetReply = c.ask(&SflowDirectionSet { sampling_d: set });
        let d: SflowDirectionGetReply = c.ask(&SflowDirectionGet::default());
        assert_eq!((reply.retval, d.sampling_d), (0, told));
    }
    let reply: SflowDropMonitoringSetReply = c.ask(&SflowDropMonitoringSet { drop_m: 1 });
    let d: SflowDropMonitoringGetReply = c.ask(&SflowDropMonitoringGet::default());
    assert_eq!((reply.retval, d.drop_m), (0, 1));
}

#[test]
fn command_lines_answer_with_text_and_a_return_value() {
    let world = World::new(|_| ());
    let mut c = world.client();
    assert_eq!(c.cli("create loopback interface"), (0, "loop0\n".into()));
    assert_eq!(
        c.cli("  set int state loop0 up \n\ncomment { whatever }\n"),
        (0, String::new())
    );
    let (retval, why) = c.cli("create loopback interface\nset interface state loop9 up\n");
    assert!(
        retval < 0 && why.starts_with("loop1\n") && why.contains("did you mean"),
        "{why}"
    );
    assert!(c.cli("no such command").0 < 0);
}
