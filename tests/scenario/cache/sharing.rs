//! What one client gets never reaches another one that it is not for.

use super::{Origin, ask, caching, good, reply, watchdog};

/// Variants of one URL that clients may cause.
const VARIANTS: usize = 300;

/// An endpoint that greets who asks, by the field of a request, with these fields of the response.
fn greeting(by: &'static str, fields: &'static str) -> Origin {
    Origin::start(move |request, _| {
        let name = request.value(by).unwrap_or("nobody").to_owned();
        Some(reply("200 OK", fields, &format!("hello {name}")))
    })
}

#[test]
fn variants_are_told_apart_by_what_vary_names() {
    let _watchdog = watchdog("variants_are_told_apart_by_what_vary_names");
    let origin = greeting("x-lang", "Cache-Control: max-age=60\r\nVary: X-Lang\r\n");
    let proxy = caching(&origin.url(), "{}", "");
    for _ in 0..3 {
        for lang in ["de", "en", "fr"] {
            let answer = ask(&proxy, "/page", &format!("X-Lang: {lang}\r\n"));
            assert_eq!(answer.text(), format!("hello {lang}"));
        }
        assert_eq!(ask(&proxy, "/page", "").text(), "hello nobody");
    }
    assert_eq!(origin.asked("/page"), 4, "each variant once");
}

#[test]
fn vary_by_everything_is_never_used_again() {
    let _watchdog = watchdog("vary_by_everything_is_never_used_again");
    let origin = greeting("x-user", "Cache-Control: max-age=60\r\nVary: *\r\n");
    let proxy = caching(&origin.url(), "{}", "");
    for user in ["alice", "bob"] {
        assert_eq!(ask(&proxy, "/", &format!("X-User: {user}\r\n")).text(), format!("hello {user}"));
    }
}

#[test]
fn hundreds_of_variants_stay_right() {
    let _watchdog = watchdog("hundreds_of_variants_stay_right");
    let origin = greeting("x-user", "Cache-Control: max-age=60\r\nVary: X-User\r\n");
    let proxy = caching(&origin.url(), "{}", "");
    for round in 0..2 {
        for number in 0..VARIANTS {
            let answer = ask(&proxy, "/", &format!("X-User: user{number}\r\n"));
            assert_eq!(answer.text(), format!("hello user{number}"), "round {round}");
        }
    }
}

#[test]
fn a_response_with_a_cookie_is_not_kept() {
    let _watchdog = watchdog("a_response_with_a_cookie_is_not_kept");
    let origin = Origin::start(|_, before| Some(good(&format!("Set-Cookie: id={before}\r\n"), "page")));
    let proxy = caching(&origin.url(), "{}", "");
    for number in 0..3 {
        let answer = ask(&proxy, "/page", "");
        assert_eq!(answer.value("set-cookie"), Some(&*format!("id={number}")));
    }
}

#[test]
fn a_stripped_cookie_reaches_nobody_else() {
    let _watchdog = watchdog("a_stripped_cookie_reaches_nobody_else");
    let origin = Origin::start(|_, before| Some(good(&format!("Set-Cookie: id={before}\r\n"), "page")));
    let proxy = caching(&origin.url(), "{ set_cookie: strip }", "");
    ask(&proxy, "/page", "");
    for _ in 0..3 {
        let answer = ask(&proxy, "/page", "");
        assert_eq!((answer.text().as_str(), answer.value("set-cookie")), ("page", None));
    }
    assert_eq!(origin.asked("/page"), 1);
}

#[test]
fn what_answers_credentials_is_for_their_owner() {
    let _watchdog = watchdog("what_answers_credentials_is_for_their_owner");
    let origin = greeting("authorization", "Cache-Control: max-age=60\r\n");
    let proxy = caching(&origin.url(), "{}", "");
    for user in ["alice", "bob", "alice"] {
        let answer = ask(&proxy, "/account", &format!("Authorization: Bearer {user}\r\n"));
        assert_eq!(answer.text(), format!("hello Bearer {user}"));
    }
    assert_eq!(ask(&proxy, "/account", "").text(), "hello nobody");
    assert_eq!(origin.asked("/account"), 4);
}

#[test]
fn what_is_public_is_for_all_in_spite_of_credentials() {
    let _watchdog = watchdog("what_is_public_is_for_all_in_spite_of_credentials");
    let origin =
        Origin::start(|_, _| Some(reply("200 OK", "Cache-Control: public, max-age=60\r\n", "for all")));
    let proxy = caching(&origin.url(), "{}", "");
    for user in ["alice", "bob"] {
        assert_eq!(ask(&proxy, "/", &format!("Authorization: Bearer {user}\r\n")).text(), "for all");
    }
    assert_eq!(origin.asked("/"), 1);
}

#[test]
fn private_and_no_store_are_kept_for_nobody() {
    let _watchdog = watchdog("private_and_no_store_are_kept_for_nobody");
    for directives in ["private, max-age=60", "no-store", "max-age=60, no-store", "Private,MAX-AGE=60"] {
        let origin = Origin::start(move |_, before| {
            Some(reply("200 OK", &format!("Cache-Control: {directives}\r\n"), &format!("answer {before}")))
        });
        let proxy = caching(&origin.url(), "{ default_ttl: 60s }", "");
        for number in 0..2 {
            assert_eq!(ask(&proxy, "/", "").text(), format!("answer {number}"), "{directives}");
        }
    }
}

#[test]
fn per_client_responses_are_told_apart_by_credentials_and_cookies() {
    let _watchdog = watchdog("per_client_responses_are_told_apart_by_credentials_and_cookies");
    for by in ["Authorization", "Cookie"] {
        let origin = greeting(by, "Cache-Control: private\r\n");
        let proxy = caching(&origin.url(), "{ per_client: 60s }", "");
        for _ in 0..2 {
            for user in ["alice", "bob"] {
                let answer = ask(&proxy, "/account", &format!("{by}: {user}\r\n"));
                assert_eq!(answer.text(), format!("hello {user}"), "{by}");
            }
        }
        assert_eq!(origin.asked("/account"), 2, "{by}: each once");
    }
}
