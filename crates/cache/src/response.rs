//! What a cache needs to know of a response, read in one pass over its fields.

use crate::dictionary;
use crate::directives::{Argument, Directive, Directives, delta_seconds};
use crate::policy::Policy;
use crate::request::FieldLines;
use crate::time::{UnixMillis, parse_http_date};
use crate::validators::EntityTag;
use thalweg_http::{FieldId, FieldSet, octet};

/// Fields that `no-cache="…"` and `private="…"` may list; more count as if none were listed.
pub const MOST_LISTED: usize = 32;

/// Fields without which a stored response would mean something else: listed in `private="…"`, they make the whole
/// response private.
pub(crate) const GOVERNING: FieldSet = FieldSet::of(&[
    FieldId::CacheControl,
    FieldId::Vary,
    FieldId::Date,
    FieldId::Age,
    FieldId::Expires,
    FieldId::ETag,
    FieldId::LastModified,
    FieldId::ContentLength,
    FieldId::ContentEncoding,
    FieldId::ContentRange,
    FieldId::ContentType,
    FieldId::TransferEncoding,
    FieldId::Location,
]);

/// A number of seconds that a response states.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Stated<T> {
    /// It does not.
    #[default]
    Absent,
    /// It does, and it cannot be read: the response counts as stale (RFC 9111 §4.2.1).
    Invalid,
    /// This one.
    Value(T),
}

/// The directives of a response (RFC 9111 §5.2.2, RFC 5861, RFC 8246).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ResponseDirectives {
    /// Nothing of it is stored.
    pub no_store: bool,
    /// It is not used without validation.
    pub no_cache: bool,
    /// It is for one client.
    pub private: bool,
    /// It may be stored whatever its status and whoever has asked.
    pub public: bool,
    /// It is never used stale.
    pub must_revalidate: bool,
    /// The same, for shared caches.
    pub proxy_revalidate: bool,
    /// It is stored only where its status is understood, and then in spite of `no-store`.
    pub must_understand: bool,
    /// It does not change while it is fresh.
    pub immutable: bool,
    /// `no-cache` or `private` name fields, which are not stored.
    pub lists_fields: bool,
    /// A quoted string has no end: what is allowed is not known.
    pub broken: bool,
    /// The lifetime for any cache.
    pub max_age: Stated<u32>,
    /// The lifetime for shared caches.
    pub s_maxage: Stated<u32>,
    /// How long it may be used stale while it is fetched again.
    pub stale_while_revalidate: Option<u32>,
    /// How long it may be used stale where the service fails.
    pub stale_if_error: Option<u32>,
}

impl ResponseDirectives {
    /// Reads a line of `Cache-Control`.
    fn note_line(&mut self, line: &[u8]) {
        for directive in Directives::of(line) {
            match directive {
                Ok(directive) => self.note(directive, false),
                Err(_) => self.broken = true,
            }
        }
    }

    /// Reads the lines of a targeted field; `None` where it is no dictionary, or empty.
    fn of_target<'a>(values: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let (mut found, mut count) = (Self::default(), 0);
        for value in values {
            count +=
                dictionary::read(value, |name, argument| found.note(Directive { name, argument }, true))?;
        }
        (count > 0).then_some(found)
    }

    /// Of two of a kind the first counts, in a dictionary the last (RFC 8941 §3.2). A restriction holds however it is
    /// written.
    fn note(&mut self, directive: Directive<'_>, last_counts: bool) {
        let is_flag = directive.argument == Argument::Absent;
        let state = |place: &mut Stated<u32>| {
            if last_counts || *place == Stated::Absent {
                *place = directive.argument.seconds().map_or(Stated::Invalid, Stated::Value);
            }
        };
        let window = |place: &mut Option<u32>| {
            *place = if last_counts {
                directive.argument.seconds()
            } else {
                place.or(directive.argument.seconds())
            };
        };
        match directive.name.to_ascii_lowercase_in(&mut [0; LONGEST_NAME]) {
            b"no-store" => self.no_store = true,
            b"no-cache" => self.note_list(directive.argument, |found| &mut found.no_cache),
            b"private" => self.note_list(directive.argument, |found| &mut found.private),
            b"public" => self.public |= is_flag,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"must-understand" => self.must_understand |= is_flag,
            b"immutable" => self.immutable |= is_flag,
            b"max-age" => state(&mut self.max_age),
            b"s-maxage" => state(&mut self.s_maxage),
            b"stale-while-revalidate" => window(&mut self.stale_while_revalidate),
            b"stale-if-error" => window(&mut self.stale_if_error),
            _ => {}
        }
    }

    /// A directive that may be limited to fields; in doubt it is not.
    fn note_list(&mut self, argument: Argument<'_>, whole: impl Fn(&mut Self) -> &mut bool) {
        let is_limited = argument.names().is_some_and(|mut names| {
            let all =
                names.by_ref().take(MOST_LISTED).all(|name| !GOVERNING.contains(FieldId::classify(name)));
            all && names.next().is_none()
        });
        if is_limited {
            self.lists_fields = true;
        } else {
            *whole(self) = true;
        }
    }
}

/// The longest name of a directive that means something.
const LONGEST_NAME: usize = 22;

/// Lower case without an allocation.
trait Lowered {
    /// The name in lower case; empty where it is longer than any that is known.
    fn to_ascii_lowercase_in<'b>(&self, buffer: &'b mut [u8; LONGEST_NAME]) -> &'b [u8];
}

impl Lowered for [u8] {
    fn to_ascii_lowercase_in<'b>(&self, buffer: &'b mut [u8; LONGEST_NAME]) -> &'b [u8] {
        let Some(place) = buffer.get_mut(..self.len()) else { return &[] };
        place.copy_from_slice(self);
        place.make_ascii_lowercase();
        place
    }
}

