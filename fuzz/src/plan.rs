//! Datagrams with a structure: a plan says which samples of which records there are, and what is then wrong with them.
//!
//! Random bytes rarely get past the first length. A plan starts from whole samples whose records come from the seeds of `sflow_datagram`, which
//! have nearly every one, and from packets of its own; then it overwrites words where they matter: tags, lengths, counts, any word of a record.

use std::sync::LazyLock;

use arbitrary::{Arbitrary, Result, Unstructured};
use parshall_sflow_wire::{Datagram, RawRecord, Sample};

/// Bytes before the first sample: the agent's address is IPv4.
pub const HEADER: usize = 28;
/// Most samples and records of each: enough to stand before and behind a bad one.
const MOST: usize = 6;

/// Records by the kind of sample they belong in, tag and body.
struct Templates {
    flow: Vec<(u32, Vec<u8>)>,
    counter: Vec<(u32, Vec<u8>)>,
}

macro_rules! seeds {
    ($($name:literal)*) => {
        [$( &include_bytes!(concat!("../seeds/sflow_datagram/", $name))[..] ),*]
    };
}

static TEMPLATES: LazyLock<Templates> = LazyLock::new(|| {
    let mut t = Templates {
        flow: Vec::new(),
        counter: Vec::new(),
    };
    let own = |r: RawRecord<'_>| (r.tag.0, r.body.to_vec());
    for seed in
        seeds!("records-0" "records-1" "records-2" "records-3" "records-4" "records-5" "records-6")
    {
        let Ok(d) = Datagram::parse(seed) else {
            continue;
        };
        for sample in d.samples().flatten() {
            match sample {
                Sample::Flow(s) => t.flow.extend(s.records().flatten().map(own)),
                Sample::Discard(s) => t.flow.extend(s.records().flatten().map(own)),
                Sample::Counters(s) => t.counter.extend(s.records().flatten().map(own)),
                Sample::Other(_) => {}
            }
        }
    }
    assert!(t.flow.len() > 30 && t.counter.len() > 20, "seeds are there");
    t
});

/// A number that is likely to be wrong in an interesting way.
#[derive(Arbitrary, Debug, Clone, Copy)]
enum Word {
    Zero,
    One,
    Small(u8),
    AllOnes,
    /// Lengths that overflow when they are rounded up.
    NearTop(u8),
    Sign,
    /// So much more or less than it was.
    By(i8),
    Any(u32),
}

impl Word {
    fn from(self, was: u32) -> u32 {
        match self {
            Word::Zero => 0,
            Word::One => 1,
            Word::Small(n) => n.into(),
            Word::AllOnes => u32::MAX,
            Word::NearTop(n) => u32::MAX - u32::from(n),
            Word::Sign => 1 << 31,
            Word::By(n) => was.wrapping_add_signed(n.into()),
            Word::Any(n) => n,
        }
    }
}

#[derive(Arbitrary, Debug)]
struct Record {
    /// Which template.
    template: u8,
    /// A raw header with these bytes instead.
    packet: Option<(u8, Vec<u8>)>,
    /// The length says this many bytes fewer than there are, up to a word: without the padding.
    unpadded: u8,
}

#[derive(Arbitrary, Debug)]
struct Part {
    /// Which kind of sample.
    kind: u8,
    head: [u8; 4],
    records: Vec<Record>,
}

/// What goes wrong, and where: in the sample of that number.
#[derive(Arbitrary, Debug)]
enum Edit {
    /// A word of the sample's body: a count, a record's tag or length, or contents.
    Body { sample: u8, word: u16, value: Word },
    /// The sample's own tag or length.
    Frame {
        sample: u8,
        length: bool,
        value: Word,
    },
    /// The number of samples.
    Samples(Word),
    /// The end.
    Cut(u16),
}

/// A datagram and what is known of it.
#[derive(Debug)]
pub struct Plan {
    /// The datagram.
    pub bytes: Vec<u8>,
    /// The same before anything went wrong.
    pub good: Vec<u8>,
    /// Where the samples lie in `good`, tag and length included.
    pub samples: Vec<std::ops::Range<usize>>,
    /// Samples that are to arrive as they were.
    pub untouched: Vec<usize>,
}

impl<'a> Arbitrary<'a> for Plan {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let mut parts = Vec::new();
        for _ in 0..u.int_in_range(1..=MOST)? {
            parts.push(Part::arbitrary(u)?);
        }
        let mut edits = Vec::new();
        while edits.len() < 8 && !u.is_empty() {
            edits.push(Edit::arbitrary(u)?);
        }
        Ok(Plan::new(&parts, &edits))
    }
}

