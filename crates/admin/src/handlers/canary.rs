//! Canaries of routes.

use axum::http::{Method, StatusCode};
use axum::response::Response;

use crate::audit::Change;
use crate::control::{CanaryOrder, CanaryStatus, Refusal};
use crate::operation::{Access, ApiRequest, Handler, Operation, PLAIN, Precondition, Reply, json_of, tagged};
use crate::problem::Problem;

/// The operations that are answered here.
pub(crate) static OPERATIONS: &[Operation] = &[
    Operation {
        id: "canary",
        path: "/api/v1/routes/{route}/canary",
        summary: "Where the canary of a route stands, and what was counted since its step began.",
        answers: &[tagged(200, "The canary.", json_of::<CanaryStatus>())],
        refusals: &[404],
        handler: Handler::Now(canary),
        ..PLAIN
    },
    Operation {
        id: "order_canary",
        method: Method::POST,
        path: "/api/v1/routes/{route}/canary/{order}",
        summary: "Has the canary of a route start, pause, resume, promote or rollback.",
        access: Access::Write,
        precondition: Precondition::Optional,
        answers: &[tagged(200, "The canary as it stands now.", json_of::<CanaryStatus>())],
        refusals: &[404, 409],
        handler: Handler::Now(order),
        ..PLAIN
    },
];

fn canary(asked: &ApiRequest) -> Result<Response, Problem> {
    let status = asked.app.control.canary(asked.path("route")).map_err(|refusal| asked.refused(refusal))?;
    let version = asked.app.control.services().version;
    Reply::json(StatusCode::OK, &status).tag(&asked.app.tag(version)).done()
}

fn order(asked: &ApiRequest) -> Result<Response, Problem> {
    let word = asked.path("order");
    let order = CanaryOrder::from_name(word).ok_or_else(|| {
        let words: Vec<_> = CanaryOrder::ALL.iter().map(|order| order.name()).collect();
        let detail = format!("a canary cannot `{word}`; it can {}", words.join(", "));
        asked.refused(Refusal::Unknown(detail))
    })?;
    let ordered = asked.app.control.order_canary(asked.path("route"), order, &asked.expected_version());
    let done = ordered.map_err(|refusal| asked.refused(refusal))?;
    Reply::json(StatusCode::OK, &done.after)
        .tag(&asked.app.tag(done.version))
        .changed(Change::new(Some(&done.before), Some(&done.after)))
        .done()
}
