//! What the tests of filters need: a request with its response, without a proxy.

use crate::{
    Call, Chain, ConfigFiles, EndCx, Facts, Fetched, FieldView, Filter, FilterStates, HeadFields, Job,
    JobResult, NoConnection, RequestCx, RequestOutcome, ResponseCx, ResponseOutcome, Step, Subrequest,
    TargetEdit, Verdict, Work,
};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_core::Fault;
use thalweg_http::{Doubts, FieldSet, HeadLimits, PathReadings, ResponseHead, Version, write_readings};

/// Files beside a configuration in this directory.
pub(crate) struct Beside(pub(crate) PathBuf);

impl ConfigFiles for Beside {
    fn path(&self, written: &str) -> PathBuf {
        self.0.join(written)
    }

    fn read(&self, written: &str, limit: usize) -> Result<Vec<u8>, String> {
        let bytes = std::fs::read(self.path(written)).map_err(|error| error.to_string())?;
        if bytes.len() > limit { Err("it is too large".into()) } else { Ok(bytes) }
    }

    fn variable(&self, _name: &str) -> Option<String> {
        None
    }
}

/// The facts of a GET of this path.
pub(crate) fn facts(path: &str) -> Facts<'_> {
    Facts {
        method: b"GET",
        scheme: "https",
        host: b"shop.test",
        port: 443,
        path: path.as_bytes(),
        readings: None,
        query: None,
        client_ip: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        request_id: thalweg_core::RequestId::given(b"id-1"),
        peer: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        is_trusted: false,
        listener: "web",
        route: "r",
        service: "s",
        version: Version::Http11,
        patterns: &[],
        now: Instant::now(),
        unix_seconds: 1_795_521_600,
        connection: &NoConnection,
        is_dry_run: false,
    }
}

/// A Spec as it is written, in JSON.
pub(crate) fn built<T: serde::de::DeserializeOwned>(json: &str) -> T {
    serde_json::from_str(json).unwrap()
}

/// A request, and what its filters made of it.
pub(crate) struct Asked {
    /// Of the request.
    pub(crate) method: &'static str,
    pub(crate) scheme: &'static str,
    path: String,
    /// Constructs in the path that the route declares to be read as the matched form.
    pub(crate) settled: Doubts,
    pub(crate) query: Option<String>,
    /// Lines of the request.
    pub(crate) fields: Vec<u8>,
    pub(crate) target: TargetEdit,
    states: FilterStates,
    pub(crate) outcome: RequestOutcome,
    /// What the request declares.
    pub(crate) content_length: Option<u64>,
    /// Lines of the response.
    pub(crate) response: Vec<u8>,
    pub(crate) status: u16,
    pub(crate) is_upstream: bool,
    pub(crate) fault: Option<Fault>,
    pub(crate) tells_details: bool,
    /// Of the response, where it is known.
    pub(crate) response_length: Option<u64>,
    pub(crate) is_dry_run: bool,
    /// When the request arrives, where that is not when it is sent.
    pub(crate) now: Option<Instant>,
    pub(crate) client_ip: IpAddr,
    /// The host that the service was asked for.
    pub(crate) upstream_host: String,
}

impl Asked {
    /// A GET.
    pub(crate) fn at(path: &str) -> Self {
        let mut target = TargetEdit::default();
        target.begin(path.as_bytes());
        Self {
            method: "GET",
            scheme: "https",
            path: path.to_owned(),
            settled: Doubts::NONE,
            query: None,
            fields: Vec::new(),
            target,
            states: FilterStates::default(),
            outcome: RequestOutcome::default(),
            content_length: None,
            response: Vec::new(),
            status: 200,
            is_upstream: true,
            fault: None,
            tells_details: true,
            response_length: None,
            is_dry_run: false,
            now: None,
            client_ip: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
            upstream_host: "shop.test".to_owned(),
        }
    }

