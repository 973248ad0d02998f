//! Where the values that an explanation shows are written.

use super::{Object, Provenance};
use crate::diff::{ShownField, route_settings, service_settings, settings_of};
use thalweg_proxy::Plan;
use thalweg_proxy::explain::{Explanation, ValueOrigin};

/// Told also where nobody wrote them, since they hold for nearly every request. Of the rest, what somebody wrote.
const ALWAYS: &[&str] = &[
    "balance",
    "endpoints",
    "retry.attempts",
    "retry.budget",
    "timeouts.connect",
    "timeouts.first_byte",
    "timeouts.idle",
    "to",
];

impl Provenance {
    /// Says of the values of an explanation where they are written. These are the places of the plan that it is of.
    pub fn add_origins(&self, plan: &Plan, told: &mut Explanation) {
        let Some(taken) = &told.route else { return };
        let Some(route) = plan.routes.iter().find(|route| *route.name == *taken.name) else { return };
        let mut list = List { provenance: self, origins: Vec::new() };
        let of_route = Object::Route(&taken.name);
        list.add(of_route, "match", None);
        list.all(of_route, route_settings(route, plan));
        for part in taken.services.iter().filter(|part| part.chosen != Some(false)) {
            let Some(service) = plan.services.iter().find(|service| *service.name == *part.name) else {
                continue;
            };
            let own = route.service_timeouts.iter();
            let own = own
                .filter(|(id, _)| plan.services.get(id.0 as usize).is_some_and(|it| it.name == service.name));
            own.for_each(|(_, timeouts)| {
                list.all(Object::RouteTo(&taken.name, &part.name), settings_of("timeouts", timeouts));
            });
            let of_service = Object::Service(&part.name);
            list.add(of_service, "endpoints", None);
            list.all(of_service, service_settings(service));
        }
        told.origins = list.origins;
    }
}

struct List<'a> {
    provenance: &'a Provenance,
    origins: Vec<ValueOrigin>,
}

impl List<'_> {
    fn all(&mut self, of: Object<'_>, fields: Vec<ShownField>) {
        // What a match asks for is told as a whole.
        let fields = fields.into_iter().filter(|(name, _)| !name.starts_with("match."));
        fields.for_each(|(name, value)| self.add(of, &name, value));
    }

    fn add(&mut self, of: Object<'_>, field: &str, value: Option<String>) {
        let origin = self.provenance.of(of, field);
        if origin.written.is_none() && !ALWAYS.contains(&field) && !field.starts_with("filters[") {
            return;
        }
        let object = match of {
            Object::Route(name) => format!("route `{name}`"),
            Object::RouteTo(name, service) => format!("route `{name}` to service `{service}`"),
            Object::Service(name) => format!("service `{name}`"),
            Object::Listener(name) => format!("listener `{name}`"),
            Object::Top => String::new(),
        };
        self.origins.push(ValueOrigin { object, field: field.to_owned(), value, origin: origin.to_string() });
    }
}
