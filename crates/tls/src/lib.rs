//! TLS, towards clients and towards endpoints, without a socket.
//!
//! A [`Session`] opens and seals the records of one connection; who owns the socket moves the bytes. A listener has an
//! [`Acceptor`], which all workers share: certificates by name, a [`Policy`], what names ask of clients
//! ([`ClientAuth`]), and [`Tickets`] for sessions that are resumed. An endpoint has a [`Connector`].
//!
//! rustls does the protocol, aws-lc the cryptography. Only `records` and `seal` know rustls' interface for records,
//! only `provider` names the cryptography.
//!
//! Invariants: nothing here does I/O, reads a clock but for the validity of certificates, or logs; whatever a peer sends
//! ends in plaintext, an alert or a bound, and never in a panic; keys are never shown.
#![forbid(unsafe_code)]

mod policy;
mod provider;

mod certificate;
mod flaw;
mod name;
mod pem;

mod acceptor;
mod clients;
mod distinguished_name;
mod identity;
mod issued;
mod realm;
mod shelf;
mod store;
mod tickets;

mod connector;
mod roots;
mod trust;

mod failure;
pub mod hello;
mod records;
mod seal;
mod session;
mod unsaid;
mod words;

#[cfg(test)]
mod testing;

pub use acceptor::Acceptor;
pub use certificate::Certificate;
pub use clients::{Authority, ClientAuth, ClientFlaw, ClientMode, ClientPolicy, Revocations, Told};
pub use connector::{Connector, Offer, PeerPolicy, PeerTerms, Trust};
pub use failure::{Failure, Refused};
pub use flaw::CertificateFlaw;
pub use identity::Identity;
pub use issued::Issued;
pub use policy::{Policy, PolicyFlaw, UnknownName, Version};
pub use provider::{Group, Suite};
pub use realm::Entry;
pub use session::{Facts, RECORD_MAX, RECORD_OVERHEAD, Session};
pub use shelf::{OnDemand, Shelf};
pub use thalweg_core::{Opened, Sealed};
pub use tickets::{TicketKeys, Tickets};
