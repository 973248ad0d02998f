use super::*;
use crate::policy::SetCookie;
use crate::testing::{after, date, dated, get, lines, store, store_for};
use crate::time::UnixMillis;

const STORED: &str =
    "date: {0}\ncache-control: max-age=2\netag: \"a\"\nlast-modified: {-100}\na: 1\ncontent-type: b/c";

/// The answer, ten seconds after what is stored.
fn validate(policy: &Policy, request: &str, stored: &str, status: u16, head: &str) -> Validated {
    let (head, stored) = (dated(head), store_for(policy, "", 200, stored).unwrap());
    let response = Response::read(policy, status, (after(10), after(10)), lines(&head));
    validated(policy, &get(request), &stored, &response, lines(&head))
}

fn freshened(stored: &str, head: &str) -> Box<StoredHead> {
    match validate(&Policy::default(), "", stored, 304, head) {
        Validated::Freshened(new) => new,
        other => panic!("{other:?}"),
    }
}

fn get_text<'h>(head: &'h StoredHead, name: &str) -> Option<&'h str> {
    head.get(name).map(|value| std::str::from_utf8(value).unwrap())
}

#[test]
fn conditions_are_the_validators_that_are_stored() {
    let written = |stored: &str| {
        let mut out = Vec::new();
        write_conditions(&store(stored), &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(written("etag: W/\"a\""), "If-None-Match: W/\"a\"\r\n");
    assert_eq!(written("last-modified: {-5}"), format!("If-Modified-Since: {}\r\n", date(-5)));
    assert_eq!(written("cache-control: max-age=60\netag: a\nlast-modified: foo"), "");
    assert_eq!(
        written("last-modified: {-5}\netag: \"a\""),
        format!("If-None-Match: \"a\"\r\nIf-Modified-Since: {}\r\n", date(-5))
    );
}

#[test]
fn a_304_makes_the_stored_response_fresh() {
    let new = freshened(STORED, "date: {10}\netag: \"a\"");
    assert!(new.freshness.is_fresh(after(11)) && !new.freshness.is_fresh(after(12)));
    assert_eq!(new.freshness.age_seconds(after(11)), 1);
    assert_eq!(get_text(&new, "a"), Some("1"));
    assert_eq!(get_text(&new, "date"), Some(&*date(10)));
}

#[test]
fn a_304_changes_the_fields_that_it_has() {
    let new = freshened(
        STORED,
        "etag: \"a\"\nA: 2\na: 3\nb: 4\nCache-Control: max-age=3600\ncontent-type: d/e\ncontent-foo: 5",
    );
    let values: Vec<_> = values(new.fields(), "a").collect();
    assert_eq!(values, [b"2", b"3"]);
    for (name, value) in
        [("b", "4"), ("cache-control", "max-age=3600"), ("content-type", "d/e"), ("content-foo", "5")]
    {
        assert_eq!(get_text(&new, name), Some(value), "{name}");
    }
    assert_eq!(new.freshness.lifetime.seconds, 3600);
}

#[test]
fn a_304_does_not_change_what_the_body_depends_on() {
    let stored = format!("{STORED}\ncontent-encoding: gzip");
    let new = freshened(
        &stored,
        "content-length: 7\ncontent-encoding: br\ncontent-range: bytes 0-1/2\nconnection: x\nx: 1\ntransfer-encoding: y",
    );
    assert_eq!(get_text(&new, "content-encoding"), Some("gzip"));
    for name in ["content-length", "content-range", "connection", "x", "transfer-encoding", "age"] {
        assert_eq!(get_text(&new, name), None, "{name}");
    }
}

#[test]
fn a_304_without_a_date_is_of_now() {
    let new = freshened(STORED, "etag: \"a\"");
    assert_eq!(get_text(&new, "date"), Some(&*date(10)));
    assert_eq!(new.freshness.age_seconds(after(10)), 0);
    let new = freshened(STORED, "etag: \"a\"\nage: 1\ndate: foo");
    assert_eq!(new.freshness.age_seconds(after(10)), 1);
    assert_eq!(get_text(&new, "age"), None);
}

#[test]
fn a_304_about_something_else_is_asked_for_again() {
    for (stored, head) in
        [(STORED, "etag: \"b\""), ("last-modified: {-100}", "etag: \"b\""), (STORED, "last-modified: {-99}")]
    {
        let found = validate(&Policy::default(), "", stored, 304, head);
        assert!(matches!(found, Validated::Repeat), "{head}: {found:?}");
    }
    freshened(STORED, "etag: W/\"a\"");
    freshened(STORED, "last-modified: {-100}");
    freshened(STORED, "");
}

#[test]
fn a_304_that_may_not_be_stored_is_used_once() {
    for (request, head, expected) in [
        ("", "cache-control: private", NotStored::Private),
        ("", "cache-control: no-store", NotStored::NoStore),
        ("", "vary: *", NotStored::Varies),
        ("authorization: x", "", NotStored::Credentials),
        ("cache-control: no-store", "", NotStored::RequestNoStore),
    ] {
        match validate(&Policy::default(), request, STORED, 304, head) {
            Validated::UsedOnce(new, why) => {
                assert_eq!(why, expected);
                assert_eq!(get_text(&new, "a"), Some("1"));
            }
            other => panic!("{head}: {other:?}"),
        }
    }
    let varies = validate(&Policy::default(), "", STORED, 304, "vary: accept");
    assert!(matches!(varies, Validated::VariesAnew(_)), "{varies:?}");
}

#[test]
fn a_cookie_of_a_304_is_not_stored_for_others() {
    let policy = Policy { set_cookie: SetCookie::Strip, ..Policy::default() };
    match validate(&policy, "", STORED, 304, "etag: \"a\"\nset-cookie: session=1\nb: 2") {
        Validated::Freshened(new) => {
            assert_eq!((get_text(&new, "set-cookie"), get_text(&new, "b")), (None, Some("2")));
        }
        other => panic!("{other:?}"),
    }
    let policy = Policy { set_cookie: SetCookie::Store, ..Policy::default() };
    match validate(&policy, "", STORED, 304, "set-cookie: a=1") {
        Validated::Freshened(new) => assert_eq!(get_text(&new, "set-cookie"), Some("a=1")),
        other => panic!("{other:?}"),
    }
}

/// A cookie for one client went into the stored head for all clients, and that client lost it (issue 43).
#[test]
fn a_304_that_sets_a_cookie_changes_nothing_for_others_and_its_client_gets_the_cookie() {
    for name in ["set-cookie", "Set-Cookie2"] {
        let answer = format!("etag: \"a\"\n{name}: session=alice\nx-csrf-token: token-of-alice\na: 2");
        match validate(&Policy::default(), "", STORED, 304, &answer) {
            Validated::UsedOnce(new, NotStored::SetCookie) => {
                for (name, value) in [
                    (name, "session=alice"),
                    ("x-csrf-token", "token-of-alice"),
                    ("a", "2"),
                    ("content-type", "b/c"),
                ] {
                    assert_eq!(get_text(&new, name), Some(value), "{name}");
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn fields_that_a_304_keeps_for_one_client_reach_that_client_when_it_is_used_once() {
    let answer =
        "cache-control: max-age=2, private=\"x-user\"\nx-user: alice\nset-cookie: a=1\nconnection: b\nb: 3";
    match validate(&Policy::default(), "", STORED, 304, answer) {
        Validated::UsedOnce(new, NotStored::SetCookie) => {
            assert_eq!((get_text(&new, "x-user"), get_text(&new, "b")), (Some("alice"), None));
        }
        other => panic!("{other:?}"),
    }
    let policy = Policy { set_cookie: SetCookie::Strip, ..Policy::default() };
    match validate(&policy, "", STORED, 304, "vary: accept\nset-cookie: a=1") {
        Validated::VariesAnew(new) => assert_eq!(get_text(&new, "set-cookie"), Some("a=1")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_stored_response_allows_is_not_allowed_to_the_fields_of_a_304_that_refuses() {
    let targeted = format!("{STORED}\nCDN-Cache-Control: max-age=60");
    for (stored, request, answer, expected) in [
        (&*targeted, "", "cache-control: private", NotStored::Private),
        (&targeted, "", "cache-control: no-store", NotStored::NoStore),
        (&targeted, "", "cache-control: max-age=1, x=\"", NotStored::BrokenCacheControl),
        ("cache-control: public\netag: \"a\"", "authorization: x", "", NotStored::Credentials),
        (
            "cache-control: s-maxage=1\netag: \"a\"",
            "authorization: x",
            "x-user: alice",
            NotStored::Credentials,
        ),
    ] {
        let found = validate(&Policy::default(), request, stored, 304, answer);
        assert!(matches!(found, Validated::UsedOnce(_, why) if why == expected), "{answer}: {found:?}");
    }
    let found =
        validate(&Policy::default(), "authorization: x", STORED, 304, "cache-control: public, max-age=9");
    assert!(matches!(found, Validated::Freshened(_)), "{found:?}");
}

#[test]
fn errors_leave_what_is_stored_and_use_it_where_that_is_allowed() {
    let stored = "cache-control: max-age=2, stale-if-error=60\netag: \"a\"";
    let with = |status| validate(&Policy::default(), "", stored, status, "");
    assert!(matches!(with(503), Validated::Stale(hit) if hit.is_stale && hit.age == 10));
    let dropped = |request: &str, status| match validate(&Policy::default(), request, STORED, status, "") {
        Validated::Replaced { drops_stored } => drops_stored,
        other => panic!("{other:?}"),
    };
    for status in [200, 206, 301, 404, 410] {
        assert!(dropped("", status), "{status}");
        assert!(!dropped("authorization: x", status), "{status}");
        assert!(!dropped("cache-control: no-store", status), "{status}");
    }
    for status in [400, 401, 403, 413, 429, 431, 500, 503] {
        assert!(!dropped("", status), "{status}");
    }
}

fn by_head(request: &Request<'_>, status: u16, head: &str, length: Option<u64>) -> HeadEffect {
    let policy = Policy::default();
    let head = dated(head);
    let response = Response {
        content_length: length,
        ..Response::read(&policy, status, (after(10), after(10)), lines(&head))
    };
    head_effect(&policy, request, (&store(STORED), 10), &response, lines(&head))
}

#[test]
fn a_200_to_head_freshens_what_it_could_have_come_from() {
    let request = Request { method: Method::Head, ..Request::default() };
    match by_head(&request, 200, "cache-control: max-age=1000\na: 2", Some(10)) {
        HeadEffect::Freshened(new) => {
            assert_eq!(get_text(&new, "a"), Some("2"));
            assert_eq!(get_text(&new, "content-type"), Some("b/c"));
            assert!(new.freshness.is_fresh(after(900)));
        }
        other => panic!("{other:?}"),
    }
    for (head, length) in [
        ("", Some(11)),
        ("etag: \"b\"", None),
        ("last-modified: {0}", None),
        ("cache-control: private", None),
        ("set-cookie: session=alice\nx-csrf-token: token-of-alice", None),
        ("set-cookie2: session=alice", Some(10)),
    ] {
        assert!(matches!(by_head(&request, 200, head, length), HeadEffect::Dropped), "{head}");
    }
    assert!(matches!(by_head(&request, 410, "", None), HeadEffect::Nothing));
    let own = Request { has_credentials: true, ..request };
    assert!(matches!(by_head(&own, 200, "cache-control: private", None), HeadEffect::Nothing));
    assert!(matches!(by_head(&Request::default(), 200, "", None), HeadEffect::Nothing), "a GET");
}

#[test]
fn parts_are_freshened_too() {
    let policy = Policy::default();
    let head = "cache-control: max-age=2\netag: \"a\"\ncontent-range: bytes 0-4/10";
    let stored = store_for(&policy, "range: bytes=0-4", 206, head).unwrap();
    let times = (UnixMillis(after(10).0), after(10));
    let response = Response::read(&policy, 304, times, lines("etag: \"a\""));
    match validated(&policy, &get(""), &stored, &response, lines("etag: \"a\"")) {
        Validated::Freshened(new) => {
            assert_eq!((new.status, new.part), (206, stored.part));
            assert!(new.freshness.is_fresh(after(11)));
        }
        other => panic!("{other:?}"),
    }
}

const PART: &str = "cache-control: max-age=60\ndate: {0}\ncontent-range: bytes 0-4/10";

/// A 206 with the rest, ten seconds after what is stored.
fn join(stored: &str, head: &str, length: u64) -> Option<ContentRange> {
    let policy = Policy::default();
    let stored = store_for(&policy, "range: bytes=0-4", 206, &format!("{PART}\n{stored}")).unwrap();
    let head = dated(head);
    let response = Response {
        content_length: Some(length),
        ..Response::read(&policy, 206, (after(10), after(10)), lines(&head))
    };
    let (new, part) = joined(&policy, &get("range: bytes=5-"), &stored, &response, lines(&head))?;
    assert_eq!((new.status, new.freshness.received), (206, after(10)));
    Some(part)
}

#[test]
fn parts_of_one_representation_are_joined() {
    let rest = ContentRange { first: 5, end: 10, total: 10 };
    assert_eq!(join("etag: \"a\"", "etag: \"a\"\ncontent-range: bytes 5-9/10", 5), Some(rest));
    let dates = ("last-modified: {-60}", "last-modified: {-60}\ncontent-range: bytes 5-9/10");
    assert_eq!(join(dates.0, dates.1, 5), Some(rest));
    for (stored, head, length) in [
        ("etag: \"a\"", "etag: \"b\"\ncontent-range: bytes 5-9/10", 5),
        ("etag: W/\"a\"", "etag: W/\"a\"\ncontent-range: bytes 5-9/10", 5),
        ("etag: \"a\"", "content-range: bytes 5-9/10", 5),
        ("", "content-range: bytes 5-9/10", 5),
        ("last-modified: {-59}", "last-modified: {-59}\ncontent-range: bytes 5-9/10", 5),
        ("etag: \"a\"", "etag: \"a\"\ncontent-range: bytes 5-9/11", 5),
        ("etag: \"a\"", "etag: \"a\"\ncontent-range: bytes 5-9/10", 4),
        ("etag: \"a\"", "etag: \"a\"\ncontent-range: bytes 5-9/*", 5),
        ("etag: \"a\"", "etag: \"a\"", 5),
        ("etag: \"a\"", "etag: \"a\"\ncontent-range: bytes 5-9/10\ncache-control: private", 5),
        ("etag: \"a\"", "etag: \"a\"\ncontent-range: bytes 5-9/10\nset-cookie: session=alice", 5),
        (
            "etag: \"a\"\ncdn-cache-control: max-age=60",
            "etag: \"a\"\ncontent-range: bytes 5-9/10\ncache-control: private",
            5,
        ),
        ("etag: \"a\"\ncontent-encoding: gzip", "etag: \"a\"\ncontent-range: bytes 5-9/10", 5),
        ("etag: \"a\"", "etag: \"a\"\ncontent-range: bytes 5-9/10\ncontent-encoding: gzip", 5),
    ] {
        assert_eq!(join(stored, head, length), None, "{stored} {head}");
    }
}

#[test]
fn the_rest_of_a_part_is_asked_for_where_it_can_be_joined() {
    let asked = |stored: &str, gap: Range<u64>| {
        let head = format!("{PART}\n{stored}");
        let stored = store_for(&Policy::default(), "range: bytes=0-4", 206, &head).unwrap();
        let mut out = Vec::new();
        write_completion(&stored, &gap, &mut out).then(|| String::from_utf8(out).unwrap())
    };
    assert_eq!(asked("etag: \"a\"", 5..10).as_deref(), Some("Range: bytes=5-\r\nIf-Range: \"a\"\r\n"));
    assert_eq!(asked("etag: \"a\"", 5..7).as_deref(), Some("Range: bytes=5-6\r\nIf-Range: \"a\"\r\n"));
    let expected = format!("Range: bytes=5-\r\nIf-Range: {}\r\n", date(-100));
    assert_eq!(asked("etag: W/\"a\"\nlast-modified: {-100}", 5..10), Some(expected));
    assert_eq!(asked("etag: W/\"a\"", 5..10), None);
    assert_eq!(asked("", 5..10), None);
}
