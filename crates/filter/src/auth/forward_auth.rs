//! `forward_auth:` another service decides (Traefik's ForwardAuth, nginx's `auth_request`).
//!
//! It is asked with the method, the place and chosen fields of each request, without its body. A 2xx lets the request
//! pass, with chosen fields of the answer, which no client can forge; any other answer is the client's. While the
//! service cannot be asked, nobody passes, unless the configuration says otherwise.

use super::forward::{is_same, remove_like};
use super::{Finding, Method};
use crate::{
    ConfigFiles, Facts, FieldView, Identity, Job, JobResult, Reply, ReplyBody, RequestCx, ResponseCx,
    Subrequest, may_be_changed,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::any::Any;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use thalweg_access::{Digest, Recent, digest};
use thalweg_core::units::parse_duration;
use thalweg_core::{Fault, FaultKind};
use thalweg_http::h1::encode::write_field;
use thalweg_http::{decode_path, octet};

/// Names of fields that may be listed.
const FIELDS: usize = 64;
/// The longest wait for the service, and the one where nothing is written.
const LONGEST: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(5);
/// Largest answer, in bytes.
const ANSWER: usize = 1024 * 1024;
/// Answers that are remembered, and for how long at most.
const REMEMBERED: usize = 16 * 1024;
const LONGEST_MEMORY: Duration = Duration::from_secs(60 * 60);
/// Fields of a question that say what it is about; those of the client are not sent.
const OWN: [&[u8]; 3] = [b"X-Original-URL", b"X-Original-Method", b"Content-Type"];
/// Fields of the request that the service sees, where nothing is written.
const DEFAULT_FIELDS: [&str; 8] = [
    "Accept",
    "Accept-Language",
    "Authorization",
    "Cookie",
    "Origin",
    "Referer",
    "User-Agent",
    "X-Requested-With",
];

/// The service that decides, and what it sees and says.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `service`")]
pub(crate) struct ForwardAuthSpec {
    /// The service that is asked. Its limits, health checks and timeouts apply.
    #[schemars(extend("x-default-words" = "must be written"))]
    #[schemars(extend("x-shown" = true))]
    service: String,
    /// Path and query of the question. The place of the request is in `X-Forwarded-Uri` and `X-Original-URL`.
    #[schemars(extend("x-default" = "/"))]
    #[schemars(extend("x-sent" = true))]
    path: Option<String>,
    /// The method of the question.
    #[schemars(extend("x-default" = "GET"))]
    method: Option<String>,
    /// Fields of the request that the service sees; `*` for all. It sees `X-Forwarded-Method`, `-Proto`, `-Host`,
    /// `-Uri` and `-For` in any case.
    #[schemars(extend("x-default-words" = "`Accept`, `Accept-Language`, `Authorization`, `Cookie`, `Origin`, `Referer`, `User-Agent`, `X-Requested-With`", "maxItems" = FIELDS))]
    fields: Option<Vec<String>>,
    /// Fields of the answer that go upstream in place of what the client has sent in them. Those that the answer does
    /// not have are removed.
    #[schemars(extend("x-default-words" = "none", "maxItems" = FIELDS))]
    copy: Vec<String>,
    /// Fields of a 2xx answer that the client gets with the response, such as `Set-Cookie`.
    #[schemars(extend("x-default-words" = "none", "maxItems" = FIELDS))]
    to_client: Vec<String>,
    /// The field of the answer that names the user.
    #[schemars(extend("x-default-words" = "none"))]
    user: Option<String>,
    /// How long the answer may take.
    #[schemars(extend("x-range" = ["1ms", "60s"], "x-default" = "5s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["2s"]))]
    timeout: Option<String>,
    /// What becomes of requests when the service cannot be asked.
    #[schemars(extend("x-default" = "deny"))]
    on_failure: OnFailureSpec,
    /// How long and for what answers are remembered.
    #[schemars(extend("x-default-words" = "every request is asked about"))]
    cache: Option<ForwardAuthCacheSpec>,
}

/// What becomes of requests when the service cannot be asked.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnFailureSpec {
    /// They get 503.
    #[default]
    Deny,
    /// They pass, and the record says so.
    Allow,
}

/// A memory of answers. One is used again for a request of which the service would see the same: client address,
/// method, host, path, query and `fields`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForwardAuthCacheSpec {
    /// How long a 2xx answer is used again.
    #[schemars(extend("x-range" = ["1s", "1h"]))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["10s"]))]
    ttl: String,
}

