//! The decisions of a shared HTTP cache: RFC 9111, with 5861 (stale responses), 8246 (immutable), 9211 (`Cache-Status`)
//! and 9213 (targeted fields). Pure: no socket, no clock, no lock. Heads and times come in, decisions go out.
//!
//! The modules stand in the order in which an exchange meets them. A request is read ([`request`]) and has a key
//! ([`key`]). What a store finds under it, and which variant of it ([`vary`]), goes to [`lookup`]: an answer
//! ([`mod@answer`]), a validation ([`validation`]), or a fetch. A response is read ([`response`]) and becomes a stored
//! head ([`stored`]), or there is a reason why not ([`storable`]). Unsafe requests take stored responses away
//! ([`invalidation`]). What happened is told in `Cache-Status` ([`status`]).
//!
//! Invariants: no input makes it panic; no input makes it do more than compare each name of two heads with each other;
//! every bound has a name. What is said in doubt is the stricter thing: it is not stored, it is not fresh.
#![forbid(unsafe_code)]

pub mod policy;
pub mod time;

mod dictionary;
mod directives;

pub mod request;

pub mod key;
pub mod query;

pub mod vary;

pub mod lookup;

pub mod answer;
pub mod parts;
pub mod range;
pub mod validators;

pub mod validation;

pub mod freshness;
pub mod response;
pub mod storable;
pub mod stored;

pub mod invalidation;
pub mod status;

#[cfg(test)]
mod testing;

pub use answer::{Answer, Body, answer, is_known, write_answer};
pub use directives::MOST_SECONDS;
pub use freshness::{Freshness, Lifetime};
pub use invalidation::{invalidates, same_origin};
pub use key::{CREDENTIALS, Client, Key, KeyRule, KeyTooLong, KeyUrl, Url, body_digest};
pub use lookup::{Failure, Forward, Found, Hit, Lookup, look_up, passes, use_on_failure};
pub use parts::Parts;
pub use policy::{DefaultLifetime, Policy, SetCookie, Sharing};
pub use query::{QueryRule, Selected};
pub use range::{ContentRange, Ranges};
pub use request::{FieldLines, Request, RequestDirectives};
pub use response::{Response, ResponseDirectives, Stated};
pub use status::{CacheStatus, Detail, Handled};
pub use storable::NotStored;
pub use stored::{Saved, StoredHead, split_lines};
pub use time::UnixMillis;
pub use validation::{
    HeadEffect, REPLACED_FIELDS, Validated, head_effect, is_same_representation, joined, validated,
    write_completion, write_conditions,
};
pub use validators::EntityTag;
pub use vary::Vary;
