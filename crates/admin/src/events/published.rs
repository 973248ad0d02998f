//! An event that has been published.

use thalweg_core::Event;

/// An event with its number.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Published {
    /// Counted from 1 since the process started.
    pub id: u64,
    /// What happened.
    pub event: Event,
}
