//! Fuzz targets: functions that take any bytes and panic when a property does not hold.
//!
//! Each file under `targets/` states in its module doc what its input is and what it asserts. Inputs are plain bytes
//! of the wire (or of a file), so that a seed or a finding can be read and sent as it is; everything
//! else a target needs, such as the places of cuts, is drawn from a hash of the input.
//!
//! Two callers: the tests in `smoke`, which are part of every `cargo test`, and `libfuzzer/`, a program of its own
//! that `cargo xtask fuzz` builds with the fuzzer's flags.
#![forbid(unsafe_code)]

pub mod seeds;
pub mod targets;

mod pieces;

mod body;

mod engine;
mod filter_side;
mod hyper_side;

#[cfg(test)]
mod mutation;
#[cfg(test)]
mod smoke;

use pieces::{Draw, byte_by_byte, cut};
