//! Part of phase 1, through TLS: a request must be for a host that its connection was made for (RFC 9110 §15.5.20).
//!
//! Who a client is was decided by the name in its handshake. A request on the same connection for another host is only
//! answered where that name would have led to the same: to the same certificate, and to the same that is asked of
//! clients. So clients may use one connection for all hosts of a certificate (RFC 9113 §9.1.1), and cannot go around what is asked
//! of one host by naming another one first. Nearly all requests are for the name itself: that is one comparison.

use crate::exchange::{Client, Exchange};
use crate::secure::with_session;
use std::net::Ipv4Addr;
use std::sync::Arc;
use thalweg_core::Fault;
use thalweg_tls::{Acceptor, ClientAuth};

/// Refuses a request for a host that its connection was not made for.
///
/// # Errors
/// 421.
pub(crate) fn check_direction(client: &Client, x: &Exchange) -> Result<(), Fault> {
    let host = x.host();
    let is_misdirected = with_session(&client.socket, |session| {
        if session.name().is_some_and(|name| name.as_bytes() == host) {
            return false;
        }
        let met = Met { name: session.name(), asked: session.client_auth() };
        // What the listener asks now: a connection outlives reloads. One that does not shake hands any more asks nothing.
        client.door().tls().is_some_and(|tls| met.is_wrong_for(&tls.acceptor, host))
    });
    match is_misdirected {
        Some(true) => Err(Fault::request(421, "the connection was made for another host")),
        _ => Ok(()),
    }
}

/// What a connection was made with.
struct Met<'a> {
    /// The name that the client asked for.
    name: Option<&'a str>,
    /// What it was asked for.
    asked: Option<&'a Arc<ClientAuth>>,
}

impl Met<'_> {
    fn is_wrong_for(&self, acceptor: &Acceptor, host: &[u8]) -> bool {
        let host = name_in(host);
        let Some(certificate) = acceptor.choose(host) else { return true };
        if acceptor.client_auth(host) != self.asked {
            return true;
        }
        // Who named nobody, as clients do that go by an address, was shown the first certificate and has not minded.
        let names = self.name.zip(host);
        names.is_some_and(|(name, _)| acceptor.choose(Some(name)) != Some(certificate))
    }
}

/// The host as a handshake could name it: not where it is an address, or none.
fn name_in(host: &[u8]) -> Option<&str> {
    let host = std::str::from_utf8(host).ok()?;
    let is_name = !host.is_empty() && !host.starts_with('[') && host.parse::<Ipv4Addr>().is_err();
    is_name.then_some(host)
}
