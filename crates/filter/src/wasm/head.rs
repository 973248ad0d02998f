//! What a module sees of an exchange, and what becomes of its changes.

use crate::ext::{asked_host, checked_host, checked_path, checked_query};
use crate::{
    Facts, FieldView, HeadFields, Moved, QueryEdit, RequestCx, ResponseCx, TargetEdit, may_be_changed,
};
use thalweg_http::h1::encode::write_field;
use thalweg_http::octet;
use thalweg_wasm::{Allowed, Edit, Field, Head, Side};

/// Whether a module may write a field. Those of framing and of the connection are the proxy's: modules of the SDKs
/// remove `content-length` where they change a body, which is right elsewhere; here they alone see it so.
pub(super) fn rule(side: Side, name: &[u8], value: Option<&[u8]>) -> Allowed {
    if name.first() == Some(&b':') {
        return special(side, name, value);
    }
    let is_sound = !name.is_empty()
        && name.iter().all(|byte| octet::is_token(*byte))
        && value.is_none_or(|value| write_field(&mut Vec::new(), name, value));
    let Some(text) = str::from_utf8(name).ok().filter(|_| is_sound) else { return Allowed::No };
    let is_own = side == Side::Reply && text.eq_ignore_ascii_case("date");
    if is_own || !may_be_changed(text) { Allowed::WithoutEffect } else { Allowed::Yes }
}

/// The same of the parts of the first line.
fn special(side: Side, name: &[u8], value: Option<&[u8]>) -> Allowed {
    let text = value.and_then(|value| str::from_utf8(value).ok());
    let fits = match (side, name) {
        (Side::Reply, b":status") | (Side::Call, b":scheme") => return Allowed::WithoutEffect,
        (Side::Request | Side::Call, b":path") => text.is_some_and(|text| target(text).is_some()),
        // A call without a host is one for the service's name.
        (Side::Call, b":authority") if value == Some(b"") => true,
        (Side::Request | Side::Call, b":authority") => {
            text.is_some_and(|text| checked_host(text.into()).is_ok())
        }
        (Side::Call, b":method") => {
            text.is_some_and(|text| !text.is_empty() && text.bytes().all(octet::is_token))
        }
        _ => false,
    };
    if fits { Allowed::Yes } else { Allowed::No }
}

/// A path in its normal form, and its query.
fn target(text: &str) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let (path, query) = match text.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (text, None),
    };
    let query = query.map(|query| checked_query(query.to_owned())).transpose().ok()?;
    Some((checked_path(path).ok()?, query))
}

fn field(name: &str, value: &[u8]) -> Field {
    (name.as_bytes().to_vec(), value.to_vec())
}

/// The first line of a request.
pub(super) struct Target<'a> {
    pub(super) facts: &'a Facts<'a>,
    /// What filters have made of it; `None`: they were not reached.
    pub(super) target: Option<&'a TargetEdit>,
}

impl Target<'_> {
    fn path(&self) -> Vec<u8> {
        let path = self.target.map_or(self.facts.path, TargetEdit::path);
        let query = match self.target.map(TargetEdit::query) {
            None | Some(QueryEdit::Unchanged) => self.facts.query,
            Some(QueryEdit::Removed) => None,
            Some(QueryEdit::Replaced(query)) => Some(&**query),
        };
        match query {
            Some(query) => [path, b"?", query].concat(),
            None => path.to_vec(),
        }
    }

    fn authority(&self) -> Vec<u8> {
        let host = self.target.and_then(TargetEdit::host);
        host.map_or_else(|| asked_host(self.facts), <[u8]>::to_vec)
    }

    /// With these fields and the length of the body.
    pub(super) fn head(&self, fields: FieldView<'_>, length: Option<Field>) -> Head {
        let special = [
            field(":authority", &self.authority()),
            field(":path", &self.path()),
            field(":method", self.facts.method),
            field(":scheme", self.facts.scheme.as_bytes()),
        ];
        let fields = fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec()));
        Head::new(special.into_iter().chain(fields).chain(length))
    }
}

/// The length of a body, where it is known, as the field that tells it elsewhere: here framing is the proxy's.
fn length(known: Option<u64>) -> Option<Field> {
    known.map(|length| field("content-length", length.to_string().as_bytes()))
}

/// The head of the request as it is now.
pub(super) fn request_head(cx: &RequestCx<'_>) -> Head {
    let is_empty = || !cx.has_body && cx.fields.received("content-length") == Some(b"0");
    let known = cx.content_length.or_else(|| is_empty().then_some(0));
    // What a filter before this one makes of the body has no length yet.
    let known = known.filter(|_| cx.outcome.transforms.is_empty());
    Target { facts: &cx.facts, target: Some(&*cx.target) }.head(cx.fields.view(), length(known))
}

