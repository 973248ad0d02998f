//! The same expectation where the client speaks HTTP/2: names of fields in lower case and in any order, bodies without
//! chunks.

use super::{Others, Part, Pattern};
use crate::message::find;
use crate::wire::OWN_TO_HTTP1;

/// What a head says of the text behind it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in crate::wire) struct Chunked(bool);

impl Pattern {
    /// Whether it begins with the first line of a message.
    pub(in crate::wire) fn begins_message(&self) -> bool {
        let Some(Part::Literal(text)) = self.parts.first() else { return false };
        let line = &text[..find(text, b"\r\n").unwrap_or(text.len())];
        line.starts_with(b"HTTP/1.1 ") || line.ends_with(b" HTTP/1.1")
    }

    /// What an upstream sees when the client speaks HTTP/2.
    ///
    /// # Errors
    /// Why it has no such form.
    pub(in crate::wire) fn of_http2_request(&self) -> Result<Self, String> {
        let (mut head, body) = split_head(&self.parts)?;
        for part in head.lines.iter_mut().flatten() {
            if let Part::Literal(text) = part
                && text == b"via: 1.1 thalweg\r\n"
            {
                *text = b"via: 2.0 thalweg\r\n".to_vec();
            }
        }
        Ok(head.with(body))
    }

    /// What a client of HTTP/2 sees, as [`crate::wire::http2`] tells it. `chunked` goes from one section to the next.
    ///
    /// # Errors
    /// Why it has no such form.
    pub(in crate::wire) fn of_http2_response(&self, chunked: &mut Chunked) -> Result<Self, String> {
        if !self.begins_message() {
            let parts = if chunked.0 { without_chunks(&self.parts, chunked)? } else { self.parts.clone() };
            return Ok(Self { parts });
        }
        let (mut head, body) = split_head(&self.parts)?;
        let is = |line: &Vec<Part>, name: &str| matches!(line.first(), Some(Part::Literal(text)) if text.starts_with(name.as_bytes()));
        chunked.0 = head.lines.iter().any(|line| is(line, "transfer-encoding: chunked"));
        head.lines.retain(|line| !OWN_TO_HTTP1.iter().any(|name| is(line, &format!("{name}:"))));
        // HTTP/2 has no words for a status.
        if let Some(Part::Literal(start)) = head.start.first_mut() {
            start.truncate(12);
            start.extend_from_slice(b"\r\n");
        }
        head.start.truncate(1);
        let body = if chunked.0 { without_chunks(&body, chunked)? } else { body };
        Ok(head.with(body))
    }
}

struct Head {
    start: Vec<Part>,
    lines: Vec<Vec<Part>>,
    others: Others,
}

impl Head {
    fn with(self, body: Vec<Part>) -> Pattern {
        let mut parts = self.start;
        parts.push(Part::Fields(self.lines, self.others));
        parts.push(Part::Literal(b"\r\n".to_vec()));
        parts.extend(body);
        Pattern { parts }
    }
}

/// Splits a message into the lines of its head, names in lower case, and its body.
fn split_head(parts: &[Part]) -> Result<(Head, Vec<Part>), String> {
    let mut lines: Vec<Vec<Part>> = vec![Vec::new()];
    let mut parts = parts.iter();
    let rest = loop {
        match parts.next().ok_or("a head without its end; say why in `--- http1`")? {
            Part::Literal(text) => {
                if let Some(rest) = take_lines(text, &mut lines) {
                    break rest;
                }
            }
            Part::Fields(fields, _) => {
                let open = lines.pop().unwrap_or_default();
                lines.extend(fields.iter().cloned());
                lines.push(open);
            }
            other => lines.last_mut().unwrap().push(other.clone()),
        }
    };
    let body = [Part::Literal(rest)].into_iter().chain(parts.cloned()).collect();
    let mut lines = lines.into_iter();
    let start = lines.next().unwrap_or_default();
    let (others, lines): (Vec<_>, Vec<_>) =
        lines.filter(|line| !line.is_empty()).partition(|line| matches!(line[..], [Part::Lines, ..]));
    let others = if others.is_empty() { Others::Refused } else { Others::Allowed };
    let lines = lines.into_iter().map(lower_case).collect();
    Ok((Head { start, lines, others }, body))
}

/// Adds a text to the lines; gives what stands behind the empty line.
fn take_lines(text: &[u8], lines: &mut Vec<Vec<Part>>) -> Option<Vec<u8>> {
    let mut rest = text;
    while let Some(len) = find(rest, b"\r\n") {
        let is_first = lines.len() == 1;
        let line = lines.last_mut().unwrap();
        if len == 0 && line.is_empty() && !is_first {
            return Some(rest[2..].to_vec());
        }
        line.push(Part::Literal(rest[..len + 2].to_vec()));
        lines.push(Vec::new());
        rest = &rest[len + 2..];
    }
    if !rest.is_empty() {
        lines.last_mut().unwrap().push(Part::Literal(rest.to_vec()));
    }
    None
}

