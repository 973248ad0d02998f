//! Bodies flow: what has arrived goes on at once, nothing is lost or changed, and who reads slowly slows the sender
//! instead of filling the proxy.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use thalweg_tests::talk::chunk;
use thalweg_tests::vitals::resident;
use thalweg_tests::{Bare, Message, Noise, Proxy, STEP, Talk, Vitals};

use super::{measuring, proxy, quantile, watchdog};

/// Time between two events of the event stream.
const PACE: Duration = Duration::from_millis(5);
/// Events of it: two seconds.
const EVENTS: usize = 400;
/// Sizes of chunks that meet the edges of buffers, and of nothing.
const AWKWARD: [usize; 16] =
    [1, 2, 15, 16, 255, 256, 1023, 4095, 4096, 4097, 16_383, 16_384, 16_385, 65_535, 65_537, 3];
/// Bytes of a body that fits no buffer on its way.
const LARGE: u64 = 6 << 20;
/// Bytes of a body of which a slow receiver leaves most with the sender for a while.
const LONG: u64 = 24 << 20;
/// Receive buffer of those who read slowly: less than the kernel would take, and more than a segment on loopback,
/// below which it sends one every 200 ms.
const RECEIVE: usize = 128 * 1024;
/// Silence of a receiver after which its sender is held to be stopped.
const STOPPED: Duration = Duration::from_millis(400);
/// Bytes offered to each of those who do not read.
const OFFERED: u64 = 1 << 30;
/// Most that the kernel may hold for one transfer, in four socket buffers: 4 MiB to send and 32 MiB to receive twice,
/// less than a tenth of what is offered.
const IN_KERNEL: u64 = 80 << 20;

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn server_sent_events_arrive_as_they_are_sent() {
    let _watchdog = watchdog("server_sent_events_arrive_as_they_are_sent");
    let (sent, was_sent) = mpsc::channel();
    let sent = Mutex::new(sent);
    let upstream = Bare::start(move |talk| {
        talk.head()?;
        talk.send(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        )?;
        let start = Instant::now();
        for number in 0..EVENTS {
            let due = PACE * u32::try_from(number).unwrap();
            thread::sleep(due.saturating_sub(start.elapsed())); // The pace of the events.
            let _ = sent.lock().unwrap().send(Instant::now());
            talk.send(chunk(format!("data: {number:>6}\n\n").as_bytes()))?;
        }
        talk.send("0\r\n\r\n")
    });
    let proxy = proxy(&[&upstream.url()]);
    let mut client = Talk::open(proxy.web()).unwrap();
    client.send("GET /events HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let head = client.head().unwrap();
    let (mut body, mut event) = (client.body(&head), [0; 14]);
    let mut seen = Vec::new();
    for number in 0..EVENTS {
        body.read_exact(&mut event).unwrap();
        seen.push(Instant::now());
        assert_eq!(event, format!("data: {number:>6}\n\n").as_bytes());
    }
    assert_eq!(body.read(&mut event).unwrap(), 0, "the stream ends");

    let sent: Vec<Instant> = was_sent.iter().take(EVENTS).collect();
    let mut delays: Vec<Duration> = seen.iter().zip(&sent).map(|(seen, sent)| *seen - *sent).collect();
    let before_next = seen.iter().zip(&sent[1..]).filter(|(seen, next)| seen < next).count();
    delays.sort_unstable();
    let (median, p99) = (quantile(&delays, 0.5), quantile(&delays, 0.99));
    eprintln!(
        "events: p50 {median:?}, p99 {p99:?}, max {:?}; {before_next} before the next",
        delays[EVENTS - 1]
    );
    // A proxy that waits for more delivers none before the next; a busy machine some.
    assert!(
        median < PACE && before_next > EVENTS * 3 / 4,
        "p50 {median:?}, {before_next} of {EVENTS} in time"
    );
    assert!(!measuring() || p99 <= Duration::from_millis(1), "p99 {p99:?}");
}

/// Sends single bytes up and waits for each to come back down before the next goes up: one that waits anywhere is the
/// end of it.
fn single_bytes_both_ways(framing: &str, frame: fn(u8) -> Vec<u8>, end: &str, answer: &'static str) {
    const BYTES: usize = 200;
    let upstream = Bare::start(move |talk| {
        let head = talk.head()?;
        talk.send(answer)?;
        let mut writer = talk.writer()?;
        talk.body(&head).each(|bytes| {
            for byte in bytes {
                let framed = if answer == CHUNKED { chunk(&[*byte]) } else { vec![*byte] };
                let _ = writer.write_all(&framed);
            }
        })?;
        if answer == CHUNKED { talk.send("0\r\n\r\n") } else { Ok(()) }
    });
    let proxy = proxy(&[&upstream.url()]);
    let mut client = Talk::open(proxy.web()).unwrap();
    client.send(format!("POST / HTTP/1.1\r\nHost: a.test\r\n{framing}\r\n\r\n")).unwrap();
    let head = client.head().unwrap();
    let mut writer = client.writer().unwrap();
    let mut body = client.body(&head);
    let (mut noise, mut byte) = (Noise::new(1), [0]);
    for number in 0..BYTES {
        let sent = noise.take(1);
        writer.write_all(&frame(sent[0])).unwrap();
        let got = body.read_exact(&mut byte);
        assert!(got.is_ok(), "byte {number} does not come back: {got:?}");
        assert_eq!(byte[0], sent[0], "byte {number}");
    }
    writer.write_all(end.as_bytes()).unwrap();
    assert_eq!(body.read(&mut byte).unwrap(), 0, "both bodies end");
}

#[test]
fn chunks_of_one_byte_pass_at_once_in_both_directions() {
    let _watchdog = watchdog("chunks_of_one_byte_pass_at_once_in_both_directions");
    single_bytes_both_ways("Transfer-Encoding: chunked", |byte| chunk(&[byte]), "0\r\n\r\n", CHUNKED);
}

#[test]
fn single_bytes_of_a_known_length_pass_at_once_in_both_directions() {
    let _watchdog = watchdog("single_bytes_of_a_known_length_pass_at_once_in_both_directions");
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n";
    single_bytes_both_ways("Content-Length: 200", |byte| vec![byte], "", answer);
}

#[test]
fn single_bytes_of_an_answer_that_ends_with_its_connection_pass_at_once() {
    let _watchdog = watchdog("single_bytes_of_an_answer_that_ends_with_its_connection_pass_at_once");
    let answer = "HTTP/1.1 200 OK\r\n\r\n";
    single_bytes_both_ways("Content-Length: 200", |byte| vec![byte], "", answer);
}

/// How a body tells its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Framing {
    Length,
    Chunks,
    Close,
}

