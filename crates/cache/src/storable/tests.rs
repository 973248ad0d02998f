use super::*;
use crate::policy::{DefaultLifetime, Sharing};
use crate::stored::StoredHead;
use crate::testing::{dated, get, lines, received, store_for};

fn judged_by(policy: &Policy, request: &str, status: u16, head: &str) -> Option<NotStored> {
    store_for(policy, request, status, head).err()
}

fn judged(request: &str, status: u16, head: &str) -> Option<NotStored> {
    judged_by(&Policy::default(), request, status, head)
}

#[test]
fn what_states_a_lifetime_is_stored_whatever_its_final_status() {
    for status in [200, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 410, 499, 500, 502, 503, 504, 599] {
        assert_eq!(judged("", status, "cache-control: max-age=60"), None, "{status}");
        assert_eq!(judged("", status, "expires: {60}"), None, "{status}");
    }
    for status in [0, 100, 101, 103, 199, 304] {
        assert_eq!(judged("", status, "cache-control: max-age=60"), Some(NotStored::NotFinal), "{status}");
    }
}

#[test]
fn errors_without_a_stated_lifetime_are_not_stored() {
    for status in [201, 302, 400, 403, 431, 500, 502, 503, 504] {
        assert_eq!(judged("", status, "etag: \"a\""), Some(NotStored::NoLifetime), "{status}");
    }
    assert_eq!(judged("", 404, ""), Some(NotStored::Useless));
    let policy = Policy {
        default_lifetimes: vec![DefaultLifetime { statuses: (500, 599), seconds: 1 }],
        ..Policy::default()
    };
    assert_eq!(judged_by(&policy, "", 503, ""), None, "unless the configuration asks for it");
}

#[test]
fn what_forbids_it_is_told() {
    use NotStored as Not;
    for (head, expected) in [
        ("cache-control: no-store", Some(Not::NoStore)),
        ("cache-control: max-age=10000, No-StOrE\nexpires: {10000}", Some(Not::NoStore)),
        ("cache-control: private, max-age=3600", Some(Not::Private)),
        ("cache-control: max-age=3600, foo=\"bar", Some(Not::BrokenCacheControl)),
        ("cache-control: max-age=3600\nset-cookie: a=b", Some(Not::SetCookie)),
        ("cache-control: max-age=3600\nvary: *", Some(Not::Varies)),
        ("cache-control: max-age=3600\nvary: x-forwarded-for", Some(Not::Varies)),
        ("cdn-cache-control: private\ncache-control: max-age=10000", Some(Not::Private)),
        ("cdn-cache-control: no-store\ncache-control: max-age=10000", Some(Not::NoStore)),
        ("cdn-cache-control: max-age=10000\ncache-control: no-store", None),
        ("cdn-cache-control: max-age=\"10000\"\ncache-control: no-store", Some(Not::Useless)),
        ("cache-control: max-age=3600, no-store, must-understand", None),
        ("connection: cache-control\ncache-control: no-store", Some(Not::NoStore)),
    ] {
        assert_eq!(judged("", 200, head), expected, "{head}");
    }
    let must_understand = "cache-control: max-age=3600, no-store, must-understand";
    assert_eq!(judged("", 599, must_understand), Some(Not::NotUnderstood));
    assert_eq!(
        judged("cache-control: no-store", 200, "cache-control: max-age=60"),
        Some(Not::RequestNoStore)
    );
}

#[test]
fn what_can_be_of_no_use_is_not_stored() {
    use NotStored::Useless;
    for (head, expected) in [
        ("", Some(Useless)),
        ("cache-control: max-age=0", Some(Useless)),
        ("cache-control: max-age=60\nage: 5000", Some(Useless)),
        ("cache-control: no-cache, max-age=60", Some(Useless)),
        ("etag: a", Some(Useless)),
        ("etag: \"a\"", None),
        ("last-modified: {-5}", None),
        ("cache-control: no-cache\netag: \"a\"", None),
        ("cache-control: max-age=60\nage: 70", None),
        ("cache-control: max-age=0, stale-while-revalidate=60", None),
        ("cache-control: max-age=0, stale-if-error=60", None),
        ("cache-control: max-age=0, stale-if-error=60, must-revalidate", Some(Useless)),
        ("cache-control: s-maxage=60\nage: 70", Some(Useless)),
    ] {
        assert_eq!(judged("", 200, head), expected, "{head}");
    }
}

#[test]
fn a_response_to_credentials_is_stored_only_if_it_is_for_all() {
    let with = |directives: &str| judged("authorization: x", 200, &format!("cache-control: {directives}"));
    for directives in ["max-age=60, public", "max-age=60, must-revalidate", "s-maxage=60"] {
        assert_eq!(with(directives), None, "{directives}");
    }
    for directives in
        ["max-age=60", "max-age=60, proxy-revalidate", "max-age=60, s-maxage=x", "max-age=60, public=1"]
    {
        assert_eq!(with(directives), Some(NotStored::Credentials), "{directives}");
    }
    assert!(!NotStored::Credentials.is_of_response() && NotStored::Private.is_of_response());
}

#[test]
fn cookies_are_refused_stripped_or_stored() {
    let head = "cache-control: max-age=60\nset-cookie: a=b\nset-cookie2: c=d";
    let lines = |set_cookie| {
        let policy = Policy { set_cookie, ..Policy::default() };
        store_for(&policy, "", 200, head)
            .map(|stored| String::from_utf8_lossy(stored.lines()).contains("et-cookie"))
    };
    assert_eq!(lines(SetCookie::Refuse), Err(NotStored::SetCookie));
    assert_eq!(lines(SetCookie::Strip), Ok(false));
    assert_eq!(lines(SetCookie::Store), Ok(true));
}

