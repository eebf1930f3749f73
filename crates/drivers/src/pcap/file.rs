//! Reads and writes classic pcap files (draft-ietf-opsawg-pcap), microseconds and nanoseconds, both
//! byte orders.
//!
//! A file is hostile input: lengths are checked before memory is taken, and a reader never panics.
//! pcapng is recognised and refused by name.

use std::io::{self, Read, Write};

/// Link type of Ethernet frames (LINKTYPE_ETHERNET).
pub const LINK_ETHERNET: u32 = 1;
/// Link type of bare IPv4 and IPv6 packets (LINKTYPE_RAW).
pub const LINK_RAW: u32 = 101;
/// LINKTYPE_RAW as some systems number it (DLT_RAW).
pub const LINK_RAW_BSD: u32 = 12;
/// Longest record that is believed, in bytes; a longer one means that the file is damaged.
pub const MAX_RECORD: u32 = 262_144;

const MAGIC_MICRO: u32 = 0xa1b2_c3d4;
const MAGIC_NANO: u32 = 0xa1b2_3c4d;
const MAGIC_NG: u32 = 0x0a0d_0d0a;
const FILE_HEADER: u64 = 24;
const RECORD_HEADER: u64 = 16;

/// Why a pcap file cannot be read. Offsets are in bytes from its start.
#[derive(Debug, thiserror::Error)]
pub enum PcapError {
    /// The system refused to read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The first bytes are those of no pcap file.
    #[error("not a pcap file (it starts with {0:#010x})")]
    Magic(u32),
    /// A pcapng file.
    #[error("this is a pcapng file, not classic pcap; `editcap -F pcap IN OUT` converts it")]
    Ng,
    /// A format version other than 2.x.
    #[error("pcap version {0}.{1} is not known, only 2.x is")]
    Version(u16, u16),
    /// The file ends within a header or a record.
    #[error("the file ends in the middle of the record at byte {0}")]
    Truncated(u64),
    /// A record claims to be longer than any can be.
    #[error("the record at byte {at} claims {claimed} bytes, at most {MAX_RECORD} are possible")]
    TooLong {
        /// Where the record starts.
        at: u64,
        /// Its captured length, as written.
        claimed: u32,
    },
}

/// A record without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// Length of the packet on the wire; may be more than was captured.
    pub wire_len: u32,
}

/// Reads a file record by record.
pub struct Reader<R> {
    input: R,
    swapped: bool,
    nanoseconds: bool,
    link_type: u32,
    at: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the file header.
    ///
    /// # Errors
    /// When this is no classic pcap file.
    pub fn new(mut input: R) -> Result<Reader<R>, PcapError> {
        let mut h = [0; FILE_HEADER as usize];
        let got = read_up_to(&mut input, &mut h)?;
        let magic = u32::from_be_bytes([h[0], h[1], h[2], h[3]]);
        if got < 4 || got < h.len() && magic != MAGIC_NG {
            return Err(PcapError::Truncated(0));
        }
        let (swapped, nanoseconds) = match (magic, magic.swap_bytes()) {
            (MAGIC_NG, _) => return Err(PcapError::Ng),
            (MAGIC_MICRO, _) => (false, false),
            (MAGIC_NANO, _) => (false, true),
            (_, MAGIC_MICRO) => (true, false),
            (_, MAGIC_NANO) => (true, true),
            _ => return Err(PcapError::Magic(magic)),
        };
        let mut reader = Reader {
            input,
            swapped,
            nanoseconds,
            link_type: 0,
            at: FILE_HEADER,
        };
        let major = reader.u16([h[4], h[5]]);
        if major != 2 {
            return Err(PcapError::Version(major, reader.u16([h[6], h[7]])));
        }
        // The upper bits may hold the length of a frame check sequence.
        reader.link_type = reader.u32([h[20], h[21], h[22], h[23]]) & 0x0fff_ffff;
        Ok(reader)
    }

