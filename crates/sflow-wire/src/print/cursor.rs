//! The walker's hands: reading words and strings from the datagram, showing fields.

use super::sink::Sink;
use super::value::Value;
use super::walk::{Fault, Step, Walker};
use crate::types::Address;
use crate::xdr::pad4;

impl<'d, S: Sink> Walker<'d, '_, S> {
    // Reading.

    /// Bytes between here and the end of the datagram.
    pub(crate) fn left(&self) -> usize {
        self.data.len().saturating_sub(self.pos)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Step<u32> {
        let word = self.data.get(self.pos..).and_then(|d| d.first_chunk());
        match word {
            Some(w) => {
                self.pos += 4;
                Ok(u32::from_be_bytes(*w))
            }
            None => Err(Fault::EndOfData),
        }
    }

    pub(crate) fn u64(&mut self) -> Step<u64> {
        let high = self.u32()?;
        Ok(u64::from(high) << 32 | u64::from(self.u32()?))
    }

    /// Steps over so many bytes and their padding.
    pub(crate) fn skip(&mut self, len: u32) -> Step {
        if pad4(len as usize) > self.left() {
            return Err(Fault::EndOfData);
        }
        self.pos += pad4(len as usize);
        Ok(())
    }

    /// Takes so many bytes and steps over their padding.
    pub(crate) fn bytes(&mut self, len: u32) -> Step<&'d [u8]> {
        let start = self.pos;
        self.skip(len)?;
        Ok(self.data.get(start..start + len as usize).unwrap_or(&[]))
    }

    /// Takes a string, of which at most `most` bytes are kept; also says how long it was.
    pub(crate) fn string(&mut self, most: usize) -> Step<(&'d [u8], u32)> {
        let len = self.u32()?;
        let s = self.bytes(len)?;
        Ok((s.get(..most.min(s.len())).unwrap_or(s), len))
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Step<[u8; N]> {
        let b = self.bytes(N as u32)?;
        b.first_chunk().copied().ok_or(Fault::EndOfData)
    }

    pub(crate) fn address(&mut self) -> Step<Address> {
        let kind = self.u32()?;
        self.address_body(kind)
    }

    pub(crate) fn address_body(&mut self, kind: u32) -> Step<Address> {
        match kind {
            1 => Ok(Address::V4(self.array::<4>()?.into())),
            2 => Ok(Address::V6(self.array::<16>()?.into())),
            _ => Err(Fault::AddressType(kind)),
        }
    }

    /// Bytes at `at`, zeros where the datagram has ended. sflowtool reads some fields of a sampled header without looking at its length.
    pub(crate) fn peek<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        let rest = self.data.get(at..).unwrap_or(&[]);
        let n = rest.len().min(N);
        out[..n].copy_from_slice(&rest[..n]);
        out
    }

    // Showing.

    #[inline]
    pub(crate) fn field(&mut self, key: &str, value: Value<'_>) {
        self.sink
            .field(&self.context, [self.prefix, key, ""], value);
    }

    #[inline]
    pub(crate) fn u32_field(&mut self, key: &str, n: u32) {
        self.field(key, Value::U32(n));
    }

    /// Reads a number and shows it.
    #[inline]
    pub(crate) fn next_u32(&mut self, key: &str) -> Step<u32> {
        let n = self.u32()?;
        self.u32_field(key, n);
        Ok(n)
    }
}
