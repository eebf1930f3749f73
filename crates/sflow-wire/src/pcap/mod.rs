//! Takes UDP datagrams out of capture files.
//!
//! Reads classic pcap (either byte order, micro- and nanoseconds) and pcapng from any [`Read`], standard input included, one packet at a time.
//! Follows the libpcap file format (`pcap-savefile(5)`) and `draft-ietf-opsawg-pcapng`. A length in the file is believed only up to
//! [`MAX_PACKET`].

mod link;

use std::io::{self, Read};

use thiserror::Error;

pub use link::{Udp, find_udp};

/// The longest packet that is read, libpcap's own limit.
pub const MAX_PACKET: usize = 262_144;

/// Why a capture cannot be read further.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// Reading failed.
    #[error("reading failed at byte {offset}: {source}")]
    Io {
        /// Where in the file.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The file does not begin like a capture.
    #[error("not a pcap or pcapng file: it begins with {0:08x}")]
    Magic(u32),
    /// The file is empty or ends within its header.
    #[error("not a pcap or pcapng file: it ends within its header, after {0} bytes")]
    NoHeader(u64),
    /// The file ends within a packet.
    #[error("the file is cut short: it ends within the packet at byte {0}")]
    CutShort(u64),
    /// A packet or block claims an impossible length.
    #[error(
        "the packet at byte {offset} claims {len} bytes, more than the {MAX_PACKET} that are possible"
    )]
    Length {
        /// Where in the file.
        offset: u64,
        /// What it claims.
        len: u32,
    },
}

/// A packet of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Seconds since 1970-01-01 UTC.
    pub seconds: u32,
    /// Microseconds after that.
    pub micros: u32,
    /// The link type of the interface it was captured on, as pcap numbers them.
    pub link_type: u32,
    /// Bytes on the wire; more than `data` has if the capture was limited.
    pub wire_len: u32,
    /// The captured bytes.
    pub data: &'a [u8],
    /// Where the packet's record is in the file.
    pub offset: u64,
}

/// An open capture.
#[derive(Debug)]
pub struct Capture<R> {
    input: Counted<R>,
    kind: Kind,
    buf: Vec<u8>,
}

#[derive(Debug)]
enum Kind {
    Pcap {
        swapped: bool,
        nanos: bool,
        link_type: u32,
    },
    Pcapng {
        swapped: bool,
        interfaces: Vec<Interface>,
    },
}

/// An interface of a pcapng section.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link_type: u32,
    /// Units of the time stamp in a second.
    per_second: u64,
    snap_len: u32,
}

const PCAPNG_SECTION: u32 = 0x0A0D_0D0A;
const PCAPNG_ORDER: u32 = 0x1A2B_3C4D;
/// More interfaces than a capture can reasonably have; further ones are not remembered.
const MAX_INTERFACES: usize = 4096;

impl<R: Read> Capture<R> {
    /// Reads the file header.
    pub fn open(input: R) -> Result<Self, CaptureError> {
        let mut input = Counted { input, offset: 0 };
        let mut head = [0; 4];
        if input.fill(&mut head)? != 4 {
            return Err(CaptureError::NoHeader(input.offset));
        }
        let magic = u32::from_le_bytes(head);
        let mut capture = Capture {
            input,
            kind: Kind::Pcapng {
                swapped: false,
                interfaces: Vec::new(),
            },
            buf: Vec::new(),
        };
        match magic {
            PCAPNG_SECTION => capture.section()?,
            0xA1B2_C3D4 | 0xD4C3_B2A1 => capture.pcap_header(magic == 0xD4C3_B2A1, false)?,
            0xA1B2_3C4D | 0x4D3C_B2A1 => capture.pcap_header(magic == 0x4D3C_B2A1, true)?,
            _ => return Err(CaptureError::Magic(u32::from_be_bytes(head))),
        }
        Ok(capture)
    }

