//! `tests:` what they name exists; then, once there is a plan, what becomes of their requests.
//!
//! The requests are asked of the finished plan with the code that serves exchanges
//! ([`thalweg_proxy::explain`]). A test that fails is an error like any other: nothing loads, and what runs goes on.

use super::{check_name, is_token};
use crate::diagnose::{Class, Problems, SpecError, suggest};
use crate::source::Span;
use crate::spec::{
    ExpectSpec, FileSpec, ListSpec, LongRequestSpec, OneOrMoreSpec, RequestSpec, RouteSpec, Spanned, TestSpec,
};
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use thalweg_proxy::Plan;
use thalweg_proxy::explain::{Question, Verdict, decide, explain, why_not};

/// Most tests of a configuration. Each costs about as much as a request.
const TESTS: usize = 10_000;
/// The word for no route.
const NONE: &str = "none";

/// Names that a test may refer to, and whether all that were written are among them.
pub(crate) struct Known<'a> {
    pub(crate) listeners: &'a [String],
    pub(crate) routes: BTreeSet<&'a str>,
    pub(crate) services: BTreeSet<&'a str>,
    /// Some routes could not be read: what is missing may be among them.
    pub(crate) incomplete: bool,
}

/// A test that can be asked.
pub(crate) struct Test<'a> {
    question: Question,
    spec: &'a TestSpec,
}

/// Reads the tests.
pub(crate) fn tests<'a>(
    specs: &'a ListSpec<TestSpec>,
    known: &Known<'_>,
    problems: &mut Problems,
) -> Vec<Test<'a>> {
    if let Some(beyond) = specs.items.get(TESTS) {
        let message = format!("there are more than {TESTS} tests");
        problems.push(SpecError::new(Class::Invalid, beyond.span, message));
        return Vec::new();
    }
    let mut tests = Vec::with_capacity(specs.items.len());
    for spec in &specs.items {
        if let Some(name) = &spec.name {
            check_name(name, name.span, problems);
        }
        expectation(&spec.expect, known, problems);
        let question = question(&spec.request, known, problems);
        tests.extend(question.map(|question| Test { question, spec: &spec.value }));
    }
    tests
}

fn question(request: &Spanned<RequestSpec>, known: &Known<'_>, problems: &mut Problems) -> Option<Question> {
    match &request.value {
        RequestSpec::Long(long) => long_question(long, known, problems),
        RequestSpec::Short(text) => match Question::from_line(text) {
            Ok(question) => Some(question),
            Err(error) => {
                let error = SpecError::value(request.span, "request", error.message).maybe_help(error.help);
                problems.push(error);
                None
            }
        },
    }
}

fn long_question(spec: &LongRequestSpec, known: &Known<'_>, problems: &mut Problems) -> Option<Question> {
    let mut from = None;
    if let Some(client) = &spec.client {
        match client.parse::<IpAddr>() {
            Ok(address) => from = Some(address),
            Err(_) => {
                let message = format!("`{}` is not an address", client.value);
                let error = SpecError::value(client.span, "address", message);
                problems.push(error.help("write for example `192.0.2.7` or `2001:db8::1`"));
                return None;
            }
        }
    }
    if let Some(listener) = &spec.listener
        && !known.listeners.contains(listener)
    {
        let names = known.listeners.iter().map(String::as_str);
        unknown(listener, ("listener", "listeners"), names, problems);
        return None;
    }
    for (name, _) in &spec.headers.0 {
        if !is_token(name) {
            let message = format!("`{}` is not the name of a header", name.value);
            problems.push(SpecError::new(Class::Invalid, name.span, message));
            return None;
        }
    }
    let headers = spec.headers.0.iter().map(|(name, value)| (name.value.clone(), value.value.clone()));
    Some(Question {
        method: spec.method.as_ref().map_or("GET", |method| method.value.as_str()).to_owned(),
        url: spec.url.value.clone(),
        headers: headers.collect(),
        from,
        listener: spec.listener.as_ref().map(|name| name.value.clone()),
    })
}

