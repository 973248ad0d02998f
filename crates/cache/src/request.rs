//! What a cache needs to know of a request, read in one pass over its fields.

use crate::directives::{Directives, MOST_SECONDS};
use thalweg_http::{FieldId, Method};

/// The fields of a head, in order: names and values. Any clonable iterator is one.
pub trait FieldLines<'a>: Iterator<Item = (&'a [u8], &'a [u8])> + Clone {}

impl<'a, I: Iterator<Item = (&'a [u8], &'a [u8])> + Clone> FieldLines<'a> for I {}

/// The directives of a request (RFC 9111 §5.2.1, RFC 5861 §4).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RequestDirectives {
    /// Nothing is used without validation.
    pub no_cache: bool,
    /// Nothing is stored.
    pub no_store: bool,
    /// The service is not asked.
    pub only_if_cached: bool,
    /// The greatest age, in seconds; 0 where it cannot be read.
    pub max_age: Option<u32>,
    /// How long the response must stay fresh, in seconds.
    pub min_fresh: Option<u32>,
    /// How long it may have been stale, in seconds; [`MOST_SECONDS`]: whatever.
    pub max_stale: Option<u32>,
    /// The same where the service fails.
    pub stale_if_error: Option<u32>,
    /// A quoted string has no end: what the client wants is not known. Nothing is stored, nothing is used unseen.
    pub broken: bool,
}

impl RequestDirectives {
    /// Reads the lines of a request. The first of two of a kind counts.
    fn note(&mut self, line: &[u8]) {
        for directive in Directives::of(line) {
            let Ok(directive) = directive else {
                self.broken = true;
                return;
            };
            let seconds = directive.argument.seconds();
            if directive.is("no-cache") {
                self.no_cache = true;
            } else if directive.is("no-store") {
                self.no_store = true;
            } else if directive.is("only-if-cached") {
                self.only_if_cached = true;
            } else if directive.is("max-age") {
                self.max_age = self.max_age.or(Some(seconds.unwrap_or(0)));
            } else if directive.is("min-fresh") {
                self.min_fresh = self.min_fresh.or(Some(seconds.unwrap_or(MOST_SECONDS)));
            } else if directive.is("max-stale") {
                let any = (directive.argument == crate::directives::Argument::Absent).then_some(MOST_SECONDS);
                self.max_stale = self.max_stale.or(any).or(seconds).or(Some(0));
            } else if directive.is("stale-if-error") {
                self.stale_if_error = self.stale_if_error.or(seconds);
            }
        }
    }
}

/// A request, as far as a cache is concerned.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// The method.
    pub method: Method,
    /// It has a body, or may have one.
    pub has_body: bool,
    /// What it says of caching.
    pub directives: RequestDirectives,
    /// It carries credentials: an `Authorization` field. Whoever takes that field out before the cache sees it, or
    /// knows the client by other means and lets the service answer for that client alone, sets this.
    pub has_credentials: bool,
    /// It has a `Cookie`: a response that says nothing of how long it is fresh may be for its client.
    pub has_cookie: bool,
    /// It has conditions that only the service may evaluate: `If-Match`, `If-Unmodified-Since` (RFC 9111 §4.3.2).
    pub has_origin_conditions: bool,
    /// It has `If-None-Match`; then `If-Modified-Since` does not count.
    pub has_if_none_match: bool,
    /// `If-Modified-Since`; `None` where there are several.
    pub if_modified_since: Option<&'a [u8]>,
    /// `Range`; `None` where there are several, or where the method has none.
    pub range: Option<&'a [u8]>,
    /// `If-Range`; an empty one, which nothing matches, where there are several.
    pub if_range: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    /// Reads a head.
    pub fn read(method: Method, has_body: bool, fields: impl FieldLines<'a>) -> Self {
        let mut request = Self { method, has_body, ..Self::default() };
        let (mut has_control, mut pragma) = (false, false);
        let (mut dates, mut ranges, mut conditions) = (0, 0, 0);
        for (name, value) in fields {
            match FieldId::classify(name) {
                FieldId::CacheControl => {
                    has_control = true;
                    request.directives.note(value);
                }
                FieldId::Authorization => request.has_credentials = true,
                FieldId::Cookie => request.has_cookie = true,
                FieldId::IfMatch => request.has_origin_conditions = true,
                FieldId::IfNoneMatch => request.has_if_none_match = true,
                FieldId::IfModifiedSince => once(&mut request.if_modified_since, &mut dates, value),
                FieldId::Range => once(&mut request.range, &mut ranges, value),
                FieldId::IfRange => once(&mut request.if_range, &mut conditions, value),
                FieldId::Other if name.eq_ignore_ascii_case(b"if-unmodified-since") => {
                    request.has_origin_conditions = true;
                }
                FieldId::Other if name.eq_ignore_ascii_case(b"pragma") => {
                    pragma |= Directives::of(value).flatten().any(|directive| directive.is("no-cache"));
                }
                _ => {}
            }
        }
        if request.directives.broken {
            let broken =
                RequestDirectives { broken: true, no_cache: true, no_store: true, ..Default::default() };
            request.directives = broken;
        }
        if conditions > 1 {
            request.if_range = Some(b"");
        }
        if method != Method::Get {
            request.range = None;
        }
        // RFC 9111 §5.4: it stands for `no-cache` where nothing newer is said.
        request.directives.no_cache |= pragma && !has_control;
        request
    }
}

