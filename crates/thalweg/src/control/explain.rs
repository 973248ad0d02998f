//! `GET /api/v1/explain`: the plan in force, and how its endpoints stand now.

use super::admin::Shared;
use super::endpoint_status::{condition_of, members_of};
use std::time::Instant;
use thalweg_proxy::explain::{EndpointNow, Explanation, Question, Unaskable, explain};

impl Shared {
    /// What becomes of a request.
    pub(super) fn tell(&self, question: &Question, all: bool) -> Result<Explanation, Unaskable> {
        // Changes are made under this lock: plan and endpoint sets are of the same moment.
        let (plan, endpoint_sets) = {
            let _runtime = self.runtime();
            (self.worker_pool().plan(), self.worker_pool().endpoint_sets())
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
        self.origin().provenance.add_origins(&plan, &mut told);
        Ok(told)
    }
}
