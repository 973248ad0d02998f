//! `routes:` matches, filters and targets.

use super::canary::canary;
use super::chains::{Chains, FilterPlace};
use super::limits::Bounds;
use super::sealed::check_hosts;
use super::services::Deadlines;
use super::targets::{Target, target};
use super::{cause, check_name, is_token, network};
use crate::diagnose::{Class, Problems, SpecError, nearest, suggest};
use crate::source::Span;
use crate::spec::{
    EncodedSpec, FieldSpec, ListSpec, MatchSpec, NamedSpec, OneOrMoreSpec, RouteSpec, Spanned,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use thalweg_filter::Step;
use thalweg_proxy::plan::{CanaryPolicy, Escapes};
use thalweg_route::{FieldMatch, HostPattern, PathPattern, Regex, RouteMatch, ValueMatch};

/// Methods that people write in the wrong case.
const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"];

/// The names that routes refer to and those that they have.
pub(crate) struct Names<'a> {
    /// Positions of the listeners in the plan.
    pub(crate) listeners: HashMap<&'a str, u16>,
    /// Those of them that take connections, and no requests.
    pub(crate) connections: HashSet<u16>,
    /// Positions of the services in the plan.
    pub(crate) services: HashMap<&'a str, u32>,
    /// Every listener that is written, wrong ones included.
    pub(crate) written_listeners: &'a [String],
    /// Every service that is written, wrong ones included.
    pub(crate) written_services: &'a [String],
    /// Where these listeners are written.
    pub(crate) listener_places: &'a [Span],
    /// Where these services are written.
    pub(crate) service_places: &'a [Span],
    /// Names of routes that are written.
    pub(crate) routes: HashMap<String, Span>,
}

/// A checked route.
pub(crate) struct Checked<'a> {
    pub(crate) matches: RouteMatch,
    pub(crate) filters: Vec<Step>,
    pub(crate) filter_places: Vec<FilterPlace>,
    pub(crate) target: Target<'a>,
    pub(crate) canary: Option<Box<CanaryPolicy>>,
    pub(crate) deadlines: Deadlines,
    pub(crate) bounds: Bounds,
}

impl Names<'_> {
    /// Collects the names that routes are given; the same name twice is an error.
    pub(crate) fn take_route_names(&mut self, routes: &ListSpec<RouteSpec>, problems: &mut Problems) {
        for name in routes.items.iter().filter_map(|route| route.name.as_ref()) {
            check_name(name, name.span, problems);
            if let Some(first) = self.routes.get(&name.value) {
                let message = format!("two routes are named `{}`", name.value);
                let error = SpecError::value(name.span, "name", message)
                    .label("again here")
                    .related(*first, "first here");
                problems.push(error);
            } else {
                self.routes.insert(name.value.clone(), name.span);
            }
        }
    }

    /// The route's own name, or one made from its position.
    pub(crate) fn of_route(&self, spec: &RouteSpec, position: usize) -> Arc<str> {
        if let Some(name) = &spec.name {
            return name.value.as_str().into();
        }
        let mut name = format!("route {}", position + 1);
        while self.routes.contains_key(&name) {
            name.push('\'');
        }
        name.into()
    }
}

/// Checks one route.
pub(crate) fn route<'a>(
    spec: &'a Spanned<RouteSpec>,
    names: &Names<'_>,
    chains: &Chains<'a>,
    problems: &mut Problems,
) -> Checked<'a> {
    let mut matches = matches(&spec.r#match, problems);
    matches.listeners = listeners(&spec.listeners, names, problems);
    let (filters, filter_places) = chains.filters(&spec.filters, problems);
    check_captures(&matches, &filters, &filter_places, problems);
    let deadlines = Deadlines::read(&spec.timeouts, false, problems);
    let bounds = Bounds::read(&spec.limits, problems);
    let target = match &spec.to {
        Some(to) => target(to, names, problems),
        None => {
            let is_read = chains.is_whole(&spec.filters) && filters.len() == filter_places.len();
            if is_read && !problems.is_within(spec.span) {
                check_answers(spec, &filters, problems);
            }
            Target::Nowhere
        }
    };
    if let Target::Sealed(sealed, _) = target {
        let written = spec.r#match.host.clone().map(OneOrMoreSpec::list);
        let hosts = written.iter().flat_map(|list| &list.items).map(|host| host.value.as_str());
        check_hosts(sealed, hosts, problems);
    }
    let canary = spec.canary.as_ref().and_then(|spec| canary(spec, &target, names, problems));
    Checked { matches, filters, filter_places, target, canary, deadlines, bounds }
}

