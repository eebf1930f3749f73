//! One line per sample: the 20 columns of a flow, the 19 counters of an interface.

use super::sink::{Context, Sink};
use super::value::{Value, put_address, put_hex_lower, put_hex32, put_i32, put_u32, put_u64};
use crate::types::Address;

/// What a flow sample's records said, the last one winning. All numbers start at 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    pub(crate) input: u32,
    pub(crate) output: u32,
    pub(crate) eth_src: [u8; 6],
    pub(crate) eth_dst: [u8; 6],
    pub(crate) eth_type: u32,
    pub(crate) in_vlan: u32,
    pub(crate) out_vlan: u32,
    pub(crate) ip_src: Address,
    pub(crate) ip_dst: Address,
    pub(crate) protocol: u32,
    pub(crate) tos: u32,
    pub(crate) ttl: u32,
    pub(crate) src_port: u32,
    pub(crate) dst_port: u32,
    pub(crate) tcp_flags: u32,
    pub(crate) packet_size: u32,
    pub(crate) stripped: u32,
    pub(crate) ip4_offset: u32,
    pub(crate) rate: u32,
}

impl Default for Flow {
    fn default() -> Self {
        Flow {
            input: 0,
            output: 0,
            eth_src: [0; 6],
            eth_dst: [0; 6],
            eth_type: 0,
            in_vlan: 0,
            out_vlan: 0,
            ip_src: Address::Unknown,
            ip_dst: Address::Unknown,
            protocol: 0,
            tos: 0,
            ttl: 0,
            src_port: 0,
            dst_port: 0,
            tcp_flags: 0,
            packet_size: 0,
            stripped: 0,
            ip4_offset: 0,
            rate: 0,
        }
    }
}

/// A complete sample.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Row<'r> {
    Flow(Address, &'r Flow),
    /// The body of the last generic interface record, if there was one.
    Counters(Address, Option<&'r [u8; 88]>),
    /// A sample that has no line of its own.
    Other,
}

/// Writes only the lines of complete samples.
#[derive(Debug, Default)]
pub(crate) struct Csv {
    out: Vec<u8>,
}

impl Sink for Csv {
    const SILENT: bool = true;

    #[inline]
    fn field(&mut self, _c: &Context, _key: [&str; 3], _value: Value<'_>) {}

    fn raw_field(&mut self, _c: &Context, _key: &[u8], _value: Value<'_>) {}

    fn flush(&mut self, row: &Row<'_>) {
        match row {
            Row::Flow(agent, flow) => put_flow(&mut self.out, *agent, flow),
            Row::Counters(agent, body) => put_counters(&mut self.out, *agent, *body),
            Row::Other => {}
        }
    }

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
}

fn put_flow(out: &mut Vec<u8>, agent: Address, f: &Flow) {
    out.extend_from_slice(b"FLOW,");
    put_address(out, agent);
    // sflowtool prints these unsigned numbers as signed ones.
    for n in [f.input, f.output] {
        out.push(b',');
        put_i32(out, n as i32);
    }
    out.push(b',');
    put_hex_lower(out, &f.eth_src);
    out.push(b',');
    put_hex_lower(out, &f.eth_dst);
    out.push(b',');
    put_hex32(out, f.eth_type, 4);
    for n in [f.in_vlan, f.out_vlan] {
        out.push(b',');
        put_i32(out, n as i32);
    }
    for a in [f.ip_src, f.ip_dst] {
        out.push(b',');
        put_address(out, a);
    }
    out.push(b',');
    put_i32(out, f.protocol as i32);
    out.push(b',');
    put_hex32(out, f.tos, 2);
    for n in [f.ttl, f.src_port, f.dst_port] {
        out.push(b',');
        put_i32(out, n as i32);
    }
    out.push(b',');
    put_hex32(out, f.tcp_flags, 2);
    let ip_size = f
        .packet_size
        .wrapping_sub(f.stripped)
        .wrapping_sub(f.ip4_offset);
    for n in [f.packet_size, ip_size, f.rate] {
        out.push(b',');
        put_i32(out, n as i32);
    }
    out.push(b'\n');
}

fn put_counters(out: &mut Vec<u8>, agent: Address, body: Option<&[u8; 88]>) {
    out.extend_from_slice(b"CNTR,");
    put_address(out, agent);
    let mut rest: &[u8] = body.map_or(&[0; 88], |b| b);
    for column in 0..19 {
        out.push(b',');
        // ifSpeed, ifInOctets and ifOutOctets are the wide ones.
        if matches!(column, 2 | 5 | 12) {
            let (word, tail) = rest.split_first_chunk().unwrap_or((&[0; 8], &[]));
            put_u64(out, u64::from_be_bytes(*word));
            rest = tail;
        } else {
            let (word, tail) = rest.split_first_chunk().unwrap_or((&[0; 4], &[]));
            put_u32(out, u32::from_be_bytes(*word));
            rest = tail;
        }
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_flow() {
        let mut csv = Csv::default();
        let flow = Flow {
            out_vlan: u32::MAX,
            ..Flow::default()
        };
        csv.flush(&Row::Flow(Address::V4([192, 0, 2, 1].into()), &flow));
        assert_eq!(
            String::from_utf8_lossy(csv.out()),
            "FLOW,192.0.2.1,0,0,000000000000,000000000000,0x0000,0,-1,-,-,0,0x00,0,0,0,0x00,0,0,0\n"
        );
    }

    #[test]
    fn counters_without_a_generic_record_are_zero() {
        let mut csv = Csv::default();
        csv.flush(&Row::Counters(Address::V4([192, 0, 2, 1].into()), None));
        assert_eq!(
            String::from_utf8_lossy(csv.out()),
            "CNTR,192.0.2.1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n"
        );
    }
}
