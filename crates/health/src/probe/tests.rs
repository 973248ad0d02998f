//! Real sockets.

use super::*;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thalweg_upstream::{HealthPolicy, Statuses};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, UnixListener};

/// Longer than anything here takes; what is to time out says less.
const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(50);

fn target(address: PeerAddress, check: Check, timeout: Duration) -> Target {
    let policy = HealthPolicy { check, timeout, ..HealthPolicy::default() };
    Target {
        address,
        authority: "localhost".into(),
        tls: None,
        speaks_http2: false,
        policy: Arc::new(policy),
    }
}

fn get() -> Check {
    Check::Http {
        path: "/".into(),
        method: "GET".into(),
        headers: Vec::new(),
        expect: Statuses::new(vec![200..=399]),
        body: None,
    }
}

async fn listen() -> (TcpListener, PeerAddress) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = PeerAddress::Tcp(listener.local_addr().unwrap());
    (listener, address)
}

async fn asked(target: Target) -> Outcome {
    Network.ask(target).await
}

fn failed(why: &str) -> Outcome {
    Outcome::Failed(why.into())
}

#[tokio::test]
async fn a_listener_passes_and_is_left_without_a_reset() {
    let (listener, address) = listen().await;
    assert_eq!(asked(target(address, Check::Tcp, LONG)).await, Outcome::Passed("connected".into()));
    let (mut stream, _) = listener.accept().await.unwrap();
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
}

#[tokio::test]
async fn who_does_not_listen_refuses() {
    // Bound and not listening: nobody else can get the port.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = PeerAddress::Tcp(socket.local_addr().unwrap());
    for check in [Check::Tcp, get()] {
        assert_eq!(asked(target(address.clone(), check, LONG)).await, failed("connection refused"));
    }
}

#[tokio::test]
async fn who_accepts_and_says_nothing_times_out() {
    let (_listener, address) = listen().await;
    assert_eq!(asked(target(address, get(), SHORT)).await, failed("timed out after 50ms"));
}

#[tokio::test]
async fn a_small_response_is_read_to_its_end_so_that_the_endpoint_sees_no_reset() {
    let (listener, address) = listen().await;
    let endpoint = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
        }
        let body = "x".repeat(30_000);
        let head = format!("HTTP/1.1 500 Oops\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        stream.read(&mut [0; 1]).await.unwrap()
    };
    let (outcome, end) = tokio::join!(asked(target(address, get(), LONG)), endpoint);
    assert_eq!(outcome, failed("status 500"));
    assert_eq!(end, 0, "closed, not reset");
}

#[tokio::test]
async fn who_resets_fails() {
    let (listener, address) = listen().await;
    let endpoint = async {
        // Closed with a request unread: the kernel resets.
        let (stream, _) = listener.accept().await.unwrap();
        stream.peek(&mut [0; 1]).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(asked(target(address, get(), LONG)), endpoint);
    assert_eq!(outcome, failed("connection reset"));
}

#[tokio::test]
async fn the_port_of_the_policy_is_asked() {
    let (listener, address) = listen().await;
    let (_other, elsewhere) = listen().await;
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let PeerAddress::Tcp(elsewhere) = elsewhere else { unreachable!() };
    let policy = HealthPolicy { port: Some(elsewhere.port()), timeout: LONG, ..HealthPolicy::default() };
    let wanted = Target { policy: Arc::new(policy), ..target(address, Check::Tcp, LONG) };
    assert_ne!(port, elsewhere.port());
    assert_eq!(asked(wanted).await, Outcome::Passed("connected".into()));
}

/// A socket file that goes when the test does.
struct SocketFile(PathBuf);

impl SocketFile {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("thalweg-health-{}-{name}.sock", std::process::id())))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn unix_sockets_are_asked_too() {
    let file = SocketFile::new("asked");
    let address = PeerAddress::Unix(Arc::new(file.0.clone()));
    assert_eq!(asked(target(address.clone(), get(), LONG)).await, failed("no such socket file"));
    let listener = UnixListener::bind(&file.0).unwrap();
    let endpoint = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.readable().await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        stream
    };
    let (outcome, _stream) = tokio::join!(asked(target(address.clone(), get(), LONG)), endpoint);
    assert_eq!(outcome, Outcome::Passed("status 200".into()));
    drop(listener);
    assert_eq!(asked(target(address, Check::Tcp, LONG)).await, failed("connection refused"));
}
