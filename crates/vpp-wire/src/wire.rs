//! Values on the wire: big-endian integers, little-endian floats, texts that are padded with zeros or have their length in front.

use thiserror::Error;

use crate::schema::Header;
use crate::{MessageInfo, id_of, message};

/// Why bytes are not the message they are said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// They end early.
    #[error("ends before its last field")]
    Short,
}

/// Reads values one after the other.
#[derive(Clone, Debug)]
pub struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    /// From the start of `bytes`.
    pub fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader { rest: bytes }
    }

    /// The next `n` bytes.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn take(&mut self, n: usize) -> Result<&'b [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(n).ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// So many values. Room is made only for what can be there.
    pub(crate) fn list<T: Wire>(&mut self, n: usize) -> Result<Vec<T>, DecodeError> {
        if n > self.rest.len() / T::LEAST.max(1) {
            return Err(DecodeError::Short);
        }
        (0..n).map(|_| T::get(self)).collect()
    }

    /// A text in `n` bytes, up to the first zero.
    pub(crate) fn text(&mut self, n: usize) -> Result<String, DecodeError> {
        let bytes = self.take(n)?;
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(n);
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// A text with its length in front.
    pub(crate) fn long_text(&mut self) -> Result<String, DecodeError> {
        let n = u32::get(self)?;
        let bytes = self.take(usize::try_from(n).unwrap_or(usize::MAX))?;
        // Some clients count the zero at its end.
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

/// A text that clients can read: they die of anything but ASCII in a padded one.
fn ascii(text: &str) -> impl Iterator<Item = u8> {
    let printable = |c: char| {
        if c.is_ascii() && c != '\0' {
            c as u8
        } else {
            b'?'
        }
    };
    text.chars().map(printable)
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str, n: usize) {
    let end = out.len() + n;
    // One zero always ends it.
    out.extend(ascii(text).take(n.saturating_sub(1)));
    out.resize(end, 0);
}

pub(crate) fn put_long_text(out: &mut Vec<u8>, text: &str) {
    // As Unicode: in these texts clients take it.
    let bytes = text.as_bytes();
    let n = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    n.put(out);
    out.extend(bytes.iter().take(n as usize));
}

/// How many of `n` values a field that counts to `most` can tell of.
pub(crate) fn count(n: usize, most: u64) -> u64 {
    (n as u64).min(most)
}

/// A value that has a place in messages.
pub trait Wire: Default {
    /// Fewest bytes it takes.
    const LEAST: usize;
    /// Reads one.
    ///
    /// # Errors
    /// When the bytes end early.
    fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError>;
    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Wire for $t {
            const LEAST: usize = size_of::<$t>();
            fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let bytes = r.take(size_of::<$t>())?;
                bytes.try_into().map(<$t>::from_be_bytes).map_err(|_| DecodeError::Short)
            }
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}
integers!(u8 u16 u32 u64 i8 i16 i32 i64);

impl Wire for bool {
    const LEAST: usize = 1;
    fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(u8::get(r)? != 0)
    }
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl Wire for f64 {
    const LEAST: usize = 8;
    fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = r.take(8)?;
        bytes
            .try_into()
            .map(f64::from_le_bytes)
            .map_err(|_| DecodeError::Short)
    }
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
}

impl<T: Wire, const N: usize> Wire for [T; N]
where
    [T; N]: Default,
{
    const LEAST: usize = N * T::LEAST;
    fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut out: [T; N] = Default::default();
        for x in &mut out {
            *x = T::get(r)?;
        }
        Ok(out)
    }
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|x| x.put(out));
    }
}

/// What leads most messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lead {
    /// Whom a request is from: what the server said when the client came.
    pub client_index: u32,
    /// What ties an answer to its request.
    pub context: u32,
}

/// A message.
pub trait Message: Wire {
    /// Its number here.
    const ID: u16;
    /// What leads it.
    const HEADER: Header;

    /// What is known of it.
    fn info() -> &'static MessageInfo {
        // A number that the table does not have cannot be made: both come from the same text.
        message(Self::ID).unwrap_or(&crate::MESSAGES[0])
    }

    /// Reads a whole message, number included.
    ///
    /// # Errors
    /// When it ends early.
    fn decode(bytes: &[u8]) -> Result<(Lead, Self), DecodeError> {
        let mut r = Reader::new(bytes);
        u16::get(&mut r)?;
        let prefix = Lead::get(Self::HEADER, &mut r)?;
        Ok((prefix, Self::get(&mut r)?))
    }

    /// The whole message, number included.
    fn encode(&self, prefix: Lead) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + Self::LEAST);
        Self::ID.put(&mut out);
        prefix.put(Self::HEADER, &mut out);
        self.put(&mut out);
        out
    }
}

impl Lead {
    /// Reads what leads a message.
    ///
    /// # Errors
    /// When it ends early.
    pub fn get(header: Header, r: &mut Reader<'_>) -> Result<Lead, DecodeError> {
        let mut prefix = Lead::default();
        if header == Header::Request {
            prefix.client_index = u32::get(r)?;
        }
        if header != Header::Plain {
            prefix.context = u32::get(r)?;
        }
        Ok(prefix)
    }

    fn put(self, header: Header, out: &mut Vec<u8>) {
        if header == Header::Request {
            self.client_index.put(out);
        }
        if header != Header::Plain {
            self.context.put(out);
        }
    }
}

/// The reply to a request that says how it failed and nothing else; none when its answer has no place for that.
pub fn error_reply(request: &MessageInfo, context: u32, retval: i32) -> Option<Vec<u8>> {
    let id = id_of(request.reply?)?;
    let reply = message(id).filter(|m| m.retval && m.header == Header::Reply)?;
    let mut out = Vec::new();
    id.put(&mut out);
    context.put(&mut out);
    let body = out.len();
    retval.put(&mut out);
    out.resize(body + reply.least, 0);
    Some(out)
}
