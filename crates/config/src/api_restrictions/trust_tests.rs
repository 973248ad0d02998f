//! The file alone decides on client identity and on the destinations of secrets.

use super::tests::node;
use super::{check_arrived, redact, restore};
use crate::parse::Format;

fn breaches(disk: &str, arrived: &str) -> Vec<String> {
    let found = check_arrived(&node(disk), &node(arrived)).err().unwrap_or_default();
    found.into_iter().map(|breach| breach.key).collect()
}

/// The peers that may declare a client address determine the input of every rule about clients.
#[test]
fn the_proxy_protocol_of_a_listener_stays_as_in_the_file() {
    let disk = "listeners: { web: { address: \":80\", proxy_protocol: { from: [ 10.0.0.1, 10.0.0.2 ] } } }";
    for same in [
        disk,
        "listeners: { web: { address: \":80\", proxy_protocol: { from: [ 10.0.0.2, 10.0.0.1 ] } } }",
        "listeners: { other: { address: \":81\" } }",
    ] {
        assert_eq!(breaches(disk, same), Vec::<String>::new(), "{same}");
    }
    let own = "listeners.web.proxy_protocol";
    for (arrived, keys) in [
        ("listeners: { web: { address: \":80\" } }", vec![own.to_owned()]),
        ("listeners: { web: \":80\" }", vec![own.to_owned()]),
        ("listeners: { other: { address: \":80\" } }", vec!["listeners.other.proxy_protocol".to_owned()]),
        ("listeners: { other: \":80\" }", vec!["listeners.other.proxy_protocol".to_owned()]),
        (
            "listeners: { web: { address: \":80\", proxy_protocol: { from: [ 10.0.0.1 ] } } }",
            vec![format!("{own}.from")],
        ),
        (
            "listeners: { web: { address: \":80\", proxy_protocol: { from: [ 10.0.0.1, 10.0.0.2, 0.0.0.0/0 ] } } }",
            vec![format!("{own}.from[2]")],
        ),
        (
            "listeners: { web: { address: \":80\", proxy_protocol: { from: [ 10.0.0.1, 10.0.0.2 ], required: false } } }",
            vec![format!("{own}.required")],
        ),
    ] {
        assert_eq!(breaches(disk, arrived), keys, "{arrived}");
    }
    let new = "listeners: { web: { address: \":80\", proxy_protocol: { from: [ 10.0.0.1 ] } } }";
    assert_eq!(breaches("listeners: { web: \":80\" }", new), [format!("{own}.from[0]")]);
}

/// Without the load balancer in the list, all of its clients would have its address.
#[test]
fn trusted_proxies_stay_as_in_the_file() {
    let disk = "trusted_proxies: [10.0.0.0/8, 192.168.0.0/16]";
    assert!(breaches(disk, "trusted_proxies: [192.168.0.0/16, 10.0.0.0/8]").is_empty());
    for less in ["trusted_proxies: [192.168.0.0/16]", "trusted_proxies: []", "routes: []"] {
        assert_eq!(breaches(disk, less), ["trusted_proxies"], "{less}");
    }
    assert_eq!(breaches(disk, &disk.replace("]", ", 0.0.0.0/0]")), ["trusted_proxies[2]"]);
}

/// The short form of a listener has none of the keys that the long one has.
#[test]
fn an_address_alone_takes_no_tls_away() {
    let disk = "listeners: { web: { address: \":443\", tls: { cert: a.pem, key: a.key } } }";
    assert_eq!(breaches(disk, "listeners: { web: \":443\" }"), ["listeners.web.tls"]);
    assert_eq!(breaches(disk, "listeners: { other: \"0.0.0.0:443\" }"), ["listeners.other.tls"]);
    assert!(breaches(disk, "listeners: { other: \":80\" }").is_empty());
}

#[test]
fn what_makes_a_verification_stricter_is_not_taken_away() {
    let disk = "listeners: { web: { address: \":443\", tls: { cert: a.pem, key: a.key, min_version: \"1.3\", client_auth: { ca: c.pem, crl: [ r.pem, s.pem ] } } } }\n\
                services: { s: { endpoints: \"https://h\", tls: { ca: a.pem, server_name: h.test, min_version: \"1.3\" } } }\n\
                routes: [{ name: r, to: { sealed: { domain: x.test, revoked: { file: revoked.txt } } } }]\n";
    assert!(breaches(disk, disk).is_empty());
    for (taken, key) in [
        (", min_version: \"1.3\", client_auth", "listeners.web.tls.min_version"),
        (", crl: [ r.pem, s.pem ]", "listeners.web.tls.client_auth.crl"),
        ("r.pem, ", "listeners.web.tls.client_auth.crl"),
        ("ca: a.pem, ", "services.s.tls.ca"),
        (", server_name: h.test", "services.s.tls.server_name"),
        (", revoked: { file: revoked.txt }", "routes[0].to.sealed.revoked"),
    ] {
        let left = if taken.ends_with("client_auth") { ", client_auth" } else { "" };
        let arrived = disk.replace(taken, left);
        assert_ne!(arrived, disk, "{taken}");
        assert_eq!(breaches(disk, &arrived), [key], "{taken}");
    }
}

