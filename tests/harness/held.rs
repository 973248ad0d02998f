//! An upstream whose long responses and tunnels last until the test lets them end.
//!
//! `/long`: a head and a first chunk at once, the rest when [`Held::release`] is called. An upgrade: a tunnel that
//! echoes. Everything else: 200 and the upstream's name.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::talk::chunk;
use crate::upstream::{Listener, ok};
use crate::{STEP, Talk};

type Waiting = Arc<Mutex<Vec<Sender<()>>>>;

/// A running one.
#[derive(Debug)]
pub struct Held {
    listener: Listener,
    waiting: Waiting,
}

impl Held {
    /// Starts one that answers with `name`.
    pub fn start(name: &'static str) -> Self {
        let (accepted, connections): (_, Receiver<TcpStream>) = mpsc::channel();
        let waiting = Waiting::default();
        let shared = Arc::clone(&waiting);
        thread::spawn(move || {
            for stream in connections {
                let waiting = Arc::clone(&shared);
                thread::spawn(move || {
                    // However a client leaves: the connection is over.
                    let _ = serve(Talk::new(stream), name, &waiting);
                });
            }
        });
        Self { listener: Listener::start(accepted), waiting }
    }

    /// Its URL, as the configuration wants it.
    pub fn url(&self) -> String {
        format!("http://{}", self.listener.address())
    }

    /// Lets every long response end.
    pub fn release(&self) {
        for waiting in self.waiting.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = waiting.send(());
        }
    }
}

fn serve(mut talk: Talk, name: &str, waiting: &Waiting) -> std::io::Result<()> {
    loop {
        let request = talk.head()?;
        if request.value("upgrade").is_some() {
            talk.send(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            )?;
            return echo(talk.stream());
        }
        if request.target() == "/long" {
            let (release, released) = mpsc::channel();
            waiting.lock().unwrap_or_else(PoisonError::into_inner).push(release);
            let first = chunk(b"begun ");
            talk.send(
                [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".as_slice(), &first].concat(),
            )?;
            // A test that is over releases nobody.
            if released.recv_timeout(STEP * 4).is_err() {
                return Ok(());
            }
            talk.send([chunk(b"ended"), b"0\r\n\r\n".to_vec()].concat())?;
        } else {
            let body = talk.body(&request).each(|_| {});
            body?;
            talk.send(ok(name))?;
        }
    }
}

fn echo(mut stream: &TcpStream) -> std::io::Result<()> {
    let mut bytes = [0; 1024];
    loop {
        let len = stream.read(&mut bytes)?;
        if len == 0 {
            return Ok(());
        }
        stream.write_all(&bytes[..len])?;
    }
}
