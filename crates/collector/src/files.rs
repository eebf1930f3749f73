//! Datagrams out of capture files.

use std::path::Path;
use std::sync::atomic::Ordering;

use parshall_sflow_wire::pcap::{Capture, Packet, find_udp};
use parshall_sflow_wire::print::{Meta, Stamp};
use parshall_sflow_wire::types::Address;
use parshall_sflow_wire::{Datagram, Tracker};

use crate::decode::DecodeError;
use crate::input::FileInput;
use crate::output::{Output, Shared, takes_to_end};
use crate::status::Counts;

/// One reader of files.
pub struct Files<'a, 's> {
    shared: &'a Shared<'s>,
    out: Output<'a, 's>,
    to_end: bool,
    /// What was read and lost, where that is to be told.
    tracker: Option<Tracker>,
    counts: Counts,
}

impl<'a, 's> Files<'a, 's> {
    /// Reads what the options name.
    pub fn new(shared: &'a Shared<'s>) -> Files<'a, 's> {
        Files {
            shared,
            out: Output::new(shared),
            to_end: takes_to_end(&shared.args.format()),
            tracker: shared.args.wants_status().then(Tracker::default),
            counts: Counts::default(),
        }
    }

    /// Reads all files, one after the other.
    pub fn run(&mut self) -> Result<(), DecodeError> {
        let result = self.out.begin().and_then(|()| self.files());
        result.and(self.out.flush())
    }

    /// What was read, and by whom it was sent.
    pub fn counts(mut self) -> Counts {
        if let Some(t) = &self.tracker {
            self.counts.take_in(t);
        }
        self.counts
    }

    fn files(&mut self) -> Result<(), DecodeError> {
        for path in &self.shared.args.read {
            match self.file(path) {
                Err(e @ (DecodeError::Open { .. } | DecodeError::Capture { .. }))
                    if self.shared.args.keep_going =>
                {
                    self.shared.say(format_args!("{e}"));
                }
                other => other?,
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<(), DecodeError> {
        let stop = self.shared.stop;
        let failed = |source| DecodeError::Capture {
            path: path.to_owned(),
            source,
        };
        let input = FileInput::open(path, stop).map_err(|source| DecodeError::Open {
            path: path.to_owned(),
            source,
        })?;
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut capture = match Capture::open(input) {
            // An interrupted wait looks like an empty file.
            Err(_) if stop.load(Ordering::Relaxed) => return Ok(()),
            other => other.map_err(failed)?,
        };
        let mut others = 0u64;
        while !self.shared.done() {
            if capture.get_ref().is_drained() {
                self.out.flush()?;
            }
            match capture.next_packet() {
                Ok(Some(packet)) => others += u64::from(!self.packet(path, &packet)?),
                Ok(None) => break,
                Err(_) if stop.load(Ordering::Relaxed) => break,
                Err(e) => return Err(failed(e)),
            }
        }
        if others > 0 {
            self.shared.say(format_args!(
                "{}: {others} frames without a UDP datagram passed over",
                path.display()
            ));
        }
        Ok(())
    }

    /// Prints the datagram in a captured packet. Says whether there was one.
    fn packet(&mut self, path: &Path, p: &Packet<'_>) -> Result<bool, DecodeError> {
        let Some(udp) = find_udp(p.link_type, p.data) else {
            return Ok(false);
        };
        let port = self.shared.args.wanted_port();
        if port.is_some_and(|port| port != udp.destination_port) {
            return Ok(true);
        }
        if (p.data.len() as u64) < u64::from(p.wire_len) {
            self.shared.say(format_args!(
                "{}: packet at byte {}: incomplete, {} of {} bytes were captured (capture with a larger snap length)",
                path.display(), p.offset, p.data.len(), p.wire_len
            ));
            return Ok(true);
        }
        let meta = Meta {
            // sflowtool does not show the sender of a captured datagram.
            source: if self.to_end {
                Address::Unknown
            } else {
                udp.source.into()
            },
            read_time: Stamp {
                utc_offset: self.out.utc_offset(0),
                ..Stamp::default()
            },
            capture_time: Some(Stamp {
                seconds: p.seconds,
                micros: p.micros,
                utc_offset: self.out.utc_offset(p.seconds),
            }),
        };
        self.counts.arrived(udp.payload.len());
        if let Some(t) = &mut self.tracker
            && let Ok(d) = Datagram::parse(udp.payload)
        {
            t.observe(&d);
        }
        let mut sound = self.out.is_sound(udp.payload, &mut self.counts.errors);
        let datagram = if self.to_end { udp.to_end } else { udp.payload };
        if let Err(fault) = self.out.datagram(&meta, datagram)? {
            sound = false;
            self.shared.say(format_args!(
                "{}: packet at byte {}: {fault}",
                path.display(),
                p.offset
            ));
        }
        self.counts.malformed += u64::from(!sound);
        Ok(true)
    }
}
