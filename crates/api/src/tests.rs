//! The server on a real socket with a real router: good clients, bad ones, and both at once.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parshall_control::run::{Wakeup, run};
use parshall_control::{EngineConfig, Router};
use parshall_vpp_wire::msg::*;
use parshall_vpp_wire::{Frames, Lead, Message, frame};

use crate::{ApiConfig, ApiServer};

struct World {
    server: ApiServer,
    router: Option<JoinHandle<()>>,
    asker: parshall_control::Asker,
    dir: tempfile::TempDir,
}

impl World {
    fn new(change: impl FnOnce(&mut ApiConfig)) -> World {
        let dir = tempfile::tempdir().expect("a folder");
        let mut wakeup = Wakeup::without_signals().expect("descriptors");
        let asker = wakeup.asker();
        let router = std::thread::spawn(move || {
            let config = EngineConfig {
                buffers: 2048,
                interfaces: 16,
                ..EngineConfig::default()
            };
            let mut router = Router::new(config).expect("a router");
            let (_send, requests) = channel();
            run(&mut router, &requests, &mut wakeup);
        });
        let mut config = ApiConfig::new(dir.path().join("api.sock"), None);
        change(&mut config);
        let server = ApiServer::start(config, asker.clone()).expect("listening");
        World {
            server,
            router: Some(router),
            asker,
            dir,
        }
    }

    fn raw(&self) -> UnixStream {
        let stream = UnixStream::connect(self.dir.path().join("api.sock")).expect("connected");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("set");
        stream
    }

    fn client(&self) -> Client {
        let mut c = Client {
            stream: self.raw(),
            frames: Frames::new(1 << 24),
            context: 0,
            index: 0,
        };
        let hello = SockclntCreate {
            context: 1,
            name: "test".into(),
        };
        c.put(&hello.encode(Lead::default()));
        let reply: SockclntCreateReply = c.next().1;
        assert_eq!((reply.response, reply.context), (0, 1));
        c.index = reply.index;
        c
    }

