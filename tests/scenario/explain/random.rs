//! Random configurations in a real proxy, random requests on kept connections: each answer is the one that `explain`
//! gives for the same file, whatever the request looks like.
//!
//! The endpoints say which service they are and what arrived. Routes are compared in the access log, by request id.
//! `THALWEG_LONG=1` runs ten times as many configurations.

use std::collections::HashMap;
use std::env;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use thalweg_balance::Seed;
use thalweg_config::check_text;
use thalweg_proxy::Plan;
use thalweg_proxy::explain::{Explanation, Outcome, Question, explain};
use thalweg_tests::message::Kind;
use thalweg_tests::{Connection, Message, Proxy, STEP, Upstream, Watchdog};

/// Configurations, and requests to each.
const CONFIGURATIONS: u64 = 24;
const REQUESTS: usize = 200;
/// Longest that they may take, for each configuration.
const LIMIT: Duration = Duration::from_secs(10);

const HOST_PATTERNS: &[&str] = &["a.test", "b.a.test", "*.test", "*.a.test", "[::1]"];
const HOSTS: &[&str] =
    &["a.test", "B.A.Test", "x.b.a.test.", "a.test:80", "a.test:8080", "test", "[0:0::1]", "else"];
const BAD_HOSTS: &[&str] = &["", "a..b", "a/b", "a:x"];
const PATH_PATTERNS: &[&str] = &[
    "/", "/a", "/a/*", "/a/b/*", "/a/{x}", "/{x}/b", "/{x*}", "/*", "/a%20b/*", "/%7Ea/*", "/%40a/*", "/a/b+",
];
const SEGMENTS: &[&str] = &["a", "a", "b", "b", "c", "~a", "%61", "%7ea", "a%20b", "@a", "%40a", "b%2b"];
const ODD_SEGMENTS: &[&str] =
    &["", ".", "..", "%2e%2e", "%2F", "%zz", "a;x", "\\", "..;x", "a%2Fb", "a%3bx", "[a]", "%5Ba%5d"];
const METHODS: &[&str] = &["GET", "GET", "GET", "HEAD", "POST", "PUT", "OPTIONS", "BREW", "get"];
const VALUES: &[&str] = &["1", "12", "2", "on"];
const NETWORKS: &[&str] = &["127.0.0.0/8", "10.0.0.0/8", "192.0.2.7", "2001:db8::/32"];
const CHAINS: &[&str] =
    &["10.1.2.3", "192.0.2.7, 127.0.0.2", "2001:db8::1", "unknown, 10.0.0.1", "[2001:db8::1]:443"];
/// A request has passed through this proxy so often already.
const VIA: &str = "1.1 thalweg, 1.0 Thalweg, 1.1 thalweg, 1.1 thalweg, 1.1 thalweg, 1.1 thalweg (x), 1.1 thalweg, 1.1 thalweg";
const SERVICES: &[&str] = &["red", "green", "blue"];

/// Random choices that are the same in each run.
struct Dice(Seed);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        (self.0.next() % n as u64) as usize
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Mostly one of the first, now and then one of the second.
    fn rather<T: Copy>(&mut self, of: &[T], odd: &[T]) -> T {
        if self.below(15) == 0 { self.one(odd) } else { self.one(of) }
    }
}

