use super::*;
use crate::policy::DefaultLifetime;
use crate::testing::{after, dated, lines, received};

fn lifetime_of(policy: &Policy, status: u16, head: &str) -> (u32, Source) {
    let head = dated(head);
    let lifetime = Lifetime::of(policy, &received(policy, status, &head));
    (lifetime.seconds, lifetime.source)
}

fn lifetime(head: &str) -> (u32, Source) {
    lifetime_of(&Policy::default(), 200, head)
}

fn freshness(head: &str) -> Freshness {
    let head = dated(head);
    Freshness::of(&Policy::default(), &received(&Policy::default(), 200, &head))
}

#[test]
fn what_is_stated_counts_in_the_order_of_rfc_9111() {
    for (head, seconds) in [
        ("cache-control: max-age=3600", 3600),
        ("cache-control: max-age=3600, s-maxage=1", 1),
        ("cache-control: s-maxage=1\ncache-control: max-age=3600", 1),
        ("cache-control: max-age=0, s-maxage=3600\nexpires: {-10}", 3600),
        ("cache-control: max-age=3600\nexpires: {-7200}\ndate: {0}", 3600),
        ("cache-control: max-age=3600\nexpires: 0", 3600),
        ("cache-control: max-age=0\nexpires: {3600}", 0),
        ("cache-control: max-age=x\nexpires: {3600}", 0),
        ("cache-control: max-age=3600, s-maxage=x", 0),
        ("expires: {3600}\ndate: {0}", 3600),
        ("expires: {3600}", 3600),
        ("expires: {10}\ndate: foo", 10),
        ("expires: {20}\ndate: {10}", 10),
        ("expires: {10}\ndate: {-10}", 20),
        ("expires: {300}\ndate: {400}", 0),
        ("expires: {0}\ndate: {0}", 0),
        ("expires: {-5}", 0),
        ("expires: 0\nlast-modified: {-86400}", 0),
        ("expires: Sat, 01 Jan 0000 00:00:00 GMT", 0),
        ("expires: Fri, 31 Dec 9999 23:59:59 GMT", crate::MOST_SECONDS),
    ] {
        assert_eq!(lifetime(head), (seconds, Source::Stated), "{head}");
    }
}

#[test]
fn a_tenth_of_the_time_without_a_change_is_a_lifetime_where_none_is_stated() {
    assert_eq!(lifetime("last-modified: {-1000}\ndate: {0}"), (100, Source::Heuristic));
    assert_eq!(lifetime("last-modified: {-1009}"), (100, Source::Heuristic));
    assert_eq!(lifetime("last-modified: {-1000}\ndate: {-500}"), (50, Source::Heuristic));
    assert_eq!(lifetime("last-modified: {-864000000}"), (86_400, Source::Heuristic), "a day at most");
    assert_eq!(lifetime("last-modified: {100}"), (0, Source::Heuristic));
    assert_eq!(lifetime("last-modified: foo"), (0, Source::Nothing));
    assert_eq!(lifetime(""), (0, Source::Nothing));
}

#[test]
fn heuristics_are_for_the_statuses_that_allow_them() {
    let modified = "last-modified: {-1000}";
    for status in [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501] {
        assert_eq!(lifetime_of(&Policy::default(), status, modified).0, 100, "{status}");
    }
    for status in [201, 202, 302, 303, 307, 400, 403, 416, 431, 500, 502, 503, 504, 599] {
        assert_eq!(lifetime_of(&Policy::default(), status, modified).1, Source::Nothing, "{status}");
        let public = format!("{modified}\ncache-control: public");
        assert_eq!(lifetime_of(&Policy::default(), status, &public).0, 100, "{status}");
    }
}