    fn until_clients(&self, n: usize) {
        let end = Instant::now() + Duration::from_secs(20);
        while self.server.clients() != n {
            assert!(Instant::now() < end, "{} clients", self.server.clients());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.stop();
        self.asker.ask(|r| r.run_line("shutdown", false).is_ok());
        if let Some(router) = self.router.take() {
            let _ = router.join();
        }
    }
}

struct Client {
    stream: UnixStream,
    frames: Frames,
    context: u32,
    index: u32,
}

impl Client {
    fn put(&mut self, message: &[u8]) {
        self.stream.write_all(&frame(message)).expect("sent");
    }
    fn send<M: Message>(&mut self, message: &M) -> u32 {
        self.context += 1;
        let lead = Lead {
            client_index: self.index,
            context: self.context,
        };
        self.put(&message.encode(lead));
        self.context
    }
    fn bytes(&mut self) -> Vec<u8> {
        let mut piece = [0; 4096];
        loop {
            if let Some(m) = self.frames.next_message().expect("a frame") {
                return m.to_vec();
            }
            let n = self.stream.read(&mut piece).expect("an answer in time");
            assert_ne!(n, 0, "the server hung up");
            self.frames.push(&piece[..n]);
        }
    }
    fn next<M: Message>(&mut self) -> (Lead, M) {
        let bytes = self.bytes();
        let id = u16::from_be_bytes([bytes[0], bytes[1]]);
        assert_eq!(id, M::ID, "another message came");
        M::decode(&bytes).expect("decoded")
    }
    fn ask<M: Message, R: Message>(&mut self, message: &M) -> R {
        let context = self.send(message);
        let (lead, reply) = self.next();
        assert_eq!(lead.context, context);
        reply
    }
    /// A dump, ended by a ping as VPP's clients do it.
    fn dump<M: Message, D: Message>(&mut self, message: &M) -> Vec<D> {
        let context = self.send(message);
        let ping = self.send(&ControlPing::default());
        let mut out = Vec::new();
        loop {
            let bytes = self.bytes();
            if u16::from_be_bytes([bytes[0], bytes[1]]) == ControlPingReply::ID {
                let (lead, _) = ControlPingReply::decode(&bytes).expect("decoded");
                assert_eq!(lead.context, ping);
                return out;
            }
            let (lead, details) = D::decode(&bytes).expect("decoded");
            assert_eq!(lead.context, context);
            out.push(details);
        }
    }
    fn cli(&mut self, text: &str) -> (i32, String) {
        let reply: CliInbandReply = self.ask(&CliInband { cmd: text.into() });
        (reply.retval, reply.reply)
    }
}

fn all() -> SwInterfaceDump {
    SwInterfaceDump {
        sw_if_index: u32::MAX,
        ..SwInterfaceDump::default()
    }
}

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
        (3, true, -2),
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

fn net(ip: &str, len: u8) -> Prefix {
    Prefix::new(ip.parse().expect("an address"), len)
}

fn via(ip: &str, sw_if_index: u32) -> FibPath {
    let ip: std::net::IpAddr = ip.parse().expect("an address");
    FibPath {
        sw_if_index,
        weight: 1,
        proto: if ip.is_ipv4() {
            FibPathNhProto::FIB_API_PATH_NH_PROTO_IP4
        } else {
            FibPathNhProto::FIB_API_PATH_NH_PROTO_IP6
        },
        nh: FibPathNh {
            address: AddressUnion::new(ip),
            ..FibPathNh::default()
        },
        ..FibPath::default()
    }
}

#[test]
fn routes_come_back_as_they_were_put_in() {
    let world = World::new(|_| ());
    let mut c = world.client();
    let _: PgCreateInterfaceV3Reply = c.ask(&PgCreateInterfaceV3::default());
    let address = SwInterfaceAddDelAddress {
        sw_if_index: 1,
        is_add: true,
        del_all: false,
        prefix: net("10.0.0.1", 24),
    };
    let reply: SwInterfaceAddDelAddressReply = c.ask(&address);
    assert_eq!(reply.retval, 0);
    let told: Vec<IpAddressDetails> = c.dump(&IpAddressDump {
        sw_if_index: 1,
        is_ipv6: false,
    });
    assert_eq!(told[0].prefix, address.prefix);
    let change = |is_add, is_multipath, paths: Vec<FibPath>| IpRouteAddDel {
        is_add,
        is_multipath,
        route: IpRoute {
            prefix: net("192.0.2.0", 24),
            paths,
            ..IpRoute::default()
        },
    };
    let labelled = FibPath {
        n_labels: 1,
        label_stack: std::array::from_fn(|_| FibMplsLabel {
            label: 77,
            is_uniform: 1,
            ..FibMplsLabel::default()
        }),
        ..via("10.0.0.3", 1)
    };
    let find = |c: &mut Client| -> Option<IpRoute> {
        let table = IpTable::default();
        let all: Vec<IpRouteDetails> = c.dump(&IpRouteDump { table });
        all.into_iter()
            .map(|d| d.route)
            .find(|r| r.prefix == net("192.0.2.0", 24))
    };
    for (m, hops) in [
        (change(true, false, vec![via("10.0.0.2", 1)]), 1),
        (change(true, true, vec![labelled]), 2),
        (change(false, true, vec![via("10.0.0.2", 1)]), 1),
    ] {
        let reply: IpRouteAddDelReply = c.ask(&m);
        assert_eq!(reply.retval, 0);
        assert_eq!(find(&mut c).expect("there").paths.len(), hops);
    }
    let left = &find(&mut c).expect("there").paths[0];
    assert_eq!(
        (
            left.n_labels,
            left.label_stack[0].label,
            left.nh.address.ip4().octets()
        ),
        (1, 77, [10, 0, 0, 3])
    );
    let reply: IpRouteAddDelReply = c.ask(&change(false, false, vec![]));
    assert_eq!((reply.retval, find(&mut c)), (0, None));
    // Gone already, which is no mistake; an interface and a table that are not there are.
    let reply: IpRouteAddDelReply = c.ask(&change(false, false, vec![]));
    assert_eq!(reply.retval, 0);
    let reply: IpRouteAddDelReply = c.ask(&change(true, false, vec![via("10.0.0.2", 9)]));
    assert_eq!(reply.retval, -2);
    let mut elsewhere = change(true, false, vec![via("10.0.0.2", 1)]);
    elsewhere.route.table_id = 7;
    let reply: IpRouteAddDelReply = c.ask(&elsewhere);
    assert_eq!(reply.retval, -3);
    let table = IpTable {
        table_id: 7,
        ..IpTable::default()
    };
    let reply: IpTableAddDelV2Reply = c.ask(&IpTableAddDelV2 {
        table: table.clone(),
        is_add: true,
        create_mfib: true,
    });
    assert_eq!(reply.retval, 0);
    let reply: IpRouteAddDelReply = c.ask(&elsewhere);
    assert_eq!(reply.retval, 0);
    // What was put into a table goes with it.
    let reply: IpTableAddDelV2Reply = c.ask(&IpTableAddDelV2 {
        table,
        is_add: false,
        create_mfib: true,
    });
    assert_eq!(reply.retval, 0);
}

#[test]
fn a_dump_of_several_pages_is_whole() {
    let world = World::new(|_| ());
    let mut c = world.client();
    let _: PgCreateInterfaceV3Reply = c.ask(&PgCreateInterfaceV3::default());
    let mut lines = String::from("set interface ip address pg0 10.0.0.1/24\n");
    for n in 0..9000 {
        lines.push_str(&format!(
            "ip route add 20.0.{}.{}/32 via 10.0.0.2 pg0\n",
            n / 256,
            n % 256
        ));
    }
    let (said, _) = c.cli(&lines);
    assert_eq!(said, 0);
    let all: Vec<IpRouteDetails> = c.dump(&IpRouteDump::default());
    let ours = all
        .iter()
        .filter(|d| d.route.prefix.address.un.0[0] == 20)
        .count();
    assert_eq!(ours, 9000);
    let mut seen = std::collections::HashSet::new();
    assert!(
        all.iter()
            .all(|d| seen.insert(format!("{:?}", d.route.prefix)))
    );
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

#[test]
fn events_tell_of_state_and_deletion() {
    let world = World::new(|_| ());
    let (mut watcher, mut c) = (world.client(), world.client());
    let _: CreateLoopbackReply = c.ask(&CreateLoopback::default());
    let wanted: WantInterfaceEventsReply = watcher.ask(&WantInterfaceEvents {
        enable_disable: 1,
        pid: 1,
    });
    assert_eq!(wanted.retval, 0);
    // Until the router was looked at once there is nothing to compare with: so it is changed until it is told of.
    let mut up = false;
    watcher
        .stream
        .set_read_timeout(Some(Duration::from_millis(300)))
        .expect("set");
    let event = loop {
        up = !up;
        let flags = IfStatusFlags(u32::from(up));
        let _: SwInterfaceSetFlagsReply = c.ask(&SwInterfaceSetFlags {
            sw_if_index: 1,
            flags,
        });
        let mut piece = [0; 4096];
        if let Ok(n) = watcher.stream.read(&mut piece) {
            watcher.frames.push(&piece[..n]);
            break watcher.next::<SwInterfaceEvent>().1;
        }
    };
    assert_eq!((event.sw_if_index, event.deleted), (1, false));
    watcher
        .stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("set");
    let _: DeleteLoopbackReply = c.ask(&DeleteLoopback { sw_if_index: 1 });
    while !watcher.next::<SwInterfaceEvent>().1.deleted {}
    // Others are told nothing.
    let _: ControlPingReply = c.ask(&ControlPing::default());
}

#[test]
fn what_is_not_there_is_refused_and_the_connection_goes_on() {
    let world = World::new(|_| ());
    let mut c = world.client();
    let reply: LcpItfPairAddDelV3Reply = c.ask(&LcpItfPairAddDelV3::default());
    assert_eq!(reply.retval, -9);
    let reply: LcpItfPairGetReply = c.ask(&LcpItfPairGet::default());
    assert_eq!((reply.retval, reply.cursor), (0, u32::MAX));
    let reply: SockInitShmReply = c.ask(&SockInitShm::default());
    assert_eq!(reply.retval, -9);
    // Unknown, no request, half a message, an empty one: no answer, as in VPP.
    for bad in [
        &[0xff, 0xff, 0, 0][..],
        &[0, 24, 0, 0, 0, 0, 0, 0],
        &[0, 23, 0],
        &[0],
        &[],
    ] {
        c.put(bad);
    }
    let reply: ControlPingReply = c.ask(&ControlPing::default());
    assert_eq!(
        (reply.retval, reply.vpe_pid, reply.client_index),
        (0, std::process::id(), c.index)
    );
    let reply: SockclntDeleteReply = c.ask(&SockclntDelete { index: 5 });
    assert_eq!(reply.response, -1);
    let index = c.index;
    let reply: SockclntDeleteReply = c.ask(&SockclntDelete { index });
    assert_eq!(reply.response, 1);
    assert_eq!(c.stream.read(&mut [0; 16]).expect("hung up"), 0);
    world.until_clients(0);
}

#[test]
fn clients_that_break_the_stream_or_say_nothing_are_sent_away() {
    let world = World::new(|c| c.handshake_timeout = Duration::from_millis(200));
    let mut long = world.raw();
    long.write_all(&[0xff; 16]).expect("sent");
    assert_eq!(long.read(&mut [0; 16]).expect("hung up"), 0);
    let mut silent = world.raw();
    assert_eq!(silent.read(&mut [0; 16]).expect("hung up"), 0);
    let mut half = world.raw();
    half.write_all(&[0; 9]).expect("sent");
    assert_eq!(half.read(&mut [0; 16]).expect("hung up"), 0);
    // One that has introduced itself may be silent.
    let mut c = world.client();
    std::thread::sleep(Duration::from_millis(400));
    let _: ControlPingReply = c.ask(&ControlPing::default());
}

#[test]
fn a_client_that_does_not_read_is_sent_away_and_others_do_not_wait_for_it() {
    let world = World::new(|c| c.write_timeout = Duration::from_millis(200));
    let mut deaf = world.client();
    let mut good = world.client();
    // Answers of a quarter of a megabyte each, until it is hung up on.
    let ask = frame(&GetApiJson::default().encode(Lead {
        client_index: 0,
        context: 1,
    }));
    let mut sent = 0;
    while sent < 1_000_000 && deaf.stream.write_all(&ask).is_ok() {
        sent += 1;
        if sent % 100 == 0 {
            let _: ControlPingReply = good.ask(&ControlPing::default());
        }
    }
    world.until_clients(1);
    let _: ControlPingReply = good.ask(&ControlPing::default());
}

#[test]
fn a_flood_of_bad_clients_does_not_shut_out_a_good_one() {
    let world = World::new(|c| c.max_clients = 64);
    let mut good = world.client();
    let floods: Vec<_> = (0..32)
        .map(|n| {
            let mut c = world.client();
            let mut reader = c.stream.try_clone().expect("cloned");
            std::thread::spawn(move || drop(std::io::copy(&mut reader, &mut std::io::sink())));
            std::thread::spawn(move || {
                let dump = frame(&all().encode(Lead {
                    client_index: 0,
                    context: 1,
                }));
                let bad = frame(&[0xff, n, 1, 2, 3]);
                for _ in 0..300 {
                    if c.stream
                        .write_all(&dump)
                        .and_then(|()| c.stream.write_all(&bad))
                        .is_err()
                    {
                        break;
                    }
                }
                // Its reader holds the connection too.
                let _ = c.stream.shutdown(std::net::Shutdown::Both);
            })
        })
        .collect();
    for _ in 0..50 {
        let made: CreateLoopbackReply = good.ask(&CreateLoopback::default());
        assert_eq!(made.retval, 0);
        let gone: DeleteLoopbackReply = good.ask(&DeleteLoopback {
            sw_if_index: made.sw_if_index,
        });
        assert_eq!(gone.retval, 0);
    }
    for f in floods {
        f.join().expect("ended");
    }
    drop(good);
    world.until_clients(0);
    // More than there may be: the next one is hung up on, and those there are served.
    let mut all: Vec<Client> = (0..64).map(|_| world.client()).collect();
    let mut late = world.raw();
    assert_eq!(late.read(&mut [0; 16]).expect("hung up"), 0);
    let _: ControlPingReply = all[63].ask(&ControlPing::default());
}

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
    assert_eq!((in_use.retval, missing.retval), (-1, -6));
    let wrong: AclAddReplaceReply = c.ask(&AclAddReplace {
        acl_index: 7,
        ..list
    });
    assert_eq!((wrong.retval, wrong.acl_index), (-6, u32::MAX));
}

#[test]
fn the_socket_is_gone_with_the_server() {
    let mut world = World::new(|_| ());
    let mut c = world.client();
    let path = world.dir.path().join("api.sock");
    world.server.stop();
    assert!(!path.exists());
    assert_eq!(c.stream.read(&mut [0; 16]).expect("hung up"), 0);
}
