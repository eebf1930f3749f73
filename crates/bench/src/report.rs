//! Prints what was measured: a table for people, one object for machines.

use crate::measure::{Report, SflowRate};

/// Prints the report.
pub fn print(report: &Report, json: bool) {
    if json {
        match serde_json::to_string(report) {
            Ok(text) => println!("{text}"),
            Err(e) => eprintln!("parshall bench: {e}"),
        }
        return;
    }
    println!(
        "{}, TSC {:.2} GHz; {}; medians, lowest and highest window",
        report.cpu,
        report.tsc_hz as f64 / 1e9,
        report.of
    );
    println!(
        "{:<10} {:>9} {:>8} {:>17} {:>8} {:>10} {:>6}  cycles by node",
        "case", "sflow", "Mpps", "(min - max)", "cycles", "samples", "lost"
    );
    for r in &report.cases {
        let sflow = match r.sflow {
            SflowRate::Off => "off".to_string(),
            SflowRate::OneIn(n) => format!("1:{n}"),
        };
        let nodes: Vec<_> = r.nodes.iter().map(|(n, c)| format!("{n} {c}")).collect();
        println!(
            "{:<10} {:>9} {:>8.2} {:>8.2} - {:>6.2} {:>8.1} {:>10} {:>6}  {}",
            r.case,
            sflow,
            r.mpps,
            r.mpps_min,
            r.mpps_max,
            r.cycles_per_packet,
            r.samples,
            r.samples_lost,
            nodes.join(", ")
        );
    }
}
