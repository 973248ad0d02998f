//! What filters are told of an exchange, and what of it they may change.

use crate::plan::Route;
use crate::state::exchange::{Client, Exchange, NormalizedSpan};
use crate::state::filtering::Filtering;
use crate::state::worker::Worker;
use crate::tls::client_cert_fields::{identity, subject};
use crate::tls::layer::{facts, with_peer};
use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use thalweg_filter::{Connection, DecoderMemory, Facts};
use thalweg_http::RequestHead;
use thalweg_tls::{Identity, Version};

/// What surrounds an exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings<'a> {
    /// The listener's name.
    pub(crate) listener: &'a str,
    /// The other end of the connection.
    pub(crate) peer: IpAddr,
    /// The time of this turn.
    pub(crate) now: Instant,
    /// The same in seconds since the Unix epoch.
    pub(crate) unix_seconds: u64,
    /// What costs something to know.
    pub(crate) connection: &'a dyn Connection,
    /// Nothing is sent and nothing may be spent.
    pub(crate) is_dry_run: bool,
}

/// A client of a worker.
#[derive(Clone, Copy)]
pub(crate) struct WorkerConnection<'a>(pub(crate) &'a Worker, pub(crate) &'a Client);

impl fmt::Debug for WorkerConnection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.1.peer)
    }
}

impl Connection for WorkerConnection<'_> {
    fn tls_version(&self) -> Option<&'static str> {
        facts(&self.1.socket)?.version.map(Version::name)
    }

    fn tls_server_name(&self) -> Option<String> {
        with_peer(&self.1.socket, |peer| peer.name.map(str::to_owned)).flatten()
    }

    fn client_subject(&self) -> Option<String> {
        subject(self.1).map(|subject| subject.to_string())
    }

    fn client_certificate(&self) -> Option<Arc<Identity>> {
        identity(self.1)
    }

    fn chance(&self) -> u64 {
        self.0.chance() as u64
    }

    fn decoder_memory(&self) -> Option<Rc<DecoderMemory>> {
        Some(self.0.decoders.clone())
    }
}

impl<'a> WorkerConnection<'a> {
    /// What surrounds the client's exchange now.
    pub(crate) fn surroundings(&'a self) -> Surroundings<'a> {
        Surroundings {
            listener: &self.1.listener().state.name,
            peer: self.1.peer,
            now: self.0.reactor.now(),
            unix_seconds: self.0.unix_seconds(),
            connection: self,
            is_dry_run: false,
        }
    }
}

/// What filters may change of an exchange.
pub(crate) struct Changeable<'a> {
    pub(crate) received: &'a [u8],
    pub(crate) request: &'a mut RequestHead,
    pub(crate) filtering: &'a mut Filtering,
}

/// The facts of an exchange that `route` takes, and what may be changed beside them.
pub(crate) fn split<'a>(
    x: &'a mut Exchange,
    route: &'a Route,
    around: &Surroundings<'a>,
) -> (Facts<'a>, Changeable<'a>) {
    let scheme = x.scheme();
    let Exchange { received, request, filtering, path, authority, id, .. } = x;
    let named = Named { received, authority, host_len: x.host_len as usize, is_secure: x.is_secure };
    let facts = Facts {
        method: request.method_text.of(received),
        scheme,
        host: named.host(),
        port: named.port(),
        path: path.of(received),
        readings: path.readings().map(|readings| readings.settle(route.allow_encoded.settles())),
        query: x.target_query.of(received),
        client_ip: x.client_ip,
        peer: around.peer,
        request_id: *id,
        is_trusted: x.trusted_peer,
        listener: around.listener,
        route: &route.name,
        service: x.service.as_ref().map_or("", |local| &local.state.service.name),
        version: request.version,
        patterns: &route.patterns,
        now: around.now,
        unix_seconds: around.unix_seconds,
        connection: around.connection,
        is_dry_run: around.is_dry_run,
    };
    (facts, Changeable { received, request, filtering: filtering.get_or_insert_default() })
}

/// The host and port that a client has named.
struct Named<'a> {
    received: &'a [u8],
    authority: &'a NormalizedSpan,
    host_len: usize,
    is_secure: bool,
}

impl<'a> Named<'a> {
    fn host(&self) -> &'a [u8] {
        self.authority.of(self.received).get(..self.host_len).unwrap_or_default()
    }

    fn port(&self) -> u16 {
        let behind = self.authority.of(self.received).get(self.host_len..).unwrap_or_default();
        let written = behind.strip_prefix(b":").and_then(|port| str::from_utf8(port).ok()?.parse().ok());
        written.unwrap_or(if self.is_secure { 443 } else { 80 })
    }
}
