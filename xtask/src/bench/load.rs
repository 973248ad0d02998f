//! The loads of more than one bench: generators of others and of this tree, pinned to a CPU, and what they report.

pub(crate) mod ab;
pub(crate) mod bodies;
pub(crate) mod flood;
pub(crate) mod rate;
pub(crate) mod wrk;
