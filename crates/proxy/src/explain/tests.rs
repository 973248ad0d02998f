use super::*;
use crate::plan::{
    ClientTimeouts, Limits, ListenAddress, Listener, ListenerLimits, ListenerProtocol, Route, RouteLimits,
    ServiceId, Shutdown, Split, Timeouts, To,
};
use std::sync::Arc;
use thalweg_filter::{Chain, FilterSpec, Step};
use thalweg_http::Escapes;
use thalweg_route::{FieldMatch, HostPattern, PathPattern, RouteMatch, Table, ValueMatch};
use thalweg_upstream::{Address, Endpoint, EndpointLimits, Labels, Mode, Service};

fn endpoint(url: &str) -> Endpoint {
    Endpoint {
        url: url.into(),
        address: Address::Socket(url.strip_prefix("http://").unwrap().parse().unwrap()),
        weight: 1,
        tier: 0,
        mode: Mode::Ready,
        labels: Labels::default(),
        limits: EndpointLimits::default(),
        is_added: false,
    }
}

fn service(name: &str, urls: &[&str]) -> Arc<Service> {
    let endpoints = urls.iter().map(|url| endpoint(url)).collect();
    Arc::new(Service { name: name.into(), endpoints, ..Service::default() })
}

fn route(name: &str, to: To) -> Route {
    Route {
        name: name.into(),
        matches: name.into(),
        conceals: false,
        filters: Chain::default(),
        filter_variants: Arc::new([]),
        patterns: Arc::new([]),
        to,
        canary: None,
        choices: Arc::new([]),
        timeouts: Timeouts::default(),
        service_timeouts: Arc::new([]),
        limits: RouteLimits::default(),
        allow_encoded: Escapes::NONE,
    }
}

fn listener(name: &str, address: &str) -> Listener {
    Listener {
        name: name.into(),
        address: ListenAddress::Tcp { address: address.parse().unwrap(), dual_stack: false },
        protocol: ListenerProtocol::Http,
        limits: ListenerLimits::default(),
        defer_accept: true,
        h2c: false,
        allow_half_close: false,
        redirect_https: false,
        expected_responses: None,
        proxy_protocol: None,
        access: None,
        tls: None,
    }
}

/// A shop: `products` strips its prefix, `beta` asks for a header, `canary` is split, `inner` has its own listener.
fn plan() -> Plan {
    let strip = Chain::new(vec![Step::always(strip_prefix("/products"))]);
    let host = || vec![HostPattern::parse("shop.example.com").unwrap()];
    let path = |text| Some(PathPattern::parse(text).unwrap());
    let beta = FieldMatch { name: "X-Beta".into(), value: ValueMatch::Exact("on".into()) };
    let parts = vec![(ServiceId(0), 95), (ServiceId(1), 5)];
    let matches = [
        RouteMatch { hosts: host(), path: path("/products/*"), ..RouteMatch::default() },
        RouteMatch { hosts: host(), path: path("/products/*"), headers: vec![beta], ..RouteMatch::default() },
        RouteMatch { path: path("/canary"), methods: vec!["GET".into()], ..RouteMatch::default() },
        RouteMatch { path: path("/inner"), listeners: vec![1], ..RouteMatch::default() },
    ];
    Plan {
        listeners: vec![listener("web", "127.0.0.1:8080"), listener("inner", "127.0.0.1:8081")],
        table: Table::build(&matches).unwrap().into(),
        connections: Arc::default(),
        calls: Vec::new(),
        routes: vec![
            Route { filters: strip, ..route("products", To::Service(ServiceId(0))) },
            route("beta", To::Service(ServiceId(1))),
            route("canary", To::Split(Split { parts, key: None })),
            route("inner", To::Service(ServiceId(0))),
        ],
        services: vec![
            service("a", &["http://10.0.0.1:80", "http://10.0.0.2:80"]),
            service("b", &["http://10.0.0.3:80"]),
        ],
        requests: crate::plan::RequestsPolicy::default(),
        cache: crate::plan::CachePlan::default(),
        tracing: None,
        error_details: true,
        access: crate::plan::AccessPolicy::default(),
        beside: Vec::new(),
        secrets: crate::plan::PlanSecrets::default(),
        trusted_proxies: vec!["10.9.0.0/16".parse().unwrap()],
        limits: Limits::default(),
        client_timeouts: ClientTimeouts::default(),
        shutdown: Shutdown::default(),
    }
}

