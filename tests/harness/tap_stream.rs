//! A tap of a running proxy (`GET /api/v1/tap`), event by event.

use std::io::BufRead;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use serde_json::Value;

use crate::Proxy;
use crate::event_stream::{Lines, open};

/// A tap.
pub struct TapStream {
    reader: Lines,
    stream: UnixStream,
}

impl TapStream {
    /// Begins to watch; `query` is what stands behind the question mark.
    ///
    /// # Panics
    /// When the admin API does not answer with a stream.
    pub fn open(proxy: &Proxy, query: &str) -> Self {
        let (reader, stream) = open(proxy, &format!("/api/v1/tap?{query}"));
        Self { reader, stream }
    }

    /// The next event, its kind and its data; `None` at the end of the stream.
    ///
    /// # Panics
    /// When none comes in time.
    pub fn event(&mut self) -> Option<(String, Value)> {
        let (mut kind, mut data) = (String::new(), None);
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            let line = line.trim_end();
            if let Some(text) = line.strip_prefix("event: ") {
                text.clone_into(&mut kind);
            } else if let Some(text) = line.strip_prefix("data: ") {
                data = Some(serde_json::from_str(text).unwrap());
            } else if let (true, Some(data)) = (line.is_empty(), data.take()) {
                return Some((kind, data));
            }
        }
    }

    /// The next exchange.
    ///
    /// # Panics
    /// When something else comes.
    pub fn exchange(&mut self) -> Value {
        match self.event() {
            Some((kind, data)) if kind == "exchange" => data,
            other => panic!("not an exchange: {other:?}"),
        }
    }
}

impl Drop for TapStream {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
