//! No display of a plan shows a value that stands where secrets may stand.

use crate::schema::{Choice, elements, entries};
use crate::{Loaded, check_text, diff};
use thalweg_proxy::explain::{Question, explain};

/// Holds the characters that are percent-encoded in paths and queries.
const MARKER: &str = "hunter2+/=hunter2";

fn loaded(text: &str) -> Loaded {
    let environment = |name: &str| match name {
        "SECRET" => Some(MARKER.to_owned()),
        "SITE" => Some(format!("https://site.test/{MARKER}")),
        "HOST" => Some("shown.test".to_owned()),
        "PORT" => Some("8081".to_owned()),
        "BASE" => Some("/base-path".to_owned()),
        _ => None,
    };
    check_text("t.yaml", text, &environment).unwrap_or_else(|report| panic!("{}\n{text}", report.lines()))
}

const EMPTY: &str =
    "listeners: { web: \"127.0.0.1:0\" }\nroutes: [ { name: other, to: [ \"http://10.0.0.9\" ] } ]\n";

/// What `plan` and `explain` say of a file with this route, as JSON and as text.
fn displays(route: &str, url: &str) -> Vec<String> {
    let text = format!(
        "listeners: {{ web: \"127.0.0.1:0\" }}\n\
         services: {{ s: {{ endpoints: [ \"http://${{HOST}}:${{PORT}}\" ] }} }}\n\
         routes:\n  - {{ name: r, {route} }}\n"
    );
    let (before, after) = (loaded(EMPTY), loaded(&text));
    let sides = [(&before, &after), (&after, &before)];
    let mut shown = Vec::new();
    for (one, other) in sides {
        for change in diff((&one.plan, &one.settings), (&other.plan, &other.settings)) {
            shown.push(format!("{change} {change:?}"));
        }
    }
    let question = Question { method: "GET".into(), url: url.into(), ..Question::default() };
    let mut told = explain(&after.plan, &question, true, None).unwrap();
    after.provenance.add_origins(&after.plan, &mut told);
    shown.push(format!("{told}"));
    shown.push(serde_json::to_string(&told).unwrap());
    shown
}

/// Secrets in `rewrite` and `redirect` stood in `explain`, in `plan` and in the log.
#[test]
fn filters_that_send_a_variable_show_it_in_no_display() {
    for route in [
        "filters: [ { rewrite: \"/${SECRET}/x\" } ], to: s",
        "filters: [ { rewrite: { path: \"/x/${SECRET}{path}\" } } ], to: s",
        "filters: [ { rewrite: { query: { set: { q: \"${SECRET}\" } } } } ], to: s",
        "filters: [ { rewrite: { query: { append: { q: \"a${SECRET}b\" } } } } ], to: s",
        "filters: [ { redirect: \"https://h.test/${SECRET}{path}\" } ]",
        "filters: [ { redirect: { to: \"/x?q=${SECRET}\", keep_query: false } } ]",
        "filters: [ { redirect: \"${SITE}{path}\" } ]",
        "filters: [ { redirect: { to: \"https://h.test/x/${SECRET}\" } } ]",
        "filters: [ { redirect: { to: \"https://h.test/x?q=${SECRET}\" } } ]",
        "filters: [ { rewrite: { prefix: { from: /a, to: \"/x/${SECRET}\" } } } ], to: s",
        "filters: [ { headers: { request: { set: { X-A: \"${SECRET}\" } } } }, { rewrite: \"/{header.x-a}/x\" } ], to: s",
        "filters: [ { headers: { request: { set: { X-A: \"${SECRET}\" } } } }, { redirect: \"/{header.x-a}\" } ]",
        "filters: [ { respond: { body: \"${SECRET}\" } } ]",
        "filters: [ { redirect: \"https://u:hunter2hunter2@h.test{path}\" } ]",
        "filters: [ { redirect: \"https://h.test{path}?token=hunter2hunter2&b=1\" } ]",
        "match: { path: \"/${SECRET}/*\" }, to: s",
        "match: { path: \"/{a}\", headers: { X-A: \"${SECRET}\" } }, to: s",
        "filters: [ { log: { fields: { a: \"${SECRET}\" } } } ], to: s",
    ] {
        for text in displays(route, "http://a.test/a") {
            let plain = text.to_ascii_lowercase();
            assert!(!plain.contains("hunter2"), "{route}: {text}");
        }
    }
    let shown = displays("filters: [ { rewrite: \"/${SECRET}/x\" } ], to: s", "http://a.test/a");
    assert!(shown.iter().any(|text| text.contains("rewrite: path /<redacted>/x")), "{shown:#?}");
    assert!(shown.iter().any(|text| text.contains("GET /<redacted>/x")), "{shown:#?}");
}

#[test]
fn addresses_and_prefixes_that_the_client_names_are_shown() {
    let route = "match: { path: \"${BASE}/*\" }, filters: [ { redirect: \"https://${HOST}{path}\" } ]";
    let shown = displays(route, "http://a.test/base-path/x").join("\n");
    assert!(shown.contains("https://shown.test/base-path/x"), "{shown}");
    let shown = displays("match: { path: /a }, to: s", "http://a.test/a").join("\n");
    assert!(shown.contains("http://shown.test:8081"), "{shown}");
}

/// The values that the test writes at each key: a variable alone, in a path and in a URL.
const WRITTEN: [&str; 4] =
    ["${SECRET}", "/x/${SECRET}", "http://h.test/${SECRET}", "http://h.test/x?q=${SECRET}"];

/// Files with a variable at one place of the schema.
fn places(choice: &Choice, around: (String, String), found: &mut Vec<String>) {
    for (owner, form) in &choice.forms {
        if form.get("type").is_some_and(|kind| kind.to_string().contains("\"string\"")) {
            found.extend(WRITTEN.map(|written| format!("{}\"{written}\"{}", around.0, around.1)));
        }
        for (key, below) in entries(owner, form) {
            let (before, after) = &around;
            let key = key.unwrap_or("k1");
            places(&below, (format!("{before}{{ \"{key}\": "), format!(" }}{after}")), found);
        }
        if let Some(below) = elements(owner, form) {
            let (before, after) = &around;
            places(&below, (format!("{before}["), format!("]{after}")), found);
        }
    }
}

/// Every place of a filter in the schema: where the filter can be built at all, no display shows the variable.
#[test]
fn no_key_of_a_filter_shows_a_variable() {
    let mut all = Vec::new();
    places(&Choice::file(), Default::default(), &mut all);
    let filters: Vec<&String> =
        all.iter().filter(|text| text.starts_with("{ \"routes\": [{ \"filters\": ")).collect();
    assert!(filters.len() > 400, "{}", filters.len());
    let environment = |name: &str| (name == "SECRET").then(|| MARKER.to_owned());
    let before = loaded(EMPTY);
    let mut built = 0;
    for text in filters {
        let whole = text.replacen(
            "{ \"routes\": [{ \"filters\": ",
            "{ \"listeners\": { \"web\": \"127.0.0.1:0\" }, \"routes\": [{ \"to\": [ \"http://10.0.0.1\" ], \"filters\": ",
            1,
        );
        let Ok(after) = check_text("t.yaml", &whole, &environment) else { continue };
        built += 1;
        let told = diff((&before.plan, &before.settings), (&after.plan, &after.settings));
        let told = told.iter().map(|change| format!("{change} {change:?}\n")).collect::<String>();
        assert!(!told.contains("hunter2"), "{text}: {told}");
    }
    assert!(built > 40, "{built}");
}
