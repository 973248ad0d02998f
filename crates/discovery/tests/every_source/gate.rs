//! A door before a server: open, shut, silent, or with somebody behind it who talks nonsense.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const OPEN: u8 = 0;
const SHUT: u8 = 1;
const SILENT: u8 = 2;
const NONSENSE: u8 = 3;
const GONE: u8 = 4;
/// How often it is looked whether the door has moved.
const LOOK: Duration = Duration::from_millis(10);
/// For every connection to have seen it.
const SEEN: Duration = Duration::from_secs(30);

/// Connections to [`Self::address`] go on to the server, as long as it is open.
pub(crate) struct Gate {
    address: SocketAddr,
    door: Arc<Door>,
    nonsense: &'static [u8],
}

/// What connections look at, and what they say.
#[derive(Default)]
struct Door {
    mode: AtomicU8,
    /// How often all connections were broken.
    broken: AtomicUsize,
    /// Connections.
    open: AtomicUsize,
    /// Those that carry nothing now.
    silent: AtomicUsize,
}

impl Gate {
    /// In front of this server; `nonsense` is what it says to each connection while it is garbled.
    pub(crate) fn before(server: SocketAddr, nonsense: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let door = Arc::new(Door::default());
        let gate = Self { address, door: door.clone(), nonsense };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                match door.mode.load(Ordering::SeqCst) {
                    GONE => return,
                    SHUT => drop(stream),
                    _ => {
                        let door = door.clone();
                        std::thread::spawn(move || {
                            door.open.fetch_add(1, Ordering::SeqCst);
                            relay(stream, server, &door, nonsense);
                            door.open.fetch_sub(1, Ordering::SeqCst);
                        });
                    }
                }
            }
        });
        gate
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections through it.
    pub(crate) fn connections(&self) -> usize {
        self.door.open.load(Ordering::SeqCst)
    }

    pub(crate) fn cut(&self) {
        self.door.mode.store(SHUT, Ordering::SeqCst);
    }

    pub(crate) fn garble(&self) {
        assert!(!self.nonsense.is_empty(), "what is nonsense for this source");
        self.door.mode.store(NONSENSE, Ordering::SeqCst);
    }

    /// Breaks every connection; new ones can be made at once.
    pub(crate) fn interrupt(&self) {
        self.door.broken.fetch_add(1, Ordering::SeqCst);
    }

    /// Connections stay, and carry nothing from here on.
    pub(crate) fn freeze(&self) {
        self.door.mode.store(SILENT, Ordering::SeqCst);
        let end = Instant::now() + SEEN;
        while self.door.silent.load(Ordering::SeqCst) < self.door.open.load(Ordering::SeqCst) {
            assert!(Instant::now() < end, "a connection still carries what comes");
            std::thread::yield_now();
        }
    }

    pub(crate) fn mend(&self) {
        self.door.mode.store(OPEN, Ordering::SeqCst);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.door.mode.store(GONE, Ordering::SeqCst);
        // The one that waits for connections sees it.
        let _ = TcpStream::connect(self.address);
    }
}

fn relay(client: TcpStream, server: SocketAddr, door: &Door, nonsense: &[u8]) {
    let began_after = door.broken.load(Ordering::SeqCst);
    let mode = || door.mode.load(Ordering::SeqCst);
    if mode() == NONSENSE {
        let _ = (&client).write_all(nonsense);
        let _ = client.shutdown(Shutdown::Write);
        return drain(&client, &door.mode);
    }
    let Ok(server) = TcpStream::connect(server) else { return };
    let (mut to_server, mut to_client) = ((&client, &server), (&server, &client));
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(LOOK)).unwrap();
        stream.set_nodelay(true).unwrap();
    }
    // `held`: what came while nobody read it.
    let (mut bytes, mut held) = (vec![0; 64 * 1024], Vec::new());
    // A connection that was there before the server was garbled is one of the server that is gone.
    let is_over =
        || matches!(mode(), SHUT | GONE | NONSENSE) || door.broken.load(Ordering::SeqCst) != began_after;
    while !is_over() {
        if mode() == SILENT {
            door.silent.fetch_add(1, Ordering::SeqCst);
            let is_there = keep(&client, &mut held, || mode() == SILENT && !is_over());
            door.silent.fetch_sub(1, Ordering::SeqCst);
            if !is_there {
                return;
            }
            continue;
        }
        if !held.is_empty() && (&server).write_all(&std::mem::take(&mut held)).is_err() {
            return;
        }
        for (from, to) in [&mut to_server, &mut to_client] {
            match from.read(&mut bytes) {
                Ok(0) => return,
                Ok(count) => {
                    if to.write_all(&bytes[..count]).is_err() {
                        return;
                    }
                }
                Err(error) if would_wait(&error) => {}
                Err(_) => return,
            }
        }
    }
}

/// Keeps what it says: otherwise it could not be seen that it goes. Whether it is still there.
fn keep(mut client: &TcpStream, held: &mut Vec<u8>, is_silent: impl Fn() -> bool) -> bool {
    let mut bytes = [0; 4096];
    while is_silent() {
        match client.read(&mut bytes) {
            Ok(0) => return false,
            Ok(count) => held.extend_from_slice(&bytes[..count]),
            Err(error) if would_wait(&error) => {}
            Err(_) => return false,
        }
    }
    true
}

fn would_wait(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

/// Reads what comes until the client is done, so that what was said reaches it.
fn drain(mut client: &TcpStream, mode: &AtomicU8) {
    let mut bytes = [0; 4096];
    let _ = client.set_read_timeout(Some(LOOK));
    while mode.load(Ordering::SeqCst) == NONSENSE {
        match client.read(&mut bytes) {
            Ok(0) => return,
            Err(error) if !would_wait(&error) => return,
            _ => {}
        }
    }
}
