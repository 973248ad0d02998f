//! The body of a POST, which is a part of its key where a rule says so (`per_client: { methods: [ POST ] }`).
//!
//! It is received before the cache is asked, if its length is told and within the bound of the rule, and its digest
//! goes into the key. A longer one, one without a length, a call of gRPC and one that filters change on its way pass
//! by: they are streamed as ever.

use crate::exchange::buffer_body::receive_for_key;
use crate::exchange::cache::asked::fields;
use crate::exchange::cache::rule::Ruled;
use crate::exchange::cache::unkeyed::{has_other_method, has_unkeyed};
use crate::exchange::grpc;
use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use thalweg_cache::body_digest;
use thalweg_core::Fault;
use thalweg_filter::CacheRule;
use thalweg_http::grpc::Kind;
use thalweg_http::{Framing, Method, Upgrade};

/// Receives the body of a request, where it is to be a part of its key. Cancel-safe in so far as the exchange ends with
/// it.
pub(crate) async fn receive(
    worker: &Worker,
    client: &Client,
    x: &mut Exchange,
    ruled: &Ruled,
) -> Result<(), Fault> {
    match length(x, &ruled.rule) {
        None | Some(0) => Ok(()),
        // In a box because it is rare: every task would be larger for it.
        Some(length) => Box::pin(receive_for_key(worker, client, x, length)).await,
    }
}

/// Bytes of a body that is a part of the key.
fn length(x: &Exchange, rule: &CacheRule) -> Option<u64> {
    if x.request.method != Method::Post || !rule.policy.answers_post() {
        return None;
    }
    let is_changed = x.filtered().is_some_and(|filtering| !filtering.outcome.transforms.is_empty());
    if x.upgrade != Upgrade::None || is_changed || grpc::kind(x) != Kind::No {
        return None;
    }
    // Nothing that is fetched has fields that a stranger chooses by. Behind trusted proxies they are in the key; but
    // what makes another method of a POST is to reach the service each time.
    if has_unkeyed(x, rule) || has_other_method(x) {
        return None;
    }
    let length = match x.framing {
        Framing::Empty => 0,
        Framing::Length(length) => length,
        Framing::Chunked | Framing::UntilClose => return None,
    };
    (length <= u64::from(rule.policy.post_body?)).then_some(length)
}

/// The body that has been received to be a part of the key.
pub(super) fn received<'x>(x: &'x Exchange, rule: &CacheRule) -> Option<&'x [u8]> {
    let length = usize::try_from(length(x, rule)?).ok()?;
    x.received.get(x.request.len..x.request.len.checked_add(length)?)
}

/// What of it is in the key.
pub(super) fn digest(x: &Exchange, rule: &CacheRule) -> Option<[u8; 32]> {
    received(x, rule).map(|body| body_digest(fields(x), body))
}
