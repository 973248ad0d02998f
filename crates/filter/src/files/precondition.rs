//! Conditions of a request for a file (RFC 9110 §13), in the order of §13.2.2.

use crate::FieldView;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Times that a file has from: an archive without times gives 0 or 1 to all of its files.
const FIRST: u64 = 2;
/// The last second of the year 9999, which a date can still say.
const LAST: u64 = 253_402_300_799;

/// What tells one version of a file from another.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Validators {
    /// A strong tag, with its quotes; absent where the file has no time.
    pub(super) etag: Option<String>,
    /// In seconds since the Unix epoch.
    pub(super) modified: Option<u64>,
}

/// What becomes of a request with conditions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Outcome {
    /// It is answered as if it had none.
    Proceeds,
    /// 304: the client has it.
    NotModified,
    /// 412.
    Fails,
}

impl Validators {
    /// Of a file of this size, written then; `coding` is that of a compressed form. It is `now`.
    pub(super) fn new((seconds, nanos): (i64, i64), size: u64, coding: &str, now: u64) -> Self {
        let Some(seconds) = u64::try_from(seconds).ok().filter(|seconds| (FIRST..=LAST).contains(seconds))
        else {
            return Self { etag: None, modified: None };
        };
        let dash = if coding.is_empty() { "" } else { "-" };
        let etag = format!("\"{seconds:x}.{nanos:x}-{size:x}{dash}{coding}\"");
        // RFC 9110 §8.8.2.1: not later than the date of the answer.
        Self { etag: Some(etag), modified: Some(seconds.min(now)) }
    }

    /// The time as a field has it.
    pub(super) fn last_modified(&self) -> Option<String> {
        let time = UNIX_EPOCH.checked_add(Duration::from_secs(self.modified?))?;
        Some(httpdate::fmt_http_date(time))
    }

    /// What the conditions of a GET or HEAD say.
    pub(super) fn check(&self, fields: FieldView<'_>) -> Outcome {
        let modified = self.modified.unwrap_or(u64::MAX);
        let has = |name: &str| fields.get(name).is_some();
        if has("if-match") {
            if !self.is_listed(fields.values("if-match"), false) {
                return Outcome::Fails;
            }
        } else if fields.get("if-unmodified-since").and_then(seconds).is_some_and(|since| modified > since) {
            return Outcome::Fails;
        }
        let is_known = if has("if-none-match") {
            self.is_listed(fields.values("if-none-match"), true)
        } else {
            fields.get("if-modified-since").and_then(seconds).is_some_and(|since| modified <= since)
        };
        if is_known { Outcome::NotModified } else { Outcome::Proceeds }
    }

    /// Whether the ranges of the request are to be looked at (`If-Range`, RFC 9110 §13.1.5): it has no such condition,
    /// or the client has a part of this very version.
    pub(super) fn lets_ranges(&self, fields: FieldView<'_>) -> bool {
        let Some(value) = fields.get("if-range") else { return true };
        match value.trim_ascii() {
            tag if tag.starts_with(b"\"") => self.etag.as_deref().is_some_and(|etag| etag.as_bytes() == tag),
            date => seconds(date).is_some_and(|date| self.modified == Some(date)),
        }
    }

    /// Whether lists of tags have this one (RFC 9110 §8.8.3.2). `weakly`: one that is marked as weak counts too.
    fn is_listed<'a>(&self, values: impl Iterator<Item = &'a [u8]>, weakly: bool) -> bool {
        let etag = self.etag.as_deref().map(str::as_bytes);
        for value in values {
            let mut rest = value.trim_ascii();
            if rest == b"*" {
                return true;
            }
            while let Some((tag, is_weak, behind)) = next_tag(rest) {
                if etag == Some(tag) && (weakly || !is_weak) {
                    return true;
                }
                rest = behind;
            }
        }
        false
    }
}

/// The first tag of a list with its quotes, whether it is weak, and what follows.
fn next_tag(list: &[u8]) -> Option<(&[u8], bool, &[u8])> {
    let begins = list.iter().position(|byte| !matches!(byte, b',' | b' ' | b'\t'))?;
    let list = &list[begins..];
    let (tag, is_weak) = match list.strip_prefix(b"W/") {
        Some(tag) => (tag, true),
        None => (list, false),
    };
    let inside = tag.strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', inside)? + 2;
    Some((&tag[..end], is_weak, &tag[end..]))
}

