//! Every operation of the admin API: the rows that stand beside their handlers, in one table.
//!
//! The router (`routes`), the OpenAPI document (`openapi`), the roles that a token needs and `thalweg api` are made
//! from it. A new operation is a row and its handler in a file of `handlers`, and what it asks of the [`Control`].
//!
//! [`Control`]: crate::control::Control

use crate::handlers::{
    access, api_keys, audit, cache, canary, config, events, explain, process, requests, sealed, series,
    services, session, tap,
};
use crate::operation::{Access, Operation};

/// The rows of each file of `handlers`.
static TABLE: &[&[Operation]] = &[
    process::OPERATIONS,
    services::OPERATIONS,
    canary::OPERATIONS,
    explain::OPERATIONS,
    sealed::OPERATIONS,
    config::OPERATIONS,
    access::OPERATIONS,
    api_keys::OPERATIONS,
    cache::OPERATIONS,
    requests::OPERATIONS,
    series::OPERATIONS,
    tap::OPERATIONS,
    audit::OPERATIONS,
    events::OPERATIONS,
    session::OPERATIONS,
];

/// The table.
pub(crate) fn operations() -> impl Iterator<Item = &'static Operation> {
    TABLE.iter().copied().flatten()
}

/// Whether the metrics listener, which asks for no token, has the operation.
pub(crate) fn is_on_metrics_listener(operation: &Operation) -> bool {
    operation.access == Access::Open || operation.path == "/metrics"
}
