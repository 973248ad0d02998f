//! Where each value of a plan comes from: the line that says so, or nothing.
//!
//! Made by `load` of the tree that was read, once the plan is there, and kept beside it: workers never see it. It holds
//! places and names, no values. Asked for a field, it goes the way that the value went: the object itself,
//! its service, `defaults`, what is built in.

mod explained;
mod places;

use crate::interpolate::{Filled, Variable};
use crate::parse::Node;
use crate::source::Sources;
use crate::validate::FilterPlace;
use places::{Places, Row};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use thalweg_proxy::plan::{Plan, To};

/// What a field belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Object<'a> {
    /// A route by its name, also one that was made from its position.
    Route(&'a str),
    /// A route by its name, as it is towards one of several services.
    RouteTo(&'a str, &'a str),
    /// A service by its name, also one that a route makes of its URLs.
    Service(&'a str),
    /// A listener by its name.
    Listener(&'a str),
    /// None of them: a section of the top, as in `limits.max_head`.
    Top,
}

/// A line of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    /// The file as it was named.
    pub file: Arc<str>,
    /// From 1.
    pub line: u32,
}

/// By what a place speaks for a value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum By {
    /// The object says it itself.
    Itself,
    /// The route's service says it.
    Service(Arc<str>),
    /// `defaults` says it.
    Defaults,
    /// A chain of filters, which the route names.
    Chain(Arc<str>),
}

/// Where a value comes from.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Origin {
    /// Where it is written, and by what that speaks for it; `None`: it is built in.
    pub written: Option<(Place, By)>,
    /// Variables that it was filled in from.
    pub variables: Vec<Variable>,
    /// Where the file of that place is included.
    pub included: Option<Place>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((place, by)) = &self.written else { return f.write_str("built in") };
        write!(f, "{place}")?;
        let mut notes = match by {
            By::Itself => Vec::new(),
            By::Service(name) => vec![format!("service `{name}`")],
            By::Defaults => vec!["defaults".to_owned()],
            By::Chain(name) => vec![format!("chain `{name}`")],
        };
        notes.extend(self.variables.iter().map(|variable| {
            let default = if variable.by_default { ", which is not set" } else { "" };
            format!("variable {}{default}", variable.name)
        }));
        notes.extend(self.included.iter().map(|place| format!("included at {place}")));
        if notes.is_empty() { Ok(()) } else { write!(f, " ({})", notes.join("; ")) }
    }
}

impl Origin {
    /// The same in words; `None`: it is built in.
    pub fn in_words(&self) -> Option<String> {
        self.written.as_ref().map(|_| format!("written in {self}"))
    }
}

/// Where the values of one configuration come from.
#[derive(Clone, Debug, Default)]
pub struct Provenance {
    places: Places,
    routes: HashMap<Arc<str>, RouteOrigin>,
    services: HashMap<Arc<str>, Row>,
    listeners: HashMap<Arc<str>, Row>,
    /// Services that routes make of their URLs, and the rows of those routes.
    inline: HashMap<Arc<str>, Row>,
}

#[derive(Clone, Debug)]
struct RouteOrigin {
    row: Row,
    /// The service whose timeouts hold; `None`: there are several, or it is one of the route's own.
    service: Option<Arc<str>>,
    filters: Vec<FilterPlace>,
}

/// Fields of a route that its service may say instead.
const OF_SERVICE: &[&str] = &["timeouts"];
/// Fields that `defaults` may say instead, by object.
const ROUTE_DEFAULTS: &[&str] = &["timeouts", "limits"];
const SERVICE_DEFAULTS: &[&str] = &["timeouts", "retry"];

impl Provenance {
    /// Remembers where everything stands. `filters`: of each route of the plan.
    pub(crate) fn new(
        root: &Node,
        (sources, filled): (&Sources, &Filled),
        plan: &Plan,
        filters: Vec<Vec<FilterPlace>>,
    ) -> Self {
        let places = Places::new(root, sources, filled);
        let named = |section: &str| -> HashMap<Arc<str>, Row> {
            places.section(section).filter_map(|row| Some((places.key(row)?.into(), row))).collect()
        };
        let (services, listeners) = (named("services"), named("listeners"));
        let (mut routes, mut inline) = (HashMap::new(), HashMap::new());
        for ((row, route), filters) in places.section("routes").zip(&plan.routes).zip(filters) {
            let service = match &route.to {
                To::Service(id) => plan.services.get(id.0 as usize).map(|service| service.name.clone()),
                To::Sealed(sealed) => {
                    plan.services.get(sealed.service.0 as usize).map(|service| service.name.clone())
                }
                To::Split(_) | To::Nowhere => None,
            };
            let (named, own) = match service {
                Some(name) if services.contains_key(&name) => (Some(name), None),
                own => (None, own),
            };
            inline.extend(own.map(|name| (name, row)));
            routes.insert(route.name.clone(), RouteOrigin { row, service: named, filters });
        }
        Self { places, routes, services, listeners, inline }
    }

