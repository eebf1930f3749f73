//! What can go wrong with a change of a table. Lookups cannot fail.

use thiserror::Error;

/// A change that was refused. The table is as it was before.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FibError {
    /// No room is left; names what ran out and its limit.
    #[error("{what} full: the limit is {limit} {unit}")]
    Full {
        /// Which table.
        what: &'static str,
        /// How much it can hold.
        limit: u64,
        /// What the limit counts.
        unit: &'static str,
    },
    /// The system gives no address space for the table.
    #[error("cannot reserve {bytes} bytes for the {what}: {reason}")]
    Reserve {
        /// Which table.
        what: &'static str,
        /// How much was asked for.
        bytes: u64,
        /// What the system said.
        reason: String,
    },
    /// There is no table under this index.
    #[error("no {what} with index {index}")]
    NoTable {
        /// Which kind of table.
        what: &'static str,
        /// The index asked for.
        index: u32,
    },
    /// A label over 2^20 - 1.
    #[error("label {0} is over 1048575")]
    BadLabel(u32),
}
