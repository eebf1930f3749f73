//! LACPDUs (IEEE 802.1AX section 6.4.2): how two systems tell each other which of their ports belong together.

use crate::WireError;

/// Where they are sent to (IEEE 802.1AX table 6-1): bridges do not pass them on.
pub const SLOW_PROTOCOLS: [u8; 6] = [0x01, 0x80, 0xC2, 0x00, 0x00, 0x02];
/// Their Ethernet type.
pub const ETHERTYPE: u16 = 0x8809;
/// The slow protocol that LACP is.
pub const SUBTYPE: u8 = 1;
/// Bytes of one behind the Ethernet header.
pub const LEN: usize = 110;

/// Bits of [`LacpInfo::state`].
pub mod state {
    /// It speaks of itself, not only when spoken to.
    pub const ACTIVITY: u8 = 1;
    /// It wants to hear every second, not every thirty.
    pub const TIMEOUT: u8 = 1 << 1;
    /// It can be one of several.
    pub const AGGREGATION: u8 = 1 << 2;
    /// It is in the right aggregate.
    pub const SYNC: u8 = 1 << 3;
    /// It takes in frames.
    pub const COLLECTING: u8 = 1 << 4;
    /// It sends frames.
    pub const DISTRIBUTING: u8 = 1 << 5;
    /// What it knows of the other is assumed.
    pub const DEFAULTED: u8 = 1 << 6;
    /// It has not heard of the other for too long.
    pub const EXPIRED: u8 = 1 << 7;
}

/// What is said of one end of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LacpInfo {
    /// Priority of the system.
    pub system_priority: u16,
    /// Its address.
    pub system: [u8; 6],
    /// Ports with the same key may be joined.
    pub key: u16,
    /// Priority of the port.
    pub port_priority: u16,
    /// Its number.
    pub port: u16,
    /// See [`state`].
    pub state: u8,
}

impl LacpInfo {
    fn parse(b: &[u8]) -> Option<LacpInfo> {
        let two = |at: usize| Some(u16::from_be_bytes(*b.get(at..)?.first_chunk()?));
        Some(LacpInfo {
            system_priority: two(0)?,
            system: *b.get(2..)?.first_chunk()?,
            key: two(8)?,
            port_priority: two(10)?,
            port: two(12)?,
            state: *b.get(14)?,
        })
    }

    fn emit(&self, out: &mut [u8]) {
        let fields = [
            &self.system_priority.to_be_bytes()[..],
            &self.system,
            &self.key.to_be_bytes(),
            &self.port_priority.to_be_bytes(),
            &self.port.to_be_bytes(),
            &[self.state],
        ]
        .concat();
        out[..fields.len()].copy_from_slice(&fields);
    }
}

/// A LACPDU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lacp {
    /// The end that sends it.
    pub actor: LacpInfo,
    /// What that knows of the other end.
    pub partner: LacpInfo,
}

impl Lacp {
    /// Reads one from behind the Ethernet header. Later versions are read as the first, as the standard has it.
    ///
    /// # Errors
    /// When it is cut short, or another slow protocol.
    pub fn parse(b: &[u8]) -> Result<Lacp, WireError> {
        let tlv = |at: usize, kind: u8| {
            let head = b.get(at..at + 2).filter(|h| **h == [kind, 20]);
            head.and_then(|_| LacpInfo::parse(&b[at + 2..]))
        };
        if b.len() < LEN {
            return Err(WireError::Truncated);
        }
        if b[0] != SUBTYPE {
            return Err(WireError::Malformed);
        }
        match (tlv(2, 1), tlv(22, 2)) {
            (Some(actor), Some(partner)) => Ok(Lacp { actor, partner }),
            _ => Err(WireError::Malformed),
        }
    }

    /// The bytes behind the Ethernet header.
    pub fn emit(&self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[..2].copy_from_slice(&[SUBTYPE, 1]);
        for (at, kind, info) in [(2, 1, &self.actor), (22, 2, &self.partner)] {
            out[at..at + 2].copy_from_slice(&[kind, 20]);
            info.emit(&mut out[at + 2..]);
        }
        // Collector information: no delay.
        out[42..44].copy_from_slice(&[3, 16]);
        out
    }

    /// The whole frame from the port with this address.
    pub fn frame(&self, src: [u8; 6]) -> Vec<u8> {
        [
            &SLOW_PROTOCOLS[..],
            &src,
            &ETHERTYPE.to_be_bytes(),
            &self.emit(),
        ]
        .concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As another implementation sends it: actor active with short timeout and alone, partner not known.
    const GOLDEN: [u8; 62] = [
        1, 1, 1, 20, 0xFF, 0xFF, 2, 0, 0, 0, 0, 1, 0, 9, 0, 0xFF, 0, 1, 0x4F, 0, 0, 0, 2, 20, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 1, 0, 0xFF, 0, 1, 1, 0, 0, 0, 3, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0,
    ];

    fn golden() -> Lacp {
        Lacp {
            actor: LacpInfo {
                system_priority: 0xFFFF,
                system: [2, 0, 0, 0, 0, 1],
                key: 9,
                port_priority: 255,
                port: 1,
                state: 0x4F,
            },
            partner: LacpInfo {
                key: 1,
                port_priority: 255,
                port: 1,
                state: 1,
                ..LacpInfo::default()
            },
        }
    }

    #[test]
    fn golden_bytes_both_ways() {
        let mut bytes = [0; LEN];
        bytes[..GOLDEN.len()].copy_from_slice(&GOLDEN);
        assert_eq!(golden().emit(), bytes);
        assert_eq!(Lacp::parse(&bytes), Ok(golden()));
        assert_eq!(golden().frame([2; 6]).len(), 124);
    }

    #[test]
    fn what_is_cut_short_or_of_another_kind_is_refused() {
        let bytes = golden().emit();
        for n in 0..LEN {
            assert_eq!(Lacp::parse(&bytes[..n]), Err(WireError::Truncated));
        }
        for at in [0, 2, 3, 22, 23] {
            let mut wrong = bytes;
            wrong[at] ^= 0x55;
            assert_eq!(Lacp::parse(&wrong), Err(WireError::Malformed), "{at}");
        }
    }
}
