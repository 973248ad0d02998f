use super::*;
use crate::testing::{THEN, dated, received};

fn read(head: &str) -> ResponseDirectives {
    received(&Policy::default(), 200, head).directives
}

fn max_age(head: &str) -> Stated<u32> {
    read(head).max_age
}

#[test]
fn directives_are_those_of_rfc_9111() {
    let all = "cache-control: no-store, no-cache, private, public, must-revalidate\n\
               CACHE-CONTROL: proxy-revalidate, must-understand, IMMUTABLE, max-age=1, s-maxage=2\n\
               cache-control: stale-while-revalidate=3, stale-if-error=4, foo=bar";
    let expected = ResponseDirectives {
        no_store: true,
        no_cache: true,
        private: true,
        public: true,
        must_revalidate: true,
        proxy_revalidate: true,
        must_understand: true,
        immutable: true,
        lists_fields: false,
        broken: false,
        max_age: Stated::Value(1),
        s_maxage: Stated::Value(2),
        stale_while_revalidate: Some(3),
        stale_if_error: Some(4),
    };
    assert_eq!(read(all), expected);
    assert_eq!(read("cache-control: foo, max-agee=1, xpublic"), ResponseDirectives::default());
}

#[test]
fn odd_lifetimes_are_none() {
    for (value, expected) in [
        ("max-age=3600", Stated::Value(3600)),
        ("MaX-aGe=003600", Stated::Value(3600)),
        ("max-age=\"3600\"", Stated::Value(3600)),
        ("max-age=99999999999", Stated::Value(crate::MOST_SECONDS)),
        ("max-age=-3600", Stated::Invalid),
        ("max-age='3600'", Stated::Invalid),
        ("max-age=3600.0", Stated::Invalid),
        ("max-age=a3600", Stated::Invalid),
        ("max-age=3600a", Stated::Invalid),
        ("max-age =3600", Stated::Invalid),
        ("max-age= 3600", Stated::Invalid),
        ("max-age", Stated::Invalid),
        ("max-age=", Stated::Invalid),
        ("extension=\"max-age=3600\"", Stated::Absent),
        ("max-age=1, extension=\"max-age=3600\"", Stated::Value(1)),
    ] {
        assert_eq!(max_age(&format!("cache-control: {value}")), expected, "{value}");
    }
}

#[test]
fn the_first_of_two_lifetimes_counts() {
    assert_eq!(max_age("cache-control: max-age=1800, max-age=1"), Stated::Value(1800));
    assert_eq!(max_age("cache-control: max-age=1\ncache-control: max-age=1800"), Stated::Value(1));
    assert_eq!(max_age("cache-control: max-age=x, max-age=1800"), Stated::Invalid);
}

#[test]
fn a_restriction_holds_however_it_is_written() {
    for value in
        ["private=", "private=x y", "private =x", "private=\"\"", "private=\"a b\"", "private, private=\"a\""]
    {
        assert!(read(&format!("cache-control: {value}")).private, "{value}");
    }
    for value in ["no-store=1", "no-store=\"x\"", "No-StOrE"] {
        assert!(read(&format!("cache-control: {value}")).no_store, "{value}");
    }
    assert!(read("cache-control: no-cache=a/b").no_cache);
    assert!(!read("cache-control: public=1").public, "what loosens is read strictly");
    assert!(read("cache-control: max-age=60, foo=\"bar").broken);
}

#[test]
fn fields_can_be_listed_unless_the_response_means_nothing_without_them() {
    for value in ["no-cache=\"a\"", "private=\"a, Set-Cookie\"", "no-cache=a"] {
        let read = read(&format!("cache-control: {value}"));
        assert!(read.lists_fields && !read.no_cache && !read.private, "{value}");
    }
    for value in ["private=\"a, Vary\"", "private=\"content-encoding\"", "private=\"Cache-Control\""] {
        assert!(read(&format!("cache-control: {value}")).private, "{value}");
    }
    let many: Vec<_> = (0..=MOST_LISTED).map(|number| format!("a{number}")).collect();
    assert!(read(&format!("cache-control: no-cache=\"{}\"", many.join(","))).no_cache);
    let names = listed_fields(
        &Policy::default(),
        crate::testing::lines("cache-control: no-cache=\"a\", private=\"b,c\", foo=\"d\""),
    );
    assert_eq!(names, [&b"a"[..], b"b", b"c"]);
}

