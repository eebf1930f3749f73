//! Every record that an agent of ours sends, each field with a value of its own: what is misplaced at a collector shows.

use std::net::Ipv4Addr;

use parshall_sflow_wire::record::{
    Adapter, AppResources, AsSegment, DecapsulateEgress, DecapsulateIngress, EgressQueue,
    EthernetCounters, ExtendedAcl, ExtendedFunction, ExtendedGateway, ExtendedMpls, ExtendedNat,
    ExtendedNatPort, ExtendedVlanTunnel, HardwareTrap, HostAdapters, HostCpu, HostCpuGuest,
    HostDescr, HostDisk, HostIcmp, HostIp, HostMemory, HostNetIo, HostTcp, HostUdp, LagPort, List,
    Mac, Percent, PortStates, Processor, QueueDepth, Sfp, SfpLane, Text, TransitDelay, Uuid,
    VlanCounters, VniEgress, VniIngress,
};
use parshall_sflow_wire::{Address, CounterRecord, FlowRecord, Tag};

/// A format that nobody has.
pub const UNKNOWN_TAG: Tag = Tag::new(0xF_FFFF, 1);

const fn v4(a: u8, b: u8, c: u8, d: u8) -> Address {
    Address::V4(Ipv4Addr::new(a, b, c, d))
}

/// The access list of a discard.
pub const ACL: FlowRecord<'static> = FlowRecord::Acl(ExtendedAcl {
    number: 42,
    name: Text(b"parshall-test-acl"),
    direction: 1,
});
/// The place in the code.
pub const FUNCTION: FlowRecord<'static> = FlowRecord::Function(ExtendedFunction {
    symbol: Text(b"parshall_test_drop"),
});
/// Trap group and trap.
pub const TRAP: FlowRecord<'static> = FlowRecord::HardwareTrap(HardwareTrap {
    group: Text(b"parshall_test_group"),
    name: Text(b"parshall_test_trap"),
});

/// Records of a flow sample besides router, switch, timestamp and header.
pub const FLOW: &[FlowRecord<'static>] = &[
    FlowRecord::Gateway(ExtendedGateway {
        next_hop: v4(203, 0, 113, 2),
        router_as: 64496,
        src_as: 64497,
        src_peer_as: 64498,
        dst_as_path: List::new(&[AsSegment {
            kind: 2,
            asns: List::new(&[64499, 64500, 64501]),
        }]),
        communities: List::new(&[64496 << 16 | 100, 64496 << 16 | 200]),
        local_pref: 150,
    }),
    FlowRecord::Mpls(ExtendedMpls {
        next_hop: v4(203, 0, 113, 3),
        in_stack: List::new(&[16_001 << 12 | 0x1FF]),
        out_stack: List::new(&[16_002 << 12 | 0xFE, 16_003 << 12 | 0x1FE]),
    }),
    FlowRecord::Nat(ExtendedNat {
        src: v4(203, 0, 113, 12),
        dst: v4(203, 0, 113, 22),
    }),
    FlowRecord::NatPort(ExtendedNatPort {
        src_port: 40_000,
        dst_port: 8080,
    }),
    FlowRecord::VlanTunnel(ExtendedVlanTunnel {
        tags: List::new(&[0x88A8_0000 | 200]),
    }),
    FlowRecord::DecapsulateEgress(DecapsulateEgress {
        inner_header_offset: 50,
    }),
    FlowRecord::DecapsulateIngress(DecapsulateIngress {
        inner_header_offset: 54,
    }),
    FlowRecord::VniEgress(VniEgress { vni: 5001 }),
    FlowRecord::VniIngress(VniIngress { vni: 5002 }),
    FlowRecord::EgressQueue(EgressQueue { queue: 3 }),
    ACL,
    FUNCTION,
    FlowRecord::TransitDelay(TransitDelay { delay_ns: 12_345 }),
    FlowRecord::QueueDepth(QueueDepth { bytes: 67_890 }),
    TRAP,
];

/// Goes with the generic counters of each interface.
pub const ETHERNET: CounterRecord<'static> = CounterRecord::Ethernet(EthernetCounters {
    alignment_errors: 201,
    fcs_errors: 202,
    single_collision_frames: 203,
    multiple_collision_frames: 204,
    sqe_test_errors: 205,
    deferred_transmissions: 206,
    late_collisions: 207,
    excessive_collisions: 208,
    internal_mac_transmit_errors: 209,
    carrier_sense_errors: 210,
    frame_too_longs: 211,
    internal_mac_receive_errors: 212,
    symbol_errors: 213,
});

/// Further counters of the first interface, each a sample of its own.
pub const INTERFACE: &[CounterRecord<'static>] = &[
    CounterRecord::Vlan(VlanCounters {
        vlan_id: 100,
        octets: 301,
        ucast: 302,
        multicast: 303,
        broadcast: 304,
        discards: 305,
    }),
    CounterRecord::LagPort(LagPort {
        actor_system: Mac([2, 0, 0x5E, 0, 1, 1]),
        partner_system: Mac([2, 0, 0x5E, 0, 1, 2]),
        attached_agg_id: 1003,
        states: PortStates {
            actor_admin: 1,
            actor_oper: 2,
            partner_admin: 4,
            partner_oper: 8,
        },
        lacpdus_rx: 401,
        marker_rx: 402,
        marker_response_rx: 403,
        unknown_rx: 404,
        illegal_rx: 405,
        lacpdus_tx: 406,
        marker_tx: 407,
        marker_response_tx: 408,
    }),
    CounterRecord::Sfp(Sfp {
        module_id: 1001,
        total_lanes: 1,
        supply_voltage: 3300,
        temperature: 45_500,
        lanes: List::new(&[SfpLane {
            index: 1,
            tx_bias_current: 6500,
            tx_power: 501,
            tx_power_min: 502,
            tx_power_max: 503,
            tx_wavelength: 1310,
            rx_power: 504,
            rx_power_min: 505,
            rx_power_max: 506,
            rx_wavelength: 1311,
        }]),
    }),
    CounterRecord::Processor(Processor {
        cpu_5s: Percent(Some(1601)),
        cpu_1m: Percent(Some(1602)),
        cpu_5m: Percent(Some(1603)),
        total_memory: 604,
        free_memory: 605,
    }),
];