/// An endpoint that says who it is and what it got.
fn echo(service: &'static str) -> Upstream {
    Upstream::start(move |request| {
        let host = request.value("host").unwrap_or_default();
        let id = request.value("x-request-id").unwrap_or_default();
        let target = request.target();
        let head = format!(
            "HTTP/1.1 200 OK\r\nX-Service: {service}\r\nX-Target: {target}\r\nX-Host: {host}\r\nX-Id: {id}\r\n"
        );
        let body = if request.start.starts_with("HEAD ") { "" } else { "ok" };
        Some(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
    })
}

fn conditions(dice: &mut Dice, key: &str) -> String {
    if dice.below(3) > 0 {
        return String::new();
    }
    let rule = match dice.below(5) {
        0 => "{ present: true }".to_owned(),
        1 => "{ present: false }".to_owned(),
        2 => format!("{{ prefix: \"{}\" }}", dice.one(VALUES)),
        3 => format!("{{ regex: \"{}.*\" }}", dice.one(VALUES)),
        _ => format!("\"{}\"", dice.one(VALUES)),
    };
    format!(", {key}: {{ x-{}: {rule} }}", dice.one(&["a", "b"]))
}

fn route(dice: &mut Dice, position: usize) -> String {
    let mut of = String::new();
    if dice.below(2) == 0 {
        write!(of, ", host: [ \"{}\", \"{}\" ]", dice.one(HOST_PATTERNS), dice.one(HOST_PATTERNS)).unwrap();
    }
    match dice.below(5) {
        0 => {}
        1 => of += ", path_regex: \"/[ab]+(/.*)?\"",
        _ => write!(of, ", path: \"{}\"", dice.one(PATH_PATTERNS)).unwrap(),
    }
    if dice.below(4) == 0 {
        write!(of, ", methods: [ {}, {} ]", dice.one(&["GET", "BREW"]), dice.one(&["POST", "OPTIONS"]))
            .unwrap();
    }
    if dice.below(4) == 0 {
        write!(of, ", client: [ \"{}\" ]", dice.one(NETWORKS)).unwrap();
    }
    of += &conditions(dice, "headers");
    of += &conditions(dice, "query");
    let to = match dice.below(4) {
        0 => "[ { service: red, weight: 1 }, { service: green, weight: 2 }, { service: blue, weight: 0 } ]"
            .to_owned(),
        1 => {
            let key = dice.one(&["client_ip", "path", "{ header: x-a }", "{ query: x-b }", "{ cookie: c }"]);
            format!("{{ split: [ {{ service: red }}, {{ service: blue }} ], sticky_by: {key} }}")
        }
        _ => dice.one(SERVICES).to_owned(),
    };
    let mut more = String::new();
    if dice.below(4) == 0 {
        write!(more, ", listeners: [ {} ]", dice.one(&["web", "inner"])).unwrap();
    }
    if dice.below(4) == 0 {
        // A path that may be read as one of this route is refused elsewhere.
        more += ", filters: [ { access: { deny: [ 203.0.113.0/24 ] } } ]";
    } else if dice.below(3) == 0 {
        let (first, second) = (dice.one(&["/a", "/a/b", "/b", "/"]), dice.one(&["/a", "/b/"]));
        write!(more, ", filters: [ {{ strip_prefix: {first} }}, {{ strip_prefix: {second} }} ]").unwrap();
    }
    if dice.below(4) == 0 {
        more += ", limits: { max_body: 8B }";
    }
    format!("  - {{ name: r{position}, match: {{ {} }}, to: {to}{more} }}\n", of.trim_start_matches(", "))
}

fn configuration(dice: &mut Dice, endpoints: &[Upstream]) -> String {
    let mut out = "workers: 2\n\
                   metrics: { address: \"127.0.0.1:0\" }\n\
                   access_log: { format: json, path: \"{log}\" }\n\
                   listeners: { web: { address: \"127.0.0.1:0\" }, inner: { address: \"127.0.0.1:0\" } }\n\
                   shutdown: { delay: 0s, grace: 5s }\nservices:\n"
        .to_owned();
    if dice.below(2) == 0 {
        out.insert_str(0, "trusted_proxies: [ 127.0.0.0/8 ]\n");
    }
    for (service, endpoint) in SERVICES.iter().zip(endpoints) {
        let host = dice.one(&["keep", "endpoint", "fixed.test"]);
        writeln!(out, "  {service}: {{ endpoints: [ \"{}\" ], host: {host} }}", endpoint.url()).unwrap();
    }
    out += "routes:\n";
    for position in 0..1 + dice.below(10) {
        out += &route(dice, position);
    }
    out
}

/// A request, and its body.
fn request(dice: &mut Dice) -> (Question, &'static str) {
    let segments: Vec<_> = (0..1 + dice.below(4)).map(|_| dice.rather(SEGMENTS, ODD_SEGMENTS)).collect();
    let mut url = format!("/{}", segments.join("/"));
    for n in 0..dice.below(3) {
        let sign = if n == 0 { '?' } else { '&' };
        write!(url, "{sign}x-{}={}", dice.one(&["a", "b"]), dice.one(VALUES)).unwrap();
    }
    let mut headers = vec![("Host".to_owned(), dice.rather(HOSTS, BAD_HOSTS).to_owned())];
    let mut body = "";
    for _ in 0..dice.below(4) {
        let (name, value) = match dice.below(12) {
            0 => ("X-Forwarded-For", dice.one(CHAINS)),
            1 => ("Cookie", dice.one(&["c=1", "d=1; c=2", "c"])),
            2 => ("Via", dice.rather(&["1.1 thalweg", "1.1 other"], &[VIA])),
            3 if dice.below(6) == 0 => ("Expect", "tea"),
            4 => ("Connection", "x-a"),
            5 if body.is_empty() => {
                body = dice.one(&["12345678", "123456789"]);
                ("Content-Length", if body.len() == 8 { "8" } else { "9" })
            }
            n => (["X-A", "x-b"][n % 2], dice.one(VALUES)),
        };
        headers.push((name.to_owned(), value.to_owned()));
    }
    let listener = Some(dice.one(&["web", "inner"]).to_owned());
    (
        Question {
            method: dice.rather(METHODS, &["TRACE", "CONNECT"]).to_owned(),
            url,
            headers,
            from: None,
            listener,
        },
        body,
    )
}

/// A kept connection to a listener.
struct Client {
    address: SocketAddr,
    connection: Option<Connection>,
}

impl Client {
    fn ask(&mut self, question: &Question, body: &str) -> Result<Message, String> {
        let mut bytes = format!("{} {} HTTP/1.1\r\n", question.method, question.url);
        for (name, value) in &question.headers {
            write!(bytes, "{name}: {value}\r\n").unwrap();
        }
        write!(bytes, "\r\n{body}").unwrap();
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(self.address).map_err(|error| error.to_string())?,
        };
        connection.send(bytes);
        let kind = if question.method == "HEAD" { Kind::ResponseToHead } else { Kind::Response };
        let answer = Message::read(&mut connection, kind, Instant::now() + STEP)?;
        let closes = answer.values("connection").any(|value| value.eq_ignore_ascii_case("close"));
        self.connection = (!closes).then_some(connection);
        Ok(answer)
    }
}

