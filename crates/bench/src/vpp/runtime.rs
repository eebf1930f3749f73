//! Reads `show runtime`.

use crate::BenchError;

/// What one worker did since `clear runtime`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runtime {
    /// Packets a second in.
    pub input: f64,
    /// Packets a second out.
    pub out: f64,
    /// Packets a second dropped.
    pub drop: f64,
    /// Nodes that saw packets.
    pub nodes: Vec<Node>,
}

/// A node that saw packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Name.
    pub name: String,
    /// Packets.
    pub vectors: f64,
    /// Clocks a packet.
    pub clocks: f64,
}

impl Runtime {
    /// The thread of `text` that forwards most: with one worker, the worker.
    ///
    /// # Errors
    /// When no thread's rates can be read.
    pub fn parse(text: &str) -> Result<Runtime, BenchError> {
        let mut threads: Vec<Runtime> = Vec::new();
        for line in text.lines() {
            if let Some((_, rates)) = line.split_once("vector rates in ") {
                let mut numbers = rates.split(|c: char| c == ',' || c.is_whitespace());
                let mut after = |name: &str| match name {
                    "" => numbers.next().and_then(|n| n.parse().ok()).unwrap_or(0.0),
                    _ => {
                        numbers.find(|w| *w == name);
                        numbers.next().and_then(|n| n.parse().ok()).unwrap_or(0.0)
                    }
                };
                threads.push(Runtime {
                    input: after(""),
                    out: after("out"),
                    drop: after("drop"),
                    nodes: Vec::new(),
                });
            } else if let (Some(thread), Some(node)) = (threads.last_mut(), node(line)) {
                thread.nodes.push(node);
            }
        }
        let busiest = threads
            .into_iter()
            .max_by(|a, b| a.input.total_cmp(&b.input));
        busiest.ok_or_else(|| BenchError(format!("no rates in VPP's `show runtime`: {text}")))
    }

    /// All that came in went out (to a thousandth: the counters are not read at one moment).
    pub fn forwards(&self) -> bool {
        self.out > 0.0 && self.drop < self.out / 1000.0
    }

    /// Clocks of all nodes for a packet that went out.
    pub fn clocks(&self) -> f64 {
        let most = self.nodes.iter().map(|n| n.vectors).fold(1.0, f64::max);
        self.nodes.iter().map(|n| n.clocks * n.vectors).sum::<f64>() / most
    }
}

/// A row: name, state (one or two words), calls, vectors, suspends, clocks, vectors a call. Only those of
/// nodes that saw packets: clocks of others are per call.
fn node(line: &str) -> Option<Node> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, .., _calls, vectors, _suspends, clocks, _per_call] = words[..] else {
        return None;
    };
    let (vectors, clocks) = (vectors.parse().ok()?, clocks.parse().ok()?);
    (vectors > 0.0).then(|| Node {
        name: name.to_owned(),
        vectors,
        clocks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub const TEXT: &str = include_str!("show_runtime.txt");

    #[test]
    fn the_worker_is_read() {
        let r = Runtime::parse(TEXT).unwrap();
        assert_eq!((r.input, r.out, r.drop), (1.4503e7, 1.4503e7, 0.0));
        let names: Vec<_> = r.nodes.iter().map(|n| n.name.as_str()).collect();
        let expected = [
            "ethernet-input",
            "ip4-input",
            "ip4-lookup",
            "ip4-rewrite",
            "pg-input",
            "pg1-output",
            "pg1-tx",
        ];
        assert_eq!(names, expected);
        assert!(r.forwards());
        assert!((r.clocks() - 177.0).abs() < 0.1, "{}", r.clocks());
    }

    #[test]
    fn drops_are_no_forwarding() {
        let text = TEXT.replace("out 1.4503e7, drop 0.0000e0", "out 1.0e6, drop 1.3503e7");
        assert!(!Runtime::parse(&text).unwrap().forwards());
    }

    #[test]
    fn nonsense_is_refused_and_half_lines_do_no_harm() {
        assert!(Runtime::parse("unknown input `runtime'").is_err());
        let r = Runtime::parse("  vector rates in x, out\nfoo bar 1 2 3\na b c d e f g\n").unwrap();
        assert_eq!(r, Runtime::default());
        assert!(!r.forwards());
    }
}
