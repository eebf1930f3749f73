//! The report for people: the table, the traffic, and what must hold.

use crate::display::drops_text;
use crate::estimate::Comparison;
use crate::number::{bits, grouped, rounded};
use crate::traffic::{Kind, StreamReport};
use crate::verdict::Verdict;

/// Lines of the report.
pub fn lines(v: &Verdict) -> Vec<String> {
    let mut out = vec![
        String::new(),
        format!(
            "{:.0} seconds, one packet in {} sampled, {} samples",
            v.seconds,
            grouped(v.rate.into()),
            grouped(v.samples)
        ),
        String::new(),
        format!(
            "{:<11} {:<8} {:>15} {:>15} {:>8} {:>10}  {}",
            "interface", "received", "true", "sFlow says", "error", "95 % bound", "within"
        ),
    ];
    for row in &v.rows {
        out.push(comparison(&row.name, "packets", &row.packets));
        out.push(comparison(&row.name, "bytes", &row.bytes));
    }
    out.push("A 95 % bound is missed one time in twenty by design.".into());
    out.push(String::new());
    out.extend(v.traffic.iter().map(stream));
    let drops = v.drops.iter().cloned().collect();
    out.push(format!(
        "drops      {}",
        drops_text(&Default::default(), &drops)
    ));
    out.push(String::new());
    for check in &v.checks {
        out.push(format!(
            "{:<4} {}",
            if check.ok { "ok" } else { "FAIL" },
            check.text
        ));
    }
    out
}

fn comparison(name: &str, what: &str, c: &Comparison) -> String {
    format!(
        "{name:<11} {what:<8} {:>15} {:>15} {:>8} {:>10}  {}",
        grouped(c.truth),
        rounded(c.estimate),
        format!("{:+.2} %", c.error() * 100.0),
        format!("{:.2} %", c.relative_bound() * 100.0),
        if c.within(1.0) { "yes" } else { "no" },
    )
}

fn stream(t: &StreamReport) -> String {
    let what = match t.kind {
        Kind::Tcp => bits(t.mbps() * 1e6),
        Kind::Datagrams => format!(
            "{} of {} packets arrived",
            grouped(t.received),
            grouped(t.sent)
        ),
        Kind::Echo => format!(
            "{} of {} answered, {:.0} microseconds on average",
            grouped(t.received),
            grouped(t.sent),
            t.rtt_us.unwrap_or(0.0)
        ),
    };
    format!("{:<6} {}  {what}", t.name, t.direction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{Check, Row};

    #[test]
    fn the_table() {
        let c = Comparison {
            truth: 1_000_000,
            estimate: 995_000.0,
            bound95: 10_000.0,
        };
        let v = Verdict {
            seconds: 30.0,
            rate: 100,
            rows: vec![Row {
                name: "host-vethA".into(),
                packets: c,
                bytes: Comparison { bound95: 1.0, ..c },
            }],
            flows: Vec::new(),
            drops: vec![("no_route".into(), 3)],
            samples: 9950,
            lost: 0,
            traffic: Vec::new(),
            checks: vec![Check {
                name: "pool",
                ok: false,
                text: "the pool is off".into(),
            }],
        };
        let text = lines(&v).join("\n");
        let row = "host-vethA  packets        1,000,000         995,000  -0.50 %     1.00 %  yes";
        assert!(text.contains(row), "{text}");
        assert!(
            text.contains("  no\n") && text.contains("one time in twenty"),
            "{text}"
        );
        assert!(
            text.contains("drops      no_route 3") && text.ends_with("FAIL the pool is off"),
            "{text}"
        );
    }
}
