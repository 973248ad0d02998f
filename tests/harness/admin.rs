//! The admin API as its clients see it: over the unix socket, or over TCP with a token.
//!
//! Every call has a connection of its own, so calls of several threads do not wait for each other.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::message::Kind;
use crate::{Message, Proxy, STEP};

/// Where the API is asked.
#[derive(Clone, Debug)]
enum Door {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// A client of the admin API.
#[derive(Clone, Debug)]
pub struct Admin {
    door: Door,
    token: Option<String>,
}

impl Admin {
    /// The API of `proxy` on its unix socket.
    pub fn of(proxy: &Proxy) -> Self {
        let path = proxy.process().wait_line("the admin socket", STEP, |line| {
            line.strip_prefix("thalweg: admin on unix:").map(PathBuf::from)
        });
        Self { door: Door::Unix(path), token: None }
    }

    /// The API of `proxy` on TCP, with this token, if any; the configuration must have `admin`.
    pub fn on_tcp(proxy: &Proxy, token: Option<&str>) -> Self {
        let address = proxy.process().wait_line("the admin address", STEP, |line| {
            line.strip_prefix("thalweg: admin on ")?.parse().ok()
        });
        Self { door: Door::Tcp(address), token: token.map(str::to_owned) }
    }

    /// Makes one request; `fields` are further fields, each with its line end.
    ///
    /// # Errors
    /// Why there is no answer within [`STEP`].
    pub fn ask(&self, method: &str, path: &str, fields: &str, body: &str) -> Result<Message, String> {
        let length = if body.is_empty() && method == "GET" {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        let head = self.head(method, path, &format!("{length}{fields}Connection: close\r\n"));
        let told = |error: io::Error| format!("{method} {path}: {error}");
        let mut stream = self.connect().map_err(told)?;
        // Who refuses a body may answer before it is there whole.
        let sent = stream.send(format!("{head}{body}").as_bytes());
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).map_err(told)?;
        if bytes.is_empty() {
            sent.map_err(told)?;
        }
        let parsed = Message::parse(&bytes, Kind::Response, true)?;
        parsed.map(|(message, _)| message).ok_or_else(|| format!("{method} {path}: {}", bytes.escape_ascii()))
    }

    /// [`Self::ask`], where there must be an answer. A body is JSON.
    ///
    /// # Panics
    /// When there is none.
    pub fn call(&self, method: &str, path: &str, body: &str) -> Message {
        let fields = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        self.ask(method, path, fields, body).unwrap()
    }

    /// The document at `path`.
    ///
    /// # Panics
    /// When there is none.
    pub fn get(&self, path: &str) -> Value {
        let answer = self.call("GET", path, "");
        assert_eq!(answer.status(), 200, "{path}: {}", answer.text());
        json(&answer)
    }

    /// Everything that is told from now on, and what is kept of before.
    ///
    /// # Panics
    /// When there is no stream.
    pub fn events(&self) -> Events {
        let mut stream = self.connect().unwrap();
        // HTTP/1.0: a body without chunks. The head comes at once, and says that the subscription stands.
        let head = self.head("GET", "/api/v1/events?since=0", "").replacen("HTTP/1.1", "HTTP/1.0", 1);
        stream.send(head.as_bytes()).unwrap();
        let other = stream.another().unwrap();
        let mut reader = BufReader::new(stream);
        let mut status = String::new();
        reader.read_line(&mut status).unwrap();
        assert!(status.contains(" 200 "), "{status}");
        let seen: Arc<(Mutex<Vec<Value>>, Condvar)> = Arc::default();
        let shared = Arc::clone(&seen);
        thread::spawn(move || {
            for line in reader.lines().map_while(Result::ok) {
                let Some(Ok(event)) = line.strip_prefix("data: ").map(serde_json::from_str) else { continue };
                lock(&shared.0).push(event);
                shared.1.notify_all();
            }
        });
        Events { seen, stream: other }
    }

    fn head(&self, method: &str, path: &str, fields: &str) -> String {
        let host = match self.door {
            Door::Unix(_) => "localhost".to_owned(),
            Door::Tcp(address) => address.to_string(),
        };
        let token = self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n"));
        let token = token.unwrap_or_default();
        format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{token}{fields}\r\n")
    }

    fn connect(&self) -> io::Result<Stream> {
        match &self.door {
            Door::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(STEP))?;
                stream.set_write_timeout(Some(STEP))?;
                Ok(Stream::Unix(stream))
            }
            Door::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, STEP)?;
                stream.set_read_timeout(Some(STEP))?;
                stream.set_write_timeout(Some(STEP))?;
                Ok(Stream::Tcp(stream))
            }
        }
    }
}

/// The document that an answer carries.
///
/// # Panics
/// When it is not JSON.
pub fn json(answer: &Message) -> Value {
    serde_json::from_slice(&answer.body)
        .unwrap_or_else(|error| panic!("not JSON ({error}): {} {}", answer.start, answer.text()))
}

/// `text` as one segment of a path.
pub fn segment(text: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(escaped).collect()
}

/// What the event stream has told.
#[derive(Debug)]
pub struct Events {
    seen: Arc<(Mutex<Vec<Value>>, Condvar)>,
    stream: Stream,
}

impl Events {
    /// All until now, in order.
    pub fn all(&self) -> Vec<Value> {
        lock(&self.seen.0).clone()
    }

    /// Waits for an event of this kind about this endpoint; of several, the first.
    ///
    /// # Panics
    /// When there is none within [`STEP`].
    pub fn wait(&self, kind: &str, endpoint: Option<&str>) -> Value {
        let end = Instant::now() + STEP;
        let mut seen = lock(&self.seen.0);
        loop {
            let found =
                seen.iter().find(|event| event["event"] == kind && event["endpoint"].as_str() == endpoint);
            if let Some(found) = found {
                return found.clone();
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no {kind} of {endpoint:?} in {seen:#?}");
            seen = self.seen.1.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // Ends the thread that reads.
        self.stream.shut();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.write_all(bytes),
            Self::Tcp(stream) => stream.write_all(bytes),
        }
    }

    fn another(&self) -> io::Result<Self> {
        match self {
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
        }
    }

    fn shut(&self) {
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(bytes),
            Self::Tcp(stream) => stream.read(bytes),
        }
    }
}
