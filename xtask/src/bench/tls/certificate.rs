//! The certificate that all show: ECDSA P-256, its own issuer.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::command::output;

/// The files of a certificate.
pub(in crate::bench) struct Certificate {
    pub(in crate::bench) chain: PathBuf,
    pub(in crate::bench) key: PathBuf,
}

/// Makes one in `folder`, for the host that clients name.
pub(in crate::bench) fn make(folder: &Path) -> Result<Certificate> {
    let certificate = Certificate { chain: folder.join("chain.pem"), key: folder.join("key.pem") };
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
    command.args(["-days", "30", "-subj", "/CN=bench", "-addext", "subjectAltName=DNS:bench,IP:127.0.0.1"]);
    output(command.arg("-keyout").arg(&certificate.key).arg("-out").arg(&certificate.chain))?;
    Ok(certificate)
}
