//! Where the values that an explanation shows are written.

use super::{Object, Provenance};
use std::time::Duration;
use thalweg_core::units::{duration_text, size_text};
use thalweg_proxy::explain::{Explanation, ServicePart, TakenRoute, TimeoutsSeen, ValueOrigin};

impl Provenance {
    /// Says of the values of an explanation where they are written. The explanation is of the plan that these are the
    /// places of.
    pub fn add_origins(&self, told: &mut Explanation) {
        let Some(route) = &told.route else { return };
        let mut list = List { provenance: self, origins: Vec::new() };
        list.of_route(route);
        route.services.iter().filter(|part| part.chosen != Some(false)).for_each(|part| {
            part.timeouts.iter().for_each(|own| list.timeouts(Object::RouteTo(&route.name, &part.name), own));
            list.of_service(part);
        });
        told.origins = list.origins;
    }
}

struct List<'a> {
    provenance: &'a Provenance,
    origins: Vec<ValueOrigin>,
}

impl List<'_> {
    fn of_route(&mut self, route: &TakenRoute) {
        let of = Object::Route(&route.name);
        self.written(of, "match");
        for (at, filter) in route.filters.iter().enumerate() {
            self.add(of, &format!("filters[{at}]"), Some(filter.name.clone()));
        }
        self.add(of, "to", None);
        self.timeouts(of, &route.timeouts);
        self.maybe(of, "limits.max_body", route.limits.max_body.map(size_text));
        self.maybe(of, "limits.max_in_flight", route.limits.max_in_flight.map(|most| most.to_string()));
        let allowed = &route.allow_encoded;
        self.maybe(of, "allow_encoded", (!allowed.is_empty()).then(|| allowed.join(", ")));
    }

    fn timeouts(&mut self, of: Object<'_>, times: &TimeoutsSeen) {
        self.add(of, "timeouts.connect", Some(time(times.connect_ms)));
        self.add(of, "timeouts.first_byte", Some(time(times.first_byte_ms)));
        self.add(of, "timeouts.idle", Some(time(times.idle_ms)));
        self.maybe(of, "timeouts.request", times.request_ms.map(time));
    }

    fn of_service(&mut self, part: &ServicePart) {
        let of = Object::Service(&part.name);
        self.add(of, "endpoints", None);
        self.add(of, "balance", Some(part.balance.clone()));
        self.add(of, "retry.attempts", Some(part.retry.attempts.to_string()));
        self.add(of, "retry.budget", Some(format!("{}%", part.retry.budget_percent)));
        self.maybe(of, "retry.per_try_timeout", part.retry.per_try_timeout_ms.map(time));
        self.maybe(of, "retry.hedge", part.retry.hedge_after_ms.map(|ms| format!("after {}", time(ms))));
        self.written(of, "host");
        self.maybe(of, "limits.max_in_flight", part.max_in_flight.map(|most| most.to_string()));
    }

    fn maybe(&mut self, of: Object<'_>, field: &str, value: Option<String>) {
        if value.is_some() {
            self.add(of, field, value);
        }
    }

    /// Only where somebody wrote it.
    fn written(&mut self, of: Object<'_>, field: &str) {
        if self.provenance.of(of, field).written.is_some() {
            self.add(of, field, None);
        }
    }

    fn add(&mut self, of: Object<'_>, field: &str, value: Option<String>) {
        let object = match of {
            Object::Route(name) => format!("route `{name}`"),
            Object::RouteTo(name, service) => format!("route `{name}` to service `{service}`"),
            Object::Service(name) => format!("service `{name}`"),
            Object::Listener(name) => format!("listener `{name}`"),
            Object::Top => String::new(),
        };
        let origin = self.provenance.of(of, field).to_string();
        self.origins.push(ValueOrigin { object, field: field.to_owned(), value, origin });
    }
}

fn time(ms: u64) -> String {
    duration_text(Duration::from_millis(ms))
}
