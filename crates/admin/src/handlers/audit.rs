//! The audit log, read.

use std::time::Duration;

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio::time::timeout;

use crate::audit::{Entry, READ};
use crate::operation::{Access, ApiRequest, Handler, Operation, PLAIN, Pending, Reply, answer, json_of};
use crate::problem::Problem;
use crate::query::{Kind, Parameter};

/// The operations that are answered here.
pub(crate) static OPERATIONS: &[Operation] = &[Operation {
    id: "audit",
    path: "/api/v1/audit",
    summary: "The newest entries of the audit log, oldest first.",
    access: Access::Write,
    query: &[Parameter {
        name: "last",
        about: "How many. Default 100, at most 1000.",
        kind: Kind::Count(READ),
    }],
    answers: &[answer(200, "The entries.", json_of::<Entries>())],
    handler: Handler::Later(last),
    ..PLAIN
}];

/// Entries that are shown without `last`.
const LAST: u64 = 100;
/// Time for the disk.
const READ_TIME: Duration = Duration::from_secs(5);

/// The answer to `GET /api/v1/audit`.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct Entries {
    /// Oldest first.
    #[schemars(with = "Vec<Entry>")]
    entries: Vec<Value>,
}

pub(crate) fn last(asked: ApiRequest) -> Pending {
    Box::pin(async move {
        let count = asked.query.number("last").unwrap_or(LAST);
        let busy = || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the audit log cannot be read now");
        let answered = asked.app.audit.last(usize::try_from(count).unwrap_or(usize::MAX)).ok_or_else(busy)?;
        match timeout(READ_TIME, answered).await {
            Ok(Ok(Ok(entries))) => Reply::json(StatusCode::OK, &Entries { entries }).done(),
            Ok(Ok(Err(error))) => {
                let detail = format!("the audit log cannot be read: {error}");
                Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail))
            }
            Ok(Err(_)) | Err(_) => Err(busy()),
        }
    })
}
