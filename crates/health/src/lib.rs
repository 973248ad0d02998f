//! Asking endpoints whether they are well, before and beside the requests of clients.
//!
//! Runs on the control thread; workers only ever get the result. [`Checks`] is told with [`Checks::set`]
//! what is to be checked and how, and says through a channel what it found ([`News`]). Targets that are
//! equal are one check, however many services use them. What is down goes on being checked, and comes back.
//!
//! In the order of a check: the timetable says whose turn it is (`schedule`, pure), the endpoint is asked on a
//! connection of its own (`ask`), and what it said is weighed with what it said before ([`Thresholds`], pure).
#![forbid(unsafe_code)]

mod checks;
mod grpc;
mod http;
mod jitter;
mod outcome;
mod probe;
mod schedule;
mod secure;
mod tally;
mod target;
mod thresholds;

pub use checks::{Checks, News};
pub use schedule::Report;
pub use tally::{Figures, Tallies};
pub use target::Target;
pub use thresholds::{Thresholds, Verdict};