#[test]
fn a_targeted_field_counts_alone() {
    let policy = Policy::default();
    let head = dated("cdn-cache-control: max-age=60\ncache-control: no-store, max-age=1\nexpires: {10}");
    let response = received(&policy, 200, &head);
    assert!(response.is_targeted && !response.directives.no_store);
    assert_eq!((response.directives.max_age, response.expires), (Stated::Value(60), Stated::Absent));
}

#[test]
fn a_targeted_field_that_is_no_dictionary_does_not_count() {
    for value in [
        "",
        "max-age=10000, &&&&&",
        "MaX-aGe=3600",
        "max-age =100",
        "max-age= 100",
        "max-age=1,",
        "foo=\"bar",
    ] {
        let head = format!("cache-control: max-age=1\ncdn-cache-control: {value}");
        let response = received(&Policy::default(), 200, &head);
        assert!(!response.is_targeted, "{value}");
        assert_eq!(response.directives.max_age, Stated::Value(1), "{value}");
    }
    let two = "cdn-cache-control: max-age=5\ncdn-cache-control: &\ncache-control: max-age=1";
    assert_eq!(max_age(two), Stated::Value(1), "one line spoils all");
}

#[test]
fn types_in_a_targeted_field_are_those_of_its_directives() {
    for (value, expected) in [
        ("max-age=60", Stated::Value(60)),
        ("max-age=60;foo", Stated::Value(60)),
        ("max-age=1, max-age=60", Stated::Value(60)),
        ("max-age=99999999999", Stated::Value(crate::MOST_SECONDS)),
        ("max-age=\"60\"", Stated::Invalid),
        ("max-age=60.0", Stated::Invalid),
        ("max-age=-1", Stated::Invalid),
        ("max-age", Stated::Invalid),
        ("none", Stated::Absent),
    ] {
        assert_eq!(max_age(&format!("cdn-cache-control: {value}")), expected, "{value}");
    }
    assert!(read("cdn-cache-control: no-store=?0").no_store, "a restriction holds however it is written");
    assert!(!read("cdn-cache-control: public=5").public);
    assert!(read("cdn-cache-control: private=\"a\"").lists_fields);
    assert!(read("cdn-cache-control: no-cache=5").no_cache);
}

#[test]
fn the_most_applicable_targeted_field_counts() {
    let policy =
        Policy { targets: vec!["A-Cache-Control".into(), "CDN-Cache-Control".into()], ..Policy::default() };
    let lifetime = |head: &str| received(&policy, 200, head).directives.max_age;
    assert_eq!(lifetime("cdn-cache-control: max-age=1\na-cache-control: max-age=2"), Stated::Value(2));
    assert_eq!(lifetime("cdn-cache-control: max-age=1\na-cache-control: &"), Stated::Value(1));
    let none = Policy { targets: Vec::new(), ..Policy::default() };
    assert_eq!(received(&none, 200, "cdn-cache-control: max-age=1").directives.max_age, Stated::Absent);
}

#[test]
fn age_is_its_first_member_and_nothing_where_that_is_no_number() {
    for (head, expected) in [
        ("", 0),
        ("age: 7200", 7200),
        ("age: 7200, 0", 7200),
        ("age: 0, 7200", 0),
        ("age: 7200\nage: 0", 7200),
        ("age: 0\nage: 7200", 0),
        ("age: abc", 0),
        ("age: -7200", 0),
        ("age: 7200.0", 0),
        ("age: 7200;foo=bar", 0),
        ("age: abc\nage: 5", 0),
        ("age: 2147483647", 2_147_483_647),
        ("age: 2147483649", crate::MOST_SECONDS),
        ("age: 99999999999999999999999", crate::MOST_SECONDS),
    ] {
        assert_eq!(received(&Policy::default(), 200, head).age, expected, "{head}");
    }
}

#[test]
fn dates_and_validators_are_read_once() {
    let head = dated(
        "date: {-5}\ndate: {0}\nexpires: {10}\nexpires: 0\nlast-modified: {-100}\netag: \"a\"\nset-cookie: a=b",
    );
    let response = received(&Policy::default(), 200, &head);
    let then = THEN as i64;
    assert_eq!(response.date, Some(then - 5));
    assert_eq!(response.expires, Stated::Value(then + 10));
    assert_eq!(response.last_modified, Some(then - 100));
    assert_eq!(response.etag.map(|tag| tag.text), Some(&b"\"a\""[..]));
    assert!(response.has_set_cookie);
    let odd =
        received(&Policy::default(), 200, "date: foo\nexpires: 0\netag: \"a\"\netag: \"b\"\nset-cookie2: a");
    assert_eq!((odd.date, odd.expires, odd.etag), (None, Stated::Invalid, None));
    assert!(odd.has_set_cookie);
}
