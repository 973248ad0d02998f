//! The head of a response: status line and fields (RFC 9112 §4).
//!
//! Read from upstreams, which are trusted no more than clients: the grammar is as strict, and every
//! fault blames the upstream.

use thalweg_core::{Fault, FaultKind};

use crate::field::{self, Field, FieldId, FieldSet};
use crate::h1::fields::{FieldScan, Flaw};
use crate::h1::{BARE_CR, BARE_LF, HeadLimits, Progress};
use crate::method::Version;
use crate::octet;
use crate::span::Span;

/// Bytes of a status line up to and with the status.
const STATUS_END: usize = b"HTTP/1.1 200".len();

/// The part of the head that is being read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Part {
    #[default]
    Status,
    Reason,
    Fields,
    Done,
}

/// A response head as spans over the received bytes.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// The status, 100–599; 0 until it was read.
    pub status: u16,
    /// The version.
    pub version: Version,
    /// The reason phrase, often empty.
    pub reason: Span,
    /// All fields in the order in which they came.
    pub fields: Vec<Field>,
    /// The ids among them.
    pub present: FieldSet,
    /// Bytes of the head with the empty line that ends it; 0 until complete.
    pub len: usize,
    part: Part,
    at: usize,
    scan: FieldScan,
}

impl ResponseHead {
    /// An empty head, ready to parse.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the head ready for the next response and keeps the room for its fields.
    pub fn clear(&mut self) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        *self = Self { fields, ..Self::default() };
    }

    /// Whether this is an interim response, after which another one comes (RFC 9110 §15.2). 101 is
    /// not: nothing of HTTP comes after it.
    pub const fn is_interim(&self) -> bool {
        self.status / 100 == 1 && self.status != 101
    }

    /// Reads on in `input`, which begins with the response's first byte and may have grown since
    /// the last call. Gives the same result however the bytes were split. After an error the head
    /// must be cleared.
    ///
    /// # Errors
    /// `http_response_header_section_size` for the limits, `http_protocol_error` for everything else.
    pub fn parse(&mut self, input: &[u8], limits: &HeadLimits) -> Result<Progress, Fault> {
        let head_end = limits.head.min(u32::MAX as usize);
        if matches!(self.part, Part::Status | Part::Reason) {
            let line_end = limits.line.saturating_add(2);
            let region = input.len().min(head_end).min(line_end);
            if self.status_line(&input[..region])? == Progress::Partial {
                return match region {
                    _ if region == line_end => Err(too_large("the status line is too long")),
                    _ if region == head_end => Err(too_large("the response head is too large")),
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
            Ok(Progress::Partial) if region == head_end => Err(too_large("the response head is too large")),
            Ok(Progress::Partial) => Ok(Progress::Partial),
            Err(Flaw::Malformed(detail)) => Err(Fault::response(detail)),
            Err(Flaw::TooManyFields) => Err(too_large("too many fields in the response")),
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

    /// Sets the status as an adaptor of HTTP/2 wrote it; the fields and the length are its business too.
    pub(crate) fn write_status(&mut self, status: u16) {
        (self.status, self.version, self.part) = (status, Version::Http2, Part::Done);
    }

    /// Takes every field with this id out of what is passed on.
    pub fn strip(&mut self, id: FieldId) {
        if self.present.contains(id) {
            self.fields.iter_mut().filter(|field| field.id == id).for_each(|field| field.keep = false);
        }
    }

    fn status_line(&mut self, input: &[u8]) -> Result<Progress, Fault> {
        if self.part == Part::Status {
            if let Some(fault) = status_fault(input) {
                return Err(fault);
            }
            let Some(&separator) = input.get(STATUS_END) else { return Ok(Progress::Partial) };
            // A higher minor version is read as 1.1 (RFC 9110 §2.5).
            self.version = if input[7] == b'0' { Version::Http10 } else { Version::Http11 };
            self.status =
                input[9..STATUS_END].iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
            self.at = STATUS_END + usize::from(separator == b' ');
            self.reason = Span::new(self.at, self.at);
            self.part = Part::Reason;
        }
        let rest = input.get(self.at..).unwrap_or_default();
        let len = octet::value_len(rest);
        self.at += len;
        match &rest[len..] {
            [] | [b'\r'] => return Ok(Progress::Partial),
            [b'\r', b'\n', ..] => {}
            [b'\r', ..] => return Err(Fault::response(BARE_CR)),
            [b'\n', ..] => return Err(Fault::response(BARE_LF)),
            _ => return Err(Fault::response("a control character in the reason phrase")),
        }
        self.reason.end = self.at as u32;
        self.scan = FieldScan::starting(self.at + 2);
        self.part = Part::Fields;
        Ok(Progress::Complete)
    }
}

const fn too_large(detail: &'static str) -> Fault {
    Fault::new(FaultKind::HttpResponseHeaderSectionSize, detail)
}

/// What is wrong with the beginning of a status line, up to the byte after the status.
fn status_fault(input: &[u8]) -> Option<Fault> {
    for (i, &byte) in input.iter().take(STATUS_END + 1).enumerate() {
        let detail = match (i, byte) {
            (0..5, _) if byte == b"HTTP/"[i] => continue,
            (5, b'1') | (6, b'.') | (7, b'0'..=b'9') | (8, b' ') => continue,
            (9, b'1'..=b'5') | (10 | 11, b'0'..=b'9') | (12, b' ' | b'\r') => continue,
            (0..5, _) => "the response is not HTTP",
            (5..8, _) => "the response has an HTTP version other than 1.x",
            (_, b'\n') => BARE_LF,
            (9, b'0' | b'6'..=b'9') => "the status is not within 100 and 599",
            (9.., _) => "the status is not three digits",
            _ => "the status line is malformed",
        };
        return Some(Fault::response(detail));
    }
    None
}

#[cfg(test)]
mod tests;
