//! Where endpoints come from, and what host names among them stand for.
//!
//! One file per source and one line per source in the list below. A [`Source`] tells of one service or one host name at
//! a time ([`Update`]); the control thread takes that over without a new plan, and workers only ever get the result.
//! Runs on the control thread.
#![forbid(unsafe_code)]

mod dns;
mod source;
mod static_list;

pub use dns::look_up;
pub use source::{Followed, Next, Source, SourceKind, Sources, Update, names_in};

// One line per source: its module, which has a `pub(crate) fn new(&Names)`, and its summary.
source::sources! {
    static_list "endpoints that stand in the configuration";
    dns "addresses of host names, asked for again at their TTL";
}
