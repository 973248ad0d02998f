//! The HTTP/1 engine: heads, framing, bodies and their encoding (RFC 9112).
//!
//! One direction of one message each; the proxy joins them. The order is that of a message.

pub mod fields;
pub mod request;
pub mod response;

pub mod framing;

pub mod body;
mod chunk_line;

pub mod encode;

use thalweg_core::limits;

/// Bounds of one head, in bytes and fields.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HeadLimits {
    /// Longest request or status line without its line end; a longer request line is 414.
    pub line: usize,
    /// Longest head with its first and last line; longer is 431. At least 4 for any head to fit.
    pub head: usize,
    /// Most fields; more is 431.
    pub fields: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self { line: limits::REQUEST_LINE, head: limits::HEAD, fields: limits::FIELDS }
    }
}

/// How far a parser that can be resumed has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    /// All bytes given are fine and more are needed.
    Partial,
    /// The head is complete.
    Complete,
}

pub(crate) const BARE_LF: &str = "bare LF in the head";
pub(crate) const BARE_CR: &str = "bare CR in the head";
