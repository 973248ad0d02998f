//! What the configuration says, below the changes of the admin API.

use std::ops::Deref;
use std::sync::Arc;
use thalweg_proxy::Plan;
use thalweg_proxy::plan::Traffic;
use thalweg_upstream::{Endpoint, Service};

/// The plan as the configuration says, and what is asked of it at each change of endpoints.
#[derive(Debug)]
pub(crate) struct Base {
    plan: Plan,
    traffic: Vec<Traffic>,
}

impl From<Plan> for Base {
    fn from(plan: Plan) -> Self {
        Self { traffic: plan.traffic(), plan }
    }
}

impl Deref for Base {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.plan
    }
}

impl Base {
    /// The plan alone.
    pub(crate) fn into_plan(self) -> Plan {
        self.plan
    }

    /// What goes to the service at this position.
    pub(crate) fn traffic_to(&self, service: usize) -> Traffic {
        self.traffic.get(service).copied().unwrap_or_default()
    }

    /// A source says that the service at this position has these endpoints.
    pub(crate) fn set_endpoints(&mut self, service: usize, endpoints: Vec<Endpoint>) {
        if let Some(place) = self.plan.services.get_mut(service) {
            *place = Arc::new(Service { endpoints, ..Service::clone(place) });
        }
    }
}