/// An issuer receives `client_secret` and asserts the identity of users.
#[test]
fn an_issuer_does_not_change_while_its_secret_stays() {
    let with = |secret: &str| {
        format!(
            "routes: [{{ name: r, filters: [{{ auth: {{ oidc: {{ providers: {{ p: {{ issuer: \"https://login.test\", \
             client_id: shop, client_secret: {{ {secret} }} }} }} }} }} }}] }}]\n"
        )
    };
    let place = "routes[0].filters[0].auth.oidc.providers.p.client_secret";
    for (secret, below) in
        [("file: /etc/s", "file"), ("env: SECRET", "env"), ("value: \"${SECRET}\"", "value")]
    {
        let disk = with(secret);
        assert!(breaches(&disk, &disk).is_empty());
        let moved = disk.replace("https://login.test", "https://evil.test");
        assert_eq!(breaches(&disk, &moved), [format!("{place}.{below}")]);
    }
    let disk = with("value: hidden-hidden");
    let shown = redact(&disk, Format::Yaml, &node(&disk)).expect("can be shown");
    assert!(!shown.contains("hidden-hidden"), "{shown}");
    let moved = shown.replace("https://login.test", "https://evil.test");
    let refused = restore((&moved, &node(&moved)), (&disk, &node(&disk))).unwrap_err();
    assert_eq!(refused[0].key, format!("{place}.value"));
    let own = with("value: own-own-own").replace("https://login.test", "https://other.test");
    assert!(breaches(&disk, &own).is_empty(), "with a secret of its own, another provider may come");
}

const SENT: &str = "\
listeners: { web: { address: \":80\", filters: [{ headers: { request: { set: { X-Site: \"${SITE}\" } } } }] }, other: \":81\" }
chains: { keys: [{ headers: { request: { set: { X-Api-Key: literal-of-the-file } } } }] }
services:
  a: { endpoints: [ { url: \"http://10.0.0.1\", weight: 1 } ] }
  b: { endpoints: [ \"http://10.0.0.2\" ], health: { headers: { Authorization: \"${PROBE}\" } } }
  c: { endpoints: [ \"http://10.0.0.3\" ] }
  judge: { endpoints: [ \"http://10.0.0.4\" ] }
routes:
  - { name: own, listeners: [ other ], filters: [ { headers: { request: { set: { Authorization: \"Bearer ${TOKEN}\" } } } }, { ext: { service: judge } } ], to: a }
  - { name: chain, listeners: [ other ], filters: [ { chain: keys } ], to: { split: [ { service: b } ] } }
  - { name: site, to: \"http://10.0.0.9\" }
  - { name: free, listeners: [ other ], to: c }
";

/// `PUT /config` with another endpoint would send the secret there.
#[test]
fn a_secret_in_a_field_is_sent_to_no_other_endpoint() {
    assert_eq!(breaches(SENT, SENT), Vec::<String>::new());
    let own = "routes[0].filters[0].headers.request.set.Authorization";
    let chain = "chains.keys[0].headers.request.set.X-Api-Key";
    let site = "listeners.web.filters[0].headers.request.set.X-Site";
    for (from, to, keys) in [
        ("10.0.0.1", "evil", &[own][..]),
        ("http://10.0.0.1\", weight: 1 }", "http://10.0.0.1\" }, \"http://evil\"", &[own]),
        ("10.0.0.4", "evil", &[own]),
        ("10.0.0.2", "evil", &["services.b.health.headers.Authorization", chain]),
        ("10.0.0.9", "evil", &[site]),
        ("to: a }", "to: c }", &[own]),
        ("ext: { service: judge }", "ext: { service: c }", &[own]),
        ("ext: { service: judge }", "mirror: c", &[own]),
        ("to: c }", "to: c, filters: [ { chain: keys } ] }", &[chain]),
        ("name: free, listeners: [ other ]", "name: free", &[site]),
        ("name: free, listeners: [ other ]", "name: free, listeners: [ ]", &[site]),
        (
            "a: { endpoints: [ { url: \"http://10.0.0.1\", weight: 1 } ] }",
            "a: { discover: { dns: { name: evil, port: 80 } } }",
            &[own],
        ),
    ] {
        let arrived = SENT.replace(from, to);
        assert_ne!(arrived, SENT, "{from}");
        assert_eq!(breaches(SENT, &arrived), keys, "{from} -> {to}");
    }
    for (from, to) in [
        ("10.0.0.3", "10.0.0.33"),
        ("weight: 1", "weight: 2"),
        (", { ext: { service: judge } }", ""),
        ("X-Api-Key: literal-of-the-file", "X-Api-Key: own, X-Other: literal"),
        ("to: c }", "to: c, filters: [ { headers: { request: { set: { X-Api-Key: own } } } } ] }"),
    ] {
        let arrived = SENT.replace(from, to);
        assert_ne!(arrived, SENT, "{from}");
        assert_eq!(breaches(SENT, &arrived), Vec::<String>::new(), "{from} -> {to}");
    }
    let sent = super::carriers(&node(SENT));
    assert_eq!(sent.services.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b", "judge"]);
    assert_eq!(sent.routes, [0, 1, 2]);
}
