//! Routes that a request misses by host or path, the nearest first: what `explain` says of them.
//!
//! Looks at every route, so it is never asked for an exchange. It agrees with the table: a route is listed here
//! exactly when it is no [`Candidate`] (tested in `tests/oracle.rs`).

use std::cmp::Reverse;

use crate::candidates::Candidate;
use crate::conditions::Miss;
use crate::host::HostPattern;
use crate::path::PathPattern;
use crate::request::Query;
use crate::table::{RouteId, RouteMatch, Table};

/// How near a request came: the host fits or the path does, labels that the hosts share from the right, bytes that the
/// paths share from the left.
type Nearness = (bool, usize, usize);

impl Table {
    /// The routes whose host or path does not match, at most `most` of them, the nearest first, and how many there are.
    pub fn excluded(&self, request: &Query<'_>, most: usize) -> (Vec<Candidate>, usize) {
        let mut found: Vec<(Reverse<Nearness>, u32, Miss)> = Vec::new();
        for (position, route) in (0..).zip(self.all_written()) {
            if let Some((miss, nearness)) = miss(route, request) {
                found.push((Reverse(nearness), position, miss));
            }
        }
        found.sort_unstable_by_key(|(nearness, position, _)| (*nearness, *position));
        let all = found.len();
        found.truncate(most);
        let candidate = |(_, id, miss)| Candidate { id: RouteId(id), outcome: Err(miss) };
        (found.into_iter().map(candidate).collect(), all)
    }
}

fn miss(route: &RouteMatch, request: &Query<'_>) -> Option<(Miss, Nearness)> {
    let host = route.hosts.is_empty() || route.hosts.iter().any(|pattern| pattern.matches(request.host));
    let path = route.takes_path(request.path);
    let labels = || route.hosts.iter().map(|pattern| shared_labels(pattern, request.host)).max().unwrap_or(0);
    match (host, path) {
        (true, true) => None,
        (true, false) => Some((Miss::Path, (true, usize::MAX, shared_bytes(route, request.path)))),
        (false, true) => Some((Miss::Host, (true, labels(), usize::MAX))),
        (false, false) => Some((Miss::Host, (false, labels(), shared_bytes(route, request.path)))),
    }
}

/// Labels that both end in.
fn shared_labels(pattern: &HostPattern, host: &[u8]) -> usize {
    let name = match pattern {
        HostPattern::Any => return 0,
        HostPattern::Exact(name) | HostPattern::Wildcard(name) => name.as_bytes(),
    };
    let split = |text| <[u8]>::rsplit(text, |byte| *byte == b'.');
    split(name).zip(split(host)).take_while(|(a, b)| a == b).count()
}

/// Bytes that both begin with.
fn shared_bytes(route: &RouteMatch, path: &[u8]) -> usize {
    let shared = |pattern: Option<&PathPattern>| match pattern {
        None | Some(PathPattern::Regex(_)) => 0,
        Some(pattern) => pattern.to_string().bytes().zip(path).take_while(|(a, b)| a == *b).count(),
    };
    route.paths().map(shared).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::NoFields;

    fn route(host: &str, path: &str) -> RouteMatch {
        RouteMatch {
            hosts: host.split_whitespace().map(|text| HostPattern::parse(text).unwrap()).collect(),
            path: Some(PathPattern::parse(path).unwrap()),
            ..RouteMatch::default()
        }
    }

    #[test]
    fn the_nearest_comes_first_and_says_what_failed() {
        let routes = [
            route("x.org", "/z"),
            route("shop.example.com", "/products/*"),
            route("www.example.com", "/orders/*"),
            route("", "/orders/7/*"),
            route("", "/orders/*"),
        ];
        let table = Table::build(&routes).unwrap();
        let request = Query {
            listener: 0,
            host: b"shop.example.com",
            path: b"/orders/8",
            query: b"",
            method: b"GET",
            client: [192, 0, 2, 1].into(),
            fields: &NoFields,
        };
        let (found, all) = table.excluded(&request, 9);
        let found: Vec<_> = found.iter().map(|c| (c.id.0, c.outcome.unwrap_err())).collect();
        assert_eq!(found, [(3, Miss::Path), (1, Miss::Path), (2, Miss::Host), (0, Miss::Host)]);
        assert_eq!(all, 4);
        let (found, all) = table.excluded(&request, 1);
        assert_eq!((found.len(), all), (1, 4));
    }
}
