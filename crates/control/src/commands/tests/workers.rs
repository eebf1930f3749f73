//! Several workers: each packet once, in order, counted exactly, wherever its queue is polled. There are more
//! workers than CPUs here, which must change nothing but the time it takes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use parshall_buffer::{BufferIndex, Frame, Pool};
use parshall_counters::DropReason;
use parshall_device::{
    Device, DeviceError, DeviceInfo, Duplex, Queues, RxBurst, RxQueue, TxBurst, TxQueue,
};

use super::*;
use crate::drivers::{DeviceSpec, Factory, MadeDevice};

fn config(workers: usize) -> EngineConfig {
    EngineConfig {
        workers,
        share_cpus: true,
        buffers: 4096,
        interfaces: 16,
        ..EngineConfig::default()
    }
}

/// What a line has carried: queue and sequence number of each frame, as they went out.
type Line = Arc<Mutex<Vec<(u8, u32)>>>;

/// Receives frames numbered from 0 on, so many in all; knows no descriptor.
struct Numbered {
    queue: u8,
    next: u32,
    all: u32,
    if_index: u32,
    /// So many of them have arrived by now.
    arrived: Arc<AtomicU32>,
}

impl Numbered {
    fn waits(&self) -> bool {
        self.next < self.all.min(self.arrived.load(Ordering::Relaxed))
    }
}

impl RxQueue for Numbered {
    fn poll(&mut self, pool: &mut Pool, frame: &mut Frame, _now: u64) -> RxBurst {
        let mut burst = RxBurst::default();
        for _ in 0..20 {
            if !self.waits() {
                break;
            }
            let mut bytes = [0; 60];
            bytes[..6].copy_from_slice(&[2, 0xfe, 0, 0, 0, 1]);
            bytes[12..15].copy_from_slice(&[0x88, 0xb5, self.queue]);
            bytes[15..19].copy_from_slice(&self.next.to_be_bytes());
            let Some(b) = pool.packet_from(&bytes, self.if_index) else {
                break;
            };
            frame.push(b);
            burst.bytes += 60;
            self.next += 1;
        }
        burst
    }
    fn due(&self, now: u64) -> Option<u64> {
        self.waits().then_some(now)
    }
}

/// Writes down what it sends.
struct Writer(Line);
impl TxQueue for Writer {
    fn transmit(&mut self, pool: &mut Pool, packets: &[BufferIndex], _now: u64) -> TxBurst {
        let mut line = self.0.lock().unwrap();
        for &b in packets {
            let bytes = pool.to_vec(b);
            let number = u32::from_be_bytes([bytes[15], bytes[16], bytes[17], bytes[18]]);
            line.push((bytes[14], number));
        }
        pool.free_bulk(packets);
        TxBurst::all(packets.len())
    }
}

/// A device of so many receive and transmit queues.
struct Counting {
    rx: u8,
    tx: usize,
    all: u32,
    line: Line,
    arrived: Arc<AtomicU32>,
}

impl Device for Counting {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            kind: "counting",
            mac: [2, 0xfe, 0, 0, 0, 1],
            max_frame: 1514,
            speed: 0,
            duplex: Duplex::Full,
            link_up: true,
            os_index: None,
            rx_queues: usize::from(self.rx),
            tx_queues: self.tx,
            detail: String::new(),
        }
    }
    fn queues(
        &mut self,
        if_index: u32,
        _workers: usize,
    ) -> std::result::Result<Queues, DeviceError> {
        let rx = (0..self.rx).map(|queue| {
            let numbered = Numbered {
                queue,
                next: 0,
                all: self.all,
                if_index,
                arrived: self.arrived.clone(),
            };
            Box::new(numbered) as Box<dyn RxQueue>
        });
        let tx = (0..self.tx).map(|_| Box::new(Writer(self.line.clone())) as Box<dyn TxQueue>);
        Ok(Queues {
            rx: rx.collect(),
            tx: tx.collect(),
        })
    }
    fn set_admin(&mut self, _: bool) -> std::result::Result<(), DeviceError> {
        Ok(())
    }
    fn set_mac(&mut self, _: [u8; 6]) -> std::result::Result<(), DeviceError> {
        Ok(())
    }
    fn set_max_frame(&mut self, _: u32) -> std::result::Result<(), DeviceError> {
        Ok(())
    }
    fn set_promiscuous(&mut self, _: bool) -> std::result::Result<(), DeviceError> {
        Ok(())
    }
}

/// Makes such devices, whatever is asked for. Only the first of them receives anything.
struct CountingFactory {
    rx: u8,
    tx: usize,
    all: u32,
    line: Line,
    arrived: Arc<AtomicU32>,
}

impl Factory for CountingFactory {
    fn make(&mut self, _: &DeviceSpec, _: u32) -> Result<MadeDevice> {
        let device = Box::new(Counting {
            rx: self.rx,
            tx: self.tx,
            all: std::mem::take(&mut self.all),
            line: self.line.clone(),
            arrived: self.arrived.clone(),
        });
        Ok(MadeDevice { device, pg: None })
    }
}

