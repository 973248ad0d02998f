//! The end: what is kept on disk is written, in the time that there is.

use super::admin::Shared;
use crate::operator_log::warn;
use std::time::Duration;

/// How long the disk may take for each.
const KEEP_TIME: Duration = Duration::from_secs(5);

impl Shared {
    /// Waits until all is kept, and tells what may not be.
    pub(super) fn settle(&self) {
        self.keep_found(true);
        let late = |what: &str| warn(format_args!("{what} may not be kept: the disk was too slow"));
        if !self.runtime().kept_sources.settle(KEEP_TIME) {
            late("what sources found last");
        }
        if !self.runtime().settle(KEEP_TIME) {
            late("the last runtime changes");
        }
        if !self.access().settle(KEEP_TIME) {
            late("the last changes of lists of addresses");
        }
        if !self.series().settle(KEEP_TIME) {
            late("the last time series");
        }
        if !self.api_keys.settle(KEEP_TIME) {
            late("the last changes of API keys");
        }
        if !self.origin().history.settle(KEEP_TIME) {
            late("the history");
        }
    }
}
