//! Messages of NetFlow version 9 (RFC 3954 section 5) and IPFIX (RFC 7011 section 3): a header, then sets of templates and of records.
//!
//! Templates go in front of the first record that needs them, and again when they are due; only those that are used are sent. What is
//! said about sampling goes in front of everything, each record in a set of its own, because some collectors read only the first record of a set.
//! The sequence number counts messages in version 9 (section 5.1) and data records, those of options included, in IPFIX (section 3.1).

use crate::element::Element;
use crate::exporter::{Protocol, PushError, Settings, uptime};
use crate::flow::Flow;
use crate::template::{Options, Shape, elements, options};

/// A stream of version 9 or IPFIX.
#[derive(Debug)]
pub(crate) struct Templated {
    settings: Settings,
    buf: Vec<u8>,
    at: Progress,
    /// Messages sent (version 9), or data records sent before this message (IPFIX).
    sequence: u32,
    /// When templates were sent last, and how many messages ago.
    refreshed_ms: Option<u64>,
    messages: u32,
}

/// How far the message is: what is taken back when a flow does not fit.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// Number and place of the set that records are being added to.
    open: Option<(u16, usize)>,
    /// Templates and records in the message, which version 9 counts.
    items: u16,
    /// Records in the message, which IPFIX counts.
    records: u32,
    /// Flows in the message.
    flows: u32,
    /// Whether sampling has been announced, and which shapes have.
    sampling: bool,
    shapes: u16,
}

impl Templated {
    pub(crate) fn new(settings: Settings) -> Templated {
        Templated {
            settings,
            buf: Vec::with_capacity(2 * settings.max_bytes.min(65_536)),
            at: Progress::default(),
            sequence: 0,
            refreshed_ms: None,
            messages: 0,
        }
    }

    pub(crate) fn pending(&self) -> u32 {
        self.at.flows
    }

    pub(crate) fn push(&mut self, flow: &Flow, now_ms: u64) -> Result<(), PushError> {
        if self.at.flows == 0 {
            self.begin(now_ms);
        }
        let (before, length) = (self.at, self.buf.len());
        let shape = Shape::of(flow);
        self.announce(shape);
        self.open(shape.id());
        for e in elements(shape, &self.settings) {
            e.write(&mut self.buf, flow, &self.settings);
        }
        self.at.items += 1;
        self.at.records += 1;
        self.at.flows += 1;
        // Up to three bytes of padding may still come.
        if self.buf.len() + 3 > self.settings.max_bytes || self.at.items == u16::MAX {
            self.buf.truncate(length);
            self.at = before;
            return Err(match before.flows {
                0 => PushError::TooLarge,
                _ => PushError::Full,
            });
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self, now_ms: u64) -> Option<&[u8]> {
        if self.at.flows == 0 {
            return None;
        }
        self.close();
        self.header(now_ms);
        let counted = match self.settings.protocol {
            Protocol::Ipfix => self.at.records,
            _ => 1,
        };
        self.sequence = self.sequence.wrapping_add(counted);
        self.messages = self.messages.saturating_add(1);
        self.at = Progress {
            sampling: self.at.sampling,
            shapes: self.at.shapes,
            ..Progress::default()
        };
        Some(&self.buf)
    }

    fn header_len(&self) -> usize {
        match self.settings.protocol {
            Protocol::Ipfix => 16,
            _ => 20,
        }
    }

    fn begin(&mut self, now_ms: u64) {
        let due = match self.refreshed_ms {
            None => true,
            Some(at) => {
                now_ms.saturating_sub(at) >= self.settings.refresh_ms
                    || self.messages >= self.settings.refresh_datagrams
            }
        };
        if due {
            self.at = Progress::default();
            self.refreshed_ms = Some(now_ms);
            self.messages = 0;
        }
        self.buf.clear();
        self.buf.resize(self.header_len(), 0);
    }

    fn header(&mut self, now_ms: u64) {
        let s = &self.settings;
        let length = self.buf.len() as u16;
        let mut seconds = now_ms / 1000;
        if s.protocol == Protocol::NetFlow9 {
            // Receivers take the time of boot for the difference of these two, so they must be of the same moment: the next full second,
            // because the header has no fractions and no flow may end after it.
            seconds = now_ms.div_ceil(1000);
        }
        let up = uptime(s, seconds.saturating_mul(1000));
        let seconds = seconds as u32;
        let mut head = [0u8; 20];
        let n = self.header_len();
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(space) = head.get_mut(at..at + bytes.len()) {
                space.copy_from_slice(bytes);
            }
        };
        let ipfix = s.protocol == Protocol::Ipfix;
        if ipfix {
            put(0, &[0, 10]);
            put(2, &length.to_be_bytes());
            put(4, &seconds.to_be_bytes());
        } else {
            put(0, &[0, 9]);
            put(2, &self.at.items.to_be_bytes());
            put(4, &up.to_be_bytes());
            put(8, &seconds.to_be_bytes());
        }
        put(n - 8, &self.sequence.to_be_bytes());
        put(n - 4, &s.domain.to_be_bytes());
        if let Some(space) = self.buf.get_mut(..n) {
            space.copy_from_slice(&head[..n]);
        }
    }

