//! The read token sees no secrets, and the write token may change neither the identity of clients nor the
//! destinations of secrets.

use serde_json::json;
use thalweg_tests::admin::json as document;
use thalweg_tests::message::get;
use thalweg_tests::{Admin, Directory, Message, Proxy, Upstream};

use super::{TOKENS, state_in};
use crate::scenario::watchdog;

/// The beginning of every secret in [`guarded`].
const SECRET: &str = "hunter2-";

/// A proxy with secrets by value in filters and conditions.
fn guarded(upstream: &Upstream) -> Proxy {
    let ((write, read), directory, url) = (TOKENS, Directory::new(), upstream.url());
    let text = format!(
        r#"workers: 2
metrics: {{ address: "127.0.0.1:0" }}
access_log: {{ format: json, path: "{{log}}" }}
shutdown: {{ delay: 0s, grace: 5s }}
{state}admin: {{ address: "127.0.0.1:0", token: {{ value: "{write}" }}, read_token: {{ value: "{read}" }} }}
listeners: {{ web: {{ address: "127.0.0.1:0" }} }}
services:
  s: {{ endpoints: [ "{url}" ] }}
  sent: {{ endpoints: [ "{url}" ], health: {{ path: /, headers: {{ Authorization: "Bearer {SECRET}probe" }} }} }}
routes:
  - name: links
    match: {{ path: /links/* }}
    filters: [ {{ auth: {{ signed_url: {{ secrets: {{ k1: {{ value: "{SECRET}0123456789-signs" }} }} }} }} }} ]
    to: s
  - name: gate
    match: {{ path: /gate/*, headers: {{ X-Api-Key: "{SECRET}gate" }}, query: {{ token: {{ prefix: "{SECRET}query" }} }} }}
    to: s
  - name: fields
    match: {{ path: /fields/* }}
    filters:
      - headers:
          request: {{ set: {{ Authorization: "Bearer {SECRET}upstream", Cookie: "a={SECRET}cookie" }} }}
          response: {{ set: {{ Set-Cookie: "b={SECRET}set-cookie" }} }}
        when: {{ header: {{ X-Api-Key: "{SECRET}when" }} }}
      - access: {{ allow: [ {{ header: {{ X-Auth: "{SECRET}access" }} }}, 127.0.0.0/8 ] }}
      - rewrite: {{ query: {{ set: {{ api_key: "{SECRET}added" }} }} }}
      - headers: {{ request: {{ set: {{ X-Token: "{SECRET}sent" }} }} }}
    to: sent
  - name: login
    match: {{ path: /login/* }}
    filters:
      - auth:
          oidc:
            secret: {{ value: "{SECRET}0123456789-0123456789-cookies" }}
            providers:
              p: {{ issuer: "http://127.0.0.1:1", allow_http: true, client_id: shop, client_secret: {{ value: "{SECRET}client" }} }}
    to: s
  - {{ name: rest, to: s }}
"#,
        state = state_in(&directory),
    );
    Proxy::start_in(directory, &text)
}

fn put(admin: &Admin, tag: &str, text: &str) -> Message {
    let fields = format!("Content-Type: application/yaml\r\nIf-Match: {tag}\r\n");
    admin.ask("PUT", "/api/v1/config", &fields, text).unwrap()
}

/// Issue 43 §1.3: keys of `signed_url` stood in `GET /api/v1/config`, and values of conditions in `explain`.
#[test]
fn a_read_token_sees_no_secret_of_filters_and_conditions() {
    let _watchdog = watchdog("a_read_token_sees_no_secret_of_filters_and_conditions");
    let upstream = Upstream::saying("one");
    let proxy = guarded(&upstream);
    let admin = Admin::on_tcp(&proxy, Some(TOKENS.1));
    let shown = admin.call("GET", "/api/v1/config", "");
    assert_eq!(shown.status(), 200, "{}", shown.text());
    let text = shown.text();
    assert_eq!(text.matches("<redacted>").count(), 15, "{text}");
    assert!(text.contains("k1: { value: \"<redacted>\" }"), "{text}");
    let gate = "http://a.test/gate/x?token=other";
    let mut seen = vec![text];
    for asked in [gate, "http://a.test/fields/x", "http://a.test/links/x", "http://a.test/login/x"] {
        for form in ["", "&text=true"] {
            let path = format!("/api/v1/explain?method=GET&all=true&url={asked}{form}");
            let told = admin.call("GET", &path.replace("?token=", "%3Ftoken="), "");
            assert_eq!(told.status(), 200, "{}", told.text());
            seen.push(told.text());
        }
    }
    assert!(seen.iter().any(|text| text.contains("api_key=[redacted]")), "{seen:#?}");
    for path in ["/api/v1/routes", "/api/v1/routes/fields", "/api/v1/services"] {
        seen.push(admin.call("GET", path, "").text());
    }
    for text in seen {
        assert!(!text.contains(SECRET), "{text}");
    }
}

/// Issue 43 §1.5 and §2: with a write token one could forge client addresses, and redirect the client secret to
/// another issuer.
#[test]
fn a_write_token_changes_neither_who_a_client_is_nor_where_secrets_go() {
    let _watchdog = watchdog("a_write_token_changes_neither_who_a_client_is_nor_where_secrets_go");
    let (upstream, other) = (Upstream::saying("one"), Upstream::saying("two"));
    let proxy = guarded(&upstream);
    let admin = Admin::on_tcp(&proxy, Some(TOKENS.0));
    let answer = admin.call("GET", "/api/v1/config", "");
    let (text, tag) = (answer.text(), answer.value("etag").unwrap().to_owned());
    let unchanged = put(&admin, &tag, &text);
    assert_eq!(unchanged.status(), 200, "{}", unchanged.text());
    let tag = unchanged.value("etag").unwrap().to_owned();
    let sent = format!("sent: {{ endpoints: [ \"{}\" ]", upstream.url());
    for (from, to, key) in [
        (
            "listeners: { web: { address: \"127.0.0.1:0\" }",
            "listeners: { web: { address: \"127.0.0.1:0\", proxy_protocol: { from: [ 127.0.0.1 ], required: false } }"
                .to_owned(),
            "listeners.web.proxy_protocol.from[0]",
        ),
        ("metrics: { address: \"127.0.0.1:0\" }", "metrics: { address: \":0\" }".to_owned(), "metrics.address"),
        (
            "issuer: \"http://127.0.0.1:1\"",
            format!("issuer: \"{}\"", other.url()),
            "routes[3].filters[0].auth.oidc.providers.p.client_secret.value",
        ),
        (&*sent, sent.replace(&upstream.url(), &other.url()), "services.sent.health.headers.Authorization"),
        (&*sent, sent.replace(&upstream.url(), &other.url()), "routes[2].filters[3].headers.request.set.X-Token"),
    ] {
        let bad = text.replacen(from, &to, 1);
        assert_ne!(bad, text, "{key} is a change");
        let answer = put(&admin, &tag, &bad);
        let problem = document(&answer);
        assert_eq!(answer.status(), 403, "{key}: {problem}");
        let keys = problem["keys"].as_array().unwrap();
        assert!(keys.contains(&json!(key)), "{key}: {problem}");
    }
    let new = json!({ "url": other.url() }).to_string();
    let refused = admin.call("POST", "/api/v1/services/sent/endpoints", &new);
    assert_eq!(refused.status(), 403, "{}", refused.text());
    assert_eq!(document(&refused)["keys"], json!(["services.sent.endpoints"]));
    assert_eq!(other.connections(), 0, "no check and no request has gone there");
    let open = admin.call("POST", "/api/v1/services/s/endpoints", &new);
    assert_eq!(open.status(), 201, "{}", open.text());
}

/// A token with the role write adds an endpoint to a service without secrets, and then has a configuration take over
/// that sends secrets to that service.
#[test]
fn an_endpoint_of_the_api_receives_no_secret_of_a_later_configuration() {
    let _watchdog = watchdog("an_endpoint_of_the_api_receives_no_secret_of_a_later_configuration");
    let (upstream, other) = (Upstream::saying("one"), Upstream::saying("two"));
    let proxy = guarded(&upstream);
    let admin = Admin::on_tcp(&proxy, Some(TOKENS.0));
    let new = json!({ "url": other.url() }).to_string();
    let added = admin.call("POST", "/api/v1/services/s/endpoints", &new);
    assert_eq!(added.status(), 201, "{}", added.text());
    let endpoints = || {
        let services = document(&admin.call("GET", "/api/v1/services", ""));
        let all = services["services"].as_array().unwrap().clone();
        let service = all.iter().find(|service| service["name"] == "s").unwrap();
        service["endpoints"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["url"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(endpoints(), [upstream.url(), other.url()]);
    let answer = admin.call("GET", "/api/v1/config", "");
    let (text, tag) = (answer.text(), answer.value("etag").unwrap().to_owned());
    // Both services have the same endpoints in the file, so this changes no destination.
    let taken = put(&admin, &tag, &text.replace("    to: sent\n", "    to: s\n"));
    assert_eq!(taken.status(), 200, "{}", taken.text());
    assert!(taken.text().contains("are left out"), "{}", taken.text());
    assert_eq!(endpoints(), [upstream.url()]);
    let again = admin.call("POST", "/api/v1/services/s/endpoints", &new);
    assert_eq!(again.status(), 403, "{}", again.text());
    for _ in 0..10 {
        assert_eq!(get(proxy.web(), "/fields/x").unwrap().text(), "one");
    }
    assert_eq!(other.connections(), 0, "no request has gone there");
}
