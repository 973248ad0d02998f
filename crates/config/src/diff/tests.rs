//! Every change of a configuration is told, and nothing else; secrets never are.

use super::*;
use crate::{Loaded, check_text};

/// What stands in the full file and has no effect, because the route says otherwise.
const OVERRIDDEN: &str = "connect: 500ms, request: 20";
/// A file with every key of this version.
const FULL: &str = include_str!("../../../../tests/config/good/full.yaml");

fn load(text: &str) -> Result<Loaded, crate::Report> {
    check_text("t.yaml", text, &|name| (name == "SIGNING").then(|| "a-signing-key-of-30-characters".into()))
}

fn loaded(text: &str) -> Loaded {
    load(text).unwrap_or_else(|report| panic!("{}\n{text}", report.lines()))
}

fn between(before: &Loaded, after: &Loaded) -> Vec<Change> {
    diff((&before.plan, &before.settings), (&after.plan, &after.settings))
}

fn told(before: &str, after: &str) -> String {
    let changes = between(&loaded(before), &loaded(after));
    changes.iter().map(|change| format!("{change}\n")).collect()
}

/// The full file with one text in the place of another, which must be there.
fn with(from: &str, to: &str) -> String {
    assert!(FULL.contains(from), "{from}");
    FULL.replacen(from, to, 1)
}

#[test]
fn the_same_configuration_differs_in_nothing() {
    assert_eq!(between(&loaded(FULL), &loaded(FULL)), []);
}

#[test]
fn every_number_that_changes_shows() {
    let before = loaded(FULL);
    let digit = |at: usize| FULL.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let numbers: Vec<usize> =
        (0..FULL.len()).filter(|at| digit(*at) && (*at == 0 || !digit(*at - 1))).collect();
    let (mut changed, mut refused) = (0, 0);
    for at in numbers {
        let end = (at..FULL.len()).find(|end| !digit(*end)).unwrap_or(FULL.len());
        // Some are refused with one more and not with one less, as a status that would end another range.
        let Ok(number) = FULL[at..end].parse::<u64>() else { continue };
        for other in [number + 1, number.saturating_sub(1)] {
            let text = format!("{}{other}{}", &FULL[..at], &FULL[end..]);
            if other == number {
                continue;
            }
            match load(&text) {
                Err(_) => refused += 1,
                Ok(after) if FULL[..end].ends_with(OVERRIDDEN) => assert_eq!(between(&before, &after), []),
                Ok(after) => {
                    changed += 1;
                    let around = &FULL[at.saturating_sub(30)..end];
                    let (there, back) = (between(&before, &after), between(&after, &before));
                    assert!(!there.is_empty() && !back.is_empty(), "{other} in …{around}");
                    let counts = |changes: &[Change]| changes.iter().map(|c| c.fields.len()).sum::<usize>();
                    assert_eq!(counts(&there), counts(&back), "{other} in …{around}: {there:?}, {back:?}");
                }
            }
        }
    }
    assert!(changed > 150, "{changed} changes, {refused} refused");
}