#[test]
fn the_configuration_has_lifetimes_where_none_is_stated() {
    let policy = Policy {
        default_lifetimes: vec![DefaultLifetime { statuses: (404, 404), seconds: 5 }],
        ..Policy::default()
    };
    assert_eq!(lifetime_of(&policy, 404, "last-modified: {-1000}"), (5, Source::Configured));
    assert_eq!(lifetime_of(&policy, 404, "cache-control: max-age=1"), (1, Source::Stated));
    assert_eq!(lifetime_of(&policy, 200, ""), (0, Source::Nothing));
    let policy = Policy { sharing: Sharing::PerClient { lifetime: 30 }, ..Policy::default() };
    assert_eq!(lifetime_of(&policy, 200, ""), (30, Source::Configured));
    assert_eq!(lifetime_of(&policy, 500, ""), (0, Source::Nothing), "an error is not repeated");
    assert_eq!(lifetime_of(&policy, 500, "cache-control: max-age=3"), (3, Source::Stated));
    assert_eq!(lifetime_of(&policy, 200, "cache-control: max-age=3600"), (30, Source::Stated));
    assert_eq!(lifetime_of(&policy, 200, "cache-control: max-age=3"), (3, Source::Stated));
}

#[test]
fn age_is_the_greatest_of_what_was_told_and_what_passed() {
    let policy = Policy::default();
    let age = |head: &str, times: (u64, u64)| {
        let head = dated(head);
        let times = (UnixMillis(after(0).0 + times.0), UnixMillis(after(0).0 + times.1));
        initial_age(&Response::read(&policy, 200, times, lines(&head)))
    };
    assert_eq!(age("date: {0}", (0, 0)), 0);
    assert_eq!(age("date: {0}", (0, 999)), 999, "the time that the answer took");
    assert_eq!(age("date: {0}", (800, 900)), 100, "no part of a second is age because dates have none");
    assert_eq!(age("date: {-7}", (0, 0)), 7000);
    assert_eq!(age("date: {7}", (0, 0)), 0, "a clock that goes ahead makes nothing younger");
    assert_eq!(age("age: 5\ndate: {-7}", (0, 2500)), 9000);
    assert_eq!(age("age: 10\ndate: {-7}", (0, 2500)), 12_500);
    assert_eq!(age("age: 99999999999\ndate: foo", (0, 0)), u64::from(crate::MOST_SECONDS) * 1000);
}

#[test]
fn a_response_is_fresh_until_it_is_as_old_as_its_lifetime() {
    let freshness = freshness("cache-control: max-age=2\nage: 1");
    assert!(freshness.is_fresh(after(0)) && freshness.is_fresh(UnixMillis(after(0).0 + 999)));
    assert!(!freshness.is_fresh(after(1)));
    assert_eq!((freshness.age_seconds(after(4)), freshness.ttl(after(4))), (5, -3));
    assert_eq!(freshness.age_seconds(UnixMillis(0)), 1, "a clock that was set back");
}

#[test]
fn the_greatest_age_is_stale_whatever_the_lifetime() {
    let freshness = freshness("cache-control: max-age=99999999999\nage: 99999999999");
    assert!(!freshness.is_fresh(after(0)));
    assert_eq!(freshness.age_seconds(UnixMillis(u64::MAX)), crate::MOST_SECONDS);
}

#[test]
fn a_stale_response_is_used_while_it_is_fetched_if_it_says_so() {
    let policy = Policy::default();
    let used =
        |head: &str, seconds: u64| freshness(head).may_be_used_while_revalidated(&policy, after(seconds));
    let head = "cache-control: max-age=1, stale-while-revalidate=4";
    assert!(used(head, 1) && used(head, 5) && !used(head, 6));
    assert!(used("cache-control: s-maxage=1, stale-while-revalidate=4", 5), "it says so itself");
    for forbidden in ["must-revalidate", "proxy-revalidate", "no-cache"] {
        assert!(!used(&format!("{head}, {forbidden}"), 2), "{forbidden}");
    }
    assert!(!used("cache-control: max-age=1, stale-while-revalidate=0", 1));
    assert!(!used("cache-control: max-age=1, stale-while-revalidate=x", 1));
    let policy = Policy { stale_while_revalidate: 4, ..Policy::default() };
    let used = |head: &str| freshness(head).may_be_used_while_revalidated(&policy, after(3));
    assert!(used("cache-control: max-age=1"));
    assert!(!used("cache-control: s-maxage=1"), "s-maxage forbids what it does not state");
    assert!(!used("cache-control: max-age=1, stale-while-revalidate=1"), "what is stated counts");
}
