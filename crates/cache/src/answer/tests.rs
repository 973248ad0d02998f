use super::*;
use crate::policy::Policy;
use crate::testing::{date, dated, get, lines, store, store_for};

const HIT: Hit = Hit { age: 7, ttl: 3, is_stale: false, refresh: false };

fn answered(request: &str, head: &StoredHead, body: Body<'_>) -> Answer {
    answer(&get(request), lines(request), head, body)
}

fn whole(request: &str, stored: &str) -> Answer {
    answered(&dated(request), &store(&format!("cache-control: max-age=60\n{stored}")), Body::Complete(10))
}

fn part(first: u64, end: u64) -> Answer {
    Answer::Part(ContentRange { first, end, total: 10 })
}

#[test]
fn a_client_that_has_it_is_told_so() {
    for (request, stored, expected) in [
        ("", "etag: \"a\"", Answer::Full),
        ("if-none-match: \"a\"", "etag: \"a\"", Answer::NotModified),
        ("if-none-match: \"x\", W/\"a\"", "etag: \"a\"", Answer::NotModified),
        ("if-none-match: W/\"a\"", "etag: W/\"a\"", Answer::NotModified),
        ("if-none-match: *", "", Answer::NotModified),
        ("if-none-match: \"b\"", "etag: \"a\"", Answer::Full),
        ("if-none-match: \"a\"", "", Answer::Full),
        (
            "if-none-match: \"a\"\nif-modified-since: {-10000}",
            "etag: \"a\"\nlast-modified: {-5000}",
            Answer::NotModified,
        ),
        ("if-none-match: \"b\"\nif-modified-since: {0}", "etag: \"a\"\nlast-modified: {-5000}", Answer::Full),
        ("if-modified-since: {-3000}", "last-modified: {-3000}", Answer::NotModified),
        ("if-modified-since: {-2000}", "last-modified: {-3000}", Answer::NotModified),
        ("if-modified-since: {-3001}", "last-modified: {-3000}", Answer::Full),
        ("if-modified-since: foo", "last-modified: {-3000}", Answer::Full),
        ("if-modified-since: {0}\nif-modified-since: {0}", "last-modified: {-3000}", Answer::Full),
        // RFC 9111 §4.3.2: the date of a response without Last-Modified.
        ("if-modified-since: {-3000}", "date: {0}", Answer::Full),
        ("if-modified-since: {0}", "date: {-5}", Answer::NotModified),
        ("if-modified-since: {0}", "", Answer::NotModified),
    ] {
        assert_eq!(whole(request, stored), expected, "{request} of {stored}");
    }
}

#[test]
fn conditions_do_not_count_for_what_is_no_success() {
    let head = store_for(&Policy::default(), "", 404, "cache-control: max-age=60\netag: \"a\"").unwrap();
    assert_eq!(answered("if-none-match: \"a\"", &head, Body::Complete(10)), Answer::Full);
    assert_eq!(answered("range: bytes=0-1", &head, Body::Complete(10)), Answer::Full);
}

#[test]
fn ranges_come_from_a_complete_response() {
    let modified = "etag: \"a\"\nlast-modified: {-100}\ndate: {0}";
    let weak = "etag: W/\"a\"\nlast-modified: {-59}\ndate: {0}";
    for (request, stored, expected) in [
        ("range: bytes=0-1", "", part(0, 2)),
        ("range: bytes=1-", "", part(1, 10)),
        ("range: bytes=-1", "", part(9, 10)),
        ("range: bytes=10-", "", Answer::Unsatisfiable(10)),
        ("range: bytes=a", "", Answer::Full),
        ("range: bytes=0-0,5-6", "", Answer::Several(vec![0..1, 5..7], 10)),
        ("range: bytes=0-1\nif-none-match: \"a\"", modified, Answer::NotModified),
        ("range: bytes=0-1\nif-range: \"a\"", modified, part(0, 2)),
        ("range: bytes=0-1\nif-range: \"b\"", modified, Answer::Full),
        ("range: bytes=0-1\nif-range: {-100}", modified, part(0, 2)),
        ("range: bytes=0-1\nif-range: {-99}", modified, Answer::Full),
        ("range: bytes=0-1\nif-range: foo", modified, Answer::Full),
        ("range: bytes=0-1\nif-range: \"a\"\nif-range: \"a\"", modified, Answer::Full),
        ("range: bytes=0-1\nif-range: W/\"a\"", weak, Answer::Full),
        ("range: bytes=0-1\nif-range: {-59}", weak, Answer::Full),
        ("range: bytes=10-\nif-range: \"b\"", modified, Answer::Full),
    ] {
        assert_eq!(whole(request, stored), expected, "{request} of {stored}");
    }
}