#[test]
fn only_get_is_stored_and_post_where_that_is_asked_for() {
    let store = |policy: &Policy, method, has_body, head: &str| {
        let request = Request::read(method, has_body, lines(""));
        StoredHead::new(policy, &request, &received(policy, 200, head), lines(head)).err()
    };
    let head = "cache-control: max-age=60";
    let policy = Policy::default();
    for method in [Method::Head, Method::Post, Method::Put, Method::Options, Method::Other] {
        assert_eq!(store(&policy, method, false, head), Some(NotStored::Method));
    }
    assert_eq!(store(&policy, Method::Get, true, head), Some(NotStored::RequestBody));
    let posts = Policy { stores_post: true, ..Policy::default() };
    assert_eq!(store(&posts, Method::Post, true, head), None);
    assert_eq!(store(&posts, Method::Post, true, "etag: \"a\""), Some(NotStored::NoLifetime));
    let own = Policy { sharing: Sharing::PerClient { lifetime: 5 }, stores_post: true, ..Policy::default() };
    assert_eq!(store(&own, Method::Get, true, ""), None, "the body is part of its key");
    assert_eq!(store(&own, Method::Post, true, head), Some(NotStored::Method));
    let own = Policy { post_body: Some(1024), ..own };
    assert_eq!(store(&own, Method::Post, true, ""), None, "it was asked for, with its body");
    assert_eq!(store(&own, Method::Put, true, head), Some(NotStored::Method));
    let shared = Policy { sharing: Sharing::Shared, stores_post: false, ..own };
    assert_eq!(store(&shared, Method::Post, true, head), Some(NotStored::Method), "not for all");
}

#[test]
fn a_response_for_one_client_may_be_private() {
    let policy = Policy { sharing: Sharing::PerClient { lifetime: 5 }, ..Policy::default() };
    assert_eq!(judged_by(&policy, "authorization: x", 200, "cache-control: private"), None);
    assert_eq!(judged_by(&policy, "", 200, "cache-control: no-store"), Some(NotStored::NoStore));
    assert_eq!(judged_by(&policy, "", 200, "set-cookie: a=b"), Some(NotStored::SetCookie));
    assert_eq!(judged_by(&policy, "", 200, "cache-control: max-age=0"), Some(NotStored::Useless));
    for status in [201, 302, 400, 401, 403, 429, 500, 502, 503] {
        assert_eq!(judged_by(&policy, "", status, ""), Some(NotStored::NoLifetime), "{status}");
        assert_eq!(judged_by(&policy, "", status, "cache-control: max-age=1"), None, "{status}");
    }
}

#[test]
fn a_part_is_stored_where_it_is_clear_where_it_belongs() {
    let store = |request: &str, length: Option<u64>, range: &str| {
        let head = dated(&format!("cache-control: max-age=60\n{range}"));
        let policy = Policy::default();
        let response = Response { content_length: length, ..received(&policy, 206, &head) };
        StoredHead::new(&policy, &get(request), &response, lines(&head)).map(|stored| stored.part)
    };
    let part = ContentRange { first: 0, end: 5, total: 10 };
    assert_eq!(store("range: bytes=0-4", Some(5), "content-range: bytes 0-4/10").unwrap(), Some(part));
    assert_eq!(store("range: bytes=0-4", None, "content-range: bytes 0-4/10").unwrap(), Some(part));
    for (request, length, range) in [
        ("", Some(5), "content-range: bytes 0-4/10"),
        ("range: bytes=0-4", Some(6), "content-range: bytes 0-4/10"),
        ("range: bytes=0-4", Some(5), "content-range: bytes 0-4/*"),
        ("range: bytes=0-4", Some(5), "content-range: bytes 0-4/10\ncontent-range: bytes 0-4/10"),
        ("range: bytes=0-1,3-4", Some(5), "content-type: multipart/byteranges; boundary=a"),
        ("range: bytes=0-4", Some(5), ""),
    ] {
        assert_eq!(store(request, length, range), Err(NotStored::Part).map(|()| None), "{request} {range}");
    }
}

/// A service that says nothing of caches may have made a page for the session that the cookie names.
#[test]
fn a_guessed_lifetime_is_none_where_the_request_has_a_cookie() {
    let lifetime = |request: &str, head: &str| {
        let head = store_for(&Policy::default(), request, 200, head).unwrap();
        (head.freshness.lifetime.seconds, head.freshness.is_never_fresh())
    };
    let old = "date: {0}\nlast-modified: {-1000}";
    assert_eq!(lifetime("", old), (100, false));
    assert_eq!(lifetime("cookie: a=b", old), (0, true));
    for said in ["cache-control: public", "vary: Cookie", "cache-control: max-age=100"] {
        assert_eq!(lifetime("cookie: a=b", &format!("{old}\n{said}")), (100, false), "{said}");
    }
    let policy = Policy {
        default_lifetimes: vec![DefaultLifetime { statuses: (200, 200), seconds: 5 }],
        ..Policy::default()
    };
    let configured = store_for(&policy, "cookie: a=b", 200, old).unwrap();
    assert_eq!(configured.freshness.lifetime.seconds, 5, "the configuration says so");
}
