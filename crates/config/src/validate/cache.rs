//! The filter `cache` among the other filters of a route, and `cache:` at the top.

use super::chains::FilterPlace;
use crate::diagnose::{Class, Problems, SpecError};
use crate::spec::{AutoSizeSpec, FileSpec};
use thalweg_core::units::size_text;
use thalweg_filter::{Chain, Step};
use thalweg_proxy::plan::{CACHE_MIN, CachePlan};

/// Largest memory of the cache.
const MOST: u64 = 1 << 50;

/// Checks what the cache may use.
pub(crate) fn cache(spec: &FileSpec, problems: &mut Problems) -> CachePlan {
    let Some(size) = &spec.cache.memory else { return CachePlan::default() };
    let AutoSizeSpec::Bytes(bytes) = size.value else { return CachePlan::default() };
    if !(CACHE_MIN..=MOST).contains(&bytes) {
        let message = "the size must be from 8MiB to 1024TiB";
        problems.push(SpecError::new(Class::Invalid, size.span, message));
    } else if let Some(whole) = &spec.limits.memory
        && let AutoSizeSpec::Bytes(of) = whole.value
        && bytes > of / 2
    {
        let message = "the cache may have half of the memory of the process at most";
        let error = SpecError::new(Class::Invalid, size.span, message)
            .related(whole.span, "the memory of the process")
            .help(format!("write up to {}, or raise `limits.memory`", size_text(of / 2)));
        problems.push(error);
    }
    CachePlan { memory: Some(bytes) }
}

/// Checks the places of `cache` in the list of a route, those of `defaults` included. `chain`: compiled of the same
/// list.
pub(crate) fn caches((chain, places): (&Chain, &[FilterPlace]), is_sealed: bool, problems: &mut Problems) {
    let steps = chain.steps().iter().zip(places).filter(|(step, _)| step.filter.cache().is_some());
    let mut unconditional: Option<&FilterPlace> = None;
    for (step, place) in steps {
        if let Some(first) = unconditional {
            let message = "this `cache` is for no request: one without `when` stands before it";
            let error = SpecError::new(Class::Invalid, place.span, message)
                .related(first.span, "every request has this one")
                .help("remove one, or put that with `when` first");
            problems.push(error);
        }
        if step.when.is_empty() {
            unconditional = unconditional.or(Some(place));
        }
        asks_too_late(step, place, problems);
        if is_sealed {
            let message =
                "responses of sealed routes are not cached: their labels would be kept with what is stored";
            problems.push(SpecError::new(Class::Warning, place.span, message).help("remove it here"));
        }
    }
    // Rules are those of the steps, in their order.
    let places = chain.steps().iter().zip(places).filter(|(step, _)| step.filter.cache().is_some());
    for (rule, (_, place)) in chain.caches().zip(places) {
        if rule.mixes_clients() {
            let message = "`per_client` goes by address, `Authorization` and cookies: `auth` tells clients apart by more";
            let error = SpecError::new(Class::Invalid, place.span, message).help(
                "name in `key.headers` what `auth` tells the service of them, and write `share_verified: true`",
            );
            problems.push(error);
        }
    }
}

/// Whether a request is looked up is decided before there is a response.
pub(crate) fn asks_too_late(step: &Step, place: &FilterPlace, problems: &mut Problems) {
    if step.filter.cache().is_some() && step.when.iter().any(|when| when.is_about_response()) {
        let message = "`cache` is asked before there is a response, and this `when` is about one";
        let error = SpecError::new(Class::Invalid, place.span, message)
            .help("lifetimes by status are written as `default_ttl: { 404: 10s }`");
        problems.push(error);
    }
}

#[cfg(test)]
mod tests;
