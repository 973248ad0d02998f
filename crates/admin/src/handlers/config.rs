//! The configuration: shown, replaced, read again, compared, brought back.

use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::ACCEPT;
use axum::response::{IntoResponse as _, Response};

use crate::audit::Change;
use crate::body::{self, RollbackSpec};
use crate::control::{
    ConfigFormat, ConfigOutcome, ReloadOptions, ReplaceOptions, RollbackOptions, WatchOptions,
};
use crate::operation::{ApiRequest, Reply};
use crate::precondition::is_known;
use crate::problem::Problem;

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
    if options.max_p99 <= 100 {
        return Err(Problem::invalid("max_p99", "write a number from 101 to 10000: percent of what it was"));
    }
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
    let to = body::json::<RollbackSpec>(&asked.body)?.to;
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
