//! Queue-level tests: what a worker gets from the receive queue and what the sink makes of it.

use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::path::Path;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parshall_buffer::{FRAME_SIZE, Flags, Frame, Pool};
use parshall_device::{Device, Queues, RxBurst};

use super::samples::{internet_sum, udp4_frame};
use super::*;
use crate::pcap::file::{LINK_ETHERNET, Reader, Writer};
use crate::pcap::{CaptureOptions, PcapDevice, PcapOptions};

/// An interface with its queues, a pool and a clock to turn by hand.
struct Bench {
    _device: PgDevice,
    handle: PgHandle,
    queues: Queues,
    pool: Pool,
    frame: Frame,
    now: u64,
}

impl Bench {
    fn new(workers: usize, buffers: usize) -> Bench {
        let (mut device, handle) = PgDevice::new(0);
        let queues = device.queues(5, workers).unwrap();
        Bench {
            _device: device,
            handle,
            queues,
            pool: Pool::new(buffers).unwrap(),
            frame: Frame::default(),
            now: 1_000,
        }
    }
    fn started(spec: &StreamSpec) -> Bench {
        let bench = Bench::new(1, 1024);
        bench.handle.add(spec).unwrap();
        bench.handle.enable(Some(&spec.name)).unwrap();
        bench
    }
    fn poll(&mut self, worker: usize) -> RxBurst {
        self.frame.clear();
        self.queues.rx[worker].poll(&mut self.pool, &mut self.frame, self.now)
    }
    /// Polls once, gives the packets' bytes and frees them.
    fn take(&mut self) -> Vec<Vec<u8>> {
        let burst = self.poll(0);
        let out: Vec<_> = self
            .frame
            .packets()
            .iter()
            .map(|&b| self.pool.to_vec(b))
            .collect();
        assert_eq!(burst.bytes, out.iter().map(|p| p.len() as u64).sum::<u64>());
        assert!(
            self.frame
                .packets()
                .iter()
                .all(|&b| self.pool.meta(b).rx_if == 5)
        );
        self.pool.free_bulk(self.frame.packets());
        assert_eq!(
            self.pool.available(),
            self.pool.capacity(),
            "no buffer is lost"
        );
        out
    }
    fn info(&self) -> StreamInfo {
        self.handle.streams().remove(0)
    }
}

fn udp(len: usize) -> StreamSpec {
    StreamSpec::from_frame("s", &udp4_frame(len)).unwrap()
}

fn destination(frame: &[u8]) -> Ipv4Addr {
    Ipv4Addr::new(frame[30], frame[31], frame[32], frame[33])
}

#[test]
fn destinations_are_walked_across_polls() {
    let range = Ipv4Addr::new(10, 0, 0, 1)..=Ipv4Addr::new(10, 0, 0, 250);
    let mut bench = Bench::started(&udp(64).vary(Field::Ip4Destination, range).unwrap());
    let mut packets = bench.take();
    assert_eq!(packets.len(), FRAME_SIZE);
    packets.extend(bench.take());
    for (i, p) in packets.iter().enumerate() {
        assert_eq!(destination(p), Ipv4Addr::new(10, 0, 0, 1 + (i % 250) as u8));
        assert_eq!(internet_sum(&p[14..34], 0), 0xffff);
        assert_eq!(internet_sum(&p[26..], 17 + 30), 0xffff);
        assert_eq!(p[42..], udp4_frame(64)[42..]);
    }
    let info = bench.info();
    assert_eq!(
        (info.packets, info.bytes, info.enabled, info.variants),
        (512, 512 * 64, true, 250)
    );
}

