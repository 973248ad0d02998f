//! An endpoint that misbehaves when told to: see `tests/harness/endpoint.rs`, which starts it and tells it.
//!
//! usage: test-endpoint NAME ADDRESS. It listens on ADDRESS, says `control PORT` on standard error once it does, and
//! answers lines on that port. For each request that it counts it writes a byte on standard output, so that the count
//! outlives it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "test code: what does not work is a panic")]

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::net::sockopt::set_socket_reuseport;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
use thalweg_tests::endpoint::{CHECK, Mood, PAUSE, PIECE, PIECES, TRICKLE};
use thalweg_tests::talk::wait_hang_up;
use thalweg_tests::{Message, STEP, Talk};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// What all threads share.
struct Shared {
    name: String,
    address: SocketAddr,
    requests: AtomicU64,
    checks: AtomicU64,
    now: Mutex<Now>,
}

/// How things stand. Changed and acted upon under one lock, so that no connection slips past a change of mood.
struct Now {
    mood: Mood,
    /// How health checks are met.
    checked: Mood,
    /// `None` while connecting is to be refused.
    listener: Option<Arc<TcpListener>>,
    open: HashMap<u64, TcpStream>,
    /// Key of the next connection.
    next: u64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, address] = &arguments[..] else {
        eprintln!("usage: test-endpoint NAME ADDRESS");
        std::process::exit(2);
    };
    let now = Now { mood: Mood::Ok, checked: Mood::Ok, listener: None, open: HashMap::new(), next: 0 };
    let shared = Arc::new(Shared {
        name: name.clone(),
        address: address.parse().unwrap(),
        requests: AtomicU64::new(0),
        checks: AtomicU64::new(0),
        now: Mutex::new(now),
    });
    set(&shared, Mood::Ok, Mood::Ok);
    let control = TcpListener::bind("127.0.0.1:0").unwrap();
    eprintln!("control {}", control.local_addr().unwrap().port());
    for stream in control.incoming().flatten() {
        let shared = Arc::clone(&shared);
        thread::spawn(move || obey(&shared, &stream));
    }
}

/// Answers the lines of one connection for control.
fn obey(shared: &Arc<Shared>, stream: &TcpStream) -> io::Result<()> {
    for line in BufReader::new(stream).lines() {
        let line = line?;
        let (line, requests_only) = match line.strip_prefix("requests ") {
            Some(mood) => (mood, true),
            None => (line.as_str(), false),
        };
        let answer = match (line, line.parse()) {
            ("count", _) => shared.requests.load(Ordering::Relaxed).to_string(),
            ("checks", _) => shared.checks.load(Ordering::Relaxed).to_string(),
            (_, Ok(Mood::Refuse)) if requests_only => "connections are refused to all alike".to_owned(),
            (_, Ok(mood)) => {
                set(shared, mood, if requests_only { Mood::Ok } else { mood });
                "ok".to_owned()
            }
            (_, Err(reason)) => reason,
        };
        let mut stream = stream;
        stream.write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(())
}

fn set(shared: &Arc<Shared>, mood: Mood, checked: Mood) {
    let mut now = shared.now();
    (now.mood, now.checked) = (mood, checked);
    if mood == Mood::Refuse {
        if let Some(listener) = now.listener.take() {
            // Ends the wait of the thread that accepts, and from now on the kernel refuses.
            rustix::net::shutdown(&*listener, rustix::net::Shutdown::Both).unwrap();
        }
        for (_, stream) in now.open.drain() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    } else if now.listener.is_none() {
        let listener = Arc::new(listening(shared.address));
        now.listener = Some(Arc::clone(&listener));
        let shared = Arc::clone(shared);
        thread::spawn(move || accept(&shared, &listener));
    }
}

/// Listens on a port that the test holds with a socket which does not listen.
fn listening(address: SocketAddr) -> TcpListener {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    set_socket_reuseport(&socket, true).unwrap();
    bind(&socket, &address).unwrap();
    listen(&socket, BACKLOG).unwrap();
    TcpListener::from(socket)
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
            // No listener any more.
            Err(_) => return,
        };
        let mut now = shared.now();
        if now.mood == Mood::Refuse {
            return;
        }
        let Ok(copy) = stream.try_clone() else { continue };
        let key = now.next;
        now.next += 1;
        now.open.insert(key, copy);
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            let mut talk = Talk::new(stream);
            let last = serve(&shared, &mut talk);
            // The copy would keep the connection open.
            shared.now().open.remove(&key);
            if last.is_ok_and(|mood| mood == Mood::Reset) {
                talk.reset();
            }
        });
    }
}

/// Serves a connection to its end; the mood that ended it.
fn serve(shared: &Shared, talk: &mut Talk) -> io::Result<Mood> {
    // A proxy may keep its connection idle for as long as it likes.
    talk.stream().set_read_timeout(None)?;
    loop {
        let head = talk.head()?;
        if head.value("expect").is_some() {
            talk.send("HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let mut body = Vec::new();
        talk.body(&head).each(|piece| body.extend_from_slice(piece))?;
        let mood = if head.target() == CHECK {
            shared.checks.fetch_add(1, Ordering::Relaxed);
            shared.now().checked
        } else {
            // Decided before it is counted: who sees the count knows how those are met.
            let mood = shared.now().mood;
            count(shared)?;
            mood
        };
        let status = match mood {
            Mood::Ok => 200,
            Mood::Slow(time) => {
                thread::sleep(time);
                200
            }
            Mood::Status(status) => status,
            Mood::Reset | Mood::Refuse => return Ok(mood),
            Mood::HalfClose => {
                talk.half_close();
                wait_hang_up(talk.stream(), STEP);
                return Ok(mood);
            }
        };
        let said = said(&shared.name, &head, &body);
        answer(talk, (status, &shared.name), &head, said)?;
    }
}

/// Counts a request, here and for those who come after.
fn count(shared: &Shared) -> io::Result<()> {
    let mut out = io::stdout().lock();
    shared.requests.fetch_add(1, Ordering::Relaxed);
    out.write_all(b".")?;
    out.flush()
}

/// What is answered.
fn said(name: &str, head: &Message, body: &[u8]) -> Vec<u8> {
    let Some(id) = head.value("x-id") else { return name.into() };
    let mut said = format!("{name} {id} ").into_bytes();
    said.extend_from_slice(body);
    said
}

fn answer(
    talk: &mut Talk,
    (status, name): (u16, &str),
    request: &Message,
    mut body: Vec<u8>,
) -> io::Result<()> {
    let trickles = request.target() == TRICKLE;
    if trickles {
        body.resize(PIECES * PIECE, b'.');
    }
    let len = body.len();
    let mut head =
        format!("HTTP/1.1 {status} Told\r\nX-Endpoint: {name}\r\nContent-Length: {len}\r\n\r\n").into_bytes();
    if request.start.starts_with("HEAD ") {
        return talk.send(head);
    }
    if !trickles {
        head.extend_from_slice(&body);
        return talk.send(head);
    }
    for (number, piece) in body.chunks(PIECE).enumerate() {
        if number == 0 {
            head.extend_from_slice(piece);
            talk.send(&head)?;
        } else {
            thread::sleep(PAUSE);
            talk.send(piece)?;
        }
    }
    Ok(())
}

impl Shared {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
