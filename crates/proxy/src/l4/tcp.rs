//! A connection to a listener that takes no requests (`protocol: tcp` or `tls_passthrough`): a service is found for it,
//! and from then on bytes go both ways.
//!
//! It is an exchange without a head. What it has in common with requests, it shares with them: places and queues, the
//! choice of an endpoint, other endpoints where one does not accept it, the tunnel, the record. The first byte may come
//! from either side. A client for whom there is no endpoint sees its connection end; one that speaks TLS is told by an
//! alert.

use crate::exchange::drain::drain;
use crate::exchange::find_route::find_route_of_connection;
use crate::exchange::outcome::Switched;
use crate::exchange::permits::{Permits, enter};
use crate::exchange::record::record;
use crate::exchange::upstream::connect::Upstream;
use crate::exchange::upstream::forward::forward;
use crate::listener::proxy_protocol::say;
use crate::plan::ListenerProtocol;
use crate::state::admission::Underway;
use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use crate::tls::handshake::poll_hello;
use crate::tls::layer::facts;
use std::future::poll_fn;
use std::io::IoSlice;
use std::net::SocketAddr;
use thalweg_core::{Fault, FaultKind};
use thalweg_tls::{Refused, hello};

/// Has a client's connection served by an endpoint. `announced`: see [`say`].
pub(crate) async fn serve(
    worker: &Worker,
    mut client: Client,
    x: &mut Exchange,
    announced: Option<SocketAddr>,
) {
    // Bytes that have come are what the tunnel begins with.
    x.begin(worker.reactor.now());
    x.is_connection = true;
    x.id = Some(worker.next_id());
    x.client_ip = client.peer;
    x.is_secure =
        client.socket.is_layered() || client.listener().protocol() == ListenerProtocol::TlsPassthrough;
    client.requests = 1;
    if let Some(name) = facts(&client.socket).and_then(|facts| facts.name) {
        x.ask_for(&name);
    }
    let opened = open(worker, &client, x, announced).await;
    worker.clear_slow(x);
    match opened {
        Ok(switched) => worker.open_tunnel(client, x, switched),
        Err(fault) => {
            (x.fault, x.status) = (Some(fault), fault.status);
            record(worker, &client, x);
            // What it has said is read, or the close would be a reset, and destroy an alert.
            if !client.socket.is_gone() {
                client.socket.rest(true);
                worker.mark_slow(&client, x, 0);
                drain(worker, &client).await;
                worker.clear_slow(x);
            }
            x.received.clear();
        }
    }
    x.leave();
}

/// A connection to an endpoint of the service that it is for.
async fn open(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    announced: Option<SocketAddr>,
) -> Result<Switched, Fault> {
    let is_passed = client.listener().protocol() == ListenerProtocol::TlsPassthrough;
    if is_passed {
        // Who has not said that takes no place of those who have.
        await_name(worker, client, x).await?;
    }
    let opened = reach(worker, client, x).await;
    if let (true, Err(fault)) = (is_passed, &opened) {
        let refused = match fault.kind {
            FaultKind::DestinationNotFound => Refused::UnknownName,
            // An internal error: nothing that the client could mend.
            _ => Refused::Limit,
        };
        let _ = client.socket.poll_send(&[IoSlice::new(&refused.alert())]);
    }
    let (underway, places, upstream) = opened?;
    let preface = say(client, x, announced);
    Ok(Switched { upstream, places, underway, preface })
}

async fn reach(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
) -> Result<(Underway, Permits, Upstream), Fault> {
    let underway = worker.take_on(x)?;
    find_route_of_connection(worker, client, x)?;
    let places = enter(worker, client, x).await?;
    let upstream = forward(worker, client, x).await?;
    Ok((underway, places, upstream))
}

/// Reads which name the client asks for; what was read goes to the endpoint, as it came.
async fn await_name(worker: &Worker, client: &Client, x: &mut Exchange) -> Result<(), Fault> {
    let time = worker.view_for(client).plan.client_timeouts.head;
    client.socket.set_deadline(Some(time));
    let hello = poll_fn(|_| poll_hello(worker, client, x, hello::read_any)).await;
    worker.clear_slow(x);
    client.socket.set_deadline(None);
    match hello {
        Ok(hello) => {
            x.ask_for(hello.name.as_deref().unwrap_or_default());
            Ok(())
        }
        Err(refused) => {
            if !matches!(refused, Refused::Time | Refused::Gone) {
                let _ = client.socket.poll_send(&[IoSlice::new(&refused.alert())]);
            }
            Err(match refused {
                Refused::Time => {
                    Fault::new(FaultKind::ClientTimeout, "the first words of TLS did not come in time")
                }
                Refused::Gone => {
                    Fault::new(FaultKind::ClientGone, "the client left before its first words of TLS")
                }
                _ => Fault::request(400, "these are no first words of TLS"),
            })
        }
    }
}
