//! The second tier of the HTTP cache: a store on a disk, below the one in memory.
#![forbid(unsafe_code)]

pub mod settings;

mod ban;
mod directory;
mod record;
mod removals;
mod state;

mod index;
mod shared;

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
pub use disk::Disk;
pub use load::{Damaged, Load, Loaded, Place};
pub use settings::Settings;
pub use shared::{Condition, Say, Ticket};
