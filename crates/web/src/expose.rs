//! Metric families as text: the Prometheus text format 0.0.4, and OpenMetrics 1.0.
//!
//! The two differ in little, and that little matters: OpenMetrics names a counter's family without `_total`, states
//! units, knows `info`, and ends with `# EOF`.

use std::fmt::Write;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The Prometheus text format 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The one that an Accept header prefers.
    pub fn accepted(accept: &str) -> Format {
        if accept.contains("application/openmetrics-text") {
            Format::OpenMetrics
        } else {
            Format::Text
        }
    }

    /// Its content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until the router starts anew.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Its labels are what it says.
    Info,
}

/// A metric's description.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its name without suffix.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its base unit, which ends its name; empty for none.
    pub unit: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Names of its labels.
    pub labels: &'static [&'static str],
}

/// A sample: values of the labels, and the value.
pub type Sample = (Vec<String>, f64);

impl Family {
    /// The name its samples have.
    pub fn sample_name(&self) -> String {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Gauge => "",
            Kind::Info => "_info",
        };
        format!("{}{suffix}", self.name)
    }

    /// Writes the family and its samples; nothing at all when there are none.
    pub fn write(&self, out: &mut String, format: Format, samples: &[Sample]) {
        if samples.is_empty() {
            return;
        }
        let sample = self.sample_name();
        let (name, kind) = match (format, self.kind) {
            (Format::OpenMetrics, Kind::Info) => (self.name, "info"),
            (Format::Text, Kind::Info) => (sample.as_str(), "gauge"),
            (Format::OpenMetrics, Kind::Counter) => (self.name, "counter"),
            (Format::Text, Kind::Counter) => (sample.as_str(), "counter"),
            (_, Kind::Gauge) => (self.name, "gauge"),
        };
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(out, "# TYPE {name} {kind}");
        if format == Format::OpenMetrics && !self.unit.is_empty() {
            let _ = writeln!(out, "# UNIT {name} {}", self.unit);
        }
        let _ = writeln!(out, "# HELP {name} {}", escaped(self.help, false));
        for (values, value) in samples {
            out.push_str(&sample);
            let pairs = self.labels.iter().zip(values);
            for (i, (label, text)) in pairs.enumerate() {
                let open = if i == 0 { '{' } else { ',' };
                let _ = write!(out, "{open}{label}=\"{}\"", escaped(text, true));
            }
            let close = if values.is_empty() { "" } else { "}" };
            let _ = writeln!(out, "{close} {value}");
        }
    }
}

/// A text as both formats carry it: backslash and line feed escaped, in labels the quote too.
fn escaped(text: &str, quote: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quote => out.push_str("\\\""),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: Family = Family {
        name: "x_bytes",
        kind: Kind::Counter,
        unit: "bytes",
        help: "Bytes\nof \"x\".",
        labels: &["a", "b"],
    };

    #[test]
    fn both_formats_word_for_word() {
        let samples = [(vec!["q\"\\\n".to_owned(), "ü".to_owned()], 1e15)];
        let mut text = String::new();
        BYTES.write(&mut text, Format::Text, &samples);
        assert_eq!(
            text,
            "# TYPE x_bytes_total counter\n# HELP x_bytes_total Bytes\\nof \"x\".\n\
             x_bytes_total{a=\"q\\\"\\\\\\n\",b=\"ü\"} 1000000000000000\n"
        );
        let mut text = String::new();
        BYTES.write(&mut text, Format::OpenMetrics, &samples);
        assert_eq!(
            text,
            "# TYPE x_bytes counter\n# UNIT x_bytes bytes\n# HELP x_bytes Bytes\\nof \"x\".\n\
             x_bytes_total{a=\"q\\\"\\\\\\n\",b=\"ü\"} 1000000000000000\n"
        );
        let mut text = String::new();
        BYTES.write(&mut text, Format::Text, &[]);
        assert_eq!(text, "");
    }

    #[test]
    fn the_format_is_the_one_asked_for() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;q=0.5";
        assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
        assert_eq!(Format::accepted("*/*"), Format::Text);
        assert_eq!(Format::accepted(""), Format::Text);
    }
}
