//! The clients: a fixed number of connections at a bounded rate, with GET and PUT, each answer checked to the byte.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thalweg_tests::endpoint::{PIECE, PIECES, TRICKLE};
use thalweg_tests::{STEP, Talk};

use super::ENDPOINTS;

const CLIENTS: usize = 32;
/// From the begin of one request to that of the next, where the answer does not take longer.
const PACE: Duration = Duration::from_millis(60);
/// One of so many answers comes slowly, so that some are under way whenever an endpoint dies.
const TRICKLES: u64 = 8;

/// A request whose response did not come whole.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// Whose response it was, by position; `None`: it had not begun, or was not what it had to be.
    pub(super) endpoint: Option<usize>,
    pub(super) id: String,
    pub(super) why: String,
    pub(super) asked: Instant,
    pub(super) at: Instant,
}

/// What became of all requests.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) asked: u64,
    pub(super) answered: u64,
    /// Those whose response had begun.
    pub(super) cut: Vec<Cut>,
    pub(super) failed: Vec<Cut>,
    pub(super) took: Duration,
}

#[derive(Debug)]
struct Shared {
    names: [&'static str; ENDPOINTS],
    stop: AtomicBool,
    asked: AtomicU64,
    answered: [AtomicU64; ENDPOINTS],
    /// Bodies under way, by endpoint.
    bodies: Mutex<[u32; ENDPOINTS]>,
    cuts: Mutex<Vec<Cut>>,
    progress: (Mutex<()>, Condvar),
}

/// The running clients.
#[derive(Debug)]
pub(super) struct Clients {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    begun: Instant,
}

impl Clients {
    pub(super) fn start(address: SocketAddr, names: [&'static str; ENDPOINTS]) -> Self {
        let shared = Arc::new(Shared {
            names,
            stop: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            answered: Default::default(),
            bodies: Mutex::default(),
            cuts: Mutex::default(),
            progress: Default::default(),
        });
        let begun = Instant::now();
        let threads = (0..CLIENTS)
            .map(|client| {
                let shared = Arc::clone(&shared);
                // Not all in the same moment.
                let first = begun + PACE * client as u32 / CLIENTS as u32;
                thread::spawn(move || live(client, first, address, &shared))
            })
            .collect();
        Self { shared, threads, begun }
    }

    fn settled(&self) -> u64 {
        let answered = self.shared.answered.iter().map(|count| count.load(Ordering::Relaxed));
        answered.sum::<u64>() + self.cuts().len() as u64
    }

    fn cuts(&self) -> Vec<Cut> {
        self.shared.cuts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until something is so, which is looked at whenever a request has been settled or a body has begun.
    fn wait_until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let end = Instant::now() + STEP * 3;
        let mut guard = self.shared.progress.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !is_so() {
            assert!(Instant::now() < end, "no {what}; {} requests are settled", self.settled());
            let waited = self.shared.progress.1.wait_timeout(guard, Duration::from_millis(50));
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until so many more requests are settled.
    pub(super) fn wait_for(&self, count: u64) {
        let total = self.settled() + count;
        self.wait_until("progress", || self.settled() >= total);
    }

    /// Waits until a body of this endpoint is under way.
    pub(super) fn wait_body(&self, endpoint: usize) {
        let bodies = || self.shared.bodies.lock().unwrap_or_else(PoisonError::into_inner)[endpoint];
        self.wait_until("body under way", || bodies() > 0);
    }

    /// How the next so many answers are shared by the endpoints.
    pub(super) fn shares(&self, count: u64) -> [u64; ENDPOINTS] {
        let look = || self.shared.answered.each_ref().map(|count| count.load(Ordering::Relaxed));
        let before = look();
        self.wait_for(count);
        let after = look();
        std::array::from_fn(|at| after[at] - before[at])
    }

    pub(super) fn stop(mut self) -> Outcome {
        self.shared.stop.store(true, Ordering::Release);
        let took = self.begun.elapsed();
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        let shared = &self.shared;
        let cuts = shared.cuts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (cut, failed) = cuts.into_iter().partition(|cut| cut.endpoint.is_some());
        Outcome {
            asked: shared.asked.load(Ordering::Relaxed),
            answered: shared.answered.iter().map(|count| count.load(Ordering::Relaxed)).sum(),
            cut,
            failed,
            took,
        }
    }
}

/// Of a test that has failed too: its clients would ask whoever has the port next.
impl Drop for Clients {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
    }
}

/// A response that is not whole: whose it was where it had begun, and what happened.
struct Broken(Option<usize>, String);

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self(None, error.to_string())
    }
}

fn live(client: usize, first: Instant, address: SocketAddr, shared: &Shared) {
    let (mut open, mut due) = (None, first);
    for number in 0.. {
        // The pace of the load, not a wait for something.
        thread::sleep(due.saturating_duration_since(Instant::now()));
        due = (due + PACE).max(Instant::now());
        if shared.stop.load(Ordering::Acquire) {
            return;
        }
        let (id, asked) = (format!("{client}-{number}"), Instant::now());
        shared.asked.fetch_add(1, Ordering::Relaxed);
        match ask(&mut open, address, (&id, number + client as u64), shared) {
            Ok(endpoint) => {
                shared.answered[endpoint].fetch_add(1, Ordering::Relaxed);
            }
            Err(Broken(endpoint, why)) => {
                open = None;
                let cut = Cut { endpoint, id, why, asked, at: Instant::now() };
                shared.cuts.lock().unwrap_or_else(PoisonError::into_inner).push(cut);
            }
        }
        shared.progress.1.notify_all();
    }
}

/// Asks once and checks the answer; says whose it was.
fn ask(
    open: &mut Option<Talk>,
    address: SocketAddr,
    (id, number): (&str, u64),
    shared: &Shared,
) -> Result<usize, Broken> {
    let talk = match open {
        Some(talk) => talk,
        None => open.insert(Talk::open(address)?),
    };
    let trickles = number % TRICKLES == 0;
    let path = if trickles { TRICKLE } else { "/" };
    let body = if number % 3 == 0 { format!("body of {id}") } else { String::new() };
    let (method, len) = if body.is_empty() { ("GET", 0) } else { ("PUT", body.len()) };
    let length = if len > 0 { format!("Content-Length: {len}\r\n") } else { String::new() };
    talk.send(format!("{method} {path} HTTP/1.1\r\nHost: chaos.test\r\nX-Id: {id}\r\n{length}\r\n{body}"))?;
    let head = talk.head()?;
    let name = head.value("x-endpoint").unwrap_or_default();
    let endpoint = shared.names.iter().position(|known| *known == name);
    let Some(endpoint) = endpoint.filter(|_| head.status() == 200) else {
        let why = format!("{} by {name:?}, {:?}", head.start, head.value("proxy-status"));
        return Err(Broken(None, why));
    };
    let mut expected = format!("{name} {id} {body}").into_bytes();
    if trickles {
        expected.resize(PIECES * PIECE, b'.');
    }
    let under_way = |add: i32| {
        let mut bodies = shared.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        bodies[endpoint] = bodies[endpoint].saturating_add_signed(add);
    };
    under_way(1);
    let mut seen = Vec::new();
    let read = talk.body(&head).each(|piece| seen.extend_from_slice(piece));
    under_way(-1);
    if !expected.starts_with(&seen) {
        let seen = String::from_utf8_lossy(&seen).into_owned();
        return Err(Broken(None, format!("the answer of {name} is {seen:?}")));
    }
    match read {
        Ok(_) if seen == expected => Ok(endpoint),
        Ok(len) => Err(Broken(None, format!("{len} bytes of {name}, which seemed whole"))),
        Err(error) => Err(Broken(Some(endpoint), error.to_string())),
    }
}
