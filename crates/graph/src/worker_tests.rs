//! Tests of a real worker thread with queues made for the purpose.

use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parshall_buffer::{BufferIndex, FRAME_SIZE, Frame, Meta, Pool};
use parshall_device::{RxBurst, RxQueue, TxBurst, TxQueue};
use parshall_rcu::Domain;

use super::*;
use crate::{
    ArcEnd, ArcSpec, CONTINUE, Ctx, Dispatch, Graph, Limits, NamedNode, Node, NodeSpec, Side,
};

/// Receives datagrams of a socket.
struct Socket(UnixDatagram);
impl RxQueue for Socket {
    fn poll(&mut self, pool: &mut Pool, frame: &mut Frame, _now: u64) -> RxBurst {
        let mut bytes = 0;
        let mut one = [0; 2048];
        while frame.len() < FRAME_SIZE {
            let Ok(n) = self.0.recv(&mut one) else { break };
            frame.push(pool.packet_from(&one[..n], 1).unwrap());
            bytes += n as u64;
        }
        RxBurst {
            bytes,
            ..RxBurst::default()
        }
    }
    fn fd(&self) -> Option<RawFd> {
        Some(self.0.as_raw_fd())
    }
}

/// Counts what is sent.
struct Count(Arc<AtomicU64>);
impl TxQueue for Count {
    fn transmit(&mut self, pool: &mut Pool, packets: &[BufferIndex], _now: u64) -> TxBurst {
        self.0.fetch_add(packets.len() as u64, Ordering::Relaxed);
        pool.free_bulk(packets);
        TxBurst::all(packets.len())
    }
}

/// Sends everything to interface 2; keeps the number it is told in a message.
struct Out(Arc<AtomicU64>);
impl Node for Out {
    fn process(&mut self, cx: &mut Ctx<'_>, frame: &mut Frame) -> Dispatch {
        for &b in frame.packets() {
            let m: &mut Meta = cx.pool.meta_mut(b);
            m.tx_if = 2;
        }
        frame.tx_if = 2;
        Dispatch::All(CONTINUE)
    }
    fn message(&mut self, _cx: &mut Ctx<'_>, message: &mut (dyn Any + Send)) {
        if let Some(n) = message.downcast_ref::<u64>() {
            self.0.store(*n, Ordering::Relaxed);
        }
    }
}

struct Rig {
    worker: WorkerHandle,
    graph: Arc<Graph>,
    told: Arc<AtomicU64>,
}

fn rig() -> Rig {
    let specs = [
        NodeSpec::input("test-input"),
        NodeSpec::new("out", &[]).starting("interface-output"),
    ];
    let arcs = [
        ArcSpec {
            name: "device-input",
            side: Side::Rx,
            end: ArcEnd::Node("out"),
        },
        ArcSpec {
            name: "interface-output",
            side: Side::Tx,
            end: ArcEnd::Transmit,
        },
    ];
    let graph = Arc::new(Graph::build(&specs, &arcs, Limits { interfaces: 4 }).unwrap());
    let told = Arc::new(AtomicU64::new(0));
    let counters = Arc::new(WorkerCounters::new(4, graph.slots()));
    let reader = Domain::new().register().unwrap();
    let nodes: Vec<NamedNode> = vec![("out", Box::new(Out(told.clone())))];
    let config = WorkerConfig {
        index: 0,
        cpu: None,
        busy_poll: false,
    };
    let built = graph.clone();
    let build = move || {
        let pool = Pool::new(1024).unwrap();
        let (dispatcher, trace) = Dispatcher::new(built, nodes, pool, counters, reader).unwrap();
        Ok(Built {
            dispatcher,
            trace,
            rest: (),
        })
    };
    Rig {
        worker: spawn(config, build).unwrap().0,
        graph,
        told,
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn packets_wake_a_sleeping_worker_and_everything_comes_back() {
    let mut r = rig();
    let (send, receive) = UnixDatagram::pair().unwrap();
    receive.set_nonblocking(true).unwrap();
    let sent = Arc::new(AtomicU64::new(0));
    let node = r.graph.node("test-input").unwrap();
    r.worker.tell(WorkerCommand::AddTx {
        if_index: 2,
        queue: Box::new(Count(sent.clone())),
        up: true,
        max_frame: 1514,
    });
    r.worker.tell(WorkerCommand::AddRx {
        node,
        if_index: 1,
        queue_id: 0,
        queue: Box::new(Socket(receive)),
        up: true,
        mode: RxMode::Adaptive,
    });
    let counters = r.worker.counters.clone();
    until("sleep", || counters.sleeps.get() > 0);
    for _ in 0..100 {
        send.send(&[7; 64]).unwrap();
    }
    until("transmission", || sent.load(Ordering::Relaxed) == 100);
    assert_eq!(counters.interfaces[1].rx_bytes.get(), 6400);
    r.worker.tell(WorkerCommand::Inject {
        node: r.graph.node("out").unwrap(),
        tx_if: 2,
        bytes: vec![1; 60],
    });
    until("injection", || sent.load(Ordering::Relaxed) == 101);
    r.worker
        .tell(WorkerCommand::RemoveInterface { if_index: 1 });
    r.worker
        .tell(WorkerCommand::RemoveInterface { if_index: 2 });
    // Both queues and the injected bytes.
    let mut back = 0;
    until("garbage", || {
        back += r.worker.collect_garbage();
        back == 3
    });
    r.worker.stop();
    assert!(!r.worker.is_alive());
}

#[test]
fn messages_reach_the_node_and_an_idle_worker_hardly_turns() {
    let mut r = rig();
    let node = r.graph.node("out").unwrap();
    r.worker.tell(WorkerCommand::Message {
        node,
        message: Box::new(42u64),
    });
    until("message", || r.told.load(Ordering::Relaxed) == 42);
    let counters = r.worker.counters.clone();
    until("sleep", || counters.sleeps.get() > 0);
    let before = counters.loops.get();
    std::thread::sleep(Duration::from_millis(500));
    // Asleep it turns a few times each 200 ms; awake it would turn a million times.
    assert!(
        counters.loops.get() - before < 1000,
        "{} turns",
        counters.loops.get() - before
    );
}
