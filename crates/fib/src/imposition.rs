//! MPLS label operations beyond the lookup itself (RFC 3031, RFC 3032, RFC 3443): the
//! stack to push, and what to do with a packet whose label was popped.
//!
//! The lookup of a label always pops it; its TTL, EXP and bottom-of-stack bit go along in
//! the packet's metadata. What follows is the looked-up object:
//! - swap: [`DpoKind::MplsImpose`](crate::DpoKind::MplsImpose), the new label is pushed
//!   with the popped label's TTL and bottom bit;
//! - pop: [`DpoKind::MplsPop`](crate::DpoKind::MplsPop), a [`Disposition`] that says what
//!   is underneath, whether the TTL is copied down, and where to go on.
//!
//! Labels 0 to 3 have meanings of their own, which are the node's business.

use crate::dpo::Dpo;
use crate::label::LABEL_MAX;
use parshall_rcu::Slab;
use thiserror::Error;

/// The table of impositions; its indices are those of [`crate::DpoKind::MplsImpose`].
pub type Impositions = Slab<Imposition>;
/// The table of dispositions; its indices are those of [`crate::DpoKind::MplsPop`].
pub type Dispositions = Slab<Disposition>;

/// Most labels pushed at once.
pub const LABELS_MAX: usize = 16;

/// How TTL (and EXP) pass between a label and what it carries (RFC 3443, RFC 3270).
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum TtlMode {
    /// One TTL through the tunnel: copied down on pop, copied up on push.
    #[default]
    Uniform = 0,
    /// The tunnel is one hop: the inner TTL is left alone, the outer one is its own.
    Pipe = 1,
}

/// What a label operation works on, or uncovers.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Payload {
    /// An IPv4 packet.
    Ip4 = 0,
    /// An IPv6 packet.
    Ip6 = 1,
    /// A labelled packet.
    Mpls = 2,
}

/// A stack that cannot be pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ImposeError {
    /// No label at all.
    #[error("a label stack needs at least one label")]
    NoLabel,
    /// Too many.
    #[error("{0} labels: the limit is 16")]
    TooManyLabels(usize),
    /// A label over 2^20 - 1.
    #[error("label {0} is over 1048575")]
    BadLabel(u32),
    /// A traffic class over 7.
    #[error("traffic class {0} is over 7")]
    BadExp(u8),
}

/// Labels to push, ready encoded, and where to go then. Immutable once published.
///
/// The stack is right-aligned like a rewrite, so that one fixed store that ends at the
/// payload writes it; stacks of up to 8 labels share a cache line with the rest.
#[repr(C, align(64))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imposition {
    _pad: [u8; 32],
    stack: [u8; LABELS_MAX * 4],
    next: Dpo,
    len: u8,
    mode: TtlMode,
    payload: Payload,
    _reserved: [u8; 25],
}

const _: () = assert!(size_of::<Imposition>() == 128);