#[test]
fn every_word_that_changes_shows() {
    for (from, to) in [
        ("{client_ip} {status}", "{client_ip} {route}"),
        ("format: { text: \"{client_ip} {status} {share}\" }", "format: json"),
        ("100MiB", "101MiB"),
        ("429, 500-599", "428, 500-599"),
        ("thalweg:www-data", "thalweg"),
        ("www-data", "staff"),
        ("/var/lib/thalweg", "/var/lib/other"),
        ("path: /var/log/thalweg/access.log, rotate: { size: 100MiB, every: 1d, keep: 10 }", "path: stdout"),
        ("path: /var/log/thalweg/access.log, rotate: { size: 100MiB, every: 1d, keep: 10 }", "path: stderr"),
        ("priority: normal", "priority: low"),
        ("priority: high", "priority: normal"),
        ("listeners: [ web, local ]", "listeners: [ web ]"),
        ("[ GET, HEAD ]", "[ GET ]"),
        ("prefix: application/", "suffix: application/"),
        ("X-Debug: { present: false }", "X-Debug: { present: true }"),
        ("contains: new", "contains: old"),
        ("\"[0-9]+\"", "\"[0-9]*\""),
        ("shop.example.com, ", ""),
        ("/[a-z]+", "/[a-y]+"),
        ("path: /checkout/*", "path: \"/checkout/{id}\""),
        ("strip_prefix: /products", "strip_prefix: /product"),
        ("sticky_by: { cookie: session }", "sticky_by: { header: session }"),
        ("sticky_by: { cookie: session }", "sticky_by: { cookie: other }"),
        ("sticky_by: client_ip", "sticky_by: path"),
        ("service: payment-next, weight: 1", "service: products, weight: 1"),
        ("  - to: payment\n", "  - to: products\n"),
        ("balance: round_robin", "balance: peak_ewma"),
        ("algorithm: maglev", "algorithm: ring"),
        ("cookie: shop", "cookie: basket"),
        ("secure: true", "secure: false"),
        ("same_site: strict", "same_site: lax"),
        ("path: /ping?deep=1", "path: /pong"),
        ("method: GET", "method: OPTIONS"),
        ("Host: products.internal", "Host: products.elsewhere"),
        ("body: \"^ok\"", "body: \"^OK\""),
        ("initial: unhealthy", "initial: healthy"),
        ("health: { tcp: true }", "health: { path: / }"),
        ("service: shop.Stock", "service: shop.Goods"),
        ("grpc: { service: shop.Stock }", "grpc: {}"),
        ("grpc: { service: shop.Stock }", "tcp: true"),
        ("[ unavailable, resource_exhausted ]", "[ unavailable ]"),
        ("breaker: true", "breaker: off"),
        ("when_down: try_all", "when_down: error"),
        ("application/json", "text/plain"),
        ("sorry", "Sorry"),
        ("host: endpoint", "host: keep"),
        ("protocol: http2", "protocol: http1"),
        ("host: pay.example.com", "host: keep"),
        ("limits: { adaptive: true }", "limits: { adaptive: off }"),
        ("hedge: off", "hedge: { after: 1s }"),
        ("backup: true", "backup: false"),
        ("max_idle: auto", "max_idle: 1"),
        ("events: [ endpoint_down, endpoint_up ]", "events: [ endpoint_down ]"),
        ("0123456789abcdef0123456789abcdef", "another-token-of-some-length"),
        ("read_token: { env: SIGNING }, ", ""),
        ("unix:/run/thalweg/app.sock", "unix:/run/thalweg/app2.sock"),
        ("metrics: { address: \":9901\" }\n", ""),
        ("trusted_proxies: [ 10.0.0.0/8, ", "trusted_proxies: [ "),
        ("    secret: { value: \"0123456789abcdef\" }\n", ""),
        ("hook?key=1", "hook?key=2"),
    ] {
        let told = told(FULL, &with(from, to));
        assert!(!told.is_empty(), "{from} → {to}");
    }
}

