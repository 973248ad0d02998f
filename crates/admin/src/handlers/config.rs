//! The configuration: shown, replaced, read again, compared, brought back.

use std::time::Duration;

use axum::http::header::ACCEPT;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};

use crate::audit::Change;
use crate::body::{self, RollbackSpec};
use crate::control::{
    ConfigDocument, ConfigFormat, ConfigOutcome, History, ReloadOptions, ReplaceOptions, RollbackOptions,
    WatchOptions,
};
use crate::operation::{
    Access, Answer, ApiRequest, Content, Handler, Operation, PLAIN, Precondition, Reply, answer, body_of,
    json_of, tagged,
};
use crate::precondition::is_known;
use crate::problem::Problem;
use crate::query::{Kind, Parameter};

/// A configuration as it arrives: its own schema is another document.
const CONFIG: Content = Content {
    types: TYPES,
    read: None,
    schema: |_| schemars::json_schema!({ "description": "A configuration, in the format of the present one." }),
};
/// A configuration as it is shown.
const SHOWN: Content = Content {
    types: &["application/yaml", "application/json", "application/toml"],
    read: None,
    schema: |generator| {
        let document = generator.subschema_for::<ConfigDocument>();
        schemars::json_schema!({ "anyOf": [{ "type": "string" }, document, { "type": "object" }] })
    },
};
const SCHEMA: Content = Content {
    types: &["application/json"],
    schema: |_| schemars::json_schema!({ "type": "object" }),
    read: None,
};
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
    kind: Kind::Between(101, 10_000),
};
const MIN_REQUESTS: Parameter = Parameter {
    name: "min_requests",
    about: "With `watch`: requests of a route before it is judged, at most 1000000. Default 20.",
    kind: Kind::Count(1_000_000),
};

/// The operations that are answered here.
pub(crate) static OPERATIONS: &[Operation] = &[
    Operation {
        id: "config",
        path: "/api/v1/config",
        summary: "The configuration as it was written, secrets redacted. With `Accept: application/json`, a document about it.",
        answers: &[
            tagged(200, "The configuration.", SHOWN),
            Answer { status: 304, when: "It is the one of `If-None-Match`.", content: None, tagged: true },
        ],
        handler: Handler::Now(show),
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
        handler: Handler::Now(replace),
        ..PLAIN
    },
    Operation {
        id: "config_schema",
        path: "/api/v1/config/schema",
        summary: "The JSON schema of a configuration.",
        answers: &[answer(200, "The schema.", SCHEMA)],
        handler: Handler::Now(schema),
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
        handler: Handler::Now(reload),
        ..PLAIN
    },
    Operation {
        id: "plan",
        path: "/api/v1/plan",
        summary: "What a reload would change.",
        answers: &[answer(200, "The plan.", json_of::<ConfigOutcome>())],
        refusals: &[400, 409],
        handler: Handler::Now(plan),
        ..PLAIN
    },
    Operation {
        id: "history",
        path: "/api/v1/history",
        summary: "Configurations that have run, newest first, without their texts.",
        answers: &[answer(200, "The history.", json_of::<History>())],
        handler: Handler::Now(history),
        ..PLAIN
    },
    Operation {
        id: "rollback",
        method: Method::POST,
        path: "/api/v1/rollback",
        summary: "Brings an earlier configuration back, and the file with it where it can be written.",
        access: Access::Write,
        precondition: Precondition::Optional,
        body: Some(body_of::<RollbackSpec>()),
        answers: &[tagged(200, "What changes.", json_of::<ConfigOutcome>())],
        refusals: &[404, 409],
        handler: Handler::Now(rollback),
        ..PLAIN
    },
];

/// Media types of a configuration.
pub(crate) const TYPES: &[&str] = &[
    "application/yaml",
    "application/x-yaml",
    "text/yaml",
    "text/x-yaml",
    "application/json",
    "application/toml",
];

/// The text as it is, or with what there is to know about it for those who accept JSON alone.
pub(crate) fn show(asked: &ApiRequest) -> Result<Response, Problem> {
    let config = asked.app.control.config();
    if is_known(&asked.parts.headers, &config.etag)? {
        let reply = Reply::from(StatusCode::NOT_MODIFIED.into_response());
        return reply.tag(&config.etag).done();
    }
    let accept = asked.parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.trim().eq_ignore_ascii_case("application/json") {
        return Reply::json(StatusCode::OK, &config).tag(&config.etag).done();
    }
    Reply::text(media_type(config.format), config.text).tag(&config.etag).done()
}

