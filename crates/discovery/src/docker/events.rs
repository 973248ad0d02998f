//! The stream of events of Docker: one JSON object after the other.

use crate::flaw;
use serde::Deserialize;
use std::collections::BTreeMap;
use thalweg_client::BodyStream;

/// What is asked for. Without it health checks alone send three events each.
pub(super) const FILTERS: &str = r#"{"type":["container","network"],"event":["start","restart","die","kill","pause","unpause","health_status","destroy","rename","connect","disconnect"]}"#;
/// Longest event, in bytes.
const EVENT: usize = 256 * 1024;
/// Docker's own, where an image names none: SIGTERM.
const TERM: u8 = 15;

/// What happened to a container.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Event {
    /// It was sent a signal.
    Signal {
        /// Its ID.
        container: String,
        /// The number.
        signal: u8,
    },
    /// It has begun to run.
    Started {
        /// Its ID.
        container: String,
    },
    /// Something after which the list may be another.
    Other,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct DockerMessageSpec {
    action: String,
    actor: DockerActorSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DockerActorSpec {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "Attributes")]
    attributes: BTreeMap<String, String>,
}

/// The stream.
pub(super) struct Events {
    body: BodyStream,
    /// What has come and is no whole line yet.
    rest: Vec<u8>,
}

impl Events {
    pub(super) fn new(body: BodyStream) -> Self {
        Self { body, rest: Vec::new() }
    }

    /// The next event. Cancel-safe.
    ///
    /// # Errors
    /// A sentence: it has ended, or cannot be understood.
    pub(super) async fn next(&mut self) -> Result<Event, String> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return event(&line);
            }
            if self.rest.len() > EVENT {
                return Err(format!("an event has more than {} KiB", EVENT >> 10));
            }
            match self.body.next().await.map_err(|error| format!("the stream of events: {error}"))? {
                Some(piece) => self.rest.extend_from_slice(&piece),
                None => return Err("the stream of events has ended".to_owned()),
            }
        }
    }
}

fn event(line: &[u8]) -> Result<Event, String> {
    let message: DockerMessageSpec = serde_json::from_slice(line)
        .map_err(|error| format!("an event cannot be read: {}", flaw::json(&error)))?;
    let (container, signal) = (message.actor.id, message.actor.attributes.get("signal"));
    Ok(match (&*message.action, signal.and_then(|signal| number(signal))) {
        ("kill", Some(signal)) => Event::Signal { container, signal },
        ("start", _) => Event::Started { container },
        _ => Event::Other,
    })
}

/// The signal by which a container is told to stop, of an answer to `GET /containers/ID/json`.
pub(super) fn stop_signal(answer: &[u8]) -> Option<u8> {
    let read: serde_json::Value = serde_json::from_slice(answer).ok()?;
    match read.get("Config")?.get("StopSignal").and_then(|signal| signal.as_str()) {
        None | Some("") => Some(TERM),
        Some(signal) => number(signal),
    }
}

/// Of a signal that images and people name.
fn number(signal: &str) -> Option<u8> {
    if let Ok(number) = signal.parse() {
        return Some(number);
    }
    Some(match signal.strip_prefix("SIG").unwrap_or(signal) {
        "HUP" => 1,
        "INT" => 2,
        "QUIT" => 3,
        "KILL" => 9,
        "USR1" => 10,
        "USR2" => 12,
        "TERM" => TERM,
        "WINCH" => 28,
        // systemd as the first process.
        "RTMIN+3" => 37,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_told_with_its_number() {
        let line = br#"{"status":"kill","id":"a","Type":"container","Action":"kill",
            "Actor":{"ID":"a","Attributes":{"image":"i","signal":"15"}},"time":1}"#;
        assert_eq!(event(line), Ok(Event::Signal { container: "a".to_owned(), signal: 15 }));
        let start = br#"{"Type":"container","Action":"start","Actor":{"ID":"a","Attributes":{}}}"#;
        assert_eq!(event(start), Ok(Event::Started { container: "a".to_owned() }));
        assert_eq!(event(br#"{"Action":"health_status: healthy"}"#), Ok(Event::Other));
        assert!(event(b"HTTP").is_err());
    }

    #[test]
    fn the_stop_signal_is_that_of_the_image_or_sigterm() {
        let of = |signal: &str| stop_signal(format!(r#"{{"Config":{{{signal}}}}}"#).as_bytes());
        assert_eq!(of(""), Some(15));
        assert_eq!(of(r#""StopSignal":"SIGQUIT""#), Some(3));
        assert_eq!(of(r#""StopSignal":"28""#), Some(28));
        assert_eq!(of(r#""StopSignal":"x""#), None);
    }
}
