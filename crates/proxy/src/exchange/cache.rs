//! Phase 4: the cache, between the filters of a request and the service.
//!
//! What is stored answers at once ([`look`]). What is not is fetched once, by an exchange of its own ([`fill`]) whose
//! response goes into the store as it comes; the client that has caused it reads from there as those do who come
//! meanwhile ([`wait`]). Of what a client wants a range of, that range is fetched and stored ([`part`]). A response
//! that turns out not to be for the store goes to that one client ([`own_response`]), and later requests under its key
//! go straight to the service for a while. What goes there by itself may still change what is stored ([`forwarded`]).
//! Below the memory there may be a disk: what only that one has is read first ([`disk`]).

mod asked;
mod body;
mod disk;
mod fill;
mod forwarded;
mod own_response;
mod part;
mod reply;
mod rule;
mod source;
mod unkeyed;
mod until;
mod wait;

pub(crate) use body::receive;
pub(crate) use disk::load;
pub(crate) use forwarded::see_response;
pub(crate) use rule::{Ruled, cache_rule};
pub(crate) use wait::wait;

use crate::exchange::cache::asked::Asked;
use crate::exchange::cache::disk::Loading;
use crate::exchange::cache::fill::{Fill, Wanted, start};
use crate::exchange::cache::own_response::OwnResponse;
use crate::exchange::cache::reply::{handled, of_object};
use crate::exchange::cache::unkeyed::has_unkeyed;
use crate::exchange::cache::wait::Waiting;
use crate::exchange::subrequest::start_copies;
use crate::state::exchange::{Client, Exchange};
use crate::state::forwarded::Forwarded;
use crate::state::worker::Worker;
use std::sync::Arc;
use thalweg_cache::{Forward, Found, Hit, Lookup, Policy, Request, look_up, passes};
use thalweg_filter::Reply;
use thalweg_http::{Method, Upgrade};
use thalweg_observe::CacheUse;
use thalweg_store::{Choice, Claim, Lead, Object, Pass, Stored};

/// How often a request looks into a store that changes under it.
const LOOKS: usize = 4;

/// What the cache does with a request.
pub(crate) enum Looked {
    /// Nothing: it goes to the service.
    Forward,
    /// This answers it.
    Answered(Box<Reply>),
    /// A response is on its way.
    Waits(Box<Waiting>),
    /// The disk may have a response.
    Loads(Box<Loading>),
}

/// Asks the cache of a route.
pub(crate) fn look(worker: &Worker, client: &Client, x: &mut Exchange, ruled: &Ruled) -> Looked {
    if x.upgrade != Upgrade::None {
        return Looked::Forward;
    }
    let rule = &ruled.rule;
    let Some(asked) = Asked::of(worker, x, ruled) else {
        return pass(x, Forwarded::new(rule, Forward::Bypass));
    };
    // What a body asks for is in no key, but where it was received for that.
    let is_about_body = x.request.method == Method::Post || !x.framing.is_empty();
    let is_unkeyed = is_about_body && body::received(x, rule).is_none();
    let has_body = is_unkeyed.then_some(Forward::Bypass);
    let why = passes(&rule.policy, &asked.request(x)).or(has_body);
    if let Some(why) = why {
        let has_credentials = asked.has_credentials();
        return pass(x, Forwarded { key: asked.key, has_credentials, ..Forwarded::new(rule, why) });
    }
    asked.write_query(x);
    look_again(worker, client, x, (asked, None))
}

/// Looks, with what tells the request from others under its key where that is known.
fn look_again(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (mut asked, variant): (Asked, Option<Vec<u8>>),
) -> Looked {
    let store = &worker.shared.cache;
    for _ in 0..LOOKS {
        let stored = store.find(&asked.key);
        let (lookup, object) = choose(worker, x, &mut asked, &stored);
        if object.is_none()
            && !matches!(lookup, Lookup::Pass(_))
            && let Some(load) = disk::find(worker, x, &mut asked)
        {
            return Looked::Loads(Box::new(Loading { asked, load }));
        }
        let why = match (lookup, &object) {
            (Lookup::Hit(hit), Some(object)) => {
                return hit_with(worker, client, x, asked, (object, hit));
            }
            (Lookup::Unavailable, _) => return Looked::Answered(reply::unavailable(&asked.rule)),
            (Lookup::Pass(why), _) => return pass(x, asked.into_forwarded(why)),
            (Lookup::Fetch(why) | Lookup::Validate(why), _) => why,
            (Lookup::Hit(_), None) => Forward::UriMiss,
        };
        // Parts are asked for again as parts: what comes is joined with them, or takes their place.
        let (parts, whole) = match object {
            Some(object) if object.head().is_part() => (Some(object), None),
            object => (None, object),
        };
        let validated = whole.filter(|_| matches!(lookup, Lookup::Validate(_)));
        let request = asked.request(x);
        if request.method == Method::Head || request.directives.no_store {
            let is_told = request.method == Method::Head && !has_unkeyed(x, &asked.rule);
            let selected = validated.filter(|_| is_told);
            return pass(x, Forwarded { selected, ..asked.into_forwarded(why) });
        }
        if let (Choice::Nothing, Some(variant)) = (asked.chosen(&stored), &variant) {
            asked.variant.clone_from(variant);
        }
        let (claim, wanted) = if request.range.is_some() && validated.is_none() {
            (part::claim(worker, &asked, &request, (&stored, parts.is_some())), Wanted::Part(parts))
        } else {
            (claim(worker, &asked, &request, (&stored, validated.as_deref())), Wanted::Whole(validated))
        };
        if !matches!(claim, Claim::Look) {
            return claimed(worker, client, x, (asked, why), (claim, wanted));
        }
    }
    pass(x, asked.into_forwarded(Forward::Bypass))
}

