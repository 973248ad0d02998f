use super::*;
use crate::policy::DefaultLifetime;
use crate::testing::{THEN, after, date, dated, lines, store, store_for};

fn text(head: &StoredHead) -> String {
    String::from_utf8(head.lines().to_vec()).unwrap()
}

#[test]
fn fields_are_stored_as_they_are() {
    let head = store(
        "Date: {0}\nA: 1\nb:  2 \nA: 3\nCache-Control: max-age=60\nContent-Encoding: gzip\nContent-Range: x",
    );
    let expected = dated(
        "Date: {0}\nA: 1\nb: 2\nA: 3\nCache-Control: max-age=60\nContent-Encoding: gzip\nContent-Range: x\n",
    );
    assert_eq!(text(&head), expected.replace('\n', "\r\n"));
    assert_eq!(head.get("a"), Some(&b"1"[..]));
    assert_eq!(head.fields().count(), 7);
}

#[test]
fn what_ends_at_this_hop_is_not_stored() {
    for name in [
        "Connection",
        "Keep-Alive",
        "Proxy-Authenticate",
        "Proxy-Authentication-Info",
        "Proxy-Authorization",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "Content-Length",
        "Age",
    ] {
        let head = store(&format!("cache-control: max-age=60\n{name}: 1"));
        assert_eq!(head.get(name), None, "{name}");
    }
}

#[test]
fn what_connection_names_is_not_stored_but_what_protects_is() {
    let head = store(
        "connection: a, B, cache-control, vary\na: 1\nb: 2\nc: 3\ncache-control: max-age=60\nvary: accept-language",
    );
    assert_eq!((head.get("a"), head.get("b"), head.get("c")), (None, None, Some(&b"3"[..])));
    assert!(head.get("cache-control").is_some() && head.get("vary").is_some());
    let head = store("connection: expires, cdn-cache-control\ncdn-cache-control: max-age=5\nexpires: 0");
    assert_eq!(
        (head.get("expires"), head.get("cdn-cache-control")),
        (Some(&b"0"[..]), Some(&b"max-age=5"[..]))
    );
    let many: Vec<_> = (0..=MOST_NOMINATED).map(|number| format!("x{number}")).collect();
    let head = store(&format!("connection: {}\na: 1\ncache-control: max-age=60", many.join(",")));
    assert_eq!(head.get("a"), None, "too many to tell");
}

#[test]
fn listed_fields_are_not_stored() {
    let head = store("cache-control: no-cache=\"a, b\", max-age=60\na: 1\nB: 2\nc: 3");
    assert_eq!((head.get("a"), head.get("b"), head.get("c")), (None, None, Some(&b"3"[..])));
    assert!(!head.freshness.must_validate);
    let head =
        store("cdn-cache-control: private=\"a\", max-age=60\na: 1\ncache-control: no-cache=\"b\"\nb: 2");
    assert_eq!((head.get("a"), head.get("b")), (None, Some(&b"2"[..])), "the targeted field counts alone");
}

#[test]
fn a_response_without_a_date_gets_the_time_of_receipt() {
    for head in ["cache-control: max-age=60", "cache-control: max-age=60\ndate: foo"] {
        let head = store(head);
        assert_eq!(head.get("date"), Some(date(0).as_bytes()));
        assert_eq!(head.date, THEN as i64);
        assert_eq!(values(head.fields(), "date").count(), 1);
    }
}

#[test]
fn validators_are_known() {
    let head = store("etag: W/\"a\"\nlast-modified: {-60}\ndate: {0}");
    assert_eq!(head.etag().map(|tag| tag.text), Some(&b"W/\"a\""[..]));
    assert!(head.can_be_validated() && head.has_strong_date());
    assert!(!store("last-modified: {-59}\ndate: {0}").has_strong_date());
    assert_eq!(store("etag: \"a\"\netag: \"b\"\ncache-control: max-age=1").etag(), None);
}

#[test]
fn a_part_is_stored_without_its_range() {
    let head = store_for(
        &Policy::default(),
        "range: bytes=0-4",
        206,
        "cache-control: max-age=60\ncontent-range: bytes 0-4/10",
    )
    .unwrap();
    assert_eq!((head.status, head.get("content-range")), (206, None));
    assert_eq!(head.freshness.received, after(0));
}

#[test]
fn lines_that_could_split_a_message_are_not_stored() {
    let fields =
        [(&b"cache-control"[..], &b"max-age=60"[..]), (b"a b", b"1"), (b"c", b"1\r\nd: 2"), (b"", b"x")];
    let policy = Policy::default();
    let response = Response::read(&policy, 200, (after(0), after(0)), fields.into_iter());
    let head = StoredHead::new(&policy, &crate::testing::get(""), &response, fields.into_iter()).unwrap();
    assert_eq!(head.fields().count(), 2, "Cache-Control and Date");
    assert_eq!(lines("a: b").count(), 1);
}

#[test]
fn a_saved_head_is_the_same_again() {
    let policy = Policy::default();
    let saved = |head: &StoredHead| {
        let Freshness { received, initial_age, .. } = head.freshness;
        let saved =
            Saved { status: head.status, received, initial_age, part: head.part, lines: head.lines() };
        StoredHead::restore(&policy, saved)
    };
    let head =
        "date: {-3}\nage: 7\ncache-control: max-age=60, stale-if-error=5\nvary: b, A\nlast-modified: {-90}";
    let part = "cache-control: max-age=60\ncontent-range: bytes 0-4/10";
    for head in [store(head), store_for(&policy, "range: bytes=0-4", 206, part).unwrap()] {
        let again = saved(&head).unwrap();
        assert_eq!((again.lines(), again.freshness, &again.vary), (head.lines(), head.freshness, &head.vary));
        assert_eq!((again.date, again.last_modified, again.part), (head.date, head.last_modified, head.part));
    }
    let guessed = saved(&store("date: {0}\nlast-modified: {-1000}")).unwrap();
    assert!(guessed.freshness.is_never_fresh(), "a request with a cookie may have caused it");
    let with_cookie = Policy { set_cookie: SetCookie::Store, ..Policy::default() };
    let head = store_for(&with_cookie, "", 200, "cache-control: max-age=60\nset-cookie: a=b").unwrap();
    assert!(saved(&head).is_none(), "the policy is another one");
    let without_targets = Policy { targets: Vec::new(), ..Policy::default() };
    let head = "cache-control: max-age=60\ncdn-cache-control: no-store";
    let head = store_for(&without_targets, "", 200, head).unwrap();
    assert!(saved(&head).is_none(), "another field counts now");
    let lifetime = DefaultLifetime { statuses: (500, 599), seconds: 60 };
    let with_errors = Policy { default_lifetimes: vec![lifetime], ..Policy::default() };
    let head = store_for(&with_errors, "", 500, "etag: \"1\"").unwrap();
    assert!(saved(&head).is_none(), "nothing gives it a lifetime any more");
}
