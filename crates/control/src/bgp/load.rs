//! Reads files of routes: lines, or MRT, either of them packed with gzip or not.
//!
//! The routes of a file are one source. Of a table dump, which may hold the routes of hundreds of peers, only the best
//! path to each prefix is kept; updates in a file are followed peer by peer.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::time::Instant;

use flate2::read::MultiGzDecoder;
use parshall_bgp::mrt::{Header, Peer, Record, Rib};
use parshall_bgp::update::{self, Message, Update};
use parshall_bgp::{PathAttributes, PathBuilder, text};

use super::feed::{FeedState, Progress};
use super::{BATCH, BgpShared, Change, Rank, SourceId};

/// Longest line.
const MAX_LINE: u64 = 64 << 10;
/// Most peers whose updates are followed.
const MAX_PEERS: usize = 1 << 16;

/// Reads a file into a source of its own, in place of what was read before, and notes how it went.
pub(super) fn run(file: File, mrt: bool, name: String, shared: &BgpShared, progress: &Progress) {
    let began = Instant::now();
    let Some(source) = shared.add_source(name) else {
        progress.error("there are too many sources of BGP routes");
        progress.status().state = FeedState::Failed;
        return;
    };
    let rank = if mrt { Rank::Mrt } else { Rank::File };
    let mut sink = Sink {
        shared,
        progress,
        source,
        rank,
        changes: Vec::with_capacity(BATCH),
    };
    let read = open(file).and_then(|input| {
        if mrt {
            Dump::new(&mut sink).read(input)
        } else {
            lines(input, &mut sink)
        }
    });
    sink.flush();
    let kept = read.is_ok()
        || shared
            .source(source)
            .is_some_and(|s| s.announced > 0 && mrt);
    let before = {
        let mut status = progress.status();
        status.took_ms = Some(began.elapsed().as_millis() as u64);
        if let Err(e) = read {
            status.last_error = Some(e);
            status.state = FeedState::Failed;
        } else {
            status.state = FeedState::Loaded;
        }
        if kept {
            std::mem::replace(&mut status.sources, vec![source])
        } else {
            vec![source]
        }
    };
    before.into_iter().for_each(|s| shared.remove_source(s));
}

/// Where routes go, by the batch.
struct Sink<'a> {
    shared: &'a BgpShared,
    progress: &'a Progress,
    source: SourceId,
    rank: Rank,
    changes: Vec<Change>,
}

impl Sink<'_> {
    fn push(&mut self, change: Change) {
        self.changes.push(change);
        if self.changes.len() >= BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let refused = self.shared.apply(self.source, self.rank, &mut self.changes);
        if refused > 0 {
            let full = super::TableFull(self.shared.table().size().limit);
            let mut status = self.progress.status();
            status.refused += refused;
            status.last_error = Some(full.to_string());
        }
    }
}

/// The file's bytes, unpacked.
fn open(file: File) -> Result<Box<dyn BufRead>, String> {
    let mut file = BufReader::with_capacity(256 << 10, file);
    let head = file.fill_buf().map_err(|e| e.to_string())?;
    match head {
        [0x1F, 0x8B, ..] => {
            let plain = BufReader::with_capacity(256 << 10, MultiGzDecoder::new(file));
            Ok(Box::new(plain))
        }
        [b'B', b'Z', b'h', ..] => Err(
            "the file is packed with bzip2; unpack it first (bunzip2), or pack it with gzip".into(),
        ),
        _ => Ok(Box::new(file)),
    }
}

/// A route a line. The first line that is wrong ends it: a list that is half there is worse than the one before.
fn lines(mut input: Box<dyn BufRead>, sink: &mut Sink<'_>) -> Result<(), String> {
    let (mut line, mut builder) = (Vec::new(), PathBuilder::default());
    for number in 1u64.. {
        if sink.progress.is_stopped() {
            return Ok(());
        }
        line.clear();
        let n = Read::take(&mut input, MAX_LINE)
            .read_until(b'\n', &mut line)
            .map_err(|e| e.to_string())?;
        if n == 0 {
            break;
        }
        let wrong = |e: String| format!("line {number}: {e}");
        if n as u64 == MAX_LINE {
            return Err(wrong(format!("longer than {MAX_LINE} bytes")));
        }
        let text = std::str::from_utf8(&line).map_err(|_| wrong("not text".into()))?;
        if let Some((net, path)) = text::parse_line(text, &mut builder).map_err(wrong)? {
            sink.push(Change::Announce(net, 0, path));
        }
        sink.progress.status().read = number;
    }
    Ok(())
}

