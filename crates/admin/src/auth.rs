//! Who may ask: the checks in front of every admin path.
//!
//! Called for each request before its handler. On the unix socket the kernel has told who the peer
//! is; on TCP a browser on the operator's machine must not become a way in, so the `Host` must be
//! one that DNS rebinding cannot produce and an `Origin` must be our own; then the token decides, or the
//! cookie of a session that was begun with one.
//! Invariant: a refusal says nothing about which paths exist.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::X_CONTENT_TYPE_OPTIONS;
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::Limited;
use schemars::JsonSchema;
use serde::Serialize;

use crate::body::too_large;
use crate::dashboard;
use crate::handlers::session;
use crate::problem::Problem;
use crate::session::{NoSession, Sessions, shown};
use crate::tls::AdminTls;

/// Probes: no token, on any listener. The table's operations with `Access::Open`.
pub(crate) const PROBES: [&str; 3] = ["/livez", "/readyz", "/healthz"];
/// A field that a request with a session has to carry when it changes something: no form of another page can send it.
const OWN_REQUEST: HeaderName = HeaderName::from_static("x-thalweg-request");
/// Largest body of an admin request, in bytes; larger is answered 413.
pub(crate) const BODY: usize = 1024 * 1024;
/// The same for a configuration: what a file may have.
const CONFIG_BODY: usize = 4 * 1024 * 1024;

/// The largest body for a path, in bytes.
pub(crate) fn body_limit(path: &str) -> usize {
    if path == "/api/v1/config" { CONFIG_BODY } else { BODY }
}

/// The other end of a connection. The server leaves it on every request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Peer {
    /// A process on the unix socket, with its user if the kernel told.
    Unix {
        /// The user.
        uid: Option<u32>,
    },
    /// A TCP address.
    Tcp(SocketAddr),
    /// Not known.
    Unknown,
}

/// What somebody may do.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// No token was asked for: probes, and the metrics listener.
    Anyone,
    /// GET and HEAD.
    Read,
    /// Everything.
    Write,
}

/// Who asks. The gate leaves it on every request that it admits.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// What they may do.
    pub(crate) role: Role,
    /// Where they are.
    pub(crate) peer: Peer,
}

impl Caller {
    /// Somebody of whom nothing is known.
    pub(crate) const NOBODY: Self = Self { role: Role::Anyone, peer: Peer::Unknown };
}

/// What a listener asks of those who knock.
#[derive(Debug)]
pub(crate) enum Auth {
    /// The unix socket with the right peer.
    Open,
    /// The metrics listener.
    Anyone,
    /// The unix socket with another user at its other end.
    Closed,
    /// The admin listener: a token, and a `Host` that is an IP address, `localhost`, or one of `names` or of `tls`.
    Token {
        /// Its tokens, and the sessions that were begun with them.
        sessions: Arc<Sessions>,
        /// Further host names, lower case.
        names: Vec<String>,
        /// Its certificates: the names that they have are known too.
        tls: Option<Arc<AdminTls>>,
    },
}

/// The middleware.
pub(crate) async fn admit(State(gate): State<Arc<Auth>>, mut request: Request, next: Next) -> Response {
    let is_asset = dashboard::has(request.uri().path());
    let mut response = match check(&gate, &request) {
        Ok(role) => {
            let peer = request.extensions().get::<Peer>().copied().unwrap_or(Peer::Unknown);
            request.extensions_mut().insert(Caller { role, peer });
            let limit = body_limit(request.uri().path());
            next.run(request.map(|body| Body::new(Limited::new(body, limit)))).await
        }
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    if !is_asset {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn check(gate: &Auth, request: &Request) -> Result<Role, Problem> {
    let role = match gate {
        Auth::Open => Role::Write,
        Auth::Anyone => Role::Anyone,
        Auth::Closed => {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "the admin socket is for the user that runs the proxy and for root",
            ));
        }
        // A probe from a load balancer may carry any host name, and learns nothing but "ok".
        Auth::Token { .. } if PROBES.contains(&request.uri().path()) => Role::Anyone,
        Auth::Token { sessions, names, tls } => {
            let host = host(request)?;
            check_host(&host, names, tls.as_deref())?;
            check_origin(request, &host)?;
            if asks_for_no_token(request) { Role::Anyone } else { check_token(request, &host, sessions)? }
        }
    };
    let limit = body_limit(request.uri().path());
    let length = one(request, &CONTENT_LENGTH)?.and_then(|value| value.parse::<u64>().ok());
    if length.is_some_and(|length| length > limit as u64) {
        return Err(too_large(limit));
    }
    Ok(role)
}

/// The files of the dashboard hold no data, and a login shows its token in the body.
fn asks_for_no_token(request: &Request) -> bool {
    let path = request.uri().path();
    dashboard::has(path) || (path == session::PATH && *request.method() == Method::POST)
}

/// The value of a field that may stand once.
fn one<'a>(request: &'a Request, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let bad = |what| Problem::new(StatusCode::BAD_REQUEST, format!("{what} {name} field"));
    let mut values = request.headers().get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(bad("more than one"));
    }
    value.to_str().map(Some).map_err(|_| bad("malformed"))
}

