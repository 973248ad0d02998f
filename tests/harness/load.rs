//! Load: many keep-alive clients, each of which knows of every request whether and how it failed.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::message::Kind;
use crate::{Connection, Message, STEP};

/// A request that was not answered with 2xx.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What the client saw.
    pub reason: String,
    /// Whether a response byte had come.
    pub begun: bool,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    answered: AtomicU64,
    failures: Mutex<Vec<Failure>>,
    progress: (Mutex<()>, Condvar),
}

/// Clients that ask for `/` as fast as they are answered, until told to stop.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts so many clients.
    pub fn start(address: SocketAddr, clients: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let clients = (0..clients)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || ask(address, &shared))
            })
            .collect();
        Self { shared, clients }
    }

    /// How many requests were answered with 2xx.
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// Waits until `count` more requests have been answered or have failed.
    ///
    /// # Panics
    /// When that takes longer than three steps.
    pub fn wait_for(&self, count: u64) {
        let (total, end) = (self.settled() + count, Instant::now() + STEP * 3);
        let mut guard = self.shared.progress.0.lock().unwrap_or_else(PoisonError::into_inner);
        while self.settled() < total {
            assert!(Instant::now() < end, "the load stands still at {} requests", self.settled());
            let waited = self.shared.progress.1.wait_timeout(guard, Duration::from_millis(100));
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn settled(&self) -> u64 {
        let failures = self.shared.failures.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.answered() + u64::try_from(failures).unwrap_or(u64::MAX)
    }

    /// Stops the clients; tells how many requests were answered and which failed.
    pub fn stop(mut self) -> (u64, Vec<Failure>) {
        self.shared.stop.store(true, Ordering::Release);
        for client in self.clients.drain(..) {
            client.join().unwrap();
        }
        let failures = self.shared.failures.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (self.shared.answered.load(Ordering::Relaxed), failures)
    }
}

/// Of a test that has failed too: its clients would ask whoever has the port next.
impl Drop for Load {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
    }
}

fn ask(address: SocketAddr, shared: &Shared) {
    let mut open = None;
    while !shared.stop.load(Ordering::Acquire) {
        let failure = match once(&mut open, address) {
            Ok(()) => {
                shared.answered.fetch_add(1, Ordering::Relaxed);
                None
            }
            Err(failure) => Some(failure),
        };
        if let Some(failure) = failure {
            open = None;
            shared.failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
        }
        shared.progress.1.notify_all();
    }
}

fn once(open: &mut Option<Connection>, address: SocketAddr) -> Result<(), Failure> {
    let failed = |reason: String, begun| Failure { reason, begun };
    let mut connection = match open.take() {
        Some(connection) => connection,
        None => Connection::open(address).map_err(|error| failed(error.to_string(), false))?,
    };
    connection.send("GET / HTTP/1.1\r\nHost: load.test\r\n\r\n");
    match Message::read(&mut connection, Kind::Response, Instant::now() + STEP) {
        Ok(answer) if (200..300).contains(&answer.status()) => {
            let closes = answer.value("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
            *open = (!closes).then_some(connection);
            Ok(())
        }
        Ok(answer) => Err(failed(format!("{} {:?}", answer.start, answer.value("proxy-status")), false)),
        Err(reason) => Err(failed(reason, !connection.seen().is_empty())),
    }
}