impl ForwardAuthSpec {
    pub(crate) fn build(&self, _files: &dyn ConfigFiles) -> Result<Arc<dyn Method>, String> {
        if self.service.is_empty() {
            return Err("`forward_auth` has no service; write the name of the one that decides".into());
        }
        let path = self.path.as_deref().unwrap_or("/");
        if !path.starts_with('/') || path.starts_with("//") || !path.bytes().all(octet::is_target) {
            return Err(format!("`{path}` is no path; it begins with one `/`"));
        }
        let method = self.method.as_deref().unwrap_or("GET");
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()) || method == "CONNECT" {
            return Err(format!("`{method}` is no method for a question; write `GET` or `POST`"));
        }
        let timeout = self.timeout.as_deref().map_or(Ok(TIMEOUT), parse_duration)?;
        if timeout < Duration::from_millis(1) || timeout > LONGEST {
            return Err("`timeout` of `forward_auth` must be from 1ms to 60s".into());
        }
        let fields = match self.fields.as_deref() {
            Some([all]) if all == "*" => None,
            Some(fields) => Some(names("fields", fields)?),
            None => Some(DEFAULT_FIELDS.map(Into::into).to_vec()),
        };
        let cache = self.cache.as_ref().map(|cache| {
            let ttl = parse_duration(&cache.ttl)?;
            if ttl < Duration::from_secs(1) || ttl > LONGEST_MEMORY {
                return Err("`ttl` of `cache` must be from 1s to 1h".to_owned());
            }
            Ok(Memory { ttl, answers: RwLock::new(Arc::new(Recent::new(REMEMBERED))) })
        });
        if self.copy.iter().any(|name| name.eq_ignore_ascii_case("cookie")) {
            return Err(
                "`copy` cannot have `Cookie`, which holds what the client has sent to others too".into()
            );
        }
        let to_client = names("to_client", &self.to_client)?;
        let user = self.user.as_ref().map(|name| names("user", std::slice::from_ref(name))).transpose()?;
        Ok(Arc::new(ForwardAuth {
            written: self.written(path, timeout),
            service: self.service.as_str().into(),
            path: path.as_bytes().into(),
            method: method.as_bytes().into(),
            fields,
            copy: names("copy", &self.copy)?,
            to_client,
            user: user.and_then(|names| names.into_iter().next()),
            timeout,
            allows: self.on_failure == OnFailureSpec::Allow,
            memory: cache.transpose()?,
        }))
    }

    fn written(&self, path: &str, timeout: Duration) -> Box<str> {
        // The query may contain a secret.
        let path = path.split('?').next().unwrap_or_default();
        let mut words = vec![format!("{} {path}", self.service), format!("within {timeout:?}")];
        words.extend(self.method.clone().filter(|method| method != "GET"));
        words.extend(self.fields.iter().map(|names| format!("sees {}", names.join(" "))));
        words.extend((!self.copy.is_empty()).then(|| format!("copies {}", self.copy.join(" "))));
        words.extend(
            (!self.to_client.is_empty()).then(|| format!("to the client {}", self.to_client.join(" "))),
        );
        words.extend(self.user.iter().map(|name| format!("user {name}")));
        words.extend((self.on_failure == OnFailureSpec::Allow).then(|| "allows on failure".to_owned()));
        words.extend(self.cache.iter().map(|cache| format!("remembers for {}", cache.ttl)));
        words.join(", ").into()
    }
}

/// Names of fields.
fn names(key: &str, written: &[String]) -> Result<Vec<Box<str>>, String> {
    if written.len() > FIELDS {
        return Err(format!("`{key}` has at most {FIELDS} names"));
    }
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(octet::is_token) && may_be_changed(name);
    match written.iter().find(|name| !is_name(name)) {
        Some(name) => Err(format!("`{key}` has `{name}`, which is no field that a filter may use")),
        None => Ok(written.iter().map(|name| name.as_str().into()).collect()),
    }
}

#[derive(Debug)]
struct ForwardAuth {
    written: Box<str>,
    service: Arc<str>,
    path: Box<[u8]>,
    method: Box<[u8]>,
    /// `None`: all.
    fields: Option<Vec<Box<str>>>,
    copy: Vec<Box<str>>,
    to_client: Vec<Box<str>>,
    user: Option<Box<str>>,
    timeout: Duration,
    allows: bool,
    memory: Option<Memory>,
}

/// Until when they count.
type Answers = Recent<(Instant, Arc<Pass>)>;

#[derive(Debug)]
struct Memory {
    ttl: Duration,
    answers: RwLock<Arc<Answers>>,
}