/// Where a route says nothing of where its requests go, none of them may. Not to be called after another mistake: what
/// was to say it may have been left out for that one.
fn check_answers(spec: &Spanned<RouteSpec>, filters: &[Step], problems: &mut Problems) {
    if let Some(canary) = &spec.canary {
        let error = SpecError::new(Class::Invalid, canary.span, "a canary moves requests between services")
            .help("write both in `to`: `[ { service: a, weight: 100 }, { service: a-next, weight: 0 } ]`");
        problems.push(error);
    } else if !filters.iter().any(Step::answers) {
        let error = SpecError::new(Class::Invalid, spec.span, "the key `to` is missing").help(
            "name a service or list URLs; a route needs no `to` where a filter without `when` answers every request: \
             `redirect`, `respond`, or `files` without `fall_through`",
        );
        problems.push(error);
    }
}

/// Placeholders such as `{path.id}` name parameters of the route's paths.
fn check_captures(matches: &RouteMatch, filters: &[Step], places: &[FilterPlace], problems: &mut Problems) {
    for (step, place) in filters.iter().zip(places) {
        for name in step.filter.captures() {
            let is_known = matches.paths().flatten().any(|pattern| pattern.has_capture(&name));
            if !is_known {
                let message = format!("`{{path.{name}}}`: the route's path has no parameter `{name}`");
                let error = SpecError::value(place.span, "filter", message)
                    .help("name one in `match.path`, as in `/users/{id}`, or use its number: `{path.1}`");
                problems.push(error);
            }
        }
    }
}

/// What the paths of a route's requests may have encoded.
pub(crate) fn encoded(list: &ListSpec<EncodedSpec>) -> Escapes {
    let all = list.items.iter().map(|item| match item.value {
        EncodedSpec::Slash => Escapes::SLASH,
        EncodedSpec::Control => Escapes::CONTROL,
        EncodedSpec::Backslash => Escapes::BACKSLASH,
        EncodedSpec::DoubleSlash => Escapes::DOUBLE_SLASH,
        EncodedSpec::Semicolon => Escapes::SEMICOLON,
    });
    all.fold(Escapes::NONE, Escapes::union)
}

fn listeners(list: &ListSpec<String>, names: &Names<'_>, problems: &mut Problems) -> Vec<u16> {
    let mut positions = Vec::new();
    for name in &list.items {
        if let Some(position) = names.listeners.get(name.value.as_str()) {
            positions.push(*position);
            if names.connections.contains(position) {
                let message = format!("the listener `{}` takes connections, and no requests", name.value);
                let error = SpecError::new(Class::Invalid, name.span, message)
                    .help("where they go is written at the listener; remove it here");
                problems.push(error);
            }
        } else if !problems.is_full() && !names.written_listeners.contains(&name.value) {
            let known: Vec<&str> = names.written_listeners.iter().map(String::as_str).collect();
            let error = SpecError::value(name.span, "listener name", format!("no listener `{}`", name.value))
                .class(Class::Unknown)
                .maybe_help(suggest(name, "listeners", &known));
            let error = show_nearest(error, name, &known, names.listener_places);
            problems.push(error);
        }
    }
    positions
}

/// Marks the definition that a name was probably meant to be: the typo may be there.
pub(super) fn show_nearest(error: SpecError, name: &str, known: &[&str], places: &[Span]) -> SpecError {
    let near = nearest(name, known.iter().copied());
    let at = near.and_then(|near| known.iter().position(|known| *known == near));
    match at.and_then(|at| places.get(at)) {
        Some(place) => error.related(*place, "this one is near"),
        None => error,
    }
}

fn matches(spec: &MatchSpec, problems: &mut Problems) -> RouteMatch {
    let mut hosts = Vec::new();
    if let Some(written) = &spec.host {
        let list = OneOrMoreSpec::list(written.clone());
        if list.written == 0 {
            let error = SpecError::new(Class::Invalid, written.span, "an empty list matches no host")
                .help("remove `host` to match every host");
            problems.push(error);
        }
        for host in &list.items {
            match HostPattern::parse(host) {
                Ok(pattern) => hosts.push(pattern),
                Err(message) => problems.push(SpecError::value(host.span, "host", message)),
            }
        }
    }
    let mut paths = paths(spec, problems).into_iter();
    RouteMatch {
        hosts,
        path: paths.next(),
        more_paths: paths.collect(),
        methods: methods(&spec.methods, problems),
        headers: fields(&spec.headers, true, problems),
        query: fields(&spec.query, false, problems),
        clients: spec.client.items.iter().filter_map(|text| network(text, problems)).collect(),
        listeners: Vec::new(),
    }
}

