//! The `parshall` binary: the composition root.
fn main() {}
