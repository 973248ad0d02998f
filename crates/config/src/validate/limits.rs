//! `limits:` of routes, services and endpoints.

use super::services::adaptive;
use super::{bounded, deadline};
use crate::diagnose::Problems;
use crate::spec::{PrioritySpec, QueueSpec, RouteLimitsSpec, ServiceLimitsSpec, Spanned};
use std::time::Duration;
use thalweg_proxy::plan::RouteLimits;
use thalweg_upstream::{EndpointLimits, Priority, QueuePolicy, ServiceLimits};

/// Largest number of places at a gate.
const PLACES: u64 = 1_000_000;
/// Most that may wait at a gate.
const WAITING: u64 = 100_000;

/// Limits as far as they are written in one route, or in the defaults.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    max_body: Option<u64>,
    min_rate: Option<u64>,
    max_in_flight: Option<u32>,
    queue_size: Option<u32>,
    queue_timeout: Option<Duration>,
    priority: Option<Priority>,
}

impl Bounds {
    /// Those of `limits:`.
    pub(crate) fn read(spec: &RouteLimitsSpec, problems: &mut Problems) -> Self {
        let (queue_size, queue_timeout) = queue(&spec.queue, problems);
        Self {
            max_body: spec.max_body.as_ref().map(|size| size.value.0),
            min_rate: spec.min_rate.as_ref().map(|size| size.value.0),
            max_in_flight: places(spec.max_in_flight.as_ref(), problems),
            queue_size,
            queue_timeout,
            priority: spec.priority.map(|priority| match priority {
                PrioritySpec::High => Priority::High,
                PrioritySpec::Normal => Priority::Normal,
                PrioritySpec::Low => Priority::Low,
            }),
        }
    }

    /// What the route says, then what the defaults say, then what is built in.
    pub(crate) fn resolve(self, defaults: Self) -> RouteLimits {
        let built_in = RouteLimits::default();
        RouteLimits {
            max_body: self.max_body.or(defaults.max_body),
            min_rate: self.min_rate.or(defaults.min_rate).unwrap_or(built_in.min_rate),
            max_in_flight: self.max_in_flight.or(defaults.max_in_flight),
            queue: policy(
                self.queue_size.or(defaults.queue_size),
                self.queue_timeout.or(defaults.queue_timeout),
            ),
            priority: self.priority.or(defaults.priority).unwrap_or(built_in.priority),
        }
    }
}

/// Those of a service.
pub(crate) fn service_limits(spec: &ServiceLimitsSpec, problems: &mut Problems) -> ServiceLimits {
    let (size, timeout) = queue(&spec.queue, problems);
    ServiceLimits {
        adaptive: adaptive(spec.adaptive.as_ref(), problems),
        max_connections: places(spec.max_connections.as_ref(), problems),
        max_in_flight: places(spec.max_in_flight.as_ref(), problems),
        queue: policy(size, timeout),
    }
}

/// Those of an endpoint.
pub(crate) fn endpoint_limits(
    max_connections: Option<&Spanned<u64>>,
    max_in_flight: Option<&Spanned<u64>>,
    problems: &mut Problems,
) -> EndpointLimits {
    EndpointLimits {
        max_connections: places(max_connections, problems),
        max_in_flight: places(max_in_flight, problems),
    }
}

fn places(number: Option<&Spanned<u64>>, problems: &mut Problems) -> Option<u32> {
    number.and_then(|n| bounded(n, 1, PLACES, problems)).and_then(|n| u32::try_from(n).ok())
}

fn queue(spec: &QueueSpec, problems: &mut Problems) -> (Option<u32>, Option<Duration>) {
    let size = spec.size.as_ref().and_then(|n| bounded(n, 0, WAITING, problems));
    (size.and_then(|n| u32::try_from(n).ok()), deadline(spec.timeout.as_ref(), problems))
}

fn policy(size: Option<u32>, timeout: Option<Duration>) -> QueuePolicy {
    let built_in = QueuePolicy::default();
    QueuePolicy { size: size.unwrap_or(built_in.size), timeout: timeout.unwrap_or(built_in.timeout) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_inherits_key_by_key() {
        let defaults = Bounds {
            max_body: Some(10),
            max_in_flight: Some(5),
            queue_size: Some(7),
            priority: Some(Priority::Low),
            ..Bounds::default()
        };
        let own =
            Bounds { max_body: Some(20), queue_timeout: Some(Duration::from_secs(3)), ..Bounds::default() };
        let queue = QueuePolicy { size: 7, timeout: Duration::from_secs(3) };
        let expected = RouteLimits {
            max_body: Some(20),
            min_rate: RouteLimits::default().min_rate,
            max_in_flight: Some(5),
            queue,
            priority: Priority::Low,
        };
        assert_eq!(own.resolve(defaults), expected);
        assert_eq!(Bounds::default().resolve(Bounds::default()), RouteLimits::default());
    }
}
