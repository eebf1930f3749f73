//! Fuzzes datagrams that are built from whole samples and then damaged: lengths, counts, tags, words of records, the end.
//!
//! Beside what holds for every datagram, what was not damaged has to arrive as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parshall_fuzz::{heap, plan, properties};
use parshall_sflow_wire::Datagram;

#[global_allocator]
static METER: heap::Meter = heap::Meter;

fuzz_target!(|plan: plan::Plan| {
    properties::check(&plan.good);
    properties::check(&plan.bytes);
    let parse = |bytes| Datagram::parse(bytes).expect("the header is whole");
    let (good, bad) = (parse(&plan.good), parse(&plan.bytes));
    let good: Vec<_> = good.raw_samples().collect();
    let bad: Vec<_> = bad.raw_samples().collect();
    assert_eq!(good.len(), plan.samples.len());
    for n in plan.untouched {
        let got = bad.get(n).copied().expect("a good sample is delivered");
        assert_eq!(got, good[n], "sample {n}");
    }
});
