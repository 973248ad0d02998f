//! From one process to the next: listening sockets, what was changed at run time, and who accepts.
//!
//! Three processes may speak with each other, over pairs of unix sockets ([`Channel`]):
//!
//! - the *predecessor*, which runs and starts an upgrade (`control/upgrade.rs`);
//! - the *successor*, another process of the same or another binary, with the channel as its standard input
//!   ([`Successor`]);
//! - the *supervisor*, where there is one: it starts both, and holds copies of the sockets for the case that a process
//!   crashes (`supervisor.rs`).
//!
//! The order of an upgrade: the predecessor offers all that it has ([`MessageSpec::Offer`]); the successor reads its
//! configuration, starts its threads and says that it is ready ([`MessageSpec::Ready`]) without having accepted
//! anything; the predecessor lets go ([`MessageSpec::Go`]); the successor accepts. Whatever fails before that leaves
//! the predecessor as it was. Connections wait in the queues of the sockets meanwhile, which both processes have.

mod channel;
mod message;
mod parent;
mod successor;

pub(crate) use channel::{Channel, Received};
pub(crate) use message::{MessageSpec, OfferSpec, PassedSocketSpec, RuntimeChangesSpec};
pub(crate) use parent::{Parent, VARIABLE};
pub(crate) use successor::Successor;
