//! What endpoints of HTTP/2 do that mean harm, or are broken: the counterpart of [`crate::h2_attacks`], with a request
//! of the proxy under way.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Instant;

use crate::h2_frames::{
    CONTINUATION, DATA, END, END_HEADERS, Frames, HEADERS, NO_ERROR, PADDED, PING, PRIORITY, TABLE_SIZE,
    frame, goaway, literal, reset, response, settings, window_update,
};
use crate::upstream::Listener;
use crate::{STEP, connection::Event};

/// PUSH_PROMISE.
const PUSH_PROMISE: u8 = 5;

/// What becomes of the client whose request it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Client {
    /// It gets 502, or 503 where the endpoint refuses all of its attempts: nothing had come that could be passed on.
    Gets502,
    /// It gets the first interim response; what comes behind that is not looked at.
    GetsInterim,
    /// It has got a head, and its response breaks off.
    IsBrokenOff,
    /// It is served, or gets 502 where the connection ended before its response was taken up.
    MayBeServed,
}

/// One of them.
pub struct EndpointAttack {
    /// What it is.
    pub name: &'static str,
    /// What the proxy says of it, where it ends the connection for it.
    pub told: Option<&'static str>,
    /// What becomes of the client.
    pub client: Client,
    /// Whether the connection ends.
    pub ends: bool,
    /// What is said behind a request on this stream.
    wire: fn(u32) -> Vec<u8>,
}

impl EndpointAttack {
    fn flood(name: &'static str, told: &'static str, wire: fn(u32) -> Vec<u8>) -> Self {
        Self { name, told: Some(told), client: Client::Gets502, ends: true, wire }
    }

    /// The engine finds it.
    fn broken(name: &'static str, (client, ends): (Client, bool), wire: fn(u32) -> Vec<u8>) -> Self {
        Self { name, told: None, client, ends, wire }
    }
}

/// All of them.
pub fn all() -> Vec<EndpointAttack> {
    [floods(), sections(), broken()].into_iter().flatten().collect()
}

/// The head of a response that goes on.
fn head(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &literal(":status", "200"))
}

/// The beginning of one.
fn begun(stream: u32) -> Vec<u8> {
    frame(HEADERS, 0, stream, &literal(":status", "200"))
}

/// CVE-2019-9512 to -9518: frames that carry nothing.
pub fn floods() -> Vec<EndpointAttack> {
    let flood = EndpointAttack::flood;
    vec![
        flood("SETTINGS", "too many SETTINGS frames", |_| settings(&[]).repeat(300)),
        flood("table thrash", "too many SETTINGS frames", |_| {
            [settings(&[(TABLE_SIZE, 4096)]), settings(&[(TABLE_SIZE, 0)])].concat().repeat(150)
        }),
        flood("PING", "too many PING frames", |_| frame(PING, 0, 0, &[0; 8]).repeat(4000)),
        flood("PRIORITY", "too many priority frames", |_| {
            frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 0]).repeat(4000)
        }),
        flood("unknown frames", "too many frames that mean nothing", |_| {
            frame(0x77, 0, 0, &[0; 8]).repeat(4000)
        }),
        flood("window updates", "too many WINDOW_UPDATE frames", |_| window_update(0, 1).repeat(4000)),
        flood("GOAWAY", "too many frames that mean nothing", |_| goaway(0x7fff_ffff, NO_ERROR).repeat(4000)),
        flood("PUSH_PROMISE", "too many frames that mean nothing", |stream| {
            let promised = [&2_u32.to_be_bytes()[..], &literal(":method", "GET")].concat();
            frame(PUSH_PROMISE, END_HEADERS, stream, &promised)
        }),
        EndpointAttack {
            client: Client::MayBeServed,
            ..flood("resets of a stream that is over", "too many streams reset", |stream| {
                [response(stream, 200, b"ok"), reset(stream, NO_ERROR).repeat(4000)].concat()
            })
        },
        EndpointAttack {
            client: Client::IsBrokenOff,
            ..flood("empty DATA", "too many DATA frames without payload", |stream| {
                [head(stream), frame(DATA, 0, stream, &[]).repeat(4000)].concat()
            })
        },
    ]
}

/// CVE-2024-27316 and -27919: field sections without end, and what is small on the wire and large behind it.
pub fn sections() -> Vec<EndpointAttack> {
    let flood = EndpointAttack::flood;
    vec![
        flood("empty CONTINUATION", "too many CONTINUATION frames", |stream| {
            [begun(stream), frame(CONTINUATION, 0, stream, &[]).repeat(1000)].concat()
        }),
        EndpointAttack::broken("growing CONTINUATION", (Client::Gets502, true), |stream| {
            let growing = literal("x", &"y".repeat(16_000));
            [begun(stream), frame(CONTINUATION, 0, stream, &growing).repeat(40)].concat()
        }),
        EndpointAttack::broken("a large entry again and again", (Client::Gets502, false), |stream| {
            let mut entry = literal("x", &"y".repeat(4000));
            entry[0] = 0x40;
            let block = [literal(":status", "200"), entry, vec![0xbe; 12_000]].concat();
            frame(HEADERS, END_HEADERS, stream, &block)
        }),
        EndpointAttack::broken("interim responses without end", (Client::GetsInterim, false), |stream| {
            frame(HEADERS, END_HEADERS, stream, &literal(":status", "103")).repeat(1000)
        }),
    ]
}

