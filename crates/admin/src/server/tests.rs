//! The admin thread from outside: through its unix socket and its TCP ports.

mod access;
mod audit;
mod bodies;
mod config;
mod endpoints;
mod explain;
mod listeners;
mod requests;
mod sample;
mod sealed;
mod session;
mod table;
mod tap;
mod tls;

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::*;
use crate::client::{Answer, Target, call};
use crate::socket::tests::Folder;
pub(super) use sample::Sample;

/// A running admin thread with all three listeners.
pub(super) struct Running {
    pub(super) sample: Arc<Sample>,
    pub(super) handle: Option<Handle>,
    folder: Folder,
}

impl Running {
    pub(super) fn start(token: Option<&str>) -> Self {
        Self::start_with(token, None)
    }

    /// The same; the admin listener may have TLS.
    fn start_with(token: Option<&str>, tls: Option<Arc<AdminTls>>) -> Self {
        let folder = Folder::new();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let options = AdminOptions {
            socket: folder.0.join("run/admin.sock"),
            address: Some(any),
            token: token.map(|token| Token::new(token).unwrap()),
            read_token: Some(Token::new("reader").unwrap()),
            state_dir: folder.0.join("state"),
            tls,
            names: vec!["Admin.Example.com".into()],
            metrics_address: Some(any),
            serves_itself: true,
            ..AdminOptions::default()
        };
        let sample = Arc::new(Sample::default());
        let handle = start(options, Arc::clone(&sample) as Arc<dyn Control>).expect("starts");
        Self { sample, handle: Some(handle), folder }
    }

    fn handle(&self) -> &Handle {
        self.handle.as_ref().expect("runs")
    }

    pub(super) fn addresses(&self) -> &Addresses {
        self.handle().addresses()
    }

    fn unix(&self, method: &str, path: &str) -> Answer {
        call(&Target::Socket(self.addresses().socket.clone()), None, method, path).expect("an answer")
    }

    fn admin(&self, token: Option<&str>, method: &str, path: &str) -> Answer {
        let token = token.map(|token| Token::new(token).unwrap());
        let target = Target::Tcp(self.addresses().admin.unwrap().to_string());
        call(&target, token.as_ref(), method, path).expect("an answer")
    }

    fn metrics(&self, method: &str, path: &str) -> Answer {
        let target = Target::Tcp(self.addresses().metrics.unwrap().to_string());
        call(&target, None, method, path).expect("an answer")
    }

    /// Sends a request with the write token to the admin listener. `fields` end with a line feed each.
    pub(super) fn send(&self, line: &str, fields: &str, body: &str) -> Raw {
        self.send_as("secret", line, fields, body)
    }

    fn send_as(&self, token: &str, line: &str, fields: &str, body: &str) -> Raw {
        let length = body.len();
        let fields = fields.replace('\n', "\r\n");
        Raw::parse(&self.raw(&format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n{fields}\r\n{body}"
        )))
    }

    /// Sends a JSON body.
    fn json(&self, line: &str, body: &str) -> Raw {
        self.send(line, "Content-Type: application/json\n", body)
    }

    /// Sends bytes to the admin listener and reads the answer to its end.
    fn raw(&self, request: &str) -> String {
        exchange(TcpStream::connect(self.addresses().admin.unwrap()).unwrap(), request)
    }

    /// The same without a token on the unix socket.
    fn raw_unix(&self, line: &str) -> Raw {
        let stream = UnixStream::connect(&self.addresses().socket).unwrap();
        Raw::parse(&exchange(
            stream,
            &format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
        ))
    }
}

/// Sends bytes and reads the answer to its end; of an event stream, which has none, the head.
fn exchange(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut answer = String::new();
    while !answer.ends_with("\r\n\r\n") && reader.read_line(&mut answer).unwrap() > 0 {}
    if !answer.contains("content-type: text/event-stream\r\n") {
        reader.read_to_string(&mut answer).unwrap();
    }
    answer
}

/// An answer with its fields.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) status: u16,
    head: String,
    body: String,
}

impl Raw {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| line.split_once(": ").filter(|(found, _)| *found == name))
            .map(|(_, v)| v)
    }

    fn etag(&self) -> &str {
        self.field("etag").expect("an etag")
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

fn json(answer: &Answer) -> serde_json::Value {
    serde_json::from_slice(&answer.body).expect("JSON")
}
