//! `ext:` a service of the operator's own decides about requests and changes them (decision 0100).
//!
//! It is asked with one POST for each request: a JSON document with the head and, where that is wanted, the whole body
//! (`ext/question.rs`). Its answer (`ext/answer.rs`) lets the request go on, perhaps changed, or is the client's
//! response. What is asked and answered is bounded, and an answer is checked as a whole before anything of it is
//! applied. A call that fails has no effect: `on_failure` says what becomes of the request.

mod answer;
mod question;

use crate::{
    Filter, Hooks, Job, JobResult, Moved, Moves, QueryEdit, Reply, ReplyBody, RequestCx, ResponseCx,
    Subrequest, Verdict, may_be_changed,
};
use answer::{Answer, Change};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use thalweg_core::units::{parse_duration, parse_size, size_text};
use thalweg_core::{Fault, FaultKind};
use thalweg_http::h1::encode::write_field;
use thalweg_http::octet;
#[cfg(feature = "wasm")]
pub(crate) use {
    answer::{host as checked_host, path as checked_path, query as checked_query},
    question::host as asked_host,
};

/// Names of fields that may be listed.
const FIELDS: usize = 64;
/// The longest wait for the service, and the one where nothing is written.
const LONGEST: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of a body, where nothing is written, and the most that may be written: as `buffer` has in memory.
const BODY: u64 = 64 * 1024;
const MOST_BODY: u64 = 256 * 1024;
/// Largest answer, in bytes.
const ANSWER: usize = 1024 * 1024;

/// The service that decides, and what it is sent.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map with `service`")]
pub struct ExtSpec {
    /// The service that is asked. Its limits, health checks, circuit breaker and timeouts apply.
    #[schemars(extend("x-default-words" = "must be written"))]
    #[schemars(extend("x-shown" = true))]
    service: String,
    /// Path and query of the question.
    #[schemars(extend("x-default" = "/"))]
    #[schemars(extend("x-sent" = true))]
    path: Option<String>,
    /// What the service is sent of a request.
    #[schemars(extend("x-default" = "head"))]
    send: ExtSendSpec,
    /// With `send: body`, a request with a larger body is answered 413.
    #[schemars(extend("x-range" = ["1KiB", "256KiB"], "x-default" = "64KiB"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*[0-9]+[\s\u0085]*([KMGT]i?)?B[\s\u0085]*$", "examples" = ["16KiB"]))]
    max_body: Option<String>,
    /// Fields of the request that the service is sent; `*` for all.
    #[schemars(extend("x-default-words" = "all but `Authorization`, `Cookie` and `Proxy-Authorization`", "maxItems" = FIELDS))]
    fields: Option<Vec<String>>,
    /// How long the answer may take.
    #[schemars(extend("x-range" = ["1ms", "60s"], "x-default" = "1s"))]
    #[schemars(extend("pattern" = r"^[\s\u0085]*([0-9]+(us|ms|[smhd]))+[\s\u0085]*$", "examples" = ["200ms"]))]
    timeout: Option<String>,
    /// What becomes of requests when the service gives no usable answer.
    #[schemars(extend("x-default" = "deny"))]
    on_failure: ExtFailureSpec,
}

/// What the service is sent of a request.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExtSendSpec {
    /// Its head.
    #[default]
    Head,
    /// Its head and its whole body.
    Body,
}

/// What becomes of requests when the service gives no usable answer.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExtFailureSpec {
    /// They get 503, or 504 where the answer took too long.
    #[default]
    Deny,
    /// They go on unchanged, and the record says so.
    Pass,
}

