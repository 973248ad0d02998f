//! Calls to servers in this process: what is sent, what counts as an answer, whom TLS trusts.

use std::time::Instant;

use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use thalweg_http::HttpUrl;

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

fn client() -> HttpClient {
    HttpClient::new(Trust::System)
}

fn trusting(roots: &str) -> HttpClient {
    HttpClient::new(Trust::Only(roots.as_bytes().into()))
}

async fn send(client: &HttpClient, url: &str, bounds: Bounds) -> Result<Response<Bytes>, String> {
    let url = HttpUrl::parse(url).unwrap();
    let request = Request::post(url.target()).header("x-test", "1").body(Bytes::from_static(b"hello"));
    client.send(&(&url).into(), request.unwrap(), bounds).await.map_err(|error| error.to_string())
}

async fn post(client: &HttpClient, url: &str, time: Duration) -> Result<u16, String> {
    send(client, url, Bounds::new(time, 0)).await.map(|response| response.status().as_u16())
}

#[tokio::test]
async fn a_call_is_one_plain_request() {
    let (listener, port) = listener().await;
    let server = async {
        let (stream, _) = listener.accept().await.unwrap();
        answer(stream, "hello", "HTTP/1.1 204 No Content\r\n\r\n").await
    };
    let url = format!("http://localhost:{port}/hook?x=1");
    let sender = client();
    let (request, status) = tokio::join!(server, post(&sender, &url, LONG));
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
        let sender = client();
        let (_, answered) = tokio::join!(server, post(&sender, &url, LONG));
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
        let sender = client();
        let (_, answered) = tokio::join!(server, post(&sender, &url, LONG));
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
    let sender = client();
    let (_, answered) = tokio::join!(server, post(&sender, &url, LONG));
    assert!(answered.expect_err("endless").starts_with("no usable answer"));
}

#[tokio::test]
async fn silence_ends_with_the_time() {
    let (listener, port) = listener().await;
    let begun = Instant::now();
    let time = Duration::from_millis(50);
    let url = format!("http://127.0.0.1:{port}/");
    assert_eq!(post(&client(), &url, time).await, Err("no answer within 50ms".into()));
    assert!(begun.elapsed() >= time);
    drop(listener);
    let error = post(&client(), &url, LONG).await.expect_err("nobody listens");
    assert!(error.starts_with("cannot connect to 127.0.0.1:"), "{error}");
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
    let sender = trusting(&roots);
    let (request, status) = tokio::join!(tls_server(&listener, config), post(&sender, &url, LONG));
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
        let sender = trusting(&roots);
        let server = tls_server(&listener, Arc::clone(&config));
        let (request, answered) = tokio::join!(server, post(&sender, &url, LONG));
        let error = answered.expect_err("not trusted");
        assert!(request.is_none() && error.starts_with("TLS: invalid peer certificate"), "{error}");
    }
}

