//! OPEN messages: what a speaker can do (RFC 4271 section 4.2, RFC 5492, RFC 6793, RFC 7911, RFC 9072).

use crate::error::Result;
use crate::reader::Reader;

const CAPABILITIES: u8 = 2;
const FOUR_BYTE_AS: u8 = 65;
const ADD_PATH: u8 = 69;
/// In place of the length and the first parameter's type: both lengths have two bytes (RFC 9072).
const EXTENDED: u8 = 255;

/// What telemetry wants of an OPEN message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Open {
    /// The speaker's AS.
    pub asn: u32,
    /// It speaks AS numbers of four bytes.
    pub as4: bool,
    /// It can receive several paths a prefix, by family.
    pub takes_paths: [bool; 2],
    /// It can send them.
    pub gives_paths: [bool; 2],
}

impl Open {
    /// Reads the message without its header.
    ///
    /// # Errors
    /// When it is cut short.
    pub fn parse(body: &[u8]) -> Result<Open> {
        const WHAT: &str = "OPEN message";
        let mut r = Reader(body);
        r.u8(WHAT)?;
        let mut open = Open {
            asn: r.u16(WHAT)?.into(),
            ..Open::default()
        };
        r.take(6, WHAT)?;
        let n = r.u8(WHAT)?;
        let extended = n == EXTENDED && r.0.first() == Some(&EXTENDED);
        let mut parameters = if extended {
            r.u8(WHAT)?;
            Reader(r.counted(WHAT)?)
        } else {
            Reader(r.take(n.into(), WHAT)?)
        };
        while !parameters.0.is_empty() {
            let kind = parameters.u8(WHAT)?;
            let value = if extended {
                parameters.counted(WHAT)?
            } else {
                let n = parameters.u8(WHAT)?;
                parameters.take(n.into(), WHAT)?
            };
            if kind == CAPABILITIES {
                open.capabilities(value)?;
            }
        }
        Ok(open)
    }

    fn capabilities(&mut self, bytes: &[u8]) -> Result<()> {
        const WHAT: &str = "capability";
        let mut r = Reader(bytes);
        while !r.0.is_empty() {
            let [code, n] = r.array(WHAT)?;
            let value = r.take(n.into(), WHAT)?;
            match (code, value) {
                (FOUR_BYTE_AS, &[a, b, c, d]) => {
                    self.as4 = true;
                    self.asn = u32::from_be_bytes([a, b, c, d]);
                }
                (ADD_PATH, families) => {
                    for f in families.chunks_exact(4) {
                        // AFI, SAFI 1 (unicast), and 1 receives, 2 sends, 3 both.
                        if let &[0, afi @ (1 | 2), 1, mode] = f {
                            let at = usize::from(afi - 1);
                            self.takes_paths[at] = matches!(mode, 1 | 3);
                            self.gives_paths[at] = matches!(mode, 2 | 3);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_in_both_forms() {
        #[rustfmt::skip]
        let capabilities = [65, 4, 0, 1, 0, 0, 69, 8, 0, 1, 1, 3, 0, 2, 1, 2, 2, 0];
        let want = Open {
            asn: 65_536,
            as4: true,
            takes_paths: [true, false],
            gives_paths: [true, true],
        };
        let mut plain = vec![4, 0x5B, 0xA0, 0, 180, 1, 2, 3, 4, 20, 2, 18];
        plain.extend(capabilities);
        assert_eq!(Open::parse(&plain).unwrap(), want);
        let mut long = vec![4, 0x5B, 0xA0, 0, 180, 1, 2, 3, 4, 255, 255, 0, 21, 2, 0, 18];
        long.extend(capabilities);
        assert_eq!(Open::parse(&long).unwrap(), want);
        for n in 0..plain.len() {
            assert!(Open::parse(&plain[..n]).is_err(), "{n}");
        }
        let none = [4, 0, 7, 0, 180, 1, 2, 3, 4, 0];
        assert_eq!(
            Open::parse(&none).unwrap(),
            Open {
                asn: 7,
                ..Open::default()
            }
        );
    }
}
