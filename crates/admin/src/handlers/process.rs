//! The process as a whole: status, stop, probes, metrics, the description of the API.

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::control::{Certificates, State};
use crate::openapi;
use crate::operation::{ApiRequest, Reply};
use crate::problem::Problem;

/// `Content-Type` of the metrics page.
pub(crate) const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) fn status(asked: &ApiRequest) -> Result<Response, Problem> {
    Reply::json(StatusCode::OK, &asked.app.control.status()).done()
}

pub(crate) fn certificates(asked: &ApiRequest) -> Result<Response, Problem> {
    let certificates = Certificates { certificates: asked.app.control.certificates() };
    Reply::json(StatusCode::OK, &certificates).done()
}

/// The answer to `POST /api/v1/stop`.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct Stopping {
    /// Always `draining`.
    state: State,
}

pub(crate) fn stop(asked: &ApiRequest) -> Result<Response, Problem> {
    asked.app.control.stop();
    Reply::json(StatusCode::ACCEPTED, &Stopping { state: State::Draining }).done()
}

pub(crate) fn livez(asked: &ApiRequest) -> Result<Response, Problem> {
    probe(asked.app.control.alive())
}

pub(crate) fn readyz(asked: &ApiRequest) -> Result<Response, Problem> {
    probe(asked.app.control.ready())
}

fn probe(result: Result<(), String>) -> Result<Response, Problem> {
    match result {
        Ok(()) => Ok("ok\n".into_response()),
        Err(why) => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, why)),
    }
}

pub(crate) fn metrics(asked: &ApiRequest) -> Result<Response, Problem> {
    Reply::text(METRICS_TYPE, asked.app.control.metrics()).done()
}

pub(crate) fn openapi(_: &ApiRequest) -> Result<Response, Problem> {
    Reply::text("application/json", openapi::document()).done()
}
