//! `routes[].canary`: steps and gates.

use super::numbers::{bounded, duration, percent};
use super::routes::Names;
use super::targets::Target;
use crate::diagnose::{Class, Problems, SpecError, suggest};
use crate::spec::{CanarySpec, GatesSpec, OnFailureSpec, Spanned};
use std::time::Duration;
use thalweg_proxy::plan::{CanaryGates, CanaryPolicy, OnFailure};

/// Steps of a canary at most.
const STEPS: usize = 100;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Checks a canary of a route that goes to `target`.
pub(super) fn canary(
    spec: &Spanned<CanarySpec>,
    target: &Target<'_>,
    names: &Names<'_>,
    problems: &mut Problems,
) -> Option<Box<CanaryPolicy>> {
    check_service(spec, target, names, problems);
    let steps = steps(&spec.value, spec.span, problems);
    let hold = duration(spec.hold.as_ref(), Duration::from_secs(1), DAY * 7, problems);
    Some(Box::new(CanaryPolicy {
        service: spec.service.value.as_str().into(),
        steps,
        hold: hold.unwrap_or(Duration::from_secs(300)),
        gates: gates(&spec.gates, problems),
        on_failure: match spec.on_failure {
            Some(OnFailureSpec::Pause) => OnFailure::Pause,
            Some(OnFailureSpec::Rollback) | None => OnFailure::Rollback,
        },
    }))
}

/// The newcomer must be one of several services of the route.
fn check_service(
    spec: &Spanned<CanarySpec>,
    target: &Target<'_>,
    names: &Names<'_>,
    problems: &mut Problems,
) {
    let parts = match target {
        Target::Split(parts, _) => parts,
        Target::Nowhere => return,
        Target::Service(_) | Target::Sealed(..) | Target::Urls(..) => {
            let error = SpecError::new(Class::Invalid, spec.span, "a canary moves requests between services")
                .help(
                    "write both in `to`: `[ { service: a, weight: 100 }, { service: a-next, weight: 0 } ]`",
                );
            return problems.push(error);
        }
    };
    let name = &spec.service;
    let is_part = |position: &u32| parts.iter().any(|part| part.service == *position);
    if !names.services.get(name.value.as_str()).is_some_and(is_part) {
        let of_route = names.services.iter().filter(|(_, position)| is_part(position));
        let mut known: Vec<&str> = of_route.map(|(name, _)| *name).collect();
        known.sort_unstable();
        let message = format!("the route does not go to a service `{}`", name.value);
        let error = SpecError::value(name.span, "service name", message).class(Class::Unknown);
        problems.push(error.maybe_help(suggest(name, "services of the route", &known)));
    }
}

fn steps(spec: &CanarySpec, span: crate::source::Span, problems: &mut Problems) -> Vec<u32> {
    let mut steps: Vec<u32> = Vec::new();
    for step in &spec.steps.items {
        let share = step.value.0;
        let wrong = match steps.last() {
            _ if !(1..=100).contains(&share) => Some("a step must be from 1% to 100%".to_owned()),
            Some(last) if *last >= share => Some(format!("the steps must ascend: {share}% follows {last}%")),
            _ => None,
        };
        match wrong {
            Some(message) => problems.push(SpecError::value(step.span, "step", message)),
            None => steps.push(share),
        }
    }
    if spec.steps.written == 0 || spec.steps.written > STEPS {
        let message = format!("a canary has from 1 to {STEPS} steps");
        problems.push(
            SpecError::new(Class::Invalid, span, message)
                .help("write for example `steps: [ 1%, 10%, 50%, 100% ]`"),
        );
    }
    steps
}

fn gates(spec: &GatesSpec, problems: &mut Problems) -> CanaryGates {
    let min_requests = spec.min_requests.as_ref().and_then(|n| bounded(n, 1, 1_000_000, problems));
    let minute = Duration::from_secs(60);
    CanaryGates {
        min_requests: min_requests.unwrap_or(100),
        max_error_ratio: percent(spec.max_error_ratio.as_ref(), 0, 100, problems),
        error_ratio_over_baseline: Some(
            percent(spec.error_ratio_over_baseline.as_ref(), 0, 100, problems).unwrap_or(1),
        ),
        p99: duration(spec.p99.as_ref(), Duration::from_millis(1), minute, problems),
        p99_over_baseline: Some(
            percent(spec.p99_over_baseline.as_ref(), 100, 10_000, problems).unwrap_or(150),
        ),
    }
}
