//! `cache`: stored responses are used again, a fetch serves all who want the same, and nobody gets what is another's or
//! what is not whole.
//!
//! Everything of the configuration that these scenarios depend on stands in this file; what they depend on of the admin
//! API, in `purges`.

mod collapsing;
mod cookies;
mod cuts;
mod deception;
mod large;
mod parts;
mod per_client;
mod purges;
mod reuse;
mod sharing;
mod strangers;
mod versions;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use thalweg_tests::message::{fetch, get};
use thalweg_tests::{Message, Proxy, STEP, Talk, Upstream, vitals};

use super::watchdog;

/// Lets a response be stored for a minute.
const MINUTE: &str = "Cache-Control: max-age=60\r\n";

/// A proxy before this endpoint. `rule` is the argument of `cache`, `more` are further filters, each with a comma
/// before it.
fn caching(endpoint: &str, rule: &str, more: &str) -> Proxy {
    Proxy::start(&config(endpoint, &format!("{{ cache: {rule} }}{more}")))
}

/// The same with all its filters written out; none: nothing is stored.
fn config(endpoint: &str, filters: &str) -> String {
    let cache = if filters.contains("cache:") { "cache: { memory: 256MiB }\n" } else { "" };
    format!(
        "workers: 2\n\
         metrics: {{ address: \"127.0.0.1:0\" }}\n\
         access_log: {{ format: json, path: \"{{log}}\" }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\", h2c: true }} }}\n\
         services: {{ s: {{ endpoints: [ \"{endpoint}\" ] }} }}\n\
         routes: [ {{ to: s, filters: [ {filters} ] }} ]\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n{cache}"
    )
}

/// A GET with further fields, each with its line end.
fn ask(proxy: &Proxy, path: &str, fields: &str) -> Message {
    send(proxy, "GET", path, fields)
}

/// A request without a body.
fn send(proxy: &Proxy, method: &str, path: &str, fields: &str) -> Message {
    fetch(proxy.web(), &format!("{method} {path} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n")).unwrap()
}

/// A response with further fields, each with its line end.
fn reply(status: &str, fields: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{fields}\r\n{body}", body.len()).into_bytes()
}

/// A response to be stored for a minute.
fn good(fields: &str, body: &str) -> Vec<u8> {
    reply("200 OK", &format!("{MINUTE}{fields}"), body)
}

/// An endpoint that remembers what it was asked for.
struct Origin {
    upstream: Upstream,
    seen: Arc<Mutex<Vec<Message>>>,
}

impl Origin {
    /// Answers a request, and is told how many had the same target before; `None` closes the connection.
    fn start(answer: impl Fn(&Message, usize) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        let seen: Arc<Mutex<Vec<Message>>> = Arc::default();
        let notes = Arc::clone(&seen);
        let upstream = Upstream::start(move |request| {
            let before = {
                let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
                let before = notes.iter().filter(|seen| seen.target() == request.target()).count();
                notes.push(request.clone());
                before
            };
            answer(request, before)
        });
        Self { upstream, seen }
    }

    fn url(&self) -> String {
        self.upstream.url()
    }

    /// Every request so far.
    fn requests(&self) -> Vec<Message> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often it was asked for a target.
    fn asked(&self, target: &str) -> usize {
        self.requests().iter().filter(|request| request.target() == target).count()
    }
}

/// What an endpoint whose responses come in two halves does between them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Half {
    /// It sends the other one.
    Rest,
    /// It breaks the connection off.
    Cut,
}

/// An endpoint that sends a half of each body at once and what follows when it is told so.
struct Halves {
    bare: thalweg_tests::Bare,
    asked: Arc<AtomicUsize>,
    /// One for each exchange that waits; in the order in which they were asked.
    waiting: Receiver<Sender<Half>>,
}

