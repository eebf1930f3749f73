//! Samples of datagram versions 2 and 4, as sflowtool shows them. Agents that send them are rare; only the compatible printers read them.

use super::csv::Row;
use super::sink::Sink;
use super::value::Value;
use super::walk::{Fault, Step, Walker};
use crate::record::field::Item;
use crate::record::{
    EthernetCounters, ExtendedGateway, ExtendedUrl, IfCounters, TokenRingCounters, VgCounters,
    VlanCounters,
};

impl<S: Sink> Walker<'_, '_, S> {
    /// A sample of version 2 or 4: 1 is a flow, 2 counters.
    pub(crate) fn old_sample(&mut self, kind: u32) -> Step {
        match kind {
            1 => self.old_flow_sample(),
            2 => self.old_counter_sample(),
            _ => Err(Fault::Unknown("sample type", kind)),
        }
    }

    fn old_flow_sample(&mut self) -> Step {
        self.field("sampleType", Value::Str(b"FLOWSAMPLE"));
        self.next_u32("sampleSequenceNo")?;
        self.read_source(false)?;
        self.source_field();
        self.flow.rate = self.u32()?;
        let (pool, drops) = (self.u32()?, self.u32()?);
        self.flow.input = self.u32()?;
        self.flow.output = self.u32()?;
        self.u32_field("meanSkipCount", self.flow.rate);
        self.u32_field("samplePool", pool);
        self.u32_field("dropEvents", drops);
        self.u32_field("inputPort", self.flow.input);
        self.old_output_port();
        let kind = self.u32()?;
        self.sink.open_array("elements");
        self.sink.open_object();
        match kind {
            1 => self.raw_header()?,
            2 => self.ipv4("")?,
            3 => self.ipv6("")?,
            _ => return Err(Fault::Unknown("packet data type", kind)),
        }
        self.sink.close_object();
        for _ in 0..self.u32()? {
            self.sink.open_object();
            self.old_extension()?;
            self.sink.close_object();
        }
        self.sink.close_array();
        self.sink.flush(&Row::Flow(self.context.agent, &self.flow));
        Ok(())
    }

    fn old_output_port(&mut self) {
        let port = self.flow.output;
        match port & 0x7FFF_FFFF {
            n if n == port => self.u32_field("outputPort", port),
            0 => self.field("outputPort", Value::Str(b"multiple >1")),
            n => self.field("outputPort", Value::Port(2, n)),
        }
    }

    fn old_extension(&mut self) -> Step {
        let kind = self.u32()?;
        match kind {
            1 | 2 => self.flow_record(crate::Tag::new(0, 1000 + kind), 0),
            3 => self.old_gateway(),
            4 => self.flow_record(crate::Tag::new(0, 1004), 0),
            5 => {
                self.field("extendedType", Value::Str(b"URL"));
                // The host came with version 5.
                self.items(&ExtendedUrl::LAYOUT.items[..2], 0)
            }
            _ => Err(Fault::Unknown("extended data type", kind)),
        }
    }

    fn old_gateway(&mut self) -> Step {
        self.field("extendedType", Value::Str(b"GATEWAY"));
        if self.version != 2 {
            // The next hop came with version 5.
            return self.items(&ExtendedGateway::LAYOUT.items[1..], 0);
        }
        let (router, src, src_peer) = (self.u32()?, self.u32()?, self.u32()?);
        let count = self.u32()?;
        let len = count.checked_mul(4).ok_or(Fault::EndOfData)?;
        let path: Vec<u32> = self
            .bytes(len)?
            .chunks_exact(4)
            .map(|c| u32::from_be_bytes([c[0], c[1], c[2], c[3]]))
            .collect();
        self.u32_field("my_as", router);
        self.u32_field("src_as", src);
        self.u32_field("src_peer_as", src_peer);
        self.u32_field("dst_as", path.last().copied().unwrap_or(0));
        self.u32_field("dst_peer_as", path.first().copied().unwrap_or(0));
        self.u32_field("dst_as_path_len", count);
        if !path.is_empty() {
            self.number_list("dst_as_path", &path);
        }
        Ok(())
    }

    fn old_counter_sample(&mut self) -> Step {
        self.field("sampleType", Value::Str(b"COUNTERSSAMPLE"));
        self.next_u32("sampleSequenceNo")?;
        self.read_source(false)?;
        self.source_field();
        self.next_u32("statsSamplingInterval")?;
        let kind = self.next_u32("counterBlockVersion")?;
        self.sink.open_array("elements");
        self.sink.open_object();
        match kind {
            1..=6 => {
                self.generic_at = Some(self.pos);
                self.items(IfCounters::LAYOUT.items, 0)?;
            }
            7 => {}
            _ => return Err(Fault::Unknown("counter block version", kind)),
        }
        self.sink.close_object();
        self.sink.open_object();
        let more: &[Item] = match kind {
            2 => EthernetCounters::LAYOUT.items,
            3 => TokenRingCounters::LAYOUT.items,
            5 => VgCounters::LAYOUT.items,
            7 => VlanCounters::LAYOUT.items,
            _ => &[],
        };
        self.items(more, 0)?;
        self.sink.close_object();
        self.sink.close_array();
        self.flush_counters();
        Ok(())
    }
}
