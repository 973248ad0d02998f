//! The event stream of a running proxy's admin API, read to the letter of its guide (docs/guide/events.md).

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Proxy, STEP, machine_time};

/// An event, and when it was read here.
#[derive(Clone, Debug)]
pub struct Told {
    /// Its number.
    pub id: u64,
    /// Its kind.
    pub kind: String,
    /// All of it.
    pub data: Value,
    /// When it was read.
    pub at: Instant,
}

impl Told {
    /// The URL of the endpoint that it is about; empty where it is about none.
    pub fn endpoint(&self) -> &str {
        self.data["endpoint"].as_str().unwrap_or_default()
    }

    /// Why.
    pub fn cause(&self) -> &str {
        self.data["cause"].as_str().unwrap_or_default()
    }
}

#[derive(Debug, Default)]
struct Shared {
    told: Mutex<(Vec<Told>, Option<String>)>,
    news: Condvar,
}

/// All events of a proxy since its start.
#[derive(Debug)]
pub struct EventStream {
    shared: Arc<Shared>,
    stream: UnixStream,
}

impl EventStream {
    /// Begins to read them.
    ///
    /// # Panics
    /// When the admin API does not answer with a stream.
    pub fn of(proxy: &Proxy) -> Self {
        let (mut reader, stream) = open(proxy, "/api/v1/events?since=0");
        // A comment comes after 15 s of silence, which nobody waits for: a stream ends with its proxy or with this.
        stream.set_read_timeout(None).unwrap();
        let shared = Arc::new(Shared::default());
        let for_reader = Arc::clone(&shared);
        thread::spawn(move || {
            let end = listen(&mut reader, &for_reader);
            let end = end.err().unwrap_or_else(|| "the stream has ended".to_owned());
            for_reader.told.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(end);
            for_reader.news.notify_all();
        });
        Self { shared, stream }
    }

    /// All events until now.
    pub fn all(&self) -> Vec<Told> {
        self.shared.told.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Waits for an event behind the first `skip` ones, of this kind and about this endpoint; `None` when none comes
    /// in this time of the machine.
    ///
    /// # Panics
    /// When the stream ends, or was not what the guide says.
    pub fn wait(&self, skip: usize, kind: &str, endpoint: &str, limit: Duration) -> Option<Told> {
        let begun = machine_time();
        let mut guard = self.shared.told.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut later = guard.0.iter().skip(skip);
            if let Some(found) = later.find(|told| told.kind == kind && told.endpoint() == endpoint) {
                return Some(found.clone());
            }
            assert!(guard.1.is_none(), "the event stream: {:?}", guard.1);
            let left = limit.checked_sub(machine_time() - begun)?;
            guard = self.shared.news.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// What an event stream says, without the chunked coding.
pub(crate) type Lines = BufReader<Chunks<BufReader<UnixStream>>>;

/// Asks for an event stream; each read is given [`STEP`].
///
/// # Panics
/// When the admin API does not answer with one.
pub(crate) fn open(proxy: &Proxy, path: &str) -> (Lines, UnixStream) {
    let socket = proxy.directory().join("run/thalweg/admin.sock");
    let stream = UnixStream::connect(&socket).unwrap_or_else(|error| panic!("{}: {error}", socket.display()));
    stream.set_read_timeout(Some(STEP)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    (&stream).write_all(request.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "the stream ends within its head: {head}");
    }
    let lower = head.to_ascii_lowercase();
    assert!(lower.starts_with("http/1.1 200 ") && lower.contains("text/event-stream"), "{head}");
    assert!(lower.contains("transfer-encoding: chunked"), "{head}");
    (BufReader::new(Chunks { inner: reader, left: 0 }), stream)
}

fn listen(reader: &mut impl BufRead, shared: &Shared) -> Result<(), String> {
    let (mut id, mut kind, mut data) = (None, String::new(), String::new());
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line).map_err(|error| error.to_string())? == 0 {
            return Ok(());
        }
        let line = line.trim_end_matches(['\r', '\n']);
        if !line.is_empty() {
            let (field, value) = line.split_once(':').ok_or_else(|| format!("not a field: {line:?}"))?;
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                // A comment.
                "" => {}
                "id" => id = Some(value.parse().map_err(|_| format!("not an id: {value:?}"))?),
                "event" => value.clone_into(&mut kind),
                "data" => value.clone_into(&mut data),
                _ => return Err(format!("an unknown field: {line:?}")),
            }
            continue;
        }
        if data.is_empty() {
            continue;
        }
        let id = id.take().ok_or_else(|| format!("no id: {kind} {data}"))?;
        let data = serde_json::from_str(&std::mem::take(&mut data)).map_err(|error| error.to_string())?;
        let told = Told { id, kind: std::mem::take(&mut kind), data, at: Instant::now() };
        shared.told.lock().unwrap_or_else(PoisonError::into_inner).0.push(told);
        shared.news.notify_all();
    }
}

/// A chunked body, decoded.
pub(crate) struct Chunks<R> {
    inner: R,
    left: usize,
}

impl<R: BufRead> Read for Chunks<R> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            let mut line = String::new();
            self.inner.read_line(&mut line)?;
            let Ok(len) = usize::from_str_radix(line.trim_end(), 16) else { return Ok(0) };
            if len == 0 {
                return Ok(0);
            }
            self.left = len;
        }
        let most = bytes.len().min(self.left);
        let len = self.inner.read(&mut bytes[..most])?;
        self.left -= len;
        if self.left == 0 {
            let mut end = String::new();
            self.inner.read_line(&mut end)?;
        }
        Ok(len)
    }
}
