//! The parts of the executable in the order in which a test uses them, then the tests.

mod client;
mod counting;
mod house;

mod allocations;
mod balancers;
mod breaker;
mod buffers;
mod datagrams;
mod endpoint_changes;
mod h2_attacks;
mod panics;
