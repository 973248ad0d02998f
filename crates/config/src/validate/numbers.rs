//! Numbers, shares and durations within their bounds.

use crate::diagnose::{Class, Problems, SpecError};
use crate::spec::{DurationSpec, PercentSpec, Spanned};
use std::time::Duration;

/// A number within bounds.
pub(crate) fn bounded(number: &Spanned<u64>, least: u64, most: u64, problems: &mut Problems) -> Option<u64> {
    if (least..=most).contains(&number.value) {
        return Some(number.value);
    }
    let message = format!("the number must be from {least} to {most}");
    problems.push(SpecError::new(Class::Invalid, number.span, message));
    None
}

/// The same for a number that need not be written.
pub(crate) fn number(
    number: Option<&Spanned<u64>>,
    least: u32,
    most: u32,
    problems: &mut Problems,
) -> Option<u32> {
    let number = bounded(number?, least.into(), most.into(), problems)?;
    u32::try_from(number).ok()
}

/// A share within bounds, in percent.
pub(super) fn percent(
    share: Option<&Spanned<PercentSpec>>,
    least: u32,
    most: u32,
    problems: &mut Problems,
) -> Option<u32> {
    let share = share?;
    if (least..=most).contains(&share.value.0) {
        return Some(share.value.0);
    }
    let message = format!("the share must be from {least}% to {most}%");
    problems.push(SpecError::new(Class::Invalid, share.span, message));
    None
}

/// A duration within bounds.
pub(super) fn duration(
    duration: Option<&Spanned<DurationSpec>>,
    least: Duration,
    most: Duration,
    problems: &mut Problems,
) -> Option<Duration> {
    let duration = duration?;
    if (least..=most).contains(&duration.value.0) {
        return Some(duration.value.0);
    }
    let message = format!("the duration must be from {} to {}", shown(least), shown(most));
    problems.push(SpecError::new(Class::Invalid, duration.span, message));
    None
}

/// A deadline: longer than nothing.
pub(crate) fn deadline(
    duration: Option<&Spanned<DurationSpec>>,
    problems: &mut Problems,
) -> Option<Duration> {
    let duration = duration?;
    if duration.value.0.is_zero() {
        let error = SpecError::new(Class::Invalid, duration.span, "this duration must be longer than 0s")
            .help("there is no value for \"never\"; write a long time such as `1d`");
        problems.push(error);
        return None;
    }
    Some(duration.value.0)
}

/// A duration in the largest unit that shows it whole.
fn shown(duration: Duration) -> String {
    const UNITS: &[(&str, u128)] = &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
    let ms = duration.as_millis();
    match UNITS.iter().find(|(_, factor)| ms > 0 && ms.is_multiple_of(*factor)) {
        Some((unit, factor)) => format!("{}{unit}", ms / factor),
        None => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_durations_as_they_are_written() {
        for (ms, text) in
            [(250, "250ms"), (1000, "1s"), (90_000, "90s"), (600_000, "10m"), (86_400_000, "1d")]
        {
            assert_eq!(shown(Duration::from_millis(ms)), text);
        }
    }
}