    /// Adds a field of the request.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        self
    }

    /// The filter is called with the request.
    pub(crate) fn send(&mut self, filter: &dyn Filter) -> Verdict {
        self.call(|cx| filter.on_request(cx))
    }

    /// The same, and again with what it has waited for, until it does not wait; in a dry run it gets nothing.
    pub(crate) fn send_through(&mut self, filter: &dyn Filter) -> Verdict {
        let mut verdict = self.send(filter);
        while let Verdict::Wait(job) = verdict {
            let got = match job {
                _ if self.is_dry_run => JobResult::NotAsked,
                Job::Call(Call { work: Work::Blocking(work), .. }) => JobResult::Called(Ok(work())),
                Job::Sleep(_) => JobResult::Slept,
                other => panic!("{other:?} needs a proxy"),
            };
            verdict = self.call(|cx| filter.resume(cx, got));
        }
        verdict
    }

    /// Something is done with the request.
    pub(crate) fn call<T>(&mut self, call: impl FnOnce(&mut RequestCx<'_>) -> T) -> T {
        let mut known = FieldSet::default();
        let query = self.query.as_deref().map(str::as_bytes);
        let mut written = Vec::new();
        let matched = write_readings(self.path.as_bytes(), &mut written);
        let facts = Facts {
            method: self.method.as_bytes(),
            scheme: self.scheme,
            readings: matched.map(|matched| PathReadings::new(&written, matched).settle(self.settled)),
            query,
            is_dry_run: self.is_dry_run,
            now: self.now.unwrap_or_else(Instant::now),
            client_ip: self.client_ip,
            peer: self.client_ip,
            ..facts(&self.path)
        };
        let fields = HeadFields::new(&mut [], &[], (&mut self.fields, 0), &mut known);
        let lent = (&mut self.states, &mut self.outcome);
        let mut cx = RequestCx::new(facts, (&mut self.target, fields), lent, (true, self.content_length));
        call(&mut cx)
    }

    /// The filter is called with the response.
    pub(crate) fn answer(&mut self, filter: &dyn Filter) -> ResponseOutcome {
        self.answer_by(|cx| filter.on_response(cx))
    }

    /// Something is done with the response, which can wait.
    pub(crate) fn answer_by(&mut self, call: impl FnOnce(&mut ResponseCx<'_>)) -> ResponseOutcome {
        let mut known = FieldSet::default();
        let query = self.query.as_deref().map(str::as_bytes);
        let facts = Facts { method: self.method.as_bytes(), scheme: self.scheme, query, ..facts(&self.path) };
        let fields = HeadFields::new(&mut [], &[], (&mut self.response, 0), &mut known);
        let request = [b"HTTP/1.1 200 OK\r\n", &self.fields[..], b"\r\n"].concat();
        let mut head = ResponseHead::new();
        head.parse(&request, &HeadLimits::default()).unwrap();
        let request = FieldView::new(&head.fields, &request, &[]);
        let mut cx = ResponseCx::new(facts, request, fields, &mut self.states);
        cx.status = self.status;
        cx.is_upstream = self.is_upstream;
        (cx.fault, cx.tells_details) = (self.fault, self.tells_details);
        cx.content_length = self.response_length;
        cx.upstream_host = self.upstream_host.as_bytes();
        cx.has_body = self.method != "HEAD";
        cx.target = Some(&self.target);
        cx.can_wait = true;
        call(&mut cx);
        cx.into_outcome()
    }

    /// The exchange is over, with these bytes of its bodies.
    pub(crate) fn end(&mut self, filter: &dyn Filter, bytes: (u64, u64)) {
        filter.on_end(&mut EndCx::new(bytes, self.status, Instant::now(), &self.states));
    }

    /// What filters have said of the line in the access log.
    pub(crate) fn log(&self) -> &crate::LogEdit {
        self.states.log().unwrap()
    }

    /// The path that goes upstream.
    pub(crate) fn path(&self) -> String {
        String::from_utf8_lossy(self.target.path()).into_owned()
    }

    /// Lines of the request, as text.
    pub(crate) fn request_lines(&self) -> String {
        String::from_utf8_lossy(&self.fields).into_owned()
    }

    /// Lines of the response, as text.
    pub(crate) fn response_lines(&self) -> String {
        String::from_utf8_lossy(&self.response).into_owned()
    }
}

/// Writes its name into a field, and replies where the path says so.
#[derive(Debug)]
struct Marks(&'static str);

impl Filter for Marks {
    fn name(&self) -> &'static str {
        "marks"
    }

    fn argument(&self) -> String {
        self.0.into()
    }

    fn hooks(&self) -> crate::Hooks {
        crate::Hooks::BOTH
    }

    fn on_request(&self, cx: &mut RequestCx<'_>) -> Verdict {
        cx.fields.append("seen", self.0.as_bytes());
        cx.remember(self.0);
        match cx.facts.path.ends_with(self.0.as_bytes()) {
            true => Verdict::Reply(Box::new(crate::Reply::new(204))),
            false => Verdict::Continue,
        }
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        let own = *cx.remembered::<&str>().unwrap_or(&"-");
        cx.fields.append("answered", own.as_bytes());
    }
}

#[test]
fn a_chain_calls_requests_forward_and_responses_backward_and_each_remembers_its_own() {
    let chain = Chain::new(["one", "two", "three"].map(|name| Step::always(Arc::new(Marks(name)))).to_vec());
    let mut asked = Asked::at("/two");
    let mut known = FieldSet::default();
    let mut called = Vec::new();
    let facts = facts("/two");
    {
        let fields = HeadFields::new(&mut [], &[], (&mut asked.fields, 0), &mut known);
        let lent = (&mut asked.states, &mut asked.outcome);
        let mut cx = RequestCx::new(facts, (&mut asked.target, fields), lent, (false, None));
        let (at, verdict) = chain.on_request(0, &mut cx, &mut |at, _| called.push(at));
        assert!(at == 1 && matches!(verdict, Verdict::Reply(_)));
    }
    assert_eq!(called, [0, 1]);
    let fields = HeadFields::new(&mut [], &[], (&mut asked.response, 0), &mut known);
    let request = FieldView::new(&[], &[], &asked.fields);
    let mut cx = ResponseCx::new(facts, request, fields, &mut asked.states);
    chain.on_response(&mut cx, &mut |_, _| {});
    assert_eq!(asked.request_lines(), "seen: one\r\nseen: two\r\n");
    assert_eq!(asked.response_lines(), "answered: -\r\nanswered: two\r\nanswered: one\r\n");
}

/// Has the response wait, and writes what came of it.
#[derive(Debug)]
struct Asks;

impl Filter for Asks {
    fn name(&self) -> &'static str {
        "asks"
    }

    fn argument(&self) -> String {
        String::new()
    }

    fn hooks(&self) -> crate::Hooks {
        crate::Hooks::RESPONSE
    }

    fn on_response(&self, cx: &mut ResponseCx<'_>) {
        cx.wait(Subrequest {
            service: "judge".into(),
            method: b"GET".to_vec(),
            host: b"judge".to_vec(),
            target: b"/".to_vec(),
            fields: Vec::new(),
            body: Vec::new(),
            max_response: 1024,
            timeout: Duration::from_secs(1),
        });
    }

    fn resume_response(&self, cx: &mut ResponseCx<'_>, got: Result<Fetched, Fault>) {
        cx.fields.append("got", got.map_or("none", |_| "one").as_bytes());
    }
}

#[test]
fn a_response_that_waits_goes_on_with_the_filter_for_which_it_has_waited() {
    let marks = |name| Step::always(Arc::new(Marks(name)));
    let chain = Chain::new(vec![marks("one"), Step::always(Arc::new(Asks)), marks("three")]);
    let mut asked = Asked::at("/");
    let mut outcome = asked.answer_by(|cx| chain.on_response(cx, &mut |_, _| {}));
    assert_eq!(asked.response_lines(), "answered: -\r\n");
    let (at, request) = outcome.waits.take().unwrap();
    assert_eq!((at, &*request.service), (1, "judge"));
    let outcome = asked.answer_by(|cx| chain.resume_response(at, cx, Ok(Fetched::default()), &mut |_, _| {}));
    assert!(outcome.waits.is_none());
    assert_eq!(asked.response_lines(), "answered: -\r\ngot: one\r\nanswered: -\r\n");
}