fn strip_prefix(prefix: &str) -> Arc<dyn thalweg_filter::Filter> {
    filter("strip_prefix", prefix)
}

/// Filters of these tests name no files.
struct NoFiles;

impl thalweg_filter::ConfigFiles for NoFiles {
    fn path(&self, written: &str) -> std::path::PathBuf {
        written.into()
    }

    fn read(&self, _written: &str, _limit: usize) -> Result<Vec<u8>, String> {
        Err("there are no files".into())
    }

    fn variable(&self, _name: &str) -> Option<String> {
        None
    }
}

fn filter(name: &'static str, argument: &str) -> Arc<dyn thalweg_filter::Filter> {
    use serde::Deserialize;
    use serde::de::value::{Error, MapDeserializer};
    let written = MapDeserializer::<_, Error>::new([(name, argument)].into_iter());
    let spec = FilterSpec::deserialize(serde::de::value::MapAccessDeserializer::new(written)).unwrap();
    spec.build(&NoFiles).unwrap()
}

fn ask(line: &str) -> Question {
    Question::from_line(line).unwrap()
}

fn told(question: &Question) -> Explanation {
    explain(&plan(), question, false, None).unwrap()
}

fn why(explanation: &Explanation, route: &str) -> String {
    let found = explanation.other_routes.iter().find(|other| other.name == route);
    found.unwrap_or_else(|| panic!("{route} in {explanation}")).because.to_string()
}

#[test]
fn says_who_takes_a_request_and_why_the_others_do_not() {
    let told = told(&ask("GET https://Shop.Example.com/a/../products/42?x=1"));
    assert_eq!(
        (told.request.host.as_str(), told.request.path.as_str()),
        ("shop.example.com", "/products/42")
    );
    let route = told.route.as_ref().unwrap();
    assert_eq!(route.name, "products");
    assert_eq!(
        route.filters,
        [FilterStep {
            name: "strip_prefix".into(),
            before: "/products/42".into(),
            after: "/42".into(),
            changed: true
        }]
    );
    assert_eq!(
        told.outcome,
        Outcome::Forwarded {
            service: Some("a".into()),
            target: "/42?x=1".into(),
            host: Some("shop.example.com".into())
        }
    );
    assert_eq!(why(&told, "beta"), "header `X-Beta` is missing, expected `on`");
    assert_eq!(why(&told, "canary"), "path is `/products/42`, not `/canary`");
    let mut question = ask("GET https://shop.example.com/products/42");
    question.headers.push(Question::field("x-beta: off").unwrap());
    assert_eq!(why(&self::told(&question), "beta"), "header `X-Beta` is `off`, not `on`");
    question.headers[0].1 = "on".into();
    let told = self::told(&question);
    assert_eq!(why(&told, "products"), "it would, but `beta` goes before it: it has more header conditions");
}

#[test]
fn the_listener_is_named_or_the_one_of_the_port() {
    assert_eq!(told(&ask("GET http://h:8081/inner")).route.unwrap().name, "inner");
    let told = told(&ask("GET http://h:8080/inner"));
    assert_eq!(why(&told, "inner"), "listener is `web`, not `inner`");
    assert_eq!(
        told.outcome,
        Outcome::Answered {
            status: 404,
            fault: "destination_not_found",
            detail: "no route matches the request"
        }
    );
    let named = Question { listener: Some("inner".into()), ..ask("GET /inner") };
    assert_eq!(self::told(&named).route.unwrap().name, "inner");
    let unknown = Question { listener: Some("outer".into()), ..ask("GET /inner") };
    assert_eq!(explain(&plan(), &unknown, false, None).unwrap_err().part, "listener");
}

#[test]
fn a_split_by_chance_names_all_its_services_and_shares() {
    let told = told(&ask("GET /canary"));
    assert!(matches!(&told.outcome, Outcome::Forwarded { service: None, .. }), "{told}");
    let shares: Vec<_> = told.route.unwrap().services.iter().map(|part| (part.share, part.chosen)).collect();
    assert_eq!(shares, [(95.0, None), (5.0, None)]);
    assert_eq!(decide(&plan(), &ask("GET /canary")).unwrap().services, [ServiceId(0), ServiceId(1)]);
}

