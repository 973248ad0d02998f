//! `ejection:` when endpoints that fail are left out.

use crate::diagnose::{Class, Problems, SpecError};
use crate::spec::{EjectionSpec, Spanned, SwitchSpec, TenthsSpec};
use crate::validate::statuses::{FINAL, statuses};
use crate::validate::{duration, number, percent};
use std::time::Duration;
use thalweg_upstream::EjectionPolicy;

/// The rules; `off` is those that never eject.
pub(super) fn ejection(spec: Option<&SwitchSpec<EjectionSpec>>, problems: &mut Problems) -> EjectionPolicy {
    let built_in = EjectionPolicy::default();
    let spec = match spec {
        None | Some(SwitchSpec::On) => return built_in,
        Some(SwitchSpec::Off) => return EjectionPolicy { consecutive: 0, ..built_in },
        Some(SwitchSpec::With(spec)) => spec,
    };
    let (ms, second) = (Duration::from_millis(100), Duration::from_secs(1));
    let time = duration(spec.time.as_ref(), ms, 3600 * second, problems).unwrap_or(built_in.time);
    let max_time = duration(spec.max_time.as_ref(), ms, 86_400 * second, problems);
    if let (Some(written), Some(max_time)) = (&spec.max_time, max_time)
        && max_time < time
    {
        let message = "`max_time` must not be shorter than `time`, which is 5s where none is written";
        problems.push(SpecError::new(Class::Invalid, written.span, message));
    }
    let window = duration(spec.window.as_ref(), second, 600 * second, problems);
    EjectionPolicy {
        consecutive: number(spec.consecutive.as_ref(), 0, 1000, problems).unwrap_or(built_in.consecutive),
        statuses: statuses(&spec.statuses, &FINAL, problems),
        failures: percent(spec.failures.as_ref(), 1, 100, problems),
        success_rate: spec.success_rate.as_ref().and_then(|number| deviations(number, problems)),
        latency: percent(spec.latency.as_ref(), 110, 10_000, problems),
        min_requests: number(spec.min_requests.as_ref(), 1, 1_000_000, problems)
            .unwrap_or(built_in.min_requests),
        window: window.unwrap_or(built_in.window),
        time,
        max_time: max_time.unwrap_or(built_in.max_time.max(time)),
        max_share: percent(spec.max_share.as_ref(), 0, 100, problems).unwrap_or(built_in.max_share),
    }
}

/// Standard deviations, in tenths.
fn deviations(number: &Spanned<TenthsSpec>, problems: &mut Problems) -> Option<u32> {
    if (1..=100).contains(&number.value.0) {
        return Some(number.value.0);
    }
    problems.push(SpecError::new(Class::Invalid, number.span, "the number must be from 0.1 to 10"));
    None
}
