//! From the table of operations to the paths of the admin listener, the unix socket and the metrics
//! listener.
//!
//! Called once per listener by `server`. The gate stands in front of all paths, unknown ones too;
//! behind it every request gets an id, and every change that is asked for an entry in the audit log.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use thalweg_core::RequestId;

use crate::audit::{Change, Entry, Who};
use crate::auth::{Auth, Caller, Peer, Role, admit, body_limit};
use crate::body;
use crate::dashboard::ASSETS;
use crate::handlers::session;
use crate::operation::{Access, ApiRequest, App, Handler, Operation, Precondition};
use crate::operations::{is_on_metrics_listener, operations};
use crate::precondition;
use crate::problem::{Detail, Problem};
use crate::query::Query;

/// Names a request in answers and in the audit log.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Everything there is, behind `gate`.
pub(crate) fn admin(app: Arc<App>, gate: Auth) -> Router {
    build(operations(), app, gate, true)
}

/// Metrics and probes, behind `gate`.
pub(crate) fn metrics_only(app: Arc<App>, gate: Auth) -> Router {
    build(operations().filter(|operation| is_on_metrics_listener(operation)), app, gate, false)
}

/// The operations of one path.
type Methods = Arc<[&'static Operation]>;

fn build(
    operations: impl Iterator<Item = &'static Operation>,
    app: Arc<App>,
    gate: Auth,
    has_dashboard: bool,
) -> Router {
    let mut paths: Vec<(&'static str, Vec<&'static Operation>)> = Vec::new();
    for operation in operations {
        match paths.iter_mut().find(|(path, _)| *path == operation.path) {
            Some((_, methods)) => methods.push(operation),
            None => paths.push((operation.path, vec![operation])),
        }
    }
    let mut router = Router::new();
    for (path, methods) in paths {
        let methods: Methods = methods.into();
        let answer = async move |State(app): State<Arc<App>>,
                                 path: Result<RawPathParams, RawPathParamsRejection>,
                                 request: Request| {
            answer(&app, &methods, path, request).await.unwrap_or_else(Problem::into_response)
        };
        router = router.route(path, any(answer));
    }
    for asset in ASSETS.iter().filter(|_| has_dashboard) {
        let answer = async |request: Request| {
            asset.answer(request.method(), request.headers()).unwrap_or_else(Problem::into_response)
        };
        router = router.route(asset.path, any(answer));
    }
    router
        .fallback(unknown)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), record))
        .layer(middleware::from_fn_with_state(Arc::new(gate), admit))
        .with_state(app)
}

async fn unknown(method: Method, request: Request) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, format!("there is no {method} {}", request.uri().path()))
}

/// Checks what the table says of an operation, in the order of the checks' cost, and runs its handler.
async fn answer(
    app: &Arc<App>,
    methods: &Methods,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let asked = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let Some(operation) = methods.iter().find(|operation| operation.method == *asked) else {
        return Err(Problem::wrong_method(allowed(methods)));
    };
    let role = request.extensions().get::<Caller>().map_or(Role::Anyone, |caller| caller.role);
    if operation.access == Access::Write && role != Role::Write {
        return Err(read_only());
    }
    if operation.access == Access::Write && !matches!(operation.id, "stop" | "upgrade") {
        let closed = |why| Problem::new(StatusCode::SERVICE_UNAVAILABLE, why);
        app.control.is_open_to_changes().map_err(closed)?;
    }
    let path = path.map_err(|_| Problem::new(StatusCode::BAD_REQUEST, "the path is not UTF-8"))?;
    let path = path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let query = Query::read(request.uri().query(), operation.query)?;
    if let Some(missing) = operation.needs.iter().find(|name| !query.has(name)) {
        return Err(Problem::invalid(missing, format!("the parameter `{missing}` is missing")));
    }
    let if_match = match operation.precondition {
        Precondition::None => None,
        Precondition::Optional | Precondition::Required => precondition::if_match(request.headers())?,
    };
    if operation.precondition == Precondition::Required && if_match.is_none() {
        let detail = "this operation needs an `If-Match` field; GET gives the tag";
        return Err(Problem::new(StatusCode::PRECONDITION_REQUIRED, detail));
    }
    let limit = body_limit(request.uri().path());
    let (parts, body) = request.into_parts();
    let (content_type, body) = match operation.body {
        None => (String::new(), Bytes::new()),
        Some(content) => (body::check_type(&parts.headers, content.types)?, body::read(body, limit).await?),
    };
    let asked = ApiRequest { app: Arc::clone(app), parts, path, query, if_match, body, content_type };
    match operation.handler {
        Handler::Now(handler) => handler(&asked),
        Handler::Later(handler) => handler(asked).await,
    }
}

/// The methods of a path, as `Allow` lists them.
fn allowed(methods: &Methods) -> String {
    let mut names = Vec::new();
    for operation in methods.iter() {
        names.push(operation.method.as_str());
        if operation.method == Method::GET {
            names.push("HEAD");
        }
    }
    names.join(", ")
}

fn read_only() -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "this token may read only")
}

/// The middleware behind the gate: the request's id, what a read token may not do, the audit log.
async fn record(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Caller>().cloned().unwrap_or(Caller::NOBODY);
    let id = request_id(&request);
    let changes = !request.method().is_safe();
    let (method, target) = (request.method().to_string(), request.uri().to_string());
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let mut response = match caller.role {
        // Everybody may end their own session.
        Role::Read if !reads && request.uri().path() != session::PATH => read_only().into_response(),
        _ => next.run(request).await,
    };
    // Those without a token could otherwise push out what others have done.
    let caller = match response.extensions_mut().remove::<Role>() {
        Some(role) => Caller { role, ..caller },
        None => caller,
    };
    if changes && caller.role != Role::Anyone {
        let change = response.extensions_mut().remove::<Change>();
        let (before, after) = change.map_or((None, None), |change| (change.before, change.after));
        app.audit.record(Entry {
            at: SystemTime::now(),
            request_id: id.as_str().to_owned(),
            who: who(&caller),
            method,
            target,
            before,
            after,
            status: response.status().as_u16(),
            detail: response.extensions_mut().remove::<Detail>().map(|detail| detail.0),
        });
    }
    if let Ok(value) = HeaderValue::from_str(id.as_str()) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

fn who(caller: &Caller) -> Who {
    let (uid, peer) = match caller.peer {
        Peer::Unix { uid } => (uid, None),
        Peer::Tcp(address) => (None, Some(address.to_string())),
        Peer::Unknown => (None, None),
    };
    Who { role: caller.role, uid, peer }
}

/// The id that the client gave, if it is one, else a new one.
fn request_id(request: &Request) -> RequestId {
    let given = request.headers().get(&REQUEST_ID).and_then(|value| RequestId::from_bytes(value.as_bytes()));
    given.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        RequestId::new(u64::try_from(now.as_millis()).unwrap_or(u64::MAX), fastrand::u128(..))
    })
}
