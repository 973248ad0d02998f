//! Bodies flow: what has arrived goes on at once, and nothing is lost or changed, however it is cut.

use std::io::{self, Read, Write};
use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use thalweg_tests::talk::chunk;
use thalweg_tests::{Bare, Noise, Proxy, Talk, Vitals};

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
    // A proxy that waits for more delivers none before the next; a busy machine delivers some late.
    assert!(median < PACE, "half of the events take longer than {median:?}");
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
    let before = Vitals::of(&proxy);
    for up in [Framing::Length, Framing::Chunks] {
        for down in [Framing::Length, Framing::Chunks, Framing::Close] {
            echoes(&proxy, up, down, "HTTP/1.1");
        }
    }
    echoes(&proxy, Framing::Length, Framing::Chunks, "HTTP/1.0");
    before.wait_for(&proxy, "large bodies");
}

/// A chunked body written to the socket in pieces that respect neither chunks nor heads.
fn cut_anywhere(noise: &mut Noise, len: usize, cuts: &mut Noise) -> Vec<Vec<u8>> {
    let mut framed = Vec::new();
    let mut left = len;
    while left > 0 {
        let size = up_to(cuts, 1 + left.min(20_000));
        framed.extend(chunk(&noise.take(size.clamp(1, left))));
        left -= size.clamp(1, left);
    }
    framed.extend_from_slice(b"0\r\n\r\n");
    let mut pieces = Vec::new();
    while !framed.is_empty() {
        // Mostly a few bytes, now and then many.
        let most = if up_to(cuts, 4) == 0 { 70_000 } else { 40 };
        let rest = framed.split_off(framed.len().min(1 + up_to(cuts, most)));
        pieces.push(std::mem::replace(&mut framed, rest));
    }
    pieces
}

/// A number below `limit`.
fn up_to(cuts: &mut Noise, limit: usize) -> usize {
    let bytes = cuts.take(4);
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize % limit.max(1)
}

#[test]
fn chunked_bodies_that_are_cut_anywhere_arrive_whole() {
    let _watchdog = watchdog("chunked_bodies_that_are_cut_anywhere_arrive_whole");
    const LEN: usize = 200_000;
    let upstream = Bare::start(|talk| {
        loop {
            let head = talk.head()?;
            let seed: u64 = head.target()[1..].parse().unwrap_or_default();
            let (mut noise, mut wrong) = (Noise::new(seed), None);
            let sum = talk.body(&head).each(|bytes| wrong = wrong.or(noise.check(bytes).err()))?;
            talk.send(format!(
                "HTTP/1.1 200 OK\r\nX-Got: {sum} {wrong:?}\r\nTransfer-Encoding: chunked\r\n\r\n"
            ))?;
            for piece in cut_anywhere(&mut Noise::new(seed + 1), LEN, &mut Noise::new(seed + 2)) {
                talk.send(piece)?;
            }
        }
    });
    let proxy = proxy(&[&upstream.url()]);
    let mut client = Talk::open(proxy.web()).unwrap();
    for seed in 1000..1010 {
        let head = format!("POST /{seed} HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.send(head).unwrap();
        for piece in cut_anywhere(&mut Noise::new(seed), LEN, &mut Noise::new(seed + 3)) {
            client.send(piece).unwrap();
        }
        let head = client.head().unwrap();
        assert_eq!(head.value("x-got"), Some(&*format!("{LEN} None")), "seed {seed}, up");
        let (mut noise, mut wrong) = (Noise::new(seed + 1), None);
        let sum = client.body(&head).each(|bytes| wrong = wrong.or(noise.check(bytes).err())).unwrap();
        assert_eq!((sum, wrong), (LEN as u64, None), "seed {seed}, down");
    }
}

#[test]
fn requests_behind_large_bodies_are_answered_in_order() {
    let _watchdog = watchdog("requests_behind_large_bodies_are_answered_in_order");
    let upstream = Bare::start(|talk| {
        loop {
            let head = talk.head()?;
            let (mut noise, mut wrong) = (Noise::new(9), None);
            let sum = talk.body(&head).each(|bytes| wrong = wrong.or(noise.check(bytes).err()))?;
            let said = format!("{} {sum} {wrong:?}", head.target());
            talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{said}", said.len()))?;
        }
    });
    let proxy = proxy(&[&upstream.url()]);
    let mut client = Talk::open(proxy.web()).unwrap();
    // Everything is sent before anything is read; the answers fit in any buffer.
    let (body, mut all) = (Noise::new(9).take(1 << 20), Vec::new());
    for number in 0..3 {
        all.extend(
            format!("PUT /a{number} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n", body.len())
                .bytes(),
        );
        all.extend_from_slice(&body);
        all.extend(
            format!("PUT /b{number} HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n").bytes(),
        );
        all.extend(chunk(&body));
        all.extend_from_slice(b"0\r\n\r\n");
        all.extend(format!("GET /c{number} HTTP/1.1\r\nHost: a.test\r\n\r\n").bytes());
    }
    client.send(&all).unwrap();
    for number in 0..3 {
        for (path, len) in [('a', body.len()), ('b', body.len()), ('c', 0)] {
            let head = client.head().unwrap();
            let mut said = String::new();
            client.body(&head).read_to_string(&mut said).unwrap();
            assert_eq!(said, format!("/{path}{number} {len} None"));
        }
    }
}
