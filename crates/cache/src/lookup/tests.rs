use super::*;
use crate::testing::{after, get, lines, store};

fn lookup_by(policy: &Policy, request: &str, stored: &str, seconds: u64) -> Lookup {
    look_up(policy, &get(request), Found::Head(&store(stored)), after(seconds))
}

fn lookup(request: &str, stored: &str, seconds: u64) -> Lookup {
    lookup_by(&Policy::default(), request, stored, seconds)
}

fn is_fresh_hit(lookup: Lookup) -> bool {
    matches!(lookup, Lookup::Hit(hit) if !hit.is_stale && !hit.refresh)
}

const FRESH: &str = "cache-control: max-age=100\netag: \"a\"";

#[test]
fn what_is_not_stored_is_fetched() {
    let lookup = |request: &'static str, found| look_up(&Policy::default(), &get(request), found, after(0));
    assert_eq!(lookup("", Found::Nothing), Lookup::Fetch(Forward::UriMiss));
    assert_eq!(lookup("", Found::OtherVariants), Lookup::Fetch(Forward::VaryMiss));
    assert_eq!(lookup("cache-control: only-if-cached", Found::Nothing), Lookup::Unavailable);
}

#[test]
fn what_no_cache_answers_passes() {
    let pass = |method, has_body, head: &'static str| {
        passes(&Policy::default(), &Request::read(method, has_body, lines(head)))
    };
    assert_eq!(pass(Method::Get, false, ""), None);
    assert_eq!(pass(Method::Head, false, ""), None);
    assert_eq!(pass(Method::Get, true, ""), Some(Forward::Bypass));
    assert_eq!(pass(Method::Get, false, "if-match: *"), Some(Forward::Bypass));
    assert_eq!(pass(Method::Head, false, "if-unmodified-since: x"), Some(Forward::Bypass));
    for method in [Method::Post, Method::Put, Method::Options, Method::Connect, Method::Trace, Method::Other]
    {
        assert_eq!(pass(method, false, ""), Some(Forward::Method));
    }
}

#[test]
fn a_fresh_response_answers_until_it_is_stale() {
    let hit = Hit { age: 99, ttl: 1, is_stale: false, refresh: false };
    assert_eq!(lookup("", FRESH, 99), Lookup::Hit(hit));
    assert_eq!(lookup("", FRESH, 100), Lookup::Validate(Forward::Stale));
    assert_eq!(lookup("cache-control: only-if-cached", FRESH, 99), Lookup::Hit(hit));
    assert_eq!(lookup("cache-control: only-if-cached", FRESH, 100), Lookup::Unavailable);
    assert_eq!(
        lookup("", "cache-control: no-cache, max-age=100\netag: \"a\"", 0),
        Lookup::Validate(Forward::Stale)
    );
}

#[test]
fn clients_say_what_they_want() {
    for (wanted, seconds, expected) in [
        ("no-cache", 0, false),
        ("max-age=0", 3, false),
        ("max-age=1", 3, false),
        ("max-age=3", 3, true),
        ("min-fresh=96", 3, true),
        ("min-fresh=98", 3, false),
        ("no-store", 3, true),
        ("foo", 3, true),
    ] {
        let request = format!("cache-control: {wanted}");
        let found = lookup(&request, FRESH, seconds);
        assert_eq!(is_fresh_hit(found), expected, "{wanted}");
        assert!(expected || found == Lookup::Validate(Forward::Request), "{wanted}");
        let deaf = Policy { honours_clients: false, ..Policy::default() };
        assert!(is_fresh_hit(lookup_by(&deaf, &request, FRESH, seconds)), "{wanted}");
    }
    assert_eq!(lookup("pragma: no-cache", FRESH, 0), Lookup::Validate(Forward::Request));
}

#[test]
fn what_does_not_change_is_not_asked_for_again_by_a_reload() {
    let immutable = "cache-control: max-age=100, immutable\netag: \"a\"";
    assert!(is_fresh_hit(lookup("cache-control: max-age=0", immutable, 3)));
    assert_eq!(lookup("cache-control: no-cache", immutable, 3), Lookup::Validate(Forward::Request));
    assert_eq!(lookup("cache-control: max-age=0", immutable, 100), Lookup::Validate(Forward::Stale));
}