impl Framing {
    fn field(self, len: u64) -> String {
        match self {
            Self::Length => format!("Content-Length: {len}\r\n"),
            Self::Chunks => "Transfer-Encoding: chunked\r\n".to_owned(),
            Self::Close => String::new(),
        }
    }

    /// Sends `bytes` of the body, in chunks of awkward sizes where there are chunks.
    fn send(
        self,
        to: &mut impl Write,
        mut bytes: &[u8],
        sizes: &mut impl Iterator<Item = usize>,
    ) -> io::Result<()> {
        if self != Self::Chunks {
            return to.write_all(bytes);
        }
        let mut framed = Vec::with_capacity(bytes.len() * 2);
        while !bytes.is_empty() {
            let (one, rest) = bytes.split_at(sizes.next().unwrap_or(1).min(bytes.len()));
            framed.extend(chunk(one));
            bytes = rest;
        }
        to.write_all(&framed)
    }

    fn end(self, to: &mut impl Write) -> io::Result<()> {
        if self == Self::Chunks { to.write_all(b"0\r\n\r\n") } else { Ok(()) }
    }
}

/// An upstream that sends back what it gets while it gets it, framed as the path says.
fn echo() -> Bare {
    Bare::start(|talk| {
        let head = talk.head()?;
        let framing = match head.target() {
            "/Length" => Framing::Length,
            "/Chunks" => Framing::Chunks,
            _ => Framing::Close,
        };
        talk.send(format!("HTTP/1.1 200 OK\r\n{}\r\n", framing.field(LARGE)))?;
        let (mut writer, mut sizes) = (talk.writer()?, AWKWARD.into_iter().rev().cycle());
        let mut sent = Ok(());
        talk.body(&head).each(|bytes| {
            if sent.is_ok() {
                sent = framing.send(&mut writer, bytes, &mut sizes);
            }
        })?;
        sent?;
        framing.end(&mut writer)
    })
}

