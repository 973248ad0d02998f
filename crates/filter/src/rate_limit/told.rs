//! What clients are told of limits: `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10), and
//! the older `X-RateLimit-*`.

use super::{RateLimit, Spent, Unit};
use std::io::Write as _;
use thalweg_access::Rate;

/// Fields that are told at most.
pub(super) const FIELDS: usize = 5;

/// Whole seconds, rounded up.
pub(super) fn seconds(nanoseconds: u64) -> u64 {
    nanoseconds.div_ceil(1_000_000_000)
}

/// A policy as a member of a list: its name, what may be spent, and in which time where that is whole seconds.
pub(super) fn policy(rate: &Rate, unit: Unit, name: &str) -> String {
    let per = rate.period();
    let window = if per.subsec_nanos() == 0 { format!(";w={}", per.as_secs()) } else { String::new() };
    let unit = if unit == Unit::Bytes { ";qu=\"content-bytes\"" } else { "" };
    format!("\"{name}\";q={}{unit}{window}", rate.units())
}

impl RateLimit {
    /// Gives the fields that tell of what is left.
    pub(super) fn tell(&self, all: &[Spent], with: &mut dyn FnMut(&'static str, &[u8])) {
        let told = || all.iter().filter_map(|spent| Some((spent, self.terms(spent)?)));
        if self.told.draft {
            let (mut left, mut policies) = (Vec::with_capacity(48), Vec::with_capacity(48));
            for (spent, (limit, terms)) in told() {
                let comma = if left.is_empty() { "" } else { ", " };
                let whole_in = seconds(spent.decision.whole_in);
                let _ = write!(left, "{comma}\"{}\";r={};t={whole_in}", limit.name, spent.decision.left);
                let _ = write!(policies, "{comma}{}", terms.policy);
            }
            if !left.is_empty() {
                with("RateLimit", &left);
                with("RateLimit-Policy", &policies);
            }
        }
        if self.told.legacy
            && let Some((spent, (_, terms))) = told().min_by_key(|(spent, _)| spent.decision.left)
        {
            with("X-RateLimit-Limit", terms.rate.units().to_string().as_bytes());
            with("X-RateLimit-Remaining", spent.decision.left.to_string().as_bytes());
            with("X-RateLimit-Reset", seconds(spent.decision.whole_in).to_string().as_bytes());
        }
    }
}
