//! What explain says is true: random configurations and requests, judged once more by a naive reading of the same file.
//!
//! The naive side shares no code with the product: it looks at every route, condition by condition, and sorts by the
//! stated precedence. `THALWEG_LONG=1` multiplies the cases by ten.

#![expect(clippy::unwrap_used, reason = "a test: a panic is the report")]

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::net::IpAddr;
use thalweg_balance::Seed;
use thalweg_config::check_text;
use thalweg_proxy::explain::{Because, Explanation, Outcome, Question, decide, explain};

/// Configurations, and requests to each: ten thousand in all.
const CONFIGURATIONS: usize = 500;
const REQUESTS: usize = 20;

const HOST_PATTERNS: &[&str] = &["a.test", "b.a.test", "*.test", "*.a.test", "c.test"];
const HOSTS: &[&str] = &["a.test", "b.a.test", "x.b.a.test", "c.test", "d.test", "test", "else"];
const PATH_PATTERNS: &[&str] = &["/", "/a", "/a/*", "/a/b", "/a/b/*", "/b/*", "/*", "/a%20b/*"];
const PATHS: &[&str] = &["/", "/a", "/a/", "/a/b", "/a/b/c", "/ab", "/b", "/b/a", "/c", "/a%20b/c"];
const METHODS: &[&str] = &["GET", "POST", "BREW"];
const NAMES: &[&str] = &["x-a", "x-b"];
const VALUES: &[&str] = &["1", "12", "2"];
const NETWORKS: &[&str] = &["10.0.0.0/8", "10.1.0.0/16", "192.0.2.7"];
const CLIENTS: &[&str] = &["10.0.0.1", "10.1.0.1", "192.0.2.7", "192.0.2.8"];
const STRIPPED: &[&str] = &["/a", "/a/b", "/b/"];
const LISTENERS: &[&str] = &["web", "inner"];

/// Random choices that are the same in each run.
struct Dice(Seed);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        (self.0.next() % n as u64) as usize
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// One in `n` times.
    fn maybe<T: Copy>(&mut self, n: usize, of: &[T]) -> Option<T> {
        (self.below(n) == 0).then(|| self.one(of))
    }
}

