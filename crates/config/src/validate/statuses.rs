//! Sets of statuses.

use crate::diagnose::{Class, Problems, SpecError};
use crate::spec::{ListSpec, StatusSpec};
use std::ops::RangeInclusive;
use thalweg_upstream::Statuses;

/// Statuses that a final response has.
pub(super) const FINAL: Allowed =
    Allowed { ranges: &[200..=599], said: "200 to 599: those of final responses" };
/// Statuses after which a request may be sent again.
pub(super) const RETRIED: Allowed =
    Allowed { ranges: &[500..=599, 408..=408, 421..=421, 429..=429], said: "500 to 599, 408, 421 or 429" };

/// Statuses that have a meaning in one place.
pub(super) struct Allowed {
    ranges: &'static [RangeInclusive<u16>],
    said: &'static str,
}

/// The set that is written.
pub(super) fn statuses(list: &ListSpec<StatusSpec>, allowed: &Allowed, problems: &mut Problems) -> Statuses {
    let mut ranges = Vec::new();
    for item in &list.items {
        let range = &item.value.0;
        if allowed.ranges.iter().any(|known| known.contains(range.start()) && known.contains(range.end())) {
            ranges.push(range.clone());
        } else {
            let message = format!("the statuses here are {}", allowed.said);
            problems.push(SpecError::new(Class::Invalid, item.span, message));
        }
    }
    Statuses::new(ranges)
}
