//! The document that the service of `ext` is sent: one JSON object, version 1.
//!
//! Text that is no UTF-8 is `{"base64": "…"}` in place of a string, so that two values are never the same in it.

use crate::{Facts, RequestCx, may_be_changed};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// The version of question and answer.
pub(super) const VERSION: u64 = 1;

/// The body, as far as it is sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body<'a> {
    /// The configuration does not ask for it.
    NotSent,
    /// All of it.
    Whole(&'a [u8]),
    /// It goes in both directions at once: a call of gRPC, or an upgrade.
    Stream,
}

/// Host and port as the client named them.
pub(crate) fn host(facts: &Facts<'_>) -> Vec<u8> {
    let is_usual = facts.port == if facts.scheme == "https" { 443 } else { 80 };
    match is_usual {
        true => facts.host.to_vec(),
        false => [facts.host, format!(":{}", facts.port).as_bytes()].concat(),
    }
}

/// Writes the document of a request, with the fields whose name `sees` takes.
pub(super) fn document(cx: &RequestCx<'_>, sees: impl Fn(&[u8]) -> bool, body: Body<'_>) -> Vec<u8> {
    let facts = &cx.facts;
    let is_sent = |name: &[u8]| sees(name) && str::from_utf8(name).is_ok_and(may_be_changed);
    let fields = cx.fields.view().iter().filter(|(name, _)| is_sent(name));
    let fields: Vec<Value> = fields.map(|(name, value)| json!([text(name), text(value)])).collect();
    let mut document = Map::new();
    let mut put = |key: &str, value: Value| drop(document.insert(key.to_owned(), value));
    put("version", VERSION.into());
    put("phase", "request".into());
    put("id", facts.request_id.map_or(Value::Null, |id| id.to_string().into()));
    put("listener", facts.listener.into());
    put("route", facts.route.into());
    put("service", facts.service.into());
    put("method", text(facts.method));
    put("scheme", facts.scheme.into());
    put("host", text(facts.host));
    put("port", facts.port.into());
    put("path", text(facts.matched_path()));
    put("query", facts.query.map_or(Value::Null, text));
    put("upstream_path", text(cx.target.path()));
    put("client", facts.client_ip.to_string().into());
    put("user", cx.identity().map_or(Value::Null, |identity| identity.user.as_str().into()));
    put("fields", fields.into());
    match body {
        Body::NotSent => {}
        Body::Whole(body) => put("body_base64", STANDARD.encode(body).into()),
        Body::Stream => put("body_base64", Value::Null),
    }
    Value::Object(document).to_string().into_bytes()
}

/// Bytes as JSON has them.
pub(super) fn text(bytes: &[u8]) -> Value {
    match str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}
