//! `when_down:` what is done when no endpoint is well.

use crate::diagnose::{Class, Problems, SpecError};
use crate::spec::{AnswerSpec, WhenDownSpec};
use crate::validate::bounded;
use std::sync::Arc;
use thalweg_upstream::{StaticAnswer, WhenDown};

/// Longest body, in bytes.
const BODY: usize = 64 * 1024;
/// Longest `content_type`, in bytes.
const CONTENT_TYPE: usize = 256;
/// Statuses whose responses have no content (RFC 9110 §6.4.1).
const EMPTY: &[u16] = &[204, 205, 304];

/// What is done.
pub(super) fn when_down(spec: Option<&WhenDownSpec>, problems: &mut Problems) -> WhenDown {
    match spec {
        None | Some(WhenDownSpec::Error) => WhenDown::Error,
        Some(WhenDownSpec::TryAll) => WhenDown::TryAll,
        Some(WhenDownSpec::Answer(spec)) => WhenDown::Answer(answer(spec, problems)),
    }
}

fn answer(spec: &AnswerSpec, problems: &mut Problems) -> StaticAnswer {
    let status = spec.status.as_ref().and_then(|status| bounded(status, 200, 599, problems));
    let status = status.and_then(|status| u16::try_from(status).ok()).unwrap_or(503);
    if let Some(body) = &spec.body {
        let message = if body.len() > BODY {
            "the body has at most 64 KiB".to_owned()
        } else if EMPTY.contains(&status) && !body.is_empty() {
            format!("a response with the status {status} has no body")
        } else {
            String::new()
        };
        if !message.is_empty() {
            problems.push(SpecError::new(Class::Invalid, body.span, message));
        }
    }
    let content_type = spec.content_type.as_ref();
    if let Some(text) = content_type {
        let fits = text.contains('/') && text.len() <= CONTENT_TYPE && text.trim() == text.as_str();
        if !fits || !text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            let message = format!("`{}` is not a media type", text.value);
            let error = SpecError::value(text.span, "media type", message)
                .help("write for example `application/json` or `text/html; charset=utf-8`");
            problems.push(error);
        }
    }
    StaticAnswer {
        status,
        content_type: Arc::from(content_type.map_or("text/plain; charset=utf-8", |text| text.value.as_str())),
        body: Arc::from(spec.body.as_ref().map_or("", |body| body.value.as_str())),
    }
}
