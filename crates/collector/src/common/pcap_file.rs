//! Capture files that we write: one, or a row of them of which the oldest go.
//!
//! Classic pcap (`pcap-savefile(5)`) with microseconds, and frames that begin with an Ethernet header (addresses all zero), because that is what
//! every reader of captures knows.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ToolError;
use super::args::Rotation;
use super::packet::{PacketError, put_udp};

/// Written when so many bytes have gathered.
const WRITE_AT: usize = 1 << 16;
const FILE_HEADER: usize = 24;
const LINK_ETHERNET: u32 = 1;
const SNAP_LEN: u32 = 262_144;
/// Digits of a file's number.
const DIGITS: usize = 6;

/// The file that is written.
pub(crate) struct PcapFile {
    path: PathBuf,
    rotation: Option<Rotation>,
    keep: Option<usize>,
    out: Box<dyn Write + Send>,
    buf: Vec<u8>,
    /// Bytes of the current file, those in `buf` included, and when its first frame came.
    size: u64,
    since: Option<Duration>,
    /// Number of the current file in a row, and files so far.
    number: u64,
    pub(crate) files: u64,
    pub(crate) current: PathBuf,
}

impl PcapFile {
    /// Makes the first file; `-` is standard output, which cannot be rotated.
    pub(crate) fn create(
        path: &Path,
        rotation: Option<Rotation>,
        keep: Option<usize>,
    ) -> Result<PcapFile, ToolError> {
        let mut file = PcapFile {
            path: path.to_owned(),
            rotation,
            keep,
            out: Box::new(io::sink()),
            buf: Vec::with_capacity(2 * WRITE_AT),
            size: 0,
            since: None,
            number: 0,
            files: 0,
            current: path.to_owned(),
        };
        if rotation.is_some() {
            // What an earlier run wrote stays as long as the row is long.
            file.number = file.numbered().last().map_or(0, |last| last.0);
        }
        file.next()?;
        Ok(file)
    }

    /// Writes a datagram, in a new file if the old one is full.
    pub(crate) fn write(
        &mut self,
        time: Duration,
        from: SocketAddr,
        to: SocketAddr,
        payload: &[u8],
    ) -> Result<Result<(), PacketError>, ToolError> {
        let full = match (self.rotation, self.since) {
            (Some(Rotation::Bytes(n)), Some(_)) => self.size >= n,
            (Some(Rotation::Time(t)), Some(since)) => time.saturating_sub(since) >= t,
            _ => false,
        };
        if full {
            self.next()?;
        }
        let before = self.buf.len();
        if let Err(e) = put_frame(&mut self.buf, time, from, to, payload) {
            return Ok(Err(e));
        }
        self.size += (self.buf.len() - before) as u64;
        self.since.get_or_insert(time);
        if self.buf.len() >= WRITE_AT {
            self.flush()?;
        }
        Ok(Ok(()))
    }

    /// Writes what has gathered, whole frames always.
    pub(crate) fn flush(&mut self) -> Result<(), ToolError> {
        let written = self
            .out
            .write_all(&self.buf)
            .and_then(|()| self.out.flush());
        self.buf.clear();
        written.map_err(|e| self.failed(e))
    }

    fn failed(&self, source: io::Error) -> ToolError {
        ToolError::Write {
            path: self.current.clone(),
            source,
        }
    }

    /// Ends the current file and begins the next.
    fn next(&mut self) -> Result<(), ToolError> {
        self.flush()?;
        self.number += 1;
        self.files += 1;
        self.size = FILE_HEADER as u64;
        self.since = None;
        if self.path == Path::new("-") {
            self.out = Box::new(io::stdout());
        } else {
            if self.rotation.is_some() {
                self.current = numbered_name(&self.path, self.number);
            }
            self.out = Box::new(File::create(&self.current).map_err(|e| self.failed(e))?);
        }
        put_file_header(&mut self.buf);
        // A reader may look at once.
        self.flush()?;
        self.remove_oldest()
    }

    fn remove_oldest(&self) -> Result<(), ToolError> {
        let (Some(keep), true) = (self.keep, self.rotation.is_some()) else {
            return Ok(());
        };
        let all = self.numbered();
        for (_, path) in all.iter().rev().skip(keep.max(1)) {
            fs::remove_file(path).map_err(|source| ToolError::Write {
                path: path.clone(),
                source,
            })?;
        }
        Ok(())
    }

    /// The files of the row that are there, oldest first: those named as we name them, and no others.
    fn numbered(&self) -> Vec<(u64, PathBuf)> {
        let folder = match self.path.parent() {
            Some(p) if !p.as_os_str().is_empty() => p,
            _ => Path::new("."),
        };
        let Ok(entries) = fs::read_dir(folder) else {
            return Vec::new();
        };
        let names = entries.flatten().filter_map(|e| {
            let number = number_of(&self.path, e.file_name().to_str()?)?;
            Some((number, e.path()))
        });
        let mut all: Vec<_> = names.collect();
        all.sort();
        all
    }
}

