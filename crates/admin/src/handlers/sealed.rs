//! Labels for destinations.

use axum::http::{Method, StatusCode};
use axum::response::Response;
use serde_json::json;

use crate::audit::Change;
use crate::body::{self, NewLabelSpec};
use crate::control::SealedLabel;
use crate::operation::{Access, ApiRequest, Handler, Operation, PLAIN, Reply, answer, body_of, json_of};
use crate::problem::Problem;

/// The operations that are answered here.
pub(crate) static OPERATIONS: &[Operation] = &[Operation {
    id: "seal",
    method: Method::POST,
    path: "/api/v1/sealed",
    summary: "Seals a destination: a host name that leads there.",
    access: Access::Write,
    body: Some(body_of::<NewLabelSpec>()),
    answers: &[answer(200, "The host name and its label.", json_of::<SealedLabel>())],
    refusals: &[404],
    handler: Handler::Now(seal),
    ..PLAIN
}];

pub(crate) fn seal(asked: &ApiRequest) -> Result<Response, Problem> {
    let new = body::parse::<NewLabelSpec>(&asked.body)?;
    let sealed = asked.app.control.seal(&new).map_err(|refusal| asked.refused(refusal))?;
    // Whoever reads the audit log is not to be able to use it.
    let known = json!({
        "route": sealed.route, "destination": new.destination, "expires": sealed.expires, "label": sealed.redacted,
    });
    Reply::json(StatusCode::OK, &sealed).changed(Change::new(None::<&()>, Some(&known))).done()
}
