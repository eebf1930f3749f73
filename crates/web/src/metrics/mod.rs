//! The catalogue of metrics: each described once, with how it is read from a snapshot, a file for each kind of thing. The
//! reference page is made from it.

mod interfaces;
mod sflow;
mod tables;
mod workers;

use parshall_control::snapshot::Snapshot;

use crate::expose::{Family, Format, Kind, Sample};

/// A metric: its description and where its values are.
struct Metric {
    family: Family,
    read: fn(&Snapshot) -> Vec<Sample>,
}

const fn metric(
    kind: Kind,
    name: &'static str,
    unit: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    read: fn(&Snapshot) -> Vec<Sample>,
) -> Metric {
    Metric {
        family: Family {
            name,
            kind,
            unit,
            help,
            labels,
        },
        read,
    }
}

fn one(value: f64) -> Vec<Sample> {
    vec![(Vec::new(), value)]
}

fn bool_value(b: bool) -> f64 {
    f64::from(u8::from(b))
}

/// Metrics of the router as a whole.
const METRICS: &[Metric] = &[
    metric(
        Kind::Info,
        "parshall_build",
        "",
        &["version", "arch"],
        "Which program this is.",
        |s| vec![(vec![s.version.version.clone(), s.version.arch.clone()], 1.0)],
    ),
    metric(
        Kind::Gauge,
        "parshall_uptime_seconds",
        "seconds",
        &[],
        "Time since the router started.",
        |s| one((s.uptime_seconds * 1000.0).round() / 1000.0),
    ),
    metric(
        Kind::Gauge,
        "parshall_healthy",
        "",
        &[],
        "Whether every worker thread runs.",
        |s| one(bool_value(s.healthy)),
    ),
];

/// All metrics, in the order they are written.
fn all() -> impl Iterator<Item = &'static Metric> {
    let families = [
        METRICS,
        interfaces::METRICS,
        workers::METRICS,
        sflow::METRICS,
        tables::METRICS,
    ];
    families.into_iter().flatten()
}

/// All metrics of a snapshot.
pub(crate) fn text(snapshot: &Snapshot, format: Format) -> String {
    let mut out = String::with_capacity(16 << 10);
    for m in all() {
        m.family.write(&mut out, format, &(m.read)(snapshot));
    }
    if format == Format::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

/// The catalogue as the reference page.
pub fn page() -> String {
    let mut out = String::from(
        "# Metrics\n\nMade from the catalogue that `/metrics` is written from. How to collect them is in\n\
         [Monitor with Prometheus](../how-to/monitor-with-prometheus.md). Counters count from the start of the router or\n\
         the making of an interface; `clear` commands do not touch them. A metric without a value is left out.\n\n\
         | name | type | labels | what it says |\n|---|---|---|---|\n",
    );
    for Metric { family: f, .. } in all() {
        let kind = match f.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Info => "info",
        };
        out += &format!(
            "| `{}` | {kind} | {} | {} |\n",
            f.sample_name(),
            f.labels.join(", "),
            f.help
        );
    }
    out
}
