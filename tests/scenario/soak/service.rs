//! The endpoint: small and large answers, uploads, streams of events, tunnels, and what a cache may keep.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use thalweg_tests::talk::chunk;
use thalweg_tests::upstream::Listener;
use thalweg_tests::{Message, Noise, Talk};

/// Bytes of a large body; of one that may be kept.
pub(super) const LARGE: usize = 2 << 20;
pub(super) const CACHED: usize = 64 << 10;
/// The row of bytes that large bodies are, in either direction.
pub(super) const LARGE_SEED: u64 = 7;
/// Between two events.
const EVENTS: Duration = Duration::from_millis(5);

/// It and its connections end on drop, or when their peers do.
pub(super) struct Service {
    listener: Listener,
}

impl Service {
    pub(super) fn start() -> Self {
        let (accepted, connections) = mpsc::channel::<TcpStream>();
        thread::spawn(move || {
            for stream in connections {
                thread::spawn(move || serve(&mut Talk::new(stream)));
            }
        });
        Self { listener: Listener::start(accepted) }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.listener.address())
    }
}

/// The row that an object of the cache is.
pub(super) fn cached_seed(path: &str) -> u64 {
    path.bytes().fold(1, |seed, byte| seed * 31 + u64::from(byte))
}

fn serve(talk: &mut Talk) -> io::Result<()> {
    talk.stream().set_read_timeout(Some(Duration::from_secs(60)))?;
    loop {
        let head = talk.head()?;
        let path = head.target().to_owned();
        match path.as_str() {
            "/large" => talk.send(answer("", &Noise::new(LARGE_SEED).take(LARGE)))?,
            "/upload" => upload(talk, &head)?,
            "/events" => return events(talk),
            "/tunnel" => return tunnel(talk),
            path if path.starts_with("/cached/") => {
                let body = Noise::new(cached_seed(path)).take(CACHED);
                talk.send(answer("Cache-Control: max-age=1\r\n", &body))?;
            }
            _ => talk.send(answer("", b"hello"))?,
        }
    }
}

fn answer(fields: &str, body: &[u8]) -> Vec<u8> {
    let mut answer =
        format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    answer.extend_from_slice(body);
    answer
}

/// Says how many bytes were as they should be.
fn upload(talk: &mut Talk, head: &Message) -> io::Result<()> {
    let mut noise = Noise::new(LARGE_SEED);
    let mut wrong = None;
    let came = talk.body(head).each(|bytes| wrong = wrong.or(noise.check(bytes).err()))?;
    let told = wrong.map_or_else(|| format!("{came} right"), |at| format!("wrong at {at}"));
    talk.send(answer("", told.as_bytes()))
}

/// Numbered events until nobody listens.
fn events(talk: &mut Talk) -> io::Result<()> {
    talk.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    for number in 0_u64.. {
        talk.send(chunk(format!("data: {number}\n\n").as_bytes()))?;
        thread::sleep(EVENTS);
    }
    Ok(())
}

/// Becomes a tunnel that says back what comes.
fn tunnel(talk: &mut Talk) -> io::Result<()> {
    talk.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")?;
    let mut stream = talk.writer()?;
    let mut bytes = [0; 4096];
    while let read @ 1.. = stream.read(&mut bytes)? {
        stream.write_all(&bytes[..read])?;
    }
    Ok(())
}
