//! The client of a transcript that is performed over HTTP/2: the requests of its text become streams, and what comes
//! back becomes text again, `HTTP/1.1 STATUS`, fields with names in lower case, and the body as it is.
//!
//! The protocol is spoken by the crate `h2`, on a thread of its own. Responses are told in the order of the requests.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use bytes::Bytes;
use h2::client::{self, ResponseFuture};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request};
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_rustls::TlsConnector;

use super::OWN_TO_HTTP1;
use super::pattern::Chunked;
use crate::connection::Event;
use crate::message::{Kind, find};
use crate::{Message, STEP};

/// What the thread is asked for.
enum Order {
    /// A request without its body; whether one follows.
    Head(Request<()>, bool),
    /// A piece of the body of the last request; whether it is the last one.
    Data(Vec<u8>, bool),
}

/// What the thread tells of the response to one request.
enum Told {
    Bytes(Vec<u8>),
    /// It has ended as it should, or was broken off.
    End(Result<(), String>),
}

/// What of the last request has not been sent.
enum Body {
    Whole,
    Length(usize),
    Chunks,
}

/// Fields of a request that HTTP/2 does not have (RFC 9113 §8.2.2), and `Host`, which is its authority.
const NOT_IN_HTTP2: [&str; 6] =
    ["host", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// A connection.
pub(super) struct Http2 {
    /// Of the response that is told.
    pub(super) chunked: Chunked,
    /// The transcript expects that a response breaks off.
    pub(super) was_closed: bool,
    scheme: &'static str,
    orders: Option<UnboundedSender<Order>>,
    /// One for each request whose response was not told to its end.
    answers: VecDeque<UnboundedReceiver<Told>>,
    began: UnboundedReceiver<UnboundedReceiver<Told>>,
    thread: Option<JoinHandle<()>>,
    /// Bytes of a request that has no end yet.
    unsent: Vec<u8>,
    body: Body,
    seen: Vec<u8>,
    /// How a response was broken off.
    broken: Option<String>,
}

impl Http2 {
    /// Connects, through TLS where there is a configuration of it.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn open(address: SocketAddr, secure: Option<ClientConfig>) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, STEP)?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let (orders, queue) = unbounded_channel();
        let (begins, began) = unbounded_channel();
        let scheme = if secure.is_some() { "https" } else { "http" };
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(speak(stream, secure, queue, begins));
        });
        Ok(Self {
            chunked: Chunked::default(),
            was_closed: false,
            scheme,
            orders: Some(orders),
            answers: VecDeque::new(),
            began,
            thread: Some(thread),
            unsent: Vec::new(),
            body: Body::Whole,
            seen: Vec::new(),
            broken: None,
        })
    }

    /// Sends what is whole of these bytes of HTTP/1.1.
    ///
    /// # Errors
    /// Why they are no well-formed request.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.unsent.extend_from_slice(bytes);
        while !self.unsent.is_empty() {
            let moved = match self.body {
                Body::Whole => self.send_head()?,
                Body::Length(left) => {
                    let data: Vec<u8> = self.unsent.drain(..left.min(self.unsent.len())).collect();
                    let left = left - data.len();
                    self.body = if left == 0 { Body::Whole } else { Body::Length(left) };
                    self.order(Order::Data(data, left == 0));
                    true
                }
                Body::Chunks => self.send_chunk()?,
            };
            if !moved {
                break;
            }
        }
        Ok(())
    }

    fn send_head(&mut self) -> Result<bool, String> {
        let Some(end) = find(&self.unsent, b"\r\n\r\n") else { return Ok(false) };
        let head: Vec<u8> = self.unsent.drain(..end + 4).collect();
        let parsed = Message::parse(&head, Kind::ResponseToHead, false)?;
        let (message, _) = parsed.ok_or("no head")?;
        let words: Vec<&str> = message.start.split(' ').collect();
        let [method, target, "HTTP/1.1"] = words[..] else {
            return Err(format!("{:?} is no request line of HTTP/1.1", message.start));
        };
        let host = message.value("host").ok_or("no Host")?;
        let mut request = Request::builder().method(method).uri(format!("{}://{host}{target}", self.scheme));
        for (name, value) in &message.fields {
            let name = name.to_lowercase();
            if !NOT_IN_HTTP2.contains(&&*name) {
                request = request.header(name, value);
            }
        }
        self.body = match message.value("content-length") {
            _ if message.value("transfer-encoding").is_some() => Body::Chunks,
            None | Some("0") => Body::Whole,
            Some(digits) => Body::Length(digits.parse().map_err(|_| format!("length {digits:?}"))?),
        };
        let request = request.body(()).map_err(|error| format!("no request of HTTP/2: {error}"))?;
        self.order(Order::Head(request, !matches!(self.body, Body::Whole)));
        let answer = self.began.blocking_recv().ok_or("the connection has ended")?;
        self.answers.push_back(answer);
        Ok(true)
    }

    fn send_chunk(&mut self) -> Result<bool, String> {
        let Some(line) = find(&self.unsent, b"\r\n") else { return Ok(false) };
        let digits = String::from_utf8_lossy(&self.unsent[..line]).into_owned();
        let length = usize::from_str_radix(&digits, 16).map_err(|_| format!("chunk size {digits:?}"))?;
        if self.unsent.len() < line + 2 + length + 2 {
            return Ok(false);
        }
        let data = self.unsent[line + 2..][..length].to_vec();
        self.unsent.drain(..line + 2 + length + 2);
        if length == 0 {
            self.body = Body::Whole;
        }
        self.order(Order::Data(data, length == 0));
        Ok(true)
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            let _ = orders.send(order);
        }
    }

    /// What was received and not taken yet.
    pub(super) fn seen(&self) -> &[u8] {
        &self.seen
    }

    /// Takes the first `len` bytes of what was received.
    pub(super) fn take(&mut self, len: usize) {
        self.seen.drain(..len);
    }

    /// Waits until `deadline` for something to happen. [`Event::End`]: no request is without its whole response.
    pub(super) fn read(&mut self, deadline: Instant) -> Event {
        loop {
            if self.broken.is_some() {
                return Event::Reset;
            }
            let Some(answer) = self.answers.front_mut() else { return Event::End };
            match answer.try_recv() {
                Ok(Told::Bytes(bytes)) => {
                    self.seen.extend_from_slice(&bytes);
                    return Event::Bytes;
                }
                Ok(Told::End(Ok(()))) => drop(self.answers.pop_front()),
                Ok(Told::End(Err(reason))) => self.broken = Some(reason),
                Err(_) if answer.is_closed() && answer.is_empty() => {
                    self.broken = Some("the connection has ended".to_owned());
                }
                Err(_) if Instant::now() >= deadline => return Event::Late,
                // The thread of the stage polls its other peers the same way.
                Err(_) => thread::sleep(std::time::Duration::from_millis(1)),
            }
        }
    }

    /// How a response was broken off, if one was.
    pub(super) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }
}

