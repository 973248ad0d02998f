//! HTTP archives (HAR 1.2): what `thalweg record` writes and `thalweg replay` reads.
//!
//! An archive may come from another program or from a stranger. Invariant: a request made of an entry has no more lines
//! than its own method, target and fields, and no field of framing.
#![forbid(unsafe_code)]

mod archive;
mod recorded;

pub use archive::{beginning, end, entry, parse, read};
pub use recorded::Recorded;
