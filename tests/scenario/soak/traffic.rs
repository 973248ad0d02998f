//! The clients: a thread for each kind of traffic, visit after visit, until they are told to stop.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thalweg_tests::connection::Event;
use thalweg_tests::h2_frames::{DATA, GOAWAY, request};
use thalweg_tests::message::Kind as Of;
use thalweg_tests::program::run;
use thalweg_tests::talk::chunk;
use thalweg_tests::{Connection, Frames, Identity, Message, Noise, STEP, Talk};

use super::service::{CACHED, LARGE, LARGE_SEED, cached_seed};

/// Exchanges on one connection.
const EXCHANGES: usize = 40;
/// Failures that are told.
const TOLD: usize = 20;

/// Where to ask.
#[derive(Clone)]
pub(super) struct Places {
    pub(super) web: SocketAddr,
    pub(super) secure: SocketAddr,
    /// The program that asks for gRPC, where it could be built.
    pub(super) grpc: Option<PathBuf>,
}

impl Places {
    pub(super) fn has(&self, kind: Kind) -> bool {
        kind != Kind::Grpc || self.grpc.is_some()
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Kind {
    Small,
    Frail,
    Large,
    Upload,
    Events,
    Tunnel,
    Tls,
    Http2,
    Cached,
    Grpc,
}

impl Kind {
    pub(super) const ALL: [Self; 10] = [
        Self::Small,
        Self::Frail,
        Self::Large,
        Self::Upload,
        Self::Events,
        Self::Tunnel,
        Self::Tls,
        Self::Http2,
        Self::Cached,
        Self::Grpc,
    ];

    /// One visit: a connection, or a program, from its start to its end; how many exchanges it made.
    fn visit(self, places: &Places) -> Result<u64, String> {
        match self {
            Self::Small => small(places.web, "a.test"),
            Self::Frail => small(places.web, "frail.test"),
            Self::Large => large(places.web),
            Self::Upload => upload(places.web),
            Self::Events => events(places.web),
            Self::Tunnel => tunnel(places.web),
            Self::Tls => tls(places.secure),
            Self::Http2 => http2(places.web),
            Self::Cached => cached(places.web),
            Self::Grpc => grpc(places),
        }
    }
}

/// What became of the traffic.
pub(super) struct Tally {
    done: BTreeMap<Kind, u64>,
    pub(super) failures: Vec<String>,
}

impl Tally {
    /// Exchanges of this kind.
    pub(super) fn done(&self, kind: Kind) -> u64 {
        self.done.get(&kind).copied().unwrap_or_default()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.done.iter().map(|(kind, done)| format!("{done} {kind:?}")).collect();
        write!(f, "{}; {} failed", parts.join(", "), self.failures.len())
    }
}

#[derive(Default)]
struct Shared {
    stops: AtomicBool,
    done: [AtomicU64; Kind::ALL.len()],
    failures: Mutex<Vec<String>>,
}

/// Clients that run.
pub(super) struct Traffic {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

impl Traffic {
    pub(super) fn start(places: &Places) -> Self {
        let shared = Arc::new(Shared::default());
        let kinds = Kind::ALL.into_iter().enumerate().filter(|(_, kind)| places.has(*kind));
        let clients = kinds.map(|(at, kind)| {
            let (shared, places) = (Arc::clone(&shared), places.clone());
            thread::spawn(move || client((at, kind), &places, &shared))
        });
        Self { clients: clients.collect(), shared }
    }

    /// Lets the clients go on for this time.
    ///
    /// # Panics
    /// When one has failed.
    pub(super) fn go_on(&self, time: Duration) {
        thread::sleep(time);
        let failures = self.shared.failures.lock().unwrap().clone();
        assert!(failures.is_empty(), "{failures:#?}");
    }

    pub(super) fn stop(self) -> Tally {
        self.shared.stops.store(true, Ordering::Relaxed);
        self.clients.into_iter().for_each(|client| client.join().unwrap());
        let done = Kind::ALL.into_iter().zip(&self.shared.done);
        Tally {
            done: done.map(|(kind, done)| (kind, done.load(Ordering::Relaxed))).collect(),
            failures: self.shared.failures.lock().unwrap().clone(),
        }
    }
}

fn client((at, kind): (usize, Kind), places: &Places, shared: &Shared) {
    while !shared.stops.load(Ordering::Relaxed) {
        match kind.visit(places) {
            Ok(done) => {
                shared.done[at].fetch_add(done, Ordering::Relaxed);
            }
            Err(why) => {
                let mut failures = shared.failures.lock().unwrap();
                if failures.len() < TOLD {
                    failures.push(format!("{kind:?}: {why}"));
                }
            }
        }
    }
}

fn told(error: std::io::Error) -> String {
    error.to_string()
}

/// Asks for a path; the head of a 200.
fn ask(talk: &mut Talk, host: &str, path: &str) -> Result<Message, String> {
    talk.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).map_err(told)?;
    let head = talk.head().map_err(|error| format!("{path}: {error}"))?;
    match head.status() {
        200 => Ok(head),
        _ => Err(format!("{path}: {} {:?}", head.start, head.value("proxy-status"))),
    }
}

/// The body of a head is the beginning of a row of bytes.
fn is_row(talk: &mut Talk, head: &Message, (seed, length): (u64, usize)) -> Result<(), String> {
    let (mut noise, mut wrong) = (Noise::new(seed), None);
    let came = talk.body(head).each(|bytes| wrong = wrong.or(noise.check(bytes).err()));
    let came = came.map_err(|error| format!("after {} bytes: {error}", noise.given()))?;
    match wrong {
        None if came == length as u64 => Ok(()),
        wrong => Err(format!("{came} of {length} bytes, the first wrong one {wrong:?}")),
    }
}

fn closes(head: &Message) -> bool {
    head.value("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
}

/// Exchanges on one connection, until the proxy wants to close it.
fn row(
    web: SocketAddr,
    mut exchange: impl FnMut(&mut Talk, usize) -> Result<Message, String>,
) -> Result<u64, String> {
    let mut talk = Talk::open(web).map_err(told)?;
    for number in 0..EXCHANGES {
        if closes(&exchange(&mut talk, number)?) {
            return Ok(number as u64 + 1);
        }
    }
    Ok(EXCHANGES as u64)
}

fn small(web: SocketAddr, host: &str) -> Result<u64, String> {
    row(web, |talk, _| {
        let head = ask(talk, host, "/small")?;
        talk.body(&head).each(|_| {}).map_err(told)?;
        Ok(head)
    })
}

fn large(web: SocketAddr) -> Result<u64, String> {
    row(web, |talk, _| {
        let head = ask(talk, "a.test", "/large")?;
        is_row(talk, &head, (LARGE_SEED, LARGE))?;
        Ok(head)
    })
}

fn cached(web: SocketAddr) -> Result<u64, String> {
    row(web, |talk, number| {
        let path = format!("/cached/{number}");
        let head = ask(talk, "a.test", &path)?;
        is_row(talk, &head, (cached_seed(&path), CACHED))?;
        Ok(head)
    })
}

fn upload(web: SocketAddr) -> Result<u64, String> {
    row(web, |talk, number| {
        let head = "POST /upload HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut noise = Noise::new(LARGE_SEED);
        let lengths = [1, 1000, 70_000, 300_000 + number];
        talk.send(head).map_err(told)?;
        for length in lengths {
            talk.send(chunk(&noise.take(length))).map_err(told)?;
        }
        talk.send("0\r\n\r\n").map_err(told)?;
        let head = talk.head().map_err(told)?;
        let mut said = Vec::new();
        talk.body(&head).each(|bytes| said.extend_from_slice(bytes)).map_err(told)?;
        let wanted = format!("{} right", lengths.iter().sum::<usize>());
        match said == wanted.as_bytes() {
            true => Ok(head),
            false => Err(format!("{}: {}", head.start, said.escape_ascii())),
        }
    })
}

/// Events come in their order, each once; an upgrade ends the stream between two of them.
fn events(web: SocketAddr) -> Result<u64, String> {
    let mut talk = Talk::open(web).map_err(told)?;
    let head = ask(&mut talk, "a.test", "/events")?;
    let mut body = talk.body(&head);
    let (mut seen, mut bytes, mut next) = (String::new(), [0; 1024], 0);
    while next < 10 * EXCHANGES as u64 {
        match body.read(&mut bytes) {
            // The grace of a process that another one has taken over from.
            Ok(0) => return Err("the stream has come to an end of its own".to_owned()),
            Err(_) if next > 0 && seen.is_empty() => return Ok(next),
            Err(error) => return Err(format!("after {next} events and {seen:?}: {error}")),
            Ok(read) => seen.push_str(&String::from_utf8_lossy(&bytes[..read])),
        }
        while let Some((event, rest)) = seen.split_once("\n\n") {
            if event != format!("data: {next}") {
                return Err(format!("{event:?} in the place of {next}"));
            }
            (next, seen) = (next + 1, rest.to_owned());
        }
    }
    Ok(next)
}

/// What goes into a tunnel comes back; an upgrade ends it when its grace is over.
fn tunnel(web: SocketAddr) -> Result<u64, String> {
    let mut talk = Talk::open(web).map_err(told)?;
    let ask = "GET /tunnel HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
               Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    talk.send(ask).map_err(told)?;
    let head = talk.head().map_err(told)?;
    if head.status() != 101 {
        return Err(head.start);
    }
    let mut noise = Noise::new(1);
    for number in 0..10 * EXCHANGES {
        let sent = noise.take(1 + number * 37 % 4000);
        let mut back = vec![0; sent.len()];
        let exchanged = talk.send(&sent).and_then(|()| talk.stream().read_exact(&mut back));
        match exchanged {
            Ok(()) if back == sent => {}
            Ok(()) => return Err(format!("message {number} has come back as another one")),
            Err(_) if number > 0 => return Ok(number as u64),
            Err(error) => return Err(error.to_string()),
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(10 * EXCHANGES as u64)
}

fn tls(secure: SocketAddr) -> Result<u64, String> {
    let mut connection = Connection::open_secure(secure, Identity::shared(), "localhost").map_err(told)?;
    for number in 0..EXCHANGES {
        connection.send("GET /cached/tls HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let answer = Message::read(&mut connection, Of::Response, Instant::now() + STEP)?;
        Noise::new(cached_seed("/cached/tls")).check(&answer.body).map_err(|at| format!("wrong at {at}"))?;
        if answer.body.len() != CACHED {
            return Err(format!("{}: {} bytes", answer.start, answer.body.len()));
        }
        if closes(&answer) {
            return Ok(number as u64 + 1);
        }
    }
    Ok(EXCHANGES as u64)
}

/// Requests on streams, one after the other; a GOAWAY ends the connection behind those that it took.
fn http2(web: SocketAddr) -> Result<u64, String> {
    let mut client = Frames::over_without_a_word(Connection::open(web).map_err(told)?);
    let mut is_leaving = false;
    for number in 0..EXCHANGES {
        let stream = 1 + 2 * u32::try_from(number).unwrap_or_default();
        client.send(request(stream, "/small"));
        let (mut status, mut body) = (None, Vec::new());
        loop {
            let frame = match client.next(Instant::now() + STEP) {
                Ok(frame) => frame,
                Err(Event::End | Event::Reset) if is_leaving && status.is_none() => return Ok(number as u64),
                Err(event) => return Err(format!("{event:?} after {number} answers")),
            };
            is_leaving |= frame.kind == GOAWAY;
            if frame.stream != stream {
                continue;
            }
            if let Some(code) = frame.code() {
                return Err(format!("stream {stream} was reset with {code}"));
            }
            status = frame.status().or(status);
            if frame.kind == DATA {
                body.extend_from_slice(&frame.payload);
            }
            if frame.ends() {
                break;
            }
        }
        if (status, &body[..]) != (Some(200), b"hello") {
            return Err(format!("{status:?} {}", body.escape_ascii()));
        }
    }
    Ok(EXCHANGES as u64)
}

/// The program of gRPC's own tests, one case after the other.
fn grpc(places: &Places) -> Result<u64, String> {
    let Some(client) = &places.grpc else { return Ok(0) };
    for case in ["large_unary", "ping_pong", "server_streaming", "client_streaming"] {
        let port = format!("--server_port={}", places.web.port());
        let arguments = ["--server_host=127.0.0.1", &port, &format!("--test_case={case}")];
        let ran = run(Command::new(client).args(arguments), STEP * 4);
        if ran.code != 0 {
            return Err(format!("{case}: {}", ran.stderr));
        }
    }
    Ok(4)
}
