//! Labels for destinations.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use crate::audit::Change;
use crate::body::{self, NewLabelSpec};
use crate::operation::{ApiRequest, Reply};
use crate::problem::Problem;

pub(crate) fn seal(asked: &ApiRequest) -> Result<Response, Problem> {
    let new = body::json::<NewLabelSpec>(&asked.body)?.validate()?;
    let sealed = asked.app.control.seal(&new).map_err(|refusal| asked.refused(refusal))?;
    // Whoever reads the audit log is not to be able to use it.
    let known = json!({
        "route": sealed.route, "destination": new.destination, "expires": sealed.expires, "label": sealed.redacted,
    });
    Reply::json(StatusCode::OK, &sealed).changed(Change::new(None::<&()>, Some(&known))).done()
}
