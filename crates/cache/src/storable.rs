//! Whether a response may be stored, and if not, why (RFC 9111 §3).

use crate::freshness::{Freshness, is_kept_by_heuristics};
use crate::policy::{Policy, SetCookie};
use crate::range::ContentRange;
use crate::request::Request;
use crate::response::{Response, Stated};
use crate::vary::Vary;
use thalweg_http::Method;

/// Statuses whose meaning for caches is known (RFC 9110 §15 and what is registered beside it). A response that asks for
/// that (`must-understand`) is stored with one of these only.
const UNDERSTOOD: [u16; 42] = [
    200, 201, 202, 203, 204, 205, 206, 300, 301, 302, 303, 307, 308, 400, 401, 402, 403, 404, 405, 406, 407,
    408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 421, 422, 426, 428, 451, 500, 501, 502, 503, 504, 505,
];

macro_rules! reasons {
    ($( $(#[$doc:meta])* $name:ident $token:literal $sentence:literal, )*) => {
        /// Why a response is not stored.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        pub enum NotStored {
            $( #[doc = $sentence] $name, )*
        }

        impl NotStored {
            /// Every reason.
            pub const ALL: &'static [Self] = &[ $( Self::$name, )* ];

            /// A word for `Cache-Status`, records and metrics.
            pub const fn token(self) -> &'static str {
                match self { $( Self::$name => $token, )* }
            }

            /// Whether the response is the reason, and not the request that caused it: what is stored under the same
            /// key is not to be used either.
            pub const fn is_of_response(self) -> bool {
                !matches!(self, Self::Method | Self::RequestBody | Self::RequestNoStore | Self::Credentials)
            }

            /// A sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $( Self::$name => $sentence, )* }
            }
        }
    };
}

reasons! {
    Method "method" "The method has no response that can be stored.",
    RequestBody "request-body" "The request has a body, which is not part of the key.",
    RequestNoStore "request-no-store" "The request says no-store.",
    NotFinal "not-final" "The response is interim, or confirms one that is stored.",
    NotUnderstood "not-understood" "The response wants to be stored only where its status is understood, and it is not.",
    BrokenCacheControl "broken-cache-control" "A quoted string in Cache-Control has no end.",
    NoStore "no-store" "The response says no-store.",
    Private "private" "The response says private.",
    Credentials "credentials" "The request has credentials, and the response does not say that it is for all.",
    SetCookie "set-cookie" "The response sets a cookie.",
    Varies "vary" "The response varies by something that cannot be compared.",
    Part "part" "The response is a part of which it is not clear where it belongs.",
    NoLifetime "no-lifetime" "Nothing says that a response with this status can be stored.",
    TooLarge "too-large" "The body is larger than what is stored.",
    Useless "useless" "The response is stale and cannot be validated.",
}

/// A response that may be stored.
#[derive(Clone, Debug)]
pub(crate) struct Storable {
    pub(crate) freshness: Freshness,
    pub(crate) vary: Vary,
    pub(crate) part: Option<ContentRange>,
}

/// Whether a response to this request may be stored; `vary` is what it varies by.
pub(crate) fn assess(
    policy: &Policy,
    request: &Request<'_>,
    response: &Response<'_>,
    vary: Vary,
) -> Result<Storable, NotStored> {
    request_allows(policy, request)?;
    status_allows(response)?;
    directives_allow(policy, request, response)?;
    if response.has_set_cookie && policy.set_cookie == SetCookie::Refuse {
        return Err(NotStored::SetCookie);
    }
    if vary == Vary::Everything {
        return Err(NotStored::Varies);
    }
    let part = match response.status {
        206 => Some(part(request, response).ok_or(NotStored::Part)?),
        _ => None,
    };
    let mut freshness = Freshness::of(policy, response);
    if request.has_cookie && !response.directives.public && !vary.names("cookie") {
        // It may be made for a session by a service that says nothing of caches: it is validated each time.
        freshness = freshness.without_heuristics();
    }
    is_of_use(policy, request, response, &freshness)?;
    Ok(Storable { freshness, vary, part })
}

