//! A capture file held in memory, ready to be replayed by a worker.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use super::file::{LINK_ETHERNET, LINK_RAW, LINK_RAW_BSD, Reader};
use parshall_device::DeviceError;

/// Most bytes of packets a recording may hold.
pub const MAX_BYTES: usize = 1 << 30;

const ETHERNET: usize = 14;

/// The packets of a file with their times.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recording {
    bytes: Vec<u8>,
    /// End of each packet in `bytes`; each starts where the one before ends.
    ends: Vec<usize>,
    /// Time of each packet in nanoseconds after the first, never decreasing.
    times: Vec<u64>,
    /// From the first packet to the first of the next round.
    round: u64,
    /// Packets left out because they are shorter than an Ethernet header (14 bytes).
    pub short: usize,
}

impl Recording {
    /// Reads a file. Bare IP packets get an Ethernet header to `mac` in front.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, of a link type that is neither Ethernet nor bare IP,
    /// larger than [`MAX_BYTES`], or has no packet.
    pub fn open(path: &Path, mac: [u8; 6]) -> Result<Recording, DeviceError> {
        let fail = |why: String| DeviceError(format!("pcap file {}: {why}", path.display()));
        let file = File::open(path).map_err(|e| fail(e.to_string()))?;
        Recording::read(BufReader::new(file), mac, MAX_BYTES).map_err(fail)
    }

    fn read(input: impl Read, mac: [u8; 6], most: usize) -> Result<Recording, String> {
        let mut reader = Reader::new(input).map_err(|e| e.to_string())?;
        let bare = match reader.link_type() {
            LINK_ETHERNET => false,
            LINK_RAW | LINK_RAW_BSD => true,
            other => {
                return Err(format!(
                    "link type {other} is neither Ethernet (1) nor bare IP (101)"
                ));
            }
        };
        let (mut out, mut packet, mut first) = (Recording::default(), Vec::new(), None);
        while let Some(record) = reader.next(&mut packet).map_err(|e| e.to_string())? {
            if out.bytes.len() + packet.len() + ETHERNET > most {
                return Err(format!("more than {most} bytes of packets"));
            }
            let time = record
                .time_ns
                .saturating_sub(*first.get_or_insert(record.time_ns));
            out.add(&packet, time, bare.then_some(mac));
        }
        if out.ends.is_empty() {
            return Err("it has no packet to replay".into());
        }
        // Between two rounds lies the average gap.
        let last = out.times.last().copied().unwrap_or(0);
        out.round = last + (last / (out.len() as u64 - 1).max(1)).max(1);
        Ok(out)
    }

    fn add(&mut self, packet: &[u8], time: u64, bare_to: Option<[u8; 6]>) {
        match bare_to {
            Some(mac) if !packet.is_empty() => {
                self.bytes.extend_from_slice(&mac);
                self.bytes.extend_from_slice(&[0; 6]);
                let kind = if packet[0] >> 4 == 6 {
                    [0x86, 0xdd]
                } else {
                    [8, 0]
                };
                self.bytes.extend_from_slice(&kind);
            }
            None if packet.len() >= ETHERNET => {}
            _ => {
                self.short += 1;
                return;
            }
        }
        self.bytes.extend_from_slice(packet);
        self.ends.push(self.bytes.len());
        self.times
            .push(time.max(self.times.last().copied().unwrap_or(0)));
    }

    /// Packets in it, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "an empty recording is refused")]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of packet `i`, from its Ethernet header.
    pub fn packet(&self, i: usize) -> &[u8] {
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[i]]
    }

    /// When packet `n` comes (counted over all rounds), in nanoseconds after the very first.
    pub fn time_of(&self, n: u64) -> u64 {
        let len = self.len() as u64;
        (n / len)
            .saturating_mul(self.round)
            .saturating_add(self.times[(n % len) as usize])
    }

    /// Shortest and longest packet in bytes.
    pub fn sizes(&self) -> (usize, usize) {
        let sizes = || (0..self.len()).map(|i| self.packet(i).len());
        (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcap::file::Writer;

    fn file(link: u32, packets: &[(u64, &[u8])]) -> Vec<u8> {
        let mut w = Writer::new(Vec::new(), link, 65_535).unwrap();
        for (time, bytes) in packets {
            w.write(*time, bytes.len() as u32, bytes).unwrap();
        }
        w.into_inner()
    }

    #[test]
    fn times_count_from_the_first_packet_and_never_go_back() {
        let a = [1u8; 20];
        let bytes = file(
            LINK_ETHERNET,
            &[
                (5000, &a),
                (5100, &a),
                (5050, &a[..15]),
                (5200, &a[..3]),
                (5300, &a),
            ],
        );
        let r = Recording::read(&bytes[..], [0; 6], 1000).unwrap();
        assert_eq!((r.len(), r.short, r.sizes()), (4, 1, (15, 20)));
        assert_eq!(
            (0..6).map(|n| r.time_of(n)).collect::<Vec<_>>(),
            [0, 100, 100, 300, 400, 500]
        );
        assert_eq!(r.packet(2), [1; 15]);
    }

    #[test]
    fn bare_packets_get_a_header() {
        let bytes = file(LINK_RAW, &[(0, &[0x45, 1]), (0, &[0x60, 2]), (0, &[])]);
        let r = Recording::read(&bytes[..], [7; 6], 1000).unwrap();
        assert_eq!(
            r.packet(0),
            [7, 7, 7, 7, 7, 7, 0, 0, 0, 0, 0, 0, 8, 0, 0x45, 1]
        );
        assert_eq!(r.packet(1)[12..], [0x86, 0xdd, 0x60, 2]);
        assert_eq!(r.short, 1);
    }

    #[test]
    fn what_cannot_be_replayed_is_refused_with_the_reason() {
        let why = |bytes: &[u8]| Recording::read(bytes, [0; 6], 100).unwrap_err();
        assert_eq!(why(&file(LINK_ETHERNET, &[])), "it has no packet to replay");
        assert_eq!(
            why(&file(113, &[])),
            "link type 113 is neither Ethernet (1) nor bare IP (101)"
        );
        assert_eq!(
            why(&file(LINK_ETHERNET, &[(0, &[0; 90])])),
            "more than 100 bytes of packets"
        );
        let missing = Recording::open(Path::new("/nonexistent/x.pcap"), [0; 6]).unwrap_err();
        assert!(
            missing
                .0
                .starts_with("pcap file /nonexistent/x.pcap: No such file")
        );
    }
}
