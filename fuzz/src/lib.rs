//! What the fuzz targets share: how input is cut into pieces, and how our engine and hyper read it.
//!
//! Each target under `fuzz_targets/` states in its module doc what it asserts. Inputs are plain bytes
//! of the wire (or of a file), so that a seed or a finding can be read and sent as it is; everything
//! else a target needs, such as the places of cuts, is drawn from a hash of the input.
#![forbid(unsafe_code)]

pub mod pieces;

pub mod body;

pub mod engine;
pub mod hyper_side;

pub use pieces::{Draw, byte_by_byte, cut};