/// `captures/sflow.pcap` and 7 make `captures/sflow-000007.pcap`.
fn numbered_name(path: &Path, number: u64) -> PathBuf {
    let (stem, ending) = parts(path);
    path.with_file_name(format!("{stem}-{number:0DIGITS$}{ending}"))
}

/// The number in a name that [`numbered_name`] made.
fn number_of(path: &Path, name: &str) -> Option<u64> {
    let (stem, ending) = parts(path);
    let digits = name
        .strip_prefix(&stem)?
        .strip_prefix('-')?
        .strip_suffix(&ending)?;
    let plain = digits.len() >= DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().ok())?
}

fn parts(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| {
        part.map_or(String::new(), |p| p.to_string_lossy().into_owned())
    };
    let ending = text(path.extension());
    let dot = if ending.is_empty() { "" } else { "." };
    (text(path.file_stem()), format!("{dot}{ending}"))
}

fn put_file_header(out: &mut Vec<u8>) {
    for word in [0xA1B2_C3D4u32, 2 | 4 << 16, 0, 0, SNAP_LEN, LINK_ETHERNET] {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

fn put_frame(
    out: &mut Vec<u8>,
    time: Duration,
    from: SocketAddr,
    to: SocketAddr,
    payload: &[u8],
) -> Result<(), PacketError> {
    let start = out.len();
    for word in [time.as_secs() as u32, time.subsec_micros(), 0, 0] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&[0; 12]);
    out.extend_from_slice(if from.is_ipv4() {
        &[0x08, 0]
    } else {
        &[0x86, 0xDD]
    });
    if let Err(e) = put_udp(out, from, to, payload) {
        out.truncate(start);
        return Err(e);
    }
    let len = ((out.len() - start - 16) as u32).to_le_bytes();
    for at in [start + 8, start + 12] {
        if let Some(word) = out.get_mut(at..at + 4) {
            word.copy_from_slice(&len);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_sflow_wire::pcap::{Capture, find_udp};

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn payloads(path: &Path) -> Vec<Vec<u8>> {
        let bytes = fs::read(path).unwrap();
        let mut capture = Capture::open(&bytes[..]).unwrap();
        let mut all = Vec::new();
        while let Some(p) = capture.next_packet().unwrap() {
            all.push(find_udp(p.link_type, p.data).unwrap().payload.to_vec());
        }
        all
    }

    #[test]
    fn a_row_of_files_goes_on_where_it_ended_and_keeps_only_so_many() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sflow.pcap");
        let bystander = dir.path().join("sflow-1.pcap");
        fs::write(&bystander, "not ours").unwrap();
        let (from, to) = (at("192.0.2.1:9"), at("192.0.2.2:6343"));
        for round in 0..2u8 {
            let mut f = PcapFile::create(&path, Some(Rotation::Bytes(100)), Some(3)).unwrap();
            for n in 0..4u8 {
                let time = Duration::from_secs(n.into());
                f.write(time, from, to, &[round, n]).unwrap().unwrap();
            }
            f.flush().unwrap();
            // 24 bytes and a frame of 60 fit below 100, the second makes it full.
            assert_eq!(f.files, 2);
        }
        let names: Vec<String> = (2..=4).map(|n| format!("sflow-{n:06}.pcap")).collect();
        let there = |n: &String| dir.path().join(n).exists();
        assert!(names.iter().all(there) && bystander.exists());
        assert!(!dir.path().join("sflow-000001.pcap").exists());
        assert_eq!(payloads(&dir.path().join(&names[2])), [[1, 2], [1, 3]]);
    }

    #[test]
    fn time_rotates_by_the_time_of_the_datagrams() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let minute = Rotation::Time(Duration::from_secs(60));
        let mut f = PcapFile::create(&path, Some(minute), None).unwrap();
        for seconds in [1000, 1059, 1060, 1500] {
            let time = Duration::from_secs(seconds);
            let (a, b) = (at("[2001:db8::1]:9"), at("[::1]:6343"));
            f.write(time, a, b, b"payload").unwrap().unwrap();
        }
        f.flush().unwrap();
        assert_eq!(f.files, 3);
        assert_eq!(payloads(&dir.path().join("x-000001")).len(), 2);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let wrong = PcapFile::create(Path::new("no/such/folder/x.pcap"), None, None);
        let text = wrong.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(
            text.starts_with("cannot write no/such/folder/x.pcap"),
            "{text}"
        );
    }
}
