use super::*;
use crate::query::Selected;
use crate::testing::lines;
use proptest::prelude::*;
use std::collections::HashMap;

const URL: Url<'static> =
    Url { scheme: "https", host: b"a.example", port: 443, path: b"/b", query: Some(b"c=1&d=2") };

fn rule(fields: &[&str], cookies: &[&str]) -> KeyRule {
    let names = |list: &[&str]| list.iter().map(|name| (*name).into()).collect();
    KeyRule { fields: names(fields), cookies: names(cookies), ..KeyRule::default() }
}

fn key(rule: &KeyRule, url: Url<'_>, request: &str) -> Key {
    Key::of(rule, &url, lines(request), None).unwrap()
}

#[test]
fn scheme_host_port_path_query_and_space_are_parts() {
    let plain = KeyRule::default();
    let base = key(&plain, URL, "");
    assert_eq!(base, key(&plain, URL, "cookie: a=b\naccept: c"));
    for url in [
        Url { scheme: "http", ..URL },
        Url { host: b"b.example", ..URL },
        Url { port: 8443, ..URL },
        Url { path: b"/B", ..URL },
        Url { path: b"/b/", ..URL },
        Url { query: None, ..URL },
        Url { query: Some(b""), ..URL },
        Url { query: Some(b"d=2&c=1"), ..URL },
        Url { path: b"/b?c=1&d=2", query: None, ..URL },
    ] {
        assert_ne!(base, key(&plain, url, ""), "{url:?}");
    }
    assert_ne!(base, key(&KeyRule { space: "x".into(), ..KeyRule::default() }, URL, ""));
}

#[test]
fn no_part_can_pass_for_another() {
    let rule = rule(&["a", "b"], &["a", "b"]);
    let mut seen: HashMap<Vec<u8>, String> = HashMap::new();
    for (path, query) in [
        (&b"/x"[..], None),
        (b"/x", Some(&b"y"[..])),
        (b"/xy", None),
        (b"/", Some(b"xy")),
        (b"/x\0\0\0\x01y", None),
    ] {
        for head in [
            "",
            "a:",
            "b:",
            "a: 1",
            "b: 1",
            "a: 1\nb: 1",
            "a: 1\na: 1",
            "a: 11",
            "cookie: a=1",
            "cookie: b=1",
            "cookie: a=1; b=1",
            "cookie: a=1; a=1",
            "cookie: a=",
            "a: 1\ncookie: b=1",
        ] {
            let key = key(&rule, Url { path, query, ..URL }, head);
            let shown = format!("{path:?} {query:?} {head}");
            if let Some(other) = seen.insert(key.bytes().to_vec(), shown.clone()) {
                panic!("{shown} and {other} have one key");
            }
        }
    }
}

#[test]
fn fields_and_cookies_are_compared_by_name_and_value() {
    let rule = rule(&["Accept-Language"], &["tenant"]);
    let of = |head: &str| key(&rule, URL, head);
    assert_eq!(
        of("accept-language: de\ncookie: x=1; tenant=a"),
        of("ACCEPT-LANGUAGE:  de\ncookie: tenant=a;y=2")
    );
    assert_ne!(of("cookie: tenant=a"), of("cookie: TENANT=a"));
    assert_ne!(of("cookie: tenant=a; tenant=b"), of("cookie: tenant=a"));
}

/// Servers take these for the cookie, and the key did not have them.
#[test]
fn whatever_may_be_read_as_a_cookie_of_the_key_is_part_of_it() {
    let rule = rule(&[], &["site_lang"]);
    let of = |cookie: &str| key(&rule, URL, &format!("cookie: {cookie}"));
    let (none, plain) = (of("a=1"), of("site_lang=de"));
    for cookie in [
        "site_lang",
        "a=1; site_lang",
        "site.lang=evil",
        "site_lang[]=evil",
        "SITE_LANG=evil",
        "a=1,site_lang=evil",
        "a=1, site_lang",
        "$Version=1; a=1",
        "a=\"1; b=2\"",
        "site.lang=de",
        "x=1,site_lang=de",
    ] {
        assert!(of(cookie) != none && of(cookie) != plain, "{cookie}");
        assert_ne!(of(&format!("site_lang=de; {cookie}")), plain, "{cookie}");
    }
    // A value is not what a server might read, and other cookies are nothing.
    assert_ne!(of("site_lang=site_lang"), of("site_lang"));
    for cookie in ["a=1,2,b=3", "", "lang=de", "a=\"1\"", "site_lang2=x; a=b=c", "a=site_lang"] {
        assert_eq!(of(cookie), none, "{cookie}");
        assert_eq!(of(&format!("{cookie}; site_lang=de")), plain, "{cookie}");
    }
}

