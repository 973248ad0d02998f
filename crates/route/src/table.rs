//! The table: what a plan's routes are compiled to.
//!
//! Built by the plan's compiler, asked by the proxy once per exchange and by `explain`. Invariant: immutable
//! once built; routes are held in the order of their precedence, so that a smaller number is a better route
//! wherever two are compared.

use std::fmt;

use ipnet::IpNet;

use crate::candidates::{Candidate, Candidates};
use crate::conditions::Route;
use crate::host::HostPattern;
use crate::hosts::Hosts;
use crate::level::Paths;
use crate::path::PathPattern;
use crate::precedence::Precedence;
use crate::request::Query;
use crate::value::FieldMatch;

/// What a request must be for a route to take it. All conditions must hold; an empty list asks nothing.
#[derive(Clone, Debug, Default)]
pub struct RouteMatch {
    /// Hosts, of which one must match; empty for any.
    pub hosts: Vec<HostPattern>,
    /// The path; `None` for any.
    pub path: Option<PathPattern>,
    /// Further paths, of which one may match in place of `path`.
    pub more_paths: Vec<PathPattern>,
    /// Methods, of which one must be the request's, case-sensitive. `GET` does not stand for `HEAD`.
    pub methods: Vec<String>,
    /// Header conditions, all of which must hold.
    pub headers: Vec<FieldMatch>,
    /// Query conditions, all of which must hold.
    pub query: Vec<FieldMatch>,
    /// Networks, of which one must hold the client.
    pub clients: Vec<IpNet>,
    /// Listeners, by their number in the plan; empty for all.
    pub listeners: Vec<u16>,
}

impl RouteMatch {
    /// The paths, of which one must match: `None` alone for any.
    pub fn paths(&self) -> impl Iterator<Item = Option<&PathPattern>> {
        std::iter::once(self.path.as_ref()).chain(self.more_paths.iter().map(Some))
    }

    /// Whether the path of a request is one of them.
    pub fn takes_path(&self, path: &[u8]) -> bool {
        self.paths().any(|pattern| pattern.is_none_or(|pattern| pattern.matches(path)))
    }
}

/// A route: its index in the list that the table was built from.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RouteId(pub u32);

/// Why a table could not be built.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BuildError {
    /// The index of the route.
    pub route: usize,
    /// What is wrong, lower case, without full stop.
    pub reason: String,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route {}: {}", self.route + 1, self.reason)
    }
}

impl std::error::Error for BuildError {}

/// A compiled routing table.
#[derive(Debug, Default)]
pub struct Table {
    /// Best first.
    routes: Vec<Route>,
    hosts: Hosts,
    paths: Paths,
    /// As they were given, in the order of the file: for those who explain, never for a lookup.
    written: Box<[RouteMatch]>,
}

impl Table {
    /// Compiles routes, given in the order of the file.
    ///
    /// # Errors
    /// The first route with a pattern that is not in the normal form which the `parse` functions
    /// give, or with a name that no request can carry.
    pub fn build(routes: &[RouteMatch]) -> Result<Self, BuildError> {
        let mut compiled = Vec::with_capacity(routes.len());
        for (position, route) in routes.iter().enumerate() {
            let blame = |reason| BuildError { route: position, reason };
            check_normal(route).map_err(blame)?;
            let id = route_id(position).map_err(blame)?;
            for path in route.paths() {
                let compiled_route = Route::new(id, route).map_err(blame)?;
                compiled.push((Precedence::of(route, path, position), compiled_route, path));
            }
        }
        // Stable: paths of one route may be alike.
        compiled.sort_by_key(|(precedence, ..)| *precedence);
        let mut table = Self { written: routes.into(), ..Self::default() };
        for (number, (_, compiled, path)) in (0_u32..).zip(compiled) {
            let route = &routes[compiled.id.0 as usize];
            let hosts = if route.hosts.is_empty() { &[HostPattern::Any][..] } else { &route.hosts };
            for host in hosts {
                table.hosts.level(host).insert(&mut table.paths, path, number);
            }
            table.routes.push(compiled);
        }
        table.paths.tree.finish();
        Ok(table)
    }

    /// The route that takes a request.
    pub fn find(&self, request: &Query<'_>) -> Option<RouteId> {
        self.walk(request).find(|route| route.check(request).is_ok()).map(|route| route.id)
    }

    /// Every route whose host and path match, best first, with the reason why it does not take the request;
    /// the first without one is what [`Self::find`] gives. A route may come up once for each of its hosts and paths.
    pub fn candidates<'a>(&'a self, request: &'a Query<'a>) -> impl Iterator<Item = Candidate> + 'a {
        self.walk(request).map(|route| Candidate { id: route.id, outcome: route.check(request) })
    }

    /// How many routes it was built from.
    pub fn len(&self) -> usize {
        self.written.len()
    }

    /// Whether it was built from none.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// What a route asks for, as it was given.
    pub fn written(&self, id: RouteId) -> Option<&RouteMatch> {
        self.written.get(id.0 as usize)
    }

    /// All routes as they were given, in the order of the file.
    pub(crate) fn all_written(&self) -> &[RouteMatch] {
        &self.written
    }

    fn walk<'a>(&'a self, request: &'a Query<'_>) -> Candidates<'a> {
        Candidates::new(&self.routes, &self.paths, self.hosts.levels(request.host), request.path)
    }
}

fn route_id(position: usize) -> Result<RouteId, String> {
    u32::try_from(position)
        .ok()
        .filter(|id| *id < u32::MAX)
        .map(RouteId)
        .ok_or_else(|| "there are too many routes".to_owned())
}

/// The variants are open, so a pattern may not have come through `parse`.
fn check_normal(route: &RouteMatch) -> Result<(), String> {
    for host in &route.hosts {
        if HostPattern::parse(&host.to_string())? != *host {
            return Err(format!("the host `{host}` is not in its normal form"));
        }
    }
    for path in route.paths().flatten() {
        match path {
            PathPattern::Exact(path) if !path.starts_with('/') => {
                return Err(format!("the path `{path}` must begin with `/`"));
            }
            PathPattern::Prefix(prefix) if !prefix.is_empty() && !prefix.starts_with('/') => {
                return Err(format!("the prefix `{prefix}` must begin with `/`"));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
