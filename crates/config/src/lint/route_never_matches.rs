//! Routes that no request can reach.

use super::Subject;
use crate::diagnose::{Problems, SpecError};
use crate::source::Span;
use crate::spec::{RouteSpec, Spanned};
use thalweg_route::shadows;

pub(super) fn route_never_matches(subject: &Subject<'_>, problems: &mut Problems) {
    let routes = &subject.spec.routes.items;
    let name = |at: usize| subject.plan.routes.get(at).map_or("", |route| &*route.name);
    for shadow in shadows(subject.matches) {
        let (Some(hidden), Some(by)) = (routes.get(shadow.hidden), routes.get(shadow.by)) else { continue };
        let message = format!("the route `{}` is never reached", name(shadow.hidden));
        let warning = SpecError::warning("route_never_matches", place(hidden), message)
            .related(place(by), format!("`{}` takes every request that it could take", name(shadow.by)))
            .help("remove one of the two, or give this one a condition that the other does not have");
        problems.push(warning);
    }
    for (at, route) in routes.iter().enumerate() {
        let Some(regex) = &route.r#match.path_regex else { continue };
        if begins_without_slash(regex) {
            let message = format!("the route `{}` is never reached: every path begins with `/`", name(at));
            let warning = SpecError::warning("route_never_matches", regex.span, message)
                .help("the expression has to match the whole path: begin it with `/`");
            problems.push(warning);
        }
    }
}

/// The name of a route, or the whole of it.
fn place(route: &Spanned<RouteSpec>) -> Span {
    route.name.as_ref().map_or(route.span, |name| name.span)
}

/// Whether every text that the expression matches begins with a letter or digit. Only plain cases are known.
fn begins_without_slash(regex: &str) -> bool {
    let text = regex.strip_prefix('^').unwrap_or(regex);
    let mut letters = text.chars();
    let first = letters.next().is_some_and(|c| c.is_ascii_alphanumeric());
    first && !letters.as_str().starts_with(['?', '*', '{']) && !text.contains('|')
}
