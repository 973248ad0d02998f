use super::*;
use crate::conditions::Miss;
use crate::request::{FieldLookup, NoFields};
use crate::value::{Regex, ValueMatch};

struct Fields(&'static [(&'static str, &'static str)]);

impl FieldLookup for Fields {
    fn any(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        self.0.iter().any(|(known, value)| *known == name && test(value.as_bytes()))
    }
}

fn route(host: &str, path: &str) -> RouteMatch {
    RouteMatch {
        hosts: host.split_whitespace().map(|text| HostPattern::parse(text).unwrap()).collect(),
        path: match path {
            "" => None,
            _ => Some(match path.strip_prefix('~') {
                Some(regex) => PathPattern::regex(regex).unwrap(),
                None => PathPattern::parse(path).unwrap(),
            }),
        },
        ..RouteMatch::default()
    }
}

fn field(name: &str, value: ValueMatch) -> FieldMatch {
    FieldMatch { name: name.into(), value }
}

fn request<'a>(host: &'a str, path: &'a str) -> Query<'a> {
    Query {
        listener: 0,
        host: host.as_bytes(),
        path: path.as_bytes(),
        query: b"",
        method: b"GET",
        client: [192, 0, 2, 1].into(),
        fields: &NoFields,
    }
}

fn find(routes: &[RouteMatch], request: &Query<'_>) -> Option<u32> {
    Table::build(routes).unwrap().find(request).map(|id| id.0)
}

#[test]
fn an_exact_host_beats_a_longer_wildcard_beats_a_shorter_one_beats_any() {
    let routes = [route("*", "/a"), route("*.com", "/a"), route("*.b.com", "/a"), route("a.b.com", "")];
    assert_eq!(find(&routes, &request("a.b.com", "/a")), Some(3));
    assert_eq!(find(&routes, &request("x.b.com", "/a")), Some(2));
    assert_eq!(find(&routes, &request("b.com", "/a")), Some(1));
    assert_eq!(find(&routes, &request("b.net", "/a")), Some(0));
}

#[test]
fn falls_through_to_the_next_host_level_when_nothing_fits() {
    let mut strict = route("a.com", "/a");
    strict.methods = vec!["POST".into()];
    let routes = [strict, route("a.com", "/b"), route("*.com", "/x"), route("", "/a")];
    assert_eq!(find(&routes, &request("a.com", "/a")), Some(3));
    assert_eq!(find(&routes, &request("a.com", "/x")), Some(2));
    assert_eq!(find(&routes, &request("a.com", "/y")), None);
}

#[test]
fn paths_go_exact_longest_prefix_pattern_regex_everything() {
    let routes = [
        route("", ""),
        route("", "~/a/.*"),
        route("", "/{x}/{rest*}"),
        route("", "/{x}/b"),
        route("", "/a/*"),
        route("", "/a/b/*"),
        route("", "/a/b"),
    ];
    for best in (0..routes.len()).rev() {
        assert_eq!(find(&routes[..=best], &request("h", "/a/b")), Some(best as u32));
    }
}

#[test]
fn a_catch_all_does_not_shadow_a_pattern() {
    for catch_all in ["", "/*"] {
        let routes = [route("", catch_all), route("", "/users/{id}")];
        assert_eq!(find(&routes, &request("h", "/users/7")), Some(1));
        assert_eq!(find(&routes, &request("h", "/users")), Some(0));
    }
}

#[test]
fn the_pattern_with_more_literal_segments_wins() {
    let routes = [route("", "/{a}/b/{c}"), route("", "/a/{b}/c"), route("", "/{a}/{b}/{c}")];
    assert_eq!(find(&routes, &request("h", "/a/b/c")), Some(1));
    assert_eq!(find(&routes, &request("h", "/x/b/c")), Some(0));
    let routes = [route("", "/a/{rest*}"), route("", "/a/{b}")];
    assert_eq!(find(&routes, &request("h", "/a/b")), Some(1));
}

#[test]
fn on_one_path_methods_then_headers_then_query_then_the_order_of_the_file_decide() {
    let plain = route("", "/a");
    let mut query = plain.clone();
    query.query = vec![field("q", ValueMatch::Present)];
    let mut header = plain.clone();
    header.headers = vec![field("X-A", ValueMatch::Present)];
    let mut headers = header.clone();
    headers.headers.push(field("x-b", ValueMatch::Absent));
    let mut method = plain.clone();
    method.methods = vec!["GET".into()];
    let routes = [plain.clone(), plain, query, header, headers, method];
    let fields = Fields(&[("x-a", "1")]);
    let full = Query { query: b"q=1", fields: &fields, ..request("h", "/a") };
    for best in (1..routes.len()).rev() {
        let expected = if best == 1 { 0 } else { best as u32 };
        assert_eq!(find(&routes[..=best], &full), Some(expected));
    }
    assert_eq!(find(&routes, &request("h", "/a")), Some(5));
    assert_eq!(find(&routes[..5], &request("h", "/a")), Some(0));
}

#[test]
fn every_condition_must_hold_and_explain_names_the_first_that_does_not() {
    let mut strict = route("", "/a");
    strict.listeners = vec![1, 2];
    strict.methods = vec!["GET".into(), "HEAD".into()];
    strict.clients = vec!["192.0.2.0/24".parse().unwrap()];
    strict.headers = vec![field("X-A", ValueMatch::Regex(Regex::parse("1|2").unwrap()))];
    strict.query = vec![field("q", ValueMatch::Exact("a b".into()))];
    let table = Table::build(&[strict]).unwrap();
    let outcome = |request: &Query<'_>| table.candidates(request).map(|c| c.outcome).collect::<Vec<_>>();
    let fields = Fields(&[("x-a", "0"), ("x-a", "2")]);
    let good = Query { listener: 2, query: b"q=a+b", fields: &fields, ..request("h", "/a") };
    assert_eq!(outcome(&good), [Ok(())]);
    assert_eq!(outcome(&Query { listener: 0, ..good }), [Err(Miss::Listener)]);
    assert_eq!(outcome(&Query { method: b"get", ..good }), [Err(Miss::Method)]);
    assert_eq!(outcome(&Query { client: [198, 51, 100, 1].into(), ..good }), [Err(Miss::Client)]);
    assert_eq!(outcome(&Query { fields: &NoFields, ..good }), [Err(Miss::Header(0))]);
    assert_eq!(outcome(&Query { query: b"q=a", ..good }), [Err(Miss::Query(0))]);
    assert_eq!(outcome(&Query { path: b"/b", ..good }), []);
}

/// Fields that are not UTF-8.
struct Raw;

impl FieldLookup for Raw {
    fn any(&self, _name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        test(b"sqlmap\xff")
    }
}

/// A byte that is not UTF-8, or a line feed, got a value past `.*`.
#[test]
fn no_byte_of_a_query_or_field_gets_past_an_expression() {
    let regex = || ValueMatch::Regex(Regex::parse(".*sqlmap.*").unwrap());
    let mut guarded = route("", "/a");
    guarded.query = vec![field("q", regex())];
    for query in ["q=sqlmap%0a", "q=%0D%0Asqlmap", "q=sqlmap%ff", "q=%c3sqlmap+"] {
        let request = Query { query: query.as_bytes(), ..request("h", "/a") };
        assert_eq!(find(&[guarded.clone(), route("", "")], &request), Some(0), "{query}");
    }
    let mut guarded = route("", "/a");
    guarded.headers = vec![field("X-A", regex())];
    let request = Query { fields: &Raw, ..request("h", "/a") };
    assert_eq!(find(&[guarded, route("", "")], &request), Some(0));
}

#[test]
fn candidates_come_in_the_order_of_precedence_with_their_reasons() {
    let mut post = route("h", "/a/b");
    post.methods = vec!["POST".into()];
    let routes = [route("", ""), route("h", "/a/*"), post, route("h", "/c"), route("h", "/a/{x}")];
    let table = Table::build(&routes).unwrap();
    let request = request("h", "/a/b");
    let found: Vec<_> = table.candidates(&request).map(|c| (c.id.0, c.outcome)).collect();
    assert_eq!(found, [(2, Err(Miss::Method)), (1, Ok(())), (4, Ok(())), (0, Ok(()))]);
}

#[test]
fn asterisk_form_is_taken_by_everything_only() {
    let routes = [route("", "/{rest*}"), route("", "/"), route("", "/*")];
    assert_eq!(find(&routes, &request("h", "*")), Some(2));
    assert_eq!(find(&routes[..2], &request("h", "*")), None);
}

#[test]
fn a_route_may_name_several_hosts_and_one_twice() {
    let routes = [route("a.com b.com a.com *.com", "/x"), route("b.com", "/*")];
    assert_eq!(find(&routes, &request("a.com", "/x")), Some(0));
    assert_eq!(find(&routes, &request("c.com", "/x")), Some(0));
    assert_eq!(find(&routes, &request("b.com", "/y")), Some(1));
}

#[test]
fn an_empty_table_takes_nothing() {
    assert_eq!(find(&[], &request("h", "/")), None);
}

#[test]
fn patterns_that_did_not_come_through_parse_are_checked() {
    let good = route("a.com", "/a");
    for bad in [
        RouteMatch { hosts: vec![HostPattern::Exact("A.com".into())], ..good.clone() },
        RouteMatch { hosts: vec![HostPattern::Wildcard("a.com:80".into())], ..good.clone() },
        RouteMatch { path: Some(PathPattern::Exact("a".into())), ..good.clone() },
        RouteMatch { path: Some(PathPattern::Prefix("a".into())), ..good.clone() },
        RouteMatch { methods: vec!["G ET".into()], ..good.clone() },
        RouteMatch { headers: vec![field("x a", ValueMatch::Present)], ..good.clone() },
    ] {
        assert_eq!(Table::build(&[good.clone(), bad]).unwrap_err().route, 1);
    }
}

/// Each path of a route has its own place in the order.
#[test]
fn a_route_with_several_paths_takes_each_of_them() {
    let mut several = route("", "/a");
    several.more_paths = vec![PathPattern::parse("/b/*").unwrap(), PathPattern::parse("/c/{id}").unwrap()];
    let table = Table::build(&[route("", "/b/x"), several, route("", "/c/1"), route("", "/*")]).unwrap();
    for (path, expected) in
        [("/a", 1), ("/b/x", 0), ("/b/y", 1), ("/c/1", 2), ("/c/2", 1), ("/d", 3), ("/a/x", 3)]
    {
        assert_eq!(table.find(&request("h", path)), Some(RouteId(expected)), "{path}");
    }
}
