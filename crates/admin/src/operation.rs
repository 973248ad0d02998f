//! What an operation of the API is, and what its handler is given.
//!
//! Rows of [`Operation`]s stand beside their handlers; `operations` joins them. The router and the OpenAPI document are
//! both built from them, so they cannot drift.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::http::header::{CONTENT_TYPE, ETAG, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use crate::audit::{AuditLog, Change};
use crate::auth::{Caller, Peer};
use crate::body::{self, BodySpec};
use crate::control::{Author, Control, Expected, Refusal, Via};
use crate::precondition::Tags;
use crate::problem::Problem;
use crate::query::{Parameter, Query};
use crate::session::Sessions;

/// One operation: a method on a path.
pub(crate) struct Operation {
    /// Its name, unique in the API.
    pub(crate) id: &'static str,
    /// The method; HEAD comes with GET.
    pub(crate) method: Method,
    /// The path, with parameters in braces.
    pub(crate) path: &'static str,
    /// What it does, in one sentence.
    pub(crate) summary: &'static str,
    /// Who may.
    pub(crate) access: Access,
    /// What its query takes.
    pub(crate) query: &'static [Parameter],
    /// Names of parameters of `query` without which there is no answer.
    pub(crate) needs: &'static [&'static str],
    /// Fields that its handler reads, besides those of `precondition` and `body`.
    pub(crate) fields: &'static [Parameter],
    /// Whether it looks at `If-Match`.
    pub(crate) precondition: Precondition,
    /// What it takes as a body.
    pub(crate) body: Option<Content>,
    /// Its answers below 400.
    pub(crate) answers: &'static [Answer],
    /// Statuses from 400 on that are its own, besides those that every operation has.
    pub(crate) refusals: &'static [u16],
    /// What answers.
    pub(crate) handler: Handler,
}

/// Who may use an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Access {
    /// Anybody: probes.
    Open,
    /// Anybody who shows a token in the body: the login.
    Login,
    /// Both tokens. Without a token on the metrics listener.
    Read,
    /// The write token and the unix socket.
    Write,
}

/// Whether an operation looks at `If-Match`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Precondition {
    /// It does not.
    None,
    /// Without the field nothing is compared.
    Optional,
    /// Without the field: 428 (RFC 6585 §3).
    Required,
}

/// Reads a body and checks it.
pub(crate) type ReadBody = fn(&[u8]) -> Result<(), Problem>;

/// What a body holds.
#[derive(Clone, Copy)]
pub(crate) struct Content {
    /// Media types; the first one is what is documented first.
    pub(crate) types: &'static [&'static str],
    /// Its schema.
    pub(crate) schema: fn(&mut SchemaGenerator) -> Schema,
    /// Reads and checks it as the handler does; `None`: an answer, or a body that only the running proxy can read.
    pub(crate) read: Option<ReadBody>,
}

/// JSON of a type.
pub(crate) const fn json_of<T: JsonSchema>() -> Content {
    Content { types: &["application/json"], schema: SchemaGenerator::subschema_for::<T>, read: None }
}

/// JSON that a client sends.
pub(crate) const fn body_of<T: BodySpec>() -> Content {
    Content { read: Some(|bytes| body::parse::<T>(bytes).map(drop)), ..json_of::<T>() }
}

/// One answer.
pub(crate) struct Answer {
    /// The status.
    pub(crate) status: u16,
    /// When it is given.
    pub(crate) when: &'static str,
    /// What it holds.
    pub(crate) content: Option<Content>,
    /// Whether it carries an `ETag`.
    pub(crate) tagged: bool,
}

/// What answers.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// At once. What is answered may still go on, as the event stream does.
    Now(fn(&ApiRequest) -> Result<Response, Problem>),
    /// When something has been waited for.
    Later(fn(ApiRequest) -> Pending),
}

/// What most rows share.
pub(crate) const PLAIN: Operation = Operation {
    id: "",
    method: Method::GET,
    path: "",
    summary: "",
    access: Access::Read,
    query: &[],
    needs: &[],
    fields: &[],
    precondition: Precondition::None,
    body: None,
    answers: &[],
    refusals: &[],
    handler: Handler::Now(|_| Err(Problem::new(StatusCode::NOT_FOUND, "not there"))),
};

/// An answer that carries nothing but its content.
pub(crate) const fn answer(status: u16, when: &'static str, content: Content) -> Answer {
    Answer { status, when, content: Some(content), tagged: false }
}

/// An answer with an `ETag`.
pub(crate) const fn tagged(status: u16, when: &'static str, content: Content) -> Answer {
    Answer { status, when, content: Some(content), tagged: true }
}

/// An answer that is waited for.
pub(crate) type Pending = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

/// What all handlers share.
pub(crate) struct App {
    /// The running proxy.
    pub(crate) control: Arc<dyn Control>,
    /// The audit log.
    pub(crate) audit: AuditLog,
    /// Writes the OpenAPI document, which is made from the table above the handlers.
    pub(crate) describe: fn() -> String,
    /// New with each start; part of the tags of endpoint sets.
    pub(crate) start: String,
    /// Of the admin listener; `None`: there is no such listener.
    pub(crate) sessions: Option<Arc<Sessions>>,
}