/// The authority asked for: of the absolute form if there is one, else the `Host` field.
fn host(request: &Request) -> Result<String, Problem> {
    one(request, &HOST)?;
    Ok(host_of(request.uri(), request.headers()))
}

/// The same for a request that was admitted.
pub(crate) fn host_of(uri: &Uri, headers: &HeaderMap) -> String {
    let field = headers.get(HOST).and_then(|value| value.to_str().ok());
    let authority = uri.authority().map(|authority| authority.as_str());
    authority.or(field).unwrap_or_default().to_ascii_lowercase()
}

fn check_host(host: &str, names: &[String], tls: Option<&AdminTls>) -> Result<(), Problem> {
    let name = without_port(host);
    let literal = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inside) => inside.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv4()),
    };
    if literal || name == "localhost" || names.iter().any(|known| known == name) {
        return Ok(());
    }
    // Another name that leads here would show a certificate that is not its own.
    if tls.is_some_and(|tls| tls.names(name)) {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::FORBIDDEN,
        "this host name is not known here; use the IP address, localhost or a configured name",
    ))
}

/// The host without its port. What is not a port is left in place, and then matches nothing.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// A page of another site may not use us through the operator's browser.
fn check_origin(request: &Request, host: &str) -> Result<(), Problem> {
    let Some(origin) = one(request, &ORIGIN)? else { return Ok(()) };
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    if authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host)) {
        return Ok(());
    }
    Err(Problem::new(StatusCode::FORBIDDEN, "requests from pages of another site are refused"))
}

/// RFC 6750 §2.1; the scheme's case does not matter.
fn check_token(request: &Request, host: &str, sessions: &Sessions) -> Result<Role, Problem> {
    let Some(value) = one(request, &AUTHORIZATION)? else {
        return check_session(request, host, sessions);
    };
    let given = value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let Some((_, given)) = given else {
        return Err(Problem::unauthorized("Bearer", "a bearer token is needed"));
    };
    let peer = request.extensions().get::<Peer>().copied().unwrap_or(Peer::Unknown);
    sessions.bearer(given.trim(), peer, Instant::now()).map_err(|why| match why {
        NoSession::TooMany(wait) => too_many(wait),
        NoSession::WrongToken | NoSession::NoRandomness(_) => {
            Problem::unauthorized("Bearer error=\"invalid_token\"", "the token is not the right one")
        }
    })
}

/// 429 for a network that has sent too many wrong tokens.
pub(crate) fn too_many(wait: Duration) -> Problem {
    let detail = format!("too many wrong tokens from this address; try again in {} s", wait.as_secs() + 1);
    Problem::new(StatusCode::TOO_MANY_REQUESTS, detail)
}