impl ExtSpec {
    /// Checks the values; whether the service exists is checked where all services are known.
    ///
    /// # Errors
    /// A sentence that names what is wrong and the remedy.
    pub(crate) fn build(&self) -> Result<Arc<dyn Filter>, String> {
        if self.service.is_empty() {
            return Err("`ext` has no service; write the name of the one that is asked".into());
        }
        let path = self.path.as_deref().unwrap_or("/");
        if !path.starts_with('/') || path.starts_with("//") || !path.bytes().all(octet::is_target) {
            return Err(format!("`{path}` is no path; it begins with one `/`"));
        }
        let max_body = self.max_body.as_deref().map_or(Ok(BODY), parse_size)?;
        if !(1024..=MOST_BODY).contains(&max_body) {
            return Err("`max_body` of `ext` must be from 1KiB to 256KiB".into());
        }
        if self.send == ExtSendSpec::Head && self.max_body.is_some() {
            return Err("`max_body` of `ext` is of no use without `send: body`".into());
        }
        let timeout = self.timeout.as_deref().map_or(Ok(TIMEOUT), parse_duration)?;
        if timeout < Duration::from_millis(1) || timeout > LONGEST {
            return Err("`timeout` of `ext` must be from 1ms to 60s".into());
        }
        Ok(Arc::new(Ext {
            service: self.service.as_str().into(),
            path: path.into(),
            max_body: (self.send == ExtSendSpec::Body).then_some(max_body as usize),
            fields: self.seen()?,
            timeout,
            passes: self.on_failure == ExtFailureSpec::Pass,
        }))
    }

    fn seen(&self) -> Result<Seen, String> {
        let names = match self.fields.as_deref() {
            None => return Ok(Seen::NoCredentials),
            Some([all]) if all == "*" => return Ok(Seen::All),
            Some(names) => names,
        };
        if names.len() > FIELDS {
            return Err(format!("`fields` of `ext` has at most {FIELDS} names"));
        }
        let is_name =
            |name: &str| !name.is_empty() && name.bytes().all(octet::is_token) && may_be_changed(name);
        match names.iter().find(|name| !is_name(name)) {
            Some(name) => Err(format!("`fields` has `{name}`, which is no field that a filter may use")),
            None => Ok(Seen::These(names.iter().map(|name| name.as_str().into()).collect())),
        }
    }
}

/// Fields of the request that the service is sent.
#[derive(Debug)]
enum Seen {
    All,
    NoCredentials,
    These(Vec<Box<str>>),
}

impl Seen {
    fn has(&self, name: &[u8]) -> bool {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match self {
            Self::All => true,
            Self::NoCredentials => {
                !["authorization", "cookie", "proxy-authorization"].iter().any(|known| is(known))
            }
            Self::These(names) => names.iter().any(|known| is(known)),
        }
    }
}

#[derive(Debug)]
struct Ext {
    service: Arc<str>,
    path: Box<str>,
    /// Bytes; `None`: the service is sent the head alone.
    max_body: Option<usize>,
    fields: Seen,
    timeout: Duration,
    passes: bool,
}

/// Lines for the response.
struct ForResponse(Vec<(Box<str>, Box<str>)>);

impl Ext {
    /// The call; `body` is that of the request, as far as it is sent.
    fn ask(&self, cx: &RequestCx<'_>, body: question::Body<'_>) -> Verdict {
        let mut fields = Vec::new();
        write_field(&mut fields, b"Content-Type", b"application/json");
        write_field(&mut fields, b"Accept", b"application/json");
        Verdict::Wait(Job::Fetch(Box::new(Subrequest {
            service: self.service.clone(),
            method: b"POST".to_vec(),
            host: question::host(&cx.facts),
            target: self.path.as_bytes().to_vec(),
            fields,
            body: question::document(cx, |name| self.fields.has(name), body),
            max_response: ANSWER,
            timeout: self.timeout,
        })))
    }

    /// The service gave no usable answer.
    fn failed(&self, cx: &mut RequestCx<'_>, (status, why): (u16, &str)) -> Verdict {
        if self.passes {
            cx.explain(format!("ext: passes without `{}`: {why}", self.service));
            return Verdict::Continue;
        }
        cx.explain(format!("ext: no usable answer of `{}`: {why}", self.service));
        Verdict::Fault(Fault { status, ..UNUSABLE })
    }

    fn change(&self, cx: &mut RequestCx<'_>, change: Change) -> Verdict {
        for name in &change.remove {
            cx.fields.remove(name);
        }
        for (name, _) in &change.set {
            cx.fields.remove(name);
        }
        for (name, value) in change.set.iter().chain(&change.add) {
            cx.fields.append(name, value.as_bytes());
        }
        if let Some(path) = change.path {
            cx.target.set_path(path, Moved::Otherwise);
        }
        if let Some(query) = change.query {
            cx.target.set_query(if query.is_empty() {
                QueryEdit::Removed
            } else {
                QueryEdit::Replaced(query)
            });
        }
        if let Some(host) = change.host {
            cx.target.set_host(host);
        }
        if !change.response.is_empty() {
            cx.remember(ForResponse(change.response));
        }
        if let Some(reason) = change.reason {
            cx.explain(format!("ext: {reason}"));
        }
        Verdict::Continue
    }

