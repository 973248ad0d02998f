//! The certificate that all show: ECDSA P-256, its own issuer.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::command::output;

/// The files of a certificate.
pub(super) struct Certificate {
    pub(super) chain: PathBuf,
    pub(super) key: PathBuf,
}

/// Makes one in `folder`, for the host that clients name.
pub(super) fn make(folder: &Path) -> Result<Certificate> {
    let certificate = Certificate { chain: folder.join("chain.pem"), key: folder.join("key.pem") };
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
    command.args(["-days", "30", "-subj", "/CN=bench", "-addext", "subjectAltName=DNS:bench,IP:127.0.0.1"]);
    output(command.arg("-keyout").arg(&certificate.key).arg("-out").arg(&certificate.chain))?;
    Ok(certificate)
}
