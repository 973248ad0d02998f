//! Errors of the admin API as problem documents (RFC 9457).
//!
//! Every answer of the API with a status from 400 up is one. `type` is `about:blank`, so `title` is
//! the status's own phrase (§4.2.1) and `detail` says what is wrong and, where it helps, what to do.
//! Further members (§3.2) name the part of the request that is at fault.

use axum::Json;
use axum::http::header::{ALLOW, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::control::Mistake;

/// `Content-Type` of the document.
pub(crate) const PROBLEM_TYPE: &str = "application/problem+json";

/// One error.
#[derive(Debug)]
pub(crate) struct Problem {
    /// Boxed, so that results stay small.
    document: Box<Document>,
    status: StatusCode,
    challenge: Option<&'static str>,
    allow: Option<String>,
}

/// The document.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "Problem")]
pub(crate) struct Document {
    /// Always `about:blank`.
    r#type: &'static str,
    /// The phrase of the status.
    title: &'static str,
    /// The status.
    status: u16,
    /// What is wrong.
    detail: String,
    /// The member, parameter or field of the request that is at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
    /// Line of the body, from 1, where its syntax breaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// Column of the body, from 1, where its syntax breaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    /// Keys of a configuration that may not arrive by API.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keys: Vec<String>,
    /// Mistakes in a configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mistakes: Vec<Mistake>,
    /// The tag to repeat a conditional request with, once its result has been looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<String>,
}

/// The `detail` of a problem, left on the response for the audit log.
#[derive(Clone, Debug)]
pub(crate) struct Detail(pub(crate) String);

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let document = Document {
            r#type: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into(),
            field: None,
            help: None,
            line: None,
            column: None,
            keys: Vec::new(),
            mistakes: Vec::new(),
            current: None,
        };
        Self { document: Box::new(document), status, challenge: None, allow: None }
    }

    /// What is wrong, in a sentence.
    pub(crate) fn detail(&self) -> &str {
        &self.document.detail
    }

    /// 400 for a member, parameter or field of the request.
    pub(crate) fn invalid(field: &str, detail: impl Into<String>) -> Self {
        let mut problem = Self::new(StatusCode::BAD_REQUEST, detail);
        problem.document.field = Some(field.to_owned());
        problem
    }

    /// 400 for a body whose syntax breaks.
    pub(crate) fn malformed(line: usize, column: usize, detail: impl Into<String>) -> Self {
        let mut problem = Self::new(StatusCode::BAD_REQUEST, detail);
        (problem.document.line, problem.document.column) = (Some(line), Some(column));
        problem
    }

    /// 401 with a `WWW-Authenticate` field (RFC 6750 §3).
    pub(crate) fn unauthorized(challenge: &'static str, detail: &str) -> Self {
        Self { challenge: Some(challenge), ..Self::new(StatusCode::UNAUTHORIZED, detail) }
    }

    /// 405 for a path that exists with other methods.
    pub(crate) fn wrong_method(allow: String) -> Self {
        let detail = format!("this path takes {allow} only");
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, detail) }
    }

    /// 412, with the tag that would have matched.
    pub(crate) fn stale(current: String, detail: &str) -> Self {
        let mut problem = Self::new(StatusCode::PRECONDITION_FAILED, detail);
        problem.document.current = Some(current);
        problem
    }

    /// 403 for keys that may not arrive by API.
    pub(crate) fn forbidden_keys(keys: Vec<String>) -> Self {
        let detail = format!("only the file on disk may introduce `{}`", keys.join("`, `"));
        let mut problem = Self::new(StatusCode::FORBIDDEN, detail);
        problem.document.keys = keys;
        problem
    }

    /// 403 for a change by API that removes a protection or uses a forbidden address.
    pub(crate) fn unprotected(keys: Vec<String>, detail: String) -> Self {
        let mut problem = Self::new(StatusCode::FORBIDDEN, detail);
        problem.document.keys = keys;
        problem.help(Some("change the file on disk, and reload it".to_owned()))
    }

    /// 400 for a configuration with mistakes.
    pub(crate) fn mistakes(mistakes: Vec<Mistake>) -> Self {
        let first = mistakes.first();
        let at = first.map(|m| format!(": line {}, column {}: {}", m.line, m.column, m.message));
        let detail = format!("the configuration has mistakes{}", at.unwrap_or_default());
        let mut problem = Self::new(StatusCode::BAD_REQUEST, detail);
        problem.document.mistakes = mistakes;
        problem
    }

    /// Adds what to do about it.
    pub(crate) fn help(mut self, help: Option<String>) -> Self {
        self.document.help = help;
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let detail = Detail(self.document.detail.clone());
        let mut response = (self.status, Json(self.document)).into_response();
        response.extensions_mut().insert(detail);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
        if let Some(challenge) = self.challenge {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if let Some(allow) = self.allow.and_then(|allow| HeaderValue::try_from(allow).ok()) {
            headers.insert(ALLOW, allow);
        }
        response
    }
}