impl Memory {
    fn answers(&self) -> Arc<Answers> {
        self.answers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The cache key of an answer: everything that the service sees of the request, except values that differ each
    /// time (its id and its trace context). Two requests that the service could judge differently have different
    /// keys.
    fn key(question: &Subrequest, facts: &Facts<'_>) -> Digest {
        let Subrequest { method, host, target, fields, .. } = question;
        let clients = [facts.client_ip, facts.peer].map(|address| address.to_canonical().to_string());
        digest(&[method, host, target, fields, clients[0].as_bytes(), clients[1].as_bytes()])
    }
}

/// The values of a name.
fn values<'a>(view: FieldView<'a>, name: &str) -> impl Iterator<Item = &'a [u8]> {
    view.iter().filter_map(move |(known, value)| known.eq_ignore_ascii_case(name.as_bytes()).then_some(value))
}

/// What the service has said of a request that passes.
#[derive(Debug, Default)]
struct Pass {
    user: String,
    /// Lines for upstream.
    upstream: Vec<u8>,
    /// Lines for the client.
    client: Vec<u8>,
}

/// What the service has said has been told on.
struct Told(Arc<Pass>);

impl ForwardAuth {
    fn question(&self, cx: &RequestCx<'_>) -> Subrequest {
        let (facts, mut fields) = (&cx.facts, Vec::new());
        let view = cx.fields.view();
        for (name, value) in view.iter() {
            let Ok(text) = str::from_utf8(name) else { continue };
            let is_seen = match &self.fields {
                None => true,
                Some(names) => names.iter().any(|seen| seen.eq_ignore_ascii_case(text)),
            };
            // In other spellings, too, which a service of CGI or WSGI takes for the same.
            let is_ours = text.get(..12).is_some_and(|start| is_same(start.as_bytes(), b"X-Forwarded-"))
                || OWN.iter().any(|own| is_same(own, name));
            if is_seen && !is_ours && may_be_changed(text) {
                write_field(&mut fields, name, value);
            }
        }
        // One spelling, so that a decision service that compares bytes judges the path that an endpoint opens.
        let mut uri = decode_path(facts.path).into_owned();
        if let Some(query) = facts.query {
            uri.push(b'?');
            uri.extend_from_slice(query);
        }
        let host = host(cx);
        let url = [facts.scheme.as_bytes(), b"://", &host, &uri].concat();
        write_field(&mut fields, b"X-Forwarded-Method", facts.method);
        write_field(&mut fields, b"X-Forwarded-Uri", &uri);
        write_field(&mut fields, b"X-Original-Method", facts.method);
        write_field(&mut fields, b"X-Original-URL", &url);
        Subrequest {
            service: self.service.clone(),
            method: self.method.to_vec(),
            host,
            target: self.path.to_vec(),
            fields,
            body: Vec::new(),
            max_response: ANSWER,
            timeout: self.timeout,
        }
    }

    fn passes(&self, cx: &mut RequestCx<'_>, pass: &Arc<Pass>) -> Finding {
        remove_like(cx, self.copy.iter().map(|name| &**name));
        for (name, value) in FieldView::new(&[], &[], &pass.upstream).iter() {
            if let Ok(name) = str::from_utf8(name) {
                cx.fields.append(name, value);
            }
        }
        cx.remember(Told(pass.clone()));
        let mut identity = Identity::new("forward_auth", pass.user.clone());
        for (name, value) in FieldView::new(&[], &[], &pass.upstream).iter() {
            if let (Ok(name), Ok(value)) = (str::from_utf8(name), str::from_utf8(value)) {
                identity.claims.insert(name.to_ascii_lowercase(), Value::String(value.to_owned()));
            }
        }
        Finding::Verified(identity)
    }

    /// Nobody could be asked.
    fn failed(&self, cx: &mut RequestCx<'_>, fault: Fault) -> Finding {
        if self.allows {
            cx.explain(format!("passes unasked: {}", fault.detail));
            return self.passes(cx, &Arc::default());
        }
        cx.explain(format!("forward_auth: {}", fault.detail));
        Finding::Fault(UNASKED)
    }

    fn pass(&self, lines: FieldView<'_>) -> Pass {
        let take = |names: &[Box<str>]| {
            let mut out = Vec::new();
            for name in names {
                for value in values(lines, name) {
                    write_field(&mut out, name.as_bytes(), value);
                }
            }
            out
        };
        let user = self.user.as_deref().and_then(|name| values(lines, name).next());
        let user = user.and_then(|user| str::from_utf8(user).ok()).unwrap_or_default().to_owned();
        Pass { user, upstream: take(&self.copy), client: take(&self.to_client) }
    }
}