impl Halves {
    /// With these bodies, in turn, and the last one ever after; `chunked` says how they are framed.
    fn start(bodies: Vec<Vec<u8>>, chunked: bool) -> Self {
        let asked: Arc<AtomicUsize> = Arc::default();
        let (waits, waiting) = mpsc::channel();
        let (count, waits) = (Arc::clone(&asked), Mutex::new(waits));
        let bare = thalweg_tests::Bare::start(move |talk| {
            loop {
                talk.head()?;
                let number = count.fetch_add(1, Ordering::SeqCst);
                let body = &bodies[number.min(bodies.len() - 1)];
                let (first, second) = body.split_at(body.len() / 2);
                let (go, may_go) = mpsc::channel();
                talk.send(head_of(body.len(), chunked))?;
                talk.send(framed(first, chunked))?;
                let _ = waits.lock().unwrap_or_else(PoisonError::into_inner).send(go);
                // A test that is over tells nothing.
                match may_go.recv_timeout(STEP * 4) {
                    Ok(Half::Rest) => {
                        talk.send(framed(second, chunked))?;
                        talk.send(if chunked { "0\r\n\r\n" } else { "" })?;
                    }
                    Ok(Half::Cut) | Err(_) => return Ok(()),
                }
            }
        });
        Self { bare, asked, waiting }
    }

    fn url(&self) -> String {
        self.bare.url()
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Waits until the next exchange has sent its first half.
    fn next(&self) -> Sender<Half> {
        self.waiting.recv_timeout(STEP).expect("the endpoint is asked")
    }
}

fn head_of(len: usize, chunked: bool) -> String {
    let framing =
        if chunked { "Transfer-Encoding: chunked".to_owned() } else { format!("Content-Length: {len}") };
    format!("HTTP/1.1 200 OK\r\n{MINUTE}Cache-Tag: t\r\n{framing}\r\n\r\n")
}

fn framed(bytes: &[u8], chunked: bool) -> Vec<u8> {
    if chunked { thalweg_tests::talk::chunk(bytes) } else { bytes.to_vec() }
}

/// A body in which no two parts are the same.
fn body(len: usize, seed: u64) -> Vec<u8> {
    thalweg_tests::Noise::new(seed).take(len)
}

/// A client that has asked for `path`.
fn asking(proxy: &Proxy, path: &str) -> Talk {
    let mut talk = Talk::open(proxy.web()).unwrap();
    talk.send(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n")).unwrap();
    talk
}

/// Reads the response of a client and compares every byte of its body; why it is not whole.
fn reads(talk: &mut Talk, expected: &[u8]) -> Result<(), String> {
    let head = talk.head().map_err(|error| error.to_string())?;
    reads_body(talk, &head, expected)
}

/// The same of a response whose head has been read.
fn reads_body(talk: &mut Talk, head: &Message, expected: &[u8]) -> Result<(), String> {
    if head.status() != 200 {
        return Err(head.start.clone());
    }
    let (mut at, mut wrong) = (0, None);
    let read = talk.body(head).each(|bytes| {
        if expected.get(at..at + bytes.len()) != Some(bytes) {
            wrong = wrong.or(Some(at));
        }
        at += bytes.len();
    });
    match (read, wrong) {
        (_, Some(at)) => panic!("another byte than was sent behind byte {at}"),
        (Err(error), None) => Err(format!("{error} after {at} bytes")),
        (Ok(sum), None) => {
            assert_eq!(sum, expected.len() as u64, "a body that looks whole is not");
            Ok(())
        }
    }
}

/// Waits until the samples of a metric add up to what is wanted.
fn wait_metric(proxy: &Proxy, metric: &str, wanted: impl Fn(u64) -> bool) {
    let end = Instant::now() + STEP * 3;
    loop {
        let text = get(proxy.metrics(), "/metrics").unwrap().text();
        let now = vitals::sum(&text, metric);
        if wanted(now) {
            return;
        }
        assert!(Instant::now() < end, "{metric} stays {now}");
        thread::yield_now();
    }
}