/// Whether what is expected can be: names exist, and nothing contradicts another.
fn expectation(spec: &Spanned<ExpectSpec>, known: &Known<'_>, problems: &mut Problems) {
    let ExpectSpec { route, service, upstream_path, status } = &spec.value;
    if spec.value == ExpectSpec::default() && !problems.has_error_in(spec.span) {
        let error = SpecError::new(Class::Invalid, spec.span, "the test expects nothing");
        problems.push(error.help("add at least one of `route`, `service`, `upstream_path` and `status`"));
    }
    if let Some(name) = route
        && name.value != NONE
        && !known.incomplete
        && !known.routes.contains(name.as_str())
    {
        unknown(name, ("route", "routes"), known.routes.iter().copied(), problems);
    }
    if let Some(name) = service
        && !known.incomplete
        && !known.services.contains(name.as_str())
    {
        unknown(name, ("service", "services"), known.services.iter().copied(), problems);
    }
    if let Some(path) = upstream_path
        && (!path.starts_with('/') || path.contains('?'))
    {
        let message = format!("`{}` is not a path", path.value);
        let error = SpecError::value(path.span, "path", message);
        problems.push(error.help("write the path alone, from its first `/`; the query goes on as it came"));
    }
    if let Some(status) = status {
        if !(100..=599).contains(&status.value) {
            let message = format!("`{}` is not a status", status.value);
            problems.push(SpecError::value(status.span, "status", message).help("write for example `404`"));
        }
        if let Some(other) = service.as_ref().or(upstream_path.as_ref()) {
            let message = "a request that the proxy answers itself goes to no service";
            let error = SpecError::new(Class::Invalid, status.span, message)
                .related(other.span, "this means that it is forwarded")
                .help("`status` is that of the proxy's own answer; remove one of the two");
            problems.push(error);
        }
    }
}

fn unknown<'a>(
    name: &Spanned<String>,
    (one, many): (&'static str, &str),
    known: impl Iterator<Item = &'a str>,
    problems: &mut Problems,
) {
    let known: Vec<&str> = known.collect();
    let error = SpecError::value(name.span, "name", format!("no {one} `{}`", name.value));
    problems.push(error.class(Class::Unknown).maybe_help(suggest(name, many, &known)));
}

/// Whether something of the test's name or request came from the environment: what becomes of it could show it.
fn comes_from_environment(spec: &TestSpec) -> bool {
    let request = match &spec.request.value {
        RequestSpec::Short(_) => false,
        RequestSpec::Long(long) => {
            let texts = long.method.iter().chain([&long.url]).chain(&long.client).chain(&long.listener);
            let mut all = texts.chain(long.headers.0.iter().map(|(_, value)| value));
            all.any(|text| text.span.filled)
        }
    };
    request || spec.request.span.filled || spec.name.as_ref().is_some_and(|name| name.span.filled)
}

/// Runs the tests on the plan.
pub(crate) fn run_tests(tests: &[Test<'_>], file: &FileSpec, plan: &Plan, problems: &mut Problems) {
    let routes = plan.routes.iter().enumerate().map(|(at, route)| (&*route.name, at)).collect();
    for test in tests {
        if problems.is_full() {
            return;
        }
        match decide(plan, &test.question) {
            Ok(verdict) => {
                let run = Run { test, file, plan, routes: &routes, verdict: &verdict };
                if let Some(error) = run.failure() {
                    problems.push(error);
                }
            }
            Err(error) => {
                let span = test.spec.request.span;
                problems.push(SpecError::value(span, "request", error.message).maybe_help(error.help));
            }
        }
    }
}

/// A test that was asked.
struct Run<'a> {
    test: &'a Test<'a>,
    file: &'a FileSpec,
    plan: &'a Plan,
    /// Positions of the plan's routes.
    routes: &'a HashMap<&'a str, usize>,
    verdict: &'a Verdict,
}

