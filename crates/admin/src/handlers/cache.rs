//! The cache.

use axum::http::{Method, StatusCode};
use axum::response::Response;

use crate::audit::Change;
use crate::body::{self, PurgeSpec};
use crate::control::{CacheStatus, Purged};
use crate::operation::{
    Access, ApiRequest, Handler, Operation, PLAIN, Pending, Reply, answer, body_of, json_of,
};
use crate::problem::Problem;

/// The operations that are answered here.
pub(crate) static OPERATIONS: &[Operation] = &[
    Operation {
        id: "cache",
        path: "/api/v1/cache",
        summary: "What the cache has and did, its hit ratio by route, and how replicas are told of purges.",
        answers: &[answer(200, "The cache.", json_of::<CacheStatus>())],
        handler: Handler::Now(status),
        ..PLAIN
    },
    Operation {
        id: "purge_cache",
        method: Method::POST,
        path: "/api/v1/cache/purge",
        summary: "Takes stored responses away, by URL, prefix, host or tag, or all; or makes them stale. Other replicas are told where `cache.purge` is configured.",
        access: Access::Write,
        body: Some(body_of::<PurgeSpec>()),
        answers: &[answer(200, "How many it was; none is no error.", json_of::<Purged>())],
        refusals: &[404, 503],
        handler: Handler::Later(purge),
        ..PLAIN
    },
];

fn status(asked: &ApiRequest) -> Result<Response, Problem> {
    Reply::json(StatusCode::OK, &asked.app.control.cache()).done()
}

fn purge(asked: ApiRequest) -> Pending {
    Box::pin(async move {
        let purge = body::parse::<PurgeSpec>(&asked.body)?;
        let done = asked.app.control.purge(purge).await.map_err(|refusal| asked.refused(refusal))?;
        Reply::json(StatusCode::OK, &done).changed(Change::new(None::<&()>, Some(&done))).done()
    })
}
