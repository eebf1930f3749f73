//! Longest-prefix match against a linear scan, under changes and under concurrency.

use crate::addr::Addr;
use crate::arena::Arena;
use crate::dpo::{Dpo, DpoKind};
use crate::error::FibError;
use crate::lpm::Lpm;
use crate::prefix::{Ip4Prefix, Ip6Prefix, Prefix};
use crate::tables::{Ip4Tables, Ip6Tables};
use parshall_rcu::{Domain, Reader};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Lengths at and around the places where the structure changes.
const LENGTHS: [u8; 24] = [
    0, 1, 7, 8, 9, 12, 15, 16, 17, 20, 23, 24, 25, 31, 32, 33, 40, 47, 48, 64, 65, 120, 127, 128,
];

/// Words with few distinct bytes, so that prefixes nest and touch.
fn word() -> impl Strategy<Value = u128> {
    let byte = prop_oneof![
        Just(0u8),
        Just(0xff),
        Just(0x80),
        Just(0x7f),
        Just(1),
        any::<u8>()
    ];
    let few = prop::array::uniform16(byte).prop_map(u128::from_be_bytes);
    let shared = any::<u128>().prop_map(|x| 0x2001_0db8 << 96 | x >> 40);
    prop_oneof![few, shared, any::<u128>()]
}

/// IPv4 prefixes that are likely to nest, touch or meet a stride boundary.
pub(crate) fn adversarial4() -> impl Strategy<Value = Ip4Prefix> {
    let len = prop_oneof![prop::sample::select(&LENGTHS[..15]), 0..=32u8];
    (word(), len).prop_map(|(w, len)| Prefix::masked((w >> 96) as u32, len))
}

/// IPv6 prefixes of the same kind.
pub(crate) fn adversarial6() -> impl Strategy<Value = Ip6Prefix> {
    let len = prop_oneof![prop::sample::select(&LENGTHS[..]), 0..=128u8];
    (word(), len).prop_map(|(w, len)| Prefix::masked(w, len))
}

fn adj(n: u32) -> Dpo {
    Dpo::new(DpoKind::Adjacency, n)
}

fn online(d: &Arc<Domain>) -> Reader {
    let mut r = d.register().unwrap();
    r.online();
    r
}

fn table<A: Addr>(d: &Arc<Domain>) -> (Arc<Arena>, Lpm<A>) {
    let arena = Arc::new(Arena::new(d, 64 << 20, "test table").unwrap());
    let table = Lpm::in_arena(&arena);
    (arena, table)
}

/// The slow reference: the longest of all prefixes that contain the address.
fn scan<A: Addr>(model: &BTreeMap<Prefix<A>, Dpo>, addr: A) -> Dpo {
    let hits = model.iter().filter(|(p, _)| p.contains(addr));
    hits.max_by_key(|(p, _)| p.len())
        .map_or(Dpo::MISS, |(_, d)| *d)
}

/// Addresses at and next to the ends of a prefix.
fn edges(p: Ip4Prefix) -> [u32; 4] {
    let last = p.addr() | u32::MAX.checked_shr(p.len().into()).unwrap_or(0);
    [
        p.addr(),
        last,
        p.addr().wrapping_sub(1),
        last.wrapping_add(1),
    ]
}

fn edges6(p: Ip6Prefix) -> [u128; 4] {
    let last = p.addr() | u128::MAX.checked_shr(p.len().into()).unwrap_or(0);
    [
        p.addr(),
        last,
        p.addr().wrapping_sub(1),
        last.wrapping_add(1),
    ]
}

