//! HTTP archives (HAR 1.2), which `thalweg record` writes and `thalweg replay` reads.
//!
//! An archive may come from another program or from a stranger. Invariant: a request made from an entry has only the
//! entry's method, target and fields, without injected lines and without framing fields.
#![forbid(unsafe_code)]

mod archive;
mod recorded;

pub use archive::{beginning, end, entry, parse, read};
pub use recorded::Recorded;
