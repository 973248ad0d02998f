//! Services, their endpoints, and the routes that lead to them.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::audit::Change;
use crate::body::{self, EndpointChangeSpec, MaintenanceSpec, NewEndpointSpec, WeightsSpec};
use crate::control::{Changed, EndpointStatus, RouteStatus, ServiceStatus, Services};
use crate::operation::{
    Access, Answer, ApiRequest, Handler, Operation, PLAIN, Precondition, Reply, body_of, json_of, segment,
    tagged,
};
use crate::problem::Problem;
use crate::query::{Kind, Parameter};

/// The operations that are answered here.
pub(crate) static OPERATIONS: &[Operation] = &[
    Operation {
        id: "routes",
        path: "/api/v1/routes",
        summary: "Routes and where they lead.",
        answers: &[tagged(200, "All routes.", json_of::<Routes>())],
        handler: Handler::Now(routes),
        ..PLAIN
    },
    Operation {
        id: "set_weights",
        method: Method::PATCH,
        path: "/api/v1/routes/{route}/weights",
        summary: "Changes how a route shares its requests among services.",
        access: Access::Write,
        precondition: Precondition::Optional,
        body: Some(body_of::<WeightsSpec>()),
        answers: &[tagged(200, "The route with its new shares.", json_of::<RouteStatus>())],
        refusals: &[404, 409],
        handler: Handler::Now(weights),
        ..PLAIN
    },
    Operation {
        id: "reset_weights",
        method: Method::DELETE,
        path: "/api/v1/routes/{route}/weights",
        summary: "Takes the shares of a route back that were set here: those of the configuration are in force again.",
        access: Access::Write,
        precondition: Precondition::Optional,
        answers: &[Answer {
            status: 204,
            when: "They are those of the configuration, also where none were set.",
            content: None,
            tagged: true,
        }],
        refusals: &[404, 409],
        handler: Handler::Now(reset),
        ..PLAIN
    },
    Operation {
        id: "set_maintenance",
        method: Method::PATCH,
        path: "/api/v1/routes/{route}/maintenance",
        summary: "Turns the filter `maintenance` of a route on or off.",
        access: Access::Write,
        precondition: Precondition::Optional,
        body: Some(body_of::<MaintenanceSpec>()),
        answers: &[tagged(200, "The route as it is now.", json_of::<RouteStatus>())],
        refusals: &[404, 409],
        handler: Handler::Now(maintenance),
        ..PLAIN
    },
    Operation {
        id: "reset_maintenance",
        method: Method::DELETE,
        path: "/api/v1/routes/{route}/maintenance",
        summary: "Takes back what was set of the filter `maintenance` of a route: it is as the configuration says again.",
        access: Access::Write,
        precondition: Precondition::Optional,
        answers: &[Answer {
            status: 204,
            when: "It is as the configuration says, also where nothing was set.",
            content: None,
            tagged: true,
        }],
        refusals: &[404],
        handler: Handler::Now(reset_maintenance),
        ..PLAIN
    },
    Operation {
        id: "services",
        path: "/api/v1/services",
        summary: "Services with their endpoints.",
        answers: &[tagged(200, "All services.", json_of::<Services>())],
        handler: Handler::Now(services),
        ..PLAIN
    },
    Operation {
        id: "service",
        path: "/api/v1/services/{service}",
        summary: "One service with its endpoints.",
        answers: &[tagged(200, "The service.", json_of::<ServiceStatus>())],
        refusals: &[404],
        handler: Handler::Now(service),
        ..PLAIN
    },
    Operation {
        id: "add_endpoint",
        method: Method::POST,
        path: "/api/v1/services/{service}/endpoints",
        summary: "Adds an endpoint to a service.",
        access: Access::Write,
        precondition: Precondition::Optional,
        body: Some(body_of::<NewEndpointSpec>()),
        answers: &[tagged(201, "Added; `Location` is its path.", json_of::<EndpointStatus>())],
        refusals: &[404, 409],
        handler: Handler::Now(add),
        ..PLAIN
    },
    Operation {
        id: "endpoint",
        path: "/api/v1/services/{service}/endpoints/{id}",
        summary: "One endpoint, by its id or its percent-encoded URL.",
        answers: &[tagged(200, "The endpoint.", json_of::<EndpointStatus>())],
        refusals: &[404],
        handler: Handler::Now(endpoint),
        ..PLAIN
    },
    Operation {
        id: "change_endpoint",
        method: Method::PATCH,
        path: "/api/v1/services/{service}/endpoints/{id}",
        summary: "Changes the weight or the wanted state of an endpoint.",
        access: Access::Write,
        precondition: Precondition::Optional,
        body: Some(body_of::<EndpointChangeSpec>()),
        answers: &[tagged(200, "The endpoint as it is now.", json_of::<EndpointStatus>())],
        refusals: &[404, 409],
        handler: Handler::Now(change),
        ..PLAIN
    },
    Operation {
        id: "remove_endpoint",
        method: Method::DELETE,
        path: "/api/v1/services/{service}/endpoints/{id}",
        summary: "Takes an endpoint out of rotation at once and removes it after its drain.",
        access: Access::Write,
        query: &[Parameter {
            name: "drain",
            about: "Time for what is under way; then it is cut. Default 30s, at most 1h.",
            kind: Kind::Duration(DRAIN),
        }],
        precondition: Precondition::Optional,
        answers: &[
            tagged(200, "Removed; how it last was.", json_of::<EndpointStatus>()),
            tagged(202, "It drains.", json_of::<EndpointStatus>()),
        ],
        refusals: &[404, 409],
        handler: Handler::Now(remove),
        ..PLAIN
    },
];

