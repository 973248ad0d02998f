//! The memory store of the HTTP cache, shared by all workers, and responses that are being received for it.
//!
//! A worker looks up a key ([`Store::find`]) and chooses among its variants ([`Stored::choose`]). Where nothing fits,
//! it claims the key ([`Store::claim`]): the first one leads a fill ([`Lead`]), those who come meanwhile follow it
//! ([`Reader`]) and get the bytes as they arrive, each at its own pace. A finished fill is a stored object at once; one
//! that breaks off never is. What is larger than an object may be goes to a second tier as it comes, where there is one
//! ([`spill`]).
//!
//! Invariants: no socket, no runtime, no clock. Each lock is held for a short time that no input makes longer, two are
//! never held together, and nobody is woken under one. Objects, what finds them and fills are counted as what an
//! allocator takes for them, and their sum stays within [`Limits::bytes`].
#![forbid(unsafe_code)]

pub mod limits;

mod size;

pub mod body;
pub mod object;
mod rope;
pub mod tags;

mod ghost;
mod queues;
mod shard;

pub mod store;

pub mod claim;
mod fill;
pub mod lead;
mod lead_part;
mod lead_spill;
pub mod reader;
pub mod spill;

pub mod purge;

pub mod counters;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use body::{Body, CHUNK, Chunk, Piece};
pub use claim::{Claim, Pass};
pub use counters::Counts;
pub use lead::{Lead, Unfinished};
pub use limits::Limits;
pub use object::Object;
pub use purge::{How, PathIs, Select, make_stale};
pub use reader::{Alone, Broken, Given, Reader, Seen};
pub use spill::{Progress, Spill, SpillRead, Spilled, Spills};
pub use store::{Choice, Rejected, Store, Stored};
