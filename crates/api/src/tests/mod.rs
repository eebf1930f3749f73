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

mod access_lists;
mod connections;
mod interfaces;
mod layer2;
mod refusals;
mod routes;
mod tunnels;

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
