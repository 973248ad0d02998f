//! Files of certificates and ticket keys, read again while the proxy runs: what they hold, without the configuration
//! around them.
//!
//! Called by control when such a file has changed. What is wrong is said as at the line of a configuration that names the
//! file, and never quotes it.

use crate::inputs::{cause, read_bounded};
use std::path::Path;
use thalweg_core::limits::{TLS_PEM, TLS_TICKET_FILE};
use thalweg_proxy::plan::CertificateFiles;
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

fn bytes(path: &Path, limit: usize, what: &str) -> Result<Vec<u8>, String> {
    match read_bounded(path, limit) {
        Ok(bytes) if bytes.len() > limit => Err(format!("{what} is larger than {} KiB", limit / 1024)),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(format!("cannot read {what}: {}", cause(&error))),
    }
}
