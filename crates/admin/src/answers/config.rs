//! The configuration: shown, replaced, read again.

use axum::http::StatusCode;
use axum::http::header::ACCEPT;
use axum::response::{IntoResponse as _, Response};

use crate::audit::Change;
use crate::control::{ConfigFormat, ConfigOutcome, ReplaceOptions};
use crate::operation::{Asked, Reply};
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
pub(crate) fn show(asked: &Asked) -> Result<Response, Problem> {
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

pub(crate) fn replace(asked: &Asked) -> Result<Response, Problem> {
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
    let options =
        ReplaceOptions { dry_run: asked.query.flag("dry_run"), ephemeral: asked.query.flag("ephemeral") };
    let before = control.config().etag;
    let outcome = control.replace_config(text, &asked.expected_config(), options);
    let outcome = outcome.map_err(|refusal| asked.refused(refusal))?;
    Ok(reply(&before, &outcome))
}

pub(crate) fn reload(asked: &Asked) -> Result<Response, Problem> {
    let before = asked.app.control.config().etag;
    let outcome = asked.app.control.reload().map_err(|refusal| asked.refused(refusal))?;
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