/// Runs a sequence of changes, comparing after each one.
fn churn<A: Addr>(
    ops: &[(Prefix<A>, Option<u32>)],
    edges: fn(Prefix<A>) -> [A; 4],
    filler: &[Prefix<A>],
) {
    let d = Domain::new();
    let mut r = online(&d);
    let (arena, table) = table::<A>(&d);
    let mut model = BTreeMap::new();
    for p in filler {
        assert_eq!(table.insert(*p, adj(9)), Ok(model.insert(*p, adj(9))));
    }
    let probes: Vec<A> = ops.iter().flat_map(|(p, _)| edges(*p)).collect();
    for (step, (prefix, value)) in ops.iter().enumerate() {
        match value {
            // Few objects, so that neighbours are often equal and runs merge.
            Some(n) => {
                let dpo = adj(n % 3);
                assert_eq!(table.insert(*prefix, dpo), Ok(model.insert(*prefix, dpo)));
            }
            None => assert_eq!(table.remove(*prefix), Ok(model.remove(prefix))),
        }
        for addr in probes
            .iter()
            .copied()
            .skip(step % 3)
            .step_by(3)
            .chain(edges(*prefix))
        {
            assert_eq!(
                table.lookup(&r, addr),
                scan(&model, addr),
                "{addr:x?} after step {step}"
            );
        }
        r.quiescent();
    }
    let mut batch = vec![Dpo::MISS; probes.len()];
    table.view(&r).lookup_batch(&probes, &mut batch);
    assert!(
        probes
            .iter()
            .zip(&batch)
            .all(|(a, d)| table.lookup(&r, *a) == *d)
    );
    let mut all = Vec::new();
    table.for_each(|p, d| all.push((p, d)));
    assert!(all.iter().copied().eq(model.iter().map(|(p, d)| (*p, *d))));
    for (p, _) in all {
        table.remove(p).unwrap();
    }
    assert!(probes.iter().all(|a| table.lookup(&r, *a).is_miss()));
    assert_eq!(arena.live(), 0, "nodes left over");
    r.offline();
    assert_eq!((arena.reclaim(), d.pending()), (0, 0));
}

/// Runs a sequence of batches, comparing after each one.
fn batches<A: Addr>(
    ops: &[Vec<(Prefix<A>, Option<u32>)>],
    edges: fn(Prefix<A>) -> [A; 4],
    filler: &[Prefix<A>],
) {
    let d = Domain::new();
    let mut r = online(&d);
    let (arena, table) = table::<A>(&d);
    let all: Vec<_> = filler.iter().map(|p| (*p, adj(9))).collect();
    table.change(&all).unwrap();
    let mut model: BTreeMap<_, _> = all.into_iter().collect();
    let probes: Vec<A> = ops.iter().flatten().flat_map(|(p, _)| edges(*p)).collect();
    for (step, batch) in ops.iter().enumerate() {
        let dpo = |v: &Option<u32>| v.map_or(Dpo::MISS, |n| adj(n % 3));
        let batch: Vec<_> = batch.iter().map(|(p, v)| (*p, dpo(v))).collect();
        table.change(&batch).unwrap();
        for (p, dpo) in batch {
            if dpo.is_miss() {
                model.remove(&p);
            } else {
                model.insert(p, dpo);
            }
        }
        for &addr in &probes {
            let (seen, right) = (table.lookup(&r, addr), scan(&model, addr));
            assert_eq!(seen, right, "{addr:x?} after step {step}");
        }
        r.quiescent();
    }
    let mut out = vec![Dpo::MISS; probes.len()];
    table.view(&r).lookup_batch(&probes, &mut out);
    let right = |(a, d): (&A, &Dpo)| table.lookup(&r, *a) == *d;
    assert!(probes.iter().zip(&out).all(right));
    assert_eq!(table.len(), model.len());
    let gone: Vec<_> = model.keys().map(|p| (*p, Dpo::MISS)).collect();
    table.change(&gone).unwrap();
    assert!(probes.iter().all(|a| table.lookup(&r, *a).is_miss()));
    assert_eq!((arena.live(), table.len()), (0, 0), "nodes left over");
}

