//! Measures the longest-prefix match on a file of prefixes, one a line (`.gz` through
//! zcat): routes, seconds to load, lookups a second of random covered destinations, one
//! by one and in batches, changes a second, bytes a route.
//!
//! `cargo run --release -p parshall-fib --example lpm -- FILE`

use parshall_fib::{Addr, Dpo, DpoKind, Ip4Prefix, Ip6Prefix, IpTables, Lpm, Prefix};
use parshall_rcu::{Domain, Reader};
use std::hint::black_box;
use std::time::Instant;

/// A small seeded generator (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

fn read(path: &str) -> std::io::Result<String> {
    if path.ends_with(".gz") {
        let out = std::process::Command::new("zcat").arg(path).output()?;
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    std::fs::read_to_string(path)
}

fn adj(n: usize) -> Dpo {
    Dpo::new(DpoKind::Adjacency, n as u32 % 250)
}

fn lookups<A: Addr>(table: &Lpm<A>, reader: &Reader, dests: &[A]) -> (f64, f64) {
    let view = table.view(reader);
    let mut out = vec![Dpo::MISS; 256];
    let rounds = 200_000_000 / 16 / dests.len().max(1) + 1;
    let mut best = [0f64; 2];
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..rounds {
            for frame in dests.chunks(256) {
                for (addr, out) in frame.iter().zip(&mut out) {
                    *out = view.lookup(*addr);
                }
                black_box(&mut out);
            }
        }
        let one = (rounds * dests.len()) as f64 / start.elapsed().as_secs_f64();
        let start = Instant::now();
        for _ in 0..rounds {
            for frame in dests.chunks(256) {
                view.lookup_batch(frame, &mut out);
                black_box(&mut out);
            }
        }
        let batch = (rounds * dests.len()) as f64 / start.elapsed().as_secs_f64();
        best = [best[0].max(one), best[1].max(batch)];
    }
    (best[0], best[1])
}

fn measure<A: Addr>(prefixes: &[Prefix<A>], spread: fn(Prefix<A>, u64) -> A) {
    let domain = Domain::new();
    let mut random = Random(42);
    let tables = IpTables::<A>::new(&domain, 16, 1 << 30).expect("address space");
    let table = tables
        .control(tables.create().expect("a table"))
        .expect("the table");
    let start = Instant::now();
    for (i, p) in prefixes.iter().enumerate() {
        table
            .insert(*p, adj(i.wrapping_mul(2_654_435_761) >> 7))
            .expect("room");
    }
    let load = start.elapsed().as_secs_f64();
    let other = tables
        .control(tables.create().expect("a table"))
        .expect("the table");
    let mut all: Vec<_> = prefixes.iter().copied().zip((0..).map(adj)).collect();
    for order in ["in order", "in any order"] {
        let start = Instant::now();
        other.change(&all).expect("room");
        let put = start.elapsed().as_secs_f64();
        all.iter_mut().for_each(|c| c.1 = Dpo::MISS);
        let start = Instant::now();
        other.change(&all).expect("room");
        let gone = start.elapsed().as_secs_f64();
        println!("at once, {order}: {put:.3} s, out again {gone:.3} s");
        for (i, c) in all.iter_mut().enumerate() {
            c.1 = adj(i);
        }
        for i in (1..all.len()).rev() {
            all.swap(i, random.below(i + 1));
        }
    }
    drop(other);
    tables.delete(1).expect("the table");
    domain.reclaim();
    tables.reclaim();
    let mut reader = domain.register().expect("a reader");
    reader.online();
    println!(
        "{} routes in {load:.3} s; {:.1} bytes a route",
        table.len(),
        tables.memory() as f64 / table.len() as f64
    );
    for n in [256, 16_384, 1 << 20] {
        let mut dest = || spread(prefixes[random.below(prefixes.len())], random.next());
        let dests: Vec<A> = (0..n).map(|_| dest()).collect();
        let wrong = dests.iter().filter(|a| {
            let right = table.longest_match(**a).map_or(Dpo::MISS, |(_, dpo)| dpo);
            table.lookup(&reader, **a) != right
        });
        assert_eq!(
            wrong.count(),
            0,
            "lookups that differ from control's own map"
        );
        let (one, batch) = lookups(&table, &reader, &dests);
        println!(
            "{n:8} destinations: {:.1} M/s, in batches {:.1} M/s",
            one / 1e6,
            batch / 1e6
        );
    }
    reader.offline();
    let start = Instant::now();
    let changes = 500_000;
    for i in 0..changes / 2 {
        let p = prefixes[random.below(prefixes.len())];
        table.remove(p).expect("room");
        table.insert(p, adj(i)).expect("room");
    }
    println!(
        "{:.0} changes/s",
        f64::from(changes as u32) / start.elapsed().as_secs_f64()
    );
}

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_default();
    let text = read(&path)?;
    let v4: Vec<Ip4Prefix> = text.lines().filter_map(|l| l.trim().parse().ok()).collect();
    let v6: Vec<Ip6Prefix> = text.lines().filter_map(|l| l.trim().parse().ok()).collect();
    if !v4.is_empty() {
        measure(&v4, |p, r| {
            p.addr() | (r as u32).checked_shr(p.len().into()).unwrap_or(0)
        });
    }
    if !v6.is_empty() {
        measure(&v6, |p, r| {
            let word = u128::from(r) << 64 | u128::from(r.rotate_left(29));
            p.addr() | word.checked_shr(p.len().into()).unwrap_or(0)
        });
    }
    Ok(())
}
