//! The answer with a file: its fields, the form that the client accepts, what its conditions and ranges leave of it.

use super::lookup::Entry;
use super::media_type::media_type;
use super::precondition::{Outcome, Validators};
use super::ranges::{self, Ranges};
use super::{Files, Found};
use crate::accept::coding_weight;
use crate::{FieldView, Part, Reply, ReplyBody, RequestCx};
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

/// Codings of files that are compressed already, with the end of their names; the first one where a client likes
/// several as much.
const CODINGS: &[(&str, &str)] = &[("zstd", "zst"), ("br", "br"), ("gzip", "gz")];

impl Files {
    /// The answer with a file that has been found.
    pub(super) fn answer(&self, cx: &RequestCx<'_>, found: Found) -> Reply {
        let fields = cx.fields.view();
        let kind = media_type(&found.path, &self.charset);
        let (found, coding) = match self.precompressed {
            true => self.accepted(cx, found),
            false => (found, ""),
        };
        let size = found.size;
        let validators = Validators::new(found.time, size, coding, cx.facts.unix_seconds);
        match validators.check(fields) {
            Outcome::NotModified => return self.described(cx, Reply::new(304), &validators),
            Outcome::Fails => return Reply::new(412),
            Outcome::Proceeds => {}
        }
        // RFC 9110 §14.2: ranges are those of GET, and more than one field of this name is no list.
        let mut asked = fields.values("range");
        let range = match (cx.facts.method, asked.next(), asked.next()) {
            (b"GET", Some(value), None) if validators.lets_ranges(fields) => ranges::parse(value, size),
            _ => Ranges::Whole,
        };
        let ranges = match range {
            Ranges::Whole => None,
            Ranges::Some(ranges) => Some(ranges),
            Ranges::Unsatisfiable => {
                let reply = Reply::new(416).field("Content-Range", format!("bytes */{size}").as_bytes());
                return self.varied(reply);
            }
        };
        let body = Arc::new(found.file);
        let reply = Reply::new(if ranges.is_some() { 206 } else { 200 });
        let mut reply = match ranges.as_deref() {
            None => typed(reply, &kind, whole(body, 0..size)),
            Some([only]) => {
                let reply = reply.field("Content-Range", content_range(only, size).as_bytes());
                typed(reply, &kind, whole(body, only.clone()))
            }
            Some(many) => {
                let chance = || cx.facts.connection.chance();
                let boundary = format!("{:016x}{:016x}", chance(), chance());
                let parts = multipart(&body, many, size, (&boundary, &kind));
                typed(reply, &format!("multipart/byteranges; boundary={boundary}"), parts)
            }
        };
        if !coding.is_empty() {
            reply = reply.field("Content-Encoding", coding.as_bytes());
        }
        self.described(cx, reply, &validators).field("Accept-Ranges", b"bytes")
    }

    /// The form of a file that the client likes best, among those that are there, and its coding.
    fn accepted(&self, cx: &RequestCx<'_>, found: Found) -> (Found, &'static str) {
        let fields: FieldView<'_> = cx.fields.view();
        if fields.get("accept-encoding").is_none() {
            return (found, "");
        }
        let weight = |coding: &str| coding_weight(fields.values("accept-encoding"), coding);
        let least = weight("identity");
        let mut wanted: Vec<_> =
            CODINGS.iter().map(|(coding, end)| (weight(coding), *coding, *end)).collect();
        wanted.retain(|(weight, ..)| *weight > 0 && *weight >= least);
        // The sort is stable: what is liked as much stays in our order.
        wanted.sort_by_key(|(weight, ..)| std::cmp::Reverse(*weight));
        let Ok(root) = self.root.begin() else { return (found, "") };
        for (_, coding, end) in wanted {
            let path = [&found.path, &b"."[..], end.as_bytes()].concat();
            if let Entry::File(file, metadata) = self.root.open(&root, &path, cx.facts.is_dry_run) {
                return (Found::new(file, &metadata, path), coding);
            }
        }
        (found, "")
    }

    /// What a 200, a 206 and a 304 say alike (RFC 9110 §15.4.5).
    fn described(&self, cx: &RequestCx<'_>, mut reply: Reply, validators: &Validators) -> Reply {
        if let Some(date) = validators.last_modified() {
            reply = reply.field("Last-Modified", date.as_bytes());
        }
        if let Some(etag) = &validators.etag {
            reply = reply.field("ETag", etag.as_bytes());
        }
        if let Some(template) = &self.cache_control {
            reply = reply.field("Cache-Control", &template.field(&cx.values()));
        }
        self.varied(reply)
    }

    fn varied(&self, reply: Reply) -> Reply {
        if self.precompressed { reply.field("Vary", b"Accept-Encoding") } else { reply }
    }
}

fn typed(reply: Reply, kind: &str, body: ReplyBody) -> Reply {
    let mut reply = reply.field("Content-Type", kind.as_bytes());
    reply.body = body;
    reply
}

fn whole(file: Arc<File>, range: Range<u64>) -> ReplyBody {
    ReplyBody::Parts(vec![piece(file, &range)])
}

fn piece(file: Arc<File>, range: &Range<u64>) -> Part {
    Part::File { file, from: range.start, length: range.end - range.start }
}

fn content_range(range: &Range<u64>, size: u64) -> String {
    format!("bytes {}-{}/{size}", range.start, range.end - 1)
}

/// Several ranges, each with a head (RFC 9110 §14.6, RFC 2046 §5.1).
fn multipart(
    file: &Arc<File>,
    ranges: &[Range<u64>],
    size: u64,
    (boundary, kind): (&str, &str),
) -> ReplyBody {
    let mut parts = Vec::with_capacity(ranges.len() * 2 + 1);
    for range in ranges {
        let range_line = content_range(range, size);
        let head = format!("\r\n--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: {range_line}\r\n\r\n");
        parts.push(Part::Bytes(head.into_bytes()));
        parts.push(piece(file.clone(), range));
    }
    parts.push(Part::Bytes(format!("\r\n--{boundary}--\r\n").into_bytes()));
    ReplyBody::Parts(parts)
}
