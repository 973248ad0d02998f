//! The process as a whole: status, stop, probes, metrics, the description of the API.

use axum::http::header::ACCEPT;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::Serialize;
use thalweg_observe::exposition::Form;

use crate::audit::Change;
use crate::auth::{Caller, Peer};
use crate::body::{self, BodySpec, present, without_defaults};
use crate::control::{Certificates, Limits, State, Status, Upgraded};
use crate::operation::{
    Access, ApiRequest, Content, Handler, Operation, PLAIN, Pending, Reply, answer, body_of, json_of,
};
use crate::problem::Problem;

const TEXT: Content =
    Content { types: &["text/plain"], schema: |_| schemars::json_schema!({ "type": "string" }), read: None };
const METRICS: Content = Content { types: &[METRICS_TYPE, Form::OpenMetrics.content_type()], ..TEXT };
const ANY_JSON: Content = Content {
    types: &["application/json"],
    schema: |_| schemars::json_schema!({ "type": "object" }),
    read: None,
};

/// The operations that are answered here.
pub(crate) static OPERATIONS: &[Operation] = &[
    Operation {
        id: "status",
        path: "/api/v1/status",
        summary: "The process at a glance.",
        answers: &[answer(200, "How it stands.", json_of::<Status>())],
        handler: Handler::Now(status),
        ..PLAIN
    },
    Operation {
        id: "limits",
        path: "/api/v1/limits",
        summary: "What the process may use and take on, and how much of it is in use.",
        answers: &[answer(200, "All limits.", json_of::<Limits>())],
        handler: Handler::Now(limits),
        ..PLAIN
    },
    Operation {
        id: "stop",
        method: Method::POST,
        path: "/api/v1/stop",
        summary: "Drains and ends the process.",
        access: Access::Write,
        answers: &[answer(202, "The drain has begun.", json_of::<Stopping>())],
        handler: Handler::Now(stop),
        ..PLAIN
    },
    Operation {
        id: "upgrade",
        method: Method::POST,
        path: "/api/v1/upgrade",
        summary: "Starts another process, of the file that this one was started from or of `binary`, which takes over all listening sockets; this one then drains and ends. Where the other one cannot start, this one goes on.",
        access: Access::Write,
        body: Some(body_of::<UpgradeSpec>()),
        answers: &[answer(200, "It has taken over.", json_of::<Upgraded>())],
        refusals: &[403, 409],
        handler: Handler::Later(upgrade),
        ..PLAIN
    },
    Operation {
        id: "certificates",
        path: "/api/v1/certificates",
        summary: "Certificates of listeners, and what is wrong with their files.",
        answers: &[answer(200, "All certificates.", json_of::<Certificates>())],
        handler: Handler::Now(certificates),
        ..PLAIN
    },
    Operation {
        id: "openapi",
        path: "/api/v1/openapi.json",
        summary: "This description.",
        answers: &[answer(200, "OpenAPI 3.1.", ANY_JSON)],
        handler: Handler::Now(openapi),
        ..PLAIN
    },
    Operation {
        id: "livez",
        path: "/livez",
        summary: "Whether every worker turns.",
        access: Access::Open,
        answers: &[answer(200, "It does.", TEXT)],
        handler: Handler::Now(livez),
        ..PLAIN
    },
    Operation {
        id: "readyz",
        path: "/readyz",
        summary: "Whether traffic should be sent here.",
        access: Access::Open,
        answers: &[answer(200, "It should.", TEXT)],
        handler: Handler::Now(readyz),
        ..PLAIN
    },
    Operation {
        id: "healthz",
        path: "/healthz",
        summary: "The same as `/readyz`.",
        access: Access::Open,
        answers: &[answer(200, "It should.", TEXT)],
        handler: Handler::Now(readyz),
        ..PLAIN
    },
    Operation {
        id: "metrics",
        path: "/metrics",
        summary: "Metrics in the Prometheus text format 0.0.4, or in OpenMetrics where `Accept` names it.",
        answers: &[answer(200, "The page.", METRICS)],
        handler: Handler::Now(metrics),
        ..PLAIN
    },
];

/// `Content-Type` of the metrics page.
pub(crate) const METRICS_TYPE: &str = Form::Text.content_type();

pub(crate) fn status(asked: &ApiRequest) -> Result<Response, Problem> {
    Reply::json(StatusCode::OK, &asked.app.control.status()).done()
}

pub(crate) fn limits(asked: &ApiRequest) -> Result<Response, Problem> {
    Reply::json(StatusCode::OK, &asked.app.control.limits()).done()
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

/// The body of `POST /api/v1/upgrade`.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[schemars(rename = "Upgrade", transform = without_defaults)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpgradeSpec {
    /// The absolute path of another binary. Only who asks over the unix socket may name one.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "String", extend("pattern" = "^/[^\\u0000]*$"))]
    binary: Option<String>,
}

impl BodySpec for UpgradeSpec {
    type Checked = Option<String>;

    fn validate(self) -> Result<Option<String>, Problem> {
        Ok(self.binary)
    }
}

fn upgrade(asked: ApiRequest) -> Pending {
    Box::pin(async move {
        let binary = body::parse::<UpgradeSpec>(&asked.body)?;
        let is_local = asked
            .parts
            .extensions
            .get::<Caller>()
            .is_some_and(|caller| matches!(caller.peer, Peer::Unix { .. }));
        if binary.is_some() && !is_local {
            let detail = "only who asks over the unix socket may name a binary";
            return Err(Problem::new(StatusCode::FORBIDDEN, detail));
        }
        if binary.as_deref().is_some_and(|binary| !binary.starts_with('/') || binary.contains('\0')) {
            return Err(Problem::invalid("binary", "`binary` is not an absolute path"));
        }
        let done = asked.app.control.upgrade(binary.map(Into::into)).await;
        let done = done.map_err(|refusal| asked.refused(refusal))?;
        Reply::json(StatusCode::OK, &done).changed(Change::new(None::<&()>, Some(&done))).done()
    })
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
    let accept = asked.parts.headers.get_all(ACCEPT).iter();
    let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
    let form = Form::accepted(&accept.join(","));
    Reply::text(form.content_type(), asked.app.control.metrics(form)).done()
}

pub(crate) fn openapi(asked: &ApiRequest) -> Result<Response, Problem> {
    Reply::text("application/json", (asked.app.describe)()).done()
}