    /// The next packet, or nothing at the end of the file.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        match self.kind {
            Kind::Pcap {
                swapped,
                nanos,
                link_type,
            } => self.pcap_packet(swapped, nanos, link_type),
            Kind::Pcapng { .. } => self.pcapng_packet(),
        }
    }

    /// What the capture is read from.
    pub const fn get_ref(&self) -> &R {
        &self.input.input
    }

    /// Bytes read so far.
    pub const fn offset(&self) -> u64 {
        self.input.offset
    }

    fn pcap_header(&mut self, swapped: bool, nanos: bool) -> Result<(), CaptureError> {
        let mut head = [0; 20];
        if self.input.fill(&mut head)? != head.len() {
            return Err(CaptureError::NoHeader(self.input.offset));
        }
        // The upper bits say how long frame check sequences are.
        let link_type = word(&head, 16, swapped) & 0xFFFF;
        self.kind = Kind::Pcap {
            swapped,
            nanos,
            link_type,
        };
        Ok(())
    }

    fn pcap_packet(
        &mut self,
        swapped: bool,
        nanos: bool,
        link_type: u32,
    ) -> Result<Option<Packet<'_>>, CaptureError> {
        let offset = self.input.offset;
        let mut head = [0; 16];
        match self.input.fill(&mut head)? {
            0 => return Ok(None),
            16 => {}
            _ => return Err(CaptureError::CutShort(offset)),
        }
        let fraction = word(&head, 4, swapped);
        let len = word(&head, 8, swapped);
        self.body(len, offset)?;
        Ok(Some(Packet {
            seconds: word(&head, 0, swapped),
            micros: if nanos { fraction / 1000 } else { fraction },
            link_type,
            wire_len: word(&head, 12, swapped),
            data: &self.buf,
            offset,
        }))
    }

    /// Reads so many bytes into the buffer.
    fn body(&mut self, len: u32, offset: u64) -> Result<(), CaptureError> {
        if len as usize > MAX_PACKET {
            return Err(CaptureError::Length { offset, len });
        }
        self.buf.resize(len as usize, 0);
        if self.input.fill(&mut self.buf)? != len as usize {
            return Err(CaptureError::CutShort(offset));
        }
        Ok(())
    }

    /// Reads a section header block after its type.
    fn section(&mut self) -> Result<(), CaptureError> {
        let offset = self.input.offset - 4;
        let mut head = [0; 8];
        if self.input.fill(&mut head)? != head.len() {
            return Err(CaptureError::CutShort(offset));
        }
        let swapped = match word(&head, 4, false) {
            PCAPNG_ORDER => false,
            n if n.swap_bytes() == PCAPNG_ORDER => true,
            n => return Err(CaptureError::Magic(n)),
        };
        let len = word(&head, 0, swapped);
        self.body(len.saturating_sub(12), offset)?;
        self.kind = Kind::Pcapng {
            swapped,
            interfaces: Vec::new(),
        };
        Ok(())
    }

    fn pcapng_packet(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        loop {
            let offset = self.input.offset;
            let Some(block) = self.block(offset)? else {
                return Ok(None);
            };
            if let Some(found) = self.packet_in(block) {
                return Ok(Some(found.packet(&self.buf, offset)));
            }
        }
    }

    /// Reads the next block into the buffer and gives its type.
    fn block(&mut self, offset: u64) -> Result<Option<u32>, CaptureError> {
        let mut kind = [0; 4];
        match self.input.fill(&mut kind)? {
            0 => return Ok(None),
            4 => {}
            _ => return Err(CaptureError::CutShort(offset)),
        }
        if u32::from_le_bytes(kind) == PCAPNG_SECTION {
            self.section()?;
            return Ok(Some(PCAPNG_SECTION));
        }
        let swapped = self.swapped();
        let mut len = [0; 4];
        if self.input.fill(&mut len)? != 4 {
            return Err(CaptureError::CutShort(offset));
        }
        let len = word(&len, 0, swapped);
        // The length counts itself twice and the type; what is shorter cannot be stepped over.
        if len < 12 {
            return Err(CaptureError::Length { offset, len });
        }
        self.body(len - 8, offset)?;
        Ok(Some(word(&kind, 0, swapped)))
    }

    fn swapped(&self) -> bool {
        matches!(self.kind, Kind::Pcapng { swapped: true, .. })
    }

    /// Finds the packet in the block that was read last, or takes note of what else it says.
    fn packet_in(&mut self, block: u32) -> Option<Found> {
        let Kind::Pcapng {
            swapped,
            ref mut interfaces,
        } = self.kind
        else {
            return None;
        };
        let body = &self.buf;
        match block {
            1 if interfaces.len() < MAX_INTERFACES => {
                interfaces.push(Interface::read(body, swapped));
                None
            }
            6 => {
                let interface = *interfaces.get(word(body, 0, swapped) as usize)?;
                let ticks =
                    u64::from(word(body, 4, swapped)) << 32 | u64::from(word(body, 8, swapped));
                let found = Found {
                    interface,
                    ticks,
                    start: 20,
                    len: word(body, 12, swapped),
                    wire_len: word(body, 16, swapped),
                };
                found.within(body)
            }
            3 => {
                let interface = *interfaces.first()?;
                let wire_len = word(body, 0, swapped);
                let most = match interface.snap_len {
                    0 => u32::MAX,
                    n => n,
                };
                let found = Found {
                    interface,
                    ticks: 0,
                    start: 4,
                    len: wire_len.min(most),
                    wire_len,
                };
                found.within(body)
            }
            _ => None,
        }
    }
}

