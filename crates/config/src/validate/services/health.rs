//! `health:` how endpoints are asked whether they are well.

use crate::diagnose::{Class, Problems, SpecError};
use crate::source::Span;
use crate::spec::{
    DurationSpec, HealthSpec, InitialHealthSpec, ListSpec, NamedSpec, ShortSpec, Spanned, StatusSpec,
};
use crate::validate::key::token;
use crate::validate::statuses::{FINAL, statuses};
use crate::validate::{cause, duration, is_token, number};
use regex::bytes::{Regex, RegexBuilder};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg_upstream::{Address, Check, Endpoint, HealthPolicy, Statuses};

/// Longest path of a check, in bytes.
const PATH: usize = 2048;
/// Largest compiled form of a regular expression, in bytes.
const REGEX_SIZE: usize = 1024 * 1024;
/// Longest name of a service of gRPC, in bytes.
const SERVICE: usize = 255;
/// Longest value of a field of a check, in bytes.
const VALUE: usize = 4096;
/// Fields that the check writes itself or that would change what follows.
const OWN_FIELDS: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
const MS: Duration = Duration::from_millis(1);

/// How the endpoints are asked.
pub(super) fn health(
    spec: Option<&Spanned<ShortSpec<HealthSpec>>>,
    endpoints: &[Endpoint],
    problems: &mut Problems,
) -> Option<Arc<HealthPolicy>> {
    let Spanned { span, value: spec } = spec?;
    let built_in = HealthPolicy::default();
    let times = Times::read(spec, &built_in, problems);
    let port = spec.port.as_ref();
    if let (Some(port), true) = (port, endpoints.iter().any(|e| matches!(e.address, Address::Unix(_)))) {
        let message = "`port` does not hold for endpoints on unix sockets: their own socket is asked";
        problems.push(SpecError::warning("health_port_ignored", port.span, message));
    }
    let port = number(port, 1, u16::MAX.into(), problems).and_then(|port| u16::try_from(port).ok());
    let count = |n: Option<&Spanned<u64>>, problems: &mut Problems| number(n, 1, 100, problems);
    Some(Arc::new(HealthPolicy {
        check: check(spec, (*span, endpoints), problems),
        port,
        interval: times.interval,
        interval_down: times.interval_down,
        timeout: times.timeout,
        unhealthy_after: count(spec.unhealthy_after.as_ref(), problems).unwrap_or(built_in.unhealthy_after),
        healthy_after: count(spec.healthy_after.as_ref(), problems).unwrap_or(built_in.healthy_after),
        starts_unhealthy: spec.initial == Some(InitialHealthSpec::Unhealthy),
    }))
}

struct Times {
    interval: Duration,
    interval_down: Option<Duration>,
    timeout: Duration,
}

impl Times {
    /// A check ends before the next one is due: what is known of an endpoint would otherwise be older
    /// than the interval says.
    fn read(spec: &HealthSpec, built_in: &HealthPolicy, problems: &mut Problems) -> Self {
        let hour = Duration::from_secs(3600);
        let interval =
            duration(spec.interval.as_ref(), 100 * MS, hour, problems).unwrap_or(built_in.interval);
        let interval_down = duration(spec.interval_down.as_ref(), 100 * MS, hour, problems);
        let shorter = interval_down.map_or(interval, |down| down.min(interval));
        let minute = Duration::from_secs(60);
        let timeout = duration(spec.timeout.as_ref(), 10 * MS, minute, problems);
        if let (Some(written), Some(timeout)) = (&spec.timeout, timeout)
            && timeout > shorter
        {
            problems.push(too_long(written, shorter, spec));
        }
        Self { interval, interval_down, timeout: timeout.unwrap_or(built_in.timeout.min(shorter)) }
    }
}