/// Whether a response may update the fields of a stored one: its own directives allow storing it. The directives of
/// the stored response (`public`, a targeted field) apply to other fields and do not count.
pub(crate) fn update_allowed(
    policy: &Policy,
    request: &Request<'_>,
    response: &Response<'_>,
) -> Result<(), NotStored> {
    status_allows(response)?;
    directives_allow(policy, request, response)
}

/// Whether a response that was stored with another policy, perhaps, would be stored with this one. What its request was
/// is not known.
pub(crate) fn is_still_stored(policy: &Policy, response: &Response<'_>, freshness: &Freshness) -> bool {
    let request = Request::read(Method::Get, false, std::iter::empty());
    let is_refused = response.has_set_cookie && policy.set_cookie != SetCookie::Store;
    !is_refused
        && status_allows(response).is_ok()
        && directives_allow(policy, &request, response).is_ok()
        && is_of_use(policy, &request, response, freshness).is_ok()
}

fn request_allows(policy: &Policy, request: &Request<'_>) -> Result<(), NotStored> {
    match request.method {
        Method::Get if request.has_body && !policy.is_per_client() => return Err(NotStored::RequestBody),
        Method::Get => {}
        Method::Post if policy.answers_post() => {}
        Method::Post if policy.stores_post && !policy.is_per_client() => {}
        _ => return Err(NotStored::Method),
    }
    if request.directives.no_store { Err(NotStored::RequestNoStore) } else { Ok(()) }
}

fn status_allows(response: &Response<'_>) -> Result<(), NotStored> {
    match response.status {
        0..200 | 304 => Err(NotStored::NotFinal),
        status if response.directives.must_understand && !UNDERSTOOD.contains(&status) => {
            Err(NotStored::NotUnderstood)
        }
        _ => Ok(()),
    }
}

fn directives_allow(
    policy: &Policy,
    request: &Request<'_>,
    response: &Response<'_>,
) -> Result<(), NotStored> {
    let said = response.directives;
    if said.broken {
        return Err(NotStored::BrokenCacheControl);
    }
    if said.no_store && !said.must_understand {
        return Err(NotStored::NoStore);
    }
    if policy.is_per_client() {
        return Ok(());
    }
    if said.private {
        return Err(NotStored::Private);
    }
    let is_for_all = said.public || said.must_revalidate || matches!(said.s_maxage, Stated::Value(_));
    if request.has_credentials && !is_for_all { Err(NotStored::Credentials) } else { Ok(()) }
}

/// Where a part belongs. Only a single range of bytes of a representation whose length is known is stored, and only if
/// the body is as long as the range.
fn part(request: &Request<'_>, response: &Response<'_>) -> Option<ContentRange> {
    request.range?;
    let range = ContentRange::parse(response.content_range?)?;
    let is_whole = response.content_length.is_none_or(|length| length == range.len());
    is_whole.then_some(range)
}

fn is_of_use(
    policy: &Policy,
    request: &Request<'_>,
    response: &Response<'_>,
    freshness: &Freshness,
) -> Result<(), NotStored> {
    let said = response.directives;
    let is_stated = said.max_age != Stated::Absent
        || said.s_maxage != Stated::Absent
        || response.expires != Stated::Absent;
    if request.method == Method::Post && !is_stated && !policy.is_per_client() {
        return Err(NotStored::NoLifetime);
    }
    let is_kept = is_stated
        || said.public
        || is_kept_by_heuristics(response.status)
        || policy.default_lifetime(response.status).is_some();
    if !is_kept {
        return Err(NotStored::NoLifetime);
    }
    let can_be_validated = response.etag.is_some() || response.last_modified.is_some();
    let stale_millis = u64::from(freshness.usable_stale(policy)) * 1000;
    // What is stale at once is not kept for the day on which the service cannot be reached, unless it says so itself.
    let is_kept_stale = freshness.lifetime.seconds > 0
        || freshness.while_revalidate.is_some()
        || freshness.if_error.is_some();
    let is_usable = !freshness.must_validate
        && (freshness.is_fresh(response.received)
            || is_kept_stale && freshness.staleness(response.received) < stale_millis);
    if can_be_validated || is_usable { Ok(()) } else { Err(NotStored::Useless) }
}

#[cfg(test)]
mod tests;
