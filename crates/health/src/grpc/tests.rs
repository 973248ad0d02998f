//! What is said and read, and servers made by hand.

use super::*;
use crate::probe::{Network, Probe};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use thalweg_upstream::{Check, HealthPolicy, PeerAddress};
use tokio::net::{TcpListener, TcpStream};

const LONG: Duration = Duration::from_secs(20);
const SERVES: &[u8] = &[0, 0, 0, 0, 2, NUMBER, 1];

fn target(address: PeerAddress, service: &str) -> Target {
    let check = Check::Grpc { service: service.into() };
    let policy = HealthPolicy { check, timeout: LONG, ..HealthPolicy::default() };
    Target {
        address,
        authority: "shop.test:50051".into(),
        tls: None,
        speaks_http2: false,
        policy: Arc::new(policy),
    }
}

#[test]
fn a_name_is_the_only_field() {
    assert_eq!(&message("")[..], [0; 5]);
    assert_eq!(&message("a.B")[..], b"\0\0\0\0\x05\x0a\x03a.B");
    let long = "x".repeat(200);
    assert_eq!(&message(&long)[..8], [0, 0, 0, 0, 203, TEXT, 0xc8, 1]);
}

#[test]
fn only_one_whole_message_with_a_known_number_is_read() {
    assert_eq!(said(SERVES), Some(SERVING));
    assert_eq!(said(&[0; 5]), Some(0));
    for broken in [
        &[][..],
        &[0, 0, 0, 0],
        &[1, 0, 0, 0, 2, NUMBER, 1],
        &[0, 0, 0, 0, 2, NUMBER],
        &[0, 0, 0, 0, 2, NUMBER, 1, 0],
        &[0, 0, 0, 0, 2, NUMBER, 4],
        &[0, 0, 0, 0, 2, TEXT, 1],
        &[0, 0, 0, 0, 3, NUMBER, 0x81, 0],
        &[0, 0, 0, 0, 4, NUMBER, 2, NUMBER, 1],
    ] {
        assert_eq!(said(broken), None, "{broken:?}");
    }
}

/// What a server does with the one call that it gets.
#[derive(Clone, Copy)]
struct Script {
    status: u16,
    media_type: &'static str,
    /// The status in the head.
    head: Option<&'static str>,
    body: &'static [u8],
    /// The status in the trailers.
    end: Option<&'static str>,
}

const WELL: Script =
    Script { status: 200, media_type: "application/grpc+proto", head: None, body: SERVES, end: Some("0") };

/// Serves one call; gives its path, authority and message.
async fn serve(listener: TcpListener, script: Script) -> (String, String, Vec<u8>) {
    let (stream, _) = listener.accept().await.unwrap();
    let mut connection = ::h2::server::handshake(stream).await.unwrap();
    let (request, mut respond) = connection.accept().await.unwrap().unwrap();
    let drive = async move { while connection.accept().await.is_some() {} };
    let answer = async move {
        let uri = request.uri().clone();
        assert_eq!(request.method(), Method::POST);
        assert_eq!(request.headers()["te"], "trailers");
        let mut incoming = request.into_body();
        let mut asked = Vec::new();
        while let Some(piece) = incoming.data().await {
            asked.extend_from_slice(&piece.unwrap());
        }
        let mut head = hyper::http::Response::builder().status(script.status);
        head = head.header("content-type", script.media_type);
        if let Some(code) = script.head {
            head = head.header("grpc-status", code);
        }
        let is_all = script.body.is_empty() && script.end.is_none();
        let mut send = respond.send_response(head.body(()).unwrap(), is_all).unwrap();
        if !is_all {
            send.send_data(Bytes::from_static(script.body), script.end.is_none()).unwrap();
        }
        if let Some(code) = script.end {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", code.parse().unwrap());
            send.send_trailers(trailers).unwrap();
        }
        (uri.path().to_owned(), uri.authority().unwrap().to_string(), asked)
    };
    let (seen, ()) = tokio::join!(answer, drive);
    seen
}