impl Run<'_> {
    /// The first expectation that does not hold.
    fn failure(&self) -> Option<SpecError> {
        let ExpectSpec { route, service, upstream_path, status } = &self.test.spec.expect.value;
        let failure = route.as_ref().and_then(|name| self.route(name));
        let failure = failure.or_else(|| status.as_ref().and_then(|status| self.status(status)));
        let failure = failure.or_else(|| service.as_ref().and_then(|name| self.service(name)));
        failure.or_else(|| upstream_path.as_ref().and_then(|path| self.path(path)))
    }

    fn error(&self, span: Span, expected: &str, instead: &str, help: Option<String>) -> SpecError {
        if span.filled || comes_from_environment(self.test.spec) {
            let message = "the test fails; what it holds from the environment is not shown";
            return SpecError::new(Class::Invalid, span, message);
        }
        let name = self.test.spec.name.as_ref().map(|name| format!(" `{}`", name.value)).unwrap_or_default();
        let error = SpecError::new(Class::Invalid, span, format!("the test{name} fails: {instead}"));
        error.label(format!("expected {expected}")).maybe_help(help)
    }

    fn route(&self, expected: &Spanned<String>) -> Option<SpecError> {
        let position = self.routes.get(expected.as_str()).copied();
        let taken = self.verdict.route.map(|id| id.0 as usize);
        if taken == position {
            return None;
        }
        let label = position.map_or("no route".to_owned(), |_| format!("`{}`", expected.value));
        let shown = position.filter(|position| !self.is_filled(*position));
        let reason = shown.and_then(|at| why_not(self.plan, &self.test.question, at).ok().flatten());
        let help = reason.map(|reason| format!("`{}` does not take it: {reason}", expected.value));
        Some(self.error(expected.span, &label, &self.instead(), help))
    }

    fn status(&self, expected: &Spanned<u64>) -> Option<SpecError> {
        let own = self.verdict.status().map(u64::from);
        let label = format!("the proxy's own answer {}", expected.value);
        (own != Some(expected.value)).then(|| self.error(expected.span, &label, &self.instead(), None))
    }

    fn service(&self, expected: &Spanned<String>) -> Option<SpecError> {
        let name = |position: u32| self.plan.services.get(position as usize).map(|service| &*service.name);
        let is_it = self.verdict.services.iter().any(|id| name(id.0) == Some(expected.value.as_str()));
        let label = format!("`{}`", expected.value);
        (!is_it).then(|| self.error(expected.span, &label, &self.instead(), None))
    }

    fn path(&self, expected: &Spanned<String>) -> Option<SpecError> {
        let label = format!("`{}`", expected.value);
        let (instead, help) = match &self.verdict.path {
            None => (self.instead(), None),
            Some(path) if *path == expected.value => return None,
            Some(path) => (format!("the path that goes upstream is `{path}`"), Some(self.steps())),
        };
        Some(self.error(expected.span, &label, &instead, help))
    }

    /// What the filters do to the path.
    fn steps(&self) -> String {
        let told = explain(self.plan, &self.test.question, false, None).ok();
        let filters = told.and_then(|told| told.route).map(|route| route.filters).unwrap_or_default();
        let steps = filters.iter().map(|step| match step.before == step.after {
            true => format!("`{}` changes nothing", step.name),
            false => format!("`{}` makes `{}` of `{}`", step.name, step.after, step.before),
        });
        let steps: Vec<_> = steps.collect();
        if steps.is_empty() { "the route has no filters".to_owned() } else { steps.join(", then ") }
    }

    /// What becomes of the request.
    fn instead(&self) -> String {
        let route = self.verdict.route.map(|id| self.name_of(id.0 as usize));
        if let Some(location) = &self.verdict.redirect {
            return format!("the client is sent to `{location}`");
        }
        if let (Some(status), Some(route)) = (self.verdict.reply, &route) {
            return format!("the route {route} takes the request, which a filter answers {status}");
        }
        match (self.verdict.fault, route) {
            (Some(fault), Some(route)) => {
                format!(
                    "the route {route} takes the request, which is answered {}: {}",
                    fault.status, fault.detail
                )
            }
            (Some(fault), None) => format!("the request is answered {}: {}", fault.status, fault.detail),
            (None, route) => {
                let services = self.verdict.services.iter().filter_map(|id| {
                    let service = self.plan.services.get(id.0 as usize)?;
                    Some(format!("`{}`", service.name))
                });
                let services = services.collect::<Vec<_>>().join(" or ");
                let route = route.unwrap_or_default();
                format!("the route {route} takes the request, which goes to {services}")
            }
        }
    }

    /// A route for messages; not by a name that came from the environment.
    fn name_of(&self, position: usize) -> String {
        let spec = self.file.routes.items.get(position);
        let filled = spec.and_then(|spec| spec.name.as_ref()).is_some_and(|name| name.span.filled);
        match self.plan.routes.get(position).filter(|_| !filled) {
            Some(route) => format!("`{}`", route.name),
            None => format!("{} in the file", position + 1),
        }
    }

    /// Whether a condition of the route came from the environment: then it is not shown.
    fn is_filled(&self, position: usize) -> bool {
        self.file.routes.items.get(position).is_some_and(|route| is_filled(route))
    }
}

fn is_filled(route: &RouteSpec) -> bool {
    let of = &route.r#match;
    let paths = of.path.iter().flat_map(|paths| &paths.value.items);
    let mut texts = paths.chain(&of.path_regex).chain(&of.methods.items).chain(&of.client.items);
    let mut fields = of.headers.0.iter().chain(&of.query.0);
    let hosts = of.host.clone().map(OneOrMoreSpec::list);
    texts.any(|text| text.span.filled)
        || hosts.iter().any(|hosts| hosts.items.iter().any(|host| host.span.filled))
        || fields.any(|(_, spec)| spec.span.filled || spec.value.is_filled())
}
