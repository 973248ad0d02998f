//! What may arrive, what may not, and that secrets come back as they were.

use super::*;
use crate::diagnose::Problems;
use crate::parse::{Format, parse};
use crate::source::Sources;

const DISK: &str = "\
admin: { address: \"127.0.0.1:9900\", token: { file: /etc/token } }
state: { path: /var/lib/thalweg }
access_log: { path: /var/log/access.log }
listeners: { web: { address: \":80\" }, inner: { address: \"unix:/run/a.sock\" } }
webhooks:
  - { url: \"https://a/hook\", secret: { file: /etc/a } }
  - { url: \"https://b/hook\", secret: { value: \"b secret\" } }
services: { a: { endpoints: [\"http://10.0.0.1:${PORT}\"] } }
";

pub(super) fn node(text: &str) -> Node {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let file = sources.add("a.yaml", text);
    parse(file, Format::Yaml, &sources, &mut problems).expect("parses")
}

fn breaches(arrived: &str) -> Vec<String> {
    let found = check_arrived(&node(DISK), &node(arrived)).err().unwrap_or_default();
    found.into_iter().map(|breach| breach.key).collect()
}

#[test]
fn what_is_on_disk_may_come_back_in_another_order_or_not_at_all() {
    assert!(breaches(DISK).is_empty());
    assert!(breaches("routes: []").is_empty());
    let turned = "webhooks: [{ url: x }, { secret: { file: /etc/a }, url: \"https://a/hook\" }]";
    assert!(breaches(turned).is_empty());
}

#[test]
fn harmless_things_may_be_new() {
    for text in [
        "listeners: { web: { address: \":80\" }, other: { address: \":81\" } }",
        "services: { env: { endpoints: [\"http://h:1\"], health: { path: /ping } }, file: { endpoints: [] } }",
        "routes: [{ match: { path: /a/*, headers: { env: x, file: y } }, to: a }]",
        "routes: [{ filters: [{ rate_limit: { key: client_ip } }] }]",
        "access_log: { path: stdout }",
        "a: \"$${NOT_A_VARIABLE} ^/x$\"",
    ] {
        assert!(breaches(text).is_empty(), "{text}: {:?}", breaches(text));
    }
}

#[test]
fn references_settings_and_trust_may_not_be_new() {
    for (text, key) in [
        ("admin: { address: \"0.0.0.0:9900\" }", "admin.address"),
        ("admin: { insecure: true }", "admin.insecure"),
        ("state: { path: /tmp }", "state.path"),
        ("lists: { a: [ { file: /etc/shadow } ] }", "lists.a[0].file"),
        (
            "routes: [{ filters: [{ access: { deny: [ { file: /etc/shadow } ], geo_file: /x } }] }]",
            "routes[0].filters[0].access.deny[0].file",
        ),
        (
            "routes: [{ filters: [{ access: { geo_file: [ /x ] } }] }]",
            "routes[0].filters[0].access.geo_file[0]",
        ),
        (
            "routes: [{ filters: [{ auth: { basic: { file: /etc/shadow } } }] }]",
            "routes[0].filters[0].auth.basic.file",
        ),
        (
            "routes: [{ filters: [{ auth: { any: [ { jwt: { jwks_file: /x } } ] } }] }]",
            "routes[0].filters[0].auth.any[0].jwt.jwks_file",
        ),
        (
            "routes: [{ filters: [{ auth: { jwt: { key: { secret: { env: HOME } } } } }] }]",
            "routes[0].filters[0].auth.jwt.key.secret.env",
        ),
        (
            "routes: [{ filters: [{ auth: { jwt: { jwks_url: \"http://a/\", allow_http: true } } }] }]",
            "routes[0].filters[0].auth.jwt.allow_http",
        ),
        (
            "routes: [{ filters: [{ rate_limit: { requests: 1, store: { redis: { ca: /x } } } }] }]",
            "routes[0].filters[0].rate_limit.store.redis.ca",
        ),
        (
            "routes: [{ filters: [{ error_pages: { pages: { 5xx: { html: { file: /etc/shadow } } } } }] }]",
            "routes[0].filters[0].error_pages.pages.5xx.html.file",
        ),
        ("routes: [{ filters: [{ respond: { file: /etc/shadow } }] }]", "routes[0].filters[0].respond.file"),
        ("state: {}", "state"),
        ("user: root", "user"),
        ("metrics: { address: \"0.0.0.0:9901\" }", "metrics.address"),
        ("routes: [{ filters: [{ wasm: { module: /etc/a.wasm } }] }]", "routes[0].filters[0].wasm.module"),
        (
            "listeners: { web: { proxy_protocol: { from: [ 0.0.0.0/0 ] } } }",
            "listeners.web.proxy_protocol.from[0]",
        ),
        ("listeners: { web: { tls: { max_version: \"1.2\" } } }", "listeners.web.tls.max_version"),
        ("listeners: { web: { tls: { groups: [ secp256r1 ] } } }", "listeners.web.tls.groups[0]"),
        ("trusted_proxies: [10.0.0.0/8, 0.0.0.0/0]", "trusted_proxies[1]"),
        ("include: [\"/etc/*\"]", "include[0]"),
        ("access_log: { path: /etc/cron.d/x }", "access_log.path"),
        ("access_log: { syslog: { address: 'udp://192.0.2.1' } }", "access_log.syslog.address"),
        ("access_log: { rotate: { size: 64KiB, keep: 1 } }", "access_log.rotate.size"),
        ("listeners: { web: { address: \"unix:/run/b.sock\" } }", "listeners.web.address"),
        (
            "services: { a: { endpoints: [{ url: \"unix:/run/docker.sock\" }] } }",
            "services.a.endpoints[0].url",
        ),
        ("services: { a: { endpoints: [\"http://h/${HOME}\"] } }", "services.a.endpoints[0]"),
        ("services: { a: { discover: { file: { path: /etc/shadow } } } }", "services.a.discover.file.path"),
        (
            "services: { a: { discover: { docker: { socket: \"tcp://h:2375\" } } } }",
            "services.a.discover.docker",
        ),
        (
            "services: { a: { discover: { http: { headers: { x: { env: HOME } } } } } }",
            "services.a.discover.http.headers.x.env",
        ),
        ("services: { b: { host: \"${PORT}\" } }", "services.b.host"),
        ("services: { b: { tls: { ca: /etc/ca.pem } } }", "services.b.tls.ca"),
        ("services: { b: { tls: { insecure_skip_verify: true } } }", "services.b.tls.insecure_skip_verify"),
        ("services: { b: { tls: { server_name: evil.test } } }", "services.b.tls.server_name"),
        ("services: { b: { tls: { cert: /etc/a, key: /etc/shadow } } }", "services.b.tls.key"),
        (
            "listeners: { web: { tls: { certificates: [{ cert: a.pem, key: a.key }] } } }",
            "listeners.web.tls.certificates[0].cert",
        ),
        (
            "listeners: { web: { tls: { acme: { directory_ca: a.pem } } } }",
            "listeners.web.tls.acme.directory_ca",
        ),
        (
            "listeners: { web: { tls: { acme: { directory: 'https://evil/' } } } }",
            "listeners.web.tls.acme.directory",
        ),
        (
            "listeners: { web: { tls: { acme: { dns: { exec: [/bin/sh] } } } } }",
            "listeners.web.tls.acme.dns.exec[0]",
        ),
        (
            "listeners: { web: { tls: { acme: { on_demand: { ask: 'http://evil/' } } } } }",
            "listeners.web.tls.acme.on_demand.ask",
        ),
        (
            "listeners: { web: { tls: { client_auth: { mode: optional, ca: a.pem } } } }",
            "listeners.web.tls.client_auth.mode",
        ),
        (
            "listeners: { web: { tls: { certificates: [{ client_auth: { ca: a.pem, crl: [ /etc/b ] } }] } } }",
            "listeners.web.tls.certificates[0].client_auth.crl[0]",
        ),
        ("routes: [{ filters: [{ files: /etc }] }]", "routes[0].filters[0].files"),
        ("routes: [{ filters: [{ files: { root: /etc } }] }]", "routes[0].filters[0].files.root"),
        ("routes: [{ filters: [{ files: { hidden: true } }] }]", "routes[0].filters[0].files.hidden"),
        ("routes: [{ filters: [{ respond: { file: /etc/a } }] }]", "routes[0].filters[0].respond.file"),
        ("chains: { a: [{ files: /etc }] }", "chains.a[0].files"),
        ("webhooks: [{ url: \"https://evil/\", secret: { file: /etc/a } }]", "webhooks[0].secret.file"),
        ("webhooks: [{ url: \"https://a/hook\", secret: { file: /etc/shadow } }]", "webhooks[0].secret.file"),
        ("webhooks: [{ url: \"https://a/hook\", secret: { env: HOME } }]", "webhooks[0].secret.env"),
    ] {
        assert!(breaches(text).contains(&key.to_owned()), "{text}: {:?}", breaches(text));
    }
    let both = breaches("listeners: { web: { tls: { certificates: [{ cert: a.pem, key: a.key }] } } }");
    assert_eq!(both.len(), 2, "{both:?}");
}

/// Without `socket` it is the one of the machine, without `kubeconfig` the account of the pod.
#[test]
fn docker_and_kubernetes_are_asked_only_as_the_file_has_them() {
    let of = |discover: &str| node(&format!("services: {{ a: {{ discover: {{ {discover} }} }} }}"));
    let keys = |found: Vec<Breach>| found.into_iter().map(|breach| breach.key).collect::<Vec<_>>();
    let arrived =
        |disk: &str, text: &str| keys(check_arrived(&of(disk), &of(text)).err().unwrap_or_default());
    for (key, value) in [
        ("docker", "{}"),
        ("docker", "null"),
        ("docker", "web"),
        ("docker", "{ service: web }"),
        ("kubernetes", "{ service: web, namespace: secret }"),
        ("kubernetes", "{}"),
    ] {
        let (text, path) = (format!("{key}: {value}"), vec![format!("services.a.discover.{key}")]);
        assert_eq!(keys(forbidden(&of(&text))), path, "{text}");
        assert_eq!(arrived("dns: a", &text), path, "{text}");
        assert_eq!(arrived(&text, &text), Vec::<String>::new(), "{text}");
    }
    let disk = "docker: { service: web, socket: 'tcp://h:2375', labels: { a: b } }";
    let turned = "docker: { labels: { a: b }, socket: 'tcp://h:2375', service: web }";
    assert_eq!(arrived(disk, turned), Vec::<String>::new());
    for other in [
        "docker: { service: web, labels: { a: b } }",
        "docker: { service: db, socket: 'tcp://h:2375', labels: { a: b } }",
        "docker: { service: web, socket: 'tcp://h:2375', labels: { a: c } }",
        "docker: { service: web, socket: 'tcp://h:2375', labels: { a: b }, network: x }",
    ] {
        assert_eq!(arrived(disk, other), ["services.a.discover.docker"], "{other}");
    }
    let elsewhere = node("services: { b: { discover: { docker: { service: web } } } }");
    assert!(check_arrived(&of("docker: { service: web }"), &elsewhere).is_err());
    // A service may be called so.
    assert!(forbidden(&node("services: { docker: { endpoints: 'http://h' }, kubernetes: {} }")).is_empty());
}

#[test]
fn a_value_of_another_kind_is_not_the_same() {
    let disk = node("state: { path: \"1\" }");
    assert!(check_arrived(&disk, &node("state: { path: 1 }")).is_err());
    assert!(check_arrived(&disk, &node("state: { path: \"1\" }")).is_ok());
}

#[test]
fn secrets_are_redacted_and_come_back() {
    let shown = redact(DISK, Format::Yaml, &node(DISK)).expect("can be shown");
    assert!(!shown.contains("b secret") && shown.contains("secret: { value: \"<redacted>\" }"), "{shown}");
    assert!(shown.contains("file: /etc/a") && shown.contains("${PORT}"));
    let edited = shown.replace(":80", ":81");
    let back = restore((&edited, &node(&edited)), (DISK, &node(DISK))).expect("all are known");
    assert_eq!(back, DISK.replace(":80", ":81"));
}

#[test]
fn every_way_to_write_a_secret_is_redacted_or_the_text_is_not_shown() {
    for text in [
        "a: { secret: hidden }",
        "a: { secret: \"hidden\" }",
        "a: { secret: 'hidden' }",
        "a:\n  secret: hidden # why\n  b: 1\n",
        "a:\n  token:\n    value: hidden\n",
        "a: { url: \"redis://user:hidden@h/0\" }",
        "a: [\"http://u:hidden@h\"]",
        "a:\n  secret: |\n    hidden\n  b: 1\n",
        "a:\n  secret: >-\n    hidden\n    hidden\n",
        "x: &x hidden\na: { secret: *x }\n",
        "x: &x hidden\na: { secret: *x, token: *x }\n",
        "a: { secret: \"hid\\u0064en hidden\" }",
        "a: { secrets: [hidden, hidden] }",
        "services: { a: { discover: { http: { url: x, headers: { x-key: { value: hidden } } } } } }",
    ] {
        if let Some(shown) = redact(text, Format::Yaml, &node(text)) {
            assert!(!shown.contains("hidden"), "{text} -> {shown}");
        }
    }
    let toml = "[a]\nsecret = \"hidden\"\nb = 1\n";
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let file = sources.add("a.toml", toml);
    let root = parse(file, Format::Toml, &sources, &mut problems).unwrap();
    assert_eq!(redact(toml, Format::Toml, &root).as_deref(), Some("[a]\nsecret = \"<redacted>\"\nb = 1\n"));
}

#[test]
fn labels_are_names_that_users_choose() {
    let text = "services: { a: { endpoints: [ { url: 'http://h', labels: { env: prod, file: x } } ] } }";
    assert_eq!(check_arrived(&node(DISK), &node(text)), Ok(()));
}

#[test]
fn a_redacted_value_in_another_place_is_refused() {
    let moved = "webhooks: [{ url: \"https://evil/\", secret: { value: \"<redacted>\" } }]";
    let refused = restore((moved, &node(moved)), (DISK, &node(DISK))).unwrap_err();
    assert_eq!(refused[0].key, "webhooks[0].secret.value");
}

#[test]
fn a_secret_does_not_follow_to_another_destination() {
    let disk = "services:\n  a: { discover: { consul: { url: \"https://consul\", token: hidden } } }\n\x20 \
                b: { discover: { consul: { url: [\"https://one\", \"https://two\"], token: hidden } } }\n\
                webhooks: [{ name: a, url: \"https://a\", secret: hidden }]\n";
    let shown = redact(disk, Format::Yaml, &node(disk)).expect("can be shown");
    let back = restore((&shown, &node(&shown)), (disk, &node(disk))).expect("all are known");
    assert_eq!(node(&back), node(&disk.replace("hidden", "\"hidden\"")));
    for (from, key) in [
        ("https://consul", "services.a.discover.consul.token"),
        ("https://two", "services.b.discover.consul.token"),
        ("https://a", "webhooks[0].secret"),
    ] {
        let moved = shown.replace(from, "https://evil");
        let refused = restore((&moved, &node(&moved)), (disk, &node(disk))).unwrap_err();
        assert_eq!((refused.len(), refused[0].key.as_str()), (1, key));
    }
    let by_file = disk.replace("hidden", "{ file: /etc/token }");
    let moved = by_file.replace("https://consul", "https://evil");
    let refused = check_arrived(&node(&by_file), &node(&moved)).unwrap_err();
    assert_eq!(refused[0].key, "services.a.discover.consul.token.file");
}

#[test]
fn what_is_said_to_a_collector_of_traces_is_secret_and_stays_with_it() {
    let disk = "tracing: { endpoint: \"http://here:4318\", headers: { X-Team: { value: hidden }, X-Key: { env: KEY } } }\n";
    let shown = redact(disk, Format::Yaml, &node(disk)).expect("can be shown");
    assert!(!shown.contains("hidden") && shown.contains("KEY"), "{shown}");
    assert!(restore((&shown, &node(&shown)), (disk, &node(disk))).is_ok());
    let moved = shown.replace("here", "evil");
    let refused = restore((&moved, &node(&moved)), (disk, &node(disk))).unwrap_err();
    assert_eq!((refused.len(), refused[0].key.as_str()), (1, "tracing.headers.X-Team.value"));
    let refused = check_arrived(&node(disk), &node(&disk.replace("here", "evil"))).unwrap_err();
    assert!(refused.iter().any(|breach| breach.key == "tracing.headers.X-Key.env"), "{refused:?}");
    let named = "tracing: { endpoint: \"http://here:4318\", attributes: { file: a, env: b } }";
    assert!(breaches(named).is_empty(), "attributes have the names that users choose");
}

#[test]
fn redacted_elements_of_lists_come_back_by_position() {
    let disk = "a: { secrets: [one, two] }\nb: [{ url: \"http://u:p@h\", secret: three }]\n";
    let shown = redact(disk, Format::Yaml, &node(disk)).expect("can be shown");
    assert_eq!(shown.matches(REDACTED).count(), 4, "{shown}");
    let back = restore((&shown, &node(&shown)), (disk, &node(disk))).expect("all are known");
    assert_eq!(
        back,
        "a: { secrets: [\"one\", \"two\"] }\nb: [{ url: \"http://u:p@h\", secret: \"three\" }]\n"
    );
    // The name of a thing is no secret: hiding it does not make one thing another.
    let hidden = "b: [{ name: \"<redacted>\", url: \"http://evil\", secret: \"<redacted>\" }]";
    assert!(restore((hidden, &node(hidden)), (disk, &node(disk))).is_err());
}

#[test]
fn certificates_stay_those_of_the_file() {
    let with = |tls: &str| format!("listeners: {{ web: {{ address: \":443\", tls: {{ {tls} }} }} }}");
    let disk =
        with("certificates: [{ cert: a.pem, key: a.key }, { cert: b.pem, key: b.key }], suites: [x, y]");
    let breaches = |arrived: &str| {
        let found = check_arrived(&node(&disk), &node(arrived)).err().unwrap_or_default();
        found.into_iter().map(|breach| breach.key).collect::<Vec<_>>()
    };
    for tls in [
        "certificates: [{ cert: a.pem, key: a.key }]",
        "certificates: [{ cert: b.pem, key: b.key }, { cert: a.pem, key: a.key, names: [a.test] }]",
        "certificates: [{ cert: a.pem, key: a.key }], unknown_name: refuse, handshake_timeout: 5s, suites: [x]",
    ] {
        assert_eq!(breaches(&with(tls)), Vec::<String>::new(), "{tls}");
    }
    let first = "listeners.web.tls.certificates[0]";
    for (tls, keys) in [
        ("certificates: [{ cert: c.pem, key: c.key }]", &[".cert", ".key"][..]),
        ("certificates: [{ cert: /etc/passwd, key: a.key }]", &[".cert", ".key"]),
        ("certificates: [{ cert: a.pem, key: b.key }]", &[".key"]),
        ("certificates: [{ cert: a.pem, key: /etc/shadow, names: [a.test] }]", &[".key"]),
        ("certificates: [{ key: /etc/shadow, cert: \"${HOME}\" }]", &[".key", ".cert"]),
    ] {
        let expected: Vec<String> = keys.iter().map(|key| format!("{first}{key}")).collect();
        assert_eq!(breaches(&with(tls)), expected, "{tls}");
    }
    assert_eq!(breaches(&with("min_version: \"1.0\"")), ["listeners.web.tls.min_version"]);
    assert_eq!(breaches(&with("suites: [weak]")), ["listeners.web.tls.suites[0]"]);
    // Another listener is another place, also for files that are known.
    let other = disk.replace("web", "other");
    assert_eq!(breaches(&other).len(), 6, "{:?}", breaches(&other));
}

/// It belongs into a file of its own. Where it stands all the same, it is hidden as other secrets are.
#[test]
fn a_private_key_is_a_secret_wherever_it_stands() {
    let key = "-----BEGIN EC PRIVATE KEY-----\\nhidden\\n-----END EC PRIVATE KEY-----";
    for text in [format!("a: {{ key: \"{key}\" }}"), format!("a: [ \"x {key}\" ]")] {
        let shown = redact(&text, Format::Yaml, &node(&text)).expect("can be shown");
        assert!(shown.contains(REDACTED) && !shown.contains("hidden"), "{shown}");
    }
    let public = "a: \"-----BEGIN PUBLIC KEY-----\\nshown\\n-----BEGIN CERTIFICATE-----\"";
    assert_eq!(redact(public, Format::Yaml, &node(public)).as_deref(), Some(public));
}

/// Who may change the configuration may not have everybody read what clients say.
#[test]
fn tls_is_not_taken_away_from_a_listener_or_a_port_that_stays() {
    let disk = node(
        "admin: { address: \"127.0.0.1:9900\", tls: { cert: a.pem, key: a.key } }\n\
         listeners:\n  web: { address: \":80\" }\n  \
         secure: { address: \":443\", tls: { certificates: [{ cert: a.pem, key: a.key, client_auth: { ca: c.pem } }], client_auth: { ca: b.pem } } }\n  \
         both: { address: \"127.0.0.1:8443\", tls: { certificates: [{ cert: a.pem, key: a.key }] } }\n  \
         plain: { address: \"127.0.0.2:8443\" }\n\
         services: { tls: { endpoints: [\"http://h\"] }, s: { endpoints: [\"https://h\"], tls: { ca: a.pem } } }\n",
    );
    let breaches = |arrived: &str| {
        let found = check_arrived(&disk, &node(arrived)).err().unwrap_or_default();
        found.into_iter().map(|breach| breach.key).collect::<Vec<_>>()
    };
    let certificates = "certificates: [{ cert: a.pem, key: a.key, client_auth: { ca: c.pem } }]";
    for (arrived, keys) in [
        ("listeners: { secure: { address: \":443\" } }", &["listeners.secure.tls"][..]),
        ("listeners: { secure: { address: \":443\", tls: null } }", &["listeners.secure.tls"]),
        ("listeners: { secure: { address: \":8080\" } }", &["listeners.secure.tls"]),
        ("listeners: { other: { address: \":443\" } }", &["listeners.other.tls"]),
        ("listeners: { other: { address: \"0.0.0.0:443\" } }", &["listeners.other.tls"]),
        ("listeners: { web: { address: \":443\" } }", &["listeners.web.tls"]),
        ("admin: { address: \"127.0.0.1:9900\" }", &["admin.tls"]),
        ("services: { s: { endpoints: [\"https://h\"] } }", &["services.s.tls"]),
        (
            &format!("listeners: {{ secure: {{ tls: {{ {certificates} }} }} }}"),
            &["listeners.secure.tls.client_auth"],
        ),
        (
            "listeners: { secure: { tls: { certificates: [{ cert: a.pem, key: a.key }], client_auth: { ca: b.pem } } } }",
            &["listeners.secure.tls.certificates[0].client_auth"],
        ),
    ] {
        assert_eq!(breaches(arrived), keys, "{arrived}");
    }
    for fine in [
        "listeners: { web: { address: \":80\" } }".to_owned(),
        "listeners: { other: { address: \":81\" }, plain: { address: \"127.0.0.2:8443\" } }".to_owned(),
        format!(
            "listeners: {{ secure: {{ address: \":443\", tls: {{ {certificates}, client_auth: {{ ca: b.pem }}, unknown_name: refuse }} }} }}"
        ),
        "services: { tls: { endpoints: [\"http://other\"] } }".to_owned(),
    ] {
        assert_eq!(breaches(&fine), Vec::<String>::new(), "{fine}");
    }
}

/// Placeholders filled in per request are not secrets; redacting them would only make editing harder.
#[test]
fn values_of_fields_that_only_refer_are_shown() {
    let of = |value: &str| {
        let text = format!(
            "routes: [{{ filters: [{{ headers: {{ request: {{ set: {{ X-Auth: \"{value}\" }} }} }} }}] }}]"
        );
        redact(&text, Format::Yaml, &node(&text)).expect("can be shown").contains(REDACTED)
    };
    for shown in ["${TOKEN}", "Bearer ${TOKEN}", "{user}", "Bearer {header.x-token}", "{claim.a}:${B}"] {
        assert!(!of(shown), "{shown}");
    }
    for hidden in ["secret", "Bearer secret", "{user}secret", "${A:-secret}", "{6F9619FF-8B86}", "{", "", "1"]
    {
        assert!(of(hidden), "{hidden}");
    }
    let condition = "routes: [{ match: { headers: { X-Auth: \"{user}\" } } }]";
    assert!(redact(condition, Format::Yaml, &node(condition)).expect("can be shown").contains(REDACTED));
}
