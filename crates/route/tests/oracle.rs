//! The compiled table agrees with a naive one: sort all routes by the rules as they are stated, take the
//! first that matches. The oracle shares no lookup code with the table.
#![allow(clippy::unwrap_used, reason = "a test; clippy does not see that its strategies are one too")]

use std::cmp::Reverse;
use std::net::IpAddr;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use thalweg_route::{
    FieldLookup, FieldMatch, HostPattern, PathPattern, Query, RouteId, RouteMatch, Segment, Table,
    ValueMatch, shadows,
};

const HOST_PATTERNS: &[&str] =
    &["*", "*.com", "*.b.com", "*.a.b.com", "b.com", "a.b.com", "c.a.b.com", "[::1]"];
const HOSTS: &[&str] = &["", "com", "b.com", "a.b.com", "c.a.b.com", "d.c.a.b.com", "x.com", "[::1]", ".com"];
const SEGMENTS: &[&str] = &["a", "b", "ab", ""];
const OPEN_SEGMENTS: &[&str] = &["a", "b", "ab", "{}", "*"];
const REGEXES: &[&str] = &["/a.*", "/[ab]+", ".*/b", "/a|/ab"];

struct Fields(Vec<(String, String)>);

impl FieldLookup for Fields {
    fn any(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        self.0.iter().any(|(known, value)| known == name && test(value.as_bytes()))
    }
}

fn path_pattern() -> impl Strategy<Value = Option<PathPattern>> {
    let literal = vec(select(SEGMENTS), 1..4).prop_map(|parts| format!("/{}", parts.join("/")));
    let open = (vec(select(OPEN_SEGMENTS), 1..4), any::<bool>()).prop_map(|(parts, rest)| {
        let mut text = String::new();
        for (number, part) in parts.iter().enumerate() {
            text.push('/');
            text.push_str(&if *part == "{}" { format!("{{p{number}}}") } else { (*part).to_owned() });
        }
        PathPattern::parse(&(text + if rest { "/{rest*}" } else { "" })).ok()
    });
    prop_oneof![
        1 => Just(None),
        1 => Just(Some(PathPattern::Prefix(String::new()))),
        3 => literal.clone().prop_map(|path| Some(PathPattern::Exact(path))),
        3 => literal.prop_map(|path| Some(PathPattern::Prefix(path))),
        3 => open,
        1 => select(REGEXES).prop_map(|text| PathPattern::regex(text).ok()),
    ]
}

fn field() -> impl Strategy<Value = FieldMatch> {
    let value = prop_oneof![
        Just(ValueMatch::Present),
        Just(ValueMatch::Absent),
        select(&["1", "12"][..]).prop_map(|text| ValueMatch::Exact(text.into())),
        Just(ValueMatch::Prefix("1".into())),
        Just(ValueMatch::Suffix("2".into())),
        Just(ValueMatch::Contains("1".into())),
    ];
    (select(&["x", "y"][..]), value).prop_map(|(name, value)| FieldMatch { name: name.into(), value })
}

fn route() -> impl Strategy<Value = RouteMatch> {
    let few = |list: &'static [&'static str]| vec(select(list), 0..2);
    (
        vec(select(HOST_PATTERNS), 0..3),
        path_pattern(),
        few(&["GET", "POST"]),
        prop_oneof![2 => Just(vec![]), 1 => vec(field(), 0..3)],
        prop_oneof![2 => Just(vec![]), 1 => vec(field(), 0..3)],
        few(&["10.0.0.0/8", "10.1.0.0/16", "::/0"]),
        prop_oneof![3 => Just(vec![]), 1 => vec(0..2_u16, 0..2)],
    )
        .prop_map(|(hosts, path, methods, headers, query, clients, listeners)| RouteMatch {
            hosts: hosts.iter().map(|text| HostPattern::parse(text).unwrap()).collect(),
            path,
            more_paths: Vec::new(),
            methods: methods.iter().map(|text| (*text).to_owned()).collect(),
            headers,
            query,
            clients: clients.iter().map(|text| text.parse().unwrap()).collect(),
            listeners,
        })
}

#[derive(Clone, Debug)]
struct Request {
    host: String,
    path: String,
    query: Vec<(String, String)>,
    fields: Vec<(String, String)>,
    method: String,
    client: IpAddr,
    listener: u16,
}