/// The head of the response as it is now.
pub(super) fn response_head(cx: &ResponseCx<'_>) -> Head {
    let status = field(":status", cx.status.to_string().as_bytes());
    let fields = cx.fields.view();
    let fields = fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec()));
    // Such an answer of the proxy's own is sent without one.
    let is_bare = !cx.is_upstream && matches!(cx.status, 204 | 304);
    let known = cx.content_length.filter(|_| !is_bare && !cx.has_asked());
    Head::new(std::iter::once(status).chain(fields).chain(length(known)))
}

/// Makes the module's changes of a request.
pub(super) fn apply(cx: &mut RequestCx<'_>, edits: Vec<Edit>) {
    for edit in edits {
        match edit {
            Edit::Add(name, value) if name == b":path" => {
                let Some((path, query)) = str::from_utf8(&value).ok().and_then(target) else { continue };
                if path != cx.target.path() {
                    cx.target.set_path(path, Moved::Otherwise);
                }
                match query {
                    query
                        if query.as_deref() == cx.facts.query
                            && *cx.target.query() == QueryEdit::Unchanged => {}
                    Some(query) => cx.target.set_query(QueryEdit::Replaced(query)),
                    None => cx.target.set_query(QueryEdit::Removed),
                }
            }
            Edit::Add(name, value) if name == b":authority" => cx.target.set_host(value),
            edit => change(&mut cx.fields, edit),
        }
    }
}

/// Makes the module's changes of a response.
pub(super) fn apply_response(cx: &mut ResponseCx<'_>, edits: Vec<Edit>) {
    for edit in edits {
        change(&mut cx.fields, edit);
    }
}

fn change(fields: &mut HeadFields<'_>, edit: Edit) {
    let (Edit::Add(name, _) | Edit::Remove(name)) = &edit;
    let Ok(name) = str::from_utf8(name) else { return };
    match &edit {
        Edit::Add(_, value) => fields.append(name, value),
        Edit::Remove(_) => drop(fields.remove(name)),
    }
}

/// What is known of a request beside its fields. Numbers and truth values are as Envoy has them: eight bytes, least
/// first, and one byte.
pub(super) fn properties(cx: &RequestCx<'_>) -> Vec<(&'static str, Vec<u8>)> {
    let facts = &cx.facts;
    let target = Target { facts, target: Some(&*cx.target) };
    let (host, path) = (target.authority(), target.path());
    let time = facts.unix_seconds.saturating_mul(1_000_000_000).to_le_bytes();
    let texts: [(&'static str, &[u8]); 14] = [
        ("request.url_path", cx.target.path()),
        ("request.method", facts.method),
        ("request.scheme", facts.scheme.as_bytes()),
        ("request.protocol", facts.version.label().as_bytes()),
        ("request.query", facts.query.unwrap_or_default()),
        ("listener_name", facts.listener.as_bytes()),
        ("route_name", facts.route.as_bytes()),
        ("cluster_name", facts.service.as_bytes()),
        ("xds.listener_name", facts.listener.as_bytes()),
        ("xds.route_name", facts.route.as_bytes()),
        ("xds.cluster_name", facts.service.as_bytes()),
        ("request.host", &host),
        ("request.path", &path),
        ("request.time", &time),
    ];
    let mut all: Vec<_> = texts.into_iter().map(|(name, value)| (name, value.to_vec())).collect();
    all.push(("source.address", facts.client_ip.to_string().into_bytes()));
    all.push(("connection.peer_address", facts.peer.to_string().into_bytes()));
    let mut put = |name, value: Option<&[u8]>| all.extend(value.map(|value| (name, value.to_vec())));
    put("request.id", facts.request_id.map(|id| id.to_string().into_bytes()).as_deref());
    put("request.useragent", cx.fields.get("user-agent"));
    put("request.referer", cx.fields.get("referer"));
    put("connection.tls_version", facts.connection.tls_version().map(str::as_bytes));
    put(
        "connection.requested_server_name",
        facts.connection.tls_server_name().map(String::into_bytes).as_deref(),
    );
    let subject = facts.connection.client_subject();
    put("connection.mtls", Some(&[u8::from(subject.is_some())]));
    put("connection.subject_peer_certificate", subject.map(String::into_bytes).as_deref());
    put("thalweg.user", cx.identity().map(|identity| identity.user.as_bytes()));
    all
}
