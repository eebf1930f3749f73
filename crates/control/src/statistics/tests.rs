//! The segment of a whole router, read by name.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

use crate::engine::EngineConfig;
use crate::router::Router;

/// Entries by name: kind and value word.
fn directory(bytes: &[u8]) -> BTreeMap<String, (u64, u64)> {
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    let start = word(32) as usize;
    let n = word(start - 8) as usize;
    let entry = |i: usize| {
        let at = start + i * 144;
        let name = &bytes[at + 16..at + 144];
        let end = name.iter().position(|b| *b == 0).unwrap();
        let name = String::from_utf8(name[..end].to_vec()).unwrap();
        (name, (word(at), word(at + 8)))
    };
    (0..n).map(entry).collect()
}

fn rows(bytes: &[u8], pointer: u64) -> Vec<Vec<u64>> {
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    let vector = |at: usize| (0..word(at - 8) as usize).map(move |i| word(at + 8 * i));
    let rows = vector(pointer as usize);
    rows.map(|row| vector(row as usize).collect()).collect()
}

struct Reader(std::fs::File, usize);

impl Reader {
    fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.1];
        self.0.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }
    /// A simple counter, summed over threads.
    fn sum(&self, name: &str, column: usize) -> u64 {
        let bytes = self.read();
        let (kind, value) = directory(&bytes)[name];
        assert_eq!(kind, 2, "{name}");
        rows(&bytes, value).iter().map(|r| r[column]).sum()
    }
}

fn router(bytes: usize) -> (Router, Reader) {
    let config = EngineConfig {
        workers: 2,
        share_cpus: true,
        buffers: 2048,
        interfaces: 64,
        ..EngineConfig::default()
    };
    let mut router = Router::new(config).unwrap();
    let fd = router.open_statistics(bytes).unwrap();
    (router, Reader(fd.into(), bytes))
}

fn run(r: &mut Router, line: &str) {
    r.run_line(line, false)
        .unwrap_or_else(|e| panic!("{line}: {e}"));
}

/// Sends packets that are dropped, and waits until they are.
fn drop_some(r: &mut Router, n: u64) {
    let dropped = |r: &Router| r.engine.counters().map(|c| c.dropped.get()).sum::<u64>();
    let before = dropped(r);
    run(
        r,
        &format!(
            "packet-generator new {{ name x{before} limit {n} size 64-64 interface pg0 node ethernet-input data {{ IP4: 1.2.3 -> 4.5.6 UDP: 192.0.2.1 -> 198.51.100.1 UDP: 1 -> 2 incrementing 8 }} }}"
        ),
    );
    run(r, &format!("packet-generator enable-stream x{before}"));
    while dropped(r) < before + n {
        r.turn();
        std::thread::yield_now();
    }
    r.engine.settle().unwrap();
}

#[test]
fn a_reader_sees_interfaces_drops_and_nodes() {
    let (mut r, reader) = router(8 << 20);
    run(&mut r, "create packet-generator interface pg0");
    run(&mut r, "set interface state pg0 up");
    r.show_statistics();
    let bytes = reader.read();
    let all = directory(&bytes);
    for name in [
        "/sys/heartbeat",
        "/sys/boottime",
        "/interfaces/pg0/rx",
        "/nodes/ip4-lookup/calls",
    ] {
        assert!(all.contains_key(name), "{name}");
    }
    for name in ["/net/route/to", "/net/route/via", "/net/adjacency"] {
        let (kind, value) = all[name];
        let rows = rows(&bytes, value);
        assert!(kind == 3 && rows.len() == 3 && rows.iter().all(Vec::is_empty));
    }
    assert!(!all.keys().any(|n| n.is_empty() || n.starts_with("/err/")));
    drop_some(&mut r, 7);
    r.show_statistics();
    let errors = directory(&reader.read());
    let errors: Vec<&String> = errors.keys().filter(|n| n.starts_with("/err/")).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(reader.sum("/node/errors", 0), 7);
    assert_eq!(reader.sum("/if/drops", 1), 7);
    // Cleared counters begin again, and those of all interfaces are of one length.
    run(&mut r, "clear interfaces");
    drop_some(&mut r, 2);
    run(&mut r, "create loopback interface");
    r.show_statistics();
    assert_eq!(reader.sum("/if/drops", 1), 2);
    assert_eq!(reader.sum("/node/errors", 0), 9);
    let bytes = reader.read();
    for (name, (kind, value)) in directory(&bytes) {
        if name.starts_with("/if/") && kind != 4 {
            let rows = rows(&bytes, value);
            assert!(
                rows.len() == 3 && rows.iter().all(|r| r.len() == 3),
                "{name}"
            );
        }
    }
    assert!(directory(&bytes).contains_key("/interfaces/loop0/tx-error"));
    r.shut_down();
}

#[test]
fn a_number_given_again_begins_at_zero() {
    let (mut r, reader) = router(8 << 20);
    run(&mut r, "create packet-generator interface pg0");
    run(&mut r, "set interface state pg0 up");
    drop_some(&mut r, 5);
    r.show_statistics();
    assert_eq!(reader.sum("/if/drops", 1), 5);
    run(&mut r, "delete packet-generator interface pg0");
    run(&mut r, "create packet-generator interface pg0");
    r.show_statistics();
    assert_eq!(reader.sum("/if/drops", 1), 0);
    r.shut_down();
}

#[test]
fn a_segment_that_is_too_small_loses_convenience_first() {
    let (mut r, reader) = router(1 << 20);
    for _ in 0..60 {
        run(&mut r, "create loopback interface");
    }
    r.show_statistics();
    let bytes = reader.read();
    let all = directory(&bytes);
    let (_, value) = all["/if/drops"];
    assert_eq!(rows(&bytes, value)[1].len(), 61);
    r.shut_down();
}