/// Longest drain that may be asked for, in seconds.
pub(crate) const DRAIN: u64 = 3600;
/// Drain of an endpoint that is removed without `drain`.
const DEFAULT_DRAIN: Duration = Duration::from_secs(30);

/// The answer to `GET /api/v1/routes`.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct Routes {
    /// Routes in the order of the configuration.
    routes: Vec<RouteStatus>,
}

pub(crate) fn routes(asked: &ApiRequest) -> Result<Response, Problem> {
    let version = asked.app.control.services().version;
    let routes = Routes { routes: asked.app.control.routes() };
    Reply::json(StatusCode::OK, &routes).tag(&asked.app.tag(version)).done()
}

pub(crate) fn services(asked: &ApiRequest) -> Result<Response, Problem> {
    let services = asked.app.control.services();
    Reply::json(StatusCode::OK, &services).tag(&asked.app.tag(services.version)).done()
}

pub(crate) fn service(asked: &ApiRequest) -> Result<Response, Problem> {
    let (version, service) = find(asked)?;
    Reply::json(StatusCode::OK, &service).tag(&asked.app.tag(version)).done()
}

pub(crate) fn endpoint(asked: &ApiRequest) -> Result<Response, Problem> {
    let (version, service) = find(asked)?;
    let id = asked.path("id");
    let found = service.endpoints.iter().find(|endpoint| endpoint.id == id || endpoint.url == id);
    let Some(endpoint) = found else {
        let detail = format!("service `{}` has no endpoint `{id}`", service.name);
        return Err(Problem::new(StatusCode::NOT_FOUND, detail));
    };
    Reply::json(StatusCode::OK, endpoint).tag(&asked.app.tag(version)).done()
}

fn find(asked: &ApiRequest) -> Result<(u64, ServiceStatus), Problem> {
    let (services, name) = (asked.app.control.services(), asked.path("service"));
    let found = services.services.into_iter().find(|service| service.name == name);
    let unknown = || Problem::new(StatusCode::NOT_FOUND, format!("there is no service `{name}`"));
    found.map(|service| (services.version, service)).ok_or_else(unknown)
}

