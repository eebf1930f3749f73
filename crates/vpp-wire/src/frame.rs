//! Frames on the socket: 16 bytes, of which the length at offset 8 counts (the rest is VPP's own memory layout), then one message.

use thiserror::Error;

/// Bytes in front of each message.
pub const FRAME_HEADER: usize = 16;

/// Bytes of room that are kept from one message to the next.
const KEPT: usize = 256 << 10;

/// Why a stream cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// A message is longer than is taken.
    #[error("a message of {len} bytes is announced; {most} are taken")]
    TooLong {
        /// What was announced.
        len: u32,
        /// What is taken.
        most: usize,
    },
}

/// Puts a message into a frame.
pub fn frame(message: &[u8]) -> Vec<u8> {
    let mut out = vec![0; FRAME_HEADER];
    let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
    out[8..12].copy_from_slice(&len.to_be_bytes());
    out.extend_from_slice(message);
    out
}

/// Takes messages out of a stream that comes in pieces. Holds at most one message and one piece.
#[derive(Debug)]
pub struct Frames {
    bytes: Vec<u8>,
    /// What of `bytes` was given out.
    done: usize,
    most: usize,
}

impl Frames {
    /// Takes messages of up to `most` bytes.
    pub fn new(most: usize) -> Frames {
        Frames {
            bytes: Vec::new(),
            done: 0,
            most,
        }
    }

    /// More of the stream.
    pub fn push(&mut self, piece: &[u8]) {
        // What was given out goes only now, so that many short messages of one piece are moved once.
        self.bytes.drain(..self.done);
        self.done = 0;
        // Room for a long message is not kept for the short ones after it.
        if self.bytes.capacity() > KEPT && self.bytes.len() + piece.len() <= KEPT {
            self.bytes.shrink_to(KEPT);
        }
        self.bytes.extend_from_slice(piece);
    }

    /// Bytes that wait for the rest of their message.
    pub fn waiting(&self) -> usize {
        self.bytes.len() - self.done
    }

    /// The next whole message.
    ///
    /// # Errors
    /// When one is longer than is taken; the stream has no use then.
    pub fn next_message(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let here = &self.bytes[self.done..];
        let Some(len) = here.get(8..12).and_then(|b| b.try_into().ok()) else {
            return Ok(None);
        };
        let len = u32::from_be_bytes(len);
        let most = self.most;
        let size = usize::try_from(len).unwrap_or(usize::MAX);
        if size > most {
            return Err(FrameError::TooLong { len, most });
        }
        let end = FRAME_HEADER + size;
        if here.len() < end {
            return Ok(None);
        }
        self.done += end;
        Ok(Some(&self.bytes[self.done - size..self.done]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_whole_however_they_are_cut() {
        let mut stream = Vec::new();
        for n in [0usize, 1, 70, 3] {
            stream.extend(frame(&vec![n as u8; n]));
        }
        for cut in 1..stream.len() {
            let mut frames = Frames::new(100);
            let mut got = Vec::new();
            for piece in stream.chunks(cut) {
                frames.push(piece);
                while let Some(m) = frames.next_message().expect("short enough") {
                    got.push(m.len());
                }
            }
            assert_eq!(
                (got, frames.waiting()),
                (vec![0, 1, 70, 3], 0),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn room_for_a_long_message_is_not_kept() {
        let mut frames = Frames::new(1 << 20);
        frames.push(&frame(&vec![1; 1 << 20]));
        assert!(matches!(frames.next_message(), Ok(Some(m)) if m.len() == 1 << 20));
        frames.push(&frame(&[2; 5]));
        assert!(matches!(frames.next_message(), Ok(Some(m)) if m == [2; 5]));
        assert!(frames.bytes.capacity() <= KEPT);
    }

    #[test]
    fn a_long_message_is_refused_before_it_is_kept() {
        let mut frames = Frames::new(100);
        frames.push(&frame(&[0; 101])[..FRAME_HEADER]);
        let wrong = FrameError::TooLong {
            len: 101,
            most: 100,
        };
        assert_eq!(frames.next_message(), Err(wrong));
        let mut frames = Frames::new(100);
        frames.push(&[0xff; 16]);
        assert!(frames.next_message().is_err());
    }
}