#[test]
fn a_client_may_take_a_stale_response_unless_that_is_forbidden() {
    let stale = |request: &str, stored: &str| matches!(lookup(request, stored, 10), Lookup::Hit(hit) if hit.is_stale && !hit.refresh);
    let stored = "cache-control: max-age=2";
    assert!(stale("cache-control: max-stale", stored));
    assert!(stale("cache-control: max-stale=8", stored));
    assert!(!stale("cache-control: max-stale=7", stored));
    assert!(!stale("cache-control: max-stale=0", stored));
    assert!(stale("cache-control: max-stale=8, max-age=10", stored));
    assert!(!stale("cache-control: max-stale=8, max-age=9", stored));
    for forbidden in ["must-revalidate", "proxy-revalidate", "s-maxage=2", "no-cache"] {
        let stored = format!("cache-control: max-age=2, {forbidden}\netag: \"a\"");
        assert!(!stale("cache-control: max-stale", &stored), "{forbidden}");
    }
}

#[test]
fn a_stale_response_is_used_while_it_is_fetched() {
    let stored = "cache-control: max-age=1, stale-while-revalidate=4\netag: \"a\"";
    let hit = Hit { age: 5, ttl: -4, is_stale: true, refresh: true };
    assert_eq!(lookup("", stored, 5), Lookup::Hit(hit));
    assert_eq!(lookup("", stored, 6), Lookup::Validate(Forward::Stale));
    assert_eq!(lookup("cache-control: max-age=60", stored, 5), Lookup::Validate(Forward::Stale));
    assert_eq!(lookup("cache-control: no-cache", stored, 5), Lookup::Validate(Forward::Stale));
    assert_eq!(lookup("cache-control: only-if-cached", stored, 5), Lookup::Hit(hit));
}

fn failed(request: &str, stored: &str, failure: Failure, seconds: u64) -> bool {
    use_on_failure(&Policy::default(), &get(request), &store(stored), failure, after(seconds)).is_some()
}

#[test]
fn a_stale_response_is_used_while_the_service_cannot_be_reached() {
    let stored = "cache-control: max-age=2\netag: \"a\"";
    assert!(failed("", stored, Failure::Unreachable, 3602));
    assert!(!failed("", stored, Failure::Unreachable, 3603));
    assert!(!failed("", stored, Failure::Status(503), 10), "a 503 is an answer");
    for forbidden in ["must-revalidate", "proxy-revalidate", "no-cache", "s-maxage=2"] {
        let stored = format!("cache-control: max-age=2, {forbidden}\netag: \"a\"");
        assert!(!failed("", &stored, Failure::Unreachable, 10), "{forbidden}");
    }
    assert!(!failed("cache-control: no-cache", stored, Failure::Unreachable, 1), "who does not want it");
    assert!(failed("", stored, Failure::Unreachable, 1), "a fresh one even more so");
}

#[test]
fn a_stale_response_is_used_for_errors_if_it_says_so_or_the_client_does() {
    let stored = "cache-control: max-age=2, stale-if-error=60";
    for status in [500, 502, 503, 504] {
        assert!(failed("", stored, Failure::Status(status), 62), "{status}");
        assert!(!failed("", stored, Failure::Status(status), 63), "{status}");
    }
    for status in [200, 404, 429, 501, 505] {
        assert!(!failed("", stored, Failure::Status(status), 10), "{status}");
    }
    assert!(failed("", "cache-control: s-maxage=2, stale-if-error=60", Failure::Status(503), 10));
    let asked = "cache-control: stale-if-error=60";
    assert!(failed(asked, "cache-control: max-age=2", Failure::Status(503), 10));
    assert!(!failed(asked, "cache-control: s-maxage=2", Failure::Status(503), 10));
    assert!(!failed(asked, "cache-control: max-age=2, must-revalidate", Failure::Status(503), 10));
}

#[test]
fn parts_answer_what_lies_within_them_and_validate_nothing_else() {
    let policy = Policy::default();
    let head = "cache-control: max-age=100\netag: \"a\"\ncontent-range: bytes 0-4/10";
    let head = crate::testing::store_for(&policy, "range: bytes=0-4", 206, head).unwrap();
    let parts = Parts::of(&head.part.unwrap());
    let lookup = |request: &'static str, seconds| {
        look_up(&policy, &get(request), Found::Parts(&head, &parts), after(seconds))
    };
    assert!(is_fresh_hit(lookup("range: bytes=1-2", 1)));
    assert_eq!(lookup("range: bytes=1-2", 100), Lookup::Validate(Forward::Stale));
    for request in ["", "range: bytes=1-5", "range: bytes=1-2\nif-range: \"b\""] {
        assert_eq!(lookup(request, 1), Lookup::Fetch(Forward::Partial), "{request}");
        assert_eq!(lookup(request, 100), Lookup::Fetch(Forward::Partial), "{request}");
    }
}
