//! What one worker costs in its steady state, and what a panic costs: a fleet within this process. And what a pick of a
//! balancer costs.
//!
//! A second test executable because it replaces the allocator: `steady/counting.rs` counts what a worker's thread
//! allocates, and nothing else in the process. The black-box tests cannot see that.
#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod steady;