#[test]
fn every_build_of_the_short_loop_writes_the_same() {
    let values = Values::from(1u32..=300).random();
    for spec in [
        udp(64),
        udp(64).vary(Field::Ip4Source, values.clone()).unwrap(),
        udp(50).vary(Field::EthSource, values.clone()).unwrap(),
        udp(65).vary(Field::Ip4Source, values.clone()).unwrap(),
        udp(114).vary(Field::SourcePort, values).unwrap(),
        udp(128),
    ] {
        let Source::Generate(t) = &spec.source else {
            unreachable!()
        };
        let frames = expand::Frames::new(t, 1, 1 << 20, [0; 6]).unwrap();
        let mut pool = Pool::new(64).unwrap();
        let mut fresh = [Default::default(); 32];
        assert_eq!(pool.alloc_bulk(&mut fresh), 32);
        let n = frames.count.min(32);
        let mut seen = Vec::new();
        for isa in [fill::Isa::Plain, fill::Isa::detect()] {
            assert!(fill::short(
                isa,
                &mut pool,
                &fresh[..n],
                1,
                &frames,
                0,
                frames.len(0)
            ));
            seen.push(
                fresh[..n]
                    .iter()
                    .map(|&b| (pool.to_vec(b), *pool.meta(b)))
                    .collect::<Vec<_>>(),
            );
        }
        for (i, &b) in fresh[..n].iter().enumerate() {
            assert!(fill::long(&mut pool, b, 1, &frames, i));
        }
        seen.push(
            fresh[..n]
                .iter()
                .map(|&b| (pool.to_vec(b), *pool.meta(b)))
                .collect(),
        );
        assert_eq!(seen[0], seen[1]);
        assert_eq!(seen[0], seen[2]);
        pool.free_bulk(&fresh);
    }
}

#[test]
fn sizes_grow_into_chains_and_back() {
    let spec = udp(60)
        .sized(Size {
            min: 2170,
            max: 2183,
            random: false,
        })
        .unwrap();
    let mut bench = Bench::started(&StreamSpec {
        max_frame: 28,
        ..spec
    });
    for (i, p) in bench.take().iter().enumerate() {
        assert_eq!(p.len(), 2170 + i % 14);
        assert_eq!(internet_sum(&p[26..], 17 + (p.len() - 34) as u32), 0xffff);
    }
    let jumbo = udp(9000);
    let mut bench = Bench::started(&StreamSpec { limit: 3, ..jumbo });
    let packets = bench.take();
    assert_eq!(packets.len(), 3);
    assert!(packets.iter().all(|p| p[42..] == udp4_frame(9000)[42..]));
}

#[test]
fn random_sizes_stay_in_their_range() {
    let mut bench = Bench::started(
        &udp(60)
            .sized(Size {
                min: 64,
                max: 128,
                random: true,
            })
            .unwrap(),
    );
    let sizes: Vec<_> = bench.take().iter().map(Vec::len).collect();
    assert!(sizes.iter().all(|n| (64..=128).contains(n)));
    assert!(sizes.iter().any(|&n| n < 80) && sizes.iter().any(|&n| n > 110));
}

#[test]
fn the_limit_ends_a_stream_and_enabling_starts_it_again() {
    let mut bench = Bench::started(&StreamSpec {
        limit: 300,
        max_frame: 200,
        ..udp(64)
    });
    assert!(bench.info().enabled);
    assert_eq!(
        [bench.take().len(), bench.take().len(), bench.take().len()],
        [200, 100, 0]
    );
    let info = bench.info();
    assert_eq!(
        (info.packets, info.enabled, info.limit),
        (300, false, Some(300))
    );
    assert_eq!(bench.queues.rx[0].due(bench.now), None);
    bench.handle.enable(None).unwrap();
    assert!(bench.info().enabled);
    assert_eq!(bench.take().len(), 200);
    bench.handle.disable(None).unwrap();
    assert_eq!(bench.take().len(), 0);
    assert!(!bench.info().enabled);
}