/// Where a packet lies in a block.
struct Found {
    interface: Interface,
    ticks: u64,
    start: usize,
    len: u32,
    wire_len: u32,
}

impl Found {
    /// Nothing if the block is too short for the packet. The last four bytes repeat the block's length.
    fn within(self, body: &[u8]) -> Option<Found> {
        let end = self.start.checked_add(self.len as usize)?;
        (end <= body.len().saturating_sub(4)).then_some(self)
    }

    fn packet<'a>(&self, body: &'a [u8], offset: u64) -> Packet<'a> {
        let per_second = self.interface.per_second.max(1);
        let rest = u128::from(self.ticks % per_second) * 1_000_000 / u128::from(per_second);
        let end = self.start + self.len as usize;
        Packet {
            seconds: (self.ticks / per_second) as u32,
            micros: rest as u32,
            link_type: self.interface.link_type,
            wire_len: self.wire_len,
            data: body.get(self.start..end).unwrap_or(&[]),
            offset,
        }
    }
}

impl Interface {
    fn read(body: &[u8], swapped: bool) -> Self {
        Interface {
            link_type: u32::from(half(body, swapped)),
            per_second: time_resolution(body, swapped),
            snap_len: word(body, 4, swapped),
        }
    }
}

/// Option 9 of an interface description: a power of ten, or of two if the top bit is set.
fn time_resolution(body: &[u8], swapped: bool) -> u64 {
    let mut rest = body.get(8..body.len().saturating_sub(4)).unwrap_or(&[]);
    while let [a, b, c, d, tail @ ..] = rest {
        let (code, len) = (half(&[*a, *b], swapped), half(&[*c, *d], swapped));
        match (code, tail.first()) {
            (0, _) => break,
            (9, Some(r)) if r & 0x80 != 0 => {
                return 1u64.checked_shl(u32::from(r & 0x7F)).unwrap_or(1_000_000);
            }
            (9, Some(r)) => return 10u64.checked_pow(u32::from(*r)).unwrap_or(1_000_000),
            _ => {}
        }
        rest = tail
            .get(usize::from(len).next_multiple_of(4)..)
            .unwrap_or(&[]);
    }
    1_000_000
}

/// The first two bytes as a number, 0 if there are none.
fn half(bytes: &[u8], swapped: bool) -> u16 {
    let n = bytes.first_chunk().map_or(0, |b| u16::from_le_bytes(*b));
    if swapped { n.swap_bytes() } else { n }
}

/// The word at an offset, 0 beyond the end.
fn word(bytes: &[u8], at: usize, swapped: bool) -> u32 {
    let w = bytes
        .get(at..)
        .and_then(|b| b.first_chunk())
        .map_or(0, |w| u32::from_le_bytes(*w));
    if swapped { w.swap_bytes() } else { w }
}

/// Counts what is read.
#[derive(Debug)]
struct Counted<R> {
    input: R,
    offset: u64,
}