fn lower_case(mut line: Vec<Part>) -> Vec<Part> {
    if let Some(Part::Literal(text)) = line.first_mut() {
        let end = text.iter().position(|byte| *byte == b':').unwrap_or(0);
        text[..end].make_ascii_lowercase();
    }
    line
}

/// The data of chunks; of trailers their lines and an empty one.
fn without_chunks(parts: &[Part], chunked: &mut Chunked) -> Result<Vec<Part>, String> {
    let mut plain = Vec::new();
    for part in parts {
        match part {
            Part::Chunks(bytes) => plain.push(Part::Literal(bytes.clone())),
            Part::Literal(text) => plain.push(Part::Literal(data_of(text, chunked)?)),
            _ => return Err("chunks with wildcards; say why in `--- http1`".to_owned()),
        }
    }
    Ok(plain)
}

fn data_of(text: &[u8], chunked: &mut Chunked) -> Result<Vec<u8>, String> {
    let (mut data, mut rest) = (Vec::new(), text);
    while let Some(line) = find(rest, b"\r\n") {
        let digits = String::from_utf8_lossy(&rest[..line]).into_owned();
        let len = usize::from_str_radix(&digits, 16).map_err(|_| format!("chunk size {digits:?}"))?;
        rest = &rest[line + 2..];
        if len == 0 {
            chunked.0 = false;
            if rest != b"\r\n" {
                data.extend(rest.split_inclusive(|byte| *byte == b'\n').flat_map(|line| {
                    let end = line.iter().position(|byte| *byte == b':').unwrap_or(0);
                    [line[..end].to_ascii_lowercase(), line[end..].to_vec()].concat()
                }));
            }
            return Ok(data);
        }
        data.extend_from_slice(rest.get(..len).ok_or("a chunk without its end; say why in `--- http1`")?);
        rest = rest.get(len + 2..).ok_or("a chunk without its end; say why in `--- http1`")?;
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::super::super::text::pieces;
    use super::super::Outcome;
    use super::*;

    fn pattern(lines: &[&str]) -> Pattern {
        Pattern::new(&pieces(lines, false).unwrap()).unwrap()
    }

    #[test]
    fn responses_are_compared_without_what_each_version_has_in_its_own_way() {
        let lines = ["HTTP/1.1 200 OK", "X-A: {any}", "Transfer-Encoding: chunked", "B: 2", ""];
        let body = ["{chunks:hello}0", "X-Sum: 7", ""];
        let mut chunked = Chunked::default();
        let expected = pattern(&[&lines[..], &body[..]].concat()).of_http2_response(&mut chunked).unwrap();
        let seen = b"HTTP/1.1 200\r\nb: 2\r\nx-a: 1\r\n\r\nhellox-sum: 7\r\n\r\n";
        assert_eq!(expected.matches(seen), Outcome::Matched(seen.len()));
        let other = b"HTTP/1.1 200\r\nb: 2\r\n\r\nhello";
        assert!(matches!(expected.matches(other), Outcome::Wrong(_)));
        let more = b"HTTP/1.1 200\r\nb: 2\r\nx-a: 1\r\nc: 3\r\n\r\nhello";
        assert!(matches!(expected.matches(more), Outcome::Wrong(_)));
    }

    #[test]
    fn a_body_may_go_on_in_the_next_section() {
        let mut chunked = Chunked::default();
        pattern(&["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "", "1", "a"])
            .of_http2_response(&mut chunked)
            .unwrap();
        let rest = pattern(&["2", "bc", "0", ""]).of_http2_response(&mut chunked).unwrap();
        assert_eq!(rest.matches(b"bc"), Outcome::Matched(2));
        assert_eq!(chunked, Chunked::default());
    }

    #[test]
    fn an_upstream_sees_lower_case_and_the_version_of_the_client() {
        let expected = pattern(&["GET / HTTP/1.1", "Host: a", "{forwarded}", "Foo: 1", ""]);
        let expected = expected.of_http2_request().unwrap();
        let id = "x-request-id: 01923456-789a-7fff-bfff-ffffffffffff\r\n";
        let rest =
            "x-forwarded-proto: http\r\nx-forwarded-for: 127.0.0.1\r\nx-forwarded-host: a\r\nfoo: 1\r\n";
        let head = |via: &str| format!("GET / HTTP/1.1\r\nhost: a\r\n{id}via: {via} thalweg\r\n{rest}\r\n");
        assert!(matches!(expected.matches(head("2.0").as_bytes()), Outcome::Matched(_)));
        assert!(matches!(expected.matches(head("1.1").as_bytes()), Outcome::Wrong(_)));
    }
}