/// An MRT file while it is read.
struct Dump<'a, 's> {
    sink: &'a mut Sink<'s>,
    builder: PathBuilder,
    /// Of the table dump.
    peers: Vec<Peer>,
    /// Numbers of the peers, which tell their paths apart.
    numbers: HashMap<Peer, u32>,
}

impl<'a, 's> Dump<'a, 's> {
    fn new(sink: &'a mut Sink<'s>) -> Self {
        Dump {
            sink,
            builder: PathBuilder::default(),
            peers: Vec::new(),
            numbers: HashMap::new(),
        }
    }

    fn read(&mut self, mut input: Box<dyn BufRead>) -> Result<(), String> {
        let mut bytes = Vec::new();
        for number in 1u64.. {
            if self.sink.progress.is_stopped() {
                return Ok(());
            }
            let wrong = |e: &dyn std::fmt::Display| format!("record {number}: {e}");
            let mut head = [0; Header::BYTES];
            if !fill(&mut input, &mut head).map_err(|e| wrong(&e))? {
                if number == 1 {
                    return Err("the file is empty".into());
                }
                break;
            }
            let header = Header::parse(&head).map_err(|e| wrong(&e))?;
            bytes.resize(header.length, 0);
            input.read_exact(&mut bytes).map_err(|e| wrong(&e))?;
            let understood = self.record(&header, &bytes);
            let mut status = self.sink.progress.status();
            status.read = number;
            match understood {
                Ok(true) => {}
                Ok(false) => status.skipped += 1,
                Err(e) => {
                    status.skipped += 1;
                    status.last_error = Some(wrong(&e));
                }
            }
        }
        Ok(())
    }

    /// Takes in a record; `false` when it is of a kind that is not looked at.
    fn record(&mut self, header: &Header, bytes: &[u8]) -> Result<bool, parshall_bgp::BgpError> {
        match Record::parse(header, bytes)? {
            Record::Peers(peers) => self.peers = peers,
            Record::Rib(rib) => {
                if let Some((peer, path)) = self.best(&rib)? {
                    let id = self.peers.get(peer).copied().map_or(0, |p| self.number(p));
                    self.sink.push(Change::Announce(rib.net, id, path));
                }
            }
            Record::Message {
                peer,
                dialect,
                bytes,
            } => {
                let (Message::Update(body), _) = Message::parse(bytes)? else {
                    return Ok(true);
                };
                let id = self.number(peer);
                let update = Update::parse(body, dialect, &mut self.builder)?;
                for change in update.changes() {
                    self.sink.push(match change {
                        update::Change::Announce(net, _, path) => {
                            Change::Announce(net, id, path.clone())
                        }
                        update::Change::Withdraw(net, _) => Change::Withdraw(net, id),
                    });
                }
                if let Some(fault) = update.fault() {
                    return Err(fault);
                }
            }
            Record::Down(peer) => {
                self.sink.flush();
                let id = self.number(peer);
                let nets = self.sink.shared.table().nets_of(self.sink.source);
                for net in nets {
                    self.sink.push(Change::Withdraw(net, id));
                }
            }
            Record::Other => return Ok(false),
        }
        Ok(true)
    }

    /// The best of the routes to a prefix; those that are broken do not count.
    fn best(
        &mut self,
        rib: &Rib<'_>,
    ) -> Result<Option<(usize, PathAttributes)>, parshall_bgp::BgpError> {
        let mut best: Option<(usize, PathAttributes)> = None;
        let mut fault = None;
        for entry in rib.entries() {
            match entry.and_then(|e| Ok((usize::from(e.peer), e.path(&mut self.builder)?))) {
                Ok((peer, path)) => {
                    if best.as_ref().is_none_or(|b| path.compare(&b.1).is_lt()) {
                        best = Some((peer, path));
                    }
                }
                Err(e) => fault = Some(e),
            }
        }
        match (best, fault) {
            (None, Some(e)) => Err(e),
            (best, _) => Ok(best),
        }
    }

    fn number(&mut self, peer: Peer) -> u32 {
        let next = self.numbers.len();
        match self.numbers.get(&peer) {
            Some(&n) => n,
            // More peers than any collector has: they share a number.
            None if next >= MAX_PEERS => 0,
            None => {
                self.numbers.insert(peer, next as u32);
                next as u32
            }
        }
    }
}

/// Fills `buf`; `false` when the input ends before its first byte.
fn fill(input: &mut impl Read, buf: &mut [u8]) -> std::io::Result<bool> {
    let Some((first, rest)) = buf.split_first_mut() else {
        return Ok(true);
    };
    loop {
        match input.read(std::slice::from_mut(first)) {
            Ok(0) => return Ok(false),
            Ok(_) => return input.read_exact(rest).map(|()| true),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
