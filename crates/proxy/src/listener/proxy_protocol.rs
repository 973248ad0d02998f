//! Before a connection begins: another proxy, which the listener trusts with that, says in a few words on whose behalf
//! it connects (the PROXY protocol). From then on that is the client, for everything.
//!
//! And towards endpoints that want to be told: the same words, before the first byte of a connection.

use crate::exchange::record::record;
use crate::listener::access::{DENIED, refusal};
use crate::plan::ProxyProtocolPolicy;
use crate::state::exchange::{Before, Client, Exchange};
use crate::state::worker::Worker;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use thalweg_core::{Fault, FaultKind};
use thalweg_net::proxy_protocol::{Intro, Read, read};
use thalweg_observe::Limit;
use thalweg_upstream::ProxyProtocol;

/// Received at once while the words are awaited: as many as there can be, and what follows.
const AT_ONCE: usize = 16 * 1024;

/// That nothing is known of the client, in both versions.
const UNKNOWN_V1: &[u8] = b"PROXY UNKNOWN\r\n";
const UNKNOWN_V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

/// What is to be said of this client first; `None`: nothing, or it has been.
pub(crate) fn due(client: &Client) -> Option<Arc<ProxyProtocolPolicy>> {
    // Through TLS it would be the client itself that speaks.
    let is_over = client.before == Before::Introduction || client.requests > 0 || !client.socket.is_plain();
    if is_over { None } else { client.listener().introduces(client.peer) }
}

/// Hears who the client is, and to which address it has connected, where that is said. `Err`: the connection is over,
/// and recorded.
pub(crate) async fn hear(
    worker: &Worker,
    client: &mut Client,
    policy: &ProxyProtocolPolicy,
    x: &mut Exchange,
) -> Result<Option<SocketAddr>, Over> {
    x.begin(worker.reactor.now());
    client.before = Before::Introduction;
    let time = worker.view_for(client).plan.client_timeouts.head;
    // Of one that has been silent for all of its time, that is all there is to say.
    if !client.socket.expired() {
        client.socket.set_deadline(Some(time));
    }
    let heard = poll_fn(|_| poll_header(worker, client, x)).await;
    client.socket.set_deadline(None);
    worker.clear_slow(x);
    let fault = match heard {
        Ok(Some(header)) => {
            if let Some((source, _)) = header.addresses {
                (client.peer, client.port) = (source.ip().to_canonical(), source.port());
            }
            x.received.drain(..header.len);
            match refusal(worker, client.listener(), client.peer) {
                None => return Ok(header.addresses.map(|(_, destination)| destination)),
                Some(reason) => deny(worker, client, x, reason),
            }
        }
        Ok(None) if !policy.required => match refusal(worker, client.listener(), client.peer) {
            None => return Ok(None),
            Some(reason) => deny(worker, client, x, reason),
        },
        Ok(None) => Fault::request(400, "the peer did not say on whose behalf it connects (PROXY protocol)"),
        Err(Some(fault)) => fault,
        // Somebody who looks whether we are there.
        Err(None) => return Err(Over),
    };
    x.id = Some(worker.next_id());
    x.is_connection = true;
    (x.client_ip, x.trusted_peer, x.is_secure) = (client.peer, false, false);
    (x.fault, x.status) = (Some(fault), fault.status);
    record(worker, client, x);
    x.received.clear();
    Err(Over)
}

/// The client that another proxy connects for may not connect.
fn deny(worker: &Worker, client: &Client, x: &mut Exchange, reason: String) -> Fault {
    worker.meters.limit(Limit::Access);
    client.listener().meters.refused.add(1);
    x.explain(reason);
    DENIED
}

/// A connection is over before it has begun.
#[derive(Debug)]
pub(crate) struct Over;

/// Where the words end, and the addresses in them.
struct Heard {
    len: usize,
    addresses: Option<(SocketAddr, SocketAddr)>,
}

/// Receives until it is clear what they say; `None`: they are not there. An error without a fault: the peer has said
/// nothing and left.
fn poll_header(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
) -> Poll<Result<Option<Heard>, Option<Fault>>> {
    loop {
        match read(&x.received) {
            Read::Header(header) => {
                let addresses = header.addresses.map(|found| (found.source, found.destination));
                return Poll::Ready(Ok(Some(Heard { len: header.len, addresses })));
            }
            Read::Absent => return Poll::Ready(Ok(None)),
            Read::Malformed(detail) => return Poll::Ready(Err(Some(Fault::request(400, detail)))),
            Read::Incomplete => {}
        }
        let mut scratch = worker.scratch.borrow_mut();
        match client.socket.poll_recv(&mut scratch[..AT_ONCE]) {
            Poll::Ready(Ok(0) | Err(_)) if x.received.is_empty() => return Poll::Ready(Err(None)),
            Poll::Ready(Ok(0) | Err(_)) => {
                let detail = "the peer left before it had said on whose behalf it connects";
                return Poll::Ready(Err(Some(Fault::new(FaultKind::ClientGone, detail))));
            }
            Poll::Ready(Ok(n)) => x.received.extend_from_slice(&scratch[..n]),
            Poll::Pending if client.socket.expired() => {
                let detail = "the peer did not say in time on whose behalf it connects";
                return Poll::Ready(Err(Some(Fault::new(FaultKind::ClientTimeout, detail))));
            }
            Poll::Pending => {
                worker.mark_slow(client, x, x.received.len() as u64);
                return Poll::Pending;
            }
        }
    }
}

/// The words about a client for an endpoint of the exchange's service, where it wants any. `announced`: the address
/// that the client has connected to, if another proxy has said so.
pub(crate) fn say(client: &Client, x: &Exchange, announced: Option<SocketAddr>) -> Vec<u8> {
    let mut words = Vec::new();
    let Some(version) = x.service().and_then(|local| local.state.service.send_proxy_protocol) else {
        return words;
    };
    // A client of a unix socket has no address, and must not be taken for one on the endpoint's own machine.
    let Some(destination) = announced.or_else(|| client.socket.local_address()) else {
        words.extend_from_slice(match version {
            ProxyProtocol::V1 => UNKNOWN_V1,
            ProxyProtocol::V2 => UNKNOWN_V2,
        });
        return words;
    };
    let name = std::str::from_utf8(x.host()).ok().filter(|name| !name.is_empty());
    let intro = Intro {
        source: SocketAddr::new(x.client_ip, client.port),
        destination,
        authority: name,
        alpn: None,
        unique_id: x.id.as_ref().map(|id| id.as_str().as_bytes()),
    };
    match version {
        ProxyProtocol::V1 => intro.write_v1(&mut words),
        ProxyProtocol::V2 => intro.write_v2(&mut words),
    }
    words
}
