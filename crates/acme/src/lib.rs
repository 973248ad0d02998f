//! Certificates that an authority issues and renews by itself (ACME, RFC 8555), and those of this machine's own
//! authority ([`local_ca`]).
//!
//! [`RenewalService::start`] starts a thread that looks after names: it orders what is missing, renews what is due,
//! keeps both on disk, and puts what it has on a store of issued certificates ([`thalweg_tls::IssuedStore`]) where
//! handshakes look. The thread has a runtime of its own: it may wait for disks and keys, which nobody else has to.
//!
//! Invariants: what was issued is on disk before it is shown; the key and the place of an order are on disk before the
//! order is finalized, so that a crash costs nothing; a name is ordered by one process at a time; a name that fails
//! keeps no other one waiting; nothing here is on the path of an exchange.
#![forbid(unsafe_code)]

mod on_demand;
mod renew;
mod renewal;
mod renewal_service;

mod account;
mod authority_client;
mod challenge;
mod dns;
mod order;

mod failure;
mod keys;
mod lease;
mod storage;

pub mod local_ca;

pub use challenge::HttpAnswers;
pub use renewal_service::{News, Options, RenewalService};