#[test]
fn a_rate_is_kept_and_due_says_when() {
    let mut bench = Bench::started(&StreamSpec {
        rate: 1e6,
        ..udp(64)
    });
    assert_eq!(bench.take().len(), 1, "the first packet comes at once");
    assert_eq!(bench.queues.rx[0].due(bench.now), Some(bench.now + 1000));
    assert_eq!(bench.take().len(), 0);
    bench.now += 999;
    assert_eq!(bench.take().len(), 0);
    bench.now += 1;
    assert_eq!(bench.take().len(), 1);
    bench.now += 100_000;
    assert_eq!(bench.take().len(), 100);
    let mut total = 102;
    for _ in 0..1000 {
        bench.now += 77_777;
        total += bench.take().len();
    }
    assert_eq!(total, 1 + (101_000 + 77_777 * 1000) / 1000);
}

#[test]
fn a_worker_that_stood_still_does_not_flood() {
    let mut bench = Bench::started(&StreamSpec {
        rate: 1000.0,
        ..udp(64)
    });
    assert_eq!(bench.take().len(), 1);
    bench.now += 3_600_000_000_000;
    assert_eq!(bench.take().len(), 1);
    bench.now += 1_000_000;
    assert_eq!(bench.take().len(), 1);
}

#[test]
fn streams_share_a_queue_fairly_and_workers_have_their_own() {
    let mut bench = Bench::new(2, 1024);
    for (name, worker) in [("a", 0), ("b", 0), ("c", 1)] {
        bench
            .handle
            .add(&StreamSpec {
                name: name.into(),
                worker,
                ..udp(64)
            })
            .unwrap();
    }
    bench.handle.enable(None).unwrap();
    for _ in 0..4 {
        assert_eq!(bench.take().len(), 256);
    }
    let counts = |b: &Bench| {
        b.handle
            .streams()
            .iter()
            .map(|s| s.packets)
            .collect::<Vec<_>>()
    };
    assert_eq!(counts(&bench), [512, 512, 0]);
    bench.poll(1);
    bench.pool.free_bulk(bench.frame.packets());
    assert_eq!(counts(&bench), [512, 512, 256]);
    let error = bench
        .handle
        .add(&StreamSpec {
            worker: 2,
            ..udp(64)
        })
        .unwrap_err();
    assert_eq!(error.0, "worker 2 does not exist (0 to 1)");
}

#[test]
fn streams_come_and_go_and_are_replaced_by_name() {
    let mut bench = Bench::started(&udp(64));
    bench.handle.add(&udp(80)).unwrap();
    assert_eq!(
        bench.take().len(),
        0,
        "the new one of that name is not enabled yet"
    );
    bench.handle.enable(Some("s")).unwrap();
    assert_eq!(bench.take()[0].len(), 80);
    let change = StreamChange {
        limit: Some(2),
        rate: None,
        size: Some(Size::fixed(100)),
    };
    bench.handle.configure("s", &change).unwrap();
    bench.handle.enable(None).unwrap();
    assert_eq!(
        bench.take().iter().map(Vec::len).collect::<Vec<_>>(),
        [100, 100]
    );
    assert_eq!(
        bench.handle.enable(Some("t")).unwrap_err().0,
        "no stream is called t"
    );
    bench.handle.delete("s").unwrap();
    assert!(bench.handle.streams().is_empty());
    for i in 0..3 * MAX_STREAMS {
        bench
            .handle
            .add(&StreamSpec {
                name: format!("n{i}"),
                ..udp(64)
            })
            .unwrap();
        bench.take();
        bench.handle.delete(&format!("n{i}")).unwrap();
        bench.take();
    }
    for i in 0..MAX_STREAMS {
        bench
            .handle
            .add(&StreamSpec {
                name: format!("n{i}"),
                ..udp(64)
            })
            .unwrap();
    }
    assert_eq!(
        bench.handle.add(&udp(64)).unwrap_err().0,
        "worker 0 has 64 streams already"
    );
}