async fn listen() -> (TcpListener, PeerAddress) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = PeerAddress::Tcp(listener.local_addr().unwrap());
    (listener, address)
}

async fn asked(script: Script) -> Outcome {
    let (listener, address) = listen().await;
    tokio::join!(Network.ask(target(address, "")), serve(listener, script)).0
}

fn failed(why: &str) -> Outcome {
    Outcome::Failed(why.into())
}

#[tokio::test]
async fn who_serves_passes_and_is_asked_as_grpc_wants_it() {
    let (listener, address) = listen().await;
    let (outcome, seen) = tokio::join!(Network.ask(target(address, "shop.Cart")), serve(listener, WELL));
    assert_eq!(outcome, Outcome::Passed("SERVING".into()));
    let (path, authority, asked) = seen;
    assert_eq!((&*path, &*authority), ("/grpc.health.v1.Health/Check", "shop.test:50051"));
    assert_eq!(asked, b"\0\0\0\0\x0b\x0a\x09shop.Cart");
}

#[tokio::test]
async fn whoever_says_anything_else_fails() {
    let trailers_only =
        |code| Script { head: Some(code), body: &[], end: None, media_type: "application/grpc", ..WELL };
    for (script, why) in [
        (Script { body: &[0, 0, 0, 0, 2, NUMBER, 2], ..WELL }, "NOT_SERVING"),
        (Script { body: &[0, 0, 0, 0, 2, NUMBER, 3], ..WELL }, "SERVICE_UNKNOWN"),
        (Script { body: &[0; 5], ..WELL }, "UNKNOWN"),
        (trailers_only("12"), "the call ended with unimplemented"),
        (trailers_only("5"), "the call ended with not_found"),
        (trailers_only("99"), "the call ended with unknown"),
        (Script { end: Some("14"), ..WELL }, "the call ended with unavailable"),
        (Script { end: None, ..WELL }, "the call ended without a status"),
        (Script { end: Some("+0"), ..WELL }, "the call ended without a status"),
        (Script { body: &[], ..WELL }, "the answer is not one of grpc.health.v1"),
        (Script { body: &[0; 4096], ..WELL }, "the call ended without a status"),
        (Script { status: 503, ..WELL }, "status 503"),
        (Script { media_type: "text/html", ..WELL }, "the answer is not gRPC"),
    ] {
        assert_eq!(asked(script).await, failed(why));
    }
}

/// What a server that does not speak HTTP/2 makes of the check.
async fn beside<F: Future<Output = ()>>(server: impl FnOnce(TcpStream) -> F) -> Outcome {
    let (listener, address) = listen().await;
    let endpoint = async {
        let (stream, _) = listener.accept().await.unwrap();
        server(stream).await;
    };
    tokio::join!(Network.ask(target(address, "")), endpoint).0
}

#[tokio::test]
async fn who_speaks_something_else_fails() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let http1 = beside(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n").await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    assert_eq!(http1.await, failed("what it speaks is not HTTP/2"));
    let gone = beside(|mut stream| async move {
        // Read, so that it is an end and no reset.
        let _ = stream.read(&mut [0; 1024]).await;
    });
    assert!(matches!(gone.await, Outcome::Failed(_)));
}

#[tokio::test]
async fn the_connection_ends_in_good_order() {
    let (listener, address) = listen().await;
    let server = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = ::h2::server::handshake(stream).await.unwrap();
        let (_, mut respond) = connection.accept().await.unwrap().unwrap();
        let head = hyper::http::Response::builder().header("content-type", "application/grpc");
        respond.send_response(head.header("grpc-status", "12").body(()).unwrap(), true).unwrap();
        // No error: a farewell.
        let end = connection.accept().await;
        assert!(
            end.is_none_or(|next| next.is_err_and(|error| error.reason() == Some(::h2::Reason::NO_ERROR)))
        );
    };
    let (outcome, ()) = tokio::join!(Network.ask(target(address, "")), server);
    assert_eq!(outcome, failed("the call ended with unimplemented"));
}