/// Reads a date in any of its three forms (RFC 9110 §5.6.7).
fn seconds(value: &[u8]) -> Option<u64> {
    let time: SystemTime = httpdate::parse_http_date(std::str::from_utf8(value).ok()?.trim()).ok()?;
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 1_700_000_000;
    const EARLIER: &str = "Tue, 14 Nov 2023 22:13:19 GMT";
    const THEN: &str = "Tue, 14 Nov 2023 22:13:20 GMT";
    const ASCTIME: &str = "Tue Nov 14 22:13:20 2023";

    fn validators() -> Validators {
        Validators::new((AT as i64, 5), 16, "", AT + 100)
    }

    fn checked(lines: &str) -> Outcome {
        validators().check(FieldView::new(&[], &[], lines.as_bytes()))
    }

    #[test]
    fn a_version_has_a_tag_and_a_time() {
        let tag = |validators: Validators| (validators.etag.unwrap_or_default(), validators.modified);
        assert_eq!(tag(validators()), ("\"6553f100.5-10\"".into(), Some(AT)));
        assert_eq!(validators().last_modified().unwrap(), THEN);
        assert_eq!(tag(Validators::new((AT as i64, 5), 16, "gz", AT)).0, "\"6553f100.5-10-gz\"");
        assert_eq!(tag(Validators::new((AT as i64, 0), 0, "", AT - 9)).1, Some(AT - 9), "the future is now");
        for seconds in [-1, 0, 1, i64::MAX] {
            assert_eq!(tag(Validators::new((seconds, 0), 16, "", AT)), (String::new(), None), "{seconds}");
        }
    }

    #[test]
    fn conditions_are_those_of_rfc_9110() {
        let tag = "\"6553f100.5-10\"";
        for (lines, expected) in [
            (String::new(), Outcome::Proceeds),
            (format!("If-None-Match: {tag}\r\n"), Outcome::NotModified),
            (format!("If-None-Match: W/{tag}\r\n"), Outcome::NotModified),
            (format!("If-None-Match: \"a\" , ,\"b,\",{tag}\r\n"), Outcome::NotModified),
            (format!("If-None-Match: \"a\"\r\nIf-None-Match: {tag}\r\n"), Outcome::NotModified),
            ("If-None-Match: *\r\n".into(), Outcome::NotModified),
            ("If-None-Match: \"a\"\r\n".into(), Outcome::Proceeds),
            ("If-None-Match: 6553f100.5-10\r\n".into(), Outcome::Proceeds),
            ("If-None-Match: \"6553f100.5-10\r\n".into(), Outcome::Proceeds),
            (format!("If-None-Match: \"a\"\r\nIf-Modified-Since: {THEN}\r\n"), Outcome::Proceeds),
            (format!("If-Modified-Since: {THEN}\r\n"), Outcome::NotModified),
            (format!("If-Modified-Since: {ASCTIME}\r\n"), Outcome::NotModified),
            (format!("If-Modified-Since: {EARLIER}\r\n"), Outcome::Proceeds),
            ("If-Modified-Since: yesterday\r\n".into(), Outcome::Proceeds),
            (format!("If-Match: {tag}\r\n"), Outcome::Proceeds),
            ("If-Match: *\r\n".into(), Outcome::Proceeds),
            (format!("If-Match: W/{tag}\r\n"), Outcome::Fails),
            ("If-Match: \"a\"\r\n".into(), Outcome::Fails),
            (format!("If-Match: {tag}\r\nIf-Unmodified-Since: {EARLIER}\r\n"), Outcome::Proceeds),
            (format!("If-Unmodified-Since: {EARLIER}\r\n"), Outcome::Fails),
            (format!("If-Unmodified-Since: {THEN}\r\n"), Outcome::Proceeds),
            (format!("If-Match: {tag}\r\nIf-None-Match: {tag}\r\n"), Outcome::NotModified),
        ] {
            assert_eq!(checked(&lines), expected, "{lines}");
        }
        let untold = Validators { etag: None, modified: None };
        let fields = format!("If-None-Match: {tag}\r\nIf-Modified-Since: {THEN}\r\n");
        assert_eq!(untold.check(FieldView::new(&[], &[], fields.as_bytes())), Outcome::Proceeds);
        let many = format!("If-None-Match: {}\r\n", "\"x\",".repeat(100_000));
        assert_eq!(checked(&many), Outcome::Proceeds);
    }

    #[test]
    fn a_part_is_continued_only_with_the_same_version() {
        for (line, expected) in [
            ("", true),
            ("If-Range: \"6553f100.5-10\"\r\n", true),
            ("If-Range: W/\"6553f100.5-10\"\r\n", false),
            ("If-Range: \"a\"\r\n", false),
            ("If-Range: Tue, 14 Nov 2023 22:13:20 GMT\r\n", true),
            ("If-Range: Tue, 14 Nov 2023 22:13:21 GMT\r\n", false),
            ("If-Range: x\r\n", false),
        ] {
            assert_eq!(
                validators().lets_ranges(FieldView::new(&[], &[], line.as_bytes())),
                expected,
                "{line}"
            );
        }
    }
}
