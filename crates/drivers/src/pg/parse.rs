//! VPP's `packet-generator new` text.
//!
//! ```text
//! packet-generator new {
//!   name s0  limit 100  rate 1e6  size 64-64  interface pg0  node ethernet-input
//!   data { IP4: 1.2.3 -> 4.5.6
//!          UDP: 192.168.1.1 - 192.168.1.254 -> 10.0.0.1
//!          UDP: 1234 -> 2345  incrementing 100 } }
//! ```
//!
//! `a-b` counts up, `a+b` draws at random. Beyond VPP's own words there are `seed N` and `variants N` for
//! ranges, `loop` and `speed X` (1 = as recorded) for files.

use super::headers::{Draft, Fill, Start};
use super::scan::{ParseError, Scanner};
use super::spec::{MAX_FRAME, Size, Source, Speed, StreamSpec, Template};

/// Nodes packets can be made for, and what they start with there.
const NODES: [(&str, Start); 8] = [
    ("ethernet-input", Start::Ethernet),
    ("ip4-input", Start::Network(0x0800)),
    ("ip4-lookup", Start::Network(0x0800)),
    ("ip6-input", Start::Network(0x86dd)),
    ("ip6-lookup", Start::Network(0x86dd)),
    ("mpls-input", Start::Network(0x8847)),
    ("mpls-lookup", Start::Network(0x8847)),
    ("arp-input", Start::Network(0x0806)),
];

const WORDS: &str = "name, limit, rate, size, interface, source, node, worker, maxframe, seed, variants, data, pcap, \
                     loop or speed";

/// Shortest frame when the text gives no size, as in VPP.
const DEFAULT_SIZE: usize = 64;
const ETHERNET: usize = 14;

/// The text's parts, in whatever order they come.
struct Parts<'t> {
    spec: StreamSpec,
    size: Option<(Size, usize)>,
    start: Start,
    data: Option<Scanner<'t>>,
    /// The file and where it is named.
    pcap: Option<(&'t str, usize)>,
    looping: bool,
    speed: Option<f64>,
}

impl StreamSpec {
    /// Reads a stream as VPP's `packet-generator new` takes it, with or without these two words and the
    /// braces. A stream for a node below `ethernet-input` gets an Ethernet header to the interface's own
    /// address in front (its size counts without it).
    ///
    /// # Errors
    /// Says where the text is wrong and what is allowed there.
    pub fn parse_vpp(text: &str) -> Result<StreamSpec, ParseError> {
        let mut outer = Scanner::new(text);
        if outer.keyword("packet-generator") && !outer.keyword("new") {
            return Err(outer.expected("`new`"));
        }
        let mut s = if outer.peek() == "{" {
            outer.braces()?
        } else {
            std::mem::replace(&mut outer, Scanner::new(""))
        };
        let placeholder = Source::Replay {
            path: "".into(),
            looping: false,
            speed: Speed::Fast,
        };
        let mut parts = Parts {
            spec: StreamSpec::with_source("", placeholder),
            size: None,
            start: Start::Ethernet,
            data: None,
            pcap: None,
            looping: false,
            speed: None,
        };
        while !s.at_end() {
            parts.word(&mut s)?;
        }
        if !outer.at_end() {
            return Err(outer.expected("nothing behind the closing brace"));
        }
        parts.finish(text)
    }
}

impl<'t> Parts<'t> {
    fn word(&mut self, s: &mut Scanner<'t>) -> Result<(), ParseError> {
        s.skip();
        let start = s.at;
        let word = s.word(&format!("one of {WORDS}"))?;
        match word {
            "name" => self.spec.name = s.word("a name")?.to_owned(),
            "limit" => self.spec.limit = limit(s)?,
            "rate" => self.spec.rate = s.float()?,
            "size" => self.size = Some((size(s)?, start)),
            "interface" | "source" => {
                self.spec.interface = Some(s.word("an interface")?.to_owned())
            }
            "node" => self.start = node(s)?,
            "worker" => self.spec.worker = s.number_of(16)? as usize,
            "maxframe" => self.spec.max_frame = s.number_of(16)? as usize,
            "buffer-size" => drop(s.number()?),
            "seed" => self.spec.seed = s.number()?,
            "variants" => self.spec.max_variants = s.number_of(32)? as usize,
            "loop" => self.looping = true,
            "speed" => self.speed = Some(s.float()?),
            "pcap" => self.pcap = Some((s.word("a file")?, start)),
            "data" => self.data = Some(s.braces()?),
            _ => {
                s.at = start;
                return Err(s.expected(&format!("one of {WORDS}")));
            }
        }
        // What is out of range is said at its place, not at the end.
        let named = StreamSpec {
            name: "x".into(),
            ..self.spec.clone()
        };
        named
            .validate()
            .map_err(|e| ParseError::new(s.text, start, e.0))
    }