/// A browser sends the cookie by itself, also for a request that another page makes. `SameSite=Strict` and the check of
/// `Origin` stand against that, and for changes the field as well.
fn check_session(request: &Request, host: &str, sessions: &Sessions) -> Result<Role, Problem> {
    let Some(id) = shown(request.headers(), host) else {
        return Err(Problem::unauthorized("Bearer", "a bearer token is needed"));
    };
    let Some((role, _)) = sessions.find(id, Instant::now()) else {
        return Err(Problem::unauthorized("Bearer", "the session is over; log in again"));
    };
    if !request.method().is_safe() && one(request, &OWN_REQUEST)? != Some("1") {
        let detail = "a change with a session needs the field `X-Thalweg-Request: 1`";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    Ok(role)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::{Token, Tokens};

    fn request(fields: &[(&str, &str)]) -> Request {
        let mut request = Request::builder().uri("/api/v1/status");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    fn status(fields: &[(&str, &str)]) -> u16 {
        role(fields).map_or_else(|status| status, |_| 200)
    }

    fn role(fields: &[(&str, &str)]) -> Result<Role, u16> {
        let token = |text| Token::new(text).unwrap();
        let gate = Auth::Token {
            sessions: Arc::new(Sessions::new(
                Arc::new(Tokens::new(token("secret"), Some(token("reader"))).unwrap()),
                false,
            )),
            names: vec!["admin.example.com".into()],
            tls: None,
        };
        check(&gate, &request(fields)).map_err(|problem| problem.into_response().status().as_u16())
    }

    const AUTH: (&str, &str) = ("authorization", "Bearer secret");

    #[test]
    fn hosts_that_dns_cannot_rebind_are_admitted() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:9900",
            "[::1]",
            "[::1]:9900",
            "localhost",
            "LOCALHOST:9900",
            "admin.example.com",
            "Admin.Example.com:443",
        ] {
            assert_eq!(status(&[("host", host), AUTH]), 200, "{host}");
        }
    }

    #[test]
    fn other_hosts_are_refused() {
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "evil.localhost",
            "",
            ":80",
            "::1",
            "[127.0.0.1]",
            "[::1",
            "127.0.0.1:x",
            "2130706433",
            "localhost.",
            "user@localhost",
        ] {
            assert_eq!(status(&[("host", host), AUTH]), 403, "{host}");
        }
        assert_eq!(status(&[AUTH]), 403);
        assert_eq!(status(&[("host", "localhost"), ("host", "evil.example"), AUTH]), 400);
    }

    #[test]
    fn only_our_own_origin_is_admitted() {
        let host = ("host", "localhost:9900");
        assert_eq!(status(&[host, AUTH, ("origin", "http://localhost:9900")]), 200);
        for origin in
            ["https://evil.example", "null", "http://localhost", "http://localhost:9901", "localhost:9900"]
        {
            assert_eq!(status(&[host, AUTH, ("origin", origin)]), 403, "{origin}");
        }
    }

    #[test]
    fn only_the_right_token_is_admitted() {
        let host = ("host", "localhost");
        for good in ["Bearer secret", "bearer secret", "BEARER  secret"] {
            assert_eq!(status(&[host, ("authorization", good)]), 200, "{good}");
        }
        for bad in
            ["Bearer", "Bearer ", "Bearer Secret", "Bearer secret2", "Basic secret", "secret", "Bearer secre"]
        {
            assert_eq!(status(&[host, ("authorization", bad)]), 401, "{bad}");
        }
        assert_eq!(status(&[host]), 401);
        assert_eq!(status(&[host, AUTH, AUTH]), 400);
    }

    #[test]
    fn each_token_has_its_role() {
        let host = ("host", "localhost");
        assert_eq!(role(&[host, AUTH]), Ok(Role::Write));
        assert_eq!(role(&[host, ("authorization", "Bearer reader")]), Ok(Role::Read));
        assert_eq!(role(&[host, ("authorization", "Bearer readers")]), Err(401));
        assert_eq!(check(&Auth::Open, &request(&[])).ok(), Some(Role::Write));
        assert_eq!(check(&Auth::Anyone, &request(&[])).ok(), Some(Role::Anyone));
        assert!(check(&Auth::Closed, &request(&[])).is_err());
    }

    #[test]
    fn large_bodies_are_refused_before_they_are_read() {
        let too_large = (BODY + 1).to_string();
        assert_eq!(status(&[("host", "localhost"), AUTH, ("content-length", &too_large)]), 413);
        assert_eq!(status(&[("host", "localhost"), AUTH, ("content-length", &BODY.to_string())]), 200);
    }
}
