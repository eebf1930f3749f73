//! The command socket and its client: one command, a file, or interactive.
