//! Part of phase 1, through TLS: a request must be for a host that its connection was made for (RFC 9110 §15.5.20).
//!
//! Who a client is was decided by the name in its handshake. A request on the same connection for another host is only
//! answered where that name would have led to the same: to the same certificate, and to the same that is asked of
//! clients. So clients may use one connection for all hosts of a certificate (RFC 9113 §9.1.1), and cannot go around
//! what is asked of one host by naming another one first. Nearly all requests are for the name itself: that is one
//! comparison.

use crate::state::exchange::{Client, Exchange};
use crate::tls::layer::{Peer, with_peer};
use std::net::Ipv4Addr;
use thalweg_core::Fault;
use thalweg_tls::Acceptor;

/// Refuses a request for a host that its connection was not made for.
///
/// # Errors
/// 421; also where nobody knows what the connection was made for.
pub(crate) fn check_authority(client: &Client, x: &Exchange) -> Result<(), Fault> {
    let host = x.host();
    let is_valid_for = with_peer(&client.socket, |peer| {
        if peer.name.is_some_and(|name| name.as_bytes() == host) {
            return true;
        }
        // What the listener asks now: a connection outlives reloads. One that does not shake hands any more asks
        // nothing.
        client.listener().tls().is_none_or(|tls| is_valid_for(peer, &tls.acceptor, host))
    });
    match is_valid_for {
        Some(true) => Ok(()),
        _ => Err(Fault::request(421, "the connection was made for another host")),
    }
}

fn is_valid_for(peer: Peer<'_>, acceptor: &Acceptor, host: &[u8]) -> bool {
    let host = name_in(host);
    let Some(certificate) = acceptor.choose(host) else {
        // Nobody is shown anything for that host: who has named nobody is held to what is asked of such clients. Where
        // a certificate may come for it, what is asked with that is not gone around.
        let may_come = host.is_some_and(|host| acceptor.may_issue(host));
        return peer.name.is_none() && !may_come && acceptor.client_auth(None) == peer.asked;
    };
    if acceptor.client_auth(host) != peer.asked {
        return false;
    }
    // Who named nobody, as clients do that go by an address, was shown the first certificate and has not minded.
    let names = peer.name.zip(host);
    names.is_none_or(|(name, _)| acceptor.choose(Some(name)) == Some(certificate))
}

/// The host as a handshake could name it: not where it is an address, or none.
fn name_in(host: &[u8]) -> Option<&str> {
    let host = std::str::from_utf8(host).ok()?;
    let is_name = !host.is_empty() && !host.starts_with('[') && host.parse::<Ipv4Addr>().is_err();
    is_name.then_some(host)
}
