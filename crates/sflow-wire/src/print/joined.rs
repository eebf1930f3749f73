//! Values put together from parts: label stacks, AS paths, communities.

use super::value::{put_hex_lower, put_u32};

/// sflowtool puts values together in buffers of 2048 characters, one of them for the end.
const VALUE_ROOM: usize = 2047;

/// The words of a byte string.
pub(crate) fn words(bytes: &[u8]) -> impl DoubleEndedIterator<Item = u32> + '_ {
    bytes
        .chunks_exact(4)
        .map(|c| u32::from_be_bytes([c[0], c[1], c[2], c[3]]))
}

/// A value put together from parts, which ends where sflowtool's buffer would.
#[derive(Default)]
pub(crate) struct Joined(Vec<u8>);

impl Joined {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn push(&mut self, text: &str) {
        let room = VALUE_ROOM.saturating_sub(self.0.len());
        self.0
            .extend_from_slice(&text.as_bytes()[..text.len().min(room)]);
    }

    pub(crate) fn hex(&mut self, n: u16) {
        if VALUE_ROOM + 1 - self.0.len() < 3 {
            return;
        }
        self.0.extend_from_slice(b"0x");
        let room = VALUE_ROOM.saturating_sub(self.0.len()) / 2;
        put_hex_lower(&mut self.0, &n.to_be_bytes()[..room.min(2)]);
    }

    /// Numbers with a separator between; stops before the first that has no room.
    pub(crate) fn numbers(&mut self, list: impl Iterator<Item = u32>, separator: u8) {
        for (i, n) in list.enumerate() {
            let before = self.0.len();
            if i > 0 {
                self.0.push(separator);
            }
            let digits_at = self.0.len();
            put_u32(&mut self.0, n);
            let digits = self.0.len() - digits_at;
            if before + 1 + digits > VALUE_ROOM {
                self.0.truncate(before);
                return;
            }
        }
    }

    pub(crate) fn segment(&mut self, set: bool, asns: impl Iterator<Item = u32>) {
        if set {
            self.push("(");
        }
        self.numbers(asns, b'-');
        if set {
            self.push(")");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_values_stop_at_the_room() {
        let mut j = Joined::default();
        j.numbers(core::iter::repeat_n(1_000_000_000, 500), b'-');
        // 186 numbers of ten digits and 185 dashes; the next would end at character 2056.
        assert_eq!(j.as_bytes().len(), 186 * 11 - 1);
        j.push("((");
        assert_eq!(j.as_bytes().len(), VALUE_ROOM);
    }
}
