//! Deadlines that can never run out.

use super::Subject;
use crate::diagnose::{Problems, SpecError};
use crate::spec::{DurationSpec, Spanned, TimeoutsSpec};
use std::collections::HashSet;

type Field = fn(&TimeoutsSpec) -> &Option<Spanned<DurationSpec>>;

/// Deadlines that lie inside `request`.
const INNER: &[(&str, Field)] =
    &[("connect", |timeouts| &timeouts.connect), ("first_byte", |timeouts| &timeouts.first_byte)];

pub(super) fn timeouts_contradict(subject: &Subject<'_>, problems: &mut Problems) {
    let (spec, plan) = (subject.spec, subject.plan);
    let mut told = HashSet::new();
    let pairs = spec.routes.items.iter().zip(&plan.routes).flat_map(|(route, compiled)| {
        // Services that routes make of URLs stand behind those that are written, and say nothing of timeouts.
        compiled.to.services().map(move |service| (route, spec.services.0.get(service.0 as usize)))
    });
    for (route, service) in pairs {
        let service = service.map(|(_, service)| &service.timeouts);
        let nearest_first = [Some(&route.timeouts), service, Some(&spec.defaults.timeouts)];
        let written =
            |field: Field| nearest_first.iter().flatten().find_map(|timeouts| field(timeouts).as_ref());
        let Some(request) = written(|timeouts| &timeouts.request) else { continue };
        for (name, field) in INNER {
            let Some(inner) = written(*field).filter(|inner| inner.value.0 > request.value.0) else {
                continue;
            };
            let default =
                |place: &Spanned<DurationSpec>| field(&spec.defaults.timeouts).as_ref() == Some(place);
            // A default for all, and one route with less time: that is what defaults are for.
            if default(inner) && spec.defaults.timeouts.request.as_ref() != Some(request) {
                continue;
            }
            if !told.insert((inner.span, request.span)) {
                continue;
            }
            let message = format!("`{name}` is longer than `request`, the time of the whole exchange");
            let warning = SpecError::warning("timeouts_contradict", inner.span, message)
                .related(request.span, "the exchange ends here first")
                .help(format!("write a longer `request`, or a shorter `{name}`"));
            problems.push(warning);
        }
    }
}
