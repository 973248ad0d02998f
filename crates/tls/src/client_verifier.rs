//! What a listener asks of its clients: a certificate that one of its authorities has signed, and that none of its
//! lists revokes.
//!
//! Fails closed: an expired list, one that cannot be verified, and a certificate of which no list says anything, are
//! reasons to refuse. What is not known may be allowed ([`ClientPolicy::allow_unknown`]); what is revoked may not.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use thalweg_core::limits::{TLS_AUTHORITIES, TLS_CHAIN, TLS_CLIENT_CERTIFICATE};
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use crate::certificate::{digest, parse, time_of};
use crate::identity::Identity;
use crate::provider::provider;
use crate::{pem, roots};

/// Whether a client must show a certificate.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ClientMode {
    /// Without one there is no connection.
    #[default]
    Required,
    /// It may; one that is shown must be good.
    Optional,
}

/// What of a client's certificate those behind are told. Nothing by default.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "a set of four words")]
pub struct Told {
    /// Its subject.
    pub subject: bool,
    /// Its subjectAltNames.
    pub names: bool,
    /// Its SHA-256.
    pub fingerprint: bool,
    /// The whole of it.
    pub certificate: bool,
}

impl Told {
    /// Whether anything is told, were it only that there is no certificate.
    pub fn is_anything(self) -> bool {
        self != Self::default()
    }
}

/// What is asked of clients.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientPolicy {
    /// Default: required.
    pub mode: ClientMode,
    /// Certificates in PEM: who is signed by one of them is believed.
    pub authorities: Arc<[u8]>,
    /// Lists of revoked certificates, files in PEM. With any, each certificate of a chain but the authority's needs
    /// one.
    pub revocations: Vec<Arc<[u8]>>,
    /// Whether certificates are taken for good that no list says anything about; default no.
    pub allow_unknown: bool,
    /// What those behind are told.
    pub told: Told,
}

/// Why clients cannot be asked for certificates like this.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ClientAuthError {
    /// The file of authorities, and what it is or holds.
    Authorities(String),
    /// A file of revocations by its position, and what it is or holds.
    Revocations(usize, String),
}

impl fmt::Display for ClientAuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Authorities(why) | Self::Revocations(_, why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for ClientAuthError {}

/// An authority whose signature makes a client's certificate good.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Authority {
    /// Its distinguished name.
    pub subject: String,
    /// From when on it is valid.
    pub not_before: SystemTime,
    /// Until when.
    pub not_after: SystemTime,
}

/// A list of revoked certificates.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Revocations {
    /// The position of its file.
    pub file: usize,
    /// The distinguished name of the issuer.
    pub issuer: String,
    /// Until when it holds. After that the clients of this issuer are refused.
    pub next_update: SystemTime,
}

/// What is asked of clients, with the files read. Equal when the policies are.
pub struct ClientAuth {
    mode: ClientMode,
    allow_unknown: bool,
    told: Told,
    authorities: Vec<Authority>,
    revocations: Vec<Revocations>,
    digests: Digests,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// SHA-256 of what it was made of.
struct Digests {
    authorities: [u8; 32],
    revocations: [u8; 32],
    whole: [u8; 32],
}

impl ClientAuth {
    /// Reads the files.
    pub fn new(policy: ClientPolicy) -> Result<Self, ClientAuthError> {
        let roots = roots::of_pem(&policy.authorities);
        let (roots, _) =
            roots.map_err(|why| ClientAuthError::Authorities(format!("cannot be used: {why}")))?;
        let authorities = authorities(&policy.authorities)?;
        let (mut lists, mut revocations) = (Vec::new(), Vec::new());
        for (file, pem) in policy.revocations.iter().enumerate() {
            let found = pem::revocations(pem).map_err(|why| ClientAuthError::Revocations(file, why))?;
            for der in &found {
                revocations.push(list(file, der).map_err(|why| ClientAuthError::Revocations(file, why))?);
            }
            lists.push(found);
        }
        let build = |lists: Vec<CertificateRevocationListDer<'static>>| {
            let provider = provider(&[], &[]);
            let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider)
                .with_crls(lists)
                .enforce_revocation_expiration();
            if policy.allow_unknown {
                builder = builder.allow_unknown_revocation_status();
            }
            if policy.mode == ClientMode::Optional {
                builder = builder.allow_unauthenticated();
            }
            let names: usize = roots.subjects().iter().map(|name| name.as_ref().len() + 2).sum();
            if names > TLS_AUTHORITIES {
                // They are hints, and there is no room for so many: clients choose by themselves.
                builder = builder.clear_root_hint_subjects();
            }
            builder.build()
        };
        // One by one, so that it is known which of them cannot be used.
        for (file, lists) in lists.iter().enumerate() {
            build(lists.clone())
                .map_err(|why| ClientAuthError::Revocations(file, format!("cannot be used: {why}")))?;
        }
        let verifier = build(lists.concat());
        let verifier =
            verifier.map_err(|why| ClientAuthError::Authorities(format!("cannot be used: {why}")))?;
        let (verifier, digests) = (Arc::new(Verifier(verifier)), Digests::of(&policy));
        let ClientPolicy { mode, allow_unknown, told, .. } = policy;
        Ok(Self { mode, allow_unknown, told, authorities, revocations, digests, verifier })
    }

    /// Whether a client must show a certificate.
    pub fn mode(&self) -> ClientMode {
        self.mode
    }

    /// Whether certificates are taken for good that no list says anything about.
    pub fn allows_unknown(&self) -> bool {
        self.allow_unknown
    }

    /// What those behind are told.
    pub fn told(&self) -> Told {
        self.told
    }

    /// The authorities, in the order of the file.
    pub fn authorities(&self) -> &[Authority] {
        &self.authorities
    }

    /// The lists of revoked certificates, in the order of the files.
    pub fn revocations(&self) -> &[Revocations] {
        &self.revocations
    }

    /// SHA-256 of all that decides who is let in and what is told of them.
    pub fn digest(&self) -> [u8; 32] {
        self.digests.whole
    }

    /// SHA-256 of the file of authorities.
    pub fn authorities_digest(&self) -> [u8; 32] {
        self.digests.authorities
    }

    /// SHA-256 of the files of revocations, in their order.
    pub fn revocations_digest(&self) -> [u8; 32] {
        self.digests.revocations
    }

    /// For rustls.
    pub(crate) fn verifier(&self) -> &Arc<dyn ClientCertVerifier> {
        &self.verifier
    }
}

