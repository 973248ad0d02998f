//! A client's byte stream as our engine reads it: head, framing, body, and again.
//!
//! The order of calls is that of the proxy's admit phase. What the proxy would refuse after the
//! framing is known (target, host, expectation) is noted with the message and does not end the
//! stream, so that more of the framing is compared.

use thalweg_core::{Fault, Side};
use thalweg_http::h1::framing::{request_framing, request_keeps_alive};
use thalweg_http::rules::{expects_continue, host_of};
use thalweg_http::{
    HeadLimits, Progress, RequestHead, Target, TargetForm, Version, normalize_path, parse_authority,
    parse_target,
};

use crate::body;

/// Most messages of one stream that are read.
pub(crate) const MESSAGES: usize = 64;

/// A name in lower case and its value.
pub(crate) type Line = (Vec<u8>, Vec<u8>);

/// A whole request as somebody read it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Message {
    /// The method as written.
    pub(crate) method: Vec<u8>,
    /// Authority, path and query, joined with spaces; see [`target_text`].
    pub(crate) target: Vec<u8>,
    /// Whether it is HTTP/1.1.
    pub is_http11: bool,
    /// All fields, sorted by name; the values of one name in their order.
    pub(crate) fields: Vec<Line>,
    /// The payload.
    pub(crate) body: Vec<u8>,
    /// The trailer fields, sorted like the fields.
    pub(crate) trailers: Vec<Line>,
}

/// A message of ours, and whether the proxy would take it.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    /// What was read.
    pub(crate) message: Message,
    /// Why the proxy refuses it although its framing is sound.
    pub(crate) refused: Option<Fault>,
    /// Whether its target has bytes that are percent-encoded on the way.
    pub(crate) has_raw_target: bool,
    /// Whether its minor version is above 1.
    pub(crate) is_newer: bool,
    /// Whether a method, target or upgrade makes other parsers switch to another protocol.
    pub(crate) may_switch: bool,
}

/// Why no further message was read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// The input ended where a message or nothing could begin.
    Clean,
    /// The input ended within a message.
    Partial,
    /// The last message closes the connection.
    Close,
    /// Refused.
    Refused,
}

/// Reads all messages of a stream.
pub(crate) fn read(input: &[u8]) -> (Vec<Read>, End) {
    let mut messages = Vec::new();
    let mut rest = input;
    while messages.len() < MESSAGES {
        if rest.is_empty() {
            return (messages, End::Clean);
        }
        let mut head = RequestHead::new();
        match head.parse(rest, &HeadLimits::default()) {
            Ok(Progress::Complete) => {}
            Ok(Progress::Partial) => return (messages, End::Partial),
            Err(_) => return (messages, End::Refused),
        }
        let framing = match request_framing(&head, rest) {
            Ok(framing) => framing,
            Err(_) => return (messages, End::Refused),
        };
        let after = &rest[head.len..];
        let body = match body::read(framing, Side::Downstream, &[after]) {
            Ok(body) if body.complete => body,
            Ok(_) => return (messages, End::Partial),
            Err(_) => return (messages, End::Refused),
        };
        let keep_alive = request_keeps_alive(&head, rest);
        let consumed = body.consumed;
        messages.push(describe(&head, rest, body));
        rest = &after[consumed..];
        if !keep_alive {
            return (messages, End::Close);
        }
    }
    (messages, End::Close)
}

fn describe(head: &RequestHead, bytes: &[u8], body: body::Body) -> Read {
    let target = parse_target(head.method, bytes, head.target);
    let mut fields: Vec<Line> = head
        .fields
        .iter()
        .map(|field| (field.name.of(bytes).to_ascii_lowercase(), field.value.of(bytes).to_vec()))
        .collect();
    sort(&mut fields);
    let message = Message {
        method: head.method_text.of(bytes).to_vec(),
        target: target.map(|target| target_of(&target, bytes)).unwrap_or_default(),
        is_http11: head.version == Version::Http11,
        fields,
        body: body.payload,
        trailers: lines(&body.trailers),
    };
    let may_switch =
        head.method_text.of(bytes) == b"CONNECT" || message.fields.iter().any(|(n, _)| n == b"upgrade");
    let version = &bytes[head.target.end as usize + 1..];
    let is_newer = !version.starts_with(b"HTTP/1.0") && !version.starts_with(b"HTTP/1.1");
    let has_raw_target = head.has_raw_target;
    Read { message, refused: admission(head, bytes).err(), has_raw_target, is_newer, may_switch }
}

/// What the proxy checks once the framing is known.
fn admission(head: &RequestHead, bytes: &[u8]) -> Result<(), Fault> {
    let target = parse_target(head.method, bytes, head.target)?;
    let named = host_of(head, bytes)?;
    let authority = if target.form == TargetForm::Absolute { Some(target.authority) } else { named };
    if let Some(span) = authority.filter(|span| !span.is_empty()) {
        parse_authority(bytes, span)?;
    }
    expects_continue(head, bytes)?;
    if !target.path.is_empty() {
        normalize_path(target.path.of(bytes), &mut Vec::new())?;
    }
    Ok(())
}

fn target_of(target: &Target, bytes: &[u8]) -> Vec<u8> {
    let path = match target.form {
        TargetForm::Asterisk => b"*",
        TargetForm::Authority => &b""[..],
        _ if target.path.is_empty() => b"/",
        _ => target.path.of(bytes),
    };
    target_text(target.authority.of(bytes), path, target.query.map(|query| query.of(bytes)))
}

/// The parts of a target as one text, for comparison. An absent query differs from an empty one.
pub(crate) fn target_text(authority: &[u8], path: &[u8], query: Option<&[u8]>) -> Vec<u8> {
    let query = query.map(|query| [b"?", query].concat()).unwrap_or_default();
    [authority, path, &query].join(&b' ')
}

/// Sorts by name and keeps the order of equal names.
pub(crate) fn sort(lines: &mut [Line]) {
    lines.sort_by(|a, b| a.0.cmp(&b.0));
}

/// Trailer lines, read in the plainest way.
fn lines(text: &[u8]) -> Vec<Line> {
    let mut lines: Vec<Line> = text
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((line[..colon].to_ascii_lowercase(), line[colon + 1..].trim_ascii().to_vec()))
        })
        .collect();
    sort(&mut lines);
    lines
}