/// Keeps the value of a field that may stand once.
fn once<'a>(place: &mut Option<&'a [u8]>, count: &mut u32, value: &'a [u8]) {
    *count += 1;
    *place = (*count == 1).then_some(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::lines;

    fn read(head: &'static str) -> Request<'static> {
        Request::read(Method::Get, false, lines(head))
    }

    #[test]
    fn directives_are_those_of_rfc_9111() {
        let directives =
            read("cache-control: max-age=5, MIN-FRESH=6, max-stale=7, stale-if-error=8").directives;
        assert_eq!(
            directives,
            RequestDirectives {
                max_age: Some(5),
                min_fresh: Some(6),
                max_stale: Some(7),
                stale_if_error: Some(8),
                ..RequestDirectives::default()
            }
        );
        let directives = read("cache-control: no-cache\nCache-Control: only-if-cached, no-store").directives;
        assert!(directives.no_cache && directives.only_if_cached && directives.no_store);
        assert_eq!(read("cache-control: max-stale").directives.max_stale, Some(MOST_SECONDS));
        assert_eq!(read("cache-control: nothing-to-see-here").directives, RequestDirectives::default());
    }

    #[test]
    fn what_cannot_be_read_never_loosens() {
        assert_eq!(read("cache-control: max-age=x").directives.max_age, Some(0));
        assert_eq!(read("cache-control: min-fresh=x").directives.min_fresh, Some(MOST_SECONDS));
        assert_eq!(read("cache-control: max-stale=x").directives.max_stale, Some(0));
        assert_eq!(read("cache-control: stale-if-error=x").directives.stale_if_error, None);
        let broken = read("cache-control: a=\"b").directives;
        assert!(broken.no_cache && broken.no_store);
        assert_eq!(
            read("cache-control: max-age=9, max-age=1").directives.max_age,
            Some(9),
            "the first counts"
        );
    }

    #[test]
    fn pragma_counts_where_nothing_newer_is_said() {
        assert!(read("pragma: no-cache").directives.no_cache);
        assert!(!read("pragma: no-cache\ncache-control: max-age=60").directives.no_cache);
        assert!(!read("pragma: foo").directives.no_cache);
    }

    #[test]
    fn conditions_and_ranges_are_seen() {
        let request = read("if-none-match: \"a\"\nif-modified-since: x\nrange: bytes=0-1\nif-range: \"a\"");
        assert!(request.has_if_none_match && !request.has_origin_conditions);
        assert_eq!(request.if_modified_since, Some(&b"x"[..]));
        assert_eq!((request.range, request.if_range), (Some(&b"bytes=0-1"[..]), Some(&b"\"a\""[..])));
        assert!(read("if-match: *").has_origin_conditions);
        assert!(read("if-unmodified-since: x").has_origin_conditions);
        assert!(read("authorization: x").has_credentials);
    }

    #[test]
    fn what_stands_twice_and_may_not_is_none() {
        let request =
            read("range: a\nrange: a\nif-modified-since: b\nif-modified-since: b\nif-range: c\nif-range: c");
        assert_eq!(
            (request.range, request.if_modified_since, request.if_range),
            (None, None, Some(&b""[..]))
        );
        let head = Request::read(Method::Head, false, lines("range: bytes=0-1"));
        assert_eq!(head.range, None, "RFC 9110 §14.2: GET alone has ranges");
    }
}
