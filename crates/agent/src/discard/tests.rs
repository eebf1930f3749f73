//! Tests of limits, turns and counts of discards.

use super::*;
use parshall_ring::ring;

const MS: u64 = 1_000_000;

fn drop_of(reason: DropReason) -> DropSlot {
    DropSlot {
        reason: reason.code(),
        ..DropSlot::default()
    }
}

/// Offers `n` of each reason every millisecond for `ms`; counts what is sent by reason.
fn run(limit: u32, ms: u64, each: &[(DropReason, u64)]) -> (HashMap<u16, u64>, Discards) {
    let (mut p, c) = ring(4096);
    let mut d = Discards::new(limit);
    d.add_rings([c]);
    let mut sent = HashMap::new();
    for now in (0..ms).map(|t| SECOND + t * MS) {
        for (reason, n) in each {
            for _ in 0..*n {
                // A full ring is part of the test.
                let _ = p.push(drop_of(*reason));
            }
        }
        d.drain(now);
        while let Some(slot) = d.next(now) {
            d.numbered();
            d.done(&slot, Fate::Reported);
            *sent.entry(slot.reason).or_default() += 1;
        }
    }
    (sent, d)
}

#[test]
fn the_limit_holds_and_all_else_is_counted() {
    let (sent, d) = run(100, 10_000, &[(DropReason::NoRoute, 3)]);
    let n = sent[&DropReason::NoRoute.code()];
    assert!((1000..=1010).contains(&n), "{n}");
    assert_eq!(d.suppressed() + n + d.waiting as u64, 30_000);
}

#[test]
fn reasons_share_the_limit_and_rare_ones_get_all_of_theirs() {
    let flood = [
        (DropReason::NoRoute, 50),
        (DropReason::Ip4TtlExpired, 1),
        (DropReason::UnknownVlan, 10),
    ];
    let (sent, _) = run(300, 5_000, &flood);
    for (reason, _) in flood {
        let n = sent[&reason.code()];
        assert!((480..=520).contains(&n), "{n} of {}", reason.name());
    }
}

#[test]
fn one_of_every_reason_is_seen_beside_a_flood() {
    let (mut p, c) = ring(1024);
    let mut d = Discards::new(200);
    d.add_rings([c]);
    let mut seen = std::collections::BTreeSet::new();
    // Long enough for one of each at 200 a second, and the flood's share; none waits as long as PATIENCE.
    for t in 0..(DropReason::COUNT as u64 + 10) * 10 {
        let now = SECOND + t * MS;
        for _ in 0..40 {
            let _ = p.push(drop_of(DropReason::NoRoute));
        }
        if t == 5 {
            for &reason in DropReason::ALL {
                p.push(drop_of(reason)).unwrap();
            }
        }
        d.drain(now);
        while let Some(slot) = d.next(now) {
            seen.insert(slot.reason);
        }
    }
    assert_eq!(seen.len(), DropReason::COUNT);
}

#[test]
fn what_waited_too_long_is_not_sent() {
    let mut d = Discards::new(1);
    d.offer(SECOND, drop_of(DropReason::NoRoute));
    d.offer(SECOND, drop_of(DropReason::NoRoute));
    assert!(d.next(SECOND).is_some());
    assert_eq!(d.due(), 2 * SECOND);
    assert!(d.next(2 * SECOND).is_none());
    assert_eq!((d.suppressed(), d.waiting, d.due()), (1, 0, u64::MAX));
}

#[test]
fn off_reports_nothing_and_still_knows_the_last() {
    let mut d = Discards::new(0);
    d.offer(SECOND, drop_of(DropReason::NoRoute));
    assert!(d.next(9 * SECOND).is_none());
    assert!(d.reasons[DropReason::NoRoute as usize].last.is_some());
    d.offer(
        SECOND,
        DropSlot {
            reason: u16::MAX,
            ..DropSlot::default()
        },
    );
}

