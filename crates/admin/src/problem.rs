//! Errors of the admin API as problem documents (RFC 9457).
//!
//! Every answer of the API with a status from 400 up is one. `type` is `about:blank`, so `title` is
//! the status's own phrase (§4.2.1) and `detail` says what is wrong and, where it helps, what to do.

use axum::Json;
use axum::http::header::{ALLOW, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// One error.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    detail: String,
    challenge: Option<&'static str>,
}

/// The document.
#[derive(Serialize)]
struct Document<'a> {
    r#type: &'static str,
    title: &'a str,
    status: u16,
    detail: &'a str,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), challenge: None }
    }

    /// 401 with a `WWW-Authenticate` field (RFC 6750 §3).
    pub(crate) fn unauthorized(challenge: &'static str, detail: &str) -> Self {
        Self { challenge: Some(challenge), ..Self::new(StatusCode::UNAUTHORIZED, detail) }
    }

    /// 405 for a path that exists with another method.
    pub(crate) fn wrong_method(allow: &'static str) -> Response {
        let mut response = Self::new(StatusCode::METHOD_NOT_ALLOWED, format!("this path takes {allow} only"))
            .into_response();
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let status = self.status.as_u16();
        let document = Document { r#type: "about:blank", title, status, detail: &self.detail };
        let mut response = (self.status, Json(document)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(challenge) = self.challenge {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }
}
