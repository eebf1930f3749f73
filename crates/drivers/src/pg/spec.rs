//! What a stream is, before any packet is made: frame template, sizes, ranges, rate, limit.
//!
//! A [`Template`] is the longest frame of the stream, a list of [`Edit`]s (fields that change from
//! packet to packet) and a list of [`Fixup`]s (lengths and checksums that follow from the rest).
//! Everything here is plain data; `expand` turns it into the frames a worker copies.

use std::path::PathBuf;

use super::fields::{Edit, Field, Fixup, Values};
use super::layout::Layout;

/// Shortest frame a receive queue may hand on: one Ethernet header.
pub const MIN_FRAME: usize = 14;
/// Longest frame a stream may have, in bytes without FCS.
pub const MAX_FRAME: usize = 65_535;
/// Edits and fixups must lie in the first this many bytes of the frame, so that they are all in the
/// first buffer of a chain.
pub const MAX_HEADERS: usize = 512;
/// Different frames a stream keeps unless told otherwise: a range longer than this starts again early.
pub const DEFAULT_VARIANTS: usize = 1 << 20;
/// Upper bound of [`StreamSpec::max_variants`].
pub const MAX_VARIANTS: usize = 1 << 24;
/// Highest rate that can be asked for, in packets per second.
pub const MAX_RATE: f64 = 1e9;

/// Why a stream cannot be made: what is wrong and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(pub String);

/// A stream: what it sends, how fast, how often, from which worker.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamSpec {
    /// Its name, unique on an interface.
    pub name: String,
    /// Interface at whose input the packets appear, when the text names one ("interface pg0").
    pub interface: Option<String>,
    /// Number of the worker (counted from 0) whose receive queue makes the packets.
    pub worker: usize,
    /// Packets to make each time the stream is enabled; 0 = for ever (a replay: once through the file).
    pub limit: u64,
    /// Packets per second; 0 = as fast as the worker polls (a replay: see [`Speed`]).
    pub rate: f64,
    /// Most packets put into one frame, 1 to 256.
    pub max_frame: usize,
    /// Seed of the random ranges: the same seed makes the same packets.
    pub seed: u64,
    /// Most different frames kept, 1 to [`MAX_VARIANTS`].
    pub max_variants: usize,
    /// Where the packets come from.
    pub source: Source,
}

/// Where a stream's packets come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Made from a template.
    Generate(Template),
    /// Read from a pcap file.
    Replay {
        /// The file.
        path: PathBuf,
        /// Start again at the end, for ever (unless [`StreamSpec::limit`] says how often).
        looping: bool,
        /// How fast, when [`StreamSpec::rate`] is 0.
        speed: Speed,
    },
}

/// How fast a file is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// As fast as the worker polls.
    Fast,
    /// With the gaps recorded in the file, divided by this factor (2.0 = twice as fast).
    Recorded(f64),
}

/// The frames of a generated stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// The longest frame, from its Ethernet header, without FCS.
    pub bytes: Vec<u8>,
    /// Lengths of the frames.
    pub size: Size,
    /// Fields that change from packet to packet, applied in order.
    pub edits: Vec<Edit>,
    /// Lengths and checksums to set afterwards, applied in order (inner ones first).
    pub fixups: Vec<Fixup>,
    /// Whether the destination address is to be that of the interface.
    pub to_interface: bool,
}

/// Lengths of a stream's frames in bytes, Ethernet header included, FCS not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Shortest.
    pub min: usize,
    /// Longest.
    pub max: usize,
    /// Drawn at random instead of one longer each time.
    pub random: bool,
}

impl Size {
    /// All frames `n` bytes long.
    pub fn fixed(n: usize) -> Size {
        Size {
            min: n,
            max: n,
            random: false,
        }
    }
}

impl StreamSpec {
    /// A stream of this one frame (from its Ethernet header, without FCS), on worker 0, without limit,
    /// as fast as possible. Lengths and checksums are found in the frame and kept right when sizes or
    /// fields vary.
    ///
    /// # Errors
    /// When the frame is shorter than an Ethernet header or longer than [`MAX_FRAME`].
    pub fn from_frame(name: &str, frame: &[u8]) -> Result<StreamSpec, SpecError> {
        let template = Template {
            bytes: frame.to_vec(),
            size: Size::fixed(frame.len()),
            edits: Vec::new(),
            fixups: Layout::of(frame).fixups(frame),
            to_interface: false,
        };
        let spec = StreamSpec::with_source(name, Source::Generate(template));
        spec.validate()?;
        Ok(spec)
    }

    /// A stream that replays a pcap file once.
    pub fn from_pcap(name: &str, path: impl Into<PathBuf>, speed: Speed) -> StreamSpec {
        StreamSpec::with_source(
            name,
            Source::Replay {
                path: path.into(),
                looping: false,
                speed,
            },
        )
    }

    pub(super) fn with_source(name: &str, source: Source) -> StreamSpec {
        StreamSpec {
            name: name.to_owned(),
            interface: None,
            worker: 0,
            limit: 0,
            rate: 0.0,
            max_frame: parshall_buffer::FRAME_SIZE,
            seed: 1,
            max_variants: DEFAULT_VARIANTS,
            source,
        }
    }

