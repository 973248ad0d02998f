//! The second tier of the HTTP cache: a store on a disk, below the one in memory.
//!
//! ```text
//! let disk = Disk::open(Settings::of(path, size), say)?;   // once, at once; one for all workers
//!
//! // What becomes stored in memory is written too. The ticket is taken before the response is asked for.
//! let ticket = disk.ticket();
//! … fetch, `Lead::finish` gives the object …
//! disk.put(&object, ticket);
//!
//! // Nothing in memory: look, and read.
//! if let Some(place) = disk.find(&key, &policy, fields, &mut variant)
//!     && let Some(mut load) = disk.load(place, &key, &variant)
//!     && let Some(loaded) = poll_fn(|context| load.poll_head(context, &policy)).await
//! {
//!     // A small one: `poll_fn(|context| load.poll_body(context, &mut read))` and `load.promote(…)`, then as if it had
//!     // been found in memory. Otherwise `loaded.head` decides, and the body comes from `load.poll_piece`.
//! }
//!
//! // What is too large for memory is written while it comes.
//! lead.spill_to(disk.tier(ticket));
//!
//! // What is removed from memory is removed here, here first.
//! disk.remove_url(key.url());
//! disk.purge(&select, how);                                 // waits for the disk: not on a worker
//! ```
//!
//! Workers call [`Disk::ticket`], [`Disk::put`], [`Disk::find`], [`Disk::load`], [`Disk::remove`],
//! [`Disk::remove_object`], [`Disk::remove_url`] and poll a [`Load`]; none of them waits for the disk. One thread owns
//! the directory and all that is written (`writer`), some read ([`load`]).
//!
//! **Files.** `lock` (who uses the directory), `state` (its version, and purges that are not forgotten), and segments
//! to which records are appended (`record`, `log`). The oldest segment goes as a whole when room is needed; what was
//! used in it is written again. The index (`index`) has no keys and no heads, and is made anew at each start, while the
//! store is in use, from the newest segment to the oldest (`scan`).
//!
//! **What is guaranteed.**
//! - No byte is given out whose checksum was not right, and none of a place where something else was written. A body
//!   that turns out to be damaged behind its first chunk breaks off.
//! - A purge holds from when [`Disk::purge`] begins; it outlasts a crash of the process and of the machine from when it
//!   returns. Where it cannot be written, the store is emptied; where that fails too, the store is not used any more,
//!   which is said.
//! - A removal ([`Disk::remove`], [`Disk::remove_url`]) holds from when it returns. It outlasts a crash of the process
//!   from when the writing thread has come to it, usually milliseconds, and one of the machine a second later.
//! - What was purged or removed after the ticket of an object was taken concerns that object, wherever it is then.
//! - Nothing that is put has to be written: what was written last may be missing after a crash. An earlier response, in
//!   whose place one was put that was not written, may be there again after a restart, as long as it is fresh.
#![forbid(unsafe_code)]

pub mod settings;

mod ban;
mod directory;
mod record;
mod removals;
mod state;

mod index;
mod shared;

mod growth;

mod grow;
mod log;
mod scan;
mod writer;

pub mod load;

pub mod disk;

pub mod counters;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use counters::Counts;
pub use disk::{Disk, Purging};
pub use load::{Damaged, Load, Loaded, Place};
pub use settings::Settings;
pub use shared::{Condition, Say, Ticket};