    /// Sends what a receiver needs to read flows of this shape, unless it was sent.
    fn announce(&mut self, shape: Shape) {
        if !self.at.sampling {
            self.at.sampling = true;
            let all = options(self.settings.protocol);
            all.iter().for_each(|o| self.options_template(o));
            all.iter().for_each(|o| self.options_record(o));
        }
        let bit = 1 << shape.bit();
        if self.at.shapes & bit == 0 {
            self.at.shapes |= bit;
            self.template(shape);
        }
    }

    fn template(&mut self, shape: Shape) {
        let set = match self.settings.protocol {
            Protocol::Ipfix => 2,
            _ => 0,
        };
        let settings = self.settings;
        self.close();
        self.open(set);
        self.put16(shape.id());
        self.put16(elements(shape, &settings).count() as u16);
        elements(shape, &settings).for_each(|e| self.specifier(e));
        self.at.items += 1;
        self.close();
    }

    fn options_template(&mut self, o: &Options) {
        let count = o.elements.len() as u16 + 1;
        let ipfix = self.settings.protocol == Protocol::Ipfix;
        self.close();
        self.open(if ipfix { 3 } else { 1 });
        self.put16(o.id);
        if ipfix {
            self.put16(count);
            self.put16(1);
        } else {
            // Version 9 gives the bytes that the specifiers take.
            self.put16(4);
            self.put16((count - 1) * 4);
        }
        self.specifier(&o.scope);
        o.elements.iter().for_each(|e| self.specifier(e));
        self.at.items += 1;
        self.close();
    }

    fn options_record(&mut self, o: &Options) {
        self.close();
        self.open(o.id);
        let nothing = Flow::default();
        for e in core::iter::once(&o.scope).chain(o.elements) {
            e.write(&mut self.buf, &nothing, &self.settings);
        }
        self.at.items += 1;
        self.at.records += 1;
        self.close();
    }

    fn specifier(&mut self, e: &Element) {
        self.put16(e.id);
        self.put16(e.len);
    }

    /// Makes the set of this number the one that is added to.
    fn open(&mut self, id: u16) {
        if self.at.open.is_some_and(|(open, _)| open == id) {
            return;
        }
        self.close();
        self.at.open = Some((id, self.buf.len()));
        self.put16(id);
        self.put16(0);
    }

    /// Pads the open set to a multiple of four and writes its length.
    fn close(&mut self) {
        let Some((_, start)) = self.at.open.take() else {
            return;
        };
        let padded = start + (self.buf.len() - start).next_multiple_of(4);
        self.buf.resize(padded, 0);
        let length = (padded - start) as u16;
        if let Some(space) = self.buf.get_mut(start + 2..start + 4) {
            space.copy_from_slice(&length.to_be_bytes());
        }
    }

    fn put16(&mut self, value: u16) {
        self.buf.extend_from_slice(&value.to_be_bytes());
    }
}