    /// Lets a field of the template take these values.
    ///
    /// # Errors
    /// When the template has no such field, or a value does not fit into it.
    pub fn vary(
        mut self,
        field: Field,
        values: impl Into<Values>,
    ) -> Result<StreamSpec, SpecError> {
        let Source::Generate(template) = &mut self.source else {
            return Err(SpecError("a replayed file has no fields to vary".into()));
        };
        let edit = Layout::of(&template.bytes)
            .edit(field, values.into())
            .ok_or_else(|| SpecError(format!("the frame has no {field:?} to vary")))?;
        template.edits.push(edit);
        self.validate()?;
        Ok(self)
    }

    /// Sets the lengths of the frames; the template is cut or filled up with zero bytes.
    ///
    /// # Errors
    /// When a length is out of range or cuts the headers.
    pub fn sized(mut self, size: Size) -> Result<StreamSpec, SpecError> {
        let Source::Generate(template) = &mut self.source else {
            return Err(SpecError("a replayed file has its own sizes".into()));
        };
        template.bytes.resize(size.max.min(MAX_FRAME), 0);
        template.size = size;
        self.validate()?;
        Ok(self)
    }

    /// Checks everything a file or a command may have got wrong.
    ///
    /// # Errors
    /// Says the first value that is not allowed and what is.
    pub fn validate(&self) -> Result<(), SpecError> {
        let frame = parshall_buffer::FRAME_SIZE;
        ensure(!self.name.is_empty(), || "a stream needs a name".into())?;
        ensure(
            self.rate.is_finite() && (0.0..=MAX_RATE).contains(&self.rate),
            || {
                format!(
                    "rate {} is not from 0 (as fast as possible) to {MAX_RATE:.0} packets per second",
                    self.rate
                )
            },
        )?;
        ensure((1..=frame).contains(&self.max_frame), || {
            format!("maxframe {} is not from 1 to {frame}", self.max_frame)
        })?;
        ensure((1..=MAX_VARIANTS).contains(&self.max_variants), || {
            format!(
                "variants {} is not from 1 to {MAX_VARIANTS}",
                self.max_variants
            )
        })?;
        match &self.source {
            Source::Generate(template) => template.validate(),
            Source::Replay {
                speed: Speed::Recorded(x),
                ..
            } => ensure(x.is_finite() && *x > 0.0 && *x <= 1e6, || {
                format!("speed {x} is not above 0 and up to 1000000")
            }),
            Source::Replay { .. } => Ok(()),
        }
    }
}

impl Template {
    fn validate(&self) -> Result<(), SpecError> {
        let Size { min, max, .. } = self.size;
        let headers = self.header_bytes();
        ensure(min <= max, || {
            format!("size {min}-{max} ends before it starts")
        })?;
        ensure(
            (MIN_FRAME..=MAX_FRAME).contains(&min) && max <= MAX_FRAME,
            || format!("size {min}-{max} is not within {MIN_FRAME} to {MAX_FRAME} bytes"),
        )?;
        ensure(headers <= min, || {
            format!("size {min} is less than the {headers} bytes of headers")
        })?;
        ensure(headers <= MAX_HEADERS, || {
            format!(
                "fields up to byte {headers} vary; only the first {MAX_HEADERS} bytes of a frame may"
            )
        })?;
        ensure(self.bytes.len() >= max, || {
            format!(
                "the template has {} bytes, {max} are to be sent",
                self.bytes.len()
            )
        })?;
        self.edits.iter().try_for_each(Edit::validate)
    }

    /// Bytes up to the end of the last field that an edit or a fixup touches.
    pub fn header_bytes(&self) -> usize {
        let edits = self.edits.iter().map(|e| e.at.saturating_add(e.bytes));
        edits
            .chain(self.fixups.iter().map(Fixup::needs))
            .max()
            .unwrap_or(0)
    }
}

pub(super) fn ensure(ok: bool, why: impl FnOnce() -> String) -> Result<(), SpecError> {
    if ok { Ok(()) } else { Err(SpecError(why())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(r: Result<StreamSpec, SpecError>) -> String {
        r.err().map_or_else(String::new, |e| e.0)
    }

    #[test]
    fn wrong_values_say_what_is_allowed() {
        let spec = StreamSpec::from_frame("s", &[0; 64]).unwrap();
        assert_eq!(
            message(StreamSpec::from_frame("s", &[0; 13])),
            "size 13-13 is not within 14 to 65535 bytes"
        );
        assert_eq!(
            message(spec.clone().sized(Size {
                min: 80,
                max: 70,
                random: false
            })),
            "size 80-70 ends before it starts"
        );
        assert_eq!(
            message(spec.clone().vary(Field::Ip4Source, 1u32..=2)),
            "the frame has no Ip4Source to vary"
        );
        let bad = StreamSpec {
            rate: -1.0,
            ..spec.clone()
        };
        assert_eq!(
            bad.validate().unwrap_err().0,
            "rate -1 is not from 0 (as fast as possible) to 1000000000 packets per second"
        );
        let bad = StreamSpec {
            max_frame: 257,
            ..spec
        };
        assert_eq!(
            bad.validate().unwrap_err().0,
            "maxframe 257 is not from 1 to 256"
        );
    }
}
