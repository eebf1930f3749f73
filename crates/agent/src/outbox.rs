//! Datagrams in the making.
//!
//! Samples are written straight into the datagram that leaves; nothing is allocated for them. Full datagrams gather until
//! the end of a drain and leave together, so that the transport can hand many to the kernel at once; the open one leaves
//! when it is full or its oldest sample has waited long enough.

use std::net::IpAddr;

use parshall_sflow_wire::{DatagramBuilder, PushError};

use crate::transport::Transport;

/// Most datagrams handed to the transport at once.
pub const BATCH: usize = 64;

/// What every datagram says about its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Agent address.
    pub address: IpAddr,
    /// Sub-agent id.
    pub sub_agent_id: u32,
    /// When the agent started, in ns.
    pub started: u64,
}

/// The datagrams being filled and waiting to be sent.
pub struct Outbox {
    sender: Sender,
    /// `builders[..full]` are complete, `builders[full]` is open, the rest is free.
    builders: Vec<DatagramBuilder>,
    full: usize,
    /// When the first sample went into the open datagram.
    opened: Option<u64>,
    sequence: u32,
    max_age: u64,
    max_bytes: usize,
    datagrams: u64,
    bytes: u64,
}

impl Outbox {
    /// Datagrams below `max_datagram` bytes, of samples at most `max_age` ns old.
    pub fn new(sender: Sender, max_datagram: u32, max_age: u64) -> Outbox {
        let mut o = Outbox {
            sender,
            builders: Vec::new(),
            full: 0,
            opened: None,
            sequence: 0,
            max_age,
            max_bytes: 0,
            datagrams: 0,
            bytes: 0,
        };
        o.set_limits(max_datagram, max_age);
        o
    }

    /// Changes the limits. What is in the outbox must have been flushed.
    pub fn set_limits(&mut self, max_datagram: u32, max_age: u64) {
        // hsflowd stays strictly below its limit, and all lengths are multiples of four: 1396 bytes at 1400.
        let max_bytes = (max_datagram.saturating_sub(1) & !3) as usize;
        if max_bytes != self.max_bytes {
            self.builders = (0..BATCH)
                .map(|_| DatagramBuilder::new(max_bytes))
                .collect();
        }
        self.max_bytes = max_bytes;
        self.max_age = max_age;
    }

    /// Becomes another agent: numbers and time start again (sFlow Version 5, section 5: both belong to the address).
    pub fn set_sender(&mut self, sender: Sender) {
        self.sender = sender;
        self.sequence = 0;
    }

    /// Who sends.
    pub fn sender(&self) -> Sender {
        self.sender
    }

    /// Datagrams sent and bytes in them.
    pub fn totals(&self) -> (u64, u64) {
        (self.datagrams, self.bytes)
    }

    /// Writes a sample into the open datagram, or into the next when it does not fit.
    ///
    /// # Errors
    /// [`PushError::TooLarge`] when it fits in none.
    #[inline]
    pub fn push(
        &mut self,
        now: u64,
        transport: &mut dyn Transport,
        write: impl Fn(&mut DatagramBuilder) -> Result<(), PushError>,
    ) -> Result<(), PushError> {
        if self.opened.is_none() {
            self.begin(now);
        }
        let mut outcome = write(&mut self.builders[self.full]);
        if outcome == Err(PushError::Full) {
            self.close(now, transport);
            self.begin(now);
            outcome = write(&mut self.builders[self.full]);
        }
        if outcome.is_ok() && self.opened.is_none() {
            self.opened = Some(now);
        }
        outcome
    }

    fn begin(&mut self, now: u64) {
        let Sender {
            address,
            sub_agent_id,
            started,
        } = self.sender;
        let uptime_ms = (now.saturating_sub(started) / 1_000_000) as u32;
        self.builders[self.full].begin(
            address,
            sub_agent_id,
            self.sequence.wrapping_add(1),
            uptime_ms,
        );
    }

    /// Completes the open datagram; sends when there is no room for another.
    fn close(&mut self, now: u64, transport: &mut dyn Transport) {
        self.opened = None;
        self.sequence = self.sequence.wrapping_add(1);
        self.full += 1;
        if self.full == self.builders.len() {
            self.send_full(now, transport);
        }
    }

    /// Sends every complete datagram.
    pub fn send_full(&mut self, now: u64, transport: &mut dyn Transport) {
        if self.full == 0 {
            return;
        }
        let full = self.full;
        let mut list: [&[u8]; BATCH] = [&[]; BATCH];
        for (slot, builder) in list.iter_mut().zip(&mut self.builders[..full]) {
            *slot = builder.finish();
            self.bytes += slot.len() as u64;
        }
        self.datagrams += full as u64;
        transport.send(now, &list[..full]);
        // The open datagram moves to the front.
        if full < self.builders.len() {
            self.builders.swap(0, full);
        }
        self.full = 0;
    }

    /// Sends everything.
    pub fn flush(&mut self, now: u64, transport: &mut dyn Transport) {
        if self.opened.is_some() {
            self.close(now, transport);
        }
        self.send_full(now, transport);
    }

    /// Sends the open datagram if it is due.
    pub fn flush_aged(&mut self, now: u64, transport: &mut dyn Transport) {
        if self.due() <= now {
            self.flush(now, transport);
        }
    }

    /// When the open datagram must leave. A tenth of the allowed age is left for a caller that comes late.
    pub fn due(&self) -> u64 {
        self.opened
            .map_or(u64::MAX, |at| at + self.max_age - self.max_age / 10)
    }
}