    fn finish(mut self, text: &str) -> Result<StreamSpec, ParseError> {
        if self.spec.name.is_empty() {
            return Err(ParseError::new(
                text,
                0,
                "the stream has no name; write `name NAME`",
            ));
        }
        self.spec.source = match (self.data.take(), self.pcap) {
            (Some(mut data), None) => Source::Generate(self.template(&mut data)?),
            (None, Some((path, _))) => self.replay(path, text)?,
            (Some(_), Some((_, at))) => {
                return Err(ParseError::new(
                    text,
                    at,
                    "either `data` or `pcap`, not both",
                ));
            }
            (None, None) => {
                return Err(ParseError::new(
                    text,
                    0,
                    "no packets; write `data { ... }` or `pcap FILE`",
                ));
            }
        };
        let at = self.size.map_or(0, |s| s.1);
        self.spec
            .validate()
            .map_err(|e| ParseError::new(text, at, e.0))?;
        Ok(self.spec)
    }

    fn replay(&self, path: &str, text: &str) -> Result<Source, ParseError> {
        let at = self.pcap.map_or(0, |p| p.1);
        if self.size.is_some() || self.start != Start::Ethernet {
            return Err(ParseError::new(
                text,
                at,
                "a file has its own sizes and starts at ethernet-input",
            ));
        }
        let speed = self.speed.map_or(Speed::Fast, Speed::Recorded);
        Ok(Source::Replay {
            path: path.into(),
            looping: self.looping,
            speed,
        })
    }

    fn template(&self, data: &mut Scanner<'_>) -> Result<Template, ParseError> {
        let begin = data.at;
        if self.looping || self.speed.is_some() {
            return Err(ParseError::new(
                data.text,
                begin,
                "`loop` and `speed` are for `pcap FILE`",
            ));
        }
        let text = data.text;
        let draft = Draft::read(data, self.start)?;
        // VPP counts from the header the node expects.
        let added = if self.start == Start::Ethernet {
            0
        } else {
            ETHERNET
        };
        let needs = draft.bytes.len();
        let (size, at) = match self.size {
            Some((size, at)) => (
                Size {
                    min: size.min + added,
                    max: size.max + added,
                    ..size
                },
                at,
            ),
            None => (Size::fixed(needs.max(DEFAULT_SIZE + added)), begin),
        };
        if size.min < needs {
            let (min, needs) = (size.min - added, needs - added);
            let message = format!("size {min} is less than the {needs} bytes of headers and data");
            return Err(ParseError::new(text, at, message));
        }
        let mut bytes = draft.bytes.clone();
        match draft.fill {
            Fill::Zero => bytes.resize(size.max, 0),
            Fill::Counting(n) => bytes.extend((0..size.max - needs).map(|i| (i as u32 % n) as u8)),
        }
        let fixups = draft.fixups();
        Ok(Template {
            bytes,
            size,
            edits: draft.edits,
            fixups,
            to_interface: added > 0,
        })
    }
}

/// A number of packets; VPP's scripts write -1 for no end.
fn limit(s: &mut Scanner<'_>) -> Result<u64, ParseError> {
    let mut place = s.clone();
    let n = s.float()?;
    match n {
        -1.0 => Ok(0),
        n if (0.0..1e18).contains(&n) => Ok(n as u64),
        _ => Err(place.error(format!("limit {n} is not a number of packets (0 = no end)"))),
    }
}

fn size(s: &mut Scanner<'_>) -> Result<Size, ParseError> {
    let mut place = s.clone();
    let range = s.range(|s| s.number_of(32))?;
    let (min, max) = (
        range.first as usize,
        range.last.unwrap_or(range.first) as usize,
    );
    if max > MAX_FRAME {
        return Err(place.error(format!("size {max} is more than {MAX_FRAME}")));
    }
    Ok(Size {
        min,
        max,
        random: range.random,
    })
}

fn node(s: &mut Scanner<'_>) -> Result<Start, ParseError> {
    let word = s.peek();
    let Some(&(_, start)) = NODES.iter().find(|(name, _)| *name == word) else {
        let names: Vec<_> = NODES.iter().map(|(name, _)| *name).collect();
        return Err(s.expected(&format!(
            "a node packets can be made for ({})",
            names.join(", ")
        )));
    };
    s.word("a node")?;
    Ok(start)
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