/// Two of them, the first cross-connected to the second, which receives nothing.
fn crossed(rx: u8, tx: usize, all: u32) -> (Router, Line, Arc<AtomicU32>) {
    let (line, arrived) = (Line::default(), Arc::default());
    let factory = CountingFactory {
        rx,
        tx,
        all,
        line: line.clone(),
        arrived: Arc::clone(&arrived),
    };
    let mut r = Router::with_factory(config(4), Box::new(factory)).unwrap();
    script(
        &mut r,
        "create loopback interface
         create loopback interface
         set interface l2 xconnect loop0 loop1
         set interface state loop1 up",
    );
    (r, line, arrived)
}

/// What each queue brought in left in order; says how many are missing.
fn missing_but_in_order(line: &Line, queues: u8, all: u32) -> u64 {
    let line = line.lock().unwrap();
    for queue in 0..queues {
        let numbers: Vec<u32> = line.iter().filter(|l| l.0 == queue).map(|l| l.1).collect();
        let wrong = numbers.windows(2).find(|w| w[0] >= w[1]);
        assert_eq!(wrong, None, "queue {queue}");
    }
    u64::from(queues) * u64::from(all) - line.len() as u64
}

/// Moves queues about while they bring in packets, until all have come. Says how many did not leave, all of
/// which were counted as drops at a full transmit queue.
fn moved_under_traffic(tx: usize) -> u64 {
    let (queues, all) = (3u8, 20_000);
    let n = u64::from(queues) * u64::from(all);
    let (mut r, line, arrived) = crossed(queues, tx, all);
    run(&mut r, "set interface state loop0 up");
    let came = |r: &Router| -> u64 {
        let each = r
            .engine
            .counters()
            .map(|c| c.interfaces[1].rx_packets.get());
        each.sum()
    };
    let end = Instant::now() + Duration::from_secs(120);
    let mut moves = 0;
    while came(&r) < n {
        let (queue, worker) = (moves % 3, (moves * 7 + moves / 3) % 4);
        let line = format!("set interface rx-placement loop0 queue {queue} worker {worker}");
        run(&mut r, &line);
        moves += 1;
        arrived.fetch_add(all / 100, Ordering::Relaxed);
        r.turn();
        assert!(Instant::now() < end, "{} packets came", came(&r));
    }
    // The second time proves a turn since the first, in which what was handed over was sent.
    r.engine.settle().unwrap();
    r.engine.settle().unwrap();
    assert!(moves >= 100, "{moves} moves");
    let missing = missing_but_in_order(&line, queues, all);
    let drops = r.engine.drops();
    let full = drops.iter().filter(|d| d.0.1 == DropReason::TxQueueFull);
    assert_eq!(full.map(|d| d.1).sum::<u64>(), missing, "{drops:?}");
    let i = r.interfaces.find("loop1").unwrap();
    assert_eq!(r.interface_totals(i).tx_packets, n - missing);
    missing
}

#[test]
fn a_queue_that_moves_under_traffic_loses_and_reorders_nothing() {
    assert_eq!(moved_under_traffic(4), 0);
}

#[test]
fn nor_does_it_reorder_when_workers_hand_over_to_the_only_transmit_queue() {
    // Four workers can bring in more than the owner of the queue sends: what does not fit is counted.
    moved_under_traffic(1);
}

#[test]
fn queues_are_spread_moved_and_shown() {
    let (mut r, ..) = crossed(6, 2, 0);
    let shown = |r: &mut Router| -> Vec<(u64, u64)> {
        let rows = data(r, "show interface rx-placement");
        let rows = rows.as_array().unwrap().iter();
        rows.filter(|q| q["interface"] == "loop0")
            .map(|q| (q["queue"].as_u64().unwrap(), q["worker"].as_u64().unwrap()))
            .collect()
    };
    let mut at = shown(&mut r);
    at.sort_unstable();
    assert_eq!(at, [(0, 0), (1, 1), (2, 2), (3, 3), (4, 0), (5, 1)]);
    run(&mut r, "set interface rx-placement loop0 queue 5 worker 3");
    run(&mut r, "set interface rx-placement loop0 worker 3");
    run(&mut r, "set interface rx-mode loop0 queue 1 polling");
    let text = run(&mut r, "show interface rx-placement");
    let third = "Thread 4 (wk_3):\n node loopback-input:\n    loop0 queue 0 (adaptive)\n";
    assert!(text.contains(third), "{text}");
    assert!(text.contains("    loop0 queue 1 (polling)\n"), "{text}");
    for (line, why) in [
        (
            "set interface rx-placement loop0 queue 6 worker 0",
            "has no queue 6: they are 0 to 5",
        ),
        (
            "set interface rx-placement loop0 worker 4",
            "there is no worker 4: they are 0 to 3",
        ),
        (
            "set interface rx-placement loop0 main",
            "the main thread takes no packets",
        ),
        (
            "set interface rx-placement local0 worker 0",
            "stands for the router itself",
        ),
        (
            "set interface rx-mode loop0 interrupt",
            "nothing tells when packets wait in queue 0",
        ),
        (
            "set interface rx-mode loop0 queue 9 polling",
            "has no queue 9",
        ),
    ] {
        let e = refused(&mut r, line);
        assert!(e.contains(why), "{line}: {e}");
    }
    // A script that fails puts queues back; an interface that is made again has them where they were.
    let before = data(&mut r, "show interface rx-placement");
    let failing = "set interface rx-placement loop0 queue 2 worker 0\nset interface rx-mode loop0 polling\n\
                   delete loopback interface loop0\nset interface state nosuch up";
    assert!(r.run_script(failing, "x").is_err());
    assert_eq!(data(&mut r, "show interface rx-placement"), before);
    assert_eq!(r.engine.drops().len(), 0);
}

