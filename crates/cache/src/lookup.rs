//! What is done with a request: answer it, validate what is stored, fetch, or let it pass (RFC 9111 §4).

use crate::answer::{Answer, Body, part_of};
use crate::parts::Parts;
use crate::policy::Policy;
use crate::request::{Request, RequestDirectives};
use crate::stored::StoredHead;
use crate::time::UnixMillis;
use thalweg_http::Method;

/// What the store has for a request.
#[derive(Clone, Copy, Debug)]
pub enum Found<'s> {
    /// Nothing under its key.
    Nothing,
    /// Responses under its key, none of which fits its fields (`Vary`).
    OtherVariants,
    /// This one; its body is complete, or on its way.
    Head(&'s StoredHead),
    /// This one, of whose body parts are stored.
    Parts(&'s StoredHead, &'s Parts),
}

/// Why a request goes to the service, in the words of RFC 9211 §2.2.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Forward {
    /// The cache is not to be used for it.
    Bypass,
    /// Its method is not one of those that are answered from a cache.
    Method,
    /// Nothing is stored under its key.
    UriMiss,
    /// Nothing that is stored fits its fields.
    VaryMiss,
    /// What is stored is fresh, and the request does not want it.
    Request,
    /// What is stored is stale, or wants to be validated each time.
    Stale,
    /// What is stored is a part, and not the one that is asked for.
    Partial,
}

impl Forward {
    /// The token of `fwd`.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }
}

/// A stored response that is used as it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hit {
    /// The value of `Age`.
    pub age: u32,
    /// Seconds that it stays fresh, negative where it is stale.
    pub ttl: i64,
    /// It is stale.
    pub is_stale: bool,
    /// It is to be fetched again beside this exchange (RFC 5861 §3).
    pub refresh: bool,
}

impl Hit {
    /// Of a stored response that is used at this time, for whatever reason.
    pub fn of(head: &StoredHead, now: UnixMillis) -> Self {
        let freshness = &head.freshness;
        Self {
            age: freshness.age_seconds(now),
            ttl: freshness.ttl(now),
            is_stale: !freshness.is_fresh(now),
            refresh: false,
        }
    }
}

/// What is done with a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lookup {
    /// It goes to the service as if there was no cache.
    Pass(Forward),
    /// It goes to the service; the response may be stored.
    Fetch(Forward),
    /// The stored response answers it.
    Hit(Hit),
    /// The service is asked whether the stored response still holds.
    Validate(Forward),
    /// 504: the client does not want the service to be asked (`only-if-cached`).
    Unavailable,
}

/// Whether a cache has to do with a request at all; why not.
///
/// Asked before a key is made.
pub fn passes(policy: &Policy, request: &Request<'_>) -> Option<Forward> {
    match request.method {
        Method::Get | Method::Head if policy.skips_get => Some(Forward::Method),
        // RFC 9110 §13.1.2: a condition that does not hold is answered 412, which is for the service to say.
        Method::Post if policy.answers_post() => {
            (request.has_origin_conditions || request.has_if_none_match).then_some(Forward::Bypass)
        }
        Method::Get | Method::Head if request.has_body && !policy.is_per_client() => Some(Forward::Bypass),
        // RFC 9111 §4.3.2: only the service knows what they are about.
        Method::Get | Method::Head if request.has_origin_conditions => Some(Forward::Bypass),
        Method::Get | Method::Head => None,
        _ => Some(Forward::Method),
    }
}

/// Decides what is done with a request for which the store has found something or nothing.
pub fn look_up(policy: &Policy, request: &Request<'_>, found: Found<'_>, now: UnixMillis) -> Lookup {
    if let Some(why) = passes(policy, request) {
        return Lookup::Pass(why);
    }
    let wanted = directives(policy, request);
    let lookup = match found {
        Found::Nothing => Lookup::Fetch(Forward::UriMiss),
        Found::OtherVariants => Lookup::Fetch(Forward::VaryMiss),
        Found::Head(head) => use_stored(policy, &wanted, head, now),
        // RFC 9111 §3.3, §4.3.2: parts neither answer nor validate what is not wholly within them.
        Found::Parts(head, parts) if part_of(request, head, Body::Parts(parts)) == Answer::Lacks => {
            Lookup::Fetch(Forward::Partial)
        }
        Found::Parts(head, _) => use_stored(policy, &wanted, head, now),
    };
    let lookup = match lookup {
        // A POST is not repeated unasked, and none has conditions: what is stale is fetched.
        Lookup::Hit(hit) if request.method == Method::Post && hit.is_stale => Lookup::Fetch(Forward::Stale),
        Lookup::Validate(why) if request.method == Method::Post => Lookup::Fetch(why),
        lookup => lookup,
    };
    match lookup {
        Lookup::Fetch(_) | Lookup::Validate(_) if wanted.only_if_cached => Lookup::Unavailable,
        lookup => lookup,
    }
}