#[test]
fn a_change_is_told_by_object_and_field() {
    for (from, to, expected) in [
        ("{ first_byte: 5s,", "{ first_byte: 4s,", "~ route `products`\n    timeouts.first_byte: 5s → 4s\n"),
        ("workers: 4", "workers: auto", "~ setting `workers`\n    4 → auto\n"),
        ("grace: 30s", "grace: 90s", "~ setting `shutdown`\n    grace: 30s → 1m30s\n"),
        (
            "weight: 3, max_connections: 20",
            "weight: 4, max_connections: 20",
            "~ endpoint `http://products.internal` of service `products`\n    weight: 3 → 4\n",
        ),
        (
            "  - name: canary\n",
            "  - name: the canary\n",
            "+ route `the canary`: /checkout/* → [payment 95, payment-next 5]\n\
             - route `canary`: /checkout/* → [payment 95, payment-next 5]\n",
        ),
        (
            "      - \"http://10.0.0.1:8080\"\n",
            "      - \"http://10.0.0.1:8081\"\n",
            "+ endpoint `http://10.0.0.1:8081` of service `products`: weight 1\n\
             - endpoint `http://10.0.0.1:8080` of service `products`: weight 1\n",
        ),
        (
            "access_log: { format: { text: \"{client_ip} {status} {share}\" }, path: /var/log/thalweg/access.log, rotate: { size: 100MiB, every: 1d, keep: 10 }, sample: { share: 2%, always: { status: [ 429, 500-599 ], slower_than: 1s } } }\n",
            "",
            "- setting `access_log`\n",
        ),
        (
            "    attempts: 3\n",
            "    attempts: 4\n",
            "~ webhook `http://127.0.0.1:9999`\n    attempts: 3 → 4\n",
        ),
        ("breaker: true", "breaker: { trials: 9 }", "~ service `payment`\n    breaker.trials: 3 → 9\n"),
    ] {
        assert_eq!(told(FULL, &with(from, to)), expected);
    }
}

#[test]
fn secrets_are_told_to_change_and_not_shown() {
    for (from, to, hidden) in [
        ("0123456789abcdef0123456789abcdef", "another-token-of-some-length", "setting `admin`\n    token: "),
        ("hook?key=1", "hook?key=2", ""),
        (
            "secret: { value: \"0123456789abcdef\" }",
            "secret: { value: \"another secret of some length\" }",
            "webhook `http://127.0.0.1:9999`\n    secret: ",
        ),
        ("X-Check: \"1\"", "X-Check: \"another\"", "service `products`\n    health.headers[1] (X-Check): "),
        (
            "secret: { env: SIGNING }, max_age",
            "secret: { value: \"another secret of some length\" }, max_age",
            "service `products`\n    sticky.secret: ",
        ),
    ] {
        let told = told(FULL, &with(from, to));
        for secret in ["0123456789abcdef", "another", "key="] {
            assert!(!told.contains(secret), "{told}");
        }
        let expected =
            if hidden.is_empty() { String::new() } else { format!("~ {hidden}changed (not shown)\n") };
        assert!(told.contains(&expected) && !told.is_empty(), "{told}");
    }
}

/// Values in conditions and filters that are compared with credentials, or sent as such.
#[test]
fn credentials_in_conditions_are_told_to_change_and_not_shown() {
    for (route, place) in [
        ("match: { headers: { X-Api-Key: SECRET } }", "match.headers.X-Api-Key"),
        ("match: { query: { token: { prefix: SECRET } } }", "match.query.token"),
        ("filters: [ { log: off, when: { header: { Cookie: SECRET } } } ]", "filters[0]"),
        ("filters: [ { split: { header: X-Api-Key, to: { SECRET: s } } } ]", "filters[0]"),
        ("filters: [ { headers: { request: { set: { Authorization: SECRET } } } } ]", "filters[0]"),
        ("filters: [ { ext: { service: s, path: \"/x?token=SECRET\" } } ]", "filters[0]"),
    ] {
        let told = told(
            &routes(&[&route.replace("SECRET", "hunter2-before")]),
            &routes(&[&route.replace("SECRET", "hunter2-after")]),
        );
        assert!(told.contains(place) && !told.contains("hunter2"), "{route}: {told}");
    }
    let open = [
        "match: { headers: { X-Api-Key: { present: true } } }",
        "match: { headers: { X-Api-Key: { present: false } } }",
    ];
    let told = told(&routes(&open[..1]), &routes(&open[1..]));
    assert!(told.contains("absent"), "{told}");
}