impl App {
    pub(crate) fn new(
        control: Arc<dyn Control>,
        audit: AuditLog,
        describe: fn() -> String,
        sessions: Option<Arc<Sessions>>,
    ) -> Self {
        Self { control, audit, describe, start: format!("{:08x}", fastrand::u32(..)), sessions }
    }

    /// The opaque text of the tag of a version of the endpoint sets.
    pub(crate) fn tag(&self, version: u64) -> String {
        format!("{}-{version}", self.start)
    }

    fn version(&self, tag: &str) -> Option<u64> {
        tag.strip_prefix(&self.start)?.strip_prefix('-')?.parse().ok()
    }
}

/// A request that was admitted, read and found well formed.
pub(crate) struct ApiRequest {
    pub(crate) app: Arc<App>,
    pub(crate) parts: Parts,
    /// Parameters of the path, decoded.
    pub(crate) path: Vec<(String, String)>,
    pub(crate) query: Query,
    pub(crate) if_match: Option<Tags>,
    pub(crate) body: Bytes,
    /// The media type of the body; empty where the operation takes none.
    pub(crate) content_type: String,
}

impl ApiRequest {
    /// A parameter of the path.
    pub(crate) fn path(&self, name: &str) -> &str {
        let found = self.path.iter().find(|(found, _)| found == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// The versions of the endpoint sets that the client expects.
    pub(crate) fn expected_version(&self) -> Expected<u64> {
        let tags = self.if_match.as_ref();
        tags.map_or(Expected::Any, |tags| tags.expected(|tag| self.app.version(tag)))
    }

    /// The configurations that the client expects.
    pub(crate) fn expected_config(&self) -> Expected<String> {
        self.if_match.as_ref().map_or(Expected::Any, |tags| tags.expected(|tag| Some(tag.to_owned())))
    }

    /// Who asks.
    pub(crate) fn author(&self) -> Author {
        match self.parts.extensions.get::<Caller>().map_or(Peer::Unknown, |caller| caller.peer) {
            Peer::Unix { uid } => Author { via: Via::Socket, uid, peer: None },
            Peer::Tcp(address) => Author { via: Via::Token, uid: None, peer: Some(address.to_string()) },
            Peer::Unknown => Author { via: Via::Token, uid: None, peer: None },
        }
    }

    /// A refusal as a problem document.
    pub(crate) fn refused(&self, refusal: Refusal) -> Problem {
        const STALE: &str =
            "somebody else was faster: look at the present state, then ask again with its tag";
        match refusal {
            Refusal::Unknown(what) => Problem::new(StatusCode::NOT_FOUND, what),
            Refusal::Invalid { field, detail, help } => Problem::invalid(&field, detail).help(help),
            Refusal::Mistakes(mistakes) => Problem::mistakes(mistakes),
            Refusal::Forbidden { keys } => Problem::forbidden_keys(keys),
            Refusal::Unprotected { keys, detail } | Refusal::Barred { keys, detail } => {
                Problem::unprotected(keys, detail)
            }
            Refusal::Duplicate(what) | Refusal::Conflict(what) => Problem::new(StatusCode::CONFLICT, what),
            Refusal::Stale { version } => Problem::stale(format!("\"{}\"", self.app.tag(version)), STALE),
            Refusal::StaleConfig { etag } => Problem::stale(format!("\"{etag}\""), STALE),
            Refusal::Unavailable(why) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, why),
        }
    }
}

/// An answer under way.
pub(crate) struct Reply(Response);

impl Reply {
    pub(crate) fn json(status: StatusCode, document: &impl Serialize) -> Self {
        Self((status, Json(document)).into_response())
    }

    pub(crate) fn text(content_type: &'static str, text: String) -> Self {
        let mut response = text.into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        Self(response)
    }

    /// Adds an `ETag` with this opaque text.
    pub(crate) fn tag(self, opaque: &str) -> Self {
        self.field(ETAG, format!("\"{opaque}\""))
    }

    /// Adds a `Location`.
    pub(crate) fn location(self, path: String) -> Self {
        self.field(LOCATION, path)
    }

    /// Leaves what was changed for the audit log.
    pub(crate) fn changed(mut self, change: Change) -> Self {
        self.0.extensions_mut().insert(change);
        self
    }

    /// Values that cannot stand in a field are left out; none of ours is one.
    fn field(mut self, name: HeaderName, value: String) -> Self {
        if let Ok(value) = HeaderValue::try_from(value) {
            self.0.headers_mut().insert(name, value);
        }
        self
    }

    pub(crate) fn done(self) -> Result<Response, Problem> {
        Ok(self.0)
    }
}

impl From<Response> for Reply {
    fn from(response: Response) -> Self {
        Self(response)
    }
}

impl From<Reply> for Response {
    fn from(reply: Reply) -> Self {
        reply.0
    }
}

/// A text as one segment of a path: everything but unreserved characters (RFC 3986 §2.3) encoded.
pub fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_hold_no_delimiter() {
        assert_eq!(segment("a b/ä?#%-._~"), "a%20b%2F%C3%A4%3F%23%25-._~");
    }
}
