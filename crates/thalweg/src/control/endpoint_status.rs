//! How an endpoint stands, all its addresses together: for events, the admin API and metrics.

use std::time::Instant;
use thalweg_core::EndpointCondition;
use thalweg_upstream::{Condition, EndpointSet, EndpointState, Health, Mode};

/// How an endpoint stands, and why.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Stand {
    pub(crate) condition: EndpointCondition,
    /// Empty where there is nothing to say.
    pub(crate) cause: String,
}

/// The members of an endpoint.
pub(crate) fn members_of(endpoint_set: &EndpointSet, endpoint: u32) -> impl Iterator<Item = &EndpointState> {
    // They stand in the order of the endpoints.
    let from = endpoint_set.entries.partition_point(|entry| entry.endpoint < endpoint);
    let of = endpoint_set.entries[from..].iter().take_while(move |entry| entry.endpoint == endpoint);
    of.map(|entry| &*entry.standing)
}

/// How an endpoint stands: as the best of its addresses does.
pub(crate) fn condition_of(endpoint_set: &EndpointSet, endpoint: u32, now: Instant) -> Stand {
    let service = &endpoint_set.service;
    let slow_start = service.balance.slow_start;
    let quiet = |condition| Stand { condition, cause: String::new() };
    match service.endpoints.get(endpoint as usize).map(|endpoint| endpoint.mode) {
        Some(Mode::Draining) => return quiet(EndpointCondition::Draining),
        Some(Mode::Maintenance) => return quiet(EndpointCondition::Maintenance),
        Some(Mode::Ready) | None => {}
    }
    let mut worst: Option<(&EndpointState, EndpointCondition)> = None;
    for member in members_of(endpoint_set, endpoint) {
        let condition = match member.condition(now) {
            Condition::Ready => return quiet(EndpointCondition::Ready),
            Condition::ReadySince(since) => {
                let starts = slow_start.is_some_and(|time| since + time > now);
                let condition = if starts { EndpointCondition::SlowStart } else { EndpointCondition::Ready };
                return quiet(condition);
            }
            Condition::OnTrial | Condition::Out(_) => EndpointCondition::Ejected,
            Condition::Unwell if member.health() == Health::Awaited => EndpointCondition::Unchecked,
            Condition::Unwell => EndpointCondition::Unhealthy,
        };
        worst.get_or_insert((member, condition));
    }
    match worst {
        Some((member, condition)) => Stand { condition, cause: member.cause() },
        None => {
            let cause = "its host name has not been resolved".to_owned();
            Stand { condition: EndpointCondition::Unchecked, cause }
        }
    }
}
