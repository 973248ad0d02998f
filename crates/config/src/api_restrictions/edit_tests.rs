//! Ordinary edits of a file with secrets are accepted, and the attacks that resemble them are refused.

use super::tests::node;
use super::{check_arrived, check_arrived_text, redact, restore};
use crate::parse::Format;
use std::fs;

fn breaches(disk: &str, arrived: &str) -> Vec<String> {
    let found = check_arrived(&node(disk), &node(arrived)).err().unwrap_or_default();
    found.into_iter().map(|breach| breach.key).collect()
}

/// What becomes of an edit of the redacted text: the keys that are refused, or the text.
fn edited(disk: &str, edit: impl Fn(&str) -> String) -> Result<String, Vec<String>> {
    let shown = redact(disk, Format::Yaml, &node(disk)).expect("can be shown");
    assert!(!shown.contains("hunter2"), "{shown}");
    let arrived = edit(&shown);
    assert_ne!(arrived, shown);
    let keys = |found: Vec<super::Breach>| found.into_iter().map(|breach| breach.key).collect::<Vec<_>>();
    let back = restore((&arrived, &node(&arrived)), (disk, &node(disk))).map_err(keys)?;
    check_arrived(&node(disk), &node(&back)).map_err(keys)?;
    Ok(back)
}