fn request() -> impl Strategy<Value = Request> {
    let pairs = || {
        let pair = (select(&["x", "y"][..]), select(&["", "1", "12", "2"][..]));
        vec(pair.prop_map(|(name, value)| (name.to_owned(), value.to_owned())), 0..3)
    };
    let path = prop_oneof![
        9 => vec(select(SEGMENTS), 1..5).prop_map(|parts| format!("/{}", parts.join("/"))),
        1 => Just("*".to_owned()),
    ];
    (
        select(HOSTS),
        path,
        pairs(),
        pairs(),
        select(&["GET", "POST"][..]),
        select(&["10.1.0.1", "10.2.0.1", "::1", "::ffff:10.1.0.1"][..]),
        0..2_u16,
    )
        .prop_map(|(host, path, query, fields, method, client, listener)| Request {
            host: host.into(),
            path,
            query,
            fields,
            method: method.into(),
            client: client.parse().unwrap(),
            listener,
        })
}

/// How well a host pattern fits: smaller is better.
fn host_rank(pattern: &HostPattern, host: &str) -> Option<(u8, Reverse<usize>)> {
    match pattern {
        HostPattern::Exact(name) if name == host => Some((0, Reverse(0))),
        HostPattern::Wildcard(suffix) => {
            let labels = host.strip_suffix(&format!(".{suffix}"))?;
            (!labels.is_empty()).then_some((1, Reverse(suffix.len())))
        }
        HostPattern::Any => Some((2, Reverse(0))),
        HostPattern::Exact(_) => None,
    }
}

/// How well a path pattern fits: smaller is better.
fn path_rank(pattern: Option<&PathPattern>, path: &str) -> Option<(u8, Reverse<usize>, bool)> {
    match pattern {
        None => Some((4, Reverse(0), false)),
        Some(PathPattern::Exact(text)) => (text == path).then_some((0, Reverse(0), false)),
        Some(PathPattern::Prefix(text)) => {
            let text = text.trim_end_matches('/');
            if text.is_empty() {
                return Some((4, Reverse(0), false));
            }
            (path == text || path.starts_with(&format!("{text}/"))).then_some((1, Reverse(text.len()), false))
        }
        Some(PathPattern::Pattern(pattern)) => {
            let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
            let segments = pattern.segments();
            let length_fits = if pattern.rest().is_some() {
                parts.len() >= segments.len()
            } else {
                parts.len() == segments.len()
            };
            let all = parts.iter().zip(segments).all(|(part, segment)| match segment {
                Segment::Literal(text) => part == text,
                Segment::One(_) => !part.is_empty(),
            });
            let literals = segments.iter().filter(|segment| matches!(segment, Segment::Literal(_))).count();
            (length_fits && all).then_some((2, Reverse(literals), pattern.rest().is_some()))
        }
        Some(PathPattern::Regex(regex)) => regex.matches(path.as_bytes()).then_some((3, Reverse(0), false)),
    }
}

fn field_holds(field: &FieldMatch, pairs: &[(String, String)]) -> bool {
    let mut values = pairs.iter().filter(|(name, _)| *name == field.name).map(|(_, value)| value);
    match &field.value {
        ValueMatch::Present => values.next().is_some(),
        ValueMatch::Absent => values.next().is_none(),
        ValueMatch::Exact(text) => values.any(|value| value == text),
        ValueMatch::Prefix(text) => values.any(|value| value.starts_with(text.as_str())),
        ValueMatch::Suffix(text) => values.any(|value| value.ends_with(text.as_str())),
        ValueMatch::Contains(text) => values.any(|value| value.contains(text.as_str())),
        ValueMatch::Regex(regex) => values.any(|value| regex.matches(value.as_bytes())),
    }
}

fn conditions_hold(route: &RouteMatch, request: &Request) -> bool {
    (route.listeners.is_empty() || route.listeners.contains(&request.listener))
        && (route.methods.is_empty() || route.methods.contains(&request.method))
        && (route.clients.is_empty()
            || route.clients.iter().any(|net| net.contains(&request.client.to_canonical())))
        && route.headers.iter().all(|field| field_holds(field, &request.fields))
        && route.query.iter().all(|field| field_holds(field, &request.query))
}

