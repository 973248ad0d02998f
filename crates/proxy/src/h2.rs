//! HTTP/2 (RFC 9113): the engine of the `h2` crate on a worker's own loop.
//!
//! A connection with a client is a session; each of its streams is the client end of an exchange like any other, in a
//! task of its own. Heads are translated to lines and back at the very edge (`heads.rs`), so that routing, filters,
//! limits, retries and the log know nothing of versions. Nothing is spawned: the engine is polled when its socket has
//! an event, or when a stream has said something.
//!
//! A connection with an endpoint is a multiplexed connection (`client_connection.rs`), and each of its streams the
//! other end of an exchange (`client_stream.rs`).

mod body;
mod client_connection;
mod client_stream;
mod closing;
mod connections;
mod guarded;
mod heads;
mod inlet;
mod io;
mod server_connection;
mod server_stream;
mod shared;
pub(crate) mod websocket;

pub(crate) use client_connection::Terms;
pub(crate) use client_stream::{Call, RESET, UNSAYABLE, call};
pub(crate) use connections::Connections;
pub(crate) use server_stream::{Stream, stream};

use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use std::future::poll_fn;
use std::task::Poll;
use thalweg_core::{Fault, FaultKind};
use thalweg_http::{Framing, Method, Upgrade};

/// Received at once while the preface is awaited.
const AT_ONCE: usize = 16 * 1024;

/// What a client that speaks HTTP/2 begins with (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Whether a client's first bytes are the preface of HTTP/2; they stay in `x.received`.
pub(crate) async fn begins(worker: &Worker, client: &Client, x: &mut Exchange) -> bool {
    x.begin(worker.reactor.now());
    client.socket.set_deadline(Some(worker.view_for(client).plan.client_timeouts.head));
    poll_fn(|_| {
        loop {
            if x.received.len() >= PREFACE.len() || !PREFACE.starts_with(&x.received) {
                return Poll::Ready(x.received.starts_with(PREFACE));
            }
            let mut scratch = worker.scratch.borrow_mut();
            match client.socket.poll_recv(&mut scratch[..AT_ONCE]) {
                Poll::Ready(Ok(n @ 1..)) => x.received.extend_from_slice(&scratch[..n]),
                // What there is of it is for who looks for a request.
                Poll::Ready(_) => return Poll::Ready(false),
                Poll::Pending if client.socket.expired() => return Poll::Ready(false),
                Poll::Pending => {
                    worker.mark_slow(client, x, x.received.len() as u64);
                    return Poll::Pending;
                }
            }
        }
    })
    .await
}

/// Whether the first bytes of a connection are a request line of HTTP/1, right or wrong, or its beginning, since a line
/// is refused at its first wrong byte: it names a method, a path or a version, and is not the beginning of [`PREFACE`].
/// Empty lines may stand before it; how many are tolerated is decided where it is read.
pub(crate) fn has_request_line(received: &[u8]) -> bool {
    let begin = received.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(received.len());
    let line = received[begin..].split(|byte| *byte == b'\n').next().unwrap_or_default();
    let has = |word: &[u8]| line.windows(word.len()).any(|window| window == word);
    let method = line.iter().position(|byte| *byte == b' ').map(|end| Method::from_bytes(&line[..end]));
    let is_method = method.is_some_and(|method| method != Method::Other);
    !line.starts_with(b"PRI ") && (is_method || has(b" /") || has(b"HTTP/"))
}

/// Takes the head that a stream began with; what it must look like is checked as for any request.
///
/// # Errors
/// 400, 414 and 431; `http_request_aborted` for a stream that has been reset.
pub(crate) fn receive_head(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    of: &Stream,
) -> Result<(), Fault> {
    let Some((request, is_whole)) = of.take_request() else {
        return Err(Fault::request(400, "a stream without a request"));
    };
    if of.has_fragment() {
        return Err(Fault::request(400, "a fragment in the request target"));
    }
    x.head_limits = worker.view_for(client).head_limits;
    heads::receive(&request, x)?;
    websocket::strip_key(x);
    x.framing = match x.request.method {
        // What comes on it belongs to the protocol that it is to be switched to.
        _ if x.upgrade == Upgrade::WebSocket => Framing::Empty,
        _ if !is_whole => Framing::UntilClose,
        Method::Post | Method::Put | Method::Patch => Framing::Length(0),
        _ => Framing::Empty,
    };
    // Rapid resets come in the same bytes as what they reset: nothing of it is to reach an endpoint.
    if client.socket.is_gone() {
        return Err(Fault::new(FaultKind::ClientGone, "the client reset the stream at once"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_faulty_request_line_is_one_and_a_faulty_preface_is_none() {
        for line in [
            "GET / HTTP/1.1\r\n",
            "GET  ",
            "GET  / HTTP/1.1",
            "GET /a b HTTP/1.1",
            "GET /",
            "g\0t x HTTP/9",
            "\tGET / \r\n",
            "\r\nGET / HTTP/1.1\r\n",
            "\r\n\r\nGET / HTTP/1.1\r\n",
            "\nGET / HTTP/1.1\r\n",
        ] {
            assert!(has_request_line(line.as_bytes()), "{line}");
        }
        for line in [
            "",
            "PRI * HTTP/2.0\r\n\r\nXX",
            "INVALID CONNECTION PREFACE\r\n\r\n",
            "\u{16}\u{3}\u{1}",
            "x\nGET / HTTP/1.1",
        ] {
            assert!(!has_request_line(line.as_bytes()), "{line}");
        }
    }
}
