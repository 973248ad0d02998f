//! A server that speaks HTTP, for fakes of registries: one thread per connection, one request on each.

use super::gate::Gate;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What it says while it is garbled: HTTP whose body nobody can understand.
pub(crate) const NONSENSE: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{\"a\": [}\n";

/// A request.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) method: String,
    /// Without the query.
    pub(crate) path: String,
    /// Decoded.
    pub(crate) parameters: Vec<(String, String)>,
    /// Lower-case names.
    pub(crate) fields: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Ask {
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A response.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) body: String,
    pub(crate) more: Option<More>,
}

/// What comes after the body, piece by piece, until there is `None`. It is asked often, and must not wait.
pub(crate) struct More(pub(crate) Box<dyn FnMut() -> Option<String> + Send>);

impl std::fmt::Debug for More {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("More")
    }
}

impl Reply {
    pub(crate) fn json(body: impl Into<String>) -> Self {
        Self::of(200, body)
    }

    pub(crate) fn of(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            fields: vec![("content-type", "application/json".to_owned())],
            body: body.into(),
            more: None,
        }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.fields.push((name, value.to_string()));
        self
    }
}

/// The server, behind a gate. Dropping it ends it.
pub(crate) struct HttpFake {
    pub(crate) gate: Gate,
    server: SocketAddr,
    is_over: Arc<AtomicBool>,
}

impl HttpFake {
    /// `answer` may wait, if not for long after its registry is gone.
    pub(crate) fn start(answer: impl Fn(&Ask) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let (answer, is_over) = (Arc::new(answer), Arc::new(AtomicBool::new(false)));
        let over = is_over.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let answer = answer.clone();
                std::thread::spawn(move || serve(&stream, &*answer));
            }
        });
        Self { gate: Gate::before(server, NONSENSE), server, is_over }
    }

    /// `http://127.0.0.1:PORT`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.gate.address())
    }
}

impl Drop for HttpFake {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // The one that waits for connections sees it.
        let _ = TcpStream::connect(self.server);
    }
}

fn serve(stream: &TcpStream, answer: &impl Fn(&Ask) -> Reply) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(30)));
    let Some(ask) = ask(stream) else { return };
    let reply = answer(&ask);
    let mut head = format!("HTTP/1.1 {} X\r\nconnection: close\r\n", reply.status);
    for (name, value) in &reply.fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if reply.status != 204 && reply.status != 304 && reply.more.is_none() {
        head.push_str(&format!("content-length: {}\r\n", reply.body.len()));
    }
    let _ = (&mut &*stream).write_all(format!("{head}\r\n{}", reply.body).as_bytes());
    if let Some(More(mut next)) = reply.more {
        let _ = stream.set_read_timeout(Some(Duration::from_millis(10)));
        // Nothing more is said to the server; the end is.
        while !matches!((&mut &*stream).read(&mut [0]), Ok(0)) {
            let Some(piece) = next() else { return };
            if (&mut &*stream).write_all(piece.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn ask(stream: &TcpStream) -> Option<Ask> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut fields = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        fields.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = fields.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let parameters = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let parameters = parameters.map(|(name, value)| (decoded(name), decoded(value))).collect();
    let body = String::from_utf8(body).ok()?;
    Some(Ask { method, path: decoded(path), parameters, fields, body })
}

/// The text of percent-encoding.
pub(crate) fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits: String = rest.by_ref().take(2).map(char::from).collect();
            bytes.push(u8::from_str_radix(&digits, 16).unwrap());
        } else {
            bytes.push(if byte == b'+' { b' ' } else { byte });
        }
    }
    String::from_utf8(bytes).unwrap()
}
