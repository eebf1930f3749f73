//! Writes single values the way sflowtool prints them: decimal numbers, hexadecimal bytes, addresses, times.

use crate::types::Address;

/// Two decimal digits for each number below 100.
const DIGITS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";

const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// One value of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'v> {
    U32(u32),
    I32(i32),
    U64(u64),
    /// A C string: bytes after the first NUL are not shown.
    Str(&'v [u8]),
    Mac([u8; 6]),
    Ip4([u8; 4]),
    Ip6([u8; 16]),
    Address(Address),
    /// Enterprise and format.
    Tag(u32),
    /// Two numbers with a colon between.
    Pair(u32, u32),
    /// Format and value of an interface.
    Port(u32, u32),
    /// Upper-case hexadecimal, dashes between.
    Hex(&'v [u8]),
    /// `0x` and hexadecimal without leading zeros.
    Hex32(u32),
    /// 16 hexadecimal digits.
    Hex64(u64),
    /// Three decimals; at most so many characters.
    Float(f64, usize),
    /// Hundredths of a percent.
    Percent(u32),
    Uuid([u8; 16]),
    /// Seconds since 1970 and the offset of local time, in seconds east of UTC.
    Time(i64, i32),
}

impl Value<'_> {
    /// Appends the value.
    #[inline]
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Value::U32(n) => put_u64(out, u64::from(n)),
            Value::I32(n) => put_i32(out, n),
            Value::U64(n) => put_u64(out, n),
            Value::Str(s) => out.extend_from_slice(c_string(s)),
            Value::Mac(m) => put_hex(out, &m, LOWER),
            Value::Ip4(a) => put_ip4(out, a),
            Value::Ip6(a) => put_ip6(out, &a),
            Value::Address(a) => put_address(out, a),
            Value::Tag(t) => put_pair(out, t >> 12, t & 0xFFF),
            Value::Pair(a, b) => put_pair(out, a, b),
            Value::Port(format, value) => put_port(out, format, value),
            Value::Hex(bytes) => put_dashed(out, bytes),
            Value::Hex32(n) => put_hex32(out, n, 1),
            Value::Hex64(n) => put_hex(out, &n.to_be_bytes(), LOWER),
            Value::Float(f, max) => put_float(out, f, 3, max),
            Value::Percent(u32::MAX) => out.extend_from_slice(b"unknown"),
            Value::Percent(n) => put_float(out, f64::from(n as f32 / 100.0), 2, 63),
            Value::Uuid(u) => put_uuid(out, &u),
            Value::Time(seconds, offset) => put_time(out, seconds, offset),
        }
    }
}

/// The bytes before the first NUL.
pub(crate) fn c_string(s: &[u8]) -> &[u8] {
    s.iter().position(|b| *b == 0).map_or(s, |n| &s[..n])
}

/// Appends a decimal number.
#[inline]
pub(crate) fn put_u64(out: &mut Vec<u8>, mut n: u64) {
    let mut text = [0u8; 20];
    let mut at = text.len();
    while n >= 100 {
        let two = (n % 100) as usize * 2;
        n /= 100;
        at -= 2;
        text[at..at + 2].copy_from_slice(&DIGITS[two..two + 2]);
    }
    let two = n as usize * 2;
    if n >= 10 {
        at -= 2;
        text[at..at + 2].copy_from_slice(&DIGITS[two..two + 2]);
    } else {
        at -= 1;
        text[at] = DIGITS[two + 1];
    }
    out.extend_from_slice(&text[at..]);
}

/// Appends a 32-bit decimal number.
#[inline]
pub(crate) fn put_u32(out: &mut Vec<u8>, n: u32) {
    put_u64(out, u64::from(n));
}

/// Appends a signed decimal number.
#[inline]
pub(crate) fn put_i32(out: &mut Vec<u8>, n: i32) {
    if n < 0 {
        out.push(b'-');
    }
    put_u64(out, u64::from(n.unsigned_abs()));
}