impl Plan {
    fn new(parts: &[Part], edits: &[Edit]) -> Plan {
        let header = [5, 1, 0xC000_0201, 0, 1, 1, parts.len() as u32];
        let mut good: Vec<u8> = header.iter().flat_map(|w: &u32| w.to_be_bytes()).collect();
        let mut samples = Vec::new();
        for part in parts {
            let start = good.len();
            part.write(&mut good);
            samples.push(start..good.len());
        }
        let mut plan = Plan {
            bytes: good.clone(),
            untouched: (0..samples.len()).collect(),
            good,
            samples,
        };
        for e in edits {
            plan.edit(e);
        }
        plan
    }

    fn edit(&mut self, e: &Edit) {
        let pick = |n: u8, of: &[std::ops::Range<usize>]| usize::from(n) % of.len();
        match *e {
            Edit::Body {
                sample,
                word,
                value,
            } => {
                let n = pick(sample, &self.samples);
                let body = self.samples[n].start + 8..self.samples[n].end;
                let at = body.start + usize::from(word) % (body.len() / 4) * 4;
                self.overwrite(at, value);
                self.untouched.retain(|k| *k != n);
            }
            Edit::Frame {
                sample,
                length,
                value,
            } => {
                let n = pick(sample, &self.samples);
                self.overwrite(self.samples[n].start + 4 * usize::from(length), value);
                // A tag costs this sample, a length whatever comes after it.
                self.untouched.retain(|k| *k < n || (*k > n && !length));
            }
            Edit::Samples(value) => {
                self.overwrite(HEADER - 4, value);
                let word = self.bytes.get(HEADER - 4..).and_then(|b| b.first_chunk());
                let count = word.map_or(0, |w| u32::from_be_bytes(*w));
                self.untouched.retain(|k| (*k as u64) < u64::from(count));
            }
            Edit::Cut(at) => {
                let end = HEADER + usize::from(at) % (self.good.len() - HEADER + 1);
                self.bytes.truncate(end);
                let samples = &self.samples;
                self.untouched.retain(|k| samples[*k].end <= end);
            }
        }
    }

    fn overwrite(&mut self, at: usize, value: Word) {
        if let Some(word) = self.bytes.get_mut(at..at + 4) {
            let mut was = [0; 4];
            was.copy_from_slice(word);
            word.copy_from_slice(&value.from(u32::from_be_bytes(was)).to_be_bytes());
        }
    }
}

impl Part {
    fn write(&self, out: &mut Vec<u8>) {
        let [a, b, c, d] = self.head.map(u32::from);
        let (tag, head): (u32, Vec<u32>) = match self.kind % 5 {
            0 => (1, vec![a, b, c, d, 0, b, c << 30 | d]),
            1 => (3, vec![a, 0, b, c, d, 0, c & 3, b, d & 3, c]),
            2 => (2, vec![a, b]),
            3 => (4, vec![a, 0, b]),
            _ => (5, vec![a, 0, b, c, b, d, u32::from(self.head[0]) << 1]),
        };
        let put = |out: &mut Vec<u8>, w: u32| out.extend(w.to_be_bytes());
        put(out, tag);
        let at = out.len();
        put(out, 0);
        head.iter().for_each(|w| put(out, *w));
        let records = &self.records[..self.records.len().min(MOST)];
        put(out, records.len() as u32);
        for r in records {
            r.write(matches!(tag, 2 | 4), out);
        }
        let length = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
}

impl Record {
    fn write(&self, counter: bool, out: &mut Vec<u8>) {
        let templates = if counter {
            &TEMPLATES.counter
        } else {
            &TEMPLATES.flow
        };
        let (mut tag, mut body) = templates[usize::from(self.template) % templates.len()].clone();
        if let (Some((protocol, packet)), false) = (&self.packet, counter) {
            tag = 1;
            body = [u32::from(*protocol), 1518, 4, packet.len() as u32]
                .iter()
                .flat_map(|w| w.to_be_bytes())
                .collect();
            body.extend(packet);
        }
        let short = usize::from(self.unpadded % 4).min(body.len());
        let length = body.len() - if body.len() % 4 == 0 { 0 } else { short };
        out.extend(tag.to_be_bytes());
        out.extend((length as u32).to_be_bytes());
        body.resize(length.next_multiple_of(4), 0);
        out.extend(body);
    }
}
