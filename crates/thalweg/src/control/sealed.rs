//! `POST /api/v1/sealed`: a label for a destination, by the plan in force.

use super::admin::Shared;
use std::sync::Arc;
use std::time::SystemTime;
use thalweg_admin::{NewLabel, Refusal, SealedLabel};
use thalweg_proxy::Plan;
use thalweg_proxy::plan::{SealedRoute, Target, To};

impl Shared {
    /// Seals a destination.
    pub(super) fn seal_label(&self, new: &NewLabel) -> Result<SealedLabel, Refusal> {
        let plan = self.worker_pool().plan();
        let (route, sealed) = choose(&plan, new.route.as_deref()).map_err(|error| match error {
            NoRoute::Unknown(detail) => Refusal::Unknown(detail),
            NoRoute::Unclear(detail) => {
                Refusal::Invalid { field: "route".into(), detail, help: Some("name one with `route`".into()) }
            }
        })?;
        let invalid = |field: &str| {
            let field = field.to_owned();
            move |detail: String| Refusal::Invalid { field, detail, help: None }
        };
        let target = Target::parse(&new.destination).map_err(invalid("destination"))?;
        check_service(&plan, &sealed, target).map_err(invalid("destination"))?;
        sealed.check_ttl(new.ttl).map_err(invalid("ttl"))?;
        let now = SystemTime::now();
        let made = sealed.seal(target, (now, new.ttl), |address| self.worker_pool().is_own(address));
        let made = made.map_err(invalid("destination"))?;
        Ok(SealedLabel {
            redacted: thalweg_proxy::plan::redacted(&made.label),
            route: route.to_owned(),
            host: made.host,
            label: made.label,
            expires: made.expires,
            key: made.key,
        })
    }
}

/// Why no route seals.
#[derive(Debug)]
pub(crate) enum NoRoute {
    /// There is none, or none of that name.
    Unknown(String),
    /// There are several, and none was named.
    Unclear(String),
}

/// The route of that name, or the only one that takes labels.
pub(crate) fn choose<'a>(plan: &'a Plan, name: Option<&str>) -> Result<(&'a str, Arc<SealedRoute>), NoRoute> {
    let sealed = plan.routes.iter().filter_map(|route| match &route.to {
        To::Sealed(sealed) => Some((&*route.name, sealed.clone())),
        _ => None,
    });
    let mut all: Vec<_> = sealed.filter(|(route, _)| name.is_none_or(|name| name == *route)).collect();
    // Routes that share keys and domain mint the same.
    all.dedup_by(|(_, one), (_, other)| {
        one.keyring == other.keyring && one.allow == other.allow && one.named == other.named
    });
    match (all.len(), name) {
        (0, None) => Err(NoRoute::Unknown("no route takes sealed destinations".into())),
        (0, Some(name)) => {
            Err(NoRoute::Unknown(format!("there is no route `{name}` that takes sealed destinations")))
        }
        (1, _) => Ok(all.swap_remove(0)),
        _ => {
            let names: Vec<_> = all.iter().map(|(route, _)| format!("`{route}`")).collect();
            Err(NoRoute::Unclear(format!("several routes take sealed destinations: {}", names.join(", "))))
        }
    }
}

/// A label for a service that the route does not lead to would be refused.
pub(crate) fn check_service(plan: &Plan, sealed: &SealedRoute, target: Target<'_>) -> Result<(), String> {
    let Target::Service(name) = target else { return Ok(()) };
    let names = sealed.named.iter().filter_map(|service| plan.services.get(service.0 as usize));
    match names.clone().any(|service| *service.name == *name) {
        true => Ok(()),
        false => Err(format!("`{name}` is none of the `services` that labels of this route may name")),
    }
}
