//! Weights that keep traffic away.

use super::Subject;
use crate::diagnose::{Problems, SpecError};
use crate::spec::{EndpointSpec, ToSpec};

pub(super) fn weight_zero(subject: &Subject<'_>, problems: &mut Problems) {
    for route in &subject.spec.routes.items {
        let Some(ToSpec::Split(split)) = route.to.as_ref().map(|to| &to.value) else { continue };
        for item in &split.split.items {
            let crate::spec::ToItemSpec::Part(part) = &item.value else { continue };
            let mut canary = route.canary.iter();
            if canary.any(|canary| canary.service.value == part.service.value) {
                // It gets more by itself.
                continue;
            }
            if let Some(weight) = part.weight.as_ref().filter(|weight| weight.value == 0) {
                let message = format!("the service `{}` gets nothing of this route", part.service.value);
                let warning = SpecError::warning("weight_zero", weight.span, message)
                    .help("give it a weight from 1 to 1000, or remove it");
                problems.push(warning);
            }
        }
    }
    for (name, service) in &subject.spec.services.0 {
        let zero = |endpoint: &EndpointSpec| match endpoint {
            EndpointSpec::Long(long) => long.weight.as_ref().is_some_and(|weight| weight.value == 0),
            EndpointSpec::Short(_) => false,
        };
        if service.discover.is_none() && service.written().iter().all(|endpoint| zero(&endpoint.value)) {
            let message = format!("every endpoint of the service `{}` has weight 0", name.value);
            let warning = SpecError::warning("weight_zero", name.span, message)
                .help("give at least one of them a weight from 1 to 1000");
            problems.push(warning);
        }
    }
}