#[test]
fn a_split_by_key_says_which_part_it_is() {
    let mut plan = plan();
    let To::Split(split) = &mut plan.routes[2].to else { panic!("a split") };
    split.key = Some(thalweg_upstream::HashKey::Header("x-user".into()));
    let mut question = ask("GET /canary");
    question.headers.push(("X-User".into(), "7".into()));
    let told = explain(&plan, &question, false, None).unwrap();
    let route = told.route.unwrap();
    assert_eq!(route.split_by.as_deref(), Some("header x-user"));
    assert_eq!(route.services.iter().filter(|part| part.chosen == Some(true)).count(), 1);
    assert_eq!(decide(&plan, &question).unwrap().services.len(), 1);
}

#[test]
fn a_refusal_before_routing_is_an_outcome() {
    for (line, status) in
        [("GET http://h/a//../../../b", 400), ("TRACE http://h/", 405), ("GET http://h_h:x/", 400)]
    {
        let told = told(&ask(line));
        assert!(told.route.is_none() && told.other_routes.is_empty(), "{told}");
        assert!(matches!(told.outcome, Outcome::Answered { status: s, .. } if s == status), "{told}");
    }
    let mut question = ask("POST /products/1");
    question.headers = vec![("Expect".into(), "tea".into())];
    assert!(matches!(told(&question).outcome, Outcome::Answered { status: 417, .. }));
}

#[test]
fn the_client_is_seen_through_trusted_proxies() {
    let from = |ip: &str| Question {
        from: Some(ip.parse().unwrap()),
        headers: vec![("X-Forwarded-For".into(), "192.0.2.7, 10.9.1.1".into())],
        ..ask("GET /canary")
    };
    assert_eq!(told(&from("10.9.0.1")).request.client, "192.0.2.7");
    assert_eq!(told(&from("192.0.2.9")).request.client, "192.0.2.9");
}

#[test]
fn what_no_client_could_send_is_not_asked() {
    let mut field = ask("GET /");
    field.headers.push(("a b".into(), "1".into()));
    let mut value = ask("GET /");
    value.headers.push(("a".into(), "1\r\nb: 2".into()));
    let mut method = ask("GET /");
    method.method = "G T".into();
    let mut url = ask("GET /");
    url.url = "/a b".into();
    for (question, part) in [(field, "header"), (value, "header"), (method, "method"), (url, "url")] {
        assert_eq!(decide(&plan(), &question).unwrap_err().part, part);
    }
    for line in ["", "GET", "GET / HTTP/1.1", "/"] {
        assert!(Question::from_line(line).is_err(), "{line}");
    }
    for url in ["ftp://h/", "http://", "http://u:p@h/"] {
        assert_eq!(decide(&plan(), &ask(&format!("GET {url}"))).unwrap_err().part, "url", "{url}");
    }
}

#[test]
fn conditions_from_the_environment_are_not_shown() {
    let mut plan = plan();
    plan.routes[1].conceals = true;
    let told = explain(&plan, &ask("GET http://shop.example.com/products/1"), false, None).unwrap();
    assert_eq!(why(&told, "beta"), "header `X-Beta` is missing, expected a value from the environment");
}

#[test]
fn long_lists_are_cut_and_counted() {
    let mut plan = plan();
    let matches: Vec<_> = (0..1000)
        .map(|n| RouteMatch {
            path: Some(PathPattern::parse(&format!("/r/{n}")).unwrap()),
            ..RouteMatch::default()
        })
        .collect();
    plan.table = Table::build(&matches).unwrap().into();
    plan.routes = (0..1000).map(|n| route(&format!("r{n}"), To::Service(ServiceId(0)))).collect();
    let told = explain(&plan, &ask("GET /r/7"), false, None).unwrap();
    assert_eq!((told.other_routes.len(), told.more_routes), (5, 994));
    let told = explain(&plan, &ask("GET /r/7"), true, None).unwrap();
    assert_eq!((told.other_routes.len(), told.more_routes), (999, 0));
}

#[test]
fn the_running_proxy_says_how_endpoints_stand() {
    let live = |service: &str, at: usize| {
        (service == "a" && at == 0).then(|| EndpointNow {
            state: "ejected".into(),
            cause: "5 failures".into(),
            in_flight: 3,
        })
    };
    let told = explain(&plan(), &ask("GET http://shop.example.com/products/1"), false, Some(&live)).unwrap();
    let text = told.to_string();
    assert!(text.contains("http://10.0.0.1:80  weight 1, ejected (5 failures), 3 under way\n"), "{text}");
    assert!(text.contains("http://10.0.0.2:80  weight 1\n"), "{text}");
}

