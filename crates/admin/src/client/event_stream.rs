//! Server-sent events (the HTML standard, §9.2), as far as the admin API sends them: pieces of a body in, events out.

use std::mem::take;

/// Largest line and largest event, in bytes.
const MOST: usize = 4 * 1024 * 1024;

/// An event.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StreamEvent {
    /// Its kind; `message` unless it is named.
    pub kind: String,
    /// Its data; several lines are joined with line feeds.
    pub data: String,
}

/// Reads a stream.
#[derive(Debug, Default)]
pub(super) struct EventParser {
    line: Vec<u8>,
    kind: String,
    data: Option<String>,
}

impl EventParser {
    /// The events that a piece completes.
    ///
    /// # Errors
    /// An event is too large.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<Vec<StreamEvent>, String> {
        let mut events = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + part.len() + self.data.as_ref().map_or(0, String::len) > MOST {
                return Err(format!("an event has more than {MOST} bytes"));
            }
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = take(&mut self.line);
                events.extend(self.end_line(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n'])));
            }
        }
        Ok(events)
    }

    fn end_line(&mut self, line: &str) -> Option<StreamEvent> {
        if line.is_empty() {
            let kind = take(&mut self.kind);
            let data = self.data.take()?;
            return Some(StreamEvent { kind: if kind.is_empty() { "message".into() } else { kind }, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.kind),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // A comment, an id, or what is not for us.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_they_are_cut_into_pieces() {
        let text =
            ": alive\n\nevent: exchange\nid: 7\ndata: {\"a\":\ndata: 1}\n\ndata:x\r\n\r\nevent: none\n\n";
        let event = |kind: &str, data: &str| StreamEvent { kind: kind.into(), data: data.into() };
        let expected = [event("exchange", "{\"a\":\n1}"), event("message", "x")];
        for size in 1..=text.len() {
            let mut parser = EventParser::default();
            let pieces = text.as_bytes().chunks(size).map(|piece| parser.push(piece).unwrap());
            assert_eq!(pieces.flatten().collect::<Vec<_>>(), expected, "{size}");
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut parser = EventParser::default();
        let piece = vec![b'a'; MOST / 2];
        assert!(parser.push(&piece).is_ok() && parser.push(&piece).is_ok() && parser.push(b"a").is_err());
    }
}
