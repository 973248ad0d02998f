//! What clients of HTTP/2 do that mean harm (rows D7 to D10 and E1 of the hostile inputs), for all that is asked of a
//! proxy under attack: that it ends them, what it holds meanwhile, and what others notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::connection::Event;
use crate::h2_frames::{
    CANCEL, CONTINUATION, DATA, END, END_HEADERS, ENHANCE_YOUR_CALM, Frames, HEADERS, INITIAL_WINDOW, PADDED,
    PING, PREFACE, PRIORITY, PROTOCOL_ERROR, TABLE_SIZE, frame, literal, request, reset, section, settings,
    window_update,
};
use crate::upstream::ok;
use crate::{Bare, Connection, STEP};

/// Streams of a flood that ends each of them.
const STREAMS: u32 = 400;
/// Connections at once, where one holds something.
const AT_ONCE: usize = 20;
/// Answers that nobody reads, each of a mebibyte.
const STALLS: u32 = 100;

/// How an attacker comes to a connection that may begin with the preface.
pub type Open<'a> = &'a (dyn Fn() -> Connection + Sync);

type Act = Box<dyn Fn(Open<'_>) -> Vec<Frames> + Send + Sync>;

/// One of them.
pub struct Attack {
    /// What it is.
    pub name: &'static str,
    /// What the proxy calls it where it counts it as a flood.
    pub flood: Option<&'static str>,
    /// How often it counts it.
    pub floods: u32,
    /// Top-level keys that the proxy needs so that it does not take long.
    pub more: &'static str,
    /// Requests of it that may come to the endpoint: twice the streams that a client may have, and what is under way.
    pub asks: u64,
    /// Bytes that its memory may grow by, as the system sees it.
    pub resident: u64,
    /// Bytes that what it has allocated may grow by.
    pub live: u64,
    act: Act,
}

impl Attack {
    /// Attacks, until the proxy has done about it what it has to do. Gives the connections that it leaves open.
    ///
    /// # Panics
    /// When it does something else.
    pub fn run(&self, open: Open<'_>) -> Vec<Frames> {
        (self.act)(open)
    }

    fn new(
        name: &'static str,
        flood: Option<&'static str>,
        act: impl Fn(Open<'_>) -> Vec<Frames> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            flood,
            floods: 1,
            more: "",
            asks: 250,
            resident: 4 << 20,
            live: 1 << 20,
            act: Box::new(act),
        }
    }

    /// All is said at once, and the connection is ended because it is too much.
    fn flood(name: &'static str, flood: Option<&'static str>, wire: Vec<u8>) -> Self {
        Self::ended(name, flood, ENHANCE_YOUR_CALM, wire)
    }

    /// All is said at once, and the connection is ended with this code.
    fn ended(name: &'static str, flood: Option<&'static str>, code: u32, wire: Vec<u8>) -> Self {
        Self::new(name, flood, move |open| {
            let mut client = Frames::over(open(), &[]);
            client.send(wire.clone());
            let ending = client.ending();
            // Who says more than the proxy reads when it leaves may see a reset behind its words.
            let is_short = wire.len() <= 64 << 10;
            assert!(
                ending.event == Event::End || !is_short && ending.event == Event::Reset,
                "{name}: {ending:?}"
            );
            assert_eq!(ending.goaways.last(), Some(&code), "{name}");
            assert!(ending.resets.len() < 300, "{name}: {} resets", ending.resets.len());
            Vec::new()
        })
    }
}

/// All of them.
pub fn all() -> Vec<Attack> {
    [resets(), sections(), empty_frames(), bombs(), windows()].into_iter().flatten().collect()
}

/// D7, CVE-2023-44487 and CVE-2025-8671: streams that end before their answers.
pub fn resets() -> Vec<Attack> {
    let each = |path: &str, then: &dyn Fn(u32) -> Vec<u8>| -> Vec<u8> {
        (0..STREAMS).flat_map(|at| [request(at * 2 + 1, path), then(at * 2 + 1)].concat()).collect()
    };
    let of_itself = |stream: u32| frame(PRIORITY, 0, stream, &[&stream.to_be_bytes()[..], &[0]].concat());
    let provoked = Some("provoked_resets");
    let empty = (0..STREAMS).flat_map(|at| frame(HEADERS, END | END_HEADERS, at * 2 + 1, &[])).collect();
    vec![
        // A reset that comes with its request is known before an endpoint is.
        Attack {
            asks: 60,
            ..Attack::flood("rapid resets", Some("resets"), each("/", &|at| reset(at, CANCEL)))
        },
        Attack::flood(
            "windows over their bound",
            provoked,
            each("/silent", &|at| window_update(at, 0x7fff_ffff)),
        ),
        // The codec ends the connection at the first of these two.
        Attack::ended(
            "windows opened by nothing",
            None,
            PROTOCOL_ERROR,
            each("/silent", &|at| window_update(at, 0)),
        ),
        Attack::flood("streams that depend on themselves", provoked, each("/silent", &of_itself)),
        Attack::ended(
            "DATA behind the end",
            None,
            PROTOCOL_ERROR,
            each("/silent", &|at| frame(DATA, END, at, b"x")),
        ),
        Attack::flood("empty HEADERS", provoked, empty),
    ]
}

/// D8, CVE-2024-27316: field sections without end.
pub fn sections() -> Vec<Attack> {
    let begun = frame(HEADERS, END, 1, &section("GET", "/", &[]));
    let growing = literal("x", &"y".repeat(16_000));
    let then = |frame: Vec<u8>, count| [&begun[..], &frame.repeat(count)].concat();
    let empty = |count| then(frame(CONTINUATION, 0, 1, &[]), count);
    vec![
        Attack::flood("empty CONTINUATION", Some("continuations"), empty(1000)),
        Attack::flood("100,000 empty CONTINUATION", Some("continuations"), empty(100_000)),
        Attack::flood(
            "growing CONTINUATION",
            Some("field_section"),
            then(frame(CONTINUATION, 0, 1, &growing), 7),
        ),
    ]
}

/// D8, CVE-2019-9512 to -9518: frames that carry nothing.
pub fn empty_frames() -> Vec<Attack> {
    let upload = frame(HEADERS, END_HEADERS, 1, &section("POST", "/silent", &[]));
    let on_upload = |frame: Vec<u8>| [&upload[..], &frame.repeat(4000)].concat();
    let thrash = [settings(&[(TABLE_SIZE, 4096)]), settings(&[(TABLE_SIZE, 0)])].concat();
    let padding = frame(DATA, PADDED, 1, &[9, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    vec![
        Attack::flood("SETTINGS", Some("settings"), settings(&[]).repeat(300)),
        Attack::flood("table thrash", Some("settings"), thrash.repeat(150)),
        Attack::flood("PING", Some("pings"), frame(PING, 0, 0, &[0; 8]).repeat(4000)),
        Attack::flood("PRIORITY", Some("priorities"), frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 0]).repeat(4000)),
        Attack::flood("unknown frames", Some("other_frames"), frame(0x77, 0, 0, &[0; 8]).repeat(4000)),
        Attack::flood("empty DATA", Some("empty_data"), on_upload(frame(DATA, 0, 1, &[]))),
        // Padding alone is no payload either; the codec itself ends the connection after a hundred such frames.
        Attack::flood("padding", None, on_upload(padding)),
    ]
}

/// D9: what is small on the wire and large, or many, behind it. Answered or refused, never held.
pub fn bombs() -> Vec<Attack> {
    // Of the dynamic table: an entry is put in, and then named again and again.
    let entry = |name: &str, value: &str| {
        let mut field = literal(name, value);
        field[0] = 0x40;
        field
    };
    let bomb = |name, first: Vec<u8>, count| {
        let block = [section("GET", "/", &[]), first, vec![0xbe; count]].concat();
        let (head, rest) = block.split_at(block.len().min(16_384));
        let mut wire = frame(HEADERS, if rest.is_empty() { END | END_HEADERS } else { END }, 1, head);
        if !rest.is_empty() {
            wire.extend(frame(CONTINUATION, END_HEADERS, 1, rest));
        }
        let act = move |open: Open<'_>| {
            let mut clients: Vec<Frames> = (0..AT_ONCE)
                .map(|_| {
                    let client = Frames::over(open(), &[(INITIAL_WINDOW, 0)]);
                    client.send(wire.clone());
                    client
                })
                .collect();
            for client in &mut clients {
                let refused = client.until(|frame| match (frame.status(), frame.code()) {
                    (None, None) => None,
                    (status, code) => Some(status == Some(431) || code.is_some()),
                });
                assert!(refused, "{name}");
            }
            clients
        };
        let flood = (count > 1000).then_some("field_section");
        Attack { asks: 0, floods: AT_ONCE as u32, ..Attack::new(name, flood, act) }
    };
    vec![
        bomb("a large entry again and again", entry("x", &"y".repeat(4000)), 15_000),
        bomb("an empty entry again and again", entry("x", ""), 16_000),
        bomb("16,000 crumbs of a cookie", entry("cookie", "a"), 16_000),
        bomb("a few crumbs too many", entry("cookie", "a"), 200),
    ]
}

