//! The page of drop reasons is made from the list; `PARSHALL_BLESS=1 cargo test -p parshall-control` writes it anew.

use std::fmt::Write;

use parshall_counters::DropReason;
use parshall_sflow_wire::reason;

const HEAD: &str = "# Drop reasons

Made from the one list that counters, captures, traces and sFlow share. Every packet that is dropped has one of these
reasons; how to look at them is in [Watch drops](../how-to/watch-drops.md).

The code is that of an sFlow discarded packet sample (0:5); group and reason are also in its hardware trap record
(0:1041). *Header* says whether the sample shows the packet: of some losses only a number is left.

| reason | what it means | sFlow code | group | header |
|---|---|---|---|---|
";

fn page() -> String {
    let mut out = HEAD.to_owned();
    for r in DropReason::ALL {
        let code = r.sflow_code();
        let name = reason::name(code).expect("a registered code");
        let header = if r.has_no_header() { "no" } else { "yes" };
        let _ = writeln!(
            out,
            "| `{}` | {} | {code} {name} | {} | {header} |",
            r.name(),
            r.text(),
            r.group().name()
        );
    }
    out
}

#[test]
fn the_page_is_what_the_list_says() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/drop-reasons.md"
    );
    let want = page();
    if std::env::var_os("PARSHALL_BLESS").is_some() {
        std::fs::write(path, &want).unwrap();
    }
    let have = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        have == want,
        "docs/reference/drop-reasons.md is out of date: PARSHALL_BLESS=1 cargo test -p parshall-control writes it"
    );
}
