//! Where things lie in the segment (VPP's `vlib/stats/shared.h`, version 2).
//!
//! Everything is a multiple of eight bytes and is written by whole words of the machine's own byte order, so
//! offsets here count words of 64 bits. "Pointers" are offsets in bytes from the start: the base that readers
//! subtract is 0.
//!
//! ```text
//! word 0  version = 2
//!      1  base = 0
//!      2  epoch, from 1 on; goes up with each change of structure
//!      3  in_progress, 1 while the structure changes
//!      4  pointer to the directory, a vector of entries
//!      5  0 (an older version had a vector there, and readers look)
//! entry   0 kind  1 value, pointer, or index | column << 32  2..18 name, ended by a zero byte
//! vector  -1 length in elements, then the elements
//! ```

/// Version of the format.
pub const VERSION: u64 = 2;
/// Word of the version.
pub const AT_VERSION: usize = 0;
/// Word of the base.
pub const AT_BASE: usize = 1;
/// Word of the epoch.
pub const AT_EPOCH: usize = 2;
/// Word that is 1 while the structure changes.
pub const AT_IN_PROGRESS: usize = 3;
/// Word of the directory's pointer.
pub const AT_DIRECTORY: usize = 4;
/// Words before anything else may lie: the header and some room behind it, one page.
pub const HEADER_WORDS: usize = 512;

/// Words of a directory entry.
pub const ENTRY_WORDS: usize = 18;
/// Word of an entry that says its kind.
pub const ENTRY_KIND: usize = 0;
/// Word of an entry that holds its value, pointer or target.
pub const ENTRY_VALUE: usize = 1;
/// First word of an entry's name.
pub const ENTRY_NAME: usize = 2;
/// Bytes of a name, its end included.
pub const NAME_BYTES: usize = 128;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Kind {
    /// One number in the entry itself.
    Scalar = 1,
    /// A row of numbers for each thread.
    Simple = 2,
    /// A row of packets and bytes for each thread.
    Combined = 3,
    /// Names by index.
    Names = 4,
    /// A column of another entry under a name of its own.
    Symlink = 6,
}

/// The value of a symlink: a column of the entry number `index`.
pub const fn symlink(index: u32, column: u32) -> u64 {
    index as u64 | (column as u64) << 32
}

/// The words of a name, cut to what fits; what a reader could not decode becomes `_`.
pub fn name_words(name: &str) -> [u64; NAME_BYTES / 8] {
    let mut bytes = [0u8; NAME_BYTES];
    let printable = |b: u8| {
        if b.is_ascii_graphic() || b == b' ' {
            b
        } else {
            b'_'
        }
    };
    for (to, from) in bytes[..NAME_BYTES - 1].iter_mut().zip(name.bytes()) {
        *to = printable(from);
    }
    let mut words = [0; NAME_BYTES / 8];
    for (word, eight) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*eight);
    }
    words
}

/// Words that hold a string and its end.
pub fn string_words(text: &str) -> usize {
    text.len() / 8 + 1
}

/// Word number `i` of a string and the zero bytes behind it.
pub fn string_word(text: &str, i: usize) -> u64 {
    let mut word = [0; 8];
    let rest = text.as_bytes().get(i * 8..).unwrap_or_default();
    for (to, from) in word.iter_mut().zip(rest) {
        *to = if from.is_ascii_graphic() || *from == b' ' {
            *from
        } else {
            b'_'
        };
    }
    u64::from_ne_bytes(word)
}
