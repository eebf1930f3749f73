//! A packet costs as many instructions with four workers as with one: this program runs itself under callgrind,
//! which counts them.

use std::process::Command;

/// What the run under callgrind is told by: number of workers.
const WORKERS: &str = "PARSHALL_LINEAR_WORKERS";
/// Turns of each worker: 256 packets each.
const TURNS: u32 = 200;

/// The work itself; by itself it asserts that every worker's turns were full.
#[test]
fn turns_of_workers() {
    let workers = std::env::var(WORKERS).map_or(1, |w| w.parse().unwrap());
    let packets = parshall_bench::linear::forward("ip4", workers, TURNS).unwrap();
    assert_eq!(packets, u64::from(workers * TURNS) * 256);
}

/// Instructions of all workers together.
fn instructions(workers: u32) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*linear*turns*"])
        .arg(format!(
            "--callgrind-out-file={}",
            dir.path().join("out").display()
        ))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "turns_of_workers", "--test-threads=1"])
        .env(WORKERS, workers.to_string())
        .output()
        .expect("valgrind is needed for this test (see tests/setup.sh)");
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&out.stdout)
    );
    let collected = text
        .lines()
        .find_map(|l| l.split_once("Collected : "))
        .map(|l| l.1);
    let n = collected.and_then(|n| n.trim().parse().ok());
    n.filter(|n| *n > 0)
        .unwrap_or_else(|| panic!("nothing was collected:\n{text}"))
}

#[test]
fn a_packet_costs_the_same_whatever_the_number_of_workers() {
    let per_packet = |w: u32| instructions(w) as f64 / f64::from(w * TURNS * 256);
    let one = per_packet(1);
    for workers in [2, 4] {
        let n = per_packet(workers);
        println!("{workers} workers: {n:.3} instructions a packet, one: {one:.3}");
        assert!(
            (n / one - 1.0).abs() < 0.001,
            "{workers} workers: {n}, one: {one}"
        );
    }
}
