//! A session without its connection, for a caller that plays the server.

use super::session::Session;
use crate::kept::{Document, document};
use std::fmt;

/// A session that keeps the children of nodes as documents. Bytes go in and out; nothing is sent.
pub struct Conversation {
    session: Session<Document>,
    known: usize,
}

impl Conversation {
    /// A session that has asked nothing yet, about the nodes at these paths.
    pub fn about(paths: &[&str]) -> Self {
        Self { session: Session::new(paths.iter().map(|path| (*path).to_owned()), document), known: 0 }
    }

    /// The frames that are to be sent now, one after the other.
    pub fn outgoing(&mut self) -> Vec<u8> {
        self.session.outgoing()
    }

    /// Takes a frame of the server, without its length.
    ///
    /// # Errors
    /// A sentence: the session is over, or of no use.
    pub fn take(&mut self, frame: &[u8]) -> Result<(), String> {
        self.session.take(frame)
    }

    /// How many documents there are, of all nodes that were told last.
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