#[test]
fn a_body_on_its_way_has_no_ranges_until_its_length_is_known() {
    let head = store("cache-control: max-age=60");
    assert_eq!(answered("range: bytes=0-1", &head, Body::Growing), Answer::Full);
    assert_eq!(answered("", &head, Body::Growing), Answer::Full);
}

#[test]
fn head_is_answered_from_get_and_has_no_ranges() {
    let request = Request::read(Method::Head, false, lines("range: bytes=0-1"));
    let head = store("cache-control: max-age=60");
    assert_eq!(answer(&request, lines(""), &head, Body::Complete(10)), Answer::Full);
}

#[test]
fn parts_give_what_lies_wholly_within_them() {
    let head = store_for(
        &Policy::default(),
        "range: bytes=4-8",
        206,
        "cache-control: max-age=60\netag: \"a\"\ncontent-range: bytes 4-8/10",
    )
    .unwrap();
    let mut parts = Parts::of(&head.part.unwrap());
    for (request, expected) in [
        ("range: bytes=4-8", part(4, 9)),
        ("range: bytes=6-7", part(6, 8)),
        ("range: bytes=6-7,4-4", Answer::Several(vec![6..8, 4..5], 10)),
        ("range: bytes=6-", Answer::Lacks),
        ("range: bytes=-5", Answer::Lacks),
        ("range: bytes=3-4", Answer::Lacks),
        ("range: bytes=10-", Answer::Unsatisfiable(10)),
        ("", Answer::Lacks),
        ("range: bytes=6-7\nif-range: \"a\"", part(6, 8)),
        ("range: bytes=6-7\nif-range: \"b\"", Answer::Lacks),
        ("if-none-match: \"a\"", Answer::NotModified),
    ] {
        assert_eq!(answered(request, &head, Body::Parts(&parts)), expected, "{request}");
    }
    assert!(parts.add(0..4) && parts.add(9..10));
    assert_eq!(answered("", &head, Body::Parts(&parts)), Answer::Full);
    assert_eq!(write_answer(&Answer::Full, &head, &HIT, &mut Vec::new()), 200, "a complete one is no part");
}

fn written(answer: &Answer, stored: &str) -> (u16, String) {
    let mut out = Vec::new();
    let status = write_answer(answer, &store(stored), &HIT, &mut out);
    (status, String::from_utf8(out).unwrap().replace("\r\n", "|"))
}

#[test]
fn answers_have_the_stored_fields_and_an_age() {
    let stored = "date: {-1}\ncache-control: max-age=60\ncontent-type: a/b\ncontent-range: x\netag: \"a\"\ncontent-location: /c";
    let dated = format!("date: {}|cache-control: max-age=60|", date(-1));
    let rest = "etag: \"a\"|content-location: /c|";
    let of_body = "content-type: a/b|";
    assert_eq!(
        written(&Answer::Full, stored),
        (200, format!("{dated}{of_body}content-range: x|{rest}Age: 7|"))
    );
    assert_eq!(written(&Answer::NotModified, stored), (304, format!("{dated}{rest}Age: 7|")));
    assert_eq!(
        written(&part(2, 5), stored),
        (206, format!("{dated}{of_body}{rest}Content-Range: bytes 2-4/10|Age: 7|"))
    );
    assert_eq!(
        written(&Answer::Unsatisfiable(10), stored),
        (416, format!("{dated}{rest}Content-Range: bytes */10|Age: 7|"))
    );
}
