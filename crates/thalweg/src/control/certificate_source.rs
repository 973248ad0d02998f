//! What a certificate or a ticket key is read from.

use std::path::PathBuf;
use thalweg_proxy::plan::CertificateFiles;

/// What is read as one.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Source {
    /// A certificate and its key.
    Pair(CertificateFiles),
    /// Keys of session tickets.
    Keys(PathBuf),
}
