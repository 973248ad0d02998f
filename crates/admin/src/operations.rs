//! Every operation of the admin API, in one table.
//!
//! The router (`routes`) and the OpenAPI document (`openapi`) are built from it. A new operation is a
//! row here and a handler, most of them under `answers`.

use axum::http::Method;

use crate::audit::READ;
use crate::body::{EndpointChangeSpec, NewEndpointSpec, NewLabelSpec, RollbackSpec, WeightsSpec};
use crate::control::{
    Certificates, ConfigDocument, ConfigOutcome, EndpointStatus, History, Requests, RouteStatus, SealedLabel,
    ServiceStatus, Services, Status, WatchOptions,
};
use crate::events;
use crate::handlers::{audit, config, explain, process, requests, sealed, services};
use crate::operation::{Access, Answer, Content, Handler, Operation, Precondition, json_of};
use crate::query::{Kind, Parameter};
use thalweg_proxy::explain::Explanation;

const TEXT: Content =
    Content { types: &["text/plain"], schema: |_| schemars::json_schema!({ "type": "string" }) };
const METRICS: Content = Content { types: &[process::METRICS_TYPE], ..TEXT };
const EVENTS: Content = Content {
    types: &[events::STREAM_TYPE],
    schema: |_| {
        schemars::json_schema!({
            "type": "string",
            "description": "Server-sent events: `id` the number of an event, `event` its kind, `data` its JSON on one line. \
                `missed` without an id says how many are no longer kept.",
        })
    },
};
/// A configuration as it arrives: its own schema is another document.
const CONFIG: Content = Content {
    types: config::TYPES,
    schema: |_| schemars::json_schema!({ "description": "A configuration, in the format of the present one." }),
};
/// A configuration as it is shown.
const SHOWN: Content = Content {
    types: &["application/yaml", "application/json", "application/toml"],
    schema: |generator| {
        let document = generator.subschema_for::<ConfigDocument>();
        schemars::json_schema!({ "anyOf": [{ "type": "string" }, document, { "type": "object" }] })
    },
};
const EXPLANATION: Content = Content {
    types: &["application/json", "text/plain"],
    schema: |generator| {
        let explanation = generator.subschema_for::<Explanation>();
        schemars::json_schema!({ "anyOf": [explanation, { "type": "string" }] })
    },
};
const ANY_JSON: Content =
    Content { types: &["application/json"], schema: |_| schemars::json_schema!({ "type": "object" }) };

const WATCH: Parameter = Parameter {
    name: "watch",
    about: "Watch the routes for this time, at most 1h, and take the configuration back when one of them gets worse. Default: no watch.",
    kind: Kind::Duration(WatchOptions::TIME_MAX),
};
const MAX_ERRORS: Parameter = Parameter {
    name: "max_errors",
    about: "With `watch`: most that the share of answers from 500 on may grow, in points of percent, 1-100. Default 5.",
    kind: Kind::Count(100),
};
const MAX_P99: Parameter = Parameter {
    name: "max_p99",
    about: "With `watch`: most that the p99 may grow to, in percent of what it was, 101-10000. Default 200.",
    kind: Kind::Count(10_000),
};
const MIN_REQUESTS: Parameter = Parameter {
    name: "min_requests",
    about: "With `watch`: requests of a route before it is judged, at most 1000000. Default 20.",
    kind: Kind::Count(1_000_000),
};

/// What most rows share.
const PLAIN: Operation = Operation {
    id: "",
    method: Method::GET,
    path: "",
    summary: "",
    access: Access::Read,
    query: &[],
    fields: &[],
    precondition: Precondition::None,
    body: None,
    answers: &[],
    refusals: &[],
    handler: Handler::Now(process::status),
};

/// An answer that carries nothing but its content.
const fn answer(status: u16, when: &'static str, content: Content) -> Answer {
    Answer { status, when, content: Some(content), tagged: false }
}

/// An answer with an `ETag`.
const fn tagged(status: u16, when: &'static str, content: Content) -> Answer {
    Answer { status, when, content: Some(content), tagged: true }
}