/// Appends a number in decimal, with zeros in front up to `width` digits.
fn put_padded(out: &mut Vec<u8>, n: u64, width: usize) {
    let mut digits = 1;
    let mut rest = n / 10;
    while rest > 0 {
        digits += 1;
        rest /= 10;
    }
    for _ in digits..width {
        out.push(b'0');
    }
    put_u64(out, n);
}

#[inline]
fn put_hex(out: &mut Vec<u8>, bytes: &[u8], digits: &[u8; 16]) {
    for b in bytes {
        out.extend_from_slice(&[digits[usize::from(b >> 4)], digits[usize::from(b & 15)]]);
    }
}

/// Appends lower-case hexadecimal pairs.
#[inline]
pub(crate) fn put_hex_lower(out: &mut Vec<u8>, bytes: &[u8]) {
    put_hex(out, bytes, LOWER);
}

/// Appends upper-case hexadecimal pairs with dashes between.
pub(crate) fn put_dashed(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    // The dashes are there already when the digits are put between them.
    out.resize(start + 3 * bytes.len(), b'-');
    if let Some(room) = out.get_mut(start..) {
        for (three, b) in room.chunks_exact_mut(3).zip(bytes) {
            three[0] = UPPER[usize::from(b >> 4)];
            three[1] = UPPER[usize::from(b & 15)];
        }
    }
    if !bytes.is_empty() {
        out.pop();
    }
}

/// Appends `0x` and at least `width` hexadecimal digits.
pub(crate) fn put_hex32(out: &mut Vec<u8>, n: u32, width: u32) {
    out.extend_from_slice(b"0x");
    let digits = (32 - n.leading_zeros()).div_ceil(4).max(width).max(1);
    for shift in (0..digits.min(8)).rev() {
        out.push(LOWER[(n >> (shift * 4) & 15) as usize]);
    }
}

/// Appends a dotted IPv4 address.
#[inline]
pub(crate) fn put_ip4(out: &mut Vec<u8>, a: [u8; 4]) {
    for (i, b) in a.into_iter().enumerate() {
        if i > 0 {
            out.push(b'.');
        }
        put_u64(out, u64::from(b));
    }
}

/// Appends an IPv6 address as eight full groups.
#[inline]
pub(crate) fn put_ip6(out: &mut Vec<u8>, a: &[u8; 16]) {
    for (i, group) in a.chunks_exact(2).enumerate() {
        if i > 0 {
            out.push(b':');
        }
        put_hex(out, group, LOWER);
    }
}

/// Appends an address, `-` if it is not known.
#[inline]
pub(crate) fn put_address(out: &mut Vec<u8>, a: Address) {
    match a {
        Address::Unknown => out.push(b'-'),
        Address::V4(a) => put_ip4(out, a.octets()),
        Address::V6(a) => put_ip6(out, &a.octets()),
    }
}

/// Appends two numbers with a colon between.
#[inline]
pub(crate) fn put_pair(out: &mut Vec<u8>, a: u32, b: u32) {
    put_u32(out, a);
    out.push(b':');
    put_u32(out, b);
}

fn put_port(out: &mut Vec<u8>, format: u32, value: u32) {
    out.extend_from_slice(match format {
        0 => b"",
        1 => b"dropCode ",
        2 => b"multiple ",
        3 => b"format==3 ",
        // sflowtool prints nothing for formats that do not fit in two bits.
        _ => return,
    });
    put_u32(out, value);
}

/// Appends a float as C's printf does, cut after `max` characters.
pub(crate) fn put_float(out: &mut Vec<u8>, f: f64, decimals: usize, max: usize) {
    use std::io::Write as _;
    let start = out.len();
    if f.is_nan() {
        out.extend_from_slice(if f.is_sign_negative() {
            b"-nan"
        } else {
            b"nan"
        });
    } else {
        // Writing to a vector cannot fail.
        let _ = write!(out, "{f:.decimals$}");
    }
    out.truncate(start + max);
}