fn paths(spec: &MatchSpec, problems: &mut Problems) -> Vec<PathPattern> {
    if let (Some(path), Some(regex)) = (&spec.path, &spec.path_regex) {
        let error =
            SpecError::new(Class::Invalid, regex.span, "a route has `path` or `path_regex`, not both")
                .related(path.span, "the other one is here");
        problems.push(error);
    }
    if let Some(regex) = spec.path_regex.as_ref().filter(|_| spec.path.is_none()) {
        let parsed = PathPattern::regex(regex).map_err(|e| cause(&e).to_owned());
        let refuse = |message| problems.push(SpecError::value(regex.span, "regular expression", message));
        return parsed.map_err(refuse).into_iter().collect();
    }
    let Some(written) = &spec.path else { return Vec::new() };
    if written.value.written == 0 {
        let error = SpecError::new(Class::Invalid, written.span, "an empty list matches no path");
        problems.push(error.help("remove `path` to match every path"));
    }
    let mut seen: HashMap<&str, Span> = HashMap::new();
    let mut paths = Vec::new();
    for text in &written.value.items {
        if let Some(first) = seen.insert(text, text.span) {
            let error =
                SpecError::value(text.span, "path", "this path is listed twice").related(first, "first here");
            problems.push(error.help("remove one of the two"));
            continue;
        }
        match PathPattern::parse(text) {
            Ok(pattern) => paths.push(pattern),
            Err(message) => problems.push(SpecError::value(text.span, "path", message)),
        }
    }
    paths
}

fn methods(list: &ListSpec<String>, problems: &mut Problems) -> Vec<String> {
    let mut seen = HashSet::new();
    for method in &list.items {
        if !is_token(method) {
            let message = match method.as_str() {
                "" => "a method must not be empty".to_owned(),
                text => format!("`{text}` is not a method"),
            };
            problems.push(SpecError::value(method.span, "method", message).help("write for example `GET`"));
        } else if METHODS.contains(&method.to_ascii_uppercase().as_str())
            && !METHODS.contains(&method.as_str())
        {
            let upper = method.to_ascii_uppercase();
            let message = "methods are case-sensitive";
            problems.push(SpecError::value(method.span, "method", message).help(format!("write `{upper}`")));
        } else {
            seen.insert(method.value.clone());
        }
    }
    let mut methods: Vec<String> = seen.into_iter().collect();
    methods.sort_unstable();
    methods
}

fn fields(specs: &NamedSpec<Spanned<FieldSpec>>, headers: bool, problems: &mut Problems) -> Vec<FieldMatch> {
    let mut fields = Vec::new();
    let mut seen: HashMap<String, Span> = HashMap::new();
    for (name, spec) in &specs.0 {
        if headers {
            header_name(name, &mut seen, problems);
        }
        let value = match &spec.value {
            FieldSpec::Exact(text) => ValueMatch::Exact(text.clone()),
            FieldSpec::Prefix(text) => ValueMatch::Prefix(text.value.clone()),
            FieldSpec::Suffix(text) => ValueMatch::Suffix(text.value.clone()),
            FieldSpec::Contains(text) => ValueMatch::Contains(text.value.clone()),
            FieldSpec::Present(true) => ValueMatch::Present,
            FieldSpec::Present(false) => ValueMatch::Absent,
            FieldSpec::Regex(text) => match Regex::parse(text) {
                Ok(regex) => ValueMatch::Regex(regex),
                Err(message) => {
                    let message = cause(&message).to_owned();
                    problems.push(SpecError::value(text.span, "regular expression", message));
                    continue;
                }
            },
        };
        fields.push(FieldMatch { name: name.value.clone(), value });
    }
    fields
}

fn header_name(name: &Spanned<String>, seen: &mut HashMap<String, Span>, problems: &mut Problems) {
    if !is_token(name) {
        let message = format!("`{}` is not the name of a header", name.value);
        problems.push(SpecError::new(Class::Invalid, name.span, message));
    }
    let lower = name.to_ascii_lowercase();
    if lower == "host" {
        let error =
            SpecError::new(Class::Invalid, name.span, "the host is matched by `host`, not by a header")
                .help("write `host: …` under `match`");
        problems.push(error);
    }
    if let Some(first) = seen.insert(lower, name.span) {
        let error = SpecError::new(Class::Invalid, name.span, "this header is written twice")
            .label("names are compared without case")
            .related(first, "first here");
        problems.push(error);
    }
}
