//! `breaker` and `limits.adaptive`: protecting a service that is in trouble.

use crate::diagnose::{Class, Problems, SpecError};
use crate::spec::{AdaptiveSpec, BreakerSpec, Spanned, SwitchSpec};
use crate::validate::{duration, number, percent};
use std::time::Duration;
use thalweg_upstream::{AdaptivePolicy, BreakerPolicy};

/// Largest bound on what is under way.
const PLACES: u32 = 1_000_000;

/// When nothing is sent for a while.
pub(super) fn breaker(
    spec: Option<&SwitchSpec<BreakerSpec>>,
    problems: &mut Problems,
) -> Option<BreakerPolicy> {
    let spec = spec?.settings()?;
    let built_in = BreakerPolicy::default();
    let (ms, second) = (Duration::from_millis(100), Duration::from_secs(1));
    let window = duration(spec.window.as_ref(), second, 600 * second, problems);
    let open = duration(spec.open.as_ref(), ms, 3600 * second, problems);
    Some(BreakerPolicy {
        failures: percent(spec.failures.as_ref(), 1, 100, problems).unwrap_or(built_in.failures),
        window: window.unwrap_or(built_in.window),
        min_requests: number(spec.min_requests.as_ref(), 1, 1_000_000, problems)
            .unwrap_or(built_in.min_requests),
        open: open.unwrap_or(built_in.open),
        trials: number(spec.trials.as_ref(), 1, 1000, problems).unwrap_or(built_in.trials),
    })
}

/// A bound that follows latency.
pub(in crate::validate) fn adaptive(
    spec: Option<&Spanned<SwitchSpec<AdaptiveSpec>>>,
    problems: &mut Problems,
) -> Option<AdaptivePolicy> {
    let (span, spec) = spec.and_then(|spec| Some((spec.span, spec.settings()?)))?;
    let built_in = AdaptivePolicy::default();
    let min = number(spec.min.as_ref(), 1, PLACES, problems);
    let max = number(spec.max.as_ref(), 1, PLACES, problems);
    // The bound that is written moves the one that is not.
    let (min, max) = match (min, max) {
        (Some(min), None) => (min, built_in.max.max(min)),
        (None, Some(max)) => (built_in.min.min(max), max),
        (min, max) => (min.unwrap_or(built_in.min), max.unwrap_or(built_in.max)),
    };
    if min > max {
        let span = spec.min.as_ref().map_or(span, |min| min.span);
        problems.push(SpecError::new(Class::Invalid, span, "`min` must not be larger than `max`"));
    }
    let tolerance = percent(spec.tolerance.as_ref(), 101, 1000, problems).unwrap_or(built_in.tolerance);
    Some(AdaptivePolicy { min, max, tolerance })
}
