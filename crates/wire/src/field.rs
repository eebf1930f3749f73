//! Big-endian reads and writes at a byte offset, shared by the codecs.
//!
//! The functions index: the offset lies inside the slice because the view's length check has said
//! so. What is read at an offset that the bytes themselves name goes through `slice::get` instead.

/// The `u16` at byte `at`.
#[inline]
pub(crate) fn u16_at(data: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([data[at], data[at + 1]])
}

/// The `u32` at byte `at`.
#[inline]
pub(crate) fn u32_at(data: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]])
}

/// The `N` bytes from byte `at`.
#[inline]
pub(crate) fn array_at<const N: usize>(data: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&data[at..at + N]);
    out
}

/// Writes `value` at byte `at`.
#[inline]
pub(crate) fn put_u16(data: &mut [u8], at: usize, value: u16) {
    data[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Writes `value` at byte `at`.
#[inline]
pub(crate) fn put_u32(data: &mut [u8], at: usize, value: u32) {
    data[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// Writes `bytes` from byte `at`.
#[inline]
pub(crate) fn put(data: &mut [u8], at: usize, bytes: &[u8]) {
    data[at..at + bytes.len()].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_was_written_big_endian() {
        let mut data = [0u8; 8];
        put_u16(&mut data, 1, 0x1234);
        put_u32(&mut data, 3, 0x5678_9abc);
        put(&mut data, 7, &[0xde]);
        assert_eq!(data, [0, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]);
        assert_eq!(u16_at(&data, 1), 0x1234);
        assert_eq!(u32_at(&data, 3), 0x5678_9abc);
        assert_eq!(array_at::<3>(&data, 5), [0x9a, 0xbc, 0xde]);
    }
}
