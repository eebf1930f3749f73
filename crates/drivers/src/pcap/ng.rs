//! Writes pcapng files (draft-ietf-opsawg-pcapng): captures whose packets have an interface and a comment.
//!
//! One section in this machine's byte order, one interface description for each interface when its first packet
//! comes, Ethernet, nanoseconds.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::file::{LINK_ETHERNET, MAX_RECORD};

const SECTION: u32 = 0x0A0D_0D0A;
const MAGIC: u32 = 0x1A2B_3C4D;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;

const OPT_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
/// Time stamps count in units of 10^-9 seconds.
const NANOSECONDS: u8 = 9;
/// Longest comment or name: options have 16 bits for their length, of which this is far.
const MAX_TEXT: usize = 1024;

/// Writes a file with nanosecond time stamps.
pub struct NgWriter<W: Write> {
    output: W,
    snaplen: u32,
    /// Names of interfaces; one that is not in here is called by its number.
    names: BTreeMap<u32, String>,
    /// Interfaces described so far, by their place in the file.
    known: Vec<u32>,
    block: Vec<u8>,
}

/// One packet.
#[derive(Clone, Copy, Debug)]
pub struct NgPacket<'a> {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// Length on the wire.
    pub wire_len: u32,
    /// What was kept of it.
    pub bytes: &'a [u8],
    /// Interface.
    pub if_index: u32,
    /// What is said about it, if anything.
    pub comment: &'a str,
}

impl<W: Write> NgWriter<W> {
    /// Writes the section header. Packets are cut to `snaplen` bytes.
    ///
    /// # Errors
    /// When the output refuses.
    pub fn new(output: W, snaplen: u32, names: BTreeMap<u32, String>) -> io::Result<NgWriter<W>> {
        let mut w = NgWriter {
            output,
            snaplen: snaplen.clamp(1, MAX_RECORD),
            names,
            known: Vec::new(),
            block: Vec::new(),
        };
        w.block.extend(MAGIC.to_ne_bytes());
        w.block.extend(1u16.to_ne_bytes());
        w.block.extend(0u16.to_ne_bytes());
        // The section's length is not known yet.
        w.block.extend(u64::MAX.to_ne_bytes());
        w.option(SHB_USERAPPL, b"parshall");
        w.end(SECTION)?;
        Ok(w)
    }

    /// Writes one packet.
    ///
    /// # Errors
    /// When the output refuses.
    pub fn write(&mut self, p: NgPacket<'_>) -> io::Result<()> {
        let id = self.interface(p.if_index)?;
        let bytes = &p.bytes[..p.bytes.len().min(self.snaplen as usize)];
        let captured = bytes.len() as u32;
        for word in [
            id,
            (p.time_ns >> 32) as u32,
            p.time_ns as u32,
            captured,
            p.wire_len.max(captured),
        ] {
            self.block.extend(word.to_ne_bytes());
        }
        self.block.extend(bytes);
        self.pad();
        if !p.comment.is_empty() {
            self.option(OPT_COMMENT, p.comment.as_bytes());
        }
        self.end(PACKET)
    }

    /// Place of an interface in the file; describes it when it is new.
    fn interface(&mut self, if_index: u32) -> io::Result<u32> {
        if let Some(at) = self.known.iter().position(|k| *k == if_index) {
            return Ok(at as u32);
        }
        self.known.push(if_index);
        self.block.extend((LINK_ETHERNET as u16).to_ne_bytes());
        self.block.extend(0u16.to_ne_bytes());
        self.block.extend(self.snaplen.to_ne_bytes());
        let name = match self.names.get(&if_index) {
            Some(name) => name.clone(),
            None if if_index == u32::MAX => "none".to_owned(),
            None => format!("interface {if_index}"),
        };
        self.option(IF_NAME, name.as_bytes());
        self.option(IF_TSRESOL, &[NANOSECONDS]);
        self.end(INTERFACE)?;
        Ok(self.known.len() as u32 - 1)
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(MAX_TEXT)];
        self.block.extend(code.to_ne_bytes());
        self.block.extend((value.len() as u16).to_ne_bytes());
        self.block.extend(value);
        self.pad();
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Ends the options and writes the block.
    fn end(&mut self, kind: u32) -> io::Result<()> {
        self.block.extend([0; 4]);
        let length = (self.block.len() as u32 + 12).to_ne_bytes();
        self.output.write_all(&kind.to_ne_bytes())?;
        self.output.write_all(&length)?;
        self.output.write_all(&self.block)?;
        self.output.write_all(&length)?;
        self.block.clear();
        Ok(())
    }

    /// Pushes out what is buffered.
    ///
    /// # Errors
    /// When the output refuses.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of a file: kind and body.
    fn blocks(file: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let word = |at: usize| u32::from_ne_bytes(file[at..at + 4].try_into().unwrap());
        let (mut out, mut at) = (Vec::new(), 0);
        while at < file.len() {
            let length = word(at + 4) as usize;
            assert!(length.is_multiple_of(4));
            assert_eq!(word(at + length - 4) as usize, length);
            out.push((word(at), file[at + 8..at + length - 4].to_vec()));
            at += length;
        }
        out
    }

    #[test]
    fn golden_file() {
        let mut file = Vec::new();
        let names = BTreeMap::from([(3, "pg0".to_owned())]);
        let mut w = NgWriter::new(&mut file, 96, names).unwrap();
        let packet = |if_index, comment| NgPacket {
            time_ns: 0x1_0000_0002,
            wire_len: 6,
            bytes: &[1, 2, 3, 4, 5],
            if_index,
            comment,
        };
        w.write(packet(3, "no_route")).unwrap();
        w.write(packet(9, "")).unwrap();
        w.write(packet(3, "")).unwrap();
        let b = blocks(&file);
        let kinds: Vec<u32> = b.iter().map(|b| b.0).collect();
        assert_eq!(
            kinds,
            [SECTION, INTERFACE, PACKET, INTERFACE, PACKET, PACKET]
        );
        let ne =
            |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_ne_bytes()).collect() };
        let half = |h: u16| h.to_ne_bytes().to_vec();
        let option = |code: u16, value: &[u8]| {
            let mut o = [half(code), half(value.len() as u16), value.to_vec()].concat();
            o.resize(o.len().next_multiple_of(4), 0);
            o
        };
        let described = |name: &[u8]| {
            [
                half(1),
                half(0),
                ne(&[96]),
                option(2, name),
                option(9, &[9]),
                ne(&[0]),
            ]
            .concat()
        };
        assert_eq!(b[1].1, described(b"pg0"));
        assert_eq!(b[3].1, described(b"interface 9"));
        let first = [
            ne(&[0, 1, 2, 5, 6]),
            vec![1, 2, 3, 4, 5, 0, 0, 0],
            option(1, b"no_route"),
            ne(&[0]),
        ];
        assert_eq!(b[2].1, first.concat());
        assert_eq!(b[4].1[..4], ne(&[1]));
    }

    #[test]
    fn packets_are_cut_and_comments_bounded() {
        let mut file = Vec::new();
        let mut w = NgWriter::new(&mut file, 4, BTreeMap::new()).unwrap();
        w.write(NgPacket {
            time_ns: 0,
            wire_len: 0,
            bytes: &[7; 100],
            if_index: u32::MAX,
            comment: &"x".repeat(70_000),
        })
        .unwrap();
        let b = blocks(&file);
        let word = |at: usize| u32::from_ne_bytes(b[2].1[at..at + 4].try_into().unwrap());
        assert_eq!((word(12), word(16)), (4, 4));
        assert!(b[2].1.len() < 2000);
    }
}
