//! The backend: answers every request with the same bytes, on connections that it keeps.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;

use crate::bench::configs::BODY;

/// Time after which a silent connection is given up, so that no thread stays behind.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs until it is dropped.
pub(super) struct Backend {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

impl Backend {
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (address, is_over) = (listener.local_addr()?, Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&is_over);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::spawn(move || serve(stream));
            }
        });
        Ok(Self { address, is_over })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // It waits for a connection.
        let _ = TcpStream::connect(self.address);
    }
}

/// One request after the other; requests have no bodies.
fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCache-Control: max-age=3600\r\nContent-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
    loop {
        let received = stream.read(&mut bytes)?;
        if received == 0 {
            return Ok(());
        }
        seen.extend_from_slice(&bytes[..received]);
        if seen.ends_with(b"\r\n\r\n") {
            seen.clear();
            stream.write_all(answer.as_bytes())?;
        }
    }
}
