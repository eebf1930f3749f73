//! NetFlow version 5: a header of 24 bytes and up to 30 records of 48.
//!
//! Cisco's "NetFlow Export Datagram Format", tables B-3 and B-4. The sequence number counts flows. All counters are of 32 bits,
//! interfaces and AS numbers of 16 (a larger AS number is sent as `AS_TRANS`, RFC 6793), and there is no IPv6.

use core::net::IpAddr;

use crate::NETFLOW5_MAX_INTERVAL;
use crate::exporter::{Fit, PushError, Settings, uptime};
use crate::flow::Flow;

const HEADER: usize = 24;
const RECORD: usize = 48;
/// Records in a datagram at most; receivers refuse more.
const MOST: usize = 30;
/// `AS_TRANS`, RFC 6793.
const AS_TRANS: u16 = 23_456;
/// Sampling mode "random" in the upper two bits.
const RANDOM: u16 = 2 << 14;

/// A stream of version 5.
#[derive(Debug)]
pub(crate) struct NetFlow5 {
    settings: Settings,
    buf: Vec<u8>,
    flows: u16,
    /// Flows sent in all datagrams before this one.
    sequence: u32,
}

impl NetFlow5 {
    pub(crate) fn new(settings: Settings) -> NetFlow5 {
        NetFlow5 {
            settings,
            buf: Vec::with_capacity(HEADER + MOST * RECORD),
            flows: 0,
            sequence: 0,
        }
    }

    pub(crate) fn pending(&self) -> u32 {
        u32::from(self.flows)
    }

    pub(crate) fn push(&mut self, flow: &Flow) -> Result<Fit, PushError> {
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (flow.src, flow.dst) else {
            return Err(PushError::Ipv6);
        };
        if self.flows == 0 {
            self.buf.clear();
            self.buf.resize(HEADER, 0);
        }
        let full = usize::from(self.flows) == MOST;
        if full || self.buf.len() + RECORD > self.settings.max_bytes {
            return Err(PushError::Full);
        }
        let mut fit = Fit::Whole;
        let next_hop = match flow.next_hop {
            Some(IpAddr::V4(a)) => a.octets(),
            _ => [0; 4],
        };
        let r = &mut self.buf;
        for address in [src.octets(), dst.octets(), next_hop] {
            r.extend_from_slice(&address);
        }
        for index in [flow.input, flow.output] {
            put16(r, narrow16(index, &mut fit));
        }
        for count in [flow.packets, flow.octets] {
            put32(r, narrow32(count, &mut fit));
        }
        for time in [flow.start_ms, flow.end_ms] {
            put32(r, uptime(&self.settings, time));
        }
        put16(r, flow.src_port);
        put16(r, flow.dst_port_or_icmp());
        r.extend_from_slice(&[0, flow.tcp_flags, flow.protocol, flow.tos]);
        for number in [flow.src_as, flow.dst_as] {
            put16(r, u16::try_from(number).unwrap_or(AS_TRANS));
        }
        r.extend_from_slice(&[flow.src_mask, flow.dst_mask, 0, 0]);
        self.flows += 1;
        Ok(fit)
    }

    pub(crate) fn finish(&mut self, now_ms: u64) -> Option<&[u8]> {
        if self.flows == 0 {
            return None;
        }
        let mut head = Vec::with_capacity(HEADER);
        put16(&mut head, 5);
        put16(&mut head, self.flows);
        put32(&mut head, uptime(&self.settings, now_ms));
        put32(&mut head, (now_ms / 1000) as u32);
        put32(&mut head, (now_ms % 1000) as u32 * 1_000_000);
        put32(&mut head, self.sequence);
        put16(&mut head, self.settings.domain as u16);
        put16(&mut head, sampling(self.settings.sampling_interval));
        if let Some(space) = self.buf.get_mut(..HEADER) {
            space.copy_from_slice(&head);
        }
        self.sequence = self.sequence.wrapping_add(u32::from(self.flows));
        self.flows = 0;
        Some(&self.buf)
    }
}

/// Mode and interval; nothing where every packet counts.
fn sampling(interval: u32) -> u16 {
    match interval {
        0 | 1 => 0,
        n => RANDOM | n.min(NETFLOW5_MAX_INTERVAL) as u16,
    }
}

fn narrow16(value: u32, fit: &mut Fit) -> u16 {
    u16::try_from(value).unwrap_or_else(|_| {
        *fit = Fit::Clipped;
        0
    })
}

fn narrow32(value: u64, fit: &mut Fit) -> u32 {
    u32::try_from(value).unwrap_or_else(|_| {
        *fit = Fit::Clipped;
        u32::MAX
    })
}

fn put16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn put32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}