#[test]
fn a_key_has_no_secrets() {
    let key = key(&rule(&["x-api-key"], &["session"]), URL, "x-api-key: secret-1\ncookie: session=secret-2");
    assert!(memchr::memmem::find(key.bytes(), b"secret").is_none());
}

#[test]
fn all_keys_of_one_url_begin_alike_and_no_others() {
    let rule = rule(&["a"], &[]);
    let (one, other) = (key(&rule, URL, "a: 1"), key(&rule, URL, "a: 2"));
    assert_ne!(one, other);
    assert_eq!(one.url(), other.url());
    let longer = key(&rule, Url { query: Some(b"c=1&d=22"), ..URL }, "a: 1");
    assert!(!longer.bytes().starts_with(one.url()));
}

#[test]
fn what_a_rule_leaves_out_of_the_query_is_no_difference() {
    let query = QueryRule { selected: Selected::But(vec!["utm_*".into()]), sorted: true };
    let rule = KeyRule { query, ..KeyRule::default() };
    let of = |query: Option<&'static [u8]>| key(&rule, Url { query, ..URL }, "");
    assert_eq!(of(Some(b"b=1&a=2&utm_source=x")), of(Some(b"a=2&b=1")));
    assert_eq!(of(Some(b"utm_source=x")), of(None));
    assert_ne!(of(Some(b"a=1&a=2")), of(Some(b"a=2&a=1")));
}

#[test]
fn a_key_for_one_client_is_for_no_other() {
    let rule = KeyRule::default();
    let own = |client: Client<'_>, head: &str| Key::of(&rule, &URL, lines(head), Some(&client)).unwrap();
    let client = Client { method: b"GET", address: "10.0.0.1".parse().unwrap(), body: None };
    let base = own(client, "authorization: a");
    assert_eq!(
        base,
        own(Client { address: "::ffff:10.0.0.1".parse().unwrap(), ..client }, "authorization: a")
    );
    for (other, head) in [
        (client, "authorization: b"),
        (client, ""),
        (client, "authorization: a\nauthorization: a"),
        (client, "authorization: a\ncookie: session=b"),
        (Client { address: "10.0.0.2".parse().unwrap(), ..client }, "authorization: a"),
        (Client { address: "::10.0.0.1".parse().unwrap(), ..client }, "authorization: a"),
        (Client { method: b"HEAD", ..client }, "authorization: a"),
        (Client { body: Some([0; 32]), ..client }, "authorization: a"),
    ] {
        assert_ne!(base, own(other, head), "{other:?} {head}");
    }
    assert_ne!(base, key(&rule, URL, "authorization: a"), "a key for all");
    assert_eq!(base.url(), key(&rule, URL, "").url());
}

/// All that a request for one client is told by, in small values that are easily taken for each other.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Told {
    method: &'static str,
    scheme: &'static str,
    host: String,
    port: u16,
    path: String,
    query: Option<String>,
    credentials: Vec<(&'static str, Vec<String>)>,
    address: IpAddr,
    content_type: Option<String>,
    body: Option<String>,
}

impl Told {
    fn key(&self) -> Vec<u8> {
        let mut head = String::new();
        for (name, values) in &self.credentials {
            values.iter().for_each(|value| head += &format!("{name}: {value}\n"));
        }
        self.content_type.iter().for_each(|value| head += &format!("content-type: {value}\n"));
        let url = Url {
            scheme: self.scheme,
            host: self.host.as_bytes(),
            port: self.port,
            path: self.path.as_bytes(),
            query: self.query.as_deref().map(str::as_bytes),
        };
        let body = self.body.as_ref().map(|body| body_digest(lines(&head), body.as_bytes()));
        let client = Client { method: self.method.as_bytes(), address: self.address, body };
        Key::of(&KeyRule::default(), &url, lines(&head), Some(&client)).unwrap().bytes().to_vec()
    }
}

fn small() -> impl Strategy<Value = String> {
    "[a1]{0,3}"
}

fn told() -> impl Strategy<Value = Told> {
    let addresses = ["10.0.0.1", "10.0.0.11", "::10.0.0.1", "2001:db8::1"];
    let addresses = addresses.map(|text| text.parse::<IpAddr>().unwrap());
    let of = |name: &'static str| (Just(name), prop::collection::vec(small(), 0..3));
    let credentials = (of("authorization"), of("cookie"), of("x-api-key"), of("x-auth-token"));
    let credentials = credentials.prop_map(|(a, b, c, d)| vec![a, b, c, d]);
    let method = prop::sample::select(vec!["GET", "POST"]);
    let url =
        (prop::sample::select(vec!["http", "https"]), small(), 1_u16..3, small(), prop::option::of(small()));
    let body = (prop::option::of(small()), prop::option::of(small()));
    (method, url, credentials, prop::sample::select(addresses.to_vec()), body).prop_map(
        |(method, (scheme, host, port, path, query), credentials, address, (content_type, body))| {
            // What a body is matters only where there is one.
            let content_type = content_type.filter(|_| body.is_some());
            Told { method, scheme, host, port, path, query, credentials, address, content_type, body }
        },
    )
}