/// Appends a UUID in its 8-4-4-4-12 form.
pub(crate) fn put_uuid(out: &mut Vec<u8>, u: &[u8; 16]) {
    for (i, b) in u.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        put_hex(out, &[*b], LOWER);
    }
}

/// Appends `2024-01-31T23:59:59+0100`, from seconds since 1970 and seconds east of UTC.
pub(crate) fn put_time(out: &mut Vec<u8>, seconds: i64, offset: i32) {
    let local = seconds + i64::from(offset);
    let (days, second) = (local.div_euclid(86_400), local.rem_euclid(86_400) as u64);
    let (year, month, day) = civil(days);
    if year < 0 {
        out.push(b'-');
    }
    put_u64(out, year.unsigned_abs());
    for (sep, n) in [
        (b'-', month),
        (b'-', day),
        (b'T', second / 3600),
        (b':', second / 60 % 60),
        (b':', second % 60),
    ] {
        out.push(sep);
        put_padded(out, n, 2);
    }
    out.push(if offset < 0 { b'-' } else { b'+' });
    let minutes = u64::from(offset.unsigned_abs()) / 60;
    put_padded(out, minutes / 60 * 100 + minutes % 60, 4);
}

/// Year, month and day of a number of days since 1970-01-01 in the Gregorian calendar.
fn civil(days: i64) -> (i64, u64, u64) {
    // Counting years from March puts the leap day at the end, eras of 400 years repeat.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + i64::from(month <= 2);
    (year, month as u64, day as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(v: Value<'_>) -> String {
        let mut out = Vec::new();
        v.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times() {
        assert_eq!(shown(Value::Time(0, 0)), "1970-01-01T00:00:00+0000");
        assert_eq!(
            shown(Value::Time(1_700_000_000, 0)),
            "2023-11-14T22:13:20+0000"
        );
        assert_eq!(
            shown(Value::Time(951_782_400, -3600 * 5 - 1800)),
            "2000-02-28T18:30:00-0530"
        );
    }

    #[test]
    fn floats_round_like_printf() {
        assert_eq!(shown(Value::Float(0.0625, 63)), "0.062");
        assert_eq!(shown(Value::Float(f64::INFINITY, 63)), "inf");
        assert_eq!(shown(Value::Float(-f64::NAN, 63)), "-nan");
        assert_eq!(shown(Value::Percent(1234)), "12.34");
        assert_eq!(shown(Value::Percent(u32::MAX)), "unknown");
    }

    #[test]
    fn bytes_and_ports() {
        assert_eq!(shown(Value::Hex(&[0, 0xAB, 9])), "00-AB-09");
        assert_eq!(shown(Value::Hex(&[])), "");
        assert_eq!(shown(Value::Hex32(0)), "0x0");
        assert_eq!(shown(Value::Hex32(0x12345)), "0x12345");
        assert_eq!(shown(Value::Port(2, 3)), "multiple 3");
        assert_eq!(shown(Value::Port(9, 3)), "");
        assert_eq!(shown(Value::Str(b"ab\0c")), "ab");
        assert_eq!(
            shown(Value::Uuid([0xA0; 16])),
            "a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0"
        );
    }

    proptest! {
        #[test]
        fn numbers_match_the_standard_library(n: u64, m: u32, i: i32) {
            prop_assert_eq!(shown(Value::U64(n)), n.to_string());
            prop_assert_eq!(shown(Value::U32(m)), m.to_string());
            prop_assert_eq!(shown(Value::I32(i)), i.to_string());
            prop_assert_eq!(shown(Value::Hex32(m)), format!("{m:#x}"));
            prop_assert_eq!(shown(Value::Ip4(m.to_be_bytes())), std::net::Ipv4Addr::from(m).to_string());
        }
    }
}
