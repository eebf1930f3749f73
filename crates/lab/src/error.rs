//! What can go wrong around the laboratory, each as one sentence with what to do about it.

use std::io;

use thiserror::Error;

/// Result with this crate's [`LabError`].
pub type Result<T> = std::result::Result<T, LabError>;

/// Why the laboratory cannot go on.
#[derive(Debug, Error)]
pub enum LabError {
    /// The system refused a namespace, a link or an address.
    #[error(transparent)]
    System(#[from] parshall_linux::Error),
    /// The system refused something else.
    #[error("cannot {tried}: {error}")]
    Io {
        /// What was tried.
        tried: String,
        /// What the system said.
        error: io::Error,
    },
    /// The router does not start, ended by itself or does not do what it should.
    #[error("{0}")]
    Router(String),
    /// A signal asked to end.
    #[error("interrupted; everything that was made is gone again")]
    Interrupted,
}

impl LabError {
    /// For `map_err`: names what was tried.
    pub fn io(tried: impl Into<String>) -> impl FnOnce(io::Error) -> LabError {
        let tried = tried.into();
        move |error| LabError::Io { tried, error }
    }
}
