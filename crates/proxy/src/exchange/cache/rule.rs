//! How a request is cached.

use crate::exchange::filter_facts::{WorkerConnection, split};
use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use std::sync::Arc;
use thalweg_filter::{CacheRule, FieldView};
use thalweg_http::{Field, FieldId};

/// A rule, and what is known of the client by it.
pub(crate) struct Ruled {
    pub(crate) rule: Arc<CacheRule>,
    /// The client is known by other means than `Authorization`.
    pub(crate) has_credentials: bool,
}

/// How the response to a request is cached that has come through the filters of its route; `None`: it is not.
#[inline]
pub(crate) fn cache_rule(worker: &Worker, client: &Client, x: &mut Exchange) -> Option<Ruled> {
    if x.chain().is_some_and(|chain| chain.has_cache()) { find(worker, client, x) } else { None }
}

fn find(worker: &Worker, client: &Client, x: &mut Exchange) -> Option<Ruled> {
    let found = x.route.clone()?;
    let route = found.route();
    let chain = route.chain(x.listener, x.target);
    let connection = WorkerConnection(worker, client);
    let (facts, parts) = split(x, route, &connection.surroundings());
    let filtering = parts.filtering;
    let fields = FieldView::new(&parts.request.fields, parts.received, &filtering.added);
    let rule = chain.cache_for(&facts, fields, filtering.outcome.identity.as_deref())?.clone();
    let has_credentials = rule.has_credentials(&facts);
    if !tells_certificate(x) || rule.shares_verified {
        return Some(Ruled { rule, has_credentials });
    }
    // As if the client had shown it here.
    (!rule.policy.is_per_client()).then_some(Ruled { rule, has_credentials: true })
}

/// Whether a trusted proxy tells the service of the client's certificate.
fn tells_certificate(x: &Exchange) -> bool {
    let is_told = |field: &Field| field.keep && field.id == FieldId::ClientCert;
    x.request.present.contains(FieldId::ClientCert) && x.request.fields.iter().any(is_told)
}