impl Drop for Http2 {
    /// Ends the connection; what is under way is given up.
    fn drop(&mut self) {
        self.orders = None;
        self.answers.clear();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn speak(
    stream: TcpStream,
    secure: Option<ClientConfig>,
    queue: UnboundedReceiver<Order>,
    begins: UnboundedSender<UnboundedReceiver<Told>>,
) {
    let stream = tokio::net::TcpStream::from_std(stream).unwrap();
    let Some(mut config) = secure else { return converse(stream, queue, begins).await };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = "example.test".try_into().unwrap();
    if let Ok(stream) = TlsConnector::from(std::sync::Arc::new(config)).connect(name, stream).await {
        converse(stream, queue, begins).await;
    }
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    mut queue: UnboundedReceiver<Order>,
    begins: UnboundedSender<UnboundedReceiver<Told>>,
) {
    let Ok((mut client, connection)) = client::handshake(stream).await else { return };
    let connection = tokio::spawn(connection);
    let mut body: Option<SendStream<Bytes>> = None;
    while let Some(order) = queue.recv().await {
        match order {
            Order::Head(request, has_body) => {
                let Ok(ready) = client.ready().await else { return };
                client = ready;
                let Ok((response, stream)) = client.send_request(request, !has_body) else { return };
                let (tell, told) = unbounded_channel();
                tokio::spawn(listen(response, tell));
                body = has_body.then_some(stream);
                let _ = begins.send(told);
            }
            Order::Data(bytes, is_last) => {
                // An error shows on the side of the response.
                let _ = body.as_mut().map(|body| body.send_data(bytes.into(), is_last));
            }
        }
    }
    drop((client, body));
    connection.abort();
}

/// Tells of a response from its head to its end.
async fn listen(response: ResponseFuture, tell: UnboundedSender<Told>) {
    let end = match response.await {
        Err(error) => Err(error.to_string()),
        Ok(response) => {
            let (head, body) = response.into_parts();
            let mut text = format!("HTTP/1.1 {}\r\n", head.status.as_u16()).into_bytes();
            text.extend(lines(&head.headers));
            let _ = tell.send(Told::Bytes(text));
            relay(body, &tell).await.map_err(|error| error.to_string())
        }
    };
    let _ = tell.send(Told::End(end));
}

async fn relay(mut body: RecvStream, tell: &UnboundedSender<Told>) -> Result<(), h2::Error> {
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        if !data.is_empty() {
            let _ = tell.send(Told::Bytes(data.to_vec()));
        }
    }
    if let Some(trailers) = body.trailers().await? {
        let _ = tell.send(Told::Bytes(lines(&trailers)));
    }
    Ok(())
}

/// Fields as lines, those left out that each version has in its own way, and the empty line behind them.
fn lines(fields: &HeaderMap) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in fields.iter().filter(|(name, _)| !OWN_TO_HTTP1.contains(&name.as_str())) {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    text
}
