//! Developer commands: `cargo xtask deps`.
fn main() {}