#[tokio::test]
async fn bodies_of_every_framing_are_read_whole_and_within_their_bound() {
    let (listener, port) = listener().await;
    for (answered, status, body) in [
        ("200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, Ok("hi")),
        ("200 OK\r\n\r\nhi", 200, Ok("hi")),
        ("200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nhi\r\n0\r\n\r\n", 200, Ok("hi")),
        ("204 No Content\r\n\r\n", 204, Ok("")),
        ("200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, Err("the answer is larger than 4 bytes")),
        ("200 OK\r\nContent-Length: 3\r\n\r\nhi", 200, Err("no usable answer")),
        ("200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", 200, Err("no usable answer")),
    ] {
        let server = async {
            let (stream, _) = listener.accept().await.unwrap();
            answer(stream, "hello", &format!("HTTP/1.1 {answered}")).await
        };
        let (url, client) = (format!("http://127.0.0.1:{port}/"), client());
        let (_, got) = tokio::join!(server, send(&client, &url, Bounds::new(LONG, 4)));
        match (got, body) {
            (Ok(got), Ok(body)) => {
                assert_eq!(
                    (got.status().as_u16(), &got.body()[..]),
                    (status, body.as_bytes()),
                    "{answered:?}"
                );
            }
            (Err(got), Err(why)) => assert!(got.starts_with(why), "{answered:?}: {got}"),
            (got, _) => panic!("{answered:?}: {got:?}"),
        }
    }
}

#[tokio::test]
async fn a_body_that_stalls_ends_with_the_silence() {
    let (listener, port) = listener().await;
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nh").await.unwrap();
        stream
    };
    let silence = Duration::from_millis(50);
    let (url, client) = (format!("http://127.0.0.1:{port}/"), client());
    let bounds = Bounds { time: LONG, silence, body: 100 };
    let (_stream, got) = tokio::join!(server, send(&client, &url, bounds));
    assert_eq!(got.unwrap_err(), "no answer within 50ms");
}

#[tokio::test]
async fn a_server_may_answer_and_close_before_it_has_read_the_request() {
    let (client, mut server) = tokio::io::duplex(1024);
    let request = Request::put("/").body(Bytes::from(vec![b'x'; 1024 * 1024])).unwrap();
    let to = Destination::Unix("/".into());
    let refuse = async move {
        let _ = server.read_u8().await.unwrap();
        server.write_all(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno").await.unwrap();
    };
    let bounds = Bounds::new(LONG, 100);
    let request = prepared(&to, request).unwrap();
    let ((), got) = tokio::join!(refuse, exchange(client, request, bounds));
    let got = got.unwrap();
    assert_eq!((got.status().as_u16(), &got.body()[..]), (413, &b"no"[..]));
}

#[tokio::test]
async fn a_body_is_read_as_it_comes() {
    let (listener, port) = listener().await;
    let (say, mut said) = tokio::sync::mpsc::channel::<&str>(1);
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 1024];
        let _ = stream.read(&mut head).await.unwrap();
        while let Some(text) = said.recv().await {
            stream.write_all(text.as_bytes()).await.unwrap();
        }
        stream
    });
    let to = Destination::Tcp { host: "127.0.0.1".into(), port, tls: false };
    say.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await.unwrap();
    let request = Request::builder().uri("/").body(Bytes::new()).unwrap();
    let mut body = client().stream(&to, request, LONG).await.unwrap().into_body();
    for (sent, text) in [("3\r\none\r\n", "one"), ("3\r\ntwo\r\n", "two")] {
        say.send(sent).await.unwrap();
        assert_eq!(body.next().await.unwrap().unwrap(), text);
    }
    say.send("0\r\n\r\n").await.unwrap();
    assert!(body.next().await.unwrap().is_none());
    drop(say);
    drop(server.await.unwrap());
}

#[tokio::test]
async fn a_body_that_breaks_off_or_falls_silent_is_an_error() {
    for is_closed in [true, false] {
        let (listener, port) = listener().await;
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            // What is not read would end the connection with a reset.
            let _ = stream.read(&mut [0; 1024]).await.unwrap();
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfour";
            stream.write_all(head.as_bytes()).await.unwrap();
            (!is_closed).then_some(stream)
        });
        let to = Destination::Tcp { host: "127.0.0.1".into(), port, tls: false };
        let request = Request::builder().uri("/").body(Bytes::new()).unwrap();
        let silence = if is_closed { LONG } else { Duration::from_millis(200) };
        let mut body = client().stream(&to, request, silence).await.unwrap().into_body();
        assert_eq!(body.next().await.unwrap().unwrap(), "four");
        assert!(body.next().await.is_err());
        drop(server.await.unwrap());
    }
}

#[tokio::test]
async fn nothing_is_sent_to_an_address_that_is_kept_off() {
    let kept_off = IpAddr::from([127, 0, 0, 77]);
    crate::keep_off(move |address, is_named| (address.ip() == kept_off && is_named).then_some("the metrics"));
    let listener = TcpListener::bind((kept_off, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let why = post(&client(), &format!("http://127.0.0.77:{port}/"), LONG).await.unwrap_err();
    assert!(why.contains("it is the metrics"), "{why}");
    let to = Destination::Tcp { host: "127.0.0.77".into(), port, tls: false };
    assert!(matches!(client().open(&to, LONG).await, Err(ClientError::Barred(..))));
}