/// Two that differ in one part, into which another one's value was put.
fn pairs() -> impl Strategy<Value = (Told, Told)> {
    (told(), told(), 0..9_u8).prop_map(|(one, other, part)| {
        let mut near = one.clone();
        match part {
            0 => near.method = other.method,
            1 => near.scheme = other.scheme,
            2 => (near.host, near.path) = (one.path.clone(), one.host.clone()),
            3 => near.port = other.port,
            4 => near.query = other.query,
            5 => near.credentials = other.credentials,
            6 => near.address = other.address,
            7 => (near.content_type, near.body) = (other.content_type, other.body),
            _ => near = other,
        }
        (one, near)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn requests_that_differ_in_any_part_never_have_one_key((one, other) in pairs()) {
        prop_assert_eq!(one == other, one.key() == other.key(), "{:?} {:?}", one, other);
    }
}

#[test]
fn what_a_body_is_said_to_be_is_part_of_its_digest() {
    let digest = |head: &str, body: &str| body_digest(lines(head), body.as_bytes());
    let all = [
        digest("", ""),
        digest("", "a"),
        digest("content-type: a", ""),
        digest("content-encoding: a", ""),
        digest("content-type: a\ncontent-type: a", ""),
        digest("content-type: aa", ""),
        digest("content-type:", ""),
        digest("content-type: a\ncontent-encoding: a", ""),
    ];
    for (number, one) in all.iter().enumerate() {
        assert!(all[..number].iter().all(|other| other != one), "{number}");
    }
    assert_eq!(digest("Content-Type:  a", "b"), digest("accept: x\ncontent-type: a", "b"));
}

#[test]
fn a_key_is_bounded() {
    let long = vec![b'a'; MOST_KEY];
    let url = Url { path: &long, ..URL };
    assert_eq!(Key::of(&KeyRule::default(), &url, lines(""), None), Err(KeyTooLong));
    let mut key = key(&KeyRule::default(), URL, "");
    let same = key.clone();
    key.set(&KeyRule::default(), &URL, lines(""), None).unwrap();
    assert_eq!(key, same, "it can be used again");
}

#[test]
fn the_url_can_be_read_from_a_key() {
    let found = key(&rule(&["a"], &[]), URL, "a: 1");
    let url = KeyUrl::read(found.bytes()).unwrap();
    assert_eq!(url.to_string(), "https://a.example:443/b?c=1&d=2");
    assert_eq!(url.path, b"/b");
    for end in 0..found.url().len() {
        assert_eq!(KeyUrl::read(&found.bytes()[..end]), None, "{end}");
    }
}

#[test]
fn rules_are_checked() {
    assert!(rule(&["accept", "x-a"], &["b"]).check().is_ok());
    for wrong in [
        rule(&["a b"], &[]),
        rule(&[""], &[]),
        rule(&["X-Forwarded-For"], &[]),
        rule(&["cookie"], &[]),
        rule(&["host"], &[]),
        rule(&[], &["a=b"]),
        rule(&[], &[""]),
        rule(&["a"; 9], &["b"; 8]),
    ] {
        assert!(wrong.check().unwrap_err().contains("help: "), "{wrong:?}");
    }
}

#[test]
fn what_proxies_say_is_a_part_only_where_they_say_something() {
    let with = |said: &str| {
        let mut key = key(&KeyRule::default(), URL, "");
        key.add_said(lines(said)).unwrap();
        key
    };
    let base = key(&KeyRule::default(), URL, "");
    assert_eq!(with(""), base);
    let all = [
        "x-forwarded-proto: http",
        "x-forwarded-proto: https",
        "x-forwarded-host: http",
        "a: b\nc: d",
        "a: bc: d",
    ];
    let keys: Vec<Key> = all.iter().map(|said| with(said)).collect();
    for (number, one) in keys.iter().enumerate() {
        assert_eq!(one.url(), base.url());
        assert!(one != &base && keys[..number].iter().all(|other| other != one), "{}", all[number]);
    }
    assert_eq!(with("X-Forwarded-Proto: http"), keys[0]);
}

#[test]
fn what_verified_clients_share_has_a_key_of_its_own() {
    let (base, mut shared) = (key(&KeyRule::default(), URL, ""), key(&KeyRule::default(), URL, ""));
    shared.add_shared().unwrap();
    assert!(base != shared && base.url() == shared.url());
}
