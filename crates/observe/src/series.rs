//! Time series of what is counted: of the process and of its routes, services and endpoints.
//!
//! A store holds the last 30 minutes in steps of 10 seconds and the last 24 hours in steps of 5 minutes. The control
//! thread reads the meters every 10 seconds and tells the store ([`SeriesStore::see`], [`SeriesStore::commit`]); the
//! admin thread asks it ([`SeriesStore::select`]). Workers know nothing of it. Time is an argument: a clock that goes
//! back or jumps moves the labels of the steps and never the counts (`timeline`).
//!
//! # Memory
//! At most [`MEMORY`] in all, tested below. One object has 180 + 288 = 468 points of 52 bytes (24.3 KB) and the counts
//! of the last reading. The busiest [`OBJECTS`] have points of their own (about 50 MB); what the others count is in
//! one series `_other` per kind. Of an object without points only its count of requests is known, 32 bytes: 4 to 8 MB
//! for the 150,000 things that a registry may hold. A point is taken when an object is first busy: a proxy with ten
//! routes takes less than 1 MB.
//!
//! # Who is busy
//! Each reading adds the requests since the last one to a score that loses a hundredth. Past [`OBJECTS`], an object
//! whose score is twice the lowest takes its place, and the points of the lowest are added to `_other`: what a kind has
//! counted in all stays right. An object that was removed or renamed keeps its points until they are a day old.

mod file;
mod point;
mod select;
mod store;
mod timeline;

pub use file::{DamagedSeries, write_series};
pub use select::{Selection, SeriesAnswer, SeriesKind, SeriesOf, Span};
pub use store::{Gauges, Sample, SeriesStore};
pub(crate) use timeline::Timeline;

/// Objects that have points of their own.
pub const OBJECTS: usize = 2_000;
/// Bytes that all series may take.
pub const MEMORY: usize = 64 << 20;
/// Seconds of a short step, and of a reading.
pub const STEP: u64 = 10;
/// Short steps that are kept: 30 minutes.
pub const STEPS: usize = 180;
/// Seconds of a long step.
pub const LONG_STEP: u64 = 300;
/// Long steps that are kept: 24 hours.
pub const LONG_STEPS: usize = 288;
/// Bytes of the names of an object; one with longer names has no points of its own.
pub const NAME: usize = 512;

#[cfg(test)]
mod tests;