/// Enough prefixes elsewhere to widen the root to `bits`.
fn filler<A: Addr>(bits: u8, prefix: fn(u32) -> Prefix<A>) -> Vec<Prefix<A>> {
    let n = match bits {
        0 => 0,
        8 => 40,
        _ => 8200,
    };
    (0..n).map(prefix).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn ip4_equals_a_linear_scan(
        ops in prop::collection::vec((adversarial4(), any::<Option<u32>>()), 1..80),
        bits in prop::sample::select(&[0u8, 0, 8]),
    ) {
        churn(&ops, edges, &filler(bits, |n| Prefix::masked(0x6400_0000 | n << 10, 24)));
    }

    #[test]
    fn ip6_equals_a_linear_scan(
        ops in prop::collection::vec((adversarial6(), any::<Option<u32>>()), 1..80),
        bits in prop::sample::select(&[0u8, 0, 8]),
    ) {
        churn(&ops, edges6, &filler(bits, |n| Prefix::masked(0x2a00u128 << 112 | u128::from(n) << 80, 48)));
    }

    #[test]
    fn ip4_batches_equal_a_linear_scan(
        ops in prop::collection::vec(prop::collection::vec((adversarial4(), any::<Option<u32>>()), 0..30), 1..8),
        bits in prop::sample::select(&[0u8, 0, 8]),
    ) {
        batches(&ops, edges, &filler(bits, |n| Prefix::masked(0x6400_0000 | n << 10, 24)));
    }

    #[test]
    fn ip6_batches_equal_a_linear_scan(
        ops in prop::collection::vec(prop::collection::vec((adversarial6(), any::<Option<u32>>()), 0..30), 1..8),
        bits in prop::sample::select(&[0u8, 0, 8]),
    ) {
        batches(&ops, edges6, &filler(bits, |n| Prefix::masked(0x2a00u128 << 112 | u128::from(n) << 80, 48)));
    }

    #[test]
    fn the_same_prefixes_come_and_go(
        set in prop::collection::vec(adversarial4(), 1..12),
        ops in prop::collection::vec((any::<prop::sample::Index>(), any::<Option<u32>>()), 1..120),
    ) {
        let ops: Vec<_> = ops.into_iter().map(|(i, v)| (*i.get(&set), v)).collect();
        churn(&ops, edges, &[]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn ip4_with_the_widest_root_equals_a_linear_scan(
        ops in prop::collection::vec((adversarial4(), any::<Option<u32>>()), 40..60),
    ) {
        churn(&ops, edges, &filler(16, |n| Prefix::masked(0x6400_0000 | n << 9, 24)));
    }

    #[test]
    fn ip4_batches_with_the_widest_root_equal_a_linear_scan(
        ops in prop::collection::vec(prop::collection::vec((adversarial4(), any::<Option<u32>>()), 10..20), 2..4),
    ) {
        batches(&ops, edges, &filler(16, |n| Prefix::masked(0x6400_0000 | n << 9, 24)));
    }

    #[test]
    fn ip6_with_the_widest_root_equals_a_linear_scan(
        ops in prop::collection::vec((adversarial6(), any::<Option<u32>>()), 40..60),
    ) {
        churn(&ops, edges6, &filler(16, |n| Prefix::masked(0x2a00u128 << 112 | u128::from(n) << 80, 48)));
    }
}

#[test]
fn the_default_route_is_only_a_last_resort() {
    let d = Domain::new();
    let r = online(&d);
    let (_, t) = table::<u32>(&d);
    assert!(t.lookup(&r, 1).is_miss());
    t.insert(Prefix::default(), adj(1)).unwrap();
    t.insert(Prefix::masked(0x0a00_0000, 8), adj(2)).unwrap();
    assert_eq!(
        (t.lookup(&r, 0x0a01_0101), t.lookup(&r, 0)),
        (adj(2), adj(1))
    );
    assert_eq!(t.insert(Prefix::default(), Dpo::MISS), Ok(Some(adj(1))));
    assert_eq!(
        (t.lookup(&r, 0x0a01_0101), t.lookup(&r, 0)),
        (adj(2), Dpo::MISS)
    );
    assert_eq!(
        t.longest_match(0x0a01_0101),
        Some((Prefix::masked(0x0a00_0000, 8), adj(2)))
    );
}

#[test]
fn a_full_table_refuses_whole_changes_and_recovers() {
    let d = Domain::new();
    let r = online(&d);
    let tables = Ip4Tables::new(&d, 1, 64 * 64).unwrap();
    let index = tables.create().unwrap();
    let t = tables.control(index).unwrap();
    let host = |n: u32| Ip4Prefix::host(n << 16 | 1);
    let (mut fit, mut model) = (0, BTreeMap::new());
    let full = loop {
        match t.insert(host(fit), adj(fit)) {
            Ok(_) => model.insert(host(fit), adj(fit)),
            Err(full) => break full,
        };
        fit += 1;
    };
    let text = "IPv4 forwarding table memory full: the limit is 4096 bytes";
    assert_eq!(full.to_string(), text);
    assert!(fit > 5);
    // One that would have to touch everything: refused as a whole, too.
    let wide = t.insert(Prefix::masked(0, 1), adj(99));
    if wide.is_ok() {
        model.insert(Prefix::masked(0, 1), adj(99));
    }
    for n in 0..fit + 3 {
        for addr in [n << 16, n << 16 | 1, n << 16 | 2] {
            assert_eq!(t.lookup(&r, addr), scan(&model, addr));
        }
    }
    for p in model.into_keys() {
        t.remove(p).unwrap();
    }
    assert!(t.is_empty());
    drop(r);
    tables.reclaim();
    for n in 0..fit {
        t.insert(host(n), adj(n)).unwrap();
    }
}

#[test]
fn a_batch_that_does_not_fit_changes_nothing() {
    let d = Domain::new();
    let r = online(&d);
    let tables = Ip4Tables::new(&d, 1, 64 * 64).unwrap();
    let t = tables.control(tables.create().unwrap()).unwrap();
    let host = |n: u32| Ip4Prefix::host(n << 20 | 1);
    t.insert(host(3), adj(3)).unwrap();
    t.insert(Prefix::default(), adj(7)).unwrap();
    let many: Vec<_> = (0..200).map(|n| (host(n), adj(n + 10))).collect();
    let mut all = many.clone();
    all.push((Prefix::default(), Dpo::MISS));
    let full = t.change(&all).unwrap_err().to_string();
    let text = "IPv4 forwarding table memory full: the limit is 4096 bytes";
    assert_eq!((full.as_str(), t.len()), (text, 2));
    assert_eq!(t.lookup(&r, host(3).addr()), adj(3));
    assert_eq!(t.lookup(&r, host(4).addr()), adj(7));
    t.change(&many[..5]).unwrap();
    assert_eq!(t.lookup(&r, host(3).addr()), adj(13));
}

#[test]
fn memory_comes_back_after_rounds_of_changes() {
    let d = Domain::new();
    let tables = Ip4Tables::new(&d, 1, 1 << 28).unwrap();
    let t = tables.control(tables.create().unwrap()).unwrap();
    let mut seed = 7u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as u32
    };
    let empty = tables.memory();
    let mut early = 0;
    for round in 0..12 {
        let lengths = [16, 20, 22, 24, 24, 24, 28, 32];
        let mut prefix = || Prefix::masked(random() & 0x0fff_ffff, lengths[random() as usize % 8]);
        let all: Vec<Ip4Prefix> = (0..20_000).map(|_| prefix()).collect();
        t.change(
            &all.iter()
                .map(|p| (*p, adj(p.addr() >> 9 & 63)))
                .collect::<Vec<_>>(),
        )
        .unwrap();
        tables.reclaim();
        let full = tables.memory();
        // From the second round on there is what waits for readers, too.
        early = if round < 2 { full } else { early };
        assert!(full < early * 9 / 8, "round {round}: {full}, early {early}");
        // One half one by one, the other at once.
        for p in &all[..10_000] {
            t.remove(*p).unwrap();
        }
        t.change(&all.iter().map(|p| (*p, Dpo::MISS)).collect::<Vec<_>>())
            .unwrap();
        tables.reclaim();
    }
    // What stays is the first large page, which is never given back.
    assert!(t.is_empty());
    assert!(
        tables.memory() < empty + (2 << 20) + 65_536,
        "{}",
        tables.memory()
    );
}

#[test]
fn tables_are_apart_and_come_and_go() {
    let d = Domain::new();
    let mut r = online(&d);
    let tables = Ip6Tables::new(&d, 2, 1 << 20).unwrap();
    let (a, b) = (tables.create().unwrap(), tables.create().unwrap());
    let full = tables.create().unwrap_err().to_string();
    assert_eq!(full, "set of IPv6 tables full: the limit is 2 tables");
    let p: Ip6Prefix = "2001:db8::/32".parse().unwrap();
    tables.control(a).unwrap().insert(p, adj(1)).unwrap();
    tables.control(b).unwrap().insert(p, adj(2)).unwrap();
    let at = |r: &Reader, i| tables.get(r, i).lookup(r, p.addr());
    assert_eq!(
        (at(&r, a), at(&r, b), at(&r, 77)),
        (adj(1), adj(2), Dpo::MISS)
    );
    tables.delete(a).unwrap();
    assert_eq!(
        tables.delete(a),
        Err(FibError::NoTable {
            what: "IPv6 table",
            index: a
        })
    );
    // A reader may be on its way there: it finds the table until it has moved on.
    assert_eq!((at(&r, a), at(&r, b)), (adj(1), adj(2)));
    d.reclaim();
    r.quiescent();
    tables.reclaim();
    assert_eq!((at(&r, a), at(&r, b)), (Dpo::MISS, adj(2)));
    assert_eq!(tables.create(), Ok(a));
    assert!(at(&r, a).is_miss());
}

#[test]
fn thousands_of_empty_tables_are_small() {
    let d = Domain::new();
    let tables = Ip4Tables::new(&d, 10_000, 1 << 30).unwrap();
    for _ in 0..4000 {
        tables.create().unwrap();
    }
    assert!(
        tables.memory() / 4000 < 1024,
        "{} bytes each",
        tables.memory() / 4000
    );
}

/// Readers see, for every address, an answer that was right at some time between the
/// start and the end of the lookup: the writer only ever switches between two.
#[test]
fn lookups_during_changes_give_the_old_or_the_new_answer() {
    let d = Domain::new();
    let (arena, table) = table::<u32>(&d);
    let p = |s: &str| s.parse::<Ip4Prefix>().unwrap();
    let fixed = [
        ("10.0.0.0/8", 1),
        ("10.1.0.0/16", 2),
        ("10.1.2.0/24", 3),
        ("10.1.2.3/32", 4),
    ];
    for (s, n) in fixed {
        table.insert(p(s), adj(n)).unwrap();
    }
    // What comes and goes, by number; each address may see its subset or what is below.
    let moving = [
        ("10.1.0.0/17", 5),
        ("10.1.2.0/25", 6),
        ("0.0.0.0/0", 7),
        ("10.0.0.0/7", 8),
        ("10.1.2.2/31", 9),
        ("10.200.7.0/24", 10),
    ];
    let cases: Vec<(u32, Vec<u32>)> = [
        ("10.1.2.3/32", &[4u32] as &[u32]),
        ("10.1.2.2/32", &[3, 6, 9]),
        ("10.1.2.9/32", &[3, 6]),
        ("10.1.2.200/32", &[3]),
        ("10.1.9.9/32", &[2, 5]),
        ("10.1.200.1/32", &[2]),
        ("10.2.0.0/32", &[1]),
        ("10.200.7.9/32", &[1, 10]),
        ("11.0.0.1/32", &[0, 7, 8]),
        ("12.0.0.1/32", &[0, 7]),
    ]
    .into_iter()
    .map(|(s, allowed)| (p(s).addr(), allowed.to_vec()))
    .collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        for _ in 0..2 {
            let (mut r, table, cases, stop) = (d.register().unwrap(), &table, &cases, &stop);
            s.spawn(move || {
                r.online();
                while !stop.load(SeqCst) {
                    for _ in 0..16 {
                        for (addr, allowed) in cases {
                            let dpo = table.lookup(&r, *addr);
                            let n = if dpo.is_miss() { 0 } else { dpo.index() };
                            assert!(allowed.contains(&n), "{addr:x}: {dpo:?}");
                        }
                    }
                    r.quiescent();
                }
            });
        }
        // A table that grows and shrinks through all widths of the root, elsewhere.
        for round in 0..30_000u32 {
            let (text, n) =
                moving[(round.wrapping_mul(2_654_435_761) >> 13) as usize % moving.len()];
            if round.wrapping_mul(0x9e37_79b9) >> 31 == 0 {
                table.insert(p(text), adj(n)).unwrap();
            } else {
                table.remove(p(text)).unwrap();
            }
            table
                .insert(
                    Prefix::masked(0xc000_0000 | round << 6, 26 + (round % 7) as u8),
                    adj(11),
                )
                .unwrap();
            if round % 64 == 0 {
                arena.reclaim();
            }
        }
        stop.store(true, SeqCst);
    });
    assert_eq!((arena.reclaim(), d.pending()), (0, 0));
    drop(table);
    assert_eq!(arena.live(), 0);
}

#[test]
fn a_table_widened_early_answers_the_same() {
    let d = Domain::new();
    let r = online(&d);
    let (_arena, t) = table::<u32>(&d);
    let p = |s: &str| s.parse::<Ip4Prefix>().unwrap();
    t.insert(p("10.0.0.0/9"), adj(1)).unwrap();
    t.insert(p("10.1.2.0/23"), adj(2)).unwrap();
    t.insert(p("0.0.0.0/0"), adj(3)).unwrap();
    let ask = |t: &Lpm<u32>| [0x0A01_0201, 0x0A01_0401, 0x0A80_0000].map(|a| t.lookup(&r, a));
    let before = ask(&t);
    assert_eq!(before, [adj(2), adj(1), adj(3)]);
    t.widen();
    assert_eq!(ask(&t), before);
    t.insert(p("10.1.4.1/32"), adj(4)).unwrap();
    assert_eq!(ask(&t), [adj(2), adj(4), adj(3)]);
    t.remove(p("10.1.4.1/32")).unwrap();
    assert_eq!(ask(&t), before);
}
