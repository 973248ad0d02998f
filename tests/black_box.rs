//! Black-box tests of the real binary, in one test executable: wire transcripts and scenarios.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod scenario;
mod transcripts;