/// Claims the whole.
fn claim(
    worker: &Worker,
    asked: &Asked,
    request: &Request<'_>,
    (stored, validated): (&Stored, Option<&Object>),
) -> Claim {
    let store = &worker.shared.cache;
    match goes_alone(&asked.rule.policy, request, validated) {
        true => store.lead_alone(&asked.key).map_or(Claim::Pass(Pass::Busy), Claim::Lead),
        false => store.claim(&asked.key, &asked.variant, stored, worker.unix()),
    }
}

/// Fetches, waits for another one's fetch, or goes to the service.
fn claimed(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (asked, why): (Asked, Forward),
    (claim, wanted): (Claim, Wanted),
) -> Looked {
    match claim {
        Claim::Lead(lead) => fetch(worker, client, x, (asked, why), (lead, wanted)),
        Claim::Follow(reader) => {
            let stored = match wanted {
                Wanted::Whole(validated) => validated,
                Wanted::Part(_) => None,
            };
            Looked::Waits(Box::new(Waiting { asked, why, reader, own: None, stored }))
        }
        Claim::Look => pass(x, asked.into_forwarded(why)),
        Claim::Pass(reason) => {
            let is_marked = reason == Pass::NotStored && matches!(wanted, Wanted::Whole(_));
            pass(x, Forwarded { is_marked, ..asked.into_forwarded(why) })
        }
    }
}

/// Whether nobody waits for what a request fetches: it is likely to be for one client, or each use of what is stored is
/// validated, or this client wants something newer than others need.
fn goes_alone(policy: &Policy, request: &Request<'_>, validated: Option<&Object>) -> bool {
    let wanted = request.directives;
    let is_wanted_new =
        policy.honours_clients && (wanted.no_cache || wanted.max_age.is_some() || wanted.min_fresh.is_some());
    let is_own = |object: &Object| is_wanted_new || object.head().freshness.is_never_fresh();
    request.has_credentials || validated.is_some_and(is_own)
}

/// What of that which is stored fits the request, and what is to be done.
fn choose(
    worker: &Worker,
    x: &Exchange,
    asked: &mut Asked,
    stored: &Stored,
) -> (Lookup, Option<Arc<Object>>) {
    let (request, fields, policy) = (asked.request(x), asked::fields(x), &asked.rule.policy);
    let now = worker.unix();
    match stored.choose(policy, fields, &mut asked.variant) {
        // It was stored with another limit.
        Choice::Object(object) if object.body().len() > asked.rule.max_object => {
            (look_up(policy, &request, Found::Nothing, now), None)
        }
        Choice::Object(object) => {
            let found = object.parts();
            let found = match &found {
                Some(parts) => Found::Parts(object.head(), parts),
                None => Found::Head(object.head()),
            };
            (look_up(policy, &request, found, now), Some(object.clone()))
        }
        choice => (look_up(policy, &request, choice.found(), now), None),
    }
}

/// A stored response answers; a stale one is fetched again beside that.
fn hit_with(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    asked: Asked,
    (object, hit): (&Arc<Object>, Hit),
) -> Looked {
    let Some(reply) = of_object(x, &asked, (object.shared_head(), object.body()), &handled::hit(hit)) else {
        return pass(x, asked.into_forwarded(Forward::Partial));
    };
    x.cache_use = Some(if hit.is_stale { CacheUse::Stale } else { CacheUse::Hit });
    if hit.refresh {
        refresh(worker, client, x, &asked, Some(object));
    }
    worker.cache_key.set(asked.key);
    Looked::Answered(reply)
}

/// Fetches a stale response again, unless somebody does.
fn refresh(worker: &Worker, client: &Client, x: &Exchange, asked: &Asked, object: Option<&Arc<Object>>) {
    let store = &worker.shared.cache;
    let stored = store.find(&asked.key);
    let (claim, wanted) = match object.filter(|object| object.head().is_part()) {
        Some(parts) => {
            let claim = part::claim(worker, asked, &asked.request(x), (&stored, true));
            (claim, Wanted::Part(Some(parts.clone())))
        }
        None => {
            let claim = store.claim(&asked.key, &asked.variant, &stored, worker.unix());
            (claim, Wanted::Whole(object.cloned()))
        }
    };
    if let Claim::Lead(lead) = claim {
        start(worker, client, x, Fill::new(asked, x, lead, (wanted, None)));
    }
}

/// Fetches a response, for the client and for the store.
fn fetch(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    (asked, why): (Asked, Forward),
    (lead, wanted): (Lead, Wanted),
) -> Looked {
    let Some(reader) = lead.reader() else {
        return pass(x, asked.into_forwarded(why));
    };
    // What goes to the service is copied.
    start_copies(worker, client, x);
    let own = OwnResponse::new();
    start(worker, client, x, Fill::new(&asked, x, lead, (wanted, Some(own.clone()))));
    let (own, stored) = (Some(own.reader()), None);
    Looked::Waits(Box::new(Waiting { asked, why, reader, own, stored }))
}

/// The request goes to the service by itself.
fn pass(x: &mut Exchange, forwarded: Forwarded) -> Looked {
    x.cache_use = Some(CacheUse::Pass);
    x.filtering.get_or_insert_default().forwarded = Some(Box::new(forwarded));
    Looked::Forward
}
