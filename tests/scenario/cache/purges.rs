//! Purges: what is taken away is not used again, not even when it was on its way.

use thalweg_tests::{Admin, Proxy};

use super::{Half, Halves, Origin, ask, asking, body, caching, good, reads, watchdog};

/// As the key has it: the host that clients ask for.
const OBJECT: &str = "http://a.test/object";

/// Takes away what is stored for a URL.
fn purge(proxy: &Proxy, url: &str) {
    let answer = Admin::of(proxy).call("POST", "/api/v1/cache/purge", &format!("{{\"url\":\"{url}\"}}"));
    assert_eq!(answer.status(), 200, "{}", answer.text());
}

#[test]
fn what_is_purged_is_fetched_again() {
    let _watchdog = watchdog("what_is_purged_is_fetched_again");
    let origin = Origin::start(|_, before| Some(good("", &format!("answer {before}"))));
    let proxy = caching(&origin.url(), "{}", "");
    for path in ["/object", "/other"] {
        assert_eq!(ask(&proxy, path, "").text(), "answer 0");
        assert_eq!(ask(&proxy, path, "").text(), "answer 0", "{path} is stored");
    }
    purge(&proxy, OBJECT);
    assert_eq!(ask(&proxy, "/object", "").text(), "answer 1");
    assert_eq!(ask(&proxy, "/other", "").text(), "answer 0", "another URL stays");
}

#[test]
fn a_purge_while_a_response_comes_keeps_it_from_being_stored() {
    let _watchdog = watchdog("a_purge_while_a_response_comes_keeps_it_from_being_stored");
    let (old, new) = (body(1_000_000, 7), body(900_000, 8));
    let endpoint = Halves::start(vec![old.clone(), new.clone()], false);
    let proxy = caching(&endpoint.url(), "{}", "");
    let mut early = asking(&proxy, "/object");
    let half = endpoint.next();
    purge(&proxy, OBJECT);
    // Who asks after the purge gets nothing of before.
    let mut late = asking(&proxy, "/object");
    endpoint.next().send(Half::Rest).unwrap();
    assert_eq!(reads(&mut late, &new), Ok(()));
    half.send(Half::Rest).unwrap();
    assert_eq!(reads(&mut early, &old), Ok(()), "who asked before gets what was begun");
    assert_eq!(
        reads(&mut asking(&proxy, "/object"), &new),
        Ok(()),
        "the old one takes no place of the new one"
    );
    assert_eq!(endpoint.asked(), 2);
}
