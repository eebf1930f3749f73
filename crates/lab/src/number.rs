//! Numbers as people read them: thousands separated, rates with a prefix.

/// `1234567` as `1,234,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Bits per second with a fitting prefix, `12.3 Mbit/s`.
pub fn bits(per_second: f64) -> String {
    let (value, unit) = match per_second {
        x if x >= 1e9 => (x / 1e9, "Gbit/s"),
        x if x >= 1e6 => (x / 1e6, "Mbit/s"),
        x if x >= 1e3 => (x / 1e3, "kbit/s"),
        x => (x, "bit/s"),
    };
    format!("{value:.1} {unit}")
}

/// A count that is an estimate: rounded and grouped.
pub fn rounded(n: f64) -> String {
    grouped(n.max(0.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let all = [0, 7, 999, 1000, 123_456, 1_234_567].map(grouped);
        assert_eq!(all, ["0", "7", "999", "1,000", "123,456", "1,234,567"]);
        assert_eq!(rounded(-1.0), "0");
        assert_eq!(rounded(1999.6), "2,000");
        let all = [0.0, 999.0, 12_340.0, 5e6, 1.25e9].map(bits);
        assert_eq!(
            all,
            [
                "0.0 bit/s",
                "999.0 bit/s",
                "12.3 kbit/s",
                "5.0 Mbit/s",
                "1.2 Gbit/s"
            ]
        );
    }
}
