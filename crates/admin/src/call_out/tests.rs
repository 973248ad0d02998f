//! Calls to servers in this process: what is sent, what counts as an answer, whom TLS trusts.

use std::time::Instant;

use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

/// Long enough never to be reached by what is expected to answer.
const LONG: Duration = Duration::from_secs(30);

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Reads a request with `body` at its end, and answers.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, body: &str, answer: &str) -> String {
    let mut got = Vec::new();
    while !got.ends_with(format!("\r\n\r\n{body}").as_bytes()) {
        assert_ne!(stream.read_buf(&mut got).await.unwrap(), 0, "the request broke off");
    }
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    String::from_utf8(got).unwrap()
}

async fn post(caller: &Caller, url: &str, time: Duration) -> Result<u16, String> {
    let url = HttpUrl::parse(url).unwrap();
    let mut fields = HeaderMap::new();
    fields.insert("x-test", HeaderValue::from_static("1"));
    let call = Call { method: Method::POST, url: &url, fields, body: Bytes::from_static(b"hello") };
    caller.call(call, time).await.map(|status| status.as_u16()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_call_is_one_plain_request() {
    let (listener, port) = listener().await;
    let server = async {
        let (stream, _) = listener.accept().await.unwrap();
        answer(stream, "hello", "HTTP/1.1 204 No Content\r\n\r\n").await
    };
    let url = format!("http://localhost:{port}/hook?x=1");
    let caller = Caller::default();
    let (request, status) = tokio::join!(server, post(&caller, &url, LONG));
    assert_eq!(status, Ok(204));
    let mut lines: Vec<_> = request.trim_end_matches("hello").trim_end().split("\r\n").collect();
    lines[1..].sort_unstable();
    let host = format!("host: localhost:{port}");
    assert_eq!(lines, ["POST /hook?x=1 HTTP/1.1", "content-length: 5", &host, "x-test: 1"]);
}

#[tokio::test]
async fn every_status_is_an_answer_and_redirects_are_not_followed() {
    let (listener, port) = listener().await;
    for status in [200, 301, 307, 404, 500] {
        let elsewhere = format!("HTTP/1.1 {status} X\r\nLocation: http://127.0.0.1:{port}/other\r\n\r\n");
        let server = async {
            let (stream, _) = listener.accept().await.unwrap();
            answer(stream, "hello", &elsewhere).await
        };
        let url = format!("http://127.0.0.1:{port}/");
        let caller = Caller::default();
        let (_, answered) = tokio::join!(server, post(&caller, &url, LONG));
        assert_eq!(answered, Ok(status));
    }
    // A second request would wait here.
    let next = listener.accept();
    tokio::select! { biased; _ = next => panic!("something else was sent"), () = std::future::ready(()) => {} }
}

#[tokio::test]
async fn what_is_no_answer_is_an_error() {
    let (listener, port) = listener().await;
    for bytes in ["", "SSH-2.0-x\r\n\r\n", "HTTP/1.1 200 OK\r\nX", "HTTP/1.1 100 Continue\r\n\r\n"] {
        let server = async {
            let (stream, _) = listener.accept().await.unwrap();
            answer(stream, "hello", bytes).await
        };
        let url = format!("http://127.0.0.1:{port}/");
        let caller = Caller::default();
        let (_, answered) = tokio::join!(server, post(&caller, &url, LONG));
        let error = answered.expect_err(bytes);
        assert!(error.starts_with("no usable answer"), "{bytes:?}: {error}");
    }
}

#[tokio::test]
async fn a_head_without_end_is_an_error() {
    let (listener, port) = listener().await;
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let line = format!("X: {}\r\n", "x".repeat(1000));
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while stream.write_all(line.as_bytes()).await.is_ok() {}
    };
    let url = format!("http://127.0.0.1:{port}/");
    let caller = Caller::default();
    let (_, answered) = tokio::join!(server, post(&caller, &url, LONG));
    assert!(answered.expect_err("endless").starts_with("no usable answer"));
}

#[tokio::test]
async fn silence_ends_with_the_time() {
    let (listener, port) = listener().await;
    let begun = Instant::now();
    let time = Duration::from_millis(50);
    let url = format!("http://127.0.0.1:{port}/");
    assert_eq!(post(&Caller::default(), &url, time).await, Err("no answer within 50ms".into()));
    assert!(begun.elapsed() >= time);
    drop(listener);
    let error = post(&Caller::default(), &url, LONG).await.expect_err("nobody listens");
    assert!(error.starts_with("cannot connect: "), "{error}");
}

/// A server certificate for `localhost`, as a server's configuration and as what is trusted.
fn certificate() -> (Arc<ServerConfig>, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    (Arc::new(config), made.cert.pem())
}

/// Answers one call through TLS, if the handshake succeeds.
async fn tls_server(listener: &TcpListener, config: Arc<ServerConfig>) -> Option<String> {
    let (stream, _) = listener.accept().await.unwrap();
    let stream = TlsAcceptor::from(config).accept(stream).await.ok()?;
    Some(answer(stream, "hello", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await)
}

#[tokio::test]
async fn https_is_answered_by_whom_the_roots_vouch_for() {
    let (config, roots) = certificate();
    let (listener, port) = listener().await;
    let url = format!("https://localhost:{port}/hook");
    let caller = Caller::trusting(&roots);
    let (request, status) = tokio::join!(tls_server(&listener, config), post(&caller, &url, LONG));
    assert_eq!(status, Ok(200));
    assert!(request.is_some_and(|request| request.starts_with("POST /hook HTTP/1.1\r\n")));
}

#[tokio::test]
async fn https_sends_nothing_to_anybody_else() {
    let (config, roots) = certificate();
    let (_, other_roots) = certificate();
    let (listener, port) = listener().await;
    for (url, roots) in [
        (format!("https://localhost:{port}/"), other_roots),
        // The certificate is for the name alone.
        (format!("https://127.0.0.1:{port}/"), roots),
    ] {
        let caller = Caller::trusting(&roots);
        let server = tls_server(&listener, Arc::clone(&config));
        let (request, answered) = tokio::join!(server, post(&caller, &url, LONG));
        let error = answered.expect_err("not trusted");
        assert!(request.is_none() && error.starts_with("TLS: invalid peer certificate"), "{error}");
    }
}