    /// What the packets start with (a LINKTYPE_ number).
    pub fn link_type(&self) -> u32 {
        self.link_type
    }

    /// Reads the next record's bytes into `bytes` (which is cleared); `None` at the end of the file.
    ///
    /// # Errors
    /// When the file is damaged; what was read before is good.
    pub fn next(&mut self, bytes: &mut Vec<u8>) -> Result<Option<Record>, PcapError> {
        let mut h = [0; RECORD_HEADER as usize];
        match read_up_to(&mut self.input, &mut h)? {
            0 => return Ok(None),
            n if n < h.len() => return Err(PcapError::Truncated(self.at)),
            _ => {}
        }
        let [seconds, fraction, captured, wire_len] =
            [0, 4, 8, 12].map(|i| self.u32([h[i], h[i + 1], h[i + 2], h[i + 3]]));
        if captured > MAX_RECORD {
            return Err(PcapError::TooLong {
                at: self.at,
                claimed: captured,
            });
        }
        bytes.clear();
        bytes.resize(captured as usize, 0);
        if read_up_to(&mut self.input, bytes)? < bytes.len() {
            return Err(PcapError::Truncated(self.at));
        }
        self.at += RECORD_HEADER + u64::from(captured);
        let unit = if self.nanoseconds { 1 } else { 1000 };
        let time_ns = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * unit;
        Ok(Some(Record { time_ns, wire_len }))
    }

    fn u32(&self, b: [u8; 4]) -> u32 {
        if self.swapped {
            u32::from_le_bytes(b)
        } else {
            u32::from_be_bytes(b)
        }
    }
    fn u16(&self, b: [u8; 2]) -> u16 {
        if self.swapped {
            u16::from_le_bytes(b)
        } else {
            u16::from_be_bytes(b)
        }
    }
}