fn too_long(timeout: &Spanned<DurationSpec>, shorter: Duration, spec: &HealthSpec) -> SpecError {
    let message = "a check must end before the next one is due";
    let error = SpecError::new(Class::Invalid, timeout.span, message)
        .help("write a shorter `timeout` or a longer interval, which is 5s where none is written");
    let written = [&spec.interval, &spec.interval_down].into_iter().flatten().find(|i| i.value.0 == shorter);
    match written {
        Some(interval) => error.related(interval.span, "the interval"),
        None => error,
    }
}

fn check(spec: &HealthSpec, (span, endpoints): (Span, &[Endpoint]), problems: &mut Problems) -> Check {
    let http = [
        ("path", spec.path.as_ref().map(|path| path.span)),
        ("method", spec.method.as_ref().map(|method| method.span)),
        ("headers", spec.headers.0.first().map(|(name, _)| name.span)),
        ("expect", spec.expect.as_ref().map(|expect| expect.span)),
        ("body", spec.body.as_ref().map(|body| body.span)),
    ];
    let mut http = http.into_iter().filter_map(|(name, span)| Some((name, span?)));
    if endpoints.iter().any(Endpoint::takes_datagrams) {
        let asks =
            spec.path.is_some() || spec.grpc.is_some() || spec.tcp.as_ref().is_some_and(|tcp| tcp.value);
        if (!asks || spec.port.is_none()) && !problems.has_error_in(span) {
            let message = "no check asks through `udp://`: it has to go elsewhere";
            let error = SpecError::new(Class::Invalid, span, message).help(
                "write `port` with `path` or `tcp: true`, as in `{ tcp: true, port: 53 }` for DNS, or remove it: an endpoint that refuses datagrams is ejected anyway",
            );
            problems.push(error);
        }
    }
    if let Some(grpc) = &spec.grpc {
        let tcp = spec.tcp.as_ref().filter(|tcp| tcp.value).map(|tcp| ("tcp", tcp.span));
        if let Some((name, other)) = http.next().or(tcp) {
            let error = SpecError::new(Class::Invalid, other, format!("a gRPC check has no `{name}`"))
                .related(grpc.span, "it calls `grpc.health.v1.Health/Check`")
                .help("remove one of them");
            problems.push(error);
        }
        return Check::Grpc { service: grpc_service(grpc.value.service.as_ref(), problems) };
    }
    if let Some(tcp) = spec.tcp.as_ref().filter(|tcp| tcp.value) {
        if let Some((name, other)) = http.next() {
            let error = SpecError::new(Class::Invalid, other, format!("a TCP check has no `{name}`"))
                .related(tcp.span, "it only connects")
                .help("remove `tcp` for an HTTP check");
            problems.push(error);
        }
        return Check::Tcp;
    }
    if http.next().is_none() {
        if !endpoints.is_empty() && endpoints.iter().all(Endpoint::takes_connections) {
            return Check::Tcp;
        }
        if !problems.has_error_in(span) {
            let error = SpecError::new(Class::Invalid, span, "this health check has no kind")
                .help("write `path: /healthz` for an HTTP request, `grpc: {}` for `grpc.health.v1`, or `tcp: true` to connect only");
            problems.push(error);
        }
        return Check::Tcp;
    }
    let method = spec.method.as_ref();
    Check::Http {
        path: path(spec.path.as_ref(), problems),
        method: method.map_or_else(|| Arc::from("GET"), |method| self::method(method, problems)),
        headers: headers(&spec.headers, problems),
        expect: match &spec.expect {
            Some(list) => expected(list, problems),
            None => Statuses::new(vec![200..=399]),
        },
        body: spec.body.as_ref().and_then(|text| body(text, method, problems)),
    }
}

