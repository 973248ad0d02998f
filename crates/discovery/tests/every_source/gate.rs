//! A door before a server: open, shut, silent, or with somebody behind it who talks nonsense.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

const OPEN: u8 = 0;
const SHUT: u8 = 1;
const SILENT: u8 = 2;
const NONSENSE: u8 = 3;
const GONE: u8 = 4;
/// How often it is looked whether the door has moved.
const LOOK: Duration = Duration::from_millis(10);

/// Connections to [`Self::address`] go on to the server, as long as it is open.
pub(crate) struct Gate {
    address: SocketAddr,
    mode: Arc<AtomicU8>,
    open: Arc<AtomicUsize>,
    broken: Arc<AtomicUsize>,
    nonsense: &'static [u8],
}

impl Gate {
    /// In front of this server; `nonsense` is what it says to each connection while it is garbled.
    pub(crate) fn before(server: SocketAddr, nonsense: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (mode, open) = (Arc::new(AtomicU8::new(OPEN)), Arc::new(AtomicUsize::new(0)));
        let broken = Arc::new(AtomicUsize::new(0));
        let gate = Self { address, mode: mode.clone(), open: open.clone(), broken: broken.clone(), nonsense };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (mode, open, broken) = (mode.clone(), open.clone(), broken.clone());
                match mode.load(Ordering::SeqCst) {
                    GONE => return,
                    SHUT => drop(stream),
                    _ => drop(std::thread::spawn(move || {
                        open.fetch_add(1, Ordering::SeqCst);
                        relay(stream, server, (&mode, &broken), nonsense);
                        open.fetch_sub(1, Ordering::SeqCst);
                    })),
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
        self.open.load(Ordering::SeqCst)
    }

    pub(crate) fn cut(&self) {
        self.mode.store(SHUT, Ordering::SeqCst);
    }

    pub(crate) fn garble(&self) {
        assert!(!self.nonsense.is_empty(), "what is nonsense for this source");
        self.mode.store(NONSENSE, Ordering::SeqCst);
    }

    /// Breaks every connection; new ones can be made at once.
    pub(crate) fn interrupt(&self) {
        self.broken.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn freeze(&self) {
        self.mode.store(SILENT, Ordering::SeqCst);
    }

    pub(crate) fn mend(&self) {
        self.mode.store(OPEN, Ordering::SeqCst);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.mode.store(GONE, Ordering::SeqCst);
        // The one that waits for connections sees it.
        let _ = TcpStream::connect(self.address);
    }
}

fn relay(client: TcpStream, server: SocketAddr, (mode, broken): (&AtomicU8, &AtomicUsize), nonsense: &[u8]) {
    let began_after = broken.load(Ordering::SeqCst);
    let began_as = mode.load(Ordering::SeqCst);
    if began_as == NONSENSE {
        let _ = (&client).write_all(nonsense);
        let _ = client.shutdown(Shutdown::Write);
        return drain(&client, mode);
    }
    let Ok(server) = TcpStream::connect(server) else { return };
    let (mut to_server, mut to_client) = ((&client, &server), (&server, &client));
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(LOOK)).unwrap();
        stream.set_nodelay(true).unwrap();
    }
    // `held`: what came while nobody read it.
    let (mut bytes, mut held) = (vec![0; 64 * 1024], Vec::new());
    loop {
        let now = mode.load(Ordering::SeqCst);
        // A connection that was there before the server was garbled is one of the server that is gone.
        if now == SHUT || now == GONE || now == NONSENSE || broken.load(Ordering::SeqCst) != began_after {
            return;
        }
        if now == SILENT {
            // What it says is kept: otherwise it could not be seen that it goes.
            match (&client).read(&mut bytes) {
                Ok(0) => return,
                Ok(count) => held.extend_from_slice(&bytes[..count]),
                Err(error) if would_wait(&error) => {}
                Err(_) => return,
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