#[test]
fn a_command_wakes_the_worker_exactly_until_it_is_taken() {
    let mut bench = Bench::new(1, 64);
    let readable = |bench: &Bench| {
        let fd = bench.queues.rx[0].fd().unwrap();
        // SAFETY: the queue owns the descriptor and outlives this borrow.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], PollTimeout::ZERO).unwrap() == 1
    };
    assert!(!readable(&bench));
    bench
        .handle
        .add(&StreamSpec {
            limit: 1,
            ..udp(64)
        })
        .unwrap();
    bench.handle.enable(None).unwrap();
    assert!(readable(&bench));
    assert_eq!(bench.take().len(), 1);
    assert!(!readable(&bench));
    assert_eq!(bench.queues.rx[0].due(bench.now), None);
}

#[test]
fn an_interface_that_is_down_receives_nothing_and_does_not_catch_up() {
    let mut bench = Bench::started(&StreamSpec {
        rate: 1e6,
        ..udp(64)
    });
    bench._device.set_admin(false).unwrap();
    assert_eq!(bench.take().len(), 0);
    assert_eq!(bench.queues.rx[0].due(bench.now), None);
    bench.now += 50_000_000;
    bench._device.set_admin(true).unwrap();
    assert_eq!(bench.take().len(), 1);
    bench.now += 5_000;
    assert_eq!(bench.take().len(), 5);
}

#[test]
fn without_buffers_packets_come_later_and_nothing_leaks() {
    let mut bench = Bench::started(&StreamSpec {
        limit: 40,
        ..udp(64)
    });
    bench.pool = Pool::new(25).unwrap();
    assert_eq!(
        [bench.take().len(), bench.take().len(), bench.take().len()],
        [25, 15, 0]
    );
    // 5 buffers a packet: of the 11 taken for first buffers some must do for chains.
    let mut bench = Bench::started(&StreamSpec {
        limit: 7,
        ..udp(9000)
    });
    bench.pool = Pool::new(11).unwrap();
    let mut total = 0;
    for _ in 0..20 {
        total += bench.take().len();
    }
    assert_eq!(total, 7);
}

#[test]
fn the_sink_counts_frees_and_captures() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::started(&StreamSpec {
        limit: 10,
        ..udp(64)
    });
    bench.poll(0);
    let now = bench.now;
    let done = bench.queues.tx[0].transmit(&mut bench.pool, bench.frame.packets(), now);
    assert_eq!((done.taken, done.errors), (10, 0));
    let options = CaptureOptions::new(dir.path().join("tx.pcap"));
    bench.handle.capture(&options).unwrap();
    assert!(
        bench
            .handle
            .capture(&options)
            .unwrap_err()
            .0
            .contains("is running")
    );
    let jumbo = bench.pool.packet_from(&udp4_frame(9000), 1).unwrap();
    assert!(bench.pool.meta(jumbo).flags.has(Flags::CHAINED));
    let small = bench.pool.packet_from(&udp4_frame(60), 1).unwrap();
    bench.queues.tx[0].transmit(&mut bench.pool, &[jumbo, small], now);
    assert_eq!(bench.pool.available(), 1024);
    assert_eq!(
        bench.handle.sink(),
        SinkTotals {
            packets: 12,
            bytes: 640 + 9060
        }
    );
    let report = bench.handle.capture_off().unwrap().unwrap();
    assert_eq!((report.written, report.lost), (2, 0));
    assert_eq!(read(&options.path), [udp4_frame(9000), udp4_frame(60)]);
    let late = bench.pool.packet_from(&udp4_frame(60), 1).unwrap();
    bench.queues.tx[0].transmit(&mut bench.pool, &[late], now);
    bench.queues.tx[0].flush(&mut bench.pool);
    assert_eq!(bench.handle.capture_off().unwrap(), None);
    assert_eq!(read(&options.path).len(), 2);
}

fn read(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = Reader::new(std::fs::File::open(path).unwrap()).unwrap();
    let (mut out, mut bytes) = (Vec::new(), Vec::new());
    while reader.next(&mut bytes).unwrap().is_some() {
        out.push(bytes.clone());
    }
    out
}