/// Sends the large body up while it comes back down, and compares every byte.
fn echoes(proxy: &Proxy, up: Framing, down: Framing, version: &str) {
    let mut client = Talk::open(proxy.web()).unwrap();
    let field = up.field(LARGE);
    client.send(format!("POST /{down:?} {version}\r\nHost: a.test\r\n{field}\r\n")).unwrap();
    let mut writer = client.writer().unwrap();
    let sender = thread::spawn(move || -> io::Result<()> {
        let (mut noise, mut sizes) = (Noise::new(LARGE), AWKWARD.into_iter().cycle());
        let mut left = LARGE;
        while left > 0 {
            let len = left.min(100_000);
            up.send(&mut writer, &noise.take(usize::try_from(len).unwrap()), &mut sizes)?;
            left -= len;
        }
        up.end(&mut writer)
    });
    let head = client.head().unwrap();
    assert_eq!(head.status(), 200, "{head:?}");
    let (mut noise, mut wrong) = (Noise::new(LARGE), None);
    let sum = client.body(&head).each(|bytes| wrong = wrong.or(noise.check(bytes).err()));
    assert_eq!((sum.unwrap(), wrong), (LARGE, None), "{up:?} up, {down:?} down, {version}: first wrong byte");
    sender.join().unwrap().unwrap();
}

#[test]
fn large_bodies_pass_unchanged_in_both_directions_at_once() {
    let _watchdog = watchdog("large_bodies_pass_unchanged_in_both_directions_at_once");
    let upstream = echo();
    let proxy = proxy(&[&upstream.url()]);
    for up in [Framing::Length, Framing::Chunks] {
        for down in [Framing::Length, Framing::Chunks, Framing::Close] {
            echoes(&proxy, up, down, "HTTP/1.1");
        }
    }
    echoes(&proxy, Framing::Length, Framing::Chunks, "HTTP/1.0");
}

/// Reads 1 KB at a time at 1 KB per 20 ms for a while, then as fast as it can; gives the number of bytes when all of
/// them were right.
fn read_slowly(from: &mut impl Read, seed: u64) -> Result<u64, String> {
    let (mut noise, mut bytes) = (Noise::new(seed), vec![0; 64 * 1024]);
    let mut pieces = 0;
    loop {
        let most = if pieces < 50 { 1024 } else { bytes.len() };
        let len = from.read(&mut bytes[..most]).map_err(|error| format!("{error} at {}", noise.given()))?;
        if len == 0 {
            return Ok(noise.given());
        }
        noise.check(&bytes[..len]).map_err(|at| format!("byte {at} is wrong"))?;
        pieces += 1;
        if pieces < 50 {
            thread::sleep(Duration::from_millis(20)); // The pace of the reader.
        }
    }
}

#[test]
fn a_slow_reader_gets_every_byte() {
    let _watchdog = watchdog("a_slow_reader_gets_every_byte");
    let upstream = Bare::start(|talk| {
        talk.head()?;
        talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LONG}\r\n\r\n"))?;
        talk.send(Noise::new(2).take(usize::try_from(LONG).unwrap()))
    });
    let proxy = proxy(&[&upstream.url()]);
    let mut client = Talk::open(proxy.web()).unwrap();
    set_socket_recv_buffer_size(client.stream(), RECEIVE).unwrap();
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let head = client.head().unwrap();
    assert_eq!(read_slowly(&mut client.body(&head), 2), Ok(LONG));
}

#[test]
fn an_upstream_that_reads_slowly_gets_every_byte() {
    let _watchdog = watchdog("an_upstream_that_reads_slowly_gets_every_byte");
    let upstream = Bare::start(|talk| {
        let _ = set_socket_recv_buffer_size(talk.stream(), RECEIVE);
        let head = talk.head()?;
        let said = match read_slowly(&mut talk.body(&head), 3) {
            Ok(bytes) => bytes.to_string(),
            Err(reason) => reason,
        };
        talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{said}", said.len()))
    });
    let proxy = proxy(&[&upstream.url()]);
    let mut client = Talk::open(proxy.web()).unwrap();
    client.send(format!("PUT / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {LONG}\r\n\r\n")).unwrap();
    client.send(Noise::new(3).take(usize::try_from(LONG).unwrap())).unwrap();
    let head = client.head().unwrap();
    let mut said = String::new();
    client.body(&head).read_to_string(&mut said).unwrap();
    assert_eq!(said, LONG.to_string());
}

/// Sends piece after piece until all that is offered has gone, or the other side has taken nothing for a while; gives
/// the number of bytes that went, and what is left of the last piece.
fn send_until_stopped(to: &TcpStream, offered: u64, mut piece: impl FnMut() -> Vec<u8>) -> (u64, Vec<u8>) {
    let _ = to.set_write_timeout(Some(STOPPED));
    let (mut sent, mut rest) = (0, Vec::new());
    while sent < offered {
        if rest.is_empty() {
            rest = piece();
        }
        match (&*to).write(&rest) {
            Ok(len) => {
                sent += len as u64;
                rest.drain(..len);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                let stopped = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(stopped, "the sender is not slowed but cut off: {error} after {sent} bytes");
                break;
            }
        }
    }
    let _ = to.set_write_timeout(Some(STEP));
    (sent, rest)
}

