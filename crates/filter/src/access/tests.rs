//! Tests of the filter, without lists from URLs: those are in the scenarios.

use super::*;
use crate::tests::{Asked, Beside, built};
use std::net::IpAddr;
use thalweg_access::live;
use thalweg_access::networks::network;
use thalweg_access::rules::{AddressSet, NamedList};
use thalweg_http::Doubts;

/// Files of this test, and a list `office`.
struct Files(Beside);

impl ConfigFiles for Files {
    fn path(&self, written: &str) -> std::path::PathBuf {
        self.0.path(written)
    }

    fn read(&self, written: &str, limit: usize) -> Result<Vec<u8>, String> {
        self.0.read(written, limit)
    }

    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    fn list(&self, name: &str) -> Option<Arc<NamedList>> {
        let list =
            NamedList { configured: AddressSet::default(), live: live::list(name), text: String::new() };
        (name == "office").then(|| Arc::new(list))
    }
}

fn filter(json: &str) -> Result<Arc<dyn Filter>, String> {
    let example = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/access");
    built::<AccessSpec>(json).build(&Files(Beside(example)))
}

/// The status and the reason, where it is refused.
fn refused(json: &str, client: &str, asked: Asked) -> Option<(u16, String)> {
    let mut asked = asked;
    asked.client_ip = client.parse::<IpAddr>().unwrap();
    match asked.send(&*filter(json).unwrap()) {
        Verdict::Fault(fault) => Some((fault.status, asked.outcome.reason.unwrap().into_owned())),
        Verdict::Continue => {
            assert!(asked.outcome.reason.is_none() || json.contains("dry_run"));
            None
        }
        other => panic!("{other:?}"),
    }
}

fn reason(json: &str, client: &str) -> String {
    refused(json, client, Asked::at("/")).map(|(_, reason)| reason).unwrap_or_default()
}

#[test]
fn denied_wins_over_allowed_and_allowed_excludes_all_others() {
    let json = r#"{"allow": ["10.0.0.0/8", "2001:db8::/32"], "deny": "10.1.0.0/16"}"#;
    for (client, said) in [
        ("10.2.3.4", ""),
        ("2001:db8::1", ""),
        ("10.1.2.3", "10.1.2.3 is denied: 10.1.0.0/16"),
        ("::ffff:10.1.2.3", "::ffff:10.1.2.3 is denied: 10.1.0.0/16"),
        ("192.0.2.1", "192.0.2.1 is not allowed"),
        ("2001:db9::1", "2001:db9::1 is not allowed"),
    ] {
        assert_eq!(reason(json, client), said, "{client}");
    }
}

