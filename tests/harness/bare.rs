//! An upstream whose connections the test serves itself, byte by byte, on a thread each.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::Talk;
use crate::upstream::Listener;

/// A listener that gives every connection to a function of the test; it and its connections end on drop.
#[derive(Debug)]
pub struct Bare {
    listener: Option<Listener>,
    address: SocketAddr,
    /// Connections by their peers, who cannot be asked for any more once a connection has been reset.
    open: Arc<Mutex<HashMap<SocketAddr, TcpStream>>>,
}

impl Bare {
    /// Starts it. An error that `serve` returns is the connection's end and nothing more: what went wrong shows at
    /// the client, or in what the test has `serve` tell.
    pub fn start(serve: impl Fn(&mut Talk) -> io::Result<()> + Send + Sync + 'static) -> Self {
        let (accepted, connections) = mpsc::channel();
        let listener = Listener::start(accepted);
        let address = listener.address();
        let open: Arc<Mutex<HashMap<SocketAddr, TcpStream>>> = Arc::default();
        let (serve, held) = (Arc::new(serve), Arc::clone(&open));
        thread::spawn(move || {
            for stream in connections {
                let (Ok(copy), Ok(peer)) = (stream.try_clone(), stream.peer_addr()) else { continue };
                held.lock().unwrap_or_else(PoisonError::into_inner).insert(peer, copy);
                let (serve, held) = (Arc::clone(&serve), Arc::clone(&held));
                thread::spawn(move || {
                    let mut talk = Talk::new(stream);
                    let _ = serve(&mut talk);
                    // The copy would keep the connection open.
                    held.lock().unwrap_or_else(PoisonError::into_inner).remove(&peer);
                });
            }
        });
        Self { listener: Some(listener), address, open }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL, as the configuration wants it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.listener = None;
        for (_, stream) in self.open.lock().unwrap_or_else(PoisonError::into_inner).drain() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}
