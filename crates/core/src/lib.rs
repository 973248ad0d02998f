//! Shared words of the product: faults, limits, units, ids.
//!
//! Everything else depends on this crate and it depends on nothing of ours. It holds no socket
//! and reads no clock: time and randomness come in as arguments.
#![forbid(unsafe_code)]

pub mod fault;
pub mod id;
pub mod limits;
pub mod units;

pub use fault::{Fault, FaultKind, Side};
pub use id::RequestId;
