use super::*;

fn route(host: &str, path: &str) -> RouteMatch {
    RouteMatch {
        hosts: host
            .split(' ')
            .filter(|host| !host.is_empty())
            .map(|h| HostPattern::parse(h).unwrap())
            .collect(),
        path: match path.strip_prefix('~') {
            Some(regex) => Some(PathPattern::regex(regex).unwrap()),
            None => (!path.is_empty()).then(|| PathPattern::parse(path).unwrap()),
        },
        ..RouteMatch::default()
    }
}

fn field(name: &str, value: ValueMatch) -> FieldMatch {
    FieldMatch { name: name.into(), value }
}

fn hidden(routes: &[RouteMatch]) -> Vec<(usize, usize)> {
    shadows(routes).iter().map(|shadow| (shadow.hidden, shadow.by)).collect()
}

#[test]
fn the_same_match_again_is_never_reached() {
    for (host, path) in [("", ""), ("a.b", "/x"), ("*.a.b", "/x/*"), ("a b", "/u/{id}"), ("", "~/[a-z]+")] {
        assert_eq!(hidden(&[route(host, path), route(host, path)]), [(1, 0)], "{host} {path}");
    }
    assert_eq!(hidden(&[route("", "/*"), route("*", "")]), [(1, 0)]);
    assert_eq!(hidden(&[route("a", "/x/{id}"), route("a", "/x/{name}")]), [(1, 0)]);
}

#[test]
fn a_prefix_hides_the_patterns_and_regexes_below_it_whatever_the_order() {
    assert_eq!(hidden(&[route("", "/users/{id}/posts"), route("", "/users/*")]), [(0, 1)]);
    assert_eq!(hidden(&[route("", "~/img/[a-z]+"), route("", "/img/*")]), [(0, 1)]);
    assert_eq!(hidden(&[route("", "~/imgs?/[a-z]+"), route("", "/img/*")]), []);
    assert_eq!(hidden(&[route("", "~/img/a|/b"), route("", "/img/*")]), []);
    assert_eq!(hidden(&[route("", "/{tenant}/users/*"), route("", "/users/*")]), []);
}

#[test]
fn what_is_more_special_is_reached() {
    assert_eq!(hidden(&[route("", "/*"), route("", "/a/*"), route("", "/a/b"), route("a.b", "/*")]), []);
    assert_eq!(hidden(&[route("*.b", "/x"), route("a.b", "/x"), route("*", "/x")]), []);
}

#[test]
fn each_of_several_hosts_has_to_be_hidden() {
    assert_eq!(hidden(&[route("a b", "/x"), route("b c", "/x")]), []);
    assert_eq!(hidden(&[route("a b", "/x"), route("c", "/x"), route("b c", "/x")]), [(2, 0)]);
}

#[test]
fn conditions_hide_only_what_implies_them() {
    let with = |methods: &[&str], headers: Vec<FieldMatch>| RouteMatch {
        methods: methods.iter().map(|method| (*method).to_owned()).collect(),
        headers,
        ..RouteMatch::default()
    };
    assert_eq!(hidden(&[with(&["GET", "HEAD"], vec![]), with(&["GET"], vec![])]), [(1, 0)]);
    assert_eq!(hidden(&[with(&["GET"], vec![]), with(&["GET", "HEAD"], vec![])]), []);
    let exact = |text: &str| vec![field("X-A", ValueMatch::Exact(text.into()))];
    let prefix = |text: &str| vec![field("x-a", ValueMatch::Prefix(text.into()))];
    assert_eq!(hidden(&[with(&[], prefix("a")), with(&[], exact("abc"))]), [(1, 0)]);
    assert_eq!(hidden(&[with(&[], exact("abc")), with(&[], prefix("a"))]), []);
    let absent = || vec![field("x-a", ValueMatch::Absent)];
    assert_eq!(hidden(&[with(&[], absent()), with(&[], exact("a"))]), []);
    assert_eq!(hidden(&[with(&[], absent()), with(&[], absent())]), [(1, 0)]);
}

#[test]
fn ten_thousand_routes_take_no_time_to_speak_of() {
    let routes: Vec<RouteMatch> = (0..10_000)
        .map(|n| match n % 4 {
            0 => route("", &format!("/a{n}/*")),
            1 => route("", &format!("/a/{{id}}/b{n}")),
            2 => route(&format!("h{n}.example.com"), "/x"),
            _ => {
                RouteMatch { headers: vec![field(&format!("x-{n}"), ValueMatch::Present)], ..route("", "/y") }
            }
        })
        .collect();
    let begin = std::time::Instant::now();
    assert_eq!(hidden(&routes), []);
    assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
}
