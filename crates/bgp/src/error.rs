//! What is wrong with bytes that are no message.

use thiserror::Error;

/// Why bytes were not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BgpError {
    /// Something ends before it should.
    #[error("{what} is cut short: {need} bytes are needed, {have} are left")]
    Short {
        /// What was being read.
        what: &'static str,
        /// Bytes needed.
        need: usize,
        /// Bytes left.
        have: usize,
    },
    /// A field has a value that it cannot have.
    #[error("{what} cannot be {value}")]
    Value {
        /// The field.
        what: &'static str,
        /// What it holds.
        value: u32,
    },
    /// More of something than is kept.
    #[error("{what}: {count} are over the limit of {limit}")]
    Limit {
        /// Of what.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// An attribute that an announced route must have.
    #[error("the {0} attribute is missing")]
    Missing(&'static str),
}

/// What reading gives.
pub(crate) type Result<T> = core::result::Result<T, BgpError>;