#[test]
fn who_is_refused_gets_the_status_that_is_written() {
    for (status, expected) in [("403", 403), ("404", 404), ("\"close\"", Fault::NO_ANSWER)] {
        let json = format!(r#"{{"deny": "192.0.2.1", "status": {status}}}"#);
        assert_eq!(refused(&json, "192.0.2.1", Asked::at("/")).unwrap().0, expected);
    }
    assert_eq!(refused(r#"{"deny": "192.0.2.1"}"#, "192.0.2.1", Asked::at("/")).unwrap().0, 403);
}

#[test]
fn a_dry_run_refuses_nobody_and_says_who_would_be() {
    let filter = filter(r#"{"deny": "192.0.2.1", "dry_run": true}"#).unwrap();
    let mut asked = Asked::at("/");
    assert!(matches!(asked.send(&*filter), Verdict::Continue));
    let reason = asked.outcome.reason.unwrap();
    assert_eq!(reason, "`access` would refuse it: 192.0.2.1 is denied: 192.0.2.1");
}

#[test]
fn lists_that_change_hold_for_the_next_request() {
    let (json, list) = (r#"{"deny": [{"list": "office"}]}"#, live::list("office"));
    let filter = filter(json).unwrap();
    let send = || matches!(Asked::at("/").send(&*filter), Verdict::Fault(_));
    assert!(!send());
    list.replace([(network("192.0.2.0/24").unwrap(), "too loud".into())]);
    assert!(send());
    assert!(reason(json, "192.0.2.1").ends_with("192.0.2.0/24 (too loud) of the list `office`"));
    list.replace([]);
    assert!(!send());
}

#[test]
fn requests_are_told_apart_by_country_system_field_and_path() {
    let json = r#"{"deny": [{"country": ["XA"]}, {"asn": 64498}], "geo_file": "example.mmdb"}"#;
    assert_eq!(reason(json, "192.0.2.1"), "192.0.2.1 is denied: the country XA");
    assert_eq!(reason(json, "2001:db8::1"), "2001:db8::1 is denied: AS64498");
    assert_eq!(reason(json, "198.51.100.1"), "");
    assert_eq!(reason(json, "203.0.113.1"), "", "unknown");
    let json =
        r#"{"deny": [{"header": {"User-Agent": "~.*bot.*"}}, {"path": "/.git/*"}], "allow": "0.0.0.0/0"}"#;
    let said = |asked| refused(json, "192.0.2.1", asked).map(|(_, reason)| reason);
    assert!(said(Asked::at("/").with("User-Agent", "a bot")).unwrap().contains("User-Agent"));
    assert!(said(Asked::at("/.git/config")).unwrap().contains("/.git/*"));
    assert!(said(Asked::at("/").with("User-Agent", "a browser")).is_none());
    // Allowed by a field, whoever it is.
    let json = r#"{"allow": ["10.0.0.0/8", {"header": {"X-Key": "of partners"}}]}"#;
    assert!(refused(json, "192.0.2.1", Asked::at("/").with("X-Key", "of partners")).is_none());
    assert!(refused(json, "192.0.2.1", Asked::at("/").with("X-Key", "guessed")).is_some());
}

#[test]
fn its_argument_tells_no_values_of_fields_and_no_queries() {
    let json =
        r#"{"allow": [{"header": {"X-Key": "hunter2"}}, {"url": "https://lists.test/a?token=hunter2"}]}"#;
    let filter = filter(json).unwrap();
    assert_eq!(filter.argument(), "allow header X-Key url https://lists.test/a");
    assert!(filter.upkeep().is_some());
    let short = self::filter(r#"{"deny": "10.0.0.0/8", "status": "close"}"#).unwrap();
    assert_eq!(short.argument(), "deny 10.0.0.0/8, close");
    assert!(short.upkeep().is_none());
}

#[test]
fn what_is_wrong_is_said_with_the_remedy() {
    for (json, part) in [
        ("{}", "write `allow` or `deny`"),
        (r#"{"deny": "10.0.0.1/8"}"#, "bits set behind"),
        (r#"{"deny": "nobody"}"#, "`nobody` is neither a network nor an address"),
        (r#"{"deny": {"list": "home"}}"#, "no list `home`"),
        (r#"{"deny": {"file": "nowhere.txt"}}"#, "there is no such file"),
        (r#"{"deny": {"country": "DE"}}"#, "write `geo_file`"),
        (r#"{"deny": {"country": "de"}, "geo_file": "example.mmdb"}"#, "two capitals"),
        (r#"{"deny": {"asn": 1}, "geo_file": "nowhere.mmdb"}"#, "there is no such file"),
        (r#"{"deny": {"url": "ftp://a"}}"#, "`http://`"),
        (r#"{"deny": {"url": {"at": "http://a", "every": "1s"}}}"#, "2s to 30d"),
        (r#"{"deny": "10.0.0.0/8", "status": 200}"#, "`status`"),
        (r#"{"deny": {"path": "no-slash"}}"#, "/"),
    ] {
        let error = filter(json).unwrap_err();
        assert!(error.contains(part), "{json}: {error}");
    }
    for json in [r#"{"deny": 7}"#, r#"{"deny": {"nothing": 1}}"#, r#"{"deny": [{"file": 1}]}"#] {
        assert!(serde_json::from_str::<AccessSpec>(json).is_err(), "{json}");
    }
    for json in [r#"{"deny": {"asn": 1, "path": "/x"}}"#, r#"{"deny": [{"asn": 1, "path": "/x"}]}"#] {
        let error = serde_json::from_str::<AccessSpec>(json).unwrap_err().to_string();
        assert!(error.contains("`path` is one key too many"), "{json}: {error}");
    }
}

/// Endpoints may merge slashes, cut parameters and decode slashes: a path is denied if any reading is denied, and
/// allowed only if every reading is allowed.
#[test]
fn a_path_is_judged_in_every_reading_that_an_endpoint_may_have() {
    let passes = |json: &str, path: &str| refused(json, "192.0.2.1", Asked::at(path)).is_none();
    let deny = r#"{"deny": {"path": ["/pub/secret/*", "/%40team/*"]}}"#;
    for path in
        ["/pub//secret/x", "/pub;a/secret", "/pub%2Fsecret/x", "/pub/secret%3Bv", "/%40team", "/@team//x"]
    {
        assert!(!passes(deny, path), "{path}");
    }
    let allow = r#"{"allow": {"path": ["/open/*", "/b/open/*"]}}"#;
    for path in ["/open/x", "/open//x", "/open/x;v", "/open/x%2Fy", "/b/open/x"] {
        assert!(passes(deny, path) && passes(allow, path), "{path}");
    }
    for path in ["/open;v/x", "/open%2Fx", "/b//open/x"] {
        assert!(!passes(allow, path), "{path}");
    }
    // What the route says of its endpoint counts.
    for (path, settled) in [
        ("/open/a%2Fb", Doubts::SEPARATORS),
        ("/open/;v", Doubts::PARAMETERS.union(Doubts::EMPTY)),
        ("/open//x", Doubts::EMPTY),
    ] {
        let one = r#"{"allow": {"path": "/open/{name}"}}"#;
        assert!(!passes(one, path), "{path}");
        let mut asked = Asked::at(path);
        asked.settled = settled;
        assert!(refused(one, "192.0.2.1", asked).is_none(), "{path}");
    }
}
