//! The paths of the admin listener, the unix socket and the metrics listener.
//!
//! Called once per listener by `server`; the gate stands in front of all of them, unknown paths too.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use serde::Serialize;

use crate::control::{self, Control};
use crate::events;
use crate::gate::{Gate, admit};
use crate::problem::Problem;

/// `Content-Type` of the metrics page.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Probes: no token, on any listener.
pub(crate) const PROBES: [&str; 3] = ["/livez", "/readyz", "/healthz"];

type Shared = State<Arc<dyn Control>>;

/// Everything there is, behind `gate`.
pub(crate) fn admin(control: Arc<dyn Control>, gate: Gate) -> Router {
    let api = Router::new()
        .route("/api/v1/status", only("GET, HEAD", get(status)))
        .route("/api/v1/events", only("GET, HEAD", get(events::stream)))
        .route("/api/v1/stop", only("POST", post(stop)));
    finish(api, control, gate)
}

/// Metrics and probes, behind `gate`.
pub(crate) fn metrics_only(control: Arc<dyn Control>, gate: Gate) -> Router {
    finish(Router::new(), control, gate)
}

fn finish(api: Router<Arc<dyn Control>>, control: Arc<dyn Control>, gate: Gate) -> Router {
    api.route("/livez", only("GET, HEAD", get(livez)))
        .route("/readyz", only("GET, HEAD", get(readyz)))
        .route("/healthz", only("GET, HEAD", get(readyz)))
        .route("/metrics", only("GET, HEAD", get(metrics)))
        .fallback(unknown)
        .layer(middleware::from_fn_with_state(Arc::new(gate), admit))
        .with_state(control)
}

/// A path whose other methods are answered 405 with a problem document.
fn only(allow: &'static str, methods: MethodRouter<Arc<dyn Control>>) -> MethodRouter<Arc<dyn Control>> {
    methods.fallback(move || async move { Problem::wrong_method(allow) })
}

async fn status(State(control): Shared) -> Json<control::Status> {
    Json(control.status())
}

/// The answer to `POST /api/v1/stop`.
#[derive(Serialize)]
struct Stopping {
    state: control::State,
}

async fn stop(State(control): Shared) -> (StatusCode, Json<Stopping>) {
    control.stop();
    (StatusCode::ACCEPTED, Json(Stopping { state: control::State::Draining }))
}

async fn livez(State(control): Shared) -> Response {
    probe(control.alive())
}

async fn readyz(State(control): Shared) -> Response {
    probe(control.ready())
}

fn probe(result: Result<(), String>) -> Response {
    match result {
        Ok(()) => "ok\n".into_response(),
        Err(why) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
    }
}

async fn metrics(State(control): Shared) -> impl IntoResponse {
    ([(CONTENT_TYPE, METRICS_TYPE)], control.metrics())
}

async fn unknown(method: Method, request: Request) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, format!("there is no {method} {}", request.uri().path()))
}
