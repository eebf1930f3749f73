//! XDR primitives (RFC 4506): big-endian words, opaque data padded to four bytes.
//!
//! [`Reader`] is a cursor that checks every step against the bytes it was given and reports where it stopped; writing is
//! plain appending to a `Vec<u8>`. Nothing here knows sFlow.

use thiserror::Error;

/// What was wrong with the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ErrorKind {
    /// The structure needs more bytes than there are.
    #[error("the data ends early")]
    Truncated,
    /// The datagram's version is not 5.
    #[error("datagram version {0} is not 5")]
    Version(u32),
    /// An address type other than 0 (unknown), 1 (IPv4) and 2 (IPv6).
    #[error("unknown address type {0}")]
    AddressType(u32),
    /// A count of items that cannot fit in the bytes that are left.
    #[error("count {0} exceeds the bytes left")]
    Count(u32),
    /// A length that reaches beyond the structure that contains it.
    #[error("length {0} exceeds the bytes left")]
    Length(u32),
    /// A value type that its enclosing structure does not define.
    #[error("unknown value type {0}")]
    ValueType(u32),
}

/// A decoding error and the byte offset, from the start of the outermost data, at which it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{kind} at byte {offset}")]
pub struct DecodeError {
    /// What was wrong.
    pub kind: ErrorKind,
    /// Where, in bytes from the start of the datagram.
    pub offset: usize,
}

/// Short for the crate's decoding results.
pub type Result<T> = core::result::Result<T, DecodeError>;

/// Rounds a length up to the next multiple of four, saturating.
pub const fn pad4(len: usize) -> usize {
    len.saturating_add(3) & !3
}

/// A bounds-checked cursor over XDR data.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    data: &'a [u8],
    base: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of `data`.
    pub const fn new(data: &'a [u8]) -> Self {
        Reader { data, base: 0 }
    }

    /// Starts at the beginning of `data`, which itself lies `base` bytes into the datagram.
    pub const fn at(data: &'a [u8], base: usize) -> Self {
        Reader { data, base }
    }

    /// Bytes not read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.data
    }

    /// Number of bytes not read yet.
    pub const fn left(&self) -> usize {
        self.data.len()
    }

    /// Offset of the next byte from the start of the datagram.
    pub const fn offset(&self) -> usize {
        self.base
    }

    /// Makes an error that points at the next byte.
    pub const fn error(&self, kind: ErrorKind) -> DecodeError {
        DecodeError {
            kind,
            offset: self.base,
        }
    }

    /// Takes exactly `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        match self.data.split_at_checked(len) {
            Some((head, tail)) => {
                self.data = tail;
                self.base += len;
                Ok(head)
            }
            None => Err(self.error(ErrorKind::Truncated)),
        }
    }

    /// Takes `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.data.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.data = tail;
                self.base += N;
                Ok(*head)
            }
            None => Err(self.error(ErrorKind::Truncated)),
        }
    }

    /// Takes a 32-bit word.
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Takes a 64-bit word.
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Takes `len` bytes and the padding to the next four-byte boundary.
    ///
    /// Padding that the end of the data cuts off is accepted: some agents give record lengths without it.
    pub fn padded(&mut self, len: usize) -> Result<&'a [u8]> {
        if len > self.left() {
            return Err(self.error(ErrorKind::Length(len.min(u32::MAX as usize) as u32)));
        }
        let body = self.bytes(len)?;
        let pad = (pad4(len) - len).min(self.left());
        self.bytes(pad)?;
        Ok(body)
    }

    /// Takes an XDR variable-length opaque: a length word, the bytes, the padding.
    pub fn opaque(&mut self) -> Result<&'a [u8]> {
        let len = self.u32()?;
        self.padded(len as usize)
    }

    /// Takes a count of items of at least `min` bytes each and checks that so many can follow.
    pub fn count(&mut self, min: usize) -> Result<usize> {
        let here = *self;
        let n = self.u32()?;
        match (n as usize).checked_mul(min.max(1)) {
            Some(need) if need <= self.left() => Ok(n as usize),
            _ => Err(here.error(ErrorKind::Count(n))),
        }
    }
}

/// Appends a 32-bit word.
#[inline]
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a 64-bit word.
#[inline]
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends bytes and zero padding to a multiple of four.
pub fn put_padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    let pad = pad4(bytes.len()) - bytes.len();
    out.extend_from_slice(&[0; 3][..pad]);
}

/// Appends an XDR variable-length opaque. Bytes beyond 2^32-1 cannot be described and are left out.
pub fn put_opaque(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    put_u32(out, len);
    put_padded(out, &bytes[..len as usize]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opaque_round_trip_pads_with_zeros() {
        let mut out = Vec::new();
        put_opaque(&mut out, b"abcde");
        assert_eq!(out, [0, 0, 0, 5, b'a', b'b', b'c', b'd', b'e', 0, 0, 0]);
        let mut r = Reader::new(&out);
        assert_eq!(r.opaque().unwrap(), b"abcde");
        assert_eq!(r.left(), 0);
    }

    #[test]
    fn unpadded_end_is_accepted() {
        let mut r = Reader::new(&[0, 0, 0, 1, b'x']);
        assert_eq!(r.opaque().unwrap(), b"x");
    }

    #[test]
    fn errors_say_where() {
        let mut r = Reader::at(&[0, 0, 0, 9, 1], 100);
        let e = r.opaque().unwrap_err();
        assert_eq!(
            e,
            DecodeError {
                kind: ErrorKind::Length(9),
                offset: 104
            }
        );
    }

    #[test]
    fn counts_are_bounded_by_the_bytes_left() {
        let mut r = Reader::new(&[0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0]);
        assert_eq!(r.count(16).unwrap_err().kind, ErrorKind::Count(0xFFFF_FFFF));
        let mut r = Reader::new(&[0, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(r.count(4).unwrap(), 1);
    }
}