/// The service that is asked for; empty for none.
fn grpc_service(service: Option<&Spanned<String>>, problems: &mut Problems) -> Arc<str> {
    let Some(service) = service else { return Arc::from("") };
    let fits = |part: &str| {
        let is_word = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_word && part.bytes().next().is_some_and(|first| !first.is_ascii_digit())
    };
    if service.len() > SERVICE || !service.split('.').all(fits) {
        let message = format!("`{}` is not the name of a service", service.value);
        let error = SpecError::value(service.span, "service", message)
            .help("write its full name, for example `shop.Cart`, or nothing for the server as a whole");
        problems.push(error);
    }
    Arc::from(service.as_str())
}

fn expected(list: &Spanned<ListSpec<StatusSpec>>, problems: &mut Problems) -> Statuses {
    if list.value.written == 0 {
        let error = SpecError::new(Class::Invalid, list.span, "an empty list matches no status")
            .help("remove `expect` for 200 to 399");
        problems.push(error);
    }
    statuses(&list.value, &FINAL, problems)
}

fn path(path: Option<&Spanned<String>>, problems: &mut Problems) -> Arc<str> {
    let Some(path) = path else { return Arc::from("/") };
    let fits = path.starts_with('/') && path.len() <= PATH;
    if !fits || !path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        let message = format!("`{}` is not a path", path.value);
        let error = SpecError::value(path.span, "path", message)
            .help("write for example `/healthz`; other characters are written as `%XX`");
        problems.push(error);
    }
    Arc::from(path.as_str())
}

fn method(method: &Spanned<String>, problems: &mut Problems) -> Arc<str> {
    let upper = method.to_ascii_uppercase();
    if !is_token(method) || upper == "CONNECT" {
        let message = format!("`{}` is not a method that a check can use", method.value);
        problems
            .push(SpecError::value(method.span, "method", message).help("write for example `GET` or `HEAD`"));
    } else if upper != method.value {
        let error = SpecError::value(method.span, "method", "methods are case-sensitive")
            .help(format!("write `{upper}`"));
        problems.push(error);
    }
    Arc::from(method.as_str())
}

fn headers(specs: &NamedSpec<Spanned<String>>, problems: &mut Problems) -> Vec<(Arc<str>, Arc<str>)> {
    let mut seen: HashMap<String, Span> = HashMap::new();
    for (name, value) in &specs.0 {
        let lower = name.to_ascii_lowercase();
        if token(name, "header", problems) && OWN_FIELDS.contains(&lower.as_str()) {
            let message = format!("the check sets `{lower}` itself");
            problems.push(SpecError::new(Class::Invalid, name.span, message));
        }
        if let Some(first) = seen.insert(lower, name.span) {
            let error = SpecError::new(Class::Invalid, name.span, "this header is written twice")
                .label("names are compared without case")
                .related(first, "first here");
            problems.push(error);
        }
        let text = value.trim_matches([' ', '\t']);
        if value.len() > VALUE
            || text.len() != value.len()
            || value.chars().any(|c| c != '\t' && c.is_control())
        {
            let message = "the value of a header has no control characters and no spaces around it";
            problems.push(SpecError::value(value.span, "value of a header", message));
        }
    }
    let pair = |(name, value): &(Spanned<String>, Spanned<String>)| {
        (Arc::from(name.as_str()), Arc::from(value.as_str()))
    };
    specs.0.iter().map(pair).collect()
}

fn body(text: &Spanned<String>, method: Option<&Spanned<String>>, problems: &mut Problems) -> Option<Regex> {
    if let Some(method) = method.filter(|method| method.value == "HEAD") {
        let error = SpecError::new(Class::Invalid, text.span, "a response to `HEAD` has no body")
            .related(method.span, "the method is here")
            .help("write `method: GET`, or remove `body`");
        problems.push(error);
    }
    match RegexBuilder::new(text).size_limit(REGEX_SIZE).dfa_size_limit(REGEX_SIZE).build() {
        Ok(regex) => Some(regex),
        Err(error) => {
            let message = cause(&error.to_string()).to_owned();
            problems.push(SpecError::value(text.span, "regular expression", message));
            None
        }
    }
}