const UNASKED: Fault = Fault {
    status: 503,
    ..Fault::new(FaultKind::DestinationUnavailable, "the service that decides who may pass gives no answer")
};

/// Host and port as the client named them.
fn host(cx: &RequestCx<'_>) -> Vec<u8> {
    let facts = &cx.facts;
    let is_usual = facts.port == if facts.scheme == "https" { 443 } else { 80 };
    match is_usual {
        true => facts.host.to_vec(),
        false => [facts.host, format!(":{}", facts.port).as_bytes()].concat(),
    }
}

impl Method for ForwardAuth {
    fn name(&self) -> &'static str {
        "forward_auth"
    }

    fn argument(&self) -> String {
        self.written.to_string()
    }

    fn check(&self, cx: &mut RequestCx<'_>) -> Finding {
        let question = self.question(cx);
        if let Some(memory) = &self.memory {
            let known = memory.answers().get(&Memory::key(&question, &cx.facts));
            if let Some((_, pass)) = known.filter(|(until, _)| cx.facts.now < *until) {
                return self.passes(cx, &pass);
            }
        }
        Finding::Wait(Job::Fetch(Box::new(question)))
    }

    fn resume(&self, cx: &mut RequestCx<'_>, got: JobResult) -> Finding {
        let answer = match got {
            JobResult::Fetched(Ok(answer)) => answer,
            JobResult::Fetched(Err(fault)) => return self.failed(cx, fault),
            JobResult::NotAsked => return self.passes(cx, &Arc::default()),
            _ => return Finding::Fault(UNASKED),
        };
        let lines = FieldView::new(&[], &[], &answer.fields);
        match answer.status {
            200..=299 => {
                let pass = Arc::new(self.pass(lines));
                // What is for one client's browser is not for the next one.
                if let Some(memory) = self.memory.as_ref().filter(|_| pass.client.is_empty()) {
                    let key = Memory::key(&self.question(cx), &cx.facts);
                    memory.answers().put(key, (cx.facts.now + memory.ttl, pass.clone()));
                }
                self.passes(cx, &pass)
            }
            500..=599 => {
                let status = answer.status;
                if self.allows {
                    cx.explain(format!("passes unasked: the service answers {status}"));
                    return self.passes(cx, &Arc::default());
                }
                cx.explain(format!("forward_auth: the service answers {status}"));
                Finding::Fault(UNASKED)
            }
            status => {
                cx.explain(format!("forward_auth: the service answers {status}"));
                let mut reply = Reply::new(status);
                for (name, value) in lines.iter() {
                    if str::from_utf8(name)
                        .is_ok_and(|name| may_be_changed(name) && !name.eq_ignore_ascii_case("date"))
                    {
                        write_field(&mut reply.fields, name, value);
                    }
                }
                if !answer.body.is_empty() {
                    reply.body = ReplyBody::Bytes(answer.body.into());
                }
                Finding::Reply(Box::new(reply))
            }
        }
    }

    /// Credentials that the service has judged are the client's and the upstream's: which they are, it alone knows.
    fn strip(&self, _cx: &mut RequestCx<'_>) {}

    fn remove_forged(&self, cx: &mut RequestCx<'_>) {
        if !self.copy.is_empty() && cx.remembered::<Told>().is_none() {
            remove_like(cx, self.copy.iter().map(|name| &**name));
        }
    }

    fn own_fields(&self) -> Vec<&str> {
        self.copy.iter().map(AsRef::as_ref).collect()
    }

    fn sees_responses(&self) -> bool {
        !self.to_client.is_empty()
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        let Some(Told(pass)) = cx.remembered::<Told>() else { return };
        let pass = pass.clone();
        for (name, value) in FieldView::new(&[], &[], &pass.client).iter() {
            if let Ok(name) = str::from_utf8(name) {
                cx.fields.append(name, value);
            }
        }
    }

    fn calls(&self) -> Vec<Arc<str>> {
        vec![self.service.clone()]
    }

    fn adopt(&self, former: &dyn Method) {
        let Some(former) = (former as &dyn Any).downcast_ref::<Self>() else { return };
        // What was said under other terms may not hold under these.
        if let (Some(memory), Some(before)) = (&self.memory, &former.memory)
            && self.written == former.written
        {
            *memory.answers.write().unwrap_or_else(PoisonError::into_inner) = before.answers();
        }
    }
}

#[cfg(test)]
mod tests;
