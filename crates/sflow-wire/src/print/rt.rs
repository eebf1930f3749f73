//! InMon's real-time samples (4300:1002 metrics, 4300:1003 flows): named values of several types.

use super::csv::Row;
use super::sink::Sink;
use super::value::{Value, c_string};
use super::walk::{Fault, Step, Walker};

/// Bytes of a name and of a string that sflowtool keeps.
const NAME: usize = 63;
const STRING: usize = 254;

/// Names of the value types in keys, by type number.
pub(crate) const METRIC_TYPES: [&str; 7] = [
    "string",
    "counter32",
    "counter64",
    "gauge32",
    "gauge64",
    "gaugeFloat",
    "gaugeDouble",
];
pub(crate) const FLOW_TYPES: [&str; 8] = [
    "string", "mac", "ip", "ip6", "int32", "int64", "float", "double",
];

impl<S: Sink> Walker<'_, '_, S> {
    pub(crate) fn rtmetric(&mut self) -> Step {
        self.field("sampleType", Value::Str(b"RTMETRIC"));
        let len = self.u32()?;
        let start = self.pos;
        self.datasource_name("rtmetric_datasource_name")?;
        for _ in 0..self.u32()? {
            let (name, _) = self.string(NAME)?;
            let kind = self.u32()?;
            let value = match kind {
                0 => Value::Str(self.string(STRING)?.0),
                1 | 3 => Value::U32(self.u32()?),
                2 | 4 => Value::U64(self.u64()?),
                5 => self.float()?,
                6 => self.double()?,
                _ => return Err(self.unknown_type("rtmetric", kind)),
            };
            self.named("rtmetric_", METRIC_TYPES[kind as usize], name, value);
        }
        // Here the line comes before the length is checked, in flows after.
        self.sink.flush(&Row::Other);
        self.check_sample_length("rtmetric_sample", start, len)
    }

    pub(crate) fn rtflow(&mut self) -> Step {
        self.field("sampleType", Value::Str(b"RTFLOW"));
        let len = self.u32()?;
        let start = self.pos;
        self.datasource_name("rtflow_datasource_name")?;
        self.next_u32("rtflow_sampling_rate")?;
        self.next_u32("rtflow_sample_pool")?;
        for _ in 0..self.u32()? {
            let (name, _) = self.string(NAME)?;
            let kind = self.u32()?;
            let value = match kind {
                0 => Value::Str(self.string(STRING)?.0),
                1 => {
                    let [a, b, c, d, e, f, _, _] = self.array()?;
                    Value::Mac([a, b, c, d, e, f])
                }
                2 => Value::Ip4(self.array()?),
                3 => Value::Ip6(self.array()?),
                4 => Value::U32(self.u32()?),
                5 => Value::U64(self.u64()?),
                6 => self.float()?,
                7 => self.double()?,
                _ => return Err(self.unknown_type("rtflow", kind)),
            };
            self.named("rtflow_", FLOW_TYPES[kind as usize], name, value);
        }
        self.check_sample_length("rtflow_sample", start, len)?;
        self.sink.flush(&Row::Other);
        Ok(())
    }

    fn datasource_name(&mut self, key: &str) -> Step {
        let (name, len) = self.string(NAME)?;
        if len > 0 {
            self.field(key, Value::Str(name));
        }
        Ok(())
    }

    fn float(&mut self) -> Step<Value<'static>> {
        Ok(Value::Float(f64::from(f32::from_bits(self.u32()?)), 199))
    }

    fn double(&mut self) -> Step<Value<'static>> {
        Ok(Value::Float(f64::from_bits(self.u64()?), 199))
    }

    fn unknown_type(&mut self, what: &'static str, kind: u32) -> Fault {
        if !S::SILENT {
            let text = format!("{what} unknown_type {kind}");
            self.sink.line(&self.context, text.as_bytes());
        }
        Fault::Unknown(what, kind)
    }

    /// Shows a value under a key that ends with a name from the datagram, which need not be text.
    fn named(&mut self, sample: &str, kind: &str, name: &[u8], value: Value<'_>) {
        if S::SILENT {
            return;
        }
        let mut key = core::mem::take(&mut self.scratch);
        key.clear();
        key.extend_from_slice(sample.as_bytes());
        key.extend_from_slice(kind.as_bytes());
        key.push(b'_');
        key.extend_from_slice(c_string(name));
        self.sink.raw_field(&self.context, &key, value);
        self.scratch = key;
    }
}
