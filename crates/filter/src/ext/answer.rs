//! The answer of the service of `ext`, read strictly: it is usable as a whole, or not at all.

use super::question::VERSION;
use crate::may_be_changed;
use crate::rewrite::normal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use thalweg_http::h1::encode::write_field;
use thalweg_http::{Span, octet, parse_authority};

/// Fields that one answer may name.
const FIELDS: usize = 64;
/// Bytes of all their names and values.
const FIELD_BYTES: usize = 32 * 1024;
/// Bytes of a path with its query.
const TARGET: usize = 8 * 1024;
/// Bytes of a reason, and of what is said of an answer that is none.
const REASON: usize = 200;

/// A field.
pub(super) type Pair = (Box<str>, Box<str>);

/// What becomes of the request.
#[derive(Debug)]
pub(super) enum Answer {
    /// It goes on.
    Continue(Box<Change>),
    /// The client gets this response.
    Respond(Box<Response>),
}

/// Changes of a request, checked.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) remove: Vec<Box<str>>,
    /// Each name has these values and no others.
    pub(super) set: Vec<Pair>,
    pub(super) add: Vec<Pair>,
    /// In normal form.
    pub(super) path: Option<Vec<u8>>,
    /// Without `?`; empty: none.
    pub(super) query: Option<Vec<u8>>,
    pub(super) host: Option<Vec<u8>>,
    /// Added to the response.
    pub(super) response: Vec<Pair>,
    pub(super) reason: Option<String>,
}

/// A response for the client, checked.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) fields: Vec<Pair>,
    pub(super) body: Vec<u8>,
    pub(super) reason: Option<String>,
}

/// The answer as it is written. `fields` of either kind: a name and a text, or a list of texts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerSpec {
    #[serde(default)]
    version: Option<u64>,
    decision: DecisionSpec,
    #[serde(default)]
    set_fields: BTreeMap<String, Value>,
    #[serde(default)]
    add_fields: BTreeMap<String, Value>,
    #[serde(default)]
    remove_fields: Vec<String>,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    host: Option<String>,
    #[serde(default)]
    response_fields: BTreeMap<String, Value>,
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    fields: BTreeMap<String, Value>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    body_base64: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
enum DecisionSpec {
    Continue,
    Respond,
}

/// Reads an answer of this status.
///
/// # Errors
/// Why it is not usable, in words for the operator.
pub(super) fn read(status: u16, body: &[u8]) -> Result<Answer, String> {
    match status {
        204 => return Ok(Answer::Continue(Box::default())),
        200 => {}
        status => return Err(format!("it answers {status}")),
    }
    let spec: AnswerSpec = serde_json::from_slice(body)
        .map_err(|error| printable(&format!("its answer cannot be read: {error}")))?;
    if spec.version.is_some_and(|version| version != VERSION) {
        return Err("its answer has another version than 1".into());
    }
    match spec.decision {
        DecisionSpec::Continue => change(spec).map(|change| Answer::Continue(Box::new(change))),
        DecisionSpec::Respond => response(spec).map(|response| Answer::Respond(Box::new(response))),
    }
}

fn change(spec: AnswerSpec) -> Result<Change, String> {
    if spec.status.is_some() || !spec.fields.is_empty() || spec.body.is_some() || spec.body_base64.is_some() {
        return Err("its answer goes on and has `status`, `fields` or a body too".into());
    }
    let mut room = Room { fields: FIELDS, bytes: FIELD_BYTES };
    for name in &spec.remove_fields {
        room.take(name, "")?;
    }
    Ok(Change {
        remove: spec.remove_fields.iter().map(|name| name.as_str().into()).collect(),
        set: room.pairs(&spec.set_fields)?,
        add: room.pairs(&spec.add_fields)?,
        path: spec.path.as_deref().map(path).transpose()?,
        query: spec.query.map(query).transpose()?,
        host: spec.host.map(host).transpose()?,
        response: room.pairs(&spec.response_fields)?,
        reason: spec.reason.as_deref().map(printable),
    })
}

