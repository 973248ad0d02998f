//! The engine that joins the parts: from an accepted connection to the last byte of its answers.
//!
//! Start at [`serve`](serve/index.html): it is the table of contents of the product, one call per
//! phase, one file per phase. Around it: [`plan`] is what the configuration compiles to, `worker`
//! the thread that runs exchanges, `worker_pool` all workers together; [`explain`] asks the first phases what they
//! would do.
#![forbid(unsafe_code)]

pub mod budget;
pub mod plan;
pub mod purge;

mod buffers;
mod overload;
mod relay;
mod state;

mod connection;
mod exchange;
pub mod explain;
mod h2;
mod l4;
mod listener;
mod records;
pub mod serve;
mod tls;
mod worker;

pub use budget::{Allowance, Budget};
pub use plan::Plan;
pub use purge::{Purge, PurgeDone, PurgeWhat, Unpurgeable};
pub use records::{Decision, DecisionAttempt, FoundRecords, Notable, RecordQuery};
pub use records::{TAPS, Tap, TapHeard, TapQuery, Tapped, TappedHeaders};
pub use state::challenges::Challenges;
pub use state::start_error::StartError;
pub use worker::pool::{Bound, BoundListeners, WorkerPool, WorkerPoolOptions, bind_listeners};