impl Imposition {
    /// The stack `labels`, outermost first, over `payload`. The bottom-of-stack bit is set
    /// on the innermost label when the payload is IP; over [`Payload::Mpls`] (a swap or a
    /// push on a labelled packet) it is left clear for the node to copy the popped one in.
    /// The TTL bytes hold `pipe_ttl` in [`TtlMode::Pipe`] and 0 in [`TtlMode::Uniform`],
    /// where the node writes the payload's. `exp` is what [`TtlMode::Pipe`] puts into
    /// every label.
    ///
    /// # Errors
    /// [`ImposeError`] names the label, the number of labels or the class out of range.
    pub fn new(
        labels: &[u32],
        payload: Payload,
        mode: TtlMode,
        pipe_ttl: u8,
        exp: u8,
        next: Dpo,
    ) -> Result<Self, ImposeError> {
        if labels.is_empty() {
            return Err(ImposeError::NoLabel);
        }
        if exp > 7 {
            return Err(ImposeError::BadExp(exp));
        }
        let room = LABELS_MAX.checked_sub(labels.len());
        let first = room.ok_or(ImposeError::TooManyLabels(labels.len()))?;
        let ttl = if mode == TtlMode::Pipe { pipe_ttl } else { 0 };
        let mut stack = [0; LABELS_MAX * 4];
        for (i, &label) in labels.iter().enumerate() {
            if label > LABEL_MAX {
                return Err(ImposeError::BadLabel(label));
            }
            let bottom = payload != Payload::Mpls && i + 1 == labels.len();
            let word = label << 12 | u32::from(exp) << 9 | u32::from(bottom) << 8 | u32::from(ttl);
            let at = (first + i) * 4;
            stack[at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
        let len = labels.len() as u8;
        Ok(Imposition {
            _pad: [0; 32],
            stack,
            next,
            len,
            mode,
            payload,
            _reserved: [0; 25],
        })
    }

    /// Number of labels, 1 to 16.
    #[inline]
    #[must_use]
    pub fn labels(&self) -> usize {
        usize::from(self.len)
    }

    /// The encoded stack as it goes on the wire, outermost first.
    #[inline]
    #[must_use]
    pub fn stack(&self) -> &[u8] {
        &self.stack[(LABELS_MAX - self.labels().min(LABELS_MAX)) * 4..]
    }

    /// The last 16 bytes of the stack space: all of a stack of up to 4 labels.
    #[inline]
    #[must_use]
    pub fn stack16(&self) -> &[u8; 16] {
        self.stack.last_chunk().unwrap_or(&[0; 16])
    }

    /// How TTL and EXP are set.
    #[inline]
    #[must_use]
    pub fn mode(&self) -> TtlMode {
        self.mode
    }

    /// What the stack is pushed on.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> Payload {
        self.payload
    }

    /// Where the labelled packet goes: an MPLS adjacency, a load-balance, a lookup.
    #[inline]
    #[must_use]
    pub fn next(&self) -> Dpo {
        self.next
    }
}

/// What to do with a packet whose label was just popped. Immutable once published.
///
/// | use | payload | next |
/// |---|---|---|
/// | pop and look up (EOS) | `Ip4`, `Ip6` | `LookupIp4(table)`, `LookupIp6(table)` |
/// | pop and forward (EOS) | `Ip4`, `Ip6` | `Adjacency`, `LoadBalance` |
/// | pop and forward (not EOS) | `Mpls` | `Adjacency` of link type MPLS |
/// | pop and look up (not EOS) | `Mpls` | `LookupMpls(table)` |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disposition {
    /// What is underneath: the lookup cannot see it in a packet.
    pub payload: Payload,
    /// Whether the popped TTL is copied down.
    pub mode: TtlMode,
    /// Where to go on.
    pub next: Dpo,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dpo::DpoKind;

    const NEXT: Dpo = Dpo::new(DpoKind::Adjacency, 3);

    #[test]
    fn a_stack_over_ip_is_encoded_outermost_first() {
        let imp = Imposition::new(&[16, LABEL_MAX], Payload::Ip4, TtlMode::Pipe, 64, 5, NEXT);
        let imp = imp.unwrap();
        let golden = [0x00, 0x01, 0x0a, 0x40, 0xff, 0xff, 0xfb, 0x40];
        assert_eq!(imp.stack(), &golden);
        assert_eq!(imp.stack16()[8..], golden);
        assert_eq!(
            (imp.labels(), imp.next(), imp.mode()),
            (2, NEXT, TtlMode::Pipe)
        );
    }

    #[test]
    fn a_swap_leaves_bottom_bit_and_ttl_to_the_node() {
        let imp = Imposition::new(&[17], Payload::Mpls, TtlMode::Uniform, 64, 0, NEXT).unwrap();
        assert_eq!(imp.stack(), &[0x00, 0x01, 0x10, 0x00]);
        assert_eq!(imp.payload(), Payload::Mpls);
    }

    #[test]
    fn limits_are_named() {
        let new = |l: &[u32], exp| Imposition::new(l, Payload::Ip6, TtlMode::Pipe, 1, exp, NEXT);
        assert_eq!(new(&[1; 16], 7).unwrap().stack().len(), 64);
        assert_eq!(
            new(&[1; 17], 0).unwrap_err().to_string(),
            "17 labels: the limit is 16"
        );
        assert_eq!(new(&[], 0), Err(ImposeError::NoLabel));
        assert_eq!(new(&[1 << 20], 0), Err(ImposeError::BadLabel(1 << 20)));
        assert_eq!(new(&[1], 8), Err(ImposeError::BadExp(8)));
    }
}