/// Streams on `workers` workers, 2,000 packets each; what each worker's nodes did.
fn routed_by(workers: usize) -> Vec<Vec<(String, u64, u64)>> {
    let mut r = Router::new(config(workers)).unwrap();
    script(&mut r, TWO);
    script(
        &mut r,
        "ip neighbor pg1 10.1.0.2 02:00:00:00:00:99 static
         ip route add 20.0.0.0/8 via 10.1.0.2",
    );
    settle(&mut r);
    run(&mut r, "clear interfaces");
    run(&mut r, "clear runtime");
    let before = sunk(&r, "pg1");
    for w in 0..workers {
        let spec =
            stream(&format!("s{w}"), 2000).replace(" limit ", &format!(" worker {w} limit "));
        run(&mut r, &spec);
    }
    run(&mut r, "packet-generator enable-stream");
    let all = 2000 * workers as u64;
    until(&mut r, "forwarding", |r| sunk(r, "pg1") == before + all);
    let shown = data(&mut r, "show interface");
    assert_eq!(shown[1]["counters"]["rx_packets"], all);
    assert_eq!(shown[2]["counters"]["tx_packets"], all);
    assert_eq!(shown[2]["counters"]["tx_bytes"], all * 64);
    let runtime = data(&mut r, "show runtime");
    let workers = runtime.as_array().unwrap().iter().map(|w| {
        assert_eq!(
            (&w["received"], &w["transmitted"]),
            (&2000.into(), &2000.into())
        );
        let nodes = w["nodes"].as_array().unwrap().iter().map(|n| {
            (
                n["node"].as_str().unwrap().to_owned(),
                n["calls"].as_u64().unwrap(),
                n["vectors"].as_u64().unwrap(),
            )
        });
        nodes.collect()
    });
    workers.collect()
}

#[test]
fn every_worker_does_the_work_of_one_and_counts_add_up() {
    let one = routed_by(1).remove(0);
    assert!(
        one.iter().any(|n| n.0 == "ip4-lookup" && n.2 == 2000),
        "{one:?}"
    );
    for workers in [2, 4] {
        for (w, nodes) in routed_by(workers).iter().enumerate() {
            assert_eq!(*nodes, one, "worker {w} of {workers}");
        }
    }
}

#[test]
fn threads_and_buffers_are_shown_by_worker() {
    let mut r = Router::new(config(4)).unwrap();
    script(&mut r, TWO);
    settle(&mut r);
    let threads = data(&mut r, "show threads");
    let workers: Vec<_> = threads
        .as_array()
        .unwrap()
        .iter()
        .filter(|t| t["type"] == "workers")
        .collect();
    assert_eq!(workers.len(), 4);
    let mut lwps: Vec<_> = workers.iter().map(|t| t["lwp"].as_i64().unwrap()).collect();
    lwps.dedup();
    assert_eq!(lwps.len(), 4);
    for (w, t) in workers.iter().enumerate() {
        assert_eq!(t["name"], format!("parshall-wk{w}"));
        assert_eq!(t["queues"], 2);
        assert!(
            ["running", "sleeping"].contains(&t["state"].as_str().unwrap()),
            "{t}"
        );
        assert!((0.0..=100.0).contains(&t["load"].as_f64().unwrap()), "{t}");
    }
    assert_eq!(threads[0]["type"], "control");
    let text = run(&mut r, "show threads");
    assert!(
        text.starts_with("ID  Name              Type           LWP"),
        "{text}"
    );
    for pool in data(&mut r, "show buffers").as_array().unwrap() {
        assert_eq!(
            (&pool["total"], &pool["avail"]),
            (&4096.into(), &4096.into()),
            "{pool}"
        );
        assert_eq!(pool["used"], 0);
    }
    assert!(run(&mut r, "show buffers").contains("Data Size    Total    Avail"));
}