pub(crate) fn add(asked: &ApiRequest) -> Result<Response, Problem> {
    let new = body::parse::<NewEndpointSpec>(&asked.body)?;
    let service = asked.path("service");
    let added = asked.app.control.add_endpoint(service, new, &asked.expected_version());
    let changed = added.map_err(|refusal| asked.refused(refusal))?;
    let location =
        format!("/api/v1/services/{}/endpoints/{}", segment(service), segment(&changed.endpoint.id));
    reply(asked, StatusCode::CREATED, &changed).location(location).done()
}

pub(crate) fn change(asked: &ApiRequest) -> Result<Response, Problem> {
    let change = body::parse::<EndpointChangeSpec>(&asked.body)?;
    let (service, id) = (asked.path("service"), asked.path("id"));
    let changed = asked.app.control.change_endpoint(service, id, change, &asked.expected_version());
    reply(asked, StatusCode::OK, &changed.map_err(|refusal| asked.refused(refusal))?).done()
}

pub(crate) fn remove(asked: &ApiRequest) -> Result<Response, Problem> {
    let drain = asked.query.duration("drain").unwrap_or(DEFAULT_DRAIN);
    let (service, id) = (asked.path("service"), asked.path("id"));
    let removed = asked.app.control.remove_endpoint(service, id, drain, &asked.expected_version());
    let changed = removed.map_err(|refusal| asked.refused(refusal))?;
    let status = if changed.gone { StatusCode::OK } else { StatusCode::ACCEPTED };
    reply(asked, status, &changed).done()
}

fn reply(asked: &ApiRequest, status: StatusCode, changed: &Changed) -> Reply {
    Reply::json(status, &changed.endpoint)
        .tag(&asked.app.tag(changed.version))
        .changed(Change::new(changed.before.as_ref(), Some(&changed.endpoint)))
}

pub(crate) fn weights(asked: &ApiRequest) -> Result<Response, Problem> {
    let weights = body::parse::<WeightsSpec>(&asked.body)?;
    let set = asked.app.control.set_weights(asked.path("route"), weights, &asked.expected_version());
    let done = set.map_err(|refusal| asked.refused(refusal))?;
    Reply::json(StatusCode::OK, &done.route)
        .tag(&asked.app.tag(done.version))
        .changed(Change::new(Some(&done.before), Some(&done.route.to)))
        .done()
}

pub(crate) fn maintenance(asked: &ApiRequest) -> Result<Response, Problem> {
    let on = body::parse::<MaintenanceSpec>(&asked.body)?;
    let set = asked.app.control.set_maintenance(asked.path("route"), Some(on), &asked.expected_version());
    let done = set.map_err(|refusal| asked.refused(refusal))?;
    Reply::json(StatusCode::OK, &done.route)
        .tag(&asked.app.tag(done.version))
        .changed(Change::new(done.before.as_ref(), Some(&on)))
        .done()
}

pub(crate) fn reset_maintenance(asked: &ApiRequest) -> Result<Response, Problem> {
    let reset = asked.app.control.set_maintenance(asked.path("route"), None, &asked.expected_version());
    let done = reset.map_err(|refusal| asked.refused(refusal))?;
    let after = done.route.and_then(|route| route.maintenance);
    Reply::from(StatusCode::NO_CONTENT.into_response())
        .tag(&asked.app.tag(done.version))
        .changed(Change::new(done.before.as_ref(), after.as_ref()))
        .done()
}

pub(crate) fn reset(asked: &ApiRequest) -> Result<Response, Problem> {
    let reset = asked.app.control.reset_weights(asked.path("route"), &asked.expected_version());
    let done = reset.map_err(|refusal| asked.refused(refusal))?;
    Reply::from(StatusCode::NO_CONTENT.into_response())
        .tag(&asked.app.tag(done.version))
        .changed(Change::new(Some(&done.before), Some(&done.after)))
        .done()
}