/// Names of fields that `no-cache="…"` and `private="…"` list, in `Cache-Control` or in the targeted field that counts.
pub(crate) fn listed_fields<'a>(policy: &Policy, fields: impl FieldLines<'a>) -> Vec<&'a [u8]> {
    let mut names = Vec::new();
    let mut note = |directive: Directive<'a>| {
        if (directive.is("no-cache") || directive.is("private"))
            && let Some(listed) = directive.argument.names()
        {
            names.extend(listed.take(MOST_LISTED));
        }
    };
    match target_of(policy, fields.clone()) {
        Some(target) => values(fields, target).for_each(|value| {
            dictionary::read(value, |name, argument| note(Directive { name, argument }));
        }),
        None => values(fields, "cache-control").for_each(|value| {
            Directives::of(value).flatten().for_each(&mut note);
        }),
    }
    names
}

/// The values of a name.
pub(crate) fn values<'a>(fields: impl FieldLines<'a>, name: &str) -> impl Iterator<Item = &'a [u8]> {
    fields.filter_map(move |(known, value)| known.eq_ignore_ascii_case(name.as_bytes()).then_some(value))
}

/// The targeted field that counts: the first of the policy's that has a valid value which is not empty.
fn target_of<'p, 'a>(policy: &'p Policy, fields: impl FieldLines<'a>) -> Option<&'p str> {
    let counts = |name: &&str| ResponseDirectives::of_target(values(fields.clone(), name)).is_some();
    policy.targets.iter().map(AsRef::as_ref).find(counts)
}

/// A final response, as far as a cache is concerned.
#[derive(Clone, Copy, Debug, Default)]
pub struct Response<'a> {
    /// The status.
    pub status: u16,
    /// When the request began to be sent, or a stored response that is freshened was asked for again.
    pub requested: UnixMillis,
    /// When the head was received.
    pub received: UnixMillis,
    /// Bytes of its body, where they are known.
    pub content_length: Option<u64>,
    /// What it says of caching, in `Cache-Control` or a targeted field.
    pub directives: ResponseDirectives,
    /// The directives are those of a targeted field; `Expires` does not count then.
    pub is_targeted: bool,
    /// `Age`, in seconds; 0 where there is none that can be read (RFC 9111 §5.1).
    pub age: u32,
    /// `Date`, in seconds since the Unix epoch.
    pub date: Option<i64>,
    /// `Expires`.
    pub expires: Stated<i64>,
    /// `Last-Modified`.
    pub last_modified: Option<i64>,
    /// `ETag`; `None` where it is none, or there are several.
    pub etag: Option<EntityTag<'a>>,
    /// It has `Set-Cookie`.
    pub has_set_cookie: bool,
    /// It has `Vary`.
    pub has_vary: bool,
    /// `Content-Range`; `None` where there are several.
    pub content_range: Option<&'a [u8]>,
    /// `Location`.
    pub location: Option<&'a [u8]>,
    /// `Content-Location`.
    pub content_location: Option<&'a [u8]>,
}

impl<'a> Response<'a> {
    /// Reads the head of a response to a request that was sent at `requested` and answered at `received`.
    pub fn read(
        policy: &Policy,
        status: u16,
        (requested, received): (UnixMillis, UnixMillis),
        fields: impl FieldLines<'a>,
    ) -> Self {
        let mut response = Self { status, requested, received, ..Self::default() };
        let (mut dates, mut ages, mut tags, mut ranges) = (0, 0, 0, 0);
        let mut names_target = false;
        for (name, value) in fields.clone() {
            match FieldId::classify(name) {
                FieldId::CacheControl => response.directives.note_line(value),
                FieldId::Age if first(&mut ages) => response.age = age(value),
                FieldId::Date if first(&mut dates) => response.date = parse_http_date(value, received),
                FieldId::Expires if response.expires == Stated::Absent => {
                    response.expires =
                        parse_http_date(value, received).map_or(Stated::Invalid, Stated::Value);
                }
                FieldId::LastModified => response.last_modified = parse_http_date(value, received),
                FieldId::ETag => {
                    let is_first = first(&mut tags);
                    response.etag = EntityTag::parse(value).filter(|_| is_first);
                }
                FieldId::SetCookie => response.has_set_cookie = true,
                FieldId::Vary => response.has_vary = true,
                FieldId::ContentRange => response.content_range = first(&mut ranges).then_some(value),
                FieldId::Location => response.location = Some(value),
                FieldId::Other if name.eq_ignore_ascii_case(b"set-cookie2") => response.has_set_cookie = true,
                FieldId::Other if name.eq_ignore_ascii_case(b"content-location") => {
                    response.content_location = Some(value);
                }
                FieldId::Other => {
                    let mut targets = policy.targets.iter();
                    names_target |= targets.any(|target| target.as_bytes().eq_ignore_ascii_case(name));
                }
                _ => {}
            }
        }
        if response.directives.broken {
            response.directives = ResponseDirectives { broken: true, ..ResponseDirectives::default() };
        }
        if names_target && let Some(target) = target_of(policy, fields.clone()) {
            response.is_targeted = true;
            response.expires = Stated::Absent;
            response.directives = ResponseDirectives::of_target(values(fields, target)).unwrap_or_default();
        }
        response
    }
}

/// Whether this is the first one.
fn first(count: &mut u32) -> bool {
    *count += 1;
    *count == 1
}

/// The first member of the field; what is no number is ignored (RFC 9111 §5.1).
fn age(value: &[u8]) -> u32 {
    octet::list(value).next().and_then(delta_seconds).unwrap_or(0)
}

#[cfg(test)]
mod tests;