    /// Where a field comes from. The field is a path of keys as the object has them: `timeouts.first_byte`,
    /// `match.host`, `filters[1]` (of the filters that run, those of chains included), `endpoints[0].weight`. A
    /// field that nobody wrote, and one that does not exist, is built in.
    pub fn of(&self, object: Object<'_>, field: &str) -> Origin {
        match object {
            Object::Route(name) => self.of_route(name, None, field),
            Object::RouteTo(name, service) => self.of_route(name, Some(service), field),
            Object::Service(name) => self.of_service(name, field),
            Object::Listener(name) => self.first(&[(By::Itself, self.listeners.get(name).copied())], field),
            Object::Top => self.first(&[(By::Itself, self.places.root())], field),
        }
    }

    /// Where an object itself is written; a service that a route makes of its URLs, where these are.
    pub fn place(&self, object: Object<'_>) -> Option<Place> {
        let row = match object {
            Object::Route(name) | Object::RouteTo(name, _) => Some(self.routes.get(name)?.row),
            Object::Service(name) => self.services.get(name).or_else(|| self.inline.get(name)).copied(),
            Object::Listener(name) => self.listeners.get(name).copied(),
            Object::Top => self.places.root(),
        };
        self.places.place(row?).map(|(place, _)| place)
    }

    /// Where each endpoint of a service is written, in the order in which they are.
    pub fn endpoints(&self, service: &str) -> Vec<Origin> {
        let (row, key) = match self.inline.get(service) {
            Some(route) => (Some(*route), "to"),
            None => (self.services.get(service).copied(), "endpoints"),
        };
        let Some(list) = row.and_then(|row| self.places.descend(row, &[key])) else { return Vec::new() };
        let mut rows: Vec<Row> = self.places.elements(list).collect();
        if rows.is_empty() {
            rows.push(list);
        }
        rows.into_iter().map(|row| self.origin(Some(row), By::Itself)).collect()
    }

    fn of_route(&self, name: &str, to: Option<&str>, field: &str) -> Origin {
        let Some(route) = self.routes.get(name) else { return Origin::default() };
        let filter = field.strip_prefix("filters[").and_then(|rest| rest.strip_suffix(']'));
        if let Some(at) = filter.and_then(|at| at.parse::<usize>().ok()) {
            let Some(place) = route.filters.get(at) else { return Origin::default() };
            let by = place.chain.clone().map_or(By::Itself, By::Chain);
            return self.origin(self.places.element(place.span), by);
        }
        let section = field.split(['.', '[']).next().unwrap_or(field);
        let mut layers = vec![(By::Itself, Some(route.row))];
        if let (true, Some(service)) = (OF_SERVICE.contains(&section), to.or(route.service.as_deref())) {
            layers.push((By::Service(service.into()), self.services.get(service).copied()));
        }
        if ROUTE_DEFAULTS.contains(&section) {
            layers.push((By::Defaults, self.defaults()));
        }
        self.first(&layers, field)
    }

    fn of_service(&self, name: &str, field: &str) -> Origin {
        let section = field.split(['.', '[']).next().unwrap_or(field);
        let mut layers = Vec::new();
        if let Some(route) = self.inline.get(name) {
            // The URLs of its route are all that such a service has of its own.
            if let Some(rest) = field.strip_prefix("endpoints") {
                return self.first(&[(By::Itself, Some(*route))], &format!("to{rest}"));
            }
        } else {
            layers.push((By::Itself, self.services.get(name).copied()));
        }
        if SERVICE_DEFAULTS.contains(&section) {
            layers.push((By::Defaults, self.defaults()));
        }
        self.first(&layers, field)
    }

    fn defaults(&self) -> Option<Row> {
        self.places.descend(self.places.root()?, &["defaults"])
    }

    /// The first layer that says something of the field decides, with what it says and what it leaves open.
    fn first(&self, layers: &[(By, Option<Row>)], field: &str) -> Origin {
        let steps: Vec<&str> = field.split(['.', '[']).map(|step| step.trim_end_matches(']')).collect();
        // `limits.queue` is inherited key by key, as `limits` is; anything else below a section as a whole.
        let unit = if steps.starts_with(&["limits", "queue"]) { 3 } else { 2 };
        let (unit, rest) = steps.split_at(unit.min(steps.len()));
        for (by, row) in layers {
            let Some(row) = row.and_then(|row| self.places.descend(row, unit)) else { continue };
            return match self.places.descend(row, rest) {
                Some(row) => self.origin(Some(row), by.clone()),
                None => Origin::default(),
            };
        }
        Origin::default()
    }

    fn origin(&self, row: Option<Row>, by: By) -> Origin {
        let found = row.and_then(|row| Some((row, self.places.place(row)?)));
        let Some((row, (place, included))) = found else { return Origin::default() };
        Origin { written: Some((place, by)), variables: self.places.variables(row), included }
    }
}

#[cfg(test)]
mod tests;
