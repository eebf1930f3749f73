//! A running router in the terminal.
