//! Files of certificates, ticket keys and revoked labels, read again while the proxy runs: what they hold, without the
//! configuration around them.
//!
//! Called by control when such a file has changed. What is wrong is said as at the line of a configuration that names
//! the file, and never quotes it.

use crate::inputs::{cause, read_bounded};
use std::path::Path;
use thalweg_core::limits::{SEALED_REVOKED_FILE, TLS_PEM, TLS_TICKET_FILE};
use thalweg_proxy::plan::CertificateFiles;
use thalweg_sealed::Revoked;
use thalweg_tls::{Certificate, TicketKeys};

/// Reads a chain and its key.
///
/// # Errors
/// What is wrong with which of the two, in a sentence.
pub fn certificate(files: &CertificateFiles) -> Result<Certificate, String> {
    let chain = bytes(&files.cert, TLS_PEM, "the file of the certificate")?;
    let key = bytes(&files.key, TLS_PEM, "the file of the key")?;
    Certificate::read(&chain, &key).map_err(|flaw| {
        let file = if flaw.is_of_key() { "the file of the key" } else { "the file of the certificate" };
        format!("{file} {flaw}")
    })
}

/// Reads keys of session tickets.
///
/// # Errors
/// What is wrong with the file, in a sentence.
pub fn ticket_keys(path: &Path) -> Result<TicketKeys, String> {
    let bytes = bytes(path, TLS_TICKET_FILE, "the file of the ticket keys")?;
    TicketKeys::read(&bytes).map_err(|why| format!("the file of the ticket keys is wrong: {why}"))
}

/// Reads labels that were revoked: one on each line, with or without the domain; `#` begins a comment.
///
/// # Errors
/// What is wrong with the file, in a sentence.
pub fn revoked(path: &Path) -> Result<Revoked, String> {
    revoked_in(&bytes(path, SEALED_REVOKED_FILE, "the file of revoked labels")?)
}

/// The same of its bytes.
pub(crate) fn revoked_in(bytes: &[u8]) -> Result<Revoked, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "the file of revoked labels is not text")?;
    let label = |line: &'_ str| {
        let label = line.split('#').next().unwrap_or_default().trim();
        label.split('.').next().unwrap_or_default().to_owned()
    };
    let labels: Vec<_> = text.lines().map(label).filter(|label| !label.is_empty()).collect();
    Revoked::parse(&labels).map_err(|error| format!("the file of revoked labels is wrong: {error}"))
}

fn bytes(path: &Path, limit: usize, what: &str) -> Result<Vec<u8>, String> {
    match read_bounded(path, limit) {
        Ok(bytes) if bytes.len() > limit => Err(format!("{what} is larger than {} KiB", limit / 1024)),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(format!("cannot read {what}: {}", cause(&error))),
    }
}
