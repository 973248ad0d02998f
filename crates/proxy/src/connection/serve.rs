//! A conversation: exchanges on one client connection, until it falls silent or ends.

use crate::connection::stream::serve_stream;
use crate::exchange::drain::drain;
use crate::exchange::local_reply::reply_fault;
use crate::exchange::outcome::Next;
use crate::exchange::record::record;
use crate::exchange::subrequest::serve_subrequest;
use crate::h2;
use crate::l4::tcp;
use crate::listener::proxy_protocol;
use crate::plan::{ListenerProtocol, ListenerTls};
use crate::relay::inner;
use crate::serve::serve;
use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use crate::tls::handshake::{self, Shaken, shake_hands};
use crate::tls::layer::facts;
use std::future::poll_fn;
use std::task::Poll;
use thalweg_tls::Refused;

/// Pipelined requests served before other connections get their turn.
const EXCHANGES_PER_TURN: u32 = 32;

/// Serves what the client asks, then parks its connection or closes it.
pub(crate) async fn serve_connection(worker: &Worker, mut client: Client, x: &mut Exchange) {
    if inner(&client.socket).is_some() {
        return serve_subrequest(worker, client, x).await;
    }
    if client.socket.substream().is_some() {
        return serve_stream(worker, client, x).await;
    }
    let mut announced = None;
    if let Some(policy) = proxy_protocol::due(&client) {
        match proxy_protocol::hear(worker, &mut client, &policy, x).await {
            Ok(destination) => announced = destination,
            Err(proxy_protocol::Over) => {
                worker.clear_slow(x);
                return x.leave();
            }
        }
    }
    if let Some(tls) = handshake::due(&client)
        && !secure(worker, &mut client, &tls, x).await
    {
        x.received.clear();
        worker.clear_slow(x);
        return x.leave();
    }
    if client.listener().protocol() != ListenerProtocol::Http {
        // Its requests are not for those who get connections: a reload has changed what is spoken here.
        if client.requests > 0 {
            return x.leave();
        }
        return tcp::serve(worker, client, x, announced).await;
    }
    if client.requests == 0 && speaks_http2(worker, &client, x).await {
        worker.clear_slow(x);
        worker.open_session(client, std::mem::take(&mut x.received));
        return x.leave();
    }
    let mut turns = 0;
    loop {
        turns += 1;
        if turns % EXCHANGES_PER_TURN == 0 {
            give_way().await;
        }
        match serve(worker, &mut client, x).await {
            Next::Again if x.received.len() > x.consumed || client.socket.is_readable() => {}
            Next::Again => {
                worker.park(client);
                break;
            }
            Next::Drain => {
                // The answer was whole: whatever closes the connection now may say so.
                client.socket.rest(true);
                let all_read = x.request.len > 0 && x.upward.is_received() && x.received.len() == x.consumed;
                if !all_read || (client.socket.is_readable() && !client.socket.peer_closed()) {
                    worker.mark_slow(&client, x, 0);
                    drain(worker, &client).await;
                }
                break;
            }
            Next::Close => break,
            Next::Tunnel(switched) => {
                worker.clear_slow(x);
                worker.open_tunnel(client, x, *switched);
                break;
            }
        }
    }
    worker.clear_slow(x);
    x.downward.release_buffers(&worker.warm.buffers);
    x.leave();
}

/// Shakes hands with a client before its first request. When that fails it is told, and its connection is over.
async fn secure(worker: &Worker, client: &mut Client, tls: &ListenerTls, x: &mut Exchange) -> bool {
    match shake_hands(worker, client, tls, x).await {
        Shaken::Hands => return true,
        Shaken::Refused(Refused::Gone) => {}
        Shaken::Checked => {
            client.socket.rest(true);
            drain(worker, client).await;
        }
        Shaken::Refused(_) => {
            worker.mark_slow(client, x, 0);
            drain(worker, client).await;
        }
        Shaken::Plain(fault) => {
            x.id = Some(worker.next_id());
            (x.client_ip, x.trusted_peer, x.is_secure) = (client.peer, false, false);
            reply_fault(worker, client, x, fault).await;
            record(worker, client, x);
            worker.mark_slow(client, x, 0);
            drain(worker, client).await;
        }
    }
    false
}

/// Whether a client whose first request has not come speaks HTTP/2: what TLS has agreed on, or else its first bytes,
/// say so.
async fn speaks_http2(worker: &Worker, client: &Client, x: &mut Exchange) -> bool {
    if client.socket.is_layered() {
        return facts(&client.socket).is_some_and(|facts| facts.alpn.as_deref() == Some(b"h2"));
    }
    client.listener().speaks_h2c() && h2::begins(worker, client, x).await
}

/// Goes on in the worker's next turn.
async fn give_way() {
    let mut given = false;
    poll_fn(|context| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