    fn respond(&self, cx: &mut RequestCx<'_>, response: answer::Response) -> Verdict {
        let said = response.reason.map_or_else(String::new, |reason| format!(": {reason}"));
        cx.explain(format!("ext: `{}` answers {}{said}", self.service, response.status));
        let mut reply = Reply::new(response.status);
        for (name, value) in &response.fields {
            write_field(&mut reply.fields, name.as_bytes(), value.as_bytes());
        }
        if !response.body.is_empty() {
            reply.body = ReplyBody::Bytes(response.body.into());
        }
        Verdict::Reply(Box::new(reply))
    }
}

const UNUSABLE: Fault = Fault {
    status: 503,
    ..Fault::new(
        FaultKind::DestinationUnavailable,
        "a service that this request needs gives no usable answer",
    )
};

impl Filter for Ext {
    fn name(&self) -> &'static str {
        "ext"
    }

    fn may_own_others(&self) -> bool {
        true
    }

    fn argument(&self) -> String {
        // The query may contain a secret.
        let path = self.path.split('?').next().unwrap_or_default();
        let mut words = vec![format!("{} {path}", self.service)];
        words.extend(self.max_body.map(|bytes| format!("bodies of {}", size_text(bytes as u64))));
        words.extend(match &self.fields {
            Seen::All => Some("all fields".to_owned()),
            Seen::NoCredentials => None,
            Seen::These(names) if names.is_empty() => Some("no fields".to_owned()),
            Seen::These(names) => Some(format!("fields {}", names.join(" "))),
        });
        words.push(format!("within {:?}", self.timeout));
        words.extend(self.passes.then(|| "passes on failure".to_owned()));
        words.join(", ")
    }

    fn hooks(&self) -> Hooks {
        Hooks::BOTH
    }

    fn guards(&self) -> bool {
        !self.passes
    }

    /// Whatever becomes of requests when there is no answer: the service may refuse any request.
    fn restricts(&self) -> bool {
        true
    }

    /// The service is told the name of the route.
    fn decides_by_route(&self) -> bool {
        true
    }

    /// It may: what a service says to a request that it has changed may be for that client alone.
    fn verifies(&self) -> bool {
        true
    }

    /// The service may name another host.
    fn moves(&self) -> Moves {
        Moves::Request
    }

    fn calls(&self) -> Vec<Arc<str>> {
        vec![self.service.clone()]
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        match self.max_body {
            // Nobody is asked: the request is told as one that goes on unchanged.
            _ if cx.facts.is_dry_run => Verdict::Continue,
            Some(most) if cx.has_body => Verdict::Wait(Job::Body(most)),
            Some(_) => self.ask(cx, question::Body::Whole(&[])),
            None => self.ask(cx, question::Body::NotSent),
        }
    }

    fn resume(&self, cx: &mut RequestCx<'_>, got: JobResult) -> Verdict {
        let fetched = match got {
            JobResult::Body(Some(body)) => return self.ask(cx, question::Body::Whole(&body)),
            JobResult::Body(None) => return self.ask(cx, question::Body::Stream),
            JobResult::NotAsked => return Verdict::Continue,
            JobResult::Fetched(Ok(fetched)) => fetched,
            JobResult::Fetched(Err(fault)) => {
                let status = if fault.status == 504 { 504 } else { 503 };
                return self.failed(cx, (status, fault.detail));
            }
            _ => return self.failed(cx, (503, "the filter was resumed with what it did not ask for")),
        };
        match answer::read(fetched.status, &fetched.body) {
            Ok(Answer::Continue(change)) => self.change(cx, *change),
            Ok(Answer::Respond(response)) => self.respond(cx, *response),
            Err(why) => self.failed(cx, (503, &why)),
        }
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        let Some(ForResponse(lines)) = cx.remembered::<ForResponse>() else { return };
        for (name, value) in lines.clone() {
            cx.fields.append(&name, value.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests;