fn write(path: &Path, packets: &[(u64, Vec<u8>)]) {
    let mut writer =
        Writer::new(std::fs::File::create(path).unwrap(), LINK_ETHERNET, 65_535).unwrap();
    for (time, bytes) in packets {
        writer.write(*time, bytes.len() as u32, bytes).unwrap();
    }
}

#[test]
fn a_file_is_replayed_once_looped_and_at_its_own_speed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.pcap");
    let packets: Vec<_> = [(7_000, 60), (8_000, 1500), (10_000, 4000)]
        .map(|(t, n)| (t, udp4_frame(n)))
        .into();
    write(&path, &packets);
    let whole: Vec<_> = packets.iter().map(|p| p.1.clone()).collect();

    let spec = |speed| StreamSpec::from_pcap("s", &path, speed);
    let mut bench = Bench::started(&spec(Speed::Fast));
    assert_eq!(bench.take(), whole);
    assert_eq!(
        (bench.take().len(), bench.info().enabled, bench.info().sizes),
        (0, false, (60, 4000))
    );

    let mut bench = Bench::started(&StreamSpec {
        limit: 7,
        ..spec(Speed::Fast)
    });
    let sizes: Vec<_> = bench.take().iter().map(Vec::len).collect();
    assert_eq!(sizes, [60, 1500, 4000, 60, 1500, 4000, 60]);

    let source = Source::Replay {
        path: path.clone(),
        looping: true,
        speed: Speed::Recorded(2.0),
    };
    let mut bench = Bench::started(&StreamSpec {
        source,
        ..spec(Speed::Fast)
    });
    assert_eq!(bench.take().len(), 1);
    assert_eq!(bench.queues.rx[0].due(bench.now), Some(bench.now + 500));
    bench.now += 500;
    assert_eq!(bench.take(), whole[1..2]);
    bench.now += 999;
    assert_eq!(bench.take().len(), 0);
    bench.now += 1;
    assert_eq!(bench.take(), whole[2..]);
    // The next round begins after the mean gap: 1,500 ns of the file, 750 of ours.
    assert_eq!(bench.queues.rx[0].due(bench.now), Some(bench.now + 750));
}

#[test]
fn a_file_interface_copies_one_file_to_another() {
    let dir = tempfile::tempdir().unwrap();
    let (rx, tx) = (dir.path().join("in.pcap"), dir.path().join("out.pcap"));
    let packets: Vec<_> = (0..600u64)
        .map(|i| (i, udp4_frame(60 + i as usize)))
        .collect();
    write(&rx, &packets);
    let options = PcapOptions {
        rx: Some(rx),
        tx: Some(tx.clone()),
        looping: false,
        speed: Speed::Fast,
        mac: [2; 6],
    };
    let mut device = PcapDevice::new(options).unwrap();
    let mut queues = device.queues(9, 1).unwrap();
    let (mut pool, mut frame) = (Pool::new(512).unwrap(), Frame::default());
    queues.rx[0].poll(&mut pool, &mut frame, 0);
    assert!(frame.is_empty(), "down");
    device.set_admin(true).unwrap();
    assert_eq!((device.info().kind, device.info().link_up), ("pcap", true));
    for _ in 0..4 {
        frame.clear();
        queues.rx[0].poll(&mut pool, &mut frame, 0);
        queues.tx[0].transmit(&mut pool, frame.packets(), 0);
    }
    assert_eq!(pool.available(), 512);
    assert_eq!(device.transmitted().packets, 600);
    assert!(
        device
            .replay()
            .is_some_and(|r| !r.enabled && r.packets == 600)
    );
    drop(queues);
    drop(device);
    assert_eq!(
        read(&tx),
        packets.into_iter().map(|p| p.1).collect::<Vec<_>>()
    );
}
