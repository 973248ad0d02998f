//! What a handler may know of the connection that it answers on, and say about it.
//!
//! Put into every request by `server`. An answer that goes on for as long as the client listens
//! says so, and then the connection is not closed for its age; in turn it ends when it is told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::sync::watch;

/// One connection of the admin API.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    stopped: watch::Receiver<bool>,
    streams: Arc<AtomicUsize>,
}

/// An answer without an end, while it is under way.
#[derive(Debug)]
pub(crate) struct Streaming(Arc<AtomicUsize>);

impl Connection {
    /// `stopped` turns true when the server is to end.
    pub(crate) fn new(stopped: watch::Receiver<bool>) -> Self {
        Self { stopped, streams: Arc::default() }
    }

    /// Waits until the server is to end. Cancel-safe.
    pub(crate) async fn ending(&mut self) {
        // An error means that the server is gone.
        let _ = self.stopped.wait_for(|stopped| *stopped).await;
    }

    /// From now on and until the answer is dropped, the connection may live long.
    pub(crate) fn streaming(&self) -> Streaming {
        self.streams.fetch_add(1, Relaxed);
        Streaming(Arc::clone(&self.streams))
    }

    /// Whether such an answer is under way.
    pub(crate) fn is_streaming(&self) -> bool {
        self.streams.load(Relaxed) > 0
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