#[test]
fn losses_without_a_packet_are_told_once_a_look_and_counted() {
    let mut d = Discards::new(100);
    let report = |index, rx_missed, tx_errors| IfReport {
        index,
        totals: IfTotals {
            rx_missed,
            tx_errors,
            ..IfTotals::default()
        },
        ..IfReport::default()
    };
    d.observe(SECOND, &[report(1, 7, 0), report(2, 0, 0)], 40);
    assert_eq!(d.waiting, 0);
    d.observe(2 * SECOND, &[report(1, 17, 0), report(2, 0, 1)], 40);
    assert_eq!((d.waiting, d.suppressed()), (2, 9));
    let told: Vec<_> = std::iter::from_fn(|| d.next(2 * SECOND))
        .map(|s| (s.reason, s.rx_if, s.tx_if, s.header_len))
        .collect();
    let (missed, refused) = (DropReason::RxMissed.code(), DropReason::TxError.code());
    assert_eq!(told.len(), 2);
    assert!(told.contains(&(missed, 1, u32::MAX, 0)));
    assert!(told.contains(&(refused, u32::MAX, 2, 0)));
    // Cleared counters are no loss.
    d.observe(3 * SECOND, &[report(1, 0, 0)], 40);
    assert_eq!(d.waiting, 0);
    // Packets that there was no buffer for have no interface.
    d.observe(4 * SECOND, &[report(1, 0, 0)], 43);
    let s = d.next(4 * SECOND).unwrap();
    assert_eq!(s.reason, DropReason::NoBufferSpace.code());
    assert_eq!((s.rx_if, s.tx_if, d.suppressed()), (u32::MAX, u32::MAX, 11));
}

#[test]
fn frame_lengths_are_those_of_hsflowd() {
    let mut slot = drop_of(DropReason::NoRoute);
    (slot.frame_len, slot.header_len) = (100, 60);
    let h = raw_header(&slot);
    assert_eq!(
        (h.protocol, h.frame_length, h.stripped, h.header.len()),
        (1, 104, 4, 60)
    );
    slot.protocol = HeaderProtocol::Ip6;
    let h = raw_header(&slot);
    assert_eq!((h.protocol, h.frame_length, h.stripped), (12, 118, 18));
}

/// Sums of a status: all that was seen, and the parts that it must be made of.
fn sums(d: &Discards) -> (u64, u64) {
    let s = d.status(&crate::fake::FakeRouter::default());
    for r in &s.reasons {
        let parts = r.reported + r.suppressed + r.unexported;
        assert!(parts <= s.seen, "{}", r.reason);
    }
    (s.seen, s.reported + s.suppressed + s.unexported + s.waiting)
}

#[test]
fn all_that_is_seen_is_reported_suppressed_unexported_or_waits() {
    let mut d = Discards::new(10);
    for fate in [Fate::Reported, Fate::Refused, Fate::Unexported] {
        for now in (1..=40).map(|t| t * SECOND / 10) {
            for r in [DropReason::NoRoute, DropReason::UnknownVlan] {
                d.offer(now, drop_of(r));
            }
            d.lose(now, DropReason::RxMissed, 5, (1, false));
            while let Some(slot) = d.next(now) {
                d.done(&slot, fate);
            }
            let (seen, parts) = sums(&d);
            assert_eq!(seen, parts);
        }
    }
    assert_eq!(sums(&d).0, 3 * 40 * 7);
    let s = d.status(&crate::fake::FakeRouter::default());
    assert!(
        s.reported > 30 && s.unexported > 30 && s.waiting > 0,
        "{s:?}"
    );
    // What waits when monitoring ends was not reported either.
    d.set_limit(0);
    d.offer(9 * SECOND, drop_of(DropReason::NoRoute));
    assert_eq!(sums(&d), (841, 841));
    assert_eq!(d.status(&crate::fake::FakeRouter::default()).waiting, 0);
}
