//! Where the values that an explanation shows are written.

use super::{Object, Place, Provenance};
use crate::diff::{Action, Change, ObjectKind, ShownField, route_settings, service_settings, settings_of};
use std::collections::HashMap;
use thalweg_proxy::Plan;
use thalweg_proxy::explain::{Explanation, ValueOrigin};
use thalweg_upstream::Service;

/// Told also where nobody wrote them, since they hold for nearly every request. Of the rest, what somebody wrote.
const ALWAYS: &[&str] = &[
    "balance",
    "endpoints",
    "retry.attempts",
    "retry.budget",
    "timeouts.connect",
    "timeouts.first_byte",
    "timeouts.idle",
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
                list.all(Object::RouteTo(&taken.name, &part.name), settings_of("timeouts", timeouts, plan));
            });
            let of_service = Object::Service(&part.name);
            list.add(of_service, "endpoints", None);
            list.all(of_service, service_settings(service, plan));
        }
        told.origins = list.origins;
        let place = self.place(of_route);
        if let Some(route) = &mut told.route {
            route.origin = place.map(|place| place.to_string());
        }
    }

    /// Says of the endpoints of an explanation where they are written: of a plan that has these and no others.
    pub fn add_endpoint_origins(&self, plan: &Plan, told: &mut Explanation) {
        for part in told.route.iter_mut().flat_map(|route| &mut route.services) {
            let Some(service) = plan.services.iter().find(|service| *service.name == *part.name) else {
                continue;
            };
            let written = self.endpoint_words(service);
            for endpoint in &mut part.endpoints {
                endpoint.origin = written.get(&*endpoint.url).cloned();
            }
        }
    }

    /// Where the endpoints of a service, which has those that are written, are written: words by their URLs.
    pub fn endpoint_words<'a>(&self, service: &'a Service) -> HashMap<&'a str, String> {
        let endpoints = service.endpoints.iter().zip(self.endpoints(&service.name));
        endpoints.filter_map(|(endpoint, origin)| Some((&*endpoint.url, origin.in_words()?))).collect()
    }
}

impl Provenance {
    /// Says of changes where the side that is new is written. These are the places of the plan that is to follow.
    pub fn add_places(&self, after: &Plan, changes: &mut [Change]) {
        let mut of_service: Option<(String, Vec<Option<Place>>)> = None;
        for change in changes.iter_mut().filter(|change| change.action != Action::Removed) {
            change.place = match (change.kind, &change.service) {
                (ObjectKind::Listener, _) => self.place(Object::Listener(&change.name)),
                (ObjectKind::Route, _) => self.place(Object::Route(&change.name)),
                (ObjectKind::Service, _) => self.place(Object::Service(&change.name)),
                (ObjectKind::Endpoint, Some(service)) => {
                    // Changes of one service follow each other.
                    if of_service.as_ref().is_none_or(|(name, _)| name != service) {
                        let places = self.endpoints(service).into_iter();
                        let places = places.map(|origin| origin.written.map(|(place, _)| place));
                        of_service = Some((service.clone(), places.collect()));
                    }
                    let known = after.services.iter().find(|known| *known.name == **service);
                    let at = known.and_then(|known| {
                        known.endpoints.iter().position(|endpoint| *endpoint.url == *change.name)
                    });
                    at.zip(of_service.as_ref())
                        .and_then(|(at, (_, places))| places.get(at).cloned().flatten())
                }
                (ObjectKind::Slo, _) => self.top(&format!("slos.{}", change.name)),
                (ObjectKind::Setting, _) => self.top(&change.name),
                (ObjectKind::Webhook | ObjectKind::Endpoint, _) => None,
            };
        }
    }

    fn top(&self, field: &str) -> Option<Place> {
        self.of(Object::Top, field).written.map(|(place, _)| place)
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