fn oracle(routes: &[RouteMatch], request: &Request) -> Option<u32> {
    let any = vec![HostPattern::Any];
    let fitting = routes.iter().enumerate().filter_map(|(position, route)| {
        let hosts = if route.hosts.is_empty() { &any } else { &route.hosts };
        let host = hosts.iter().filter_map(|host| host_rank(host, &request.host)).min()?;
        let path = path_rank(route.path.as_ref(), &request.path)?;
        let rest =
            (route.methods.is_empty(), Reverse(route.headers.len()), Reverse(route.query.len()), position);
        conditions_hold(route, request).then_some((host, path, rest))
    });
    fitting.min().map(|(_, _, (.., position))| position as u32)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_table_agrees_with_a_sorted_list(routes in vec(route(), 0..24), requests in vec(request(), 32)) {
        let table = Table::build(&routes).unwrap();
        for request in &requests {
            let query: Vec<String> = request.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let query = query.join("&");
            let fields = Fields(request.fields.clone());
            let asked = Query {
                listener: request.listener,
                host: request.host.as_bytes(),
                path: request.path.as_bytes(),
                query: query.as_bytes(),
                method: request.method.as_bytes(),
                client: request.client,
                fields: &fields,
            };
            let found = table.find(&asked).map(|id| id.0);
            prop_assert_eq!(found, oracle(&routes, request), "{:?}", request);
            let explained = table.candidates(&asked).find(|c| c.outcome.is_ok()).map(|c| c.id.0);
            prop_assert_eq!(found, explained);
            let mut listed: Vec<RouteId> = Vec::new();
            for candidate in table.candidates(&asked) {
                if !listed.contains(&candidate.id) {
                    listed.push(candidate.id);
                }
            }
            for pair in listed.windows(2) {
                prop_assert!(table.advantage(pair[0], pair[1], (asked.host, asked.path)).is_some(), "{:?}", pair);
                prop_assert!(table.advantage(pair[1], pair[0], (asked.host, asked.path)).is_none(), "{:?}", pair);
            }
            let (excluded, all) = table.excluded(&asked, usize::MAX);
            prop_assert_eq!(excluded.len(), all);
            listed.extend(excluded.iter().map(|candidate| candidate.id));
            listed.sort_unstable();
            prop_assert_eq!(listed, (0..routes.len() as u32).map(RouteId).collect::<Vec<_>>());
            for route in &routes {
                if let Some(path) = &route.path {
                    let fits = path_rank(Some(path), &request.path).is_some();
                    prop_assert_eq!(path.matches(request.path.as_bytes()), fits, "{}", path);
                }
            }
        }
    }

    #[test]
    fn parsing_never_panics_and_what_it_accepts_builds(text in "[/*{}.:a%2fA-C\\[\\]é ~]{0,24}") {
        if let Ok(path) = PathPattern::parse(&text) {
            prop_assert_eq!(PathPattern::parse(&path.to_string()).unwrap().to_string(), path.to_string());
            let route = RouteMatch { path: Some(path), ..RouteMatch::default() };
            prop_assert!(Table::build(&[route]).is_ok());
        }
        if let Ok(host) = HostPattern::parse(&text) {
            prop_assert_eq!(HostPattern::parse(&host.to_string()), Ok(host.clone()));
            let route = RouteMatch { hosts: vec![host], ..RouteMatch::default() };
            prop_assert!(Table::build(&[route]).is_ok());
        }
        let _ = PathPattern::regex(&text);
    }

    /// What is called unreachable is never reached: neither by requests drawn at random, nor by the table nor by the
    /// list.
    #[test]
    fn a_route_that_is_called_hidden_takes_no_request(
        routes in vec(route(), 2..12),
        again in vec((0..12_usize, 0..12_usize), 0..6),
        requests in vec(request(), 256),
    ) {
        let mut routes = routes;
        // Routes that share what they ask with another hide it far more often than those drawn alone.
        for (from, to) in again {
            let (from, to) = (from % routes.len(), to % routes.len());
            let copy = RouteMatch { path: routes[to].path.clone(), ..routes[from].clone() };
            routes.push(copy);
        }
        let hidden: Vec<u32> = shadows(&routes).iter().map(|shadow| shadow.hidden as u32).collect();
        for request in &requests {
            if let Some(taken) = oracle(&routes, request) {
                prop_assert!(!hidden.contains(&taken), "route {taken} takes {request:?}");
            }
        }
    }
}

/// The rule finds most of what a search over very many requests finds: it is not empty.
#[test]
fn few_routes_that_are_never_reached_stay_unnamed() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, TestRng, TestRunner};
    let rng = TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let (mut named, mut unreached) = (0, 0);
    for _ in 0..60 {
        let tree = vec(route(), 12).new_tree(&mut runner).unwrap();
        let mut routes = tree.current();
        routes.push(RouteMatch { listeners: vec![], ..routes[0].clone() });
        let requests = vec(request(), 3000).new_tree(&mut runner).unwrap().current();
        let mut reached = vec![false; routes.len()];
        for request in &requests {
            if let Some(taken) = oracle(&routes, request) {
                reached[taken as usize] = true;
            }
        }
        named += shadows(&routes).len();
        unreached += reached.iter().filter(|reached| !**reached).count();
    }
    assert!(named >= 30, "{named} named, {unreached} not reached");
}