fn response(spec: AnswerSpec) -> Result<Response, String> {
    let changes =
        !spec.set_fields.is_empty() || !spec.add_fields.is_empty() || !spec.remove_fields.is_empty();
    let moves = spec.path.is_some() || spec.query.is_some() || spec.host.is_some();
    if changes || moves || !spec.response_fields.is_empty() {
        return Err("its answer responds and changes the request too".into());
    }
    let status = spec.status.ok_or("its answer responds without a `status`")?;
    if !(200..=599).contains(&status) {
        return Err(format!("its answer has the status {status}; it is from 200 to 599"));
    }
    let body = match (spec.body, spec.body_base64) {
        (Some(_), Some(_)) => return Err("its answer has both `body` and `body_base64`".into()),
        (Some(body), None) => body.into_bytes(),
        (None, Some(body)) => {
            STANDARD.decode(body).map_err(|_| "`body_base64` of its answer is no base64")?
        }
        (None, None) => Vec::new(),
    };
    if matches!(status, 204 | 205 | 304) && !body.is_empty() {
        return Err(format!("its answer has a body, which the status {status} has not"));
    }
    let mut room = Room { fields: FIELDS, bytes: FIELD_BYTES };
    let fields = room.pairs(&spec.fields)?;
    Ok(Response { status, fields, body, reason: spec.reason.as_deref().map(printable) })
}

/// What an answer may still name.
struct Room {
    fields: usize,
    bytes: usize,
}

impl Room {
    fn pairs(&mut self, written: &BTreeMap<String, Value>) -> Result<Vec<Pair>, String> {
        let mut pairs = Vec::new();
        for (name, value) in written {
            let one = std::slice::from_ref(value);
            for value in value.as_array().map_or(one, Vec::as_slice) {
                let Some(value) = value.as_str() else {
                    return Err(printable(&format!("its answer has `{name}`, whose value is not text")));
                };
                self.take(name, value)?;
                pairs.push((name.as_str().into(), value.into()));
            }
        }
        Ok(pairs)
    }

    /// Checks a field, and that there is room for it.
    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        let too_much =
            || format!("its answer names more than {FIELDS} fields, or more than {FIELD_BYTES} bytes");
        self.fields = self.fields.checked_sub(1).ok_or_else(too_much)?;
        self.bytes = self.bytes.checked_sub(name.len() + value.len()).ok_or_else(too_much)?;
        let is_sound = write_field(&mut Vec::new(), name.as_bytes(), value.as_bytes());
        if !is_sound || !may_be_changed(name) || name.eq_ignore_ascii_case("date") {
            return Err(printable(&format!(
                "its answer has `{name}`, a field that it may not name, or an invalid value"
            )));
        }
        Ok(())
    }
}

/// A path, in its normal form.
pub(crate) fn path(path: &str) -> Result<Vec<u8>, String> {
    let wrong = || "its answer has a `path` that is none: it begins with one `/` and has no query".to_owned();
    let is_path = path.starts_with('/') && !path.starts_with("//") && path.len() <= TARGET;
    if !is_path || !path.bytes().all(|byte| octet::is_target(byte) && !matches!(byte, b'?' | b'#')) {
        return Err(wrong());
    }
    normal(path.as_bytes()).map_err(|_| wrong())
}

pub(crate) fn query(query: String) -> Result<Vec<u8>, String> {
    let is_query = query.len() <= TARGET && query.bytes().all(|byte| octet::is_target(byte) && byte != b'#');
    if !is_query {
        return Err("its answer has a `query` that is none".into());
    }
    Ok(query.into_bytes())
}

pub(crate) fn host(host: String) -> Result<Vec<u8>, String> {
    match parse_authority(host.as_bytes(), Span::new(0, host.len())) {
        Ok(_) if host.len() <= 255 + ":65535".len() => Ok(host.into_bytes()),
        _ => Err("its answer has a `host` that is none".into()),
    }
}

/// Words that come from elsewhere, short and on one line.
fn printable(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }) {
        if out.len() + letter.len_utf8() > REASON {
            break;
        }
        out.push(letter);
    }
    out
}
