//! What the upstream and the log are told of a client's certificate.
//!
//! Made once per connection, from what the handshake has verified, and put into the head of each of its requests by
//! `write_request`. What a client says itself in these fields is taken out of its requests on every listener
//! (`http::rules`); where we tell something, what a trusted proxy says is too.

use crate::state::exchange::{Client, Exchange};
use crate::tls::layer::{Peer, with_peer};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;
use thalweg_http::FieldId;
use thalweg_tls::{Identity, Session, Told};

/// A connection that was asked for a certificate.
#[derive(Debug)]
pub(crate) struct ClientCertFields {
    /// The subject of the certificate, where there is one.
    subject: Option<Arc<str>>,
    /// What it says.
    identity: Option<Arc<Identity>>,
    /// Whole lines of a head.
    fields: Box<[u8]>,
}

impl ClientCertFields {
    /// Those of a connection whose handshake is over; `None`: its client was asked for nothing.
    pub(crate) fn of(session: &Session) -> Option<Box<Self>> {
        let told = session.client_auth()?.told();
        let identity = session.identity();
        let subject = identity.as_ref().map(Identity::subject).filter(|subject| !subject.is_empty());
        let fields = if told.is_anything() { fields(identity.as_ref(), told) } else { String::new() };
        let (subject, fields) = (subject.map(Arc::from), fields.into_bytes().into());
        Some(Box::new(Self { subject, identity: identity.map(Arc::new), fields }))
    }
}

/// Takes out of a request what somebody else says in our fields: of what we have seen ourselves nobody else tells,
/// trusted or not.
pub(crate) fn strip_client_cert_fields(client: &Client, x: &mut Exchange) {
    let are_told =
        |peer: Peer<'_>| peer.credentials.is_some_and(|credentials| !credentials.fields.is_empty());
    if x.request.present.contains(FieldId::ClientCert) && with_peer(&client.socket, are_told) == Some(true) {
        x.request.strip(FieldId::ClientCert);
    }
}

/// Writes the lines of the upstream's head that tell who the client is.
pub(crate) fn write_client_cert_fields(out: &mut Vec<u8>, client: &Client) {
    with_peer(&client.socket, |peer| {
        peer.credentials.into_iter().for_each(|credentials| out.extend_from_slice(&credentials.fields));
    });
}

/// The subject of the client's certificate, where it has shown one.
pub(crate) fn subject(client: &Client) -> Option<Arc<str>> {
    with_peer(&client.socket, |peer| peer.credentials?.subject.clone()).flatten()
}

/// The client's certificate, where it has shown one.
pub(crate) fn identity(client: &Client) -> Option<Arc<Identity>> {
    with_peer(&client.socket, |peer| peer.credentials?.identity.clone()).flatten()
}

fn fields(identity: Option<&Identity>, told: Told) -> String {
    let mut lines = String::new();
    let mut line = |name: &str, value: &str| {
        for part in [name, ": ", value, "\r\n"] {
            lines.push_str(part);
        }
    };
    line("X-Client-Cert-Verified", if identity.is_some() { "true" } else { "false" });
    let Some(identity) = identity else { return lines };
    if told.subject && !identity.subject().is_empty() {
        line("X-Client-Cert-Subject", identity.subject());
    }
    if told.names && !identity.names().is_empty() {
        line("X-Client-Cert-San", &identity.names().join(", "));
    }
    if told.fingerprint {
        let digits: String = identity.fingerprint().iter().map(|byte| format!("{byte:02x}")).collect();
        line("X-Client-Cert-Fingerprint", &digits);
    }
    if told.certificate {
        // RFC 9440 §2.1: a byte sequence of RFC 8941 §3.3.5.
        line("Client-Cert", &format!(":{}:", STANDARD.encode(identity.certificate())));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_nobody_only_that_is_told() {
        let told = Told { subject: true, names: true, fingerprint: true, certificate: true };
        assert_eq!(fields(None, told), "X-Client-Cert-Verified: false\r\n");
    }
}
