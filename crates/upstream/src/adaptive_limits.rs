//! The adaptive limits of all endpoints: what the control thread does about them once a second.
//!
//! Counts come from the members' standings, the peak of what was under way from the endpoint's concurrency limit, and
//! there goes the limit. Endpoints of a service take turns with their probes.

use crate::adaptive::{Adaptive, Second};
use crate::concurrency::Alternative;
use crate::endpoint_sets::{EndpointSet, Entry};
use crate::outlier::Sample;
use crate::policy::AdaptivePolicy;
use crate::registry::LimitRegistry;
use std::collections::HashMap;
use std::sync::Arc;

/// The service's name and the endpoint's URL.
type Name = (Arc<str>, Arc<str>);

/// What is known of each endpoint with an adaptive limit.
#[derive(Debug, Default)]
pub struct AdaptiveLimits(HashMap<Name, Known>);

#[derive(Debug)]
struct Known {
    adaptive: Adaptive,
    /// What its members had counted at the last look, by their ids.
    before: Vec<(u64, Sample)>,
}

impl AdaptiveLimits {
    /// A second has passed: looks at the endpoints of the endpoint sets in force and sets their limits. Endpoints that
    /// have gone are forgotten.
    pub fn tick<T: Alternative>(
        &mut self,
        endpoint_sets: &[Arc<EndpointSet>],
        concurrency_limits: &LimitRegistry<T>,
    ) {
        let mut before = std::mem::take(&mut self.0);
        for endpoint_set in endpoint_sets {
            let Some(policy) = endpoint_set.service.limits.adaptive else { continue };
            let mut members = endpoint_set.entries.as_slice();
            let known: Vec<_> = (0_u32..)
                .zip(&endpoint_set.service.endpoints)
                .map(|(at, endpoint)| {
                    // In the order of the endpoints.
                    let its = members.partition_point(|entry| entry.endpoint <= at);
                    let (own, rest) = members.split_at(its);
                    members = rest;
                    let name = (endpoint_set.service.name.clone(), endpoint.url.clone());
                    let known = before.remove(&name).unwrap_or_else(|| Known::new(policy, own));
                    (name, known, own)
                })
                .collect();
            let mut may_probe = !known.iter().any(|(_, known, _)| known.adaptive.is_probing());
            for (name, mut known, members) in known {
                let Some(concurrency) = concurrency_limits.endpoint(&name.0, &name.1) else { continue };
                known.adaptive.set_policy(policy);
                let gained = known.gained(members);
                let second = Second {
                    answered: gained.answered,
                    latency_us: gained.latency_us,
                    peak: concurrency.take_peak(),
                };
                let was = known.adaptive.is_probing();
                let limit = known.adaptive.tick(second, may_probe);
                may_probe &= was || !known.adaptive.is_probing();
                concurrency_limits.set_adaptive(&name.0, &name.1, limit);
                self.0.insert(name, known);
            }
        }
    }
}

impl Known {
    fn new(policy: AdaptivePolicy, members: &[Entry]) -> Self {
        let seed = members.first().map_or(0, |member| member.standing.id);
        Self { adaptive: Adaptive::new(policy, seed), before: Vec::new() }
    }

    /// What the members have counted since the last look. Of one that is new nothing counts yet.
    fn gained(&mut self, members: &[Entry]) -> Sample {
        let now: Vec<_> =
            members.iter().map(|member| (member.standing.id, member.standing.sample())).collect();
        let gains = now.iter().map(|(id, now)| {
            let before =
                self.before.iter().find(|(other, _)| other == id).map_or(*now, |(_, before)| *before);
            Sample {
                answered: now.answered.saturating_sub(before.answered),
                latency_us: now.latency_us.saturating_sub(before.latency_us),
                ..Sample::default()
            }
        });
        let gained = gains.fold(Sample::default(), |all, gain| Sample {
            answered: all.answered + gain.answered,
            latency_us: all.latency_us + gain.latency_us,
            ..all
        });
        self.before = now;
        gained
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint_sets::EndpointSets;
    use crate::endpoint_sets::Names;
    use crate::labels::Labels;
    use crate::service::{Address, Endpoint, EndpointLimits, Mode, Service};
    use crate::service_shared::Notifier;
    use std::time::Duration;

    /// Every place of the endpoints is taken for a moment.
    fn fill(endpoint_set: &EndpointSet, concurrency_limits: &LimitRegistry) {
        for concurrency_limits in concurrency_limits.service(&endpoint_set.service).endpoints {
            let limit_handle = concurrency_limits.in_flight.unwrap();
            let inside: Vec<_> = std::iter::from_fn(|| limit_handle.enter()).collect();
            drop(inside);
        }
    }

    #[test]
    fn limits_fall_when_endpoints_queue_and_probes_take_turns() {
        let endpoint = |at| Endpoint {
            url: format!("http://192.0.2.{at}").into(),
            address: Address::Socket(([192, 0, 2, at], 80).into()),
            weight: 1,
            tier: 0,
            mode: Mode::default(),
            labels: Labels::default(),
            limits: EndpointLimits::default(),
            is_added: false,
        };
        let mut service =
            Service { name: "s".into(), endpoints: vec![endpoint(1), endpoint(2)], ..Service::default() };
        service.limits.adaptive = Some(AdaptivePolicy::default());
        let (endpoint_sets, concurrency_limits) =
            (EndpointSets::new(1, Notifier::default()), LimitRegistry::default());
        concurrency_limits.adopt([].into_iter(), [&service].into_iter());
        let drawn = endpoint_sets.update(&[Arc::new(service)], &Names::new());
        let endpoint_set = &drawn[0];
        let mut limits = AdaptiveLimits::default();
        let of = |at: usize| {
            let url = &endpoint_set.service.endpoints[at].url;
            concurrency_limits.endpoint(&endpoint_set.service.name, url).unwrap().limit()
        };
        let (mut both, mut any) = (0, 0);
        for _ in 0..120 {
            // Ten places of 10 ms each: who is one of n waits n ms.
            for at in [0, 1] {
                let latency = Duration::from_millis(u64::from(of(at)).max(10));
                let entry = &endpoint_set.entries[at];
                (0..1_000).for_each(|_| entry.standing.count(0, Some(latency)));
            }
            fill(endpoint_set, &concurrency_limits);
            limits.tick(&drawn, &concurrency_limits);
            let probing = limits.0.values().filter(|known| known.adaptive.is_probing()).count();
            any += usize::from(probing > 0);
            both += usize::from(probing > 1);
        }
        assert!(any > 0 && both == 0, "{both} of {any} seconds");
        for at in [0, 1] {
            assert!((10..40).contains(&of(at)), "{}", of(at));
        }
        limits.tick(&[], &concurrency_limits);
        assert!(limits.0.is_empty());
    }
}