/// Reads until `out` is full or the input ends, and says how many bytes.
fn read_up_to(input: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < out.len() {
        match input.read(&mut out[done..]) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Writes a file with nanosecond time stamps, in this machine's byte order as the format wants it.
pub struct Writer<W: Write> {
    output: W,
    snaplen: u32,
}

impl<W: Write> Writer<W> {
    /// Writes the file header. Packets are cut to `snaplen` bytes.
    ///
    /// # Errors
    /// When the output refuses.
    pub fn new(mut output: W, link_type: u32, snaplen: u32) -> io::Result<Writer<W>> {
        let snaplen = snaplen.clamp(1, MAX_RECORD);
        let mut h = [0; FILE_HEADER as usize];
        h[0..4].copy_from_slice(&MAGIC_NANO.to_ne_bytes());
        h[4..6].copy_from_slice(&2u16.to_ne_bytes());
        h[6..8].copy_from_slice(&4u16.to_ne_bytes());
        h[16..20].copy_from_slice(&snaplen.to_ne_bytes());
        h[20..24].copy_from_slice(&link_type.to_ne_bytes());
        output.write_all(&h)?;
        Ok(Writer { output, snaplen })
    }

    /// Writes one packet of `wire_len` bytes on the wire, of which `bytes` are at hand.
    ///
    /// # Errors
    /// When the output refuses.
    pub fn write(&mut self, time_ns: u64, wire_len: u32, bytes: &[u8]) -> io::Result<()> {
        let bytes = &bytes[..bytes.len().min(self.snaplen as usize)];
        let captured = bytes.len() as u32;
        let mut h = [0; RECORD_HEADER as usize];
        // Seconds are 32 bits wide and wrap in 2106, as the format has it.
        h[0..4].copy_from_slice(&((time_ns / 1_000_000_000) as u32).to_ne_bytes());
        h[4..8].copy_from_slice(&((time_ns % 1_000_000_000) as u32).to_ne_bytes());
        h[8..12].copy_from_slice(&captured.to_ne_bytes());
        h[12..16].copy_from_slice(&wire_len.max(captured).to_ne_bytes());
        self.output.write_all(&h)?;
        self.output.write_all(bytes)
    }

    /// Pushes out what is buffered.
    ///
    /// # Errors
    /// When the output refuses.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    /// The output, everything written.
    pub fn into_inner(self) -> W {
        self.output
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_all(bytes: &[u8]) -> Result<Vec<(Record, Vec<u8>)>, PcapError> {
        let mut reader = Reader::new(bytes)?;
        let (mut out, mut buffer) = (Vec::new(), Vec::new());
        while let Some(record) = reader.next(&mut buffer)? {
            out.push((record, buffer.clone()));
        }
        Ok(out)
    }

    /// One 4-byte packet at 1.000002 s, microseconds, big-endian.
    const MICRO_BE: [u8; 44] = [
        0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0,
        1, //
        0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 60, 1, 2, 3, 4,
    ];

    #[test]
    fn both_byte_orders_and_units() {
        let want = vec![(
            Record {
                time_ns: 1_000_002_000,
                wire_len: 60,
            },
            vec![1, 2, 3, 4],
        )];
        assert_eq!(read_all(&MICRO_BE).unwrap(), want);
        let mut little = MICRO_BE;
        for at in [0, 8, 12, 16, 20, 24, 28, 32, 36] {
            little[at..at + 4].reverse();
        }
        little[4..6].reverse();
        little[6..8].reverse();
        assert_eq!(read_all(&little).unwrap(), want);
        let mut nano = MICRO_BE;
        nano[2..4].copy_from_slice(&[0x3c, 0x4d]);
        assert_eq!(read_all(&nano).unwrap()[0].0.time_ns, 1_000_000_002);
    }

    #[test]
    fn errors_name_the_place() {
        let message = |bytes: &[u8]| read_all(bytes).unwrap_err().to_string();
        assert_eq!(
            message(&MICRO_BE[..43]),
            "the file ends in the middle of the record at byte 24"
        );
        assert_eq!(
            message(&MICRO_BE[..30]),
            "the file ends in the middle of the record at byte 24"
        );
        assert_eq!(
            message(&MICRO_BE[..9]),
            "the file ends in the middle of the record at byte 0"
        );
        assert_eq!(
            message(b"GET / HTTP/1.1\r\n\r\n......"),
            "not a pcap file (it starts with 0x47455420)"
        );
        assert!(message(&[0x0a, 0x0d, 0x0d, 0x0a, 0, 0]).contains("editcap -F pcap"));
        let mut long = MICRO_BE;
        long[32] = 0x7f;
        assert!(message(&long).contains("claims 2130706436 bytes"));
        let mut version = MICRO_BE;
        version[5] = 1;
        assert_eq!(
            message(&version),
            "pcap version 1.4 is not known, only 2.x is"
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(packets in prop::collection::vec((any::<u32>(), prop::collection::vec(any::<u8>(), 0..300)), 0..20)) {
            let mut writer = Writer::new(Vec::new(), LINK_ETHERNET, 65_535).unwrap();
            for (time, bytes) in &packets {
                writer.write(u64::from(*time) * 1_000_003, bytes.len() as u32, bytes).unwrap();
            }
            let back = read_all(&writer.into_inner()).unwrap();
            prop_assert_eq!(back.len(), packets.len());
            for ((record, got), (time, bytes)) in back.iter().zip(&packets) {
                prop_assert_eq!(got, bytes);
                prop_assert_eq!(record.time_ns, u64::from(*time) * 1_000_003);
                prop_assert_eq!(record.wire_len as usize, bytes.len());
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(tail in prop::collection::vec(any::<u8>(), 0..400), swap in any::<bool>()) {
            let mut file = if swap { vec![0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0] } else { vec![0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4] };
            file.extend(&tail);
            if let Ok(records) = read_all(&file) {
                let bytes: usize = records.iter().map(|r| r.1.len() + 16).sum();
                prop_assert_eq!(bytes + 24, file.len());
            }
            let _ = read_all(&tail);
        }
    }
}
