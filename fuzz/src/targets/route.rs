//! Route patterns and the compiled table, against a naive reading of the same rules.
//!
//! Input: lines of text. The first is the request: host (`-` for none), path, method. Every other line
//! is a route: hosts (comma-separated, `-` for any), path (`-` for any, `~…` for a regex), methods
//! (comma-separated, may be missing). Asserts: patterns that parse are written in a form that parses to
//! the same; what parses, builds; the table gives the route that sorting all fitting routes by the
//! documented precedence gives, and `candidates` agrees with `find`.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr};
use thalweg_http::{Span, normalize_path, parse_authority, write_normal_host};
use thalweg_route::{HostPattern, NoFields, PathPattern, Query, RouteMatch, Table};

/// Routes taken from one input.
const ROUTES: usize = 24;

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut lines = text.lines();
    let request = lines.next().unwrap_or_default();
    let routes: Vec<RouteMatch> = lines.filter_map(route).take(ROUTES).collect();
    let table = Table::build(&routes).expect("what parses, builds");
    let mut words = request.split(' ');
    let Some(host) = words.next().and_then(normal_host) else { return };
    let Some(path) = words.next().and_then(normal_path) else { return };
    let query = Query {
        listener: 0,
        host: &host,
        path: &path,
        query: b"",
        method: words.next().unwrap_or("GET").as_bytes(),
        client: IpAddr::V4(Ipv4Addr::LOCALHOST),
        fields: &NoFields,
    };
    let found = table.find(&query).map(|id| id.0);
    assert_eq!(found, naive(&routes, &query), "{query:?}");
    let candidate = table.candidates(&query).find(|candidate| candidate.outcome.is_ok());
    assert_eq!(candidate.map(|candidate| candidate.id.0), found, "candidates and find differ");
}

fn route(line: &str) -> Option<RouteMatch> {
    let mut words = line.split(' ');
    let hosts = match words.next()? {
        "-" => Vec::new(),
        list => list.split(',').filter_map(host).collect(),
    };
    let path = match words.next().unwrap_or("-") {
        "-" => None,
        text => Some(path(text)?),
    };
    let methods =
        words.next().map(|list| list.split(',').filter(|m| is_method(m)).map(str::to_owned).collect());
    Some(RouteMatch { hosts, path, methods: methods.unwrap_or_default(), ..RouteMatch::default() })
}

fn is_method(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(thalweg_http::octet::is_token)
}

fn host(text: &str) -> Option<HostPattern> {
    let pattern = HostPattern::parse(text).ok()?;
    assert_eq!(HostPattern::parse(&pattern.to_string()).as_ref(), Ok(&pattern), "written otherwise");
    Some(pattern)
}

fn path(text: &str) -> Option<PathPattern> {
    if let Some(regex) = text.strip_prefix('~') {
        return PathPattern::regex(regex).ok();
    }
    let pattern = PathPattern::parse(text).ok()?;
    let written = pattern.to_string();
    let again = PathPattern::parse(&written).expect("the written form parses");
    assert_eq!(again.to_string(), written, "written otherwise");
    Some(pattern)
}

fn normal_host(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    if text != "-" {
        let authority = parse_authority(text.as_bytes(), Span::new(0, text.len())).ok()?;
        write_normal_host(authority.host.of(text.as_bytes()), &mut out);
    }
    Some(out)
}

fn normal_path(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    normalize_path(text.as_bytes(), &mut out).ok().map(|_| out)
}

/// The index of the best route by the rules of the router's page.
fn naive(routes: &[RouteMatch], query: &Query<'_>) -> Option<u32> {
    let fitting = routes.iter().enumerate().filter_map(|(position, route)| {
        let any = [HostPattern::Any];
        let hosts = if route.hosts.is_empty() { &any[..] } else { &route.hosts };
        let host = hosts.iter().filter(|host| host.matches(query.host)).map(host_rank).min()?;
        let fits = route.path.as_ref().is_none_or(|path| path.matches(query.path));
        let asked = route.methods.is_empty() || route.methods.iter().any(|m| m.as_bytes() == query.method);
        (fits && asked).then(|| (host, path_rank(route.path.as_ref()), route.methods.is_empty(), position))
    });
    fitting.min().and_then(|(.., position)| u32::try_from(position).ok())
}

fn host_rank(host: &HostPattern) -> (u8, Reverse<usize>) {
    match host {
        HostPattern::Exact(_) => (0, Reverse(0)),
        HostPattern::Wildcard(suffix) => (1, Reverse(suffix.len())),
        HostPattern::Any => (2, Reverse(0)),
    }
}

fn path_rank(path: Option<&PathPattern>) -> (u8, Reverse<usize>, bool) {
    match path {
        Some(PathPattern::Exact(_)) => (0, Reverse(0), false),
        Some(PathPattern::Prefix(prefix)) if !prefix.is_empty() => (1, Reverse(prefix.len()), false),
        Some(PathPattern::Pattern(pattern)) => (2, Reverse(pattern.literals()), pattern.rest().is_some()),
        Some(PathPattern::Regex(_)) => (3, Reverse(0), false),
        Some(PathPattern::Prefix(_)) | None => (4, Reverse(0), false),
    }
}