fn schema(asked: &ApiRequest) -> Result<Response, Problem> {
    Reply::text("application/json", asked.app.control.config_schema()).done()
}

fn media_type(format: ConfigFormat) -> &'static str {
    match format {
        ConfigFormat::Yaml => "application/yaml",
        ConfigFormat::Json => "application/json",
        ConfigFormat::Toml => "application/toml",
    }
}

pub(crate) fn replace(asked: &ApiRequest) -> Result<Response, Problem> {
    let control = &asked.app.control;
    let format = control.config().format;
    let arrived = match asked.content_type.as_str() {
        "application/json" => ConfigFormat::Json,
        "application/toml" => ConfigFormat::Toml,
        _ => ConfigFormat::Yaml,
    };
    // JSON is a part of YAML (YAML 1.2 §1.3).
    if arrived != format && (arrived, format) != (ConfigFormat::Json, ConfigFormat::Yaml) {
        let detail = format!("the configuration is written as `{}`", media_type(format));
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let Ok(text) = std::str::from_utf8(&asked.body) else {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "the configuration is not UTF-8"));
    };
    let options = ReplaceOptions {
        dry_run: asked.query.flag("dry_run"),
        ephemeral: asked.query.flag("ephemeral"),
        watch: watch(asked)?,
        by: asked.author(),
    };
    let before = control.config().etag;
    let outcome = control.replace_config(text, &asked.expected_config(), options);
    let outcome = outcome.map_err(|refusal| asked.refused(refusal))?;
    Ok(reply(&before, &outcome))
}

/// How the new configuration is to be watched, if at all.
fn watch(asked: &ApiRequest) -> Result<Option<WatchOptions>, Problem> {
    let Some(time) = asked.query.duration("watch") else { return Ok(None) };
    if time < Duration::from_secs(1) {
        return Err(Problem::invalid("watch", "write a time from 1s to 1h"));
    }
    let number =
        |name, default| asked.query.number(name).map_or(default, |n| u32::try_from(n).unwrap_or(u32::MAX));
    let options = WatchOptions {
        time,
        max_errors: number("max_errors", WatchOptions::MAX_ERRORS),
        max_p99: number("max_p99", WatchOptions::MAX_P99),
        min_requests: asked.query.number("min_requests").unwrap_or(WatchOptions::MIN_REQUESTS),
    };
    Ok(Some(options))
}

pub(crate) fn reload(asked: &ApiRequest) -> Result<Response, Problem> {
    let before = asked.app.control.config().etag;
    let options = ReloadOptions { watch: watch(asked)?, by: asked.author() };
    let outcome = asked.app.control.reload(options).map_err(|refusal| asked.refused(refusal))?;
    Ok(reply(&before, &outcome))
}

pub(crate) fn plan(asked: &ApiRequest) -> Result<Response, Problem> {
    let outcome = asked.app.control.plan().map_err(|refusal| asked.refused(refusal))?;
    Reply::json(StatusCode::OK, &outcome).done()
}

pub(crate) fn history(asked: &ApiRequest) -> Result<Response, Problem> {
    Reply::json(StatusCode::OK, &asked.app.control.history()).done()
}

pub(crate) fn rollback(asked: &ApiRequest) -> Result<Response, Problem> {
    let to = body::parse::<RollbackSpec>(&asked.body)?;
    let before = asked.app.control.config().etag;
    let options = RollbackOptions { to, by: asked.author() };
    let outcome = asked.app.control.rollback(&asked.expected_config(), options);
    let outcome = outcome.map_err(|refusal| asked.refused(refusal))?;
    Ok(reply(&before, &outcome))
}

/// Only what was really changed has a tag and stands in the audit log with its tags.
fn reply(before: &str, outcome: &ConfigOutcome) -> Response {
    let reply = Reply::json(StatusCode::OK, outcome);
    if outcome.dry_run {
        return reply.into();
    }
    reply.tag(&outcome.etag).changed(Change::new(Some(&before), Some(&outcome.etag))).into()
}