/// What breaks the rules of streams, windows and the end of a connection.
pub fn broken() -> Vec<EndpointAttack> {
    let broken = EndpointAttack::broken;
    let over_window = |stream| [head(stream), frame(DATA, 0, stream, &[0; 16_000]).repeat(40)].concat();
    vec![
        broken("a window opened by nothing", (Client::Gets502, true), |_| window_update(0, 0)),
        broken("a stream that nobody opened", (Client::Gets502, true), |stream| {
            response(stream + 100, 200, b"ok")
        }),
        broken("a stream of its own", (Client::Gets502, true), |_| response(2, 200, b"ok")),
        broken("DATA before HEADERS", (Client::Gets502, true), |stream| frame(DATA, 0, stream, b"x")),
        broken("a GOAWAY that takes back less than it did", (Client::Gets502, true), |_| {
            [goaway(0, NO_ERROR), goaway(0x7fff_ffff, NO_ERROR)].concat()
        }),
        broken("a frame larger than it may be", (Client::Gets502, true), |stream| {
            frame(DATA, 0, stream, &vec![0; 40_000])
        }),
        broken("more padding than payload", (Client::IsBrokenOff, true), |stream| {
            [head(stream), frame(DATA, PADDED, stream, &[200, 0, 0])].concat()
        }),
        broken("padding without end", (Client::IsBrokenOff, true), |stream| {
            let padding = frame(DATA, PADDED, stream, &[9, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            [head(stream), padding.repeat(4000)].concat()
        }),
        broken("more than the window", (Client::IsBrokenOff, false), over_window),
        broken("pseudo-fields in trailers", (Client::IsBrokenOff, false), |stream| {
            let trailers = frame(HEADERS, END | END_HEADERS, stream, &literal(":path", "/"));
            [head(stream), frame(DATA, 0, stream, b"x"), trailers].concat()
        }),
        broken("a second end", (Client::MayBeServed, false), |stream| {
            [response(stream, 200, b"ok"), frame(DATA, END, stream, b"more")].concat()
        }),
    ]
}

/// An endpoint that does one of them when it is told to, and serves one request on each connection before that.
#[derive(Debug)]
pub struct HostileEndpoint {
    listener: Listener,
    is_hostile: Arc<AtomicBool>,
    endings: Receiver<Event>,
}

impl HostileEndpoint {
    /// Starts it.
    pub fn start(attack: EndpointAttack) -> Self {
        let (sender, accepted) = mpsc::channel::<TcpStream>();
        let (tell, endings) = mpsc::channel();
        let listener = Listener::start(sender);
        let is_hostile = Arc::new(AtomicBool::new(false));
        let (attack, hostile) = (Arc::new(attack), Arc::clone(&is_hostile));
        thread::spawn(move || {
            for stream in accepted {
                let (attack, hostile, tell) = (Arc::clone(&attack), Arc::clone(&hostile), tell.clone());
                thread::spawn(move || serve(stream, &attack, &hostile, &tell));
            }
        });
        Self { listener, is_hostile, endings }
    }

    /// Its URL, as the configuration wants it.
    pub fn url(&self) -> String {
        format!("http://{}", self.listener.address())
    }

    /// From now on it attacks, or does not any more.
    pub fn set_hostile(&self, is_hostile: bool) {
        self.is_hostile.store(is_hostile, Ordering::Release);
    }

    /// How the next connection that was attacked comes to its end.
    ///
    /// # Panics
    /// When none does.
    pub fn ending(&self) -> Event {
        self.endings.recv_timeout(STEP).expect("a connection that ends")
    }
}

/// Serves or attacks, as it is told; a connection that was attacked and goes on is served.
fn serve(stream: TcpStream, attack: &EndpointAttack, hostile: &AtomicBool, tell: &Sender<Event>) {
    let mut endpoint = Frames::accept(stream, &[]);
    let mut has_attacked = false;
    loop {
        match endpoint.next(Instant::now() + STEP) {
            Ok(frame) if frame.kind == HEADERS && hostile.load(Ordering::Acquire) => {
                has_attacked = true;
                endpoint.send((attack.wire)(frame.stream));
            }
            // The next request comes on another connection.
            Ok(frame) if frame.kind == HEADERS => {
                let asked = frame.stream;
                endpoint.send([response(asked, 200, b"ok"), goaway(asked, NO_ERROR)].concat());
            }
            Ok(_) => {}
            Err(event) => {
                if has_attacked && event != Event::Late {
                    let _ = tell.send(event);
                }
                return;
            }
        }
    }
}
