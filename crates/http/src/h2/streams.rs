//! How old the streams of a connection are, in a few words for all of them.
//!
//! Used by the flood guard: a stream that lived for a while is no rapid reset, however it ends.

/// From this age on, in milliseconds, a stream may count as old; from twice that on it does.
const YOUNG_MS: u64 = 500;

/// Which streams were opened when, as far as it matters. Their ids rise (RFC 9113 §5.1.1).
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    newest: u32,
    opened_ms: u64,
    /// The newest one as of `marked_ms`, and all that were opened at least [`YOUNG_MS`] ago.
    mark: u32,
    marked_ms: u64,
    old: u32,
}

impl Streams {
    /// Time went by.
    pub(super) fn tick(&mut self, now_ms: u64) {
        if now_ms - self.marked_ms >= YOUNG_MS {
            let young = now_ms - self.opened_ms < YOUNG_MS;
            self.old = if young { self.mark } else { self.newest };
            (self.mark, self.marked_ms) = (self.newest, now_ms);
        }
    }

    /// Whether the stream is a new one; it then is the newest.
    pub(super) fn opens(&mut self, stream: u32, now_ms: u64) -> bool {
        let new = stream > self.newest;
        if new {
            (self.newest, self.opened_ms) = (stream, now_ms);
        }
        new
    }

    /// Whether it was opened [`YOUNG_MS`] ago or earlier; certain from twice that on.
    pub(super) fn is_old(&self, stream: u32) -> bool {
        stream <= self.old
    }
}