/// The table.
pub(crate) static OPERATIONS: &[Operation] = &[
    Operation {
        id: "status",
        path: "/api/v1/status",
        summary: "The process at a glance.",
        answers: &[answer(200, "How it stands.", json_of::<Status>())],
        handler: Handler::Now(process::status),
        ..PLAIN
    },
    Operation {
        id: "stop",
        method: Method::POST,
        path: "/api/v1/stop",
        summary: "Drains and ends the process.",
        access: Access::Write,
        answers: &[answer(202, "The drain has begun.", json_of::<process::Stopping>())],
        handler: Handler::Now(process::stop),
        ..PLAIN
    },
    Operation {
        id: "routes",
        path: "/api/v1/routes",
        summary: "Routes and where they lead.",
        answers: &[tagged(200, "All routes.", json_of::<services::Routes>())],
        handler: Handler::Now(services::routes),
        ..PLAIN
    },
    Operation {
        id: "set_weights",
        method: Method::PATCH,
        path: "/api/v1/routes/{route}/weights",
        summary: "Changes how a route shares its requests among services.",
        access: Access::Write,
        precondition: Precondition::Optional,
        body: Some(json_of::<WeightsSpec>()),
        answers: &[tagged(200, "The route with its new shares.", json_of::<RouteStatus>())],
        refusals: &[404],
        handler: Handler::Now(services::weights),
        ..PLAIN
    },
    Operation {
        id: "explain",
        path: "/api/v1/explain",
        summary: "Which route takes a request, why the others do not, and where it goes.",
        query: explain::PARAMETERS,
        answers: &[answer(200, "The explanation.", EXPLANATION)],
        refusals: &[400],
        handler: Handler::Now(explain::explain),
        ..PLAIN
    },
    Operation {
        id: "seal",
        method: Method::POST,
        path: "/api/v1/sealed",
        summary: "Seals a destination: a host name that leads there.",
        access: Access::Write,
        body: Some(json_of::<NewLabelSpec>()),
        answers: &[answer(200, "The host name and its label.", json_of::<SealedLabel>())],
        refusals: &[404],
        handler: Handler::Now(sealed::seal),
        ..PLAIN
    },
    Operation {
        id: "certificates",
        path: "/api/v1/certificates",
        summary: "Certificates of listeners, and what is wrong with their files.",
        answers: &[answer(200, "All certificates.", json_of::<Certificates>())],
        handler: Handler::Now(process::certificates),
        ..PLAIN
    },
    Operation {
        id: "services",
        path: "/api/v1/services",
        summary: "Services with their endpoints.",
        answers: &[tagged(200, "All services.", json_of::<Services>())],
        handler: Handler::Now(services::services),
        ..PLAIN
    },
    Operation {
        id: "service",
        path: "/api/v1/services/{service}",
        summary: "One service with its endpoints.",
        answers: &[tagged(200, "The service.", json_of::<ServiceStatus>())],
        refusals: &[404],
        handler: Handler::Now(services::service),
        ..PLAIN
    },
    Operation {
        id: "add_endpoint",
        method: Method::POST,
        path: "/api/v1/services/{service}/endpoints",
        summary: "Adds an endpoint to a service.",
        access: Access::Write,
        precondition: Precondition::Optional,
        body: Some(json_of::<NewEndpointSpec>()),
        answers: &[tagged(201, "Added; `Location` is its path.", json_of::<EndpointStatus>())],
        refusals: &[404, 409],
        handler: Handler::Now(services::add),
        ..PLAIN
    },
    Operation {
        id: "endpoint",
        path: "/api/v1/services/{service}/endpoints/{id}",
        summary: "One endpoint, by its id or its percent-encoded URL.",
        answers: &[tagged(200, "The endpoint.", json_of::<EndpointStatus>())],
        refusals: &[404],
        handler: Handler::Now(services::endpoint),
        ..PLAIN
    },
    Operation {
        id: "change_endpoint",
        method: Method::PATCH,
        path: "/api/v1/services/{service}/endpoints/{id}",
        summary: "Changes the weight or the wanted state of an endpoint.",
        access: Access::Write,
        precondition: Precondition::Optional,
        body: Some(json_of::<EndpointChangeSpec>()),
        answers: &[tagged(200, "The endpoint as it is now.", json_of::<EndpointStatus>())],
        refusals: &[404, 409],
        handler: Handler::Now(services::change),
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
            kind: Kind::Duration(services::DRAIN),
        }],
        precondition: Precondition::Optional,
        answers: &[
            tagged(200, "Removed; how it last was.", json_of::<EndpointStatus>()),
            tagged(202, "It drains.", json_of::<EndpointStatus>()),
        ],
        refusals: &[404, 409],
        handler: Handler::Now(services::remove),
        ..PLAIN
    },
    Operation {
        id: "config",
        path: "/api/v1/config",
        summary: "The configuration as it was written, secrets redacted. With `Accept: application/json`, a document about it.",
        answers: &[
            tagged(200, "The configuration.", SHOWN),
            Answer { status: 304, when: "It is the one of `If-None-Match`.", content: None, tagged: true },
        ],
        handler: Handler::Now(config::show),
        ..PLAIN
    },
    Operation {
        id: "replace_config",
        method: Method::PUT,
        path: "/api/v1/config",
        summary: "Checks a configuration, runs it and replaces the file. A redacted value means: unchanged.",
        access: Access::Write,
        query: &[
            Parameter {
                name: "dry_run",
                about: "Say what would change, and change nothing. Default false.",
                kind: Kind::Flag,
            },
            Parameter {
                name: "ephemeral",
                about: "Run it without writing the file. Default false.",
                kind: Kind::Flag,
            },
            WATCH,
            MAX_ERRORS,
            MAX_P99,
            MIN_REQUESTS,
        ],
        precondition: Precondition::Required,
        body: Some(CONFIG),
        answers: &[tagged(200, "What changes. No `ETag` with `dry_run`.", json_of::<ConfigOutcome>())],
        refusals: &[409],
        handler: Handler::Now(config::replace),
        ..PLAIN
    },
    Operation {
        id: "reload",
        method: Method::POST,
        path: "/api/v1/reload",
        summary: "Reads the configuration again, as on HUP.",
        access: Access::Write,
        query: &[WATCH, MAX_ERRORS, MAX_P99, MIN_REQUESTS],
        answers: &[tagged(200, "What changes.", json_of::<ConfigOutcome>())],
        refusals: &[400, 409],
        handler: Handler::Now(config::reload),
        ..PLAIN
    },
    Operation {
        id: "plan",
        path: "/api/v1/plan",
        summary: "What a reload would change.",
        answers: &[answer(200, "The plan.", json_of::<ConfigOutcome>())],
        refusals: &[400, 409],
        handler: Handler::Now(config::plan),
        ..PLAIN
    },
    Operation {
        id: "history",
        path: "/api/v1/history",
        summary: "Configurations that have run, newest first, without their texts.",
        answers: &[answer(200, "The history.", json_of::<History>())],
        handler: Handler::Now(config::history),
        ..PLAIN
    },
    Operation {
        id: "rollback",
        method: Method::POST,
        path: "/api/v1/rollback",
        summary: "Brings an earlier configuration back, and the file with it where it can be written.",
        access: Access::Write,
        precondition: Precondition::Optional,
        body: Some(json_of::<RollbackSpec>()),
        answers: &[tagged(200, "What changes.", json_of::<ConfigOutcome>())],
        refusals: &[404, 409],
        handler: Handler::Now(config::rollback),
        ..PLAIN
    },
    Operation {
        id: "requests",
        path: "/api/v1/requests",
        summary: "Decision records: what was decided about the newest exchanges, and what came of it.",
        query: &[
            Parameter {
                name: "route",
                about: "Only those of the route with this name.",
                kind: Kind::Text(128),
            },
            Parameter {
                name: "service",
                about: "Only those of the service with this name.",
                kind: Kind::Text(128),
            },
            Parameter {
                name: "status",
                about: "Only those with this status: `503`, or `5xx`.",
                kind: Kind::Status,
            },
            Parameter {
                name: "fault",
                about: "Only those that ended, or had an attempt that ended, with this fault.",
                kind: Kind::Fault,
            },
            Parameter {
                name: "slower_than",
                about: "Only those that took as long or longer: `500ms`.",
                kind: Kind::Duration(requests::SLOWER),
            },
            Parameter {
                name: "limit",
                about: "How many. Default 50, at most 1000.",
                kind: Kind::Count(requests::LIMIT),
            },
        ],
        answers: &[answer(200, "The newest that fit, newest first.", json_of::<Requests>())],
        refusals: &[503],
        handler: Handler::Later(requests::newest),
        ..PLAIN
    },
    Operation {
        id: "request",
        path: requests::ONE,
        summary: "The decision records of one id; a trusted proxy may have given it to several exchanges.",
        answers: &[answer(200, "All that are remembered, newest first.", json_of::<Requests>())],
        refusals: &[404, 503],
        handler: Handler::Later(requests::one),
        ..PLAIN
    },
    Operation {
        id: "audit",
        path: "/api/v1/audit",
        summary: "The newest entries of the audit log, oldest first.",
        access: Access::Write,
        query: &[Parameter {
            name: "last",
            about: "How many. Default 100, at most 1000.",
            kind: Kind::Count(READ),
        }],
        answers: &[answer(200, "The entries.", json_of::<audit::Entries>())],
        handler: Handler::Later(audit::last),
        ..PLAIN
    },
    Operation {
        id: "events",
        path: "/api/v1/events",
        summary: "Events as they happen. The answer goes on until the client closes, for about an hour at most.",
        query: &[Parameter {
            name: events::SINCE,
            about: "Number of the event after which to begin; kept ones come first. Default: with what happens from now on.",
            kind: Kind::Number,
        }],
        fields: &[Parameter {
            name: events::LAST_EVENT_ID,
            about: "The same, as browsers send it when they connect again. It wins over `since`.",
            kind: Kind::Number,
        }],
        answers: &[answer(200, "The stream.", EVENTS)],
        refusals: &[503],
        handler: Handler::Now(events::stream),
        ..PLAIN
    },
    Operation {
        id: "openapi",
        path: "/api/v1/openapi.json",
        summary: "This description.",
        answers: &[answer(200, "OpenAPI 3.1.", ANY_JSON)],
        handler: Handler::Now(process::openapi),
        ..PLAIN
    },
    Operation {
        id: "livez",
        path: "/livez",
        summary: "Whether every worker turns.",
        access: Access::Open,
        answers: &[answer(200, "It does.", TEXT)],
        handler: Handler::Now(process::livez),
        ..PLAIN
    },
    Operation {
        id: "readyz",
        path: "/readyz",
        summary: "Whether traffic should be sent here.",
        access: Access::Open,
        answers: &[answer(200, "It should.", TEXT)],
        handler: Handler::Now(process::readyz),
        ..PLAIN
    },
    Operation {
        id: "healthz",
        path: "/healthz",
        summary: "The same as `/readyz`.",
        access: Access::Open,
        answers: &[answer(200, "It should.", TEXT)],
        handler: Handler::Now(process::readyz),
        ..PLAIN
    },
    Operation {
        id: "metrics",
        path: "/metrics",
        summary: "Metrics in the Prometheus text format 0.0.4.",
        answers: &[answer(200, "The page.", METRICS)],
        handler: Handler::Now(process::metrics),
        ..PLAIN
    },
];

/// Whether the metrics listener, which asks for no token, has the operation.
pub(crate) fn is_on_metrics_listener(operation: &Operation) -> bool {
    operation.access == Access::Open || operation.path == "/metrics"
}
