//! The floods that end an HTTP/2 connection, by name.
//!
//! One word each for metrics, logs and documents; found by the [flood guard](super::flood_guard).

/// Of what a peer sent too much. The connection is ended with `ENHANCE_YOUR_CALM`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Flood {
    /// RST_STREAM on streams without an answer.
    Resets,
    /// Frames to which RST_STREAM was the answer.
    ProvokedResets,
    /// CONTINUATION frames of one field section.
    Continuations,
    /// Bytes of one field section.
    FieldSection,
    /// Field sections on streams that have one already.
    Headers,
    /// SETTINGS.
    Settings,
    /// PING.
    Pings,
    /// PRIORITY and PRIORITY_UPDATE.
    Priorities,
    /// DATA without payload.
    EmptyData,
    /// WINDOW_UPDATE.
    WindowUpdates,
    /// Frames that mean nothing here.
    OtherFrames,
}

impl Flood {
    /// The word for metrics, logs and documents.
    pub const fn row(self) -> &'static str {
        match self {
            Self::Resets => "resets",
            Self::ProvokedResets => "provoked_resets",
            Self::Continuations => "continuations",
            Self::FieldSection => "field_section",
            Self::Headers => "headers",
            Self::Settings => "settings",
            Self::Pings => "pings",
            Self::Priorities => "priorities",
            Self::EmptyData => "empty_data",
            Self::WindowUpdates => "window_updates",
            Self::OtherFrames => "other_frames",
        }
    }

    /// What the peer did, for the log.
    pub const fn detail(self) -> &'static str {
        match self {
            Self::Resets => "too many streams reset before their answer",
            Self::ProvokedResets => "too many streams that broke the protocol",
            Self::Continuations => "too many CONTINUATION frames for one field section",
            Self::FieldSection => "a field section far over the limit of a head",
            Self::Headers => "too many field sections on streams that had theirs",
            Self::Settings => "too many SETTINGS frames",
            Self::Pings => "too many PING frames",
            Self::Priorities => "too many priority frames",
            Self::EmptyData => "too many DATA frames without payload",
            Self::WindowUpdates => "too many WINDOW_UPDATE frames for what was sent",
            Self::OtherFrames => "too many frames that mean nothing",
        }
    }
}
