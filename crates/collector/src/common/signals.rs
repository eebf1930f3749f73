//! The signals INT and TERM as a request to end; the second one ends the program at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::ToolError;

/// A flag that the signals set.
pub(crate) fn stop_on_signals() -> Result<Arc<AtomicBool>, ToolError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // This one must be registered first: it looks whether the flag was set before.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))
            .map_err(ToolError::Signals)?;
        flag::register(signal, Arc::clone(&stop)).map_err(ToolError::Signals)?;
    }
    Ok(stop)
}
