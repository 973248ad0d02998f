//! How a request is cached.

use crate::exchange::filter_facts::{WorkerConnection, split};
use crate::state::exchange::{Client, Exchange};
use crate::state::worker::Worker;
use std::sync::Arc;
use thalweg_filter::{CacheRule, FieldView};

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
    Some(Ruled { rule, has_credentials })
}
