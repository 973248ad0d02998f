//! What a route asks beside host and path, compiled.
//!
//! Tested for one candidate after the other, cheapest condition first. `find` and `explain` share it: a
//! failure names the condition.

use std::fmt;

use crate::clients::AddressSet;
use crate::query;
use crate::request::Query;
use crate::table::{RouteId, RouteMatch};
use crate::value::FieldMatch;

/// Why a route does not take the request: the first condition that failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Miss {
    /// None of the route's hosts matches. A candidate never misses by this.
    Host,
    /// The path does not match. A candidate never misses by this either.
    Path,
    /// The request came in on a listener that the route does not name.
    Listener,
    /// The route does not name the method.
    Method,
    /// The client's address is in none of the route's networks.
    Client,
    /// The header condition with this index failed.
    Header(usize),
    /// The query condition with this index failed.
    Query(usize),
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("the host is not one of the route's"),
            Self::Path => f.write_str("the path is not the route's"),
            Self::Listener => f.write_str("the listener is not one of the route's"),
            Self::Method => f.write_str("the method is not one of the route's"),
            Self::Client => f.write_str("the client is in none of the route's networks"),
            Self::Header(index) => write!(f, "header condition {} fails", index + 1),
            Self::Query(index) => write!(f, "query condition {} fails", index + 1),
        }
    }
}

/// One route of the table. Small: most routes ask nothing beside host and path, and a large table of them
/// should fit the processor's caches.
#[derive(Debug)]
pub(crate) struct Route {
    /// Its place in the list that the table was built from.
    pub id: RouteId,
    conditions: Option<Box<Conditions>>,
}

#[derive(Debug)]
struct Conditions {
    listeners: Box<[u16]>,
    methods: Box<[Box<[u8]>]>,
    clients: AddressSet,
    headers: Box<[FieldMatch]>,
    query: Box<[FieldMatch]>,
}

impl Route {
    /// Compiles the conditions of a route.
    ///
    /// # Errors
    /// A sentence about a method or header name that no request can have.
    pub(crate) fn new(id: RouteId, route: &RouteMatch) -> Result<Self, String> {
        if let Some(method) = route.methods.iter().find(|method| !is_token(method)) {
            return Err(format!("`{method}` is not a method"));
        }
        if let Some(field) = route.headers.iter().find(|field| !is_token(&field.name)) {
            return Err(format!("`{}` is not a header name", field.name));
        }
        let unconditional = route.listeners.is_empty()
            && route.methods.is_empty()
            && route.clients.is_empty()
            && route.headers.is_empty()
            && route.query.is_empty();
        Ok(Self { id, conditions: (!unconditional).then(|| Box::new(Conditions::new(route))) })
    }

    /// Whether the request passes every condition.
    ///
    /// # Errors
    /// The first condition that it fails.
    pub(crate) fn check(&self, request: &Query<'_>) -> Result<(), Miss> {
        self.conditions.as_ref().map_or(Ok(()), |conditions| conditions.check(request))
    }
}

impl Conditions {
    fn new(route: &RouteMatch) -> Self {
        let lower = |field: &FieldMatch| FieldMatch {
            name: field.name.to_ascii_lowercase(),
            value: field.value.clone(),
        };
        Self {
            listeners: route.listeners.as_slice().into(),
            methods: route.methods.iter().map(|method| method.as_bytes().into()).collect(),
            clients: AddressSet::new(&route.clients),
            headers: route.headers.iter().map(lower).collect(),
            query: route.query.as_slice().into(),
        }
    }

    fn check(&self, request: &Query<'_>) -> Result<(), Miss> {
        if !self.listeners.is_empty() && !self.listeners.contains(&request.listener) {
            return Err(Miss::Listener);
        }
        if !self.methods.is_empty() && !self.methods.iter().any(|method| **method == *request.method) {
            return Err(Miss::Method);
        }
        if !self.clients.is_empty() && !self.clients.contains(request.client) {
            return Err(Miss::Client);
        }
        for (index, field) in self.headers.iter().enumerate() {
            if !field.value.decide(|test| request.fields.any(&field.name, test)) {
                return Err(Miss::Header(index));
            }
        }
        for (index, field) in self.query.iter().enumerate() {
            if !field.value.decide(|test| query::any(request.query, field.name.as_bytes(), test)) {
                return Err(Miss::Query(index));
            }
        }
        Ok(())
    }
}

/// RFC 9110 §5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
