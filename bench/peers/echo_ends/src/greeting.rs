//! The begin of a session: what the client sends first, and whether the answer is that of the echo server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::hello::client_hello;
use crate::{Mode, websocket};

/// The longest head of an answer.
const HEAD: usize = 16 * 1024;
/// The type of a record that says in TLS why a connection ends (RFC 8446 §5.1).
const ALERT: u8 = 21;

/// What an answer means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    /// It has not come whole.
    Partial,
    /// The session stands.
    Good,
    /// Somebody says that it will not stand.
    Refused,
    /// It is none that the server gives.
    Broken,
}

/// What the client of a session sends.
pub(crate) fn greeting(mode: Mode, host: &str, session: u32) -> Vec<u8> {
    match mode {
        Mode::Raw => client_hello(host, session),
        Mode::WebSocket => {
            let key = key(session);
            format!(
                "GET /echo HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
            )
            .into_bytes()
        }
    }
}

/// Judges what has come so far.
pub(crate) fn judge(mode: Mode, host: &str, session: u32, answer: &[u8]) -> Answer {
    match mode {
        Mode::Raw if answer.first() == Some(&ALERT) => Answer::Refused,
        Mode::Raw => {
            let whole = client_hello(host, session);
            match whole.strip_prefix(answer) {
                Some([]) => Answer::Good,
                Some(_) => Answer::Partial,
                None => Answer::Broken,
            }
        }
        Mode::WebSocket => match answer.windows(4).position(|four| four == b"\r\n\r\n") {
            None if answer.len() > HEAD => Answer::Broken,
            None => Answer::Partial,
            Some(at) => upgraded(&answer[..at], session, at + 4 == answer.len()),
        },
    }
}

/// Judges the head of an answer in HTTP/1.1 (RFC 6455 §4.1).
fn upgraded(head: &[u8], session: u32, at_its_end: bool) -> Answer {
    let Ok(text) = std::str::from_utf8(head) else { return Answer::Broken };
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3));
    let wanted = websocket::accept(key(session).as_bytes());
    let accepted = lines
        .filter_map(|line| line.split_once(':'))
        .any(|(name, value)| name.eq_ignore_ascii_case("sec-websocket-accept") && value.trim() == wanted);
    match status {
        // The server sends nothing by itself.
        Some("101") if accepted && at_its_end => Answer::Good,
        Some("101") | None => Answer::Broken,
        Some(_) => Answer::Refused,
    }
}

/// 16 bytes that are others in each session.
fn key(session: u32) -> String {
    let mut bytes = [0x5a; 16];
    bytes[..4].copy_from_slice(&session.to_be_bytes());
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_is_good_with_the_right_accept_only() {
        let head = |status: &str, accept: &str| {
            format!("HTTP/1.1 {status}\r\nsec-websocket-accept: {accept}\r\n\r\n").into_bytes()
        };
        let accept = websocket::accept(key(3).as_bytes());
        let judge = |bytes: &[u8]| judge(Mode::WebSocket, "host", 3, bytes);
        let good = head("101 Switching Protocols", &accept);
        assert_eq!(judge(&good), Answer::Good);
        assert_eq!(judge(&good[..good.len() - 1]), Answer::Partial);
        assert_eq!(judge(&[good, b"x".to_vec()].concat()), Answer::Broken);
        assert_eq!(judge(&head("101 Switching Protocols", "other")), Answer::Broken);
        assert_eq!(judge(&head("503 Service Unavailable", &accept)), Answer::Refused);
        assert_eq!(judge(b"no HTTP\r\n\r\n"), Answer::Broken);
    }

    #[test]
    fn a_hello_is_answered_with_itself() {
        let hello = greeting(Mode::Raw, "host", 3);
        let judge = |bytes: &[u8]| judge(Mode::Raw, "host", 3, bytes);
        assert_eq!(judge(&hello), Answer::Good);
        assert_eq!(judge(&hello[..9]), Answer::Partial);
        assert_eq!(judge(&greeting(Mode::Raw, "host", 4)), Answer::Broken);
        assert_eq!(judge(&[ALERT, 3, 3]), Answer::Refused);
    }
}
