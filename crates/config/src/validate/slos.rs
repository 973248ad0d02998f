//! `slos:` which share of the exchanges must be good.

use super::check_name;
use super::numbers::duration;
use crate::diagnose::{Class, Problems, SpecError, suggest};
use crate::source::Span;
use crate::spec::{DurationSpec, NamedSpec, SloSpec, Spanned};
use std::time::Duration;
use thalweg_core::units::duration_text;
use thalweg_observe::meter::BOUNDS_US;
use thalweg_observe::slo::{SLOS, SloPolicy, SloSubject, WINDOW_MAX, WINDOW_MIN};

/// Names of routes and services that an objective may be about.
pub(crate) struct Subjects<'a> {
    pub(crate) routes: Vec<&'a str>,
    pub(crate) services: Vec<&'a str>,
}

/// Checks the objectives.
pub(crate) fn slos(
    named: &NamedSpec<Spanned<SloSpec>>,
    subjects: &Subjects<'_>,
    problems: &mut Problems,
) -> Vec<SloPolicy> {
    if let Some((name, _)) = named.0.get(SLOS) {
        let message = format!("there are at most {SLOS} objectives");
        problems.push(SpecError::new(Class::Invalid, name.span, message));
    }
    let checked = named.0.iter().take(SLOS).map(|(name, spec)| {
        check_name(name, name.span, problems);
        slo(name, spec, subjects, problems)
    });
    checked.flatten().collect()
}

fn slo(
    name: &str,
    spec: &Spanned<SloSpec>,
    subjects: &Subjects<'_>,
    problems: &mut Problems,
) -> Option<SloPolicy> {
    let about = about(spec, subjects, problems);
    let window = spec.window.as_ref().and_then(|window| whole_hours(window, problems));
    let slower_than = spec.slower_than.as_ref().and_then(|bound| bound_of_bucket(bound, problems));
    Some(SloPolicy {
        name: name.into(),
        about: about?,
        target: spec.target.value.0,
        window: window.unwrap_or(WINDOW_MAX),
        slower_than,
    })
}

fn about(spec: &Spanned<SloSpec>, subjects: &Subjects<'_>, problems: &mut Problems) -> Option<SloSubject> {
    match (&spec.route, &spec.service) {
        (Some(route), None) => is_known(route, ("route", &subjects.routes), problems)
            .then(|| SloSubject::Route(route.as_str().into())),
        (None, Some(service)) => is_known(service, ("service", &subjects.services), problems)
            .then(|| SloSubject::Service(service.as_str().into())),
        (Some(_), Some(service)) => {
            let error = SpecError::new(
                Class::Invalid,
                service.span,
                "an objective is about one route or one service",
            )
            .help("remove `route` or `service`, or write two objectives");
            problems.push(error);
            None
        }
        (None, None) => {
            let error = SpecError::new(Class::Invalid, spec.span, "an objective needs a route or a service")
                .help("write `route: NAME` or `service: NAME`");
            problems.push(error);
            None
        }
    }
}

fn is_known(name: &Spanned<String>, (what, known): (&'static str, &[&str]), problems: &mut Problems) -> bool {
    if known.contains(&name.as_str()) {
        return true;
    }
    let subject = if what == "route" { "route name" } else { "service name" };
    let error = SpecError::value(name.span, subject, format!("there is no {what} `{}`", name.value));
    let plural = if what == "route" { "routes" } else { "services" };
    problems.push(error.class(Class::Unknown).maybe_help(suggest(name, plural, known)));
    false
}

/// What is kept of earlier times is kept by the hour.
fn whole_hours(window: &Spanned<DurationSpec>, problems: &mut Problems) -> Option<Duration> {
    let checked = duration(Some(window), WINDOW_MIN, WINDOW_MAX, problems)?;
    if checked.subsec_nanos() == 0 && checked.as_secs().is_multiple_of(3_600) {
        return Some(checked);
    }
    let error = SpecError::new(Class::Invalid, window.span, "the window must be in whole hours")
        .help("write for example `6h`, `7d` or `30d`");
    problems.push(error);
    None
}

/// Durations are known by their bucket: a bound within one would be a guess.
fn bound_of_bucket(bound: &Spanned<DurationSpec>, problems: &mut Problems) -> Option<Duration> {
    let us = bound.value.0.as_micros();
    if BOUNDS_US.iter().any(|known| u128::from(*known) == us) {
        return Some(bound.value.0);
    }
    problems.push(wrong_bound(us, bound.span));
    None
}

fn wrong_bound(us: u128, span: Span) -> SpecError {
    let at = BOUNDS_US.iter().filter(|bound| u128::from(**bound) < us).count();
    let near = [at.checked_sub(1), Some(at)].into_iter().flatten().filter_map(|at| BOUNDS_US.get(at));
    let near: Vec<String> =
        near.map(|us| format!("`{}`", duration_text(Duration::from_micros(*us)))).collect();
    let message = "durations are counted in buckets, and none begins here";
    SpecError::new(Class::Invalid, span, message).help(format!("write {}", near.join(" or ")))
}
