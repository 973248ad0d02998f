//! Sessions of the dashboard.

use std::time::{Instant, SystemTime};

use axum::http::header::SET_COOKIE;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::auth::{Caller, Peer, Role, host_of, too_many};
use crate::body::{self, NewSessionSpec};
use crate::control::service::rfc3339_text;
use crate::operation::{
    Access, Answer, ApiRequest, Handler, Operation, PLAIN, Reply, answer, body_of, json_of,
};
use crate::problem::Problem;
use crate::session::{NoSession, Sessions, shown};

/// The path of the session.
pub(crate) const PATH: &str = "/api/v1/session";

const NOTHING: Answer = Answer {
    status: 204,
    when: "It has begun or ended; `Set-Cookie` says so.",
    content: None,
    tagged: false,
};

/// The operations that are answered here.
pub(crate) static OPERATIONS: &[Operation] = &[
    Operation {
        id: "begin_session",
        method: Method::POST,
        path: PATH,
        summary: "Begins a session for a browser: a token is shown once and answered with a cookie for 12 hours.",
        access: Access::Login,
        body: Some(body_of::<NewSessionSpec>()),
        answers: &[NOTHING],
        refusals: &[401, 409, 429],
        handler: Handler::Now(begin),
        ..PLAIN
    },
    Operation {
        id: "session",
        path: PATH,
        summary: "What the caller may do, and until when their session lasts.",
        answers: &[answer(200, "The session.", json_of::<Session>())],
        handler: Handler::Now(show),
        ..PLAIN
    },
    Operation {
        id: "end_session",
        method: Method::DELETE,
        path: PATH,
        summary: "Ends the session of the cookie that the request carries.",
        answers: &[NOTHING],
        refusals: &[409],
        handler: Handler::Now(end),
        ..PLAIN
    },
];

/// The answer to `GET /api/v1/session`.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct Session {
    /// `read` or `write`.
    role: Role,
    /// When the session ends, in RFC 3339; absent for callers without one.
    #[serde(serialize_with = "moment", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    expires: Option<SystemTime>,
}

fn moment<S: Serializer>(time: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(rfc3339_text).serialize(serializer)
}

fn begin(asked: &ApiRequest) -> Result<Response, Problem> {
    let token = body::parse::<NewSessionSpec>(&asked.body)?;
    let peer = caller(asked).map_or(Peer::Unknown, |caller| caller.peer);
    let opened = sessions(asked)?.open(token.trim(), peer, &host(asked), Instant::now());
    let (role, cookie) = opened.map_err(|why| match why {
        NoSession::WrongToken => Problem::unauthorized(
            "Bearer error=\"invalid_token\"",
            "the token is not the right one; `run` prints where it is kept",
        ),
        NoSession::TooMany(wait) => too_many(wait),
        NoSession::NoRandomness(error) => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("no random bytes: {error}"))
        }
    })?;
    let mut response = with_cookie(&cookie);
    // For the audit log: it was nobody who asked, and is somebody now.
    response.extensions_mut().insert(role);
    Ok(response)
}

fn show(asked: &ApiRequest) -> Result<Response, Problem> {
    let role = caller(asked).map_or(Role::Anyone, |caller| caller.role);
    let id = shown(&asked.parts.headers, &host(asked));
    let sessions = asked.app.sessions.as_ref();
    let found = sessions.zip(id).and_then(|(sessions, id)| sessions.find(id, Instant::now()));
    Reply::json(StatusCode::OK, &Session { role, expires: found.map(|(_, expires)| expires) }).done()
}

fn end(asked: &ApiRequest) -> Result<Response, Problem> {
    let host = host(asked);
    let id = shown(&asked.parts.headers, &host).unwrap_or_default();
    Ok(with_cookie(&sessions(asked)?.close(id, &host)))
}

fn sessions(asked: &ApiRequest) -> Result<&Sessions, Problem> {
    asked.app.sessions.as_deref().ok_or_else(|| {
        let detail = "sessions are for the admin listener; this proxy has none";
        Problem::new(StatusCode::CONFLICT, detail).help(Some("`admin: { address: … }` opens one".into()))
    })
}

fn caller(asked: &ApiRequest) -> Option<&Caller> {
    asked.parts.extensions.get()
}

fn host(asked: &ApiRequest) -> String {
    host_of(&asked.parts.uri, &asked.parts.headers)
}

fn with_cookie(cookie: &str) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, value);
    }
    response
}