#[test]
fn no_route_is_to_blame_for_a_request_that_is_refused_before() {
    for route in 0..4 {
        assert_eq!(why_not(&plan(), &ask("GET http://shop.example.com/.."), route), Ok(None));
    }
    let reason = why_not(&plan(), &ask("GET http://shop.example.com/other"), 0);
    assert_eq!(reason.unwrap().as_deref(), Some("path is `/other`, not `/products/*`"));
    assert_eq!(why_not(&plan(), &ask("GET http://shop.example.com/products/1"), 0), Ok(None));
}

#[test]
fn says_where_a_client_in_the_clear_is_sent_and_looks_for_no_route() {
    let mut plan = plan();
    plan.listeners[0].redirect_https = true;
    let told = |question: &Question| explain(&plan, question, false, None).unwrap();
    for (url, place) in [
        ("http://Shop.Example.com/a/../products/42?x=1&y", "https://shop.example.com/products/42?x=1&y"),
        ("http://shop.example.com.:8080", "https://shop.example.com/"),
        ("http://[2001:DB8::1]:8080/", "https://[2001:db8::1]/"),
        ("http://127.0.0.1/?", "https://127.0.0.1/?"),
        // Nothing of a path becomes a host.
        ("http://a.test/%2F%2Fevil.test/@evil.test", "https://a.test/%2F%2Fevil.test/@evil.test"),
    ] {
        let told = told(&ask(&format!("GET {url}")));
        let expected = Outcome::Redirected { status: 308, location: place.into() };
        assert_eq!((&told.outcome, &told.route), (&expected, &None), "{told}");
        assert!(told.other_routes.is_empty() && told.summary().contains(place), "{told}");
    }
    for host in
        ["evil.test@a.test", "a.test/evil", "a.test\\evil", "a.test, evil.test", "", "a test", "a.test:x"]
    {
        let mut question = ask("GET /");
        question.headers.push(("Host".into(), host.into()));
        let outcome = told(&question).outcome;
        assert!(matches!(outcome, Outcome::Answered { status: 400, .. }), "{host}: {outcome:?}");
    }
    let asterisk = Question { listener: Some("web".into()), ..ask("OPTIONS *") };
    let outcome = told(&asterisk).outcome;
    assert!(matches!(outcome, Outcome::Answered { status: 400, .. }), "{outcome:?}");
    // Its TLS ended at a proxy in front that is believed, or is said to have by somebody who is not.
    let mut question = ask("GET http://shop.example.com/products/1");
    question.headers.push(("X-Forwarded-Proto".into(), "https".into()));
    assert!(matches!(told(&question).outcome, Outcome::Redirected { .. }));
    question.from = Some("10.9.0.1".parse().unwrap());
    assert!(matches!(told(&question).outcome, Outcome::Forwarded { .. }));
    question.from = None;
    question.listener = Some("inner".into());
    assert!(matches!(told(&question).outcome, Outcome::Forwarded { .. }), "another listener");
    let verdict = decide(&plan, &ask("GET http://a.test/")).unwrap();
    let none = (None, Vec::new(), None, None);
    assert_eq!((verdict.route, verdict.services.clone(), verdict.path.clone(), verdict.fault), none);
    assert_eq!((verdict.status(), verdict.redirect.as_deref()), (Some(308), Some("https://a.test/")));
}

#[test]
fn a_request_comes_to_a_listener_that_takes_requests() {
    let mut plan = plan();
    plan.listeners[0].protocol = ListenerProtocol::Tcp;
    let asked = |question: &Question| explain(&plan, question, false, None).map(|told| told.request.listener);
    let question = ask("GET http://shop.test:8080/inner");
    assert_eq!(asked(&question).unwrap(), "inner", "whatever its port");
    let named = Question { listener: Some("web".into()), ..question };
    assert!(asked(&named).unwrap_err().to_string().contains("takes connections"));
}

#[test]
fn an_answer_of_a_filter_is_told() {
    let mut plan = plan();
    let redirect = filter("redirect", "/new{path}");
    let found = plan.routes.iter_mut().find(|route| &*route.name == "products").unwrap();
    found.filters = Chain::new(vec![Step::always(redirect)]);
    let question = ask("GET https://shop.example.com/products/42");
    let told = explain(&plan, &question, false, None).unwrap();
    let location = Some("/new/products/42".to_owned());
    assert_eq!(told.outcome, Outcome::Replied { status: 302, filter: "redirect".into(), location });
    assert!(told.summary().contains("302 by the filter `redirect`: sent to /new/products/42"), "{told}");
    assert_eq!(decide(&plan, &question).unwrap().status(), Some(302));
}
