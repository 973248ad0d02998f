//! TLS, towards clients and towards endpoints, without a socket.
//!
//! A [`Session`] opens and seals the records of one connection; who owns the socket moves the bytes. A listener has an
//! [`Acceptor`], which all workers share: certificates by name, a [`Policy`], what names ask of clients
//! ([`ClientAuth`]), and [`Tickets`] for sessions that are resumed. An endpoint has a [`Connector`].
//!
//! rustls does the protocol, aws-lc the cryptography. Only `records` and `seal` know rustls' interface for records,
//! only `provider` names the cryptography.
//!
//! Invariants: nothing here does I/O, reads a clock but for the validity of certificates, or logs; whatever a peer
//! sends ends in plaintext, an alert or a bound, and never in a panic; keys are never shown.
#![forbid(unsafe_code)]

mod policy;
mod provider;

pub mod acme;

mod certificate;
mod certificate_error;
mod name;
mod pem;

mod acceptor;
mod client_auth;
mod client_verifier;
mod distinguished_name;
mod identity;
mod issued;
mod issued_store;
mod store;
mod tickets;

mod connector;
mod roots;
mod server_verifier;

mod byte_queue;
mod error_text;
mod failure;
pub mod hello;
mod records;
mod seal;
mod session;

#[cfg(test)]
mod testing;

pub use acceptor::Acceptor;
pub use acme::{AcmeBinding, AcmeChallenge, AcmeKeyType, AcmePolicy, DnsHook, DnsHookBy, OnDemandPolicy};
pub use certificate::Certificate;
pub use certificate_error::CertificateError;
pub use client_auth::Entry;
pub use client_verifier::{
    Authority, ClientAuth, ClientAuthError, ClientMode, ClientPolicy, Revocations, Told,
};
pub use connector::{Connector, Offer, PeerPolicy, PeerTerms, Trust};
pub use failure::{Failure, Refused};
pub use identity::Identity;
pub use issued::Issued;
pub use issued_store::{IssuedStore, OnDemand};
pub use policy::{Policy, PolicyError, UnknownName, Version};
pub use provider::{Group, Suite};
pub use session::{Facts, RECORD_MAX, RECORD_OVERHEAD, Session};
pub use thalweg_core::{Opened, Sealed};
pub use tickets::{PassedKeysSpec, TicketKeys, Tickets};