/// D8, D10 and E1: windows, and connections, that do not go on or hardly.
pub fn windows() -> Vec<Attack> {
    let stalls = Attack::new("a hundred answers that nobody reads", None, |open| {
        let mut client = Frames::over(open(), &[(INITIAL_WINDOW, 0)]);
        client.send((0..STALLS).flat_map(|at| request(at * 2 + 1, "/large")).collect::<Vec<_>>());
        let mut answered = 0;
        client.until(|frame| {
            answered += u32::from(frame.status() == Some(200));
            (answered == STALLS).then_some(())
        });
        vec![client]
    });
    let prefaces = Attack::new("prefaces that do not go on", None, |open| {
        let begun = [&PREFACE[..10], PREFACE, &[PREFACE, &[0, 0, 0, 4]].concat()].map(<[u8]>::to_vec);
        let begin = |at: usize| {
            let client = open();
            client.send(begun[at % begun.len()].clone());
            client
        };
        for mut client in (0..AT_ONCE).map(begin).collect::<Vec<_>>() {
            assert_ne!(client.read_to_end(Instant::now() + STEP), Event::Late, "a preface is waited for");
        }
        Vec::new()
    });
    vec![
        Attack::new("windows opened by crumbs", Some("window_updates"), crumbs),
        Attack { resident: 8 << 20, live: 8 << 20, ..stalls },
        Attack { more: "defaults: { timeouts: { head: 1s } }", ..prefaces },
        Attack::new("frames that never end where a receive does", None, shifted),
    ]
}

