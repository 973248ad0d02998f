//! The `thalweg` binary.
fn main() {}
