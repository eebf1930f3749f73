//! What is shown while traffic runs: a block of lines every second, redrawn in place on a terminal.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};

use crate::estimate::Sums;
use crate::number::{bits, grouped, rounded};
use crate::router::Reading;
use crate::tally::Tally;

/// Flows listed.
const TOP: usize = 5;

/// Where progress goes. Whoever reads it may go away: then there is nobody to tell, and the work goes on.
pub struct Display {
    out: Box<dyn Write>,
    redraw: bool,
    /// Lines of the block on the screen.
    shown: usize,
}

impl Display {
    /// Progress on standard output, or on standard error if `json` has the former.
    pub fn new(json: bool) -> Display {
        if json {
            let redraw = io::stderr().is_terminal();
            Display {
                out: Box::new(io::stderr()),
                redraw,
                shown: 0,
            }
        } else {
            let redraw = io::stdout().is_terminal();
            Display {
                out: Box::new(io::stdout()),
                redraw,
                shown: 0,
            }
        }
    }

    /// A line that stays.
    pub fn say(&mut self, text: &str) {
        let _ = writeln!(self.out, "{text}").and_then(|()| self.out.flush());
        self.shown = 0;
    }

    /// A block that takes the place of the last one.
    pub fn block(&mut self, lines: &[String]) {
        let mut text = String::new();
        if self.redraw && self.shown > 0 {
            // Up to the block's first line, then clear to the end of the screen (ECMA-48 CUU and ED).
            text = format!("\x1b[{}A\x1b[J", self.shown);
        }
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        let _ = self
            .out
            .write_all(text.as_bytes())
            .and_then(|()| self.out.flush());
        self.shown = lines.len();
    }
}

/// The state at one moment.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Seconds since traffic started.
    pub seconds: f64,
    /// The router's counters.
    pub readings: Vec<Reading>,
    /// What the collector knows.
    pub tally: Tally,
    /// Drops by reason.
    pub drops: BTreeMap<String, u64>,
}

/// The lines for what happened between two moments; `of` is the length of the whole in seconds.
pub fn lines(before: &Moment, now: &Moment, start: &Moment, of: u64) -> Vec<String> {
    let seconds = (now.seconds - before.seconds).max(1e-3);
    let mut out = vec![format!(
        "{:>4.0} s of {of:<4}     {:>12} {:>14}   {:>12} {:>14}",
        now.seconds, "packets/s", "", "sFlow says", ""
    )];
    for reading in &now.readings {
        out.extend(interface_lines(reading, before, now, seconds));
    }
    out.push("top flows seen by sFlow".into());
    let top = now.tally.top_since(&before.tally, TOP);
    for (key, sums) in &top {
        let rate = bits(sums.bytes() * 8.0 / seconds);
        out.push(format!("  {:<52} {rate:>14}", key.to_string()));
    }
    out.extend((top.len()..TOP).map(|_| "  -".to_owned()));
    out.push(format!("drops  {}", drops_text(&start.drops, &now.drops)));
    let samples = now.tally.samples - before.tally.samples;
    out.push(format!(
        "sFlow  {} samples/s, {} in all, {} lost",
        rounded(samples as f64 / seconds),
        grouped(now.tally.samples - start.tally.samples),
        grouped(now.tally.lost_since(&start.tally)),
    ));
    out
}

/// One interface: received and sent, as the router counts it and as the samples say.
fn interface_lines(reading: &Reading, before: &Moment, now: &Moment, seconds: f64) -> [String; 2] {
    let was = before.readings.iter().find(|r| r.name == reading.name);
    let was = was.cloned().unwrap_or_default();
    // A counter that was cleared from outside shows as no packets for a second.
    let grown = |now: u64, was: u64| now.saturating_sub(was);
    let index = now.tally.index_of(&reading.name).unwrap_or(0);
    let line = |direction, packets, bytes, sums: &Sums| {
        rate_line(&reading.name, direction, packets, bytes, sums, seconds)
    };
    [
        line(
            "rx",
            grown(reading.rx_packets, was.rx_packets),
            grown(reading.rx_bytes, was.rx_bytes),
            &now.tally.received_since(&before.tally, index),
        ),
        line(
            "tx",
            grown(reading.tx_packets, was.tx_packets),
            grown(reading.tx_bytes, was.tx_bytes),
            &now.tally.sent_since(&before.tally, index),
        ),
    ]
}

fn rate_line(
    name: &str,
    direction: &str,
    packets: u64,
    bytes: u64,
    sums: &Sums,
    seconds: f64,
) -> String {
    format!(
        "{name:<12} {direction:<3} {:>12} {:>14}   {:>12} {:>14}",
        rounded(packets as f64 / seconds),
        bits(bytes as f64 * 8.0 / seconds),
        rounded(sums.packets() / seconds),
        bits(sums.bytes() * 8.0 / seconds),
    )
}

/// Drops since the start by reason, most frequent first, on one line.
pub fn drops_text(start: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) -> String {
    let mut all = drops_since(start, now);
    if all.is_empty() {
        return "none".into();
    }
    all.sort_by(|(ra, a), (rb, b)| b.cmp(a).then(ra.cmp(rb)));
    let text: Vec<_> = all
        .iter()
        .map(|(reason, n)| format!("{reason} {}", grouped(*n)))
        .collect();
    text.join(", ")
}

/// Drops since the start by reason, those that did not happen left out.
pub fn drops_since(
    start: &BTreeMap<String, u64>,
    now: &BTreeMap<String, u64>,
) -> Vec<(String, u64)> {
    now.iter()
        .map(|(reason, n)| {
            (
                reason.clone(),
                n.saturating_sub(start.get(reason).copied().unwrap_or(0)),
            )
        })
        .filter(|(_, n)| *n > 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(redraw: bool) -> String {
        let sink = Sink::default();
        let mut d = Display {
            out: Box::new(sink.clone()),
            redraw,
            shown: 0,
        };
        d.say("start");
        d.block(&["a".into(), "b".into()]);
        d.block(&["c".into()]);
        d.say("end");
        d.block(&["d".into()]);
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_block_replaces_the_last_one_on_a_terminal_only() {
        assert_eq!(written(false), "start\na\nb\nc\nend\nd\n");
        assert_eq!(written(true), "start\na\nb\n\x1b[2A\x1b[Jc\nend\nd\n");
    }

    fn moment(seconds: f64, packets: u64) -> Moment {
        Moment {
            seconds,
            readings: vec![Reading {
                name: "host-vethA".into(),
                rx_packets: packets,
                rx_bytes: packets * 1000,
                ..Reading::default()
            }],
            tally: Tally::default(),
            drops: [
                ("ip4_ttl_expired".to_owned(), packets / 100),
                ("no_route".to_owned(), 7),
            ]
            .into(),
        }
    }

    #[test]
    fn the_block_shows_what_happened_in_between() {
        let (start, now) = (moment(0.0, 0), moment(2.0, 4000));
        let lines = lines(&start, &now, &start, 30);
        // Redrawing in place wants the same number of lines every time, and lines that do not wrap.
        assert_eq!(lines.len(), 1 + 2 + 1 + TOP + 2);
        assert!(lines.iter().all(|l| l.len() <= 79), "{lines:#?}");
        assert!(
            lines[1].contains("2,000") && lines[1].contains("16.0 Mbit/s"),
            "{}",
            lines[1]
        );
        assert_eq!(lines[2 + 1 + TOP + 1], "drops  ip4_ttl_expired 40");
        assert_eq!(drops_text(&start.drops, &start.drops), "none");
    }
}
