//! The rate that a client is asked to keep.

use std::time::Duration;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// The length of a window.
    pub(crate) window: Duration,
    /// Bytes per second; 0: nothing is asked for.
    pub(crate) least: u64,
}
