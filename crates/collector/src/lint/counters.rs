//! Which fields of counter records are counters, and whether they behave like such.
//!
//! A counter grows and wraps, unless its sequence starts again; all ones means that it is not known (sFlow Version 5,
//! section 5). Fields that may fall by their nature (speed, limits, connections that are open) are not listed.

use parshall_sflow_wire::Tag;

/// A counter in a record: where it begins, and whether it has 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    offset: u8,
    wide: bool,
}

const fn n(offset: u8) -> Field {
    Field {
        offset,
        wide: false,
    }
}
const fn w(offset: u8) -> Field {
    Field { offset, wide: true }
}

/// `N` counters of 32 bits, one after the other.
const fn row<const N: usize>(first: u8) -> [Field; N] {
    let mut all = [n(0); N];
    let mut i = 0;
    while i < N {
        all[i] = n(first + 4 * i as u8);
        i += 1;
    }
    all
}

const GENERIC: &[Field] = &[
    w(24),
    n(32),
    n(36),
    n(40),
    n(44),
    n(48),
    n(52),
    w(56),
    n(64),
    n(68),
    n(72),
    n(76),
    n(80),
];
const ETHERNET: [Field; 13] = row(0);
const VLAN: &[Field] = &[w(4), n(12), n(16), n(20), n(24)];
const LAG: [Field; 8] = row(24);
const NET_IO: &[Field] = &[w(0), n(8), n(12), n(16), w(20), n(28), n(32), n(36)];
const ICMP: [Field; 25] = row(0);
const UDP: [Field; 7] = row(0);

/// The counters of a record.
pub fn fields(tag: Tag) -> &'static [Field] {
    match (tag.enterprise(), tag.format()) {
        (0, 1) => GENERIC,
        (0, 2) => &ETHERNET,
        (0, 5) => VLAN,
        (0, 7) => &LAG,
        (0, 2006) => NET_IO,
        (0, 2008) => &ICMP,
        (0, 2010) => &UDP,
        _ => &[],
    }
}

/// What became of a record's counters since the last time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Byte of the first counter that fell, with its values before and now.
    pub fell: Option<(usize, u64, u64)>,
    /// Byte of the first counter that became known or unknown.
    pub availability: Option<usize>,
}

/// Compares two bodies of the same record.
pub fn compare(tag: Tag, was: &[u8], now: &[u8]) -> Change {
    let mut change = Change::default();
    for f in fields(tag) {
        let at = usize::from(f.offset);
        let (Some((a, unknown_a)), Some((b, unknown_b))) = (value(was, *f), value(now, *f)) else {
            continue;
        };
        if unknown_a != unknown_b {
            change.availability = change.availability.or(Some(at));
        } else if fell(*f, a, b) {
            change.fell = change.fell.or(Some((at, a, b)));
        }
    }
    change
}

/// A counter's value, and whether it says that it is not known.
fn value(body: &[u8], f: Field) -> Option<(u64, bool)> {
    let rest = body.get(usize::from(f.offset)..)?;
    if f.wide {
        let v = u64::from_be_bytes(*rest.first_chunk()?);
        return Some((v, v == u64::MAX));
    }
    let v = u32::from_be_bytes(*rest.first_chunk()?);
    Some((u64::from(v), v == u32::MAX))
}

/// One of 32 bits may wrap: a step of more than half the range is one back.
fn fell(f: Field, was: u64, now: u64) -> bool {
    if f.wide {
        now < was
    } else {
        (now as u32).wrapping_sub(was as u32) > u32::MAX / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_sflow_wire::CounterRecord;
    use parshall_sflow_wire::record::IfCounters;

    fn generic(in_octets: u64, in_errors: u32, promiscuous: u32) -> Vec<u8> {
        let zero = CounterRecord::decode(Tag::new(0, 1), &[0; 88], 0).unwrap();
        let CounterRecord::Interface(r) = zero else {
            panic!("not the generic record")
        };
        let mut out = Vec::new();
        CounterRecord::Interface(IfCounters {
            in_octets,
            in_errors,
            promiscuous,
            ..r
        })
        .write_body(&mut out);
        out
    }

    #[test]
    fn falls_wraps_and_unknown_counters() {
        let tag = Tag::new(0, 1);
        let c = |a: &[u8], b: &[u8]| compare(tag, a, b);
        let base = generic(100, 5, 2);
        assert_eq!(c(&base, &generic(100, 6, 1)), Change::default());
        assert_eq!(
            c(&base, &generic(99, 5, 2)).fell,
            Some((24, 100, 99)),
            "64 bits do not wrap"
        );
        assert_eq!(c(&base, &generic(100, 4, 2)).fell, Some((48, 5, 4)));
        assert_eq!(
            c(&generic(0, u32::MAX - 2, 2), &generic(0, 3, 2)),
            Change::default(),
            "32 bits do"
        );
        assert_eq!(c(&base, &generic(100, u32::MAX, 2)).availability, Some(48));
        assert_eq!(
            c(&generic(u64::MAX, 5, 2), &generic(7, 5, 2)).availability,
            Some(24)
        );
        assert_eq!(
            c(&base, &base[..30]),
            Change::default(),
            "cut short: nothing to compare"
        );
    }

    #[test]
    fn every_listed_field_lies_in_its_record() {
        for (format, size) in [
            (1, 88),
            (2, 52),
            (5, 28),
            (7, 56),
            (2006, 40),
            (2008, 100),
            (2010, 28),
        ] {
            let last = fields(Tag::new(0, format))
                .iter()
                .map(|f| usize::from(f.offset) + if f.wide { 8 } else { 4 })
                .max();
            assert!(last.is_some_and(|end| end <= size), "{format}");
        }
    }
}
