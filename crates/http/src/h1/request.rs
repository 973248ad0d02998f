//! The head of a request: request line and fields (RFC 9112 §3).
//!
//! The engine's first step on every exchange. The caller appends what it received to one buffer
//! and calls [`RequestHead::parse`] until the head is complete or refused. No byte is looked at
//! twice, and no byte that cannot belong to a request waits for the end of its line: what is not
//! HTTP is refused at its first wrong byte.

use thalweg_core::Fault;

use crate::field::{self, Field, FieldId, FieldSet};
use crate::h1::fields::{FieldScan, Flaw};
use crate::h1::{BARE_CR, BARE_LF, HeadLimits, Progress};
use crate::method::{Method, Version};
use crate::octet;
use crate::span::Span;

/// Longest method, in bytes; the longest registered one has 17.
pub const METHOD_MAX: usize = 32;

/// Why [`Method::is_miscased`] is refused.
pub(crate) const MISCASED: &str = "a well-known method that is not in capitals";

/// The part of the head that is being read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Part {
    #[default]
    Start,
    Method,
    Target,
    Version,
    Fields,
    Done,
}

/// A request head as spans over the received bytes.
#[derive(Clone, Debug, Default)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The method as it was written.
    pub method_text: Span,
    /// The request target as it was written: never empty, only target bytes and, where [`Self::has_raw_target`], raw
    /// ones.
    pub target: Span,
    /// The target has bytes that need an escape ([`octet::is_raw`]).
    pub has_raw_target: bool,
    /// The version.
    pub version: Version,
    /// All fields in the order in which they came.
    pub fields: Vec<Field>,
    /// The ids among them.
    pub present: FieldSet,
    /// Bytes of the head, with an empty line before it and the one that ends it; 0 until complete.
    pub len: usize,
    part: Part,
    /// Where the request line begins: 0, or 2 after one empty line.
    start: usize,
    at: usize,
    mark: usize,
    scan: FieldScan,
}

impl RequestHead {
    /// An empty head, ready to parse.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the head ready for the next request and keeps the room for its fields.
    pub fn clear(&mut self) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        *self = Self { fields, ..Self::default() };
    }

    /// Reads on in `input`, which begins with the request's first byte and may have grown since the
    /// last call (what was there must not have changed). Gives the same result however the bytes
    /// were split. After an error the head must be cleared.
    ///
    /// # Errors
    /// 414 and 431 for the limits, 505 for another major version, 400 for everything else.
    pub fn parse(&mut self, input: &[u8], limits: &HeadLimits) -> Result<Progress, Fault> {
        let head_end = limits.head.min(u32::MAX as usize);
        if !matches!(self.part, Part::Fields | Part::Done) {
            if self.part == Part::Start && !self.skip_empty_line(input)? {
                return Ok(Progress::Partial);
            }
            let line_end = self.start.saturating_add(limits.line).saturating_add(2);
            let region = input.len().min(head_end).min(line_end);
            if self.request_line(&input[..region])? == Progress::Partial {
                return match region {
                    _ if region == line_end => Err(Fault::request(414, "the request line is too long")),
                    _ if region == head_end => Err(Fault::request(431, "the head is too large")),
                    _ => Ok(Progress::Partial),
                };
            }
        }
        if self.part == Part::Done {
            return Ok(Progress::Complete);
        }
        let region = input.len().min(head_end);
        let scanned = self.scan.scan(&input[..region], limits.fields, &mut self.fields, &mut self.present);
        match scanned {
            Ok(Progress::Complete) => {
                self.part = Part::Done;
                self.len = self.scan.at();
                Ok(Progress::Complete)
            }
            Ok(Progress::Partial) if region == head_end => Err(Fault::request(431, "the head is too large")),
            Ok(Progress::Partial) => Ok(Progress::Partial),
            Err(Flaw::Malformed(detail)) => Err(Fault::request(400, detail)),
            Err(Flaw::TooManyFields) => Err(Fault::request(431, "too many fields")),
        }
    }

    /// The first value of a field, whether it is kept or not.
    #[inline]
    pub fn value<'a>(&self, bytes: &'a [u8], id: FieldId) -> Option<&'a [u8]> {
        if !self.present.contains(id) {
            return None;
        }
        field::first(&self.fields, id).map(|span| span.of(bytes))
    }

    /// All values of a field in order, whether they are kept or not.
    pub fn values<'b>(&self, bytes: &'b [u8], id: FieldId) -> impl Iterator<Item = &'b [u8]> {
        let fields = if self.present.contains(id) { self.fields.as_slice() } else { &[] };
        field::all(fields, bytes, id)
    }

    /// Sets the first line as an adaptor of HTTP/2 wrote it; the fields and the length are its business too.
    pub(crate) fn write_first_line(&mut self, (method, method_text): (Method, Span), target: Span) {
        (self.method, self.method_text, self.target) = (method, method_text, target);
        (self.version, self.part) = (Version::Http2, Part::Done);
    }

    /// Takes every field with this id out of what is passed on.
    pub fn strip(&mut self, id: FieldId) {
        if self.present.contains(id) {
            self.fields.iter_mut().filter(|field| field.id == id).for_each(|field| field.keep = false);
        }
    }

    /// One empty line may stand before a request (RFC 9112 §2.2). False: more bytes are needed.
    fn skip_empty_line(&mut self, input: &[u8]) -> Result<bool, Fault> {
        match input {
            [] | [b'\r'] => return Ok(false),
            [b'\r', b'\n', ..] => self.start = 2,
            [b'\r', ..] => return Err(Fault::request(400, BARE_CR)),
            _ => {}
        }
        (self.at, self.mark) = (self.start, self.start);
        self.part = Part::Method;
        Ok(true)
    }

    fn request_line(&mut self, input: &[u8]) -> Result<Progress, Fault> {
        if self.part == Part::Method {
            self.at += octet::token_len(input.get(self.at..).unwrap_or_default());
            if self.at - self.mark > METHOD_MAX {
                return Err(Fault::request(400, "the method is too long"));
            }
            match input.get(self.at) {
                None => return Ok(Progress::Partial),
                Some(b' ') if self.at > self.mark => {}
                Some(&byte) => return Err(method_fault(byte, self.at - self.start)),
            }
            self.method_text = Span::new(self.mark, self.at);
            self.method = Method::from_bytes(self.method_text.of(input));
            if self.method == Method::Other && Method::is_miscased(self.method_text.of(input)) {
                return Err(Fault::request(400, MISCASED));
            }
            self.next(Part::Target);
        }
        if self.part == Part::Target {
            self.at += octet::target_len(input.get(self.at..).unwrap_or_default());
            if input.get(self.at).is_some_and(|byte| octet::is_raw(*byte)) {
                self.has_raw_target = true;
                self.at += octet::raw_target_len(&input[self.at..]);
            }
            match input.get(self.at) {
                None => return Ok(Progress::Partial),
                Some(b' ') if self.at > self.mark => {}
                Some(&byte) => return Err(target_fault(byte, self.at == self.mark)),
            }
            self.target = Span::new(self.mark, self.at);
            self.next(Part::Version);
        }
        let rest = input.get(self.mark..).unwrap_or_default();
        self.version = match rest.first_chunk::<10>() {
            Some(b"HTTP/1.1\r\n") => Version::Http11,
            Some(b"HTTP/1.0\r\n") => Version::Http10,
            _ => match other_version(rest, self.method_text.of(input) == b"PRI")? {
                Some(version) => version,
                None => return Ok(Progress::Partial),
            },
        };
        self.scan = FieldScan::starting(self.mark + 10);
        self.part = Part::Fields;
        Ok(Progress::Complete)
    }

    /// Steps over the space at the cursor into the next part.
    fn next(&mut self, part: Part) {
        self.at += 1;
        self.mark = self.at;
        self.part = part;
    }
}

