//! A ZooKeeper session without its connection, for callers that act as the server (tests and fuzzing).

use super::session::Session;
use crate::kept::{Document, document};
use std::fmt;

/// A session that reads the children of nodes as documents: sans-I/O, with bytes in and out.
pub struct Conversation {
    session: Session<Document>,
    known: usize,
}

impl Conversation {
    /// A new session for the nodes at these paths.
    pub fn about(paths: &[&str]) -> Self {
        Self { session: Session::new(paths.iter().map(|path| (*path).to_owned()), document), known: 0 }
    }

    /// The concatenated frames to send now.
    pub fn outgoing(&mut self) -> Vec<u8> {
        self.session.outgoing()
    }

    /// Takes a frame of the server, without its length.
    ///
    /// # Errors
    /// A sentence: why the session has ended or is unusable.
    pub fn take(&mut self, frame: &[u8]) -> Result<(), String> {
        self.session.take(frame)
    }

    /// The number of documents in the last report of every node.
    pub fn documents(&mut self) -> usize {
        if let Some(known) = self.session.news(true).map(|(_, kept)| kept.count()).reduce(|a, b| a + b) {
            self.known = known;
        }
        self.known
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a session that knows {} documents", self.known)
    }
}
