//! In-memory forwarding benches of whole graphs.