fn routes(routes: &[&str]) -> String {
    let routes: Vec<_> = routes.iter().map(|route| format!("  - {{ {route}, to: s }}\n")).collect();
    format!(
        "listeners: {{ web: {{ address: '127.0.0.1:0' }} }}\n\
         services: {{ s: {{ endpoints: ['http://127.0.0.1:1'] }} }}\nroutes:\n{}",
        routes.concat()
    )
}

#[test]
fn order_is_told_only_where_it_decides() {
    let (a, b) = ("name: a, match: { path: '/{x}/1' }", "name: b, match: { path: '/{y}/1' }");
    let (c, d) = ("name: c, match: { path: /c }", "name: d, match: { path: /d }");
    assert_eq!(told(&routes(&[a, c, d]), &routes(&[d, a, c])), "");
    assert_eq!(told(&routes(&[a, b, c]), &routes(&[a, c, b])), "");
    let moved = told(&routes(&[a, c, b]), &routes(&[b, c, a]));
    assert_eq!(moved.matches("> route").count(), 1, "one of the two has moved: {moved}");
    assert!(moved.contains("place among routes that its order decides between: 2 of 2 → 1 of 2"), "{moved}");
}

#[test]
fn of_several_that_tie_only_those_that_moved_are_told() {
    let names: Vec<String> =
        (0..9).map(|n| format!("name: r{n}, match: {{ path: '/{{x{n}}}/1' }}")).collect();
    let before: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut after = before.clone();
    let last = after.pop().unwrap();
    after.insert(2, last);
    let moved = told(&routes(&before), &routes(&after));
    let place = "place among routes that its order decides between";
    assert_eq!(moved, format!("> route `r8`\n    {place}: 9 of 9 → 3 of 9\n"));
}

#[test]
fn a_route_with_every_host_ties_with_one_without_any() {
    let (a, b) = ("name: a", "name: b, match: { host: '*' }");
    assert!(told(&routes(&[a, b]), &routes(&[b, a])).contains("2 of 2 → 1 of 2"));
}

#[test]
fn values_are_shown_on_one_line_and_not_whole() {
    let long = "x".repeat(1000);
    let (one, two) = (format!("{long}\\n1"), format!("{long}\\n2"));
    let text = |body: &str| with("{\\\"sorry\\\":true}", body);
    let told = told(&text(&one), &text(&two));
    assert!(told.contains("when_down.body: changed (not shown)"), "{told}");
    let told = self::told(FULL, &text("a\\u001bb"));
    assert!(!told.contains('\u{1b}') && told.contains("→ a b"), "{told}");
}

#[test]
fn entries_of_a_list_are_told_apart() {
    let sources = |entries: &[&str]| {
        let sources = format!("route_sources:\n{}", entries.concat());
        format!("{}{sources}", routes(&["name: a"]))
    };
    let (a, b) = ("  - { file: { path: /routes/a.yaml } }\n", "  - { file: { path: /routes/b.yaml } }\n");
    for same in [[a, b], [b, a]] {
        assert_eq!(told(&sources(&[a, b]), &sources(&same)), "");
    }
    let more = told(&sources(&[a]), &sources(&[a, b]));
    assert_eq!(more, "+ setting `route_sources`\n");
    let other = b.replace("b.yaml", "c.yaml");
    let other = told(&sources(&[a, b]), &sources(&[a, &other]));
    assert_eq!(other, "+ setting `route_sources`\n- setting `route_sources`\n");

    let registrations = |apps: &[&str]| {
        let each: Vec<_> = apps
            .iter()
            .map(|app| {
                format!("  - {{ eureka: {{ url: 'http://127.0.0.1:1/eureka', app: {app}, host: h, port: 80 }} }}\n")
            })
            .collect();
        format!("{}registrations:\n{}", routes(&["name: a"]), each.concat())
    };
    let (one, two) = (loaded(&registrations(&["a", "b"])), loaded(&registrations(&["a", "b"])));
    assert_eq!(between(&one, &two), []);
}
