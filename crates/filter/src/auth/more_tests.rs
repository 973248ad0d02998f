//! Tests of keys, certificates and links.

use super::*;
use crate::QueryEdit;
use crate::tests::{Asked, Beside, built};
use thalweg_access::api_keys::hash_key;
use thalweg_access::signed_url::{Signed, SigningKey};

const KEY: &str = "0123456789abcdef0123456789abcdef";
/// The time in tests.
const NOW: u64 = 1_795_521_600;

fn try_auth(json: &str) -> Result<Arc<dyn Filter>, String> {
    let json = json.replace("HASH", &hash_key(KEY).unwrap());
    built::<AuthSpec>(&json).build(&Beside(std::env::temp_dir()))
}

fn outcome(filter: &dyn Filter, asked: &mut Asked) -> (u16, String) {
    let status = match asked.send_through(filter) {
        Verdict::Continue => 0,
        Verdict::Fault(fault) => fault.status,
        other => panic!("{other:?}"),
    };
    (status, asked.outcome.reason.as_deref().unwrap_or_default().to_owned())
}

#[test]
fn keys_pass_in_the_places_that_are_written_and_go_no_further() {
    let keys = r#""keys": {"acme": {"hash": "HASH", "scopes": ["read"], "claims": {"plan": "gold"}}}"#;
    let forward = r#""forward": {"X-Plan": "{user} {claim.plan}"}, "require": {"scopes": "read"}"#;
    let header = try_auth(&format!(r#"{{"api_key": {{{keys}}}, {forward}}}"#)).unwrap();
    let mut asked = Asked::at("/").with("x-api-key", KEY).with("Authorization", "Bearer of-the-service");
    assert_eq!(outcome(&*header, &mut asked).0, 0);
    assert_eq!(asked.request_lines(), "Authorization: Bearer of-the-service\r\nX-Plan: acme gold\r\n");
    for (fields, status, reason) in [
        (vec![], 401, "no credential (api_key)"),
        (vec![("X-API-Key", "0123456789abcdef0123456789abcdeF")], 401, "api_key: an unknown key"),
        (vec![("X-API-Key", "")], 401, "api_key: an unknown key"),
        (vec![("X-API-Key", KEY), ("x-api-key", KEY)], 400, "api_key: more than one key"),
        (vec![("Authorization", "Bearer 0123456789abcdef0123456789abcdef")], 401, "no credential (api_key)"),
    ] {
        let mut asked = fields.iter().fold(Asked::at("/"), |asked, (name, value)| asked.with(name, value));
        assert_eq!(outcome(&*header, &mut asked), (status, reason.to_owned()));
    }
    let places =
        try_auth(&format!(r#"{{"api_key": {{{keys}, "bearer": true, "query": "api_key"}}}}"#)).unwrap();
    let mut asked = Asked::at("/").with("Authorization", &format!("Bearer {KEY}"));
    assert_eq!((outcome(&*places, &mut asked).0, asked.request_lines().as_str()), (0, ""));
    for (query, status, left) in [
        (format!("a=1&api_key={KEY}&b=2"), 0, QueryEdit::Replaced(b"a=1&b=2".to_vec())),
        (format!("api%5Fkey={KEY}"), 0, QueryEdit::Removed),
        (format!("api_key={KEY}&api_key=x"), 400, QueryEdit::Unchanged),
        ("api_key".into(), 401, QueryEdit::Unchanged),
        ("a=%zz&&=".into(), 401, QueryEdit::Unchanged),
    ] {
        let mut asked = Asked::at("/");
        asked.query = Some(query);
        assert_eq!((outcome(&*places, &mut asked).0, asked.target.query()), (status, &left));
    }
    let mut both = Asked::at("/").with("Authorization", &format!("Bearer {KEY}"));
    both.query = Some(format!("api_key={KEY}"));
    assert_eq!(outcome(&*places, &mut both).0, 400);
}

#[test]
fn keys_end_when_they_expire() {
    for (expires, status) in [("2026-11-24T12:00:00Z", 401), ("2026-11-24T12:00:01Z", 0)] {
        let json =
            format!(r#"{{"api_key": {{"keys": {{"acme": {{"hash": "HASH", "expires": "{expires}"}}}}}}}}"#);
        let mut asked = Asked::at("/").with("X-API-Key", KEY);
        let (found, reason) = outcome(&*try_auth(&json).unwrap(), &mut asked);
        assert_eq!((found, reason.contains("`acme` has expired")), (status, status != 0));
    }
}

/// Wrong keys were answered at any rate (issue 43); then the wrong keys of one client refused the right ones of all
/// clients behind its address.
#[test]
fn wrong_keys_of_a_network_are_bounded_and_right_ones_pass() {
    let filter = try_auth(r#"{"api_key": {"keys": {"acme": {"hash": "HASH"}}}}"#).unwrap();
    let status = |filter: &dyn Filter, client: &str, key: &str| {
        let mut asked = Asked::at("/").with("X-API-Key", key);
        asked.client_ip = client.parse().unwrap();
        let status = outcome(filter, &mut asked).0;
        let fields = String::from_utf8(asked.outcome.fault_fields.clone()).unwrap();
        assert_eq!(fields.contains("Retry-After: "), status == 429, "{fields}");
        status
    };
    for number in 0..WRONG {
        assert_eq!(status(&*filter, "198.51.100.1", &format!("guess {number}")), 401);
    }
    for (client, key, expected) in [
        ("198.51.100.1", "one more", 429),
        ("198.51.100.1", "guess 0", 429),
        ("198.51.100.1", KEY, 0),
        ("198.51.100.2", "one more", 401),
        ("198.51.100.2", KEY, 0),
    ] {
        assert_eq!(status(&*filter, client, key), expected, "{client} {key}");
    }
    let after_a_reload = try_auth(r#"{"api_key": {"keys": {"acme": {"hash": "HASH"}}}}"#).unwrap();
    after_a_reload.adopt(&*filter);
    assert_eq!(status(&*after_a_reload, "198.51.100.1", "one more"), 429);
    assert_eq!(status(&*after_a_reload, "198.51.100.1", KEY), 0);
}

fn link(path: &str, parameters: &[&str], id_and_expires: (&str, u64)) -> String {
    link_of(("shop.test", "r"), path, parameters, id_and_expires)
}

fn link_of(
    (host, scope): (&str, &str),
    path: &str,
    parameters: &[&str],
    (id, expires): (&str, u64),
) -> String {
    let key = SigningKey::new(id, format!("{id}-0123456789abcdef").as_bytes()).unwrap();
    let expires = expires.to_string();
    let signed = Signed {
        method: None,
        host: host.as_bytes(),
        scope: scope.as_bytes(),
        path: path.as_bytes(),
        expires: expires.as_bytes(),
        parameters: parameters.iter().map(|pair| pair.as_bytes()).collect(),
    };
    let rest: String = parameters.iter().map(|pair| format!("{pair}&")).collect();
    format!("{rest}expires={expires}&key_id={id}&signature={}", key.sign(&signed))
}

#[test]
fn links_are_good_as_they_were_signed_and_until_their_time() {
    let secrets = r#"{"old": {"value": "old-0123456789abcdef"}, "new": {"value": "new-0123456789abcdef"}}"#;
    let json =
        format!(r#"{{"signed_url": {{"secrets": {secrets}, "parameters": ["user"], "max_ttl": "1h"}}}}"#);
    let filter = try_auth(&json).unwrap();
    assert!(!filter.argument().contains("0123456789"), "{}", filter.argument());
    let right = link("/a.zip", &["user=7"], ("new", NOW + 60));
    for (query, status, reason) in [
        (right.clone(), 0, ""),
        (link("/a.zip", &[], ("old", NOW + 1)), 0, ""),
        (format!("{right}&page=2"), 0, ""),
        (String::new(), 401, "no credential"),
        (right.replace("user=7", "user=8"), 403, "not that of this link"),
        (right.replace("user=7&", ""), 403, "not that of this link"),
        (format!("user=8&{right}"), 400, "twice"),
        (format!("{right}&signature=x"), 400, "twice"),
        (format!("{right}&expires=9"), 400, "twice"),
        (right.replace("key_id=new", "key_id=old"), 403, "not that of this link"),
        (right.replace("key_id=new", "key_id=../x"), 403, "an unknown key"),
        (right.replace("key_id=new&", ""), 403, "missing"),
        (link("/b.zip", &["user=7"], ("new", NOW + 60)), 403, "not that of this link"),
        (link("/a.zip", &["user=7"], ("new", NOW)), 403, "expired"),
        (link("/a.zip", &["user=7"], ("new", NOW + 3601)), 403, "longer than `max_ttl`"),
        ("signature=&expires=&key_id=".into(), 403, "an unknown key"),
    ] {
        let mut asked = Asked::at("/a.zip");
        asked.query = Some(query.clone());
        let (found, why) = outcome(&*filter, &mut asked);
        assert!(found == status && why.contains(reason), "{query}: {found} {why}");
    }
    let mut asked = Asked::at("/a.zip");
    asked.query = Some(right.clone());
    outcome(&*filter, &mut asked);
    assert_eq!(asked.target.query(), &QueryEdit::Replaced(b"user=7".to_vec()));
    asked = Asked::at("/a.zip");
    (asked.query, asked.method) = (Some(right), "POST");
    assert_eq!(outcome(&*filter, &mut asked).0, 403);
}

/// Services read these as the signed parameter, which its exact name did not find.
#[test]
fn a_signed_parameter_has_one_spelling() {
    let secrets = r#"{"k": {"value": "k-0123456789abcdef"}}"#;
    let status = |names: &str, signed: &[&str], more: &str| {
        let json = format!(r#"{{"signed_url": {{"secrets": {secrets}, "parameters": [{names}]}}}}"#);
        let mut asked = Asked::at("/a.zip");
        asked.query = Some(link("/a.zip", signed, ("k", NOW + 60)) + more);
        outcome(&*try_auth(&json).unwrap(), &mut asked).0
    };
    for more in [
        "&%20user=8",
        "&+user=8",
        "&user[]=8",
        "&user%5B0%5D=8",
        "&x;user=8",
        "&x=1;user=8",
        "&User=8",
        "&user%00=8",
    ] {
        assert_eq!(status(r#""user""#, &["user=7"], more), 400, "{more}");
        assert_eq!(status(r#""user""#, &[], more), 400, "{more}");
    }
    assert_eq!(status(r#""user_id""#, &["user_id=7"], "&user.id=8"), 400);
    for more in ["", "&users=8", "&x[user]=8", "&x=user", "&us;er=8", "&Expires=7"] {
        assert_eq!(status(r#""user""#, &["user=7"], more), 0, "{more}");
    }
    assert_eq!(status(r#""a[x]""#, &["a[x]=7"], "&a[y]=8"), 0);
    assert_eq!(status(r#""a[x]""#, &["a[x]=7"], "&A%5Bx%5D=8"), 400);
}

/// A link that was signed for one host or route was valid on every other one with the same key (issue 43).
#[test]
fn links_of_another_host_or_route_are_wrong() {
    let filter = |more: &str| {
        let secrets = r#"{"k": {"value": "k-0123456789abcdef"}}"#;
        try_auth(&format!(r#"{{"signed_url": {{"secrets": {secrets}{more}}}}}"#)).unwrap()
    };
    let status = |more: &str, place: (&str, &str)| {
        let mut asked = Asked::at("/a.zip");
        asked.query = Some(link_of(place, "/a.zip", &[], ("k", NOW + 60)));
        outcome(&*filter(more), &mut asked).0
    };
    assert_eq!(status("", ("shop.test", "r")), 0);
    for place in
        [("other.test", "r"), ("shop.test", "other"), ("shop.test", ""), ("", "r"), ("shop.test.", "r")]
    {
        assert_eq!(status("", place), 403, "{place:?}");
    }
    let scope = r#", "scope": "downloads of all""#;
    assert_eq!(status(scope, ("shop.test", "downloads of all")), 0);
    assert_eq!(status(scope, ("shop.test", "r")), 403);
    assert!(filter(scope).argument().contains("scope `downloads of all`"));
}

#[test]
fn without_a_certificate_nobody_passes_by_one() {
    let filter = try_auth(r#"{"mtls": {"san": "URI:spiffe://example.com/*"}}"#).unwrap();
    assert_eq!(outcome(&*filter, &mut Asked::at("/")), (401, "no credential (mtls)".into()));
    assert_eq!(filter.argument(), "mtls (san URI:spiffe://example.com/*)");
}

#[test]
fn arguments_of_keys_certificates_and_links_that_are_wrong_are_refused() {
    for (json, part) in [
        (r#"{"api_key": {}}"#, "has no keys"),
        (r#"{"api_key": {"keys": {"a": {"hash": "hunter2"}}}}"#, "the hash of `a` is none"),
        (r#"{"api_key": {"keys": {"a": {"hash": "HASH", "expires": "soon"}}}}"#, "no time"),
        (r#"{"api_key": {"keys": {"a": {"hash": "HASH"}}, "query": "k"}}"#, "logs would show"),
        (r#"{"api_key": {"keys": {"a": {"hash": "HASH"}}, "header": "Authorization"}}"#, "bearer: true"),
        (r#"{"api_key": {"file": "x", "keys": {"a": {"hash": "HASH"}}}}"#, "not both"),
        (r#"{"mtls": {"san": "a.example.com"}}"#, "does not say its kind"),
        (r#"{"mtls": {"subject": "~("}}"#, "unclosed"),
        (r#"{"mtls": {"fingerprint": "12:34"}}"#, "64 hexadecimal digits"),
        (r#"{"mtls": {"issuer": []}}"#, "from 1 to 1024"),
        (r#"{"signed_url": {}}"#, "from 1 to 16 keys"),
        (r#"{"signed_url": {"secrets": {"a": {"value": "hunter2"}}}}"#, "at least 16 bytes"),
        (r#"{"signed_url": {"secrets": {"a b": {"value": "0123456789abcdef"}}}}"#, "the id of a key"),
        (
            r#"{"signed_url": {"secrets": {"a": {"value": "0123456789abcdef"}}, "parameters": ["expires"]}}"#,
            "none of expires",
        ),
        (
            r#"{"signed_url": {"secrets": {"a": {"value": "0123456789abcdef"}}, "scope": "a\nb"}}"#,
            "no control characters",
        ),
        (
            r#"{"signed_url": {"secrets": {"a": {"value": "0123456789abcdef"}}, "max_ttl": "0s"}}"#,
            "1s to 366d",
        ),
    ] {
        let error = try_auth(json).unwrap_err();
        assert!(error.contains(part), "{json}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}
