//! Phase 0, on a listener with TLS: the handshake of a new client, before its first request.
//!
//! Nothing is kept for a client but the bytes that it has sent until its ClientHello is whole; then it gets a session.
//! What is not TLS is told so in plain words where it speaks HTTP, and else with an alert.

use crate::plan::ListenerTls;
use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use crate::tls::layer::{Secured, facts, failure};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::Poll;
use thalweg_core::Fault;
use thalweg_tls::hello::{self, Hello, Read};
use thalweg_tls::{OnDemand, Refused, Session, Version};

/// Received at once while a ClientHello is awaited: any real one.
const AT_ONCE: usize = 16 * 1024;

/// How a handshake ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shaken {
    /// Requests may follow.
    Hands,
    /// Nothing follows: the client is an authority that has seen what it looked for (RFC 8737 §3).
    Checked,
    /// An answer in plain HTTP is due: this fault.
    Plain(Fault),
    /// The client has been told, as far as it can be.
    Refused(Refused),
}

/// What a client has to shake hands on; `None`: it need not (any more).
pub(crate) fn due(client: &Client) -> Option<Arc<ListenerTls>> {
    if client.requests > 0 || !client.socket.is_plain() { None } else { client.listener().tls() }
}

/// Counts which version was agreed on.
fn count_version(client: &Client, shaken: &Shaken) {
    let version = facts(&client.socket).and_then(|facts| facts.version);
    let at = match (shaken, version) {
        (Shaken::Hands, Some(Version::Tls12)) => 0,
        (Shaken::Hands, Some(Version::Tls13)) => 1,
        _ => return,
    };
    client.listener().meters.tls_versions[at].add(1);
}

/// Shakes hands with a client.
pub(crate) async fn shake_hands(
    worker: &Worker,
    client: &mut Client,
    tls: &ListenerTls,
    x: &mut Exchange,
) -> Shaken {
    x.begin(worker.reactor.now());
    client.socket.set_deadline(Some(tls.handshake_timeout));
    let read = match poll_fn(|_| poll_hello(worker, client, x, hello::read)).await {
        Ok(hello) => await_certificate(worker, client, (tls, &hello), x).await,
        Err(refused) => Err(refused),
    };
    let shaken = match read {
        Ok(()) => {
            let under_way = worker.handshakes.enter(&worker.reactor, client.socket.id()).await;
            match Session::accept(&tls.acceptor) {
                Ok(session) => {
                    let secured = Secured::counted(session, &worker.shared.loads, worker.id);
                    client.socket.push_layer(Box::new(secured), &x.received);
                    x.received.clear();
                    match shake(worker, client, x).await {
                        Shaken::Refused(Refused::Time) if under_way.is_replaced() => {
                            Shaken::Refused(Refused::Limit)
                        }
                        shaken => shaken,
                    }
                }
                Err(failure) => tell(client, failure.kind()),
            }
        }
        Err(refused) => tell(client, refused),
    };
    count_version(client, &shaken);
    client.listener().meters.count_handshake(match shaken {
        Shaken::Hands if facts(&client.socket).is_some_and(|facts| facts.resumed) => "resumed",
        Shaken::Hands | Shaken::Checked => "full",
        Shaken::Plain(_) => Refused::PlainHttp.name(),
        Shaken::Refused(refused) => refused.name(),
    });
    worker.clear_slow(x);
    client.socket.set_deadline(None);
    shaken
}

/// Receives until the ClientHello is whole, as `read` sees it.
pub(crate) fn poll_hello(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    read: fn(&[u8]) -> Read,
) -> Poll<Result<Hello, Refused>> {
    loop {
        match read(&x.received) {
            Read::Hello(hello) => return Poll::Ready(Ok(hello)),
            Read::Refused(refused) => return Poll::Ready(Err(refused)),
            Read::Incomplete => {}
        }
        let mut scratch = worker.scratch.borrow_mut();
        match client.socket.poll_recv(&mut scratch[..AT_ONCE]) {
            Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Err(Refused::Gone)),
            Poll::Ready(Ok(n)) => x.received.extend_from_slice(&scratch[..n]),
            Poll::Pending if client.socket.expired() => return Poll::Ready(Err(Refused::Time)),
            Poll::Pending => {
                worker.mark_slow(client, x, x.received.len() as u64);
                return Poll::Pending;
            }
        }
    }
}

/// Waits for the certificate of the name that the client asks for, where it is asked for on demand: in the time that a
/// handshake has, without a session.
async fn await_certificate(
    worker: &Worker,
    client: &Client,
    (tls, hello): (&ListenerTls, &Hello),
    x: &mut Exchange,
) -> Result<(), Refused> {
    let mut waited = None;
    let done = poll_fn(|context| match tls.acceptor.want(hello, worker.reactor.now(), context.waker()) {
        None | Some(OnDemand::There) => Poll::Ready(Ok(())),
        Some(OnDemand::Refused) => Poll::Ready(Err(Refused::UnknownName)),
        Some(OnDemand::Waits) if client.socket.expired() => Poll::Ready(Err(Refused::Time)),
        Some(OnDemand::Waits) if client.socket.is_gone() => Poll::Ready(Err(Refused::Gone)),
        Some(OnDemand::Waits) => {
            waited.get_or_insert_with(|| context.waker().clone());
            worker.mark_slow(client, x, 0);
            Poll::Pending
        }
    })
    .await;
    if let (Some(waker), Err(_)) = (waited, done) {
        tls.acceptor.give_up(hello, &waker);
    }
    done
}

async fn shake(worker: &Worker, client: &Client, x: &mut Exchange) -> Shaken {
    let handshakes = &worker.handshakes;
    let shaken = loop {
        handshakes.take_turn().await;
        // Pending but for the time: a flight of the client has been read, or there is none yet.
        if let Poll::Ready(shaken) = handshakes.step(|| client.socket.poll_handshake()) {
            break shaken;
        }
        worker.mark_slow(client, x, 0);
        if !event(client).await {
            break Err(io::ErrorKind::TimedOut.into());
        }
    };
    match shaken {
        Ok(()) if facts(&client.socket).is_some_and(|facts| facts.is_check()) => Shaken::Checked,
        Ok(()) => Shaken::Hands,
        Err(error) => Shaken::Refused(match failure(&error) {
            Some(failure) => failure.kind(),
            None if error.kind() == io::ErrorKind::TimedOut => Refused::Time,
            None => Refused::Gone,
        }),
    }
}

/// Waits for the next event of the socket; `false`: the time is over.
async fn event(client: &Client) -> bool {
    let mut called = false;
    poll_fn(|_| {
        if client.socket.expired() {
            return Poll::Ready(false);
        }
        if std::mem::replace(&mut called, true) { Poll::Ready(true) } else { Poll::Pending }
    })
    .await
}

/// Tells a client for whom there is no session why.
fn tell(client: &Client, refused: Refused) -> Shaken {
    match refused {
        Refused::PlainHttp => {
            return Shaken::Plain(Fault::request(400, "a plain HTTP request came to a port that speaks TLS"));
        }
        Refused::Time | Refused::Gone => return Shaken::Refused(refused),
        _ => {}
    }
    let alert = refused.alert();
    let _ = client.socket.poll_send(&[IoSlice::new(&alert)]);
    Shaken::Refused(refused)
}
