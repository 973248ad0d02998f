//! A route as the admin API shows it.

use thalweg_admin::{RouteStatus, RouteTarget};
use thalweg_proxy::Plan;
use thalweg_proxy::plan::{Route, ServiceId, To};

/// Every route of the plan, in the order of the configuration.
pub(super) fn route_statuses(plan: &Plan) -> Vec<RouteStatus> {
    plan.routes.iter().enumerate().map(|(position, route)| status_at(plan, position, route)).collect()
}

/// The route of this plan.
pub(super) fn route_status(plan: &Plan, route: &Route) -> RouteStatus {
    let position = plan.routes.iter().position(|known| known.name == route.name);
    status_at(plan, position.unwrap_or(usize::MAX), route)
}

fn status_at(plan: &Plan, position: usize, route: &Route) -> RouteStatus {
    let name_of = |service: ServiceId| {
        plan.services.get(service.0 as usize).map_or(String::new(), |service| service.name.to_string())
    };
    let sealed = match &route.to {
        To::Sealed(sealed) => Some(format!("*.{}", sealed.keyring.domain())),
        To::Service(_) | To::Split(_) | To::Nowhere => None,
    };
    let to = match &route.to {
        To::Sealed(sealed) => {
            sealed.named.iter().map(|service| RouteTarget { service: name_of(*service), weight: 1 }).collect()
        }
        To::Service(service) => vec![RouteTarget { service: name_of(*service), weight: 1 }],
        To::Split(split) => {
            let parts = split.parts.iter();
            parts
                .map(|(service, weight)| RouteTarget { service: name_of(*service), weight: *weight })
                .collect()
        }
        To::Nowhere => Vec::new(),
    };
    let maintenance = route.is_on();
    RouteStatus {
        name: route.name.to_string(),
        matches: plan.secrets.concealed.hide(&route.matches).into_owned(),
        origin: None,
        listeners: plan.listeners_of(position).map(|listener| listener.name.to_string()).collect(),
        filters: route.filters.steps().iter().map(|step| step.name()).collect(),
        canary: route.canary.is_some(),
        to,
        sealed,
        maintenance,
    }
}