/// Counters of the machine, each a sample of its own.
pub const HOST: &[CounterRecord<'static>] = &[
    CounterRecord::AppResources(AppResources {
        user_ms: 701,
        system_ms: 702,
        mem_used: 703,
        mem_max: 704,
        fd_open: 705,
        fd_max: 706,
        conn_open: 707,
        conn_max: 708,
    }),
    CounterRecord::HostAdapters(HostAdapters {
        adapters: List::new(&[Adapter {
            if_index: 1001,
            macs: List::new(&[Mac([2, 0, 0x5E, 0, 0, 2])]),
        }]),
    }),
    CounterRecord::HostUdp(HostUdp {
        in_datagrams: 801,
        no_ports: 802,
        in_errors: 803,
        out_datagrams: 804,
        rcvbuf_errors: 805,
        sndbuf_errors: 806,
        in_csum_errors: 807,
    }),
    CounterRecord::HostTcp(HostTcp {
        rto_algorithm: 901,
        rto_min: 902,
        rto_max: 903,
        max_conn: 904,
        active_opens: 905,
        passive_opens: 906,
        attempt_fails: 907,
        estab_resets: 908,
        curr_estab: 909,
        in_segs: 910,
        out_segs: 911,
        retrans_segs: 912,
        in_errs: 913,
        out_rsts: 914,
        in_csum_errors: 915,
    }),
    CounterRecord::HostIcmp(HostIcmp {
        in_msgs: 1001,
        in_errors: 1002,
        in_dest_unreachs: 1003,
        in_time_excds: 1004,
        in_param_probs: 1005,
        in_src_quenchs: 1006,
        in_redirects: 1007,
        in_echos: 1008,
        in_echo_reps: 1009,
        in_timestamps: 1010,
        in_addr_masks: 1011,
        in_addr_mask_reps: 1012,
        out_msgs: 1013,
        out_errors: 1014,
        out_dest_unreachs: 1015,
        out_time_excds: 1016,
        out_param_probs: 1017,
        out_src_quenchs: 1018,
        out_redirects: 1019,
        out_echos: 1020,
        out_echo_reps: 1021,
        out_timestamps: 1022,
        out_timestamp_reps: 1023,
        out_addr_masks: 1024,
        out_addr_mask_reps: 1025,
    }),
    CounterRecord::HostIp(HostIp {
        forwarding: 1101,
        default_ttl: 1102,
        in_receives: 1103,
        in_hdr_errors: 1104,
        in_addr_errors: 1105,
        forw_datagrams: 1106,
        in_unknown_protos: 1107,
        in_discards: 1108,
        in_delivers: 1109,
        out_requests: 1110,
        out_discards: 1111,
        out_no_routes: 1112,
        reasm_timeout: 1113,
        reasm_reqds: 1114,
        reasm_oks: 1115,
        reasm_fails: 1116,
        frag_oks: 1117,
        frag_fails: 1118,
        frag_creates: 1119,
    }),
    CounterRecord::HostDisk(HostDisk {
        total: 1201,
        free: 1202,
        part_max_used: Percent(Some(2203)),
        reads: 1204,
        bytes_read: 1205,
        read_time: 1206,
        writes: 1207,
        bytes_written: 1208,
        write_time: 1209,
    }),
    CounterRecord::HostMemory(HostMemory {
        total: 1301,
        free: 1302,
        shared: 1303,
        buffers: 1304,
        cached: 1305,
        swap_total: 1306,
        swap_free: 1307,
        page_in: 1308,
        page_out: 1309,
        swap_in: 1310,
        swap_out: 1311,
    }),
    CounterRecord::HostCpu(HostCpu {
        load_one: 1.25,
        load_five: 2.25,
        load_fifteen: 3.25,
        proc_run: 1404,
        proc_total: 1405,
        cpu_num: 1406,
        cpu_speed: 1407,
        uptime: 1408,
        user: 1409,
        nice: 1410,
        system: 1411,
        idle: 1412,
        wio: 1413,
        intr: 1414,
        sintr: 1415,
        interrupts: 1416,
        contexts: 1417,
        guest: Some(HostCpuGuest {
            steal: 1421,
            guest: 1422,
            guest_nice: 1423,
        }),
    }),
    CounterRecord::HostNetIo(HostNetIo {
        bytes_in: 1501,
        pkts_in: 1502,
        errs_in: 1503,
        drops_in: 1504,
        bytes_out: 1505,
        pkts_out: 1506,
        errs_out: 1507,
        drops_out: 1508,
    }),
    CounterRecord::HostDescr(HostDescr {
        hostname: Text(b"parshall-test"),
        uuid: Uuid(*b"parshall-test-01"),
        machine_type: 3,
        os_name: 2,
        os_release: Text(b"6.1.0-test"),
    }),
];
