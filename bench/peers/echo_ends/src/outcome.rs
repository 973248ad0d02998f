//! What came of all sessions, as one line of JSON.

use std::fmt;
use std::time::Duration;

/// Counts of sessions, and of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// From the first message to the last echo.
    pub(crate) time: Duration,
    /// Sessions that were asked for, and those that stood.
    pub(crate) sessions: usize,
    pub(crate) connected: usize,
    /// Sessions with a clean refusal: a status of HTTP, an alert of TLS, or a connection that was closed before it
    /// stood.
    pub(crate) refused: usize,
    /// Sessions that got no answer at all.
    pub(crate) silent: usize,
    /// Sessions that got wrong bytes.
    pub(crate) broken: usize,
    /// Messages of sessions that stood, without a right echo.
    pub(crate) lost: u64,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, sessions, connected, refused, silent, broken, lost } = self;
        write!(
            f,
            "{{\"seconds\":{:.6},\"sessions\":{sessions},\"connected\":{connected},\"refused\":{refused},\
             \"silent\":{silent},\"broken\":{broken},\"lost\":{lost}}}",
            time.as_secs_f64()
        )
    }
}