const SENT: &str = "\
services:
  a: { endpoints: [ \"http://10.0.0.1\" ] }
  c: { endpoints: [ \"http://10.0.0.3\" ] }
routes:
  - name: own
    match: { path: /own/* }
    filters:
      - headers: { request: { set: { Authorization: \"Bearer hunter2\" } } }
      - headers: { request: { set: { X-Api-Key: \"${KEY}\" } } }
    to: a
  - { name: free, match: { path: /free }, to: c }
";

#[test]
fn a_value_beside_a_secret_may_be_any_text() {
    for value in ["{user}", "{{x}}", "{", "c", "a", "http://10.0.0.3"] {
        let with = SENT.replace("\"${KEY}\" }", &format!("\"${{KEY}}\", X-Other: \"{value}\" }}"));
        assert_ne!(with, SENT);
        assert_eq!(breaches(SENT, &with), Vec::<String>::new(), "{value}");
        let when = SENT.replace(
            "\"${KEY}\" } } }",
            &format!("\"${{KEY}}\" }} }}, when: {{ header: {{ X-A: \"{value}\" }} }} }}"),
        );
        assert_eq!(breaches(SENT, &when), Vec::<String>::new(), "{value}");
    }
    let sealed =
        SENT.replace("    to: a\n", "    to: { sealed: { domain: x.test, allow: [ 10.0.0.0/8 ] } }\n");
    assert_eq!(breaches(SENT, &sealed).len(), 2, "{:?}", breaches(SENT, &sealed));
    for call in [
        "ext: { service: c }",
        "mirror: c",
        "split: { cookie: v, to: { x: c, y: a } }",
        "auth: { forward_auth: { service: c } }",
    ] {
        let called = SENT.replace("    to: a\n", &format!("      - {call}\n    to: a\n"));
        assert_eq!(breaches(SENT, &called).len(), 2, "{call}: {:?}", breaches(SENT, &called));
    }
}

#[test]
fn an_endpoint_may_be_spelled_in_another_way() {
    for url in ["http://10.0.0.1/", "HTTP://10.0.0.1:80", "http://10.0.0.1:80/"] {
        assert_eq!(breaches(SENT, &SENT.replace("http://10.0.0.1", url)), Vec::<String>::new(), "{url}");
    }
    for url in ["http://10.0.0.1:81", "https://10.0.0.1", "http://10.0.0.11/", "http://10.0.0.3"] {
        assert_eq!(breaches(SENT, &SENT.replace("http://10.0.0.1", url)).len(), 2, "{url}");
    }
}

/// The paths of secrets held the positions of filters.
#[test]
fn a_filter_may_be_put_before_a_filter_with_a_secret() {
    for filter in [
        "strip_prefix: /own",
        "headers: { request: { set: { X-New: plain } } }",
        "headers: { request: { remove: [ X-New ] } }",
    ] {
        let added = edited(SENT, |shown| {
            shown.replace("    filters:\n", &format!("    filters:\n      - {filter}\n"))
        });
        let back = added.unwrap_or_else(|keys| panic!("{filter}: {keys:?}"));
        assert!(back.contains("Bearer hunter2") && back.contains(filter), "{back}");
    }
    // The secret stays with its filter, field and route.
    for (from, to) in [
        ("Authorization: \"<redacted>\"", "X-Other: \"<redacted>\""),
        (
            "match: { path: /free }",
            "match: { path: /free }, filters: [ { headers: { request: { set: { Authorization: \"<redacted>\" } } } } ]",
        ),
        (
            "- headers: { request: { set: { Authorization: \"<redacted>\" } } }",
            "- headers: { response: { set: { Authorization: \"<redacted>\" } } }",
        ),
    ] {
        let moved = edited(SENT, |shown| shown.replace(from, to));
        assert!(moved.is_err(), "{to}: {moved:?}");
    }
}

#[test]
fn two_secrets_of_one_field_do_not_change_places_unnoticed() {
    let disk = SENT.replace("X-Api-Key: \"${KEY}\"", "Authorization: \"Bearer hunter2-second\"");
    let first = "      - headers: { request: { set: { Authorization: \"<redacted>\" } } }\n";
    let same = edited(&disk, |shown| shown.replace("to: a", "to: a # edited")).unwrap();
    assert!(same.find("hunter2\"") < same.find("hunter2-second\""), "{same}");
    let fewer = edited(&disk, |shown| shown.replacen(first, "", 1));
    assert!(fewer.is_err(), "the remaining one may be either: {fewer:?}");
}

#[test]
fn a_route_with_a_secret_may_be_renamed_and_named() {
    for name in ["name: other", "name: free2"] {
        let back = edited(SENT, |shown| shown.replace("name: own", name));
        assert!(back.unwrap_or_else(|keys| panic!("{keys:?}")).contains("Bearer hunter2"));
    }
    let unnamed = SENT.replace("  - name: own\n    match", "  - match");
    let named = edited(&unnamed, |shown| {
        shown.replace("  - match: { path: /own/* }", "  - name: new\n    match: { path: /own/* }")
    });
    assert!(named.is_ok(), "{named:?}");
    let before =
        edited(&unnamed, |shown| shown.replace("routes:\n", "routes:\n  - { match: { path: /x }, to: c }\n"));
    assert!(before.is_ok(), "an unnamed route may be put before it: {before:?}");
    let gate = "routes: [ { name: gate, match: { path: /g, headers: { X-Api-Key: hunter2 } }, to: a } ]\nservices: { a: { endpoints: [ \"http://h\" ] } }\n";
    assert!(edited(gate, |shown| shown.replace("name: gate", "name: door")).is_ok());
    // With another match, other requests would get it.
    let moved = edited(SENT, |shown| shown.replace("name: own", "name: new").replace("/own/*", "/new/*"));
    assert_eq!(moved.unwrap_err(), ["routes[0].filters[0].headers.request.set.Authorization"]);
    let swapped = edited(SENT, |shown| {
        shown
            .replace("name: own", "name: x")
            .replace("name: free", "name: own")
            .replace("name: x", "name: free")
    });
    assert!(swapped.is_err(), "{swapped:?}");
}

#[test]
fn placeholders_are_refused_only_where_requests_carry_the_secret() {
    let free = |filter: &str| {
        SENT.replace("match: { path: /free }", &format!("match: {{ path: /free }}, filters: [ {filter} ]"))
    };
    let own = |filter: &str| SENT.replace("    to: a\n", &format!("      - {filter}\n    to: a\n"));
    for filter in [
        "{ respond: { body: \"{header.accept}\" } }",
        "{ rewrite: \"/{header.x-tenant}{path}\" }",
        "{ redirect: \"https://h.test{upstream_path}\" }",
    ] {
        assert_eq!(breaches(SENT, &free(filter)), Vec::<String>::new(), "{filter}");
        assert_eq!(breaches(SENT, &own(filter)).len(), 1, "{filter}: {:?}", breaches(SENT, &own(filter)));
    }
    // A placeholder of the file elsewhere gives no permission to show the secret.
    let shown = free("{ respond: { body: \"{header.authorization}\" } }");
    let moved = shown
        .replace("    to: a\n", "      - { respond: { body: \"{header.authorization}\" } }\n    to: a\n");
    assert_eq!(breaches(&shown, &moved), ["routes[0].filters[2].respond.body"]);
    let kept = own("{ headers: { request: { set: { X-Copy: \"{header.accept}\" } } } }");
    assert_eq!(breaches(&kept, &kept.replace("/own/*", "/other/*")), Vec::<String>::new());
    // The filters of the service, and what holds for every route.
    let service = SENT.replace(
        "a: { endpoints",
        "a: { filters: [ { headers: { response: { set: { X: \"{header.authorization}\" } } } } ], endpoints",
    );
    assert_eq!(breaches(SENT, &service), ["services.a.filters[0].headers.response.set.X"]);
    let log = format!("{SENT}access_log: {{ format: {{ text: \"{{header.authorization}}\" }} }}\n");
    assert_eq!(breaches(SENT, &log), ["access_log.format.text"]);
}

/// `GET /config` answered an empty text.
#[test]
fn secrets_in_blocks_and_aliases_are_redacted_and_come_back() {
    for disk in [
        "a:\n  secret: |\n    hunter2\n    second\n  b: 1\n",
        "a:\n  secret: >-\n    hunter2\n    second\n# comment\nb: 1\n",
        "a:\n  secret: |\n    hunter2\n",
        "x: &x hunter2\na: { secret: *x }\nb: 1\n",
        "a: { secret: &x hunter2, token: *x }\nb: { c: *x }\n",
        "x: &x { secret: hunter2 }\na: *x\nb: 1\n",
        "a: { secret: \"hunter2 \\\n  second\" }\nb: 1\n",
    ] {
        let shown = redact(disk, Format::Yaml, &node(disk)).unwrap_or_else(|| panic!("{disk} is not shown"));
        assert!(!shown.contains("hunter2") && !shown.contains("second"), "{disk}: {shown}");
        assert!(shown.contains("<redacted>"), "{disk}: {shown}");
        let back = restore((&shown, &node(&shown)), (disk, &node(disk)));
        let back = back.unwrap_or_else(|keys| panic!("{disk}: {keys:?}"));
        assert_eq!(strip(&node(&back)), strip(&node(disk)), "{disk}: {back}");
    }
    let (disk, moved) = ("a: { secret: hunter2 }\n", "a: { secret: &x \"<redacted>\" }\nb: { name: *x }\n");
    assert!(restore((moved, &node(moved)), (disk, &node(disk))).is_err());
}

/// A tree without its places.
fn strip(node: &crate::parse::Node) -> String {
    use crate::parse::Kind;
    match &node.kind {
        Kind::Map(entries) => {
            entries.iter().map(|(key, child)| format!("{}: {{{}}} ", key.name, strip(child))).collect()
        }
        Kind::Seq(items) => items.iter().map(|item| format!("[{}]", strip(item))).collect(),
        kind => format!("{kind:?}"),
    }
}

/// The path of such a URL is its secret.
#[test]
fn of_the_url_of_a_webhook_only_scheme_and_host_are_shown() {
    let disk =
        "webhooks: [ { url: \"https://hooks.test/T000/hunter2\" }, { url: \"https://plain.test\" } ]\n";
    let shown = redact(disk, Format::Yaml, &node(disk)).unwrap();
    assert!(
        shown.contains("https://hooks.test/<redacted>") && shown.contains("https://plain.test"),
        "{shown}"
    );
    let added =
        edited(disk, |shown| shown.replace(" ]\n", ", { url: \"https://third.test/x\" } ]\n")).unwrap();
    assert!(added.contains("T000/hunter2") && added.contains("third.test/x"), "{added}");
    let elsewhere = edited(disk, |shown| shown.replace("hooks.test", "evil.test"));
    assert_eq!(elsewhere.unwrap_err(), ["webhooks[0].url"]);
}

/// Braces that stand for themselves are part of the credential.
#[test]
fn a_credential_with_doubled_braces_is_redacted() {
    for value in ["{{hunter2}}", "{{hunter2", "Bearer {{hunter2}}"] {
        let text = format!(
            "routes: [ {{ filters: [ {{ headers: {{ request: {{ set: {{ X-Auth: \"{value}\" }} }} }} }} ] }} ]"
        );
        let shown = redact(&text, Format::Yaml, &node(&text)).unwrap();
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

/// Secrets of included files belong to their destinations too.
#[test]
fn an_included_file_is_part_of_the_comparison() {
    let directory = std::env::temp_dir().join(format!("thalweg-included-secrets-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let name = directory.join("main.yaml").display().to_string();
    let more = "routes: [ { match: { path: /in }, filters: [ { headers: { request: { set: { Authorization: \"${TOKEN}\" } } } } ], to: a } ]\n\
                listeners: { tls: { address: \":443\", tls: { cert: a.pem, key: a.key } } }\n";
    fs::write(directory.join("more.yaml"), more).unwrap();
    let disk = "include: [ more.yaml ]\nlisteners: { web: \":80\" }\n\
                services: { a: { endpoints: [ \"http://10.0.0.1\" ] }, b: { endpoints: [ \"http://10.0.0.2\" ] } }\n\
                routes: [ { to: b } ]\n";
    let keys = |arrived: &str| {
        let checked = check_arrived_text((&name, disk), arrived, &|_| None).expect("all files can be read");
        checked.err().unwrap_or_default().into_iter().map(|breach| breach.key).collect::<Vec<_>>()
    };
    assert_eq!(keys(disk), Vec::<String>::new());
    assert_eq!(keys(&disk.replace("10.0.0.2", "10.0.0.3")), Vec::<String>::new());
    assert_eq!(
        keys(&disk.replace("[ { to: b } ]", "[ { match: { path: /x }, to: b }, { to: b } ]")),
        Vec::<String>::new()
    );
    let stolen = keys(&disk.replace("10.0.0.1", "evil.test"));
    assert_eq!(stolen, ["routes[1].filters[0].headers.request.set.Authorization"]);
    let open = disk.replace("include: [ more.yaml ]\n", "").replace("\":80\"", "\":443\"");
    assert_eq!(keys(&open), ["listeners.web.tls"]);
    let plan =
        |text: &str| crate::check_text(&name, text, &|name| (name == "TOKEN").then(|| "hunter2".into()));
    fs::write(directory.join("more.yaml"), more.lines().next().unwrap()).unwrap();
    let plan = plan(disk).unwrap_or_else(|report| panic!("{}", report.lines())).plan;
    assert!(plan.secrets.are_sent_to("a") && !plan.secrets.are_sent_to("b"));
    fs::remove_dir_all(directory).unwrap();
}

/// A service without a name is that of its route.
#[test]
fn services_that_routes_make_of_urls_carry_secrets_too() {
    let text = "listeners: { web: \"127.0.0.1:0\" }\nroutes:\n  \
                - { name: r, filters: [ { rewrite: \"/${TOKEN}/x\" } ], to: [ \"http://10.0.0.1\" ] }\n  \
                - { name: q, match: { path: /q }, to: [ \"http://10.0.0.2\" ] }\n";
    let loaded = crate::check_text("t.yaml", text, &|_| Some("hunter2".into())).unwrap();
    assert!(loaded.plan.secrets.are_sent_to("r") && !loaded.plan.secrets.are_sent_to("q"));
}

/// Both lists of filters have every filter in one of them.
#[test]
fn filters_that_never_call_have_no_services() {
    use super::sent::NEVER_CALL;
    let callers = ["auth", "ext", "mirror", "split", "wasm"];
    for filter in thalweg_filter::ALL {
        assert!(NEVER_CALL.contains(&filter.name) != callers.contains(&filter.name), "{}", filter.name);
    }
}
