//! `tls:` of a service. Files are read here, so that what is wrong with one is told at the line that names it.

use crate::diagnose::{Class, Problems, SpecError};
use crate::source::Span;
use crate::spec::{ServiceTlsSpec, Spanned, TlsVersionSpec};
use crate::validate::secret::Secrets;
use crate::validate::tls::{certificate, file};
use std::sync::Arc;
use thalweg_core::limits::TLS_PEM;
use thalweg_tls::{PeerPolicy, PeerTerms, PolicyError, Trust, Version};
use thalweg_upstream::Endpoint;

/// What is asked of endpoints that are reached through TLS; `None` where something is wrong.
pub(in crate::validate) fn service_tls(
    spec: &Spanned<ServiceTlsSpec>,
    endpoints: &[Endpoint],
    secrets: &Secrets<'_>,
    problems: &mut Problems,
) -> Option<Arc<PeerTerms>> {
    // Where none could be read, that is the mistake.
    if !endpoints.is_empty() && !endpoints.iter().any(Endpoint::is_secure) {
        let message = "no endpoint of this service is reached through TLS";
        let error = SpecError::new(Class::Invalid, spec.span, message)
            .help("write `https://…` in `endpoints`, or remove `tls`");
        problems.push(error);
    }
    let policy = policy(&spec.value, secrets, problems)?;
    match PeerTerms::new(policy) {
        Ok(terms) => Some(Arc::new(terms)),
        Err(flaw) => {
            problems.push(refused(spec, &flaw));
            None
        }
    }
}

/// The terms of services that say nothing of them. `span` is where the endpoints stand.
pub(super) fn built_in(
    endpoints: &[Endpoint],
    span: Span,
    problems: &mut Problems,
) -> Option<Arc<PeerTerms>> {
    if !endpoints.iter().any(Endpoint::is_secure) {
        return None;
    }
    match PeerTerms::new(PeerPolicy::default()) {
        Ok(terms) => Some(Arc::new(terms)),
        Err(flaw) => {
            problems.push(SpecError::new(
                Class::Invalid,
                span,
                format!("endpoints cannot be verified: {flaw}"),
            ));
            None
        }
    }
}

fn policy(spec: &ServiceTlsSpec, secrets: &Secrets<'_>, problems: &mut Problems) -> Option<PeerPolicy> {
    let built_in = PeerPolicy::default();
    let pem = spec.ca.as_ref().map(|ca| file(ca, "the file of trusted certificates", secrets, problems));
    let certificate = match (&spec.cert, &spec.key) {
        (Some(cert), Some(key)) => Some(certificate((cert, key), secrets, problems).map(Arc::new)),
        (None, None) => None,
        (Some(written), None) => Some(half(written, "key", problems)),
        (None, Some(written)) => Some(half(written, "cert", problems)),
    };
    let skips = spec.insecure_skip_verify.is_some_and(|skips| skips.value);
    Some(PeerPolicy {
        trust: match pem {
            _ if skips => Trust::InsecureSkipVerify,
            Some(pem) => Trust::Only(pem?.into()),
            None => Trust::System,
        },
        server_name: spec.server_name.as_ref().map(|name| name.value.clone()),
        certificate: certificate.map_or(Some(None), |read| read.map(Some))?,
        min_version: match spec.min_version {
            Some(TlsVersionSpec::Tls12) => Version::Tls12,
            Some(TlsVersionSpec::Tls13) => Version::Tls13,
            None => built_in.min_version,
        },
        resumption: spec.resumption.unwrap_or(built_in.resumption),
    })
}

fn half<T>(written: &Spanned<String>, lacks: &str, problems: &mut Problems) -> Option<T> {
    let message = format!("a certificate and its key belong together: `{lacks}` is missing");
    let help = "`cert` names the file with the certificate, `key` the one with its private key";
    problems.push(SpecError::new(Class::Invalid, written.span, message).help(help));
    None
}

/// Whose fault it is that the terms cannot be used.
fn refused(spec: &Spanned<ServiceTlsSpec>, flaw: &PolicyError) -> SpecError {
    match (flaw, &spec.value.ca, &spec.value.server_name) {
        (PolicyError::Roots(_), Some(ca), _) => {
            let message = format!("the file of trusted certificates cannot be used: {flaw}");
            SpecError::new(Class::Invalid, ca.span, message).help(format!(
                "a PEM file of at most {} KiB with one certificate or more is needed",
                TLS_PEM / 1024
            ))
        }
        (PolicyError::Other(_), _, Some(name)) => SpecError::value(
            name.span,
            "host",
            format!("`{}` is neither a host name nor an address", name.value),
        )
        .help("write for example `app.internal` or `10.0.0.1`"),
        _ => SpecError::new(Class::Invalid, spec.span, format!("TLS cannot be set up like this: {flaw}")),
    }
}
