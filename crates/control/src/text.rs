//! Columns as VPP prints them, so that scripts which cut its output by position go on working.

/// `text` in the middle of `width` columns; of an odd rest the larger half is on the left, as VPP's
/// `%=Ns` has it. Longer text is let be.
pub fn centre(text: &str, width: usize) -> String {
    let len = text.chars().count();
    let rest = width.saturating_sub(len);
    let left = rest.div_ceil(2);
    format!("{}{text}{}", " ".repeat(left), " ".repeat(rest - left))
}

/// A number as C's `%.2e` prints it.
pub fn scientific(x: f64) -> String {
    let text = format!("{x:.2e}");
    match text.split_once('e') {
        Some((m, e)) if e.starts_with('-') => format!("{m}e{e}"),
        _ => text,
    }
}

/// An Ethernet address with colons.
pub fn mac(bytes: [u8; 6]) -> String {
    parshall_command::Mac(bytes).to_string()
}

/// Bytes in hex without gaps, as VPP shows rewrites.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A size in VPP's short form: 1.50k, 12.00m.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["", "k", "m", "g", "t"];
    let mut x = n as f64;
    let mut unit = 0;
    while x >= 1024.0 && unit + 1 < UNITS.len() {
        x /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        n.to_string()
    } else {
        format!("{x:.2}{}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn centring_is_vpps() {
        assert_eq!(centre("Name", 32).len(), 32);
        assert_eq!(centre("Idx", 5), " Idx ");
        assert_eq!(centre("State", 10), "   State  ");
        assert_eq!(centre("toolong", 3), "toolong");
    }

    #[test]
    fn numbers() {
        assert_eq!(scientific(14500.0), "1.45e4");
        assert_eq!(scientific(0.0), "0.00e0");
        assert_eq!(bytes(1023), "1023");
        assert_eq!(bytes(1536), "1.50k");
        assert_eq!(bytes(3 << 30), "3.00g");
    }
}