#[derive(Debug)]
enum Rule {
    Exact(&'static str),
    Prefix(&'static str),
    Present(bool),
}

/// A route as it is written.
#[derive(Debug)]
struct Model {
    hosts: Vec<&'static str>,
    path: Option<&'static str>,
    listener: Option<&'static str>,
    methods: Vec<&'static str>,
    network: Option<&'static str>,
    headers: Vec<(&'static str, Rule)>,
    query: Vec<(&'static str, Rule)>,
    stripped: Option<&'static str>,
    service: usize,
}

/// A request, already in its normal form.
#[derive(Debug)]
struct Asked {
    host: &'static str,
    path: &'static str,
    listener: &'static str,
    method: &'static str,
    client: &'static str,
    headers: Vec<(&'static str, &'static str)>,
    query: Vec<(&'static str, &'static str)>,
}

fn rules(dice: &mut Dice) -> Vec<(&'static str, Rule)> {
    let mut rules = Vec::new();
    for name in NAMES {
        if dice.below(5) == 0 {
            rules.push((
                *name,
                match dice.below(4) {
                    0 => Rule::Exact(dice.one(VALUES)),
                    1 => Rule::Prefix(dice.one(VALUES)),
                    n => Rule::Present(n == 2),
                },
            ));
        }
    }
    rules
}

fn route(dice: &mut Dice) -> Model {
    let hosts = (0..dice.below(3)).map(|_| dice.one(HOST_PATTERNS)).collect();
    Model {
        hosts,
        path: (dice.below(4) > 0).then(|| dice.one(PATH_PATTERNS)),
        listener: dice.maybe(5, LISTENERS),
        methods: dice.maybe(4, METHODS).into_iter().collect(),
        network: dice.maybe(5, NETWORKS),
        headers: rules(dice),
        query: rules(dice),
        stripped: dice.maybe(2, STRIPPED),
        service: dice.below(3),
    }
}

fn request(dice: &mut Dice) -> Asked {
    let mut pairs = || (0..dice.below(3)).map(|_| (dice.one(NAMES), dice.one(VALUES))).collect::<Vec<_>>();
    let (headers, query) = (pairs(), pairs());
    Asked {
        host: dice.one(HOSTS),
        path: dice.one(PATHS),
        listener: dice.one(LISTENERS),
        method: dice.one(METHODS),
        client: dice.one(CLIENTS),
        headers,
        query,
    }
}

fn write_rules(out: &mut String, key: &str, rules: &[(&str, Rule)]) {
    if rules.is_empty() {
        return;
    }
    write!(out, ", {key}: {{ ").unwrap();
    for (name, rule) in rules {
        match rule {
            Rule::Exact(text) => write!(out, "{name}: \"{text}\", ").unwrap(),
            Rule::Prefix(text) => write!(out, "{name}: {{ prefix: \"{text}\" }}, ").unwrap(),
            Rule::Present(is) => write!(out, "{name}: {{ present: {is} }}, ").unwrap(),
        }
    }
    out.push('}');
}

fn write(routes: &[Model]) -> String {
    let mut out = "listeners: { web: { address: \":8080\" }, inner: { address: \":8081\" } }\n".to_owned();
    out += "services:\n";
    for service in 0..3 {
        writeln!(out, "  s{service}: {{ endpoints: [ \"http://10.0.0.{service}:80\" ] }}").unwrap();
    }
    out += "routes:\n";
    for (position, route) in routes.iter().enumerate() {
        write!(out, "  - {{ name: r{position}, to: s{}, match: {{ ", route.service).unwrap();
        let mut of = String::new();
        if !route.hosts.is_empty() {
            write!(of, ", host: {:?}", route.hosts).unwrap();
        }
        if let Some(path) = route.path {
            write!(of, ", path: {path:?}").unwrap();
        }
        if !route.methods.is_empty() {
            write!(of, ", methods: {:?}", route.methods).unwrap();
        }
        if let Some(network) = route.network {
            write!(of, ", client: [ {network:?} ]").unwrap();
        }
        write_rules(&mut of, "headers", &route.headers);
        write_rules(&mut of, "query", &route.query);
        out += of.trim_start_matches(", ");
        out += " }";
        if let Some(listener) = route.listener {
            write!(out, ", listeners: [ {listener} ]").unwrap();
        }
        if let Some(prefix) = route.stripped {
            write!(out, ", filters: [ {{ strip_prefix: {prefix} }} ]").unwrap();
        }
        out += " }\n";
    }
    out
}

impl Asked {
    fn question(&self) -> Question {
        let query: Vec<_> = self.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        Question {
            method: self.method.into(),
            url: format!("http://{}{}{query}", self.host, self.path),
            headers: self
                .headers
                .iter()
                .map(|(name, value)| (name.to_uppercase(), (*value).into()))
                .collect(),
            from: Some(self.client.parse().unwrap()),
            listener: Some(self.listener.into()),
        }
    }
}

fn host_rank(pattern: &str, host: &str) -> Option<(u8, Reverse<usize>)> {
    match pattern.strip_prefix("*.") {
        None => (pattern == host).then_some((0, Reverse(0))),
        Some(suffix) => {
            let labels = host.strip_suffix(suffix)?.strip_suffix('.')?;
            (!labels.is_empty()).then_some((1, Reverse(suffix.len())))
        }
    }
}

fn path_rank(pattern: &str, path: &str) -> Option<(u8, Reverse<usize>)> {
    match pattern.strip_suffix("/*") {
        Some("") => Some((2, Reverse(0))),
        Some(prefix) => {
            let rest = path.strip_prefix(prefix)?;
            (rest.is_empty() || rest.starts_with('/')).then_some((1, Reverse(prefix.len())))
        }
        None => (pattern == path).then_some((0, Reverse(0))),
    }
}

fn in_network(network: &str, client: &str) -> bool {
    match network {
        "10.0.0.0/8" => client.starts_with("10."),
        "10.1.0.0/16" => client.starts_with("10.1."),
        address => address.parse::<IpAddr>().unwrap() == client.parse::<IpAddr>().unwrap(),
    }
}

fn holds(rule: &Rule, values: &[&str]) -> bool {
    match rule {
        Rule::Exact(text) => values.contains(text),
        Rule::Prefix(text) => values.iter().any(|value| value.starts_with(text)),
        Rule::Present(is) => values.is_empty() != *is,
    }
}

/// A place in the order of precedence; the smallest takes the request.
type Rank = ((u8, Reverse<usize>), (u8, Reverse<usize>), bool, Reverse<usize>, Reverse<usize>, usize);

/// The rank of a route that takes the request, or the first condition that fails, with its name.
fn judge(
    route: &Model,
    position: usize,
    asked: &Asked,
) -> Result<Rank, (&'static str, Option<&'static str>)> {
    let host = match route.hosts.is_empty() {
        true => (2, Reverse(0)),
        false => {
            let ranks = route.hosts.iter().filter_map(|pattern| host_rank(pattern, asked.host));
            ranks.min().ok_or(("host", None))?
        }
    };
    let path = route.path.map_or(Some((2, Reverse(0))), |path| path_rank(path, asked.path));
    let path = path.ok_or(("path", None))?;
    if route.listener.is_some_and(|listener| listener != asked.listener) {
        return Err(("listener", None));
    }
    if !route.methods.is_empty() && !route.methods.contains(&asked.method) {
        return Err(("method", None));
    }
    if route.network.is_some_and(|network| !in_network(network, asked.client)) {
        return Err(("client", None));
    }
    for (kind, rules, pairs) in
        [("header", &route.headers, &asked.headers), ("query", &route.query, &asked.query)]
    {
        for (name, rule) in rules {
            let values: Vec<_> = pairs.iter().filter(|(n, _)| n == name).map(|(_, value)| *value).collect();
            if !holds(rule, &values) {
                return Err((kind, Some(name)));
            }
        }
    }
    let conditions = (Reverse(route.headers.len()), Reverse(route.query.len()));
    Ok((host, path, route.methods.is_empty(), conditions.0, conditions.1, position))
}

fn strip(path: &str, prefix: &str) -> String {
    match path.strip_prefix(prefix.trim_end_matches('/')) {
        Some("") => "/".into(),
        Some(rest) if rest.starts_with('/') => rest.into(),
        _ => path.into(),
    }
}

/// Whether all that was told is so.
fn check(routes: &[Model], asked: &Asked, told: &Explanation, case: &str) {
    let verdicts: Vec<_> = (0..).zip(routes).map(|(at, route)| judge(route, at, asked)).collect();
    let best = verdicts.iter().filter_map(|verdict| verdict.ok()).min().map(|rank| rank.5);
    let taken = told.route.as_ref().map(|route| route.name.clone());
    assert_eq!(taken, best.map(|at| format!("r{at}")), "{case}");
    assert_eq!(told.other_routes.len() + usize::from(best.is_some()), routes.len(), "{case}");
    assert_eq!(told.more_routes, 0);
    for other in &told.other_routes {
        let at: usize = other.name[1..].parse().unwrap();
        match (&other.because, &verdicts[at]) {
            (Because::Fails(failed), Err((condition, name))) => {
                assert_eq!((failed.condition, failed.name.as_deref()), (*condition, *name), "r{at}: {case}");
            }
            (Because::After(_), Ok(_)) if Some(at) != best => {}
            (because, verdict) => panic!("r{at}: {because:?}, but {verdict:?}: {case}"),
        }
    }
    match (&told.outcome, best) {
        (Outcome::Answered { status: 404, .. }, None) => {}
        (Outcome::Forwarded { service, target, host }, Some(at)) => {
            assert_eq!(*service, Some(format!("s{}", routes[at].service)), "{case}");
            let path = routes[at].stripped.map_or(asked.path.into(), |prefix| strip(asked.path, prefix));
            assert_eq!(target.split('?').next(), Some(path.as_str()), "{case}");
            assert_eq!(host.as_deref(), Some(asked.host), "{case}");
        }
        (outcome, best) => panic!("{outcome:?}, but {best:?}: {case}"),
    }
}

#[test]
fn what_explain_says_is_true() {
    let times = if std::env::var("THALWEG_LONG").as_deref() == Ok("1") { 10 } else { 1 };
    let mut dice = Dice(Seed(7));
    let (mut taken, mut beaten) = (0, 0);
    for _ in 0..CONFIGURATIONS * times {
        let routes: Vec<_> = (0..1 + dice.below(12)).map(|_| route(&mut dice)).collect();
        let text = write(&routes);
        let plan =
            check_text("random.yaml", &text, &|_| None).unwrap_or_else(|report| panic!("{report}")).plan;
        for _ in 0..REQUESTS {
            let asked = request(&mut dice);
            let question = asked.question();
            let told = explain(&plan, &question, true, None).unwrap();
            check(&routes, &asked, &told, &format!("{asked:?}\n{text}\n{told}"));
            let verdict = decide(&plan, &question).unwrap();
            let name = verdict.route.map(|id| format!("r{}", id.0));
            assert_eq!(name, told.route.as_ref().map(|route| route.name.clone()));
            let few = explain(&plan, &question, false, None).unwrap();
            assert_eq!((&few.outcome, &few.route), (&told.outcome, &told.route));
            assert_eq!(few.other_routes.len() + few.more_routes, told.other_routes.len());
            taken += usize::from(name.is_some());
            beaten += told.other_routes.iter().filter(|o| matches!(o.because, Because::After(_))).count();
        }
    }
    // Else the pools do not meet often enough for this to be a test.
    assert!(taken > 2000 && beaten > 1000, "{taken} taken, {beaten} beaten");
}

/// Without a name: TLS for `https`, in the clear for `http`, and the port decides between several.
#[test]
fn an_https_url_comes_to_a_listener_with_tls() {
    let text = "listeners:\n  web: { address: \":80\", redirect_https: true }\n  plain: { address: \":8080\" }\n  \
        secure: { address: \":8443\", tls: { local: true } }\n  other: { address: \":9443\", tls: { local: true } }\n\
        routes: [ { match: { host: a.test }, to: [ \"http://127.0.0.1:1\" ] } ]\n";
    let loaded = check_text("a.yaml", text, &|_| None).unwrap_or_else(|report| panic!("{report}"));
    let asked = |url: &str| {
        let question = Question { method: "GET".into(), url: url.into(), ..Question::default() };
        explain(&loaded.plan, &question, false, None).unwrap()
    };
    for (url, listener) in [
        ("https://a.test/", "secure"),
        ("https://a.test:9443/", "other"),
        ("https://a.test:8080/", "secure"),
        ("http://a.test/", "web"),
        ("http://a.test:8080/", "plain"),
        ("http://a.test:7000/", "web"),
        ("/", "plain"),
    ] {
        assert_eq!(asked(url).request.listener, listener, "{url}");
    }
    // The host of a path alone is one that routes ask for.
    assert!(asked("/a").route.is_some(), "{}", asked("/a"));
}