/// An upload that the endpoint reads at once; every receive also brings five bytes of the next frame's head.
fn shifted(open: Open<'_>) -> Vec<Frames> {
    const FRAMES: usize = 16 * 1024;
    const PAYLOAD: usize = 1024 - 9;
    let mut client = Frames::over(open(), &[]);
    let whole = frame(DATA, 0, 1, &[b'x'; PAYLOAD]);
    let (part, rest) = whole.split_at(5);
    let upload = frame(HEADERS, END_HEADERS, 1, &section("POST", "/sink", &[]));
    client.send([&upload[..], &frame(PING, 0, 0, &[7; 8]), part].concat());
    let next = [rest, part].concat();
    // The initial windows: of the stream from the proxy's settings, of the connection from RFC 9113.
    let (mut stream, mut connection, mut sent, mut is_shifted) = (128_usize << 10, 65_535_usize, 0, false);
    while sent < FRAMES {
        // The started frame has already used its part of the window.
        let room = (stream.min(connection) / PAYLOAD).saturating_sub(1);
        let count = if is_shifted { room.min(FRAMES - sent) } else { 0 };
        client.send(next.repeat(count));
        (sent, stream, connection) = (sent + count, stream - count * PAYLOAD, connection - count * PAYLOAD);
        if sent < FRAMES {
            let frame = client.next(Instant::now() + STEP).unwrap();
            assert_eq!(frame.code(), None, "{frame:?} after {sent} frames");
            is_shifted |= frame.kind == PING;
            let more = frame.increment().unwrap_or(0);
            *(if frame.stream == 0 { &mut connection } else { &mut stream }) += more;
        }
    }
    vec![client]
}

/// The window is opened byte by byte, and every byte is asked for.
fn crumbs(open: Open<'_>) -> Vec<Frames> {
    let mut client = Frames::over(open(), &[(INITIAL_WINDOW, 0)]);
    client.send(request(1, "/large"));
    assert_eq!(client.answer(1), Ok(200));
    // At most what the budget gives in the time that this may take.
    for _ in 0..20_000 {
        client.send(window_update(1, 1));
        let next = client.next(Instant::now() + STEP).unwrap();
        if next.kind != DATA {
            assert_eq!(next.code(), Some(ENHANCE_YOUR_CALM), "{next:?}");
            assert_eq!(client.ending().event, Event::End);
            return Vec::new();
        }
        assert_eq!(next.payload.len(), 1);
    }
    panic!("20,000 crumbs and no end");
}

/// The HTTP/1.1 endpoint of these attacks: `/large` is a mebibyte, `/silent` never answers, `/sink` takes a body, all
/// other paths answer hello.
#[derive(Debug)]
pub struct Attacked {
    bare: Bare,
    asked: Arc<AtomicU64>,
}

impl Attacked {
    /// Starts it.
    pub fn start() -> Self {
        let asked = Arc::new(AtomicU64::new(0));
        let (count, large) = (Arc::clone(&asked), ok(&"x".repeat(1 << 20)));
        let bare = Bare::start(move |talk| {
            loop {
                let head = talk.head()?;
                count.fetch_add(1, Ordering::Relaxed);
                match head.target() {
                    // It ends when its client does.
                    "/silent" => return talk.rest().map(drop),
                    "/large" => talk.send(&large)?,
                    "/sink" => {
                        talk.body(&head).each(|_| {})?;
                        talk.send(ok("taken"))?;
                    }
                    _ => talk.send(ok("hello"))?,
                }
            }
        });
        Self { bare, asked }
    }

    /// Its URL, as the configuration wants it.
    pub fn url(&self) -> String {
        self.bare.url()
    }

    /// Requests that came to it.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}
