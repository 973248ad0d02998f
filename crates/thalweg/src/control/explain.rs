//! `GET /api/v1/explain`: the plan in force, and how its endpoints stand now.

use super::admin::Shared;
use super::endpoint_origins::EndpointOrigins;
use super::endpoint_status::{condition_of, members_of};
use std::sync::Arc;
use std::time::Instant;
use thalweg_proxy::Plan;
use thalweg_proxy::explain::{EndpointNow, Explanation, Question, Unaskable, explain};
use thalweg_upstream::EndpointSet;

impl Shared {
    /// What becomes of a request.
    pub(super) fn tell(&self, question: &Question, all: bool) -> Result<Explanation, Unaskable> {
        // Changes are made under this lock: plan and endpoint sets are of the same moment.
        let (plan, endpoint_sets) = {
            let _runtime = self.runtime();
            let sets = self.worker_pool().endpoint_sets();
            (with_endpoints(&self.worker_pool().plan(), &sets), sets)
        };
        let now = Instant::now();
        let live = |service: &str, at: usize| {
            let endpoint_set =
                endpoint_sets.iter().find(|endpoint_set| *endpoint_set.service.name == *service)?;
            let endpoint = u32::try_from(at).ok()?;
            let stand = condition_of(endpoint_set, endpoint, now);
            let in_flight = members_of(endpoint_set, endpoint).map(|member| member.active()).sum();
            Some(EndpointNow { state: stand.condition.name().to_owned(), cause: stand.cause, in_flight })
        };
        let mut told = explain(&plan, question, all, Some(&live))?;
        let runtime = self.runtime();
        runtime.base.provenance.add_origins(&plan, &mut told);
        for part in told.route.iter_mut().flat_map(|route| &mut route.services) {
            let position = self.worker_pool().position(&part.name);
            let Some(service) = position.and_then(|at| plan.services.get(at)) else { continue };
            let origins = EndpointOrigins::of(&runtime, service, position);
            for endpoint in &mut part.endpoints {
                endpoint.origin = origins.get(&endpoint.url).1;
            }
            part.source = origins.source.map(|words| plan.secrets.concealed.hide(&words).into_owned());
        }
        drop(runtime);
        Ok(told)
    }
}

/// The plan with the endpoints that its services have now: these change without a plan.
fn with_endpoints(plan: &Arc<Plan>, sets: &[Arc<EndpointSet>]) -> Arc<Plan> {
    let mut both = plan.services.iter().zip(sets);
    if both.all(|(service, set)| Arc::ptr_eq(service, &set.service)) {
        return plan.clone();
    }
    let services = sets.iter().map(|set| set.service.clone()).collect();
    Arc::new(Plan { services, ..Plan::clone(plan) })
}