/// The directives that count.
fn directives(policy: &Policy, request: &Request<'_>) -> RequestDirectives {
    if policy.honours_clients { request.directives } else { RequestDirectives::default() }
}

fn use_stored(policy: &Policy, wanted: &RequestDirectives, head: &StoredHead, now: UnixMillis) -> Lookup {
    let freshness = &head.freshness;
    let is_fresh = freshness.is_fresh(now);
    if freshness.must_validate {
        return Lookup::Validate(Forward::Stale);
    }
    if !suits(wanted, head, now) {
        return Lookup::Validate(if is_fresh { Forward::Request } else { Forward::Stale });
    }
    let hit = Hit::of(head, now);
    if is_fresh {
        return Lookup::Hit(hit);
    }
    // RFC 9111 §5.2.1.2: allowed by the client, unless the response forbids it.
    let is_allowed = wanted.max_stale.is_some_and(|most| {
        freshness.may_be_stale() && !freshness.stale_as_stated && freshness.is_within(most, now)
    });
    if is_allowed {
        return Lookup::Hit(hit);
    }
    // Who asks for an age or freshness does not want a stale response (RFC 9111 §5.2.1.1).
    let takes_stale = wanted.max_age.is_none() && wanted.min_fresh.is_none();
    if takes_stale && freshness.may_be_used_while_revalidated(policy, now) {
        return Lookup::Hit(Hit { refresh: true, ..hit });
    }
    Lookup::Validate(Forward::Stale)
}

/// Whether the stored response is what the client asks for, apart from its being stale.
fn suits(wanted: &RequestDirectives, head: &StoredHead, now: UnixMillis) -> bool {
    let freshness = &head.freshness;
    let millis = |seconds: u32| u64::from(seconds) * 1000;
    let age = freshness.age(now);
    // A reload asks for an age of 0; what does not change need not be asked for again (RFC 8246 §2).
    let is_unchanged = freshness.immutable && freshness.is_fresh(now);
    let is_too_old = !is_unchanged && wanted.max_age.is_some_and(|most| age > millis(most));
    let stays_fresh = millis(freshness.lifetime.seconds).saturating_sub(age);
    let is_too_stale = wanted.min_fresh.is_some_and(|least| stays_fresh < millis(least));
    !wanted.no_cache && !is_too_old && !is_too_stale
}

/// How the service has failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Failure {
    /// There was no response.
    Unreachable,
    /// It has answered with this status.
    Status(u16),
}

/// Whether the stored response is used, stale, because the service fails (RFC 9111 §4.2.4, RFC 5861 §4).
///
/// Where it is not and there was no response at all, the client gets 504 (RFC 9111 §5.2.2.2).
pub fn use_on_failure(
    policy: &Policy,
    request: &Request<'_>,
    head: &StoredHead,
    failure: Failure,
    now: UnixMillis,
) -> Option<Hit> {
    let wanted = directives(policy, request);
    let freshness = &head.freshness;
    if passes(policy, request).is_some() || wanted.no_cache || freshness.must_validate {
        return None;
    }
    if matches!(failure, Failure::Status(status) if !matches!(status, 500 | 502 | 503 | 504)) {
        return None;
    }
    if freshness.is_fresh(now) {
        return suits(&wanted, head, now).then(|| Hit::of(head, now));
    }
    let implied = match failure {
        _ if freshness.stale_as_stated => 0,
        Failure::Unreachable => policy.stale_when_unreachable.max(wanted.stale_if_error.unwrap_or(0)),
        Failure::Status(_) => wanted.stale_if_error.unwrap_or(0),
    };
    let window = freshness.if_error.unwrap_or(0).max(implied);
    (freshness.may_be_stale() && freshness.is_within(window, now)).then(|| Hit::of(head, now))
}

#[cfg(test)]
mod tests;