#[cold]
fn method_fault(byte: u8, offset: usize) -> Fault {
    Fault::request(
        400,
        match byte {
            0x16 if offset == 0 => "a TLS handshake on a plain-text port",
            b' ' | b'\t' if offset == 0 => "whitespace before the request line",
            b'\r' if offset == 0 => "more than one empty line before the request line",
            b'\n' => "bare LF in the request line",
            b'\r' => "a request line without a target",
            b'\t' => "a tab in the request line",
            0 => "NUL in the method",
            _ => "a forbidden character in the method",
        },
    )
}

#[cold]
fn target_fault(byte: u8, empty: bool) -> Fault {
    Fault::request(
        400,
        match byte {
            b' ' if empty => "two spaces in the request line",
            b'\r' => "a request line without a version",
            b'\n' => "bare LF in the request line",
            b'\t' => "a tab in the request line",
            b'#' => "a fragment in the request target",
            0 => "NUL in the request target",
            0x80.. => "a byte above 0x7f in the request target",
            _ => "a forbidden character in the request target",
        },
    )
}

/// The version of a request line that does not end in `HTTP/1.0` or `HTTP/1.1`; nothing when more bytes are needed. A
/// higher minor version is served as 1.1, the highest that the proxy speaks (RFC 9110 §2.5, §6.2).
///
/// # Errors
/// 505 for another major version, 400 for what is no version.
#[cold]
fn other_version(rest: &[u8], preface: bool) -> Result<Option<Version>, Fault> {
    for (i, &byte) in rest.iter().take(10).enumerate() {
        let detail = match (i, byte) {
            (0..5, _) if byte == b"HTTP/"[i] => continue,
            (5, b'2') if preface => "an HTTP/2 preface on an HTTP/1 port",
            (5 | 7, b'0'..=b'9') | (6, b'.') => continue,
            (8, b'\r') if rest[5] != b'1' => {
                return Err(Fault::request(505, "an HTTP version other than 1.x"));
            }
            (8, b'\r') | (9, b'\n') => continue,
            (0, b' ') => "more than one space before the version",
            (8, b' ' | b'\t') => "whitespace after the version",
            (9, _) => BARE_CR,
            (_, b'\n') => BARE_LF,
            _ => "a malformed version or a space in the request target",
        };
        return Err(Fault::request(400, detail));
    }
    Ok((rest.len() >= 10).then_some(Version::Http11))
}

#[cfg(test)]
mod tests;