/// An upstream that offers a large answer, and tells how much of it went until the client's side stood still.
fn offering(stopped: Sender<u64>) -> Bare {
    let stopped = Mutex::new(stopped);
    Bare::start(move |talk| {
        talk.head()?;
        talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {OFFERED}\r\n\r\n"))?;
        let mut noise = Noise::new(4);
        let (sent, _) = send_until_stopped(talk.stream(), OFFERED, || noise.take(64 * 1024));
        let _ = stopped.lock().unwrap().send(sent);
        // Stays open until the proxy ends it.
        talk.rest().map(drop)
    })
}

fn ask_for_all(proxy: &Proxy) -> (Talk, Message) {
    let mut client = Talk::open(proxy.web()).unwrap();
    set_socket_recv_buffer_size(client.stream(), RECEIVE).unwrap();
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let head = client.head().unwrap();
    (client, head)
}

#[test]
fn clients_that_stop_reading_stop_their_upstreams_and_cost_little_memory() {
    let _watchdog = watchdog("clients_that_stop_reading_stop_their_upstreams_and_cost_little_memory");
    const CLIENTS: u64 = 8;
    /// What the proxy itself may keep for one of them.
    const EACH: u64 = 1 << 20;
    let (stopped, was_stopped) = mpsc::channel();
    let upstream = offering(stopped);
    let proxy = proxy(&[&upstream.url()]);
    let (before, memory) = (Vitals::of(&proxy), resident(&proxy));
    let clients: Vec<(Talk, Message)> = (0..CLIENTS).map(|_| ask_for_all(&proxy)).collect();
    let most = (0..CLIENTS).map(|_| was_stopped.recv_timeout(STEP * 2).unwrap()).max().unwrap_or_default();
    let grown = resident(&proxy).saturating_sub(memory);
    eprintln!("stopped after {} KiB at most; {CLIENTS} cost {} KiB of memory", most >> 10, grown >> 10);
    assert!(most < IN_KERNEL, "{most} bytes went to a client that does not read");
    assert!(grown < CLIENTS * EACH + (4 << 20), "{grown} bytes of memory for {CLIENTS} clients");
    assert_eq!(Vitals::of(&proxy).exchanges, before.exchanges + CLIENTS, "all of them wait");
    drop(clients);
    before.wait_for(&proxy, "clients that stopped reading");
}

#[test]
fn an_upstream_that_stops_reading_stops_the_upload_and_the_upload_goes_on_with_it() {
    let _watchdog = watchdog("an_upstream_that_stops_reading_stops_the_upload");
    let (go, may_go) = mpsc::channel::<()>();
    let may_go = Mutex::new(may_go);
    let upstream = Bare::start(move |talk| {
        let _ = set_socket_recv_buffer_size(talk.stream(), RECEIVE);
        let head = talk.head()?;
        let _ = may_go.lock().unwrap().recv_timeout(STEP * 2);
        let (mut noise, mut wrong) = (Noise::new(5), None);
        let sum = talk.body(&head).each(|bytes| wrong = wrong.or(noise.check(bytes).err()))?;
        let said = format!("{sum} {wrong:?}");
        talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{said}", said.len()))
    });
    let proxy = proxy(&[&upstream.url()]);
    let memory = resident(&proxy);
    let mut client = Talk::open(proxy.web()).unwrap();
    client.send("PUT / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let mut noise = Noise::new(5);
    let (sent, rest) = send_until_stopped(client.stream(), OFFERED, || chunk(&noise.take(64 * 1024)));
    let grown = resident(&proxy).saturating_sub(memory);
    eprintln!("an upload stopped after {} KiB and cost {} KiB of memory", sent >> 10, grown >> 10);
    assert!(sent < IN_KERNEL, "{sent} bytes went to an upstream that does not read");
    assert!(grown < 4 << 20, "{grown} bytes of memory for one upload");
    go.send(()).unwrap();
    client.send(rest).unwrap();
    for _ in 0..64 {
        client.send(chunk(&noise.take(64 * 1024))).unwrap();
    }
    client.send("0\r\n\r\n").unwrap();
    let head = client.head().unwrap();
    let mut said = String::new();
    client.body(&head).read_to_string(&mut said).unwrap();
    assert_eq!(said, format!("{} None", noise.given()));
}
