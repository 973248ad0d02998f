//! Redirects by which clients go in circles: the places that a route sends them to lead back to it.
//!
//! A few requests that the route takes are followed as a browser would, without headers and from this machine. A host
//! that no route names may be served elsewhere, and so may a port or scheme on which nobody here listens: there it
//! ends.

use super::Subject;
use crate::diagnose::{Problems, SpecError};
use thalweg_core::FaultKind;
use thalweg_proxy::explain::{Outcome, Question, explain};
use thalweg_proxy::plan::{ListenerProtocol, Plan};
use thalweg_route::{HostPattern, PathPattern, RouteMatch, Segment};

/// Redirects that are followed.
const HOPS: usize = 6;
/// The host of a request where the route takes any.
const SOME_HOST: &str = "some-host.example";

pub(super) fn redirect_to_itself(subject: &Subject<'_>, problems: &mut Problems) {
    let written = subject.spec.routes.items.iter();
    for (spec, (route, matches)) in written.zip(subject.plan.routes.iter().zip(subject.matches)) {
        let redirects = route.filters.steps().iter().any(|step| step.name() == "redirect");
        let is_plain = matches.headers.is_empty() && matches.query.is_empty() && matches.clients.is_empty();
        if !redirects || !is_plain {
            continue;
        }
        let method = matches.methods.first().map_or("GET", String::as_str);
        let mut circles = requests(matches).filter_map(|url| circle(subject, method, url));
        let Some(places) = circles.next() else { continue };
        let message = format!("the route `{}` sends clients in circles: {}", route.name, places.join(" → "));
        let place = spec.name.as_ref().map_or(spec.span, |name| name.span);
        let help = "let the redirect lead to another host, path or scheme, or match fewer requests";
        problems.push(SpecError::warning("redirect_to_itself", place, message).help(help));
    }
}

/// URLs that the route takes, as far as it says which.
fn requests(matches: &RouteMatch) -> impl Iterator<Item = String> {
    let hosts: Vec<String> = match &matches.hosts[..] {
        [] => vec![SOME_HOST.to_owned()],
        hosts => hosts.iter().map(sample_host).collect(),
    };
    let paths: Vec<String> = matches.paths().filter_map(sample_path).collect();
    let urls = hosts.into_iter().flat_map(move |host| {
        let paths = paths.clone();
        paths.into_iter().map(move |path| format!("{host}{path}"))
    });
    urls.flat_map(|rest| ["http", "https"].map(|scheme| format!("{scheme}://{rest}")))
}

fn sample_host(pattern: &HostPattern) -> String {
    match pattern {
        HostPattern::Any => SOME_HOST.to_owned(),
        HostPattern::Exact(name) => name.clone(),
        HostPattern::Wildcard(suffix) => format!("some.{suffix}"),
    }
}

fn sample_path(pattern: Option<&PathPattern>) -> Option<String> {
    Some(match pattern {
        None => "/some/path".to_owned(),
        Some(PathPattern::Exact(path)) => path.clone(),
        Some(PathPattern::Prefix(prefix)) => format!("{prefix}/some/path"),
        Some(PathPattern::Pattern(pattern)) => {
            let mut path = String::new();
            for segment in pattern.segments() {
                path.push('/');
                path.push_str(match segment {
                    Segment::Literal(text) => text,
                    Segment::One(_) => "some",
                });
            }
            if pattern.rest().is_some() { path + "/path" } else { path }
        }
        Some(PathPattern::Regex(_)) => return None,
    })
}

/// The places by which a client comes back to one where it has been.
fn circle(subject: &Subject<'_>, method: &str, url: String) -> Option<Vec<String>> {
    let mut places = vec![url];
    while places.len() <= HOPS {
        let url = places.last()?.clone();
        if !is_ours(subject.plan, &url) {
            return None;
        }
        let question = Question { method: method.to_owned(), url: url.clone(), ..Question::default() };
        let told = explain(subject.plan, &question, false, None).ok()?;
        if host_of(&url) != host_of(&places[0]) && !names_its_host(subject, &told.route.as_ref()?.name) {
            return None;
        }
        let next = match told.outcome {
            Outcome::Replied { location: Some(location), .. } => absolute(&url, location)?,
            Outcome::Redirected { location, .. } => absolute(&url, location)?,
            Outcome::Answered { fault, .. } if fault == FaultKind::ProxyLoopDetected.name() => url,
            _ => return None,
        };
        let been = places.contains(&next);
        places.push(next);
        if been {
            return Some(places);
        }
    }
    None
}

/// Whether a listener takes requests of the scheme and port.
fn is_ours(plan: &Plan, url: &str) -> bool {
    let is_https = url.starts_with("https://");
    let authority = url.split('/').nth(2).unwrap_or_default();
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    !has_port
        && plan
            .listeners
            .iter()
            .any(|listener| listener.protocol == ListenerProtocol::Http && listener.tls.is_some() == is_https)
}

fn host_of(url: &str) -> Option<&str> {
    url.split('/').nth(2)
}

/// Whether the route says which hosts it takes.
fn names_its_host(subject: &Subject<'_>, name: &str) -> bool {
    let at = subject.plan.routes.iter().position(|route| *route.name == *name);
    let hosts = at.and_then(|at| subject.matches.get(at)).map_or(&[][..], |matches| &matches.hosts);
    hosts.iter().any(|host| *host != HostPattern::Any)
}

/// A place as a URL, seen from `url`.
fn absolute(url: &str, location: String) -> Option<String> {
    if location.starts_with("http://") || location.starts_with("https://") {
        return Some(location);
    }
    let origin: Vec<&str> = url.splitn(4, '/').take(3).collect();
    location.starts_with('/').then(|| format!("{}{location}", origin.join("/")))
}
