use super::*;
use ::h2::{client, server};
use ::http::{Request, Response};
use bytes::Bytes;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// Panics within the engine, which wakes while it holds its lock.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a fault of the engine");
    }
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// What an engine gave out of a connection before it panicked: the body of a request, and what answers it.
fn broken_engine() -> (::h2::RecvStream, server::SendResponse<Bytes>) {
    let cx = &mut Context::from_waker(Waker::noop());
    let (near, far) = tokio::io::duplex(64 * 1024);
    let mut opening = pin!(client::handshake(far));
    let Poll::Ready(Ok((mut requests, mut client))) = poll(&mut opening) else { panic!("no client") };
    let request = Request::post("http://a.example/").body(()).unwrap();
    let (_response, mut upload) = requests.send_request(request, false).unwrap();
    let mut opening = pin!(server::handshake(near));
    let mut server = loop {
        let _ = poll(&mut client);
        if let Poll::Ready(server) = poll(&mut opening) {
            break server.unwrap();
        }
    };
    let (request, respond) = loop {
        let _ = poll(&mut client);
        if let Poll::Ready(Some(accepted)) = server.poll_accept(cx) {
            break accepted.unwrap();
        }
    };
    let mut body = request.into_body();
    assert!(body.poll_data(&mut Context::from_waker(&Waker::from(Arc::new(Panics)))).is_pending());
    upload.send_data(Bytes::from_static(b"x"), false).unwrap();
    let panicked = (0..10).any(|_| {
        let _ = poll(&mut client);
        catch_unwind(AssertUnwindSafe(|| server.poll_accept(cx).is_ready())).is_err()
    });
    assert!(panicked, "the engine did not wake within its lock any more");
    (body, respond)
}

#[test]
fn a_broken_engine_ends_no_exchange_that_panics() {
    let (body, mut respond) = broken_engine();
    let engine = RelayError::default();
    let body = Guarded::new(body, &engine);
    let exchange = catch_unwind(AssertUnwindSafe(|| {
        let _body = body;
        panic!("of the exchange");
    }));
    assert!(exchange.is_err() && engine.get(), "the process goes on, and the engine is known to be broken");
    let called = catch_unwind(AssertUnwindSafe(|| respond.send_response(Response::new(()), true).is_ok()));
    assert!(called.is_err(), "it is broken");
    let mut respond = Guarded::new(respond, &engine);
    assert!(respond.get_mut().is_none() && respond.get().is_none());
    // Forgotten.
    drop(respond);
}