impl<R: Read> Counted<R> {
    /// Reads until the buffer is full or the input ends, and says how much.
    fn fill(&mut self, buf: &mut [u8]) -> Result<usize, CaptureError> {
        let mut filled = 0;
        while filled < buf.len() {
            match self.input.read(&mut buf[filled..]) {
                Ok(0) => break,
                Ok(n) => {
                    filled += n;
                    self.offset += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(CaptureError::Io {
                        offset: self.offset,
                        source,
                    });
                }
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(swapped: bool, list: &[u32]) -> Vec<u8> {
        list.iter()
            .flat_map(|w| {
                if swapped {
                    w.to_be_bytes()
                } else {
                    w.to_le_bytes()
                }
            })
            .collect()
    }

    fn pcap(swapped: bool, magic: u32, fraction: u32) -> Vec<u8> {
        let mut f = words(swapped, &[magic, 0x0004_0002, 0, 0, 65_535, 1]);
        f.extend(words(swapped, &[1000, fraction, 3, 60]));
        f.extend([1, 2, 3]);
        f
    }

    #[test]
    fn classic_files_in_both_orders_and_resolutions() {
        for swapped in [false, true] {
            for (magic, fraction) in [(0xA1B2_C3D4, 7), (0xA1B2_3C4D, 7999)] {
                let file = pcap(swapped, magic, fraction);
                let mut c = Capture::open(&file[..]).unwrap();
                let p = c.next_packet().unwrap().unwrap();
                let want = Packet {
                    seconds: 1000,
                    micros: 7,
                    link_type: 1,
                    wire_len: 60,
                    data: &[1, 2, 3],
                    offset: 24,
                };
                assert_eq!(p, want);
                assert!(c.next_packet().unwrap().is_none());
            }
        }
    }

    fn pcapng(swapped: bool) -> Vec<u8> {
        let w = |list: &[u32]| words(swapped, list);
        let mut f = words(false, &[PCAPNG_SECTION]);
        f.extend(w(&[28, PCAPNG_ORDER, 1, u32::MAX, u32::MAX, 28]));
        // An interface: SLL2, nanoseconds.
        let half = |a: u16, b: u16| {
            let (a, b) = if swapped {
                (a.to_be_bytes(), b.to_be_bytes())
            } else {
                (a.to_le_bytes(), b.to_le_bytes())
            };
            [a, b].concat()
        };
        f.extend(w(&[1, 32]));
        f.extend(half(276, 0));
        f.extend(w(&[0]));
        f.extend(half(9, 1));
        f.extend([9, 0, 0, 0]);
        f.extend(half(0, 0));
        f.extend(w(&[32]));
        // A block of an unknown type.
        f.extend(w(&[0x99, 16, 5, 16]));
        // 1000.000007999 seconds.
        let ticks = 1_000_000_007_999u64;
        f.extend(w(&[6, 36, 0, (ticks >> 32) as u32, ticks as u32, 3, 60]));
        f.extend([1, 2, 3, 0]);
        f.extend(w(&[36]));
        f
    }

    #[test]
    fn pcapng_files_in_both_orders() {
        for swapped in [false, true] {
            let file = pcapng(swapped);
            let mut c = Capture::open(&file[..]).unwrap();
            let p = c.next_packet().unwrap().unwrap();
            assert_eq!((p.seconds, p.micros, p.link_type), (1000, 7, 276));
            assert_eq!((p.data, p.wire_len), (&[1u8, 2, 3][..], 60));
            assert!(c.next_packet().unwrap().is_none());
        }
    }

    #[test]
    fn faults_are_named() {
        assert!(matches!(
            Capture::open(&b"abcdef"[..]),
            Err(CaptureError::Magic(0x6162_6364))
        ));
        assert!(matches!(
            Capture::open(&b"ab"[..]),
            Err(CaptureError::NoHeader(2))
        ));
        let file = pcap(false, 0xA1B2_C3D4, 0);
        let mut c = Capture::open(&file[..file.len() - 1]).unwrap();
        assert!(matches!(c.next_packet(), Err(CaptureError::CutShort(24))));
        let mut file = file;
        file[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut c = Capture::open(&file[..]).unwrap();
        assert!(matches!(
            c.next_packet(),
            Err(CaptureError::Length { offset: 24, .. })
        ));
    }

    proptest! {
        #[test]
        fn mutated_files_never_panic(at in 0usize..200, with: u8, ng: bool) {
            let mut file = if ng { pcapng(false) } else { pcap(false, 0xA1B2_C3D4, 0) };
            let at = at % file.len();
            file[at] = with;
            if let Ok(mut c) = Capture::open(&file[..]) {
                while let Ok(Some(_)) = c.next_packet() {}
            }
        }
    }
}
