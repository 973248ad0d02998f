//! Lines of the running proxy for its operator, on their way to where they are written.
//!
//! Made by workers, checks and webhooks; the control thread writes them. Whoever makes one knows whether somebody may
//! have to act: nothing is read out of its words.

/// How much a line asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Level {
    /// Ordinary life: something began, changed or ended as it should.
    Info,
    /// Somebody may have to act.
    Warn,
}

/// A line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Notice {
    /// How much it asks for.
    pub level: Level,
    /// Names its object first, as in "service `shop`: its breaker is closed".
    pub text: String,
}

impl Notice {
    /// Ordinary life.
    pub fn info(text: impl Into<String>) -> Self {
        Self { level: Level::Info, text: text.into() }
    }

    /// Somebody may have to act.
    pub fn warn(text: impl Into<String>) -> Self {
        Self { level: Level::Warn, text: text.into() }
    }
}