/// Whether the answer is what was told; gives the request's id.
fn check(plan: &Plan, told: &Explanation, answer: &Message, case: &str) -> String {
    match &told.outcome {
        Outcome::Answered { status, fault, .. } => {
            assert_eq!(answer.status(), *status, "{case}");
            assert!(answer.value("x-service").is_none(), "{case}");
            let said = answer.value("proxy-status").unwrap_or_default();
            assert!(said.contains(fault), "{said}: {case}");
            answer.value("x-request-id").unwrap_or_default().to_owned()
        }
        Outcome::Redirected { .. } | Outcome::Replied { .. } => {
            panic!("nothing redirects or replies: {case}")
        }
        Outcome::Forwarded { service, target, host } => {
            assert_eq!(answer.status(), 200, "{case}");
            let by = answer.value("x-service").unwrap_or_default();
            let route = told.route.as_ref().unwrap_or_else(|| panic!("no route: {case}"));
            match service {
                Some(service) => assert_eq!(by, service, "{case}"),
                None => {
                    let mut parts = route.services.iter().filter(|part| part.share > 0.0);
                    assert!(parts.any(|part| part.name == by), "{by}: {case}");
                }
            }
            assert_eq!(answer.value("x-target"), Some(target.as_str()), "{case}");
            let endpoint = plan.services.iter().find(|service| &*service.name == by);
            let own = endpoint.map(|service| service.endpoints[0].authority().to_owned());
            let part = route.services.iter().find(|part| part.name == by);
            let expected = part.and_then(|part| part.host.clone()).or(own);
            assert_eq!(answer.value("x-host"), expected.as_deref(), "{case}");
            assert!(host.is_none() || *host == expected, "{case}");
            answer.value("x-id").unwrap_or_default().to_owned()
        }
    }
}

#[test]
fn the_proxy_does_what_explain_says() {
    let times = if env::var("THALWEG_LONG").as_deref() == Ok("1") { 10 } else { 1 };
    let rounds = CONFIGURATIONS * times;
    let _watchdog = Watchdog::new("the_proxy_does_what_explain_says", LIMIT * rounds as u32);
    let endpoints: Vec<_> = SERVICES.iter().map(|service| echo(service)).collect();
    let (mut forwarded, mut answered) = (0, HashMap::<u16, usize>::new());
    for seed in 0..rounds {
        let mut dice = Dice(Seed(seed));
        let text = configuration(&mut dice, &endpoints);
        let plan =
            check_text("random.yaml", &text, &|_| None).unwrap_or_else(|report| panic!("{report}")).plan;
        let proxy = Proxy::start(&text);
        let mut clients =
            ["web", "inner"].map(|name| Client { address: proxy.address(name), connection: None });
        let mut routes = HashMap::new();
        for _ in 0..REQUESTS {
            let (question, body) = request(&mut dice);
            let told = explain(&plan, &question, false, None).unwrap();
            let case = format!("seed {seed}: {question:?}\n{told}\n{text}");
            let client = &mut clients[usize::from(question.listener.as_deref() == Some("inner"))];
            let answer = client.ask(&question, body).unwrap_or_else(|error| panic!("{error}: {case}"));
            let id = check(&plan, &told, &answer, &format!("{answer:?}\n{case}"));
            assert!(!id.is_empty(), "{answer:?}\n{case}");
            match told.outcome {
                Outcome::Forwarded { .. } => forwarded += 1,
                Outcome::Answered { status, .. }
                | Outcome::Redirected { status, .. }
                | Outcome::Replied { status, .. } => *answered.entry(status).or_default() += 1,
            }
            routes.insert(id, (told.route.map(|route| route.name).unwrap_or_default(), case));
        }
        drop(clients);
        let log = proxy.stop().log;
        assert_eq!(log.len(), REQUESTS, "seed {seed}");
        for line in log {
            let (route, case) = &routes[line["id"].as_str().unwrap()];
            assert_eq!(line["route"].as_str().unwrap_or_default(), route, "{case}");
        }
    }
    // Else the pools do not meet often enough for this to be a test.
    assert!(forwarded > 1200, "{forwarded} forwarded, {answered:?}");
    for status in [400, 404, 405, 413, 417, 508] {
        assert!(answered.contains_key(&status), "{forwarded} forwarded, {answered:?}");
    }
}