impl PartialEq for ClientAuth {
    fn eq(&self, other: &Self) -> bool {
        self.digests.whole == other.digests.whole
    }
}

impl Eq for ClientAuth {}

impl fmt::Debug for ClientAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ClientAuth");
        shown.field("mode", &self.mode).field("authorities", &self.authorities);
        shown.field("revocations", &self.revocations).field("told", &self.told).finish_non_exhaustive()
    }
}

fn authorities(pem: &[u8]) -> Result<Vec<Authority>, ClientAuthError> {
    let mut authorities = Vec::new();
    // Read before, by another reader.
    for (at, der) in (1..).zip(CertificateDer::pem_slice_iter(pem)) {
        let bad = |why: String| {
            ClientAuthError::Authorities(format!(
                "has a certificate (number {at}) that cannot be read: {why}"
            ))
        };
        let der = der.map_err(|_| bad("it is not PEM".to_owned()))?;
        let parsed = parse(&der).map_err(bad)?;
        authorities.push(Authority {
            subject: parsed.subject().to_string(),
            not_before: time_of(parsed.validity().not_before),
            not_after: time_of(parsed.validity().not_after),
        });
    }
    Ok(authorities)
}

fn list(file: usize, der: &CertificateRevocationListDer<'_>) -> Result<Revocations, String> {
    let Ok(([], parsed)) = CertificateRevocationList::from_der(der) else {
        return Err("has a list of revoked certificates that cannot be read".to_owned());
    };
    let next = parsed.next_update().ok_or("has a list that does not say until when it holds (nextUpdate)")?;
    Ok(Revocations { file, issuer: parsed.issuer().to_string(), next_update: time_of(next) })
}

impl Digests {
    fn of(policy: &ClientPolicy) -> Self {
        let ClientPolicy { mode, authorities, revocations, allow_unknown, told } = policy;
        let authorities = digest([&authorities[..]]);
        // Of each its digest, so that it matters where one file ends and the next begins.
        let files: Vec<_> = revocations.iter().map(|file| digest([&file[..]])).collect();
        let revocations = digest(files.iter().map(<[u8; 32]>::as_slice));
        let words = format!("{mode:?} {allow_unknown} {told:?}");
        let whole = digest([&authorities[..], &revocations, words.as_bytes()]);
        Self { authorities, revocations, whole }
    }
}

/// webpki's verifier, with bounds before it, and behind it the reader of what those behind are told: who cannot be
/// named is not let in.
#[derive(Debug)]
struct Verifier(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Verifier {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if chain.len() >= TLS_CHAIN {
            return Err(refused("its chain is too long"));
        }
        if leaf.len() > TLS_CLIENT_CERTIFICATE {
            return Err(refused("it is too large"));
        }
        let verified = self.0.verify_client_cert(leaf, chain, now).map_err(|why| match why {
            // Signed by somebody who has only the name of an authority.
            Error::InvalidCertificate(CertificateError::BadSignature) => {
                CertificateError::UnknownIssuer.into()
            }
            // A list that cannot be believed says nothing.
            Error::InvalidCertRevocationList(_) => CertificateError::UnknownRevocationStatus.into(),
            why => why,
        })?;
        match Identity::read(leaf) {
            Some(_) => Ok(verified),
            None => Err(CertificateError::BadEncoding.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, leaf, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, leaf, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

fn refused(why: &'static str) -> Error {
    CertificateError::Other(rustls::OtherError(Arc::new(io::Error::other(why)))).into()
}

#[cfg(test)]
mod tests;
