//! Root certificates: the system's, and those of a file.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::policy::PolicyError;

/// Whom the system trusts. Read once, at the first call that succeeds: some 150 certificates, 5 to 25 ms.
pub(crate) fn system() -> Result<Arc<RootCertStore>, PolicyError> {
    static ROOTS: Mutex<Option<Arc<RootCertStore>>> = Mutex::new(None);
    let mut known = ROOTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(roots) = &*known {
        return Ok(Arc::clone(roots));
    }
    let mut roots = RootCertStore::empty();
    // Some of a system's certificates may be unreadable or odd; the others are good for what they sign.
    let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if added == 0 {
        let why = "this machine has no root certificates; help: install ca-certificates, set SSL_CERT_FILE, or \
                   write a `ca`";
        return Err(PolicyError::Roots(why.to_owned()));
    }
    Ok(Arc::clone(known.insert(Arc::new(roots))))
}

/// All certificates of a file, for what they have signed and as they are. One that cannot be used is an error: somebody
/// has put it there.
pub(crate) fn of_pem(pem: &[u8]) -> Result<(Arc<RootCertStore>, Vec<CertificateDer<'static>>), PolicyError> {
    let bad = |at: usize, why: &dyn std::fmt::Display| PolicyError::Roots(format!("certificate {at}: {why}"));
    let (mut roots, mut all) = (RootCertStore::empty(), Vec::new());
    for (at, der) in (1..).zip(CertificateDer::pem_slice_iter(pem)) {
        let der = der.map_err(|why| bad(at, &why))?;
        roots.add(der.clone()).map_err(|why| bad(at, &why))?;
        all.push(der);
    }
    match roots.is_empty() {
        true => Err(PolicyError::Roots("no certificate (no block `BEGIN CERTIFICATE`)".to_owned())),
        false => Ok((Arc::new(roots), all)),
    }
}
