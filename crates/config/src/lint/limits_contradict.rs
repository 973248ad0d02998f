//! Bounds that can never be reached.

use super::Subject;
use crate::diagnose::{Problems, SpecError};
use crate::source::Span;
use crate::spec::{AutoSpec, Spanned};

pub(super) fn limits_contradict(subject: &Subject<'_>, problems: &mut Problems) {
    let spec = subject.spec;
    let total = |limit: &Option<Spanned<AutoSpec>>| match limit {
        Some(Spanned { span, value: AutoSpec::Number(number) }) => Some((*number, *span)),
        _ => None,
    };
    if let Some(total) = total(&spec.limits.max_connections) {
        let listeners = spec.listeners.0.iter().filter_map(|(_, listener)| listener.limits.max_connections);
        listeners.for_each(|part| compare("max_connections", part, total, problems));
    }
    if let Some(total) = total(&spec.limits.max_in_flight) {
        let routes = spec.routes.items.iter().filter_map(|route| route.limits.max_in_flight);
        let services = spec.services.0.iter().filter_map(|(_, service)| service.limits.max_in_flight);
        routes.chain(services).for_each(|part| compare("max_in_flight", part, total, problems));
    }
}

fn compare(name: &str, part: Spanned<u64>, (total, place): (u64, Span), problems: &mut Problems) {
    if part.value > total {
        let message = format!("this is more than `limits.{name}` of the whole proxy");
        let warning = SpecError::warning("limits_contradict", part.span, message)
            .related(place, "the bound of all together")
            .help("write less here, or more there");
        problems.push(warning);
    }
}
