//! Sealed destinations: where a request goes stands, encrypted and authenticated, in the first label of its host
//! name (`<label>.svc.example.com`).
//!
//! Configuration makes a [`Keyring`] per route from its keys and its domain, and [`Services`], [`Revoked`] and
//! [`reach::Allow`] from its lists. An exchange calls [`Keyring::open`] once with its first label, asks [`Revoked`]
//! about the [`Siv`], and looks the service up in [`Services`] or asks [`reach::Allow`] about the address. Logs show
//! [`redacted`] labels only: whoever has a label can use it. The format is told byte by byte in
//! `docs/reference/sealed.md`, with test vectors.
//!
//! # Time
//! [`Keyring::open`] does the same work whatever becomes of a label: one opening, 4 AES blocks, no key expansion, no
//! allocation. A client cannot tell a forged label from one that has expired by how long the answer takes.
//!
//! # The cipher
//! AES-256-SIV (RFC 5297) is put together here from the block cipher and CMAC; tests hold it against an
//! implementation of the whole. That one expands a key in every call, wants `&mut`, and works longer on what is forged.
//!
//! No socket, no clock, no runtime.
#![forbid(unsafe_code)]

pub mod reach;

mod base32;
mod cipher;
mod destination;
mod hex;
mod keyring;
mod label;
mod minutes;
mod redacted;
mod refusal;
mod revoked;
mod secret;
mod services;

pub use destination::{Destination, SealError, ServiceDigest, To};
pub use keyring::{Key, Keyring, KeyringError, Opened};
pub use label::{LABEL_LENGTH, Label, Siv};
pub use minutes::Minutes;
pub use redacted::{Redacted, Redactor, redacted};
pub use refusal::Refusal;
pub use revoked::{Revoked, RevokedError};
pub use secret::Secret;
pub use services::Services;
