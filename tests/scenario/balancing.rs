//! Which endpoint a request goes to: by a cookie, by a key, by the shares of a split.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use thalweg_tests::message::Kind;
use thalweg_tests::{Connection, Endpoint, Message, Proxy, STEP};

use super::house::{House, ask, config, endpoints, head, who};
use super::{reload, watchdog};

const STICKY: &str = "sticky: { secret: { value: \"sixteen bytes or more\" }, max_age: 1h }";

/// The cookie that an answer sets, as it is sent back.
fn cookie(answer: &Message) -> Option<&str> {
    answer.value("set-cookie")?.split(';').next()
}

/// Who answers to a cookie in so many requests, each on its own connection; none of the answers may set another.
fn at_home(proxy: &Proxy, cookie_now: &str, requests: usize) -> BTreeSet<String> {
    let field = format!("Cookie: other=1; {cookie_now}\r\n");
    let answers = (0..requests).map(|_| ask(proxy, "/", &field));
    let names = answers.map(|answer| {
        assert_eq!(cookie(&answer), None, "{answer:?}");
        who(&answer)
    });
    names.collect()
}

/// The cookie with its last digit changed.
fn forged(cookie: &str) -> String {
    let (rest, last) = cookie.split_at(cookie.len() - 1);
    format!("{rest}{}", if last == "0" { '1' } else { '0' })
}

/// Asserts that these cookies are as good as none: requests go anywhere, and get another.
fn is_ignored(proxy: &Proxy, cookie_now: &str) {
    let field = format!("Cookie: {cookie_now}\r\n");
    let answers: Vec<_> = (0..30).map(|_| ask(proxy, "/", &field)).collect();
    assert!(answers.iter().all(|answer| cookie(answer).is_some()), "{cookie_now} was taken");
    let names: BTreeSet<_> = answers.iter().map(who).collect();
    assert_eq!(names.len(), 3, "{cookie_now}: {names:?}");
}

#[test]
fn a_client_stays_where_its_cookie_says_until_that_endpoint_is_gone() {
    let _watchdog = watchdog("a_client_stays_where_its_cookie_says_until_that_endpoint_is_gone");
    let house = House::new(3, &[STICKY]);
    let first = ask(&house.proxy, "/", "");
    let (home, given) = (who(&first), cookie(&first).unwrap().to_owned());
    let attributes = first.value("set-cookie").unwrap();
    for attribute in ["Path=/", "HttpOnly", "SameSite=Lax", "Max-Age=3600"] {
        assert!(attributes.contains(attribute), "{attributes}");
    }
    assert_eq!(at_home(&house.proxy, &given, 60), BTreeSet::from([home.clone()]));
    let mut kept = Connection::open(house.proxy.web()).unwrap();
    for _ in 0..20 {
        kept.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\nCookie: {given}\r\n\r\n"));
        let answer = Message::read(&mut kept, Kind::Response, Instant::now() + STEP).unwrap();
        assert_eq!((who(&answer), cookie(&answer)), (home.clone(), None));
    }
    let at = house.endpoints.iter().position(|endpoint| endpoint_name(endpoint) == home).unwrap();
    house.endpoints[at].kill();
    let moved = ask(&house.proxy, "/", &format!("Cookie: {given}\r\n"));
    let (next, other) = (who(&moved), cookie(&moved).unwrap().to_owned());
    assert!(next != home && other != given, "{moved:?}");
    assert_eq!(at_home(&house.proxy, &other, 30), BTreeSet::from([next]));
}

fn endpoint_name(endpoint: &Endpoint) -> String {
    let answer = thalweg_tests::message::get(endpoint.address(), "/").unwrap();
    answer.text()
}

#[test]
fn a_cookie_that_the_proxy_has_not_signed_is_as_good_as_none() {
    let _watchdog = watchdog("a_cookie_that_the_proxy_has_not_signed_is_as_good_as_none");
    let house = House::new(3, &[STICKY]);
    let given = cookie(&ask(&house.proxy, "/", "")).unwrap().to_owned();
    is_ignored(&house.proxy, &forged(&given));
    is_ignored(&house.proxy, "thalweg_endpoint=");
    is_ignored(&house.proxy, &given[..given.len() - 2]);
    let stranger = STICKY.replace("sixteen", "also sixteen");
    let stranger = Proxy::start(&config(&house.endpoints, &[&stranger]));
    let foreign = cookie(&ask(&stranger, "/", "")).unwrap().to_owned();
    is_ignored(&house.proxy, &foreign);
    let sister = Proxy::start(&config(&house.endpoints, &[STICKY]));
    assert_eq!(at_home(&sister, &given, 10), at_home(&house.proxy, &given, 10), "the same secret");
}

/// Asks with each of so many keys; says who answered to which.
fn homes(proxy: &Proxy, keys: usize, request: &dyn Fn(usize) -> (String, String)) -> BTreeMap<usize, String> {
    let answers = (0..keys).map(|key| {
        let (target, fields) = request(key);
        (key, who(&ask(proxy, &target, &fields)))
    });
    answers.collect()
}

/// The same key goes to the same endpoint, on every connection and after a reload; when an endpoint goes, only its
/// keys move.
fn keeps_keys(on: &str, algorithm: &str, request: &dyn Fn(usize) -> (String, String)) {
    const KEYS: usize = 60;
    let endpoints = endpoints(5);
    let balance = format!("balance: {{ hash: {{ on: {on}, algorithm: {algorithm} }} }}");
    let text = config(&endpoints, &[&balance]) + "trusted_proxies: [ 127.0.0.1 ]\n";
    let house = House::of(endpoints, &text);
    let before = homes(&house.proxy, KEYS, request);
    let used: BTreeSet<_> = before.values().collect();
    assert_eq!(used.len(), 5, "{on}: {used:?}");
    for _ in 0..2 {
        assert_eq!(homes(&house.proxy, KEYS, request), before, "{on}, {algorithm}: once more");
    }
    reload(&house.proxy, &text.replace("grace: 5s", "grace: 6s"), 1);
    assert_eq!(homes(&house.proxy, KEYS, request), before, "{on}, {algorithm}: after a reload");
    house.endpoints[2].kill();
    let after = homes(&house.proxy, KEYS, request);
    for (key, home) in &before {
        let stays = home != "c";
        assert_eq!(
            after[key] == *home,
            stays,
            "{on}, {algorithm}: key {key} was at {home}, is at {}",
            after[key]
        );
    }
}

#[test]
fn a_key_in_a_header_goes_to_one_endpoint_by_every_algorithm() {
    let _watchdog = watchdog("a_key_in_a_header_goes_to_one_endpoint_by_every_algorithm");
    for algorithm in ["ring", "maglev", "rendezvous"] {
        keeps_keys("{ header: X-User }", algorithm, &|key| ("/".to_owned(), format!("X-User: u{key}\r\n")));
    }
}

#[test]
fn a_key_in_a_cookie_the_path_or_the_query_goes_to_one_endpoint() {
    let _watchdog = watchdog("a_key_in_a_cookie_the_path_or_the_query_goes_to_one_endpoint");
    keeps_keys("{ cookie: user }", "ring", &|key| ("/".to_owned(), format!("Cookie: a=1; user=u{key}\r\n")));
    keeps_keys("path", "ring", &|key| (format!("/of/{key}?at={key}{key}"), String::new()));
    keeps_keys("{ query: user }", "ring", &|key| (format!("/?a=1&user=u{key}"), String::new()));
}

#[test]
fn a_client_goes_to_one_endpoint_by_its_address() {
    let _watchdog = watchdog("a_client_goes_to_one_endpoint_by_its_address");
    keeps_keys("client_ip", "ring", &|key| {
        ("/".to_owned(), format!("X-Forwarded-For: 192.0.2.{}\r\n", key + 1))
    });
}

/// A proxy with a split of 90 and 10 over two services of one endpoint each.
fn split(endpoints: &[Endpoint], more: &str) -> Proxy {
    let (a, b) = (endpoints[0].url(), endpoints[1].url());
    Proxy::start(&format!(
        "{}services:\n  old: {{ endpoints: [ \"{a}\" ] }}\n  new: {{ endpoints: [ \"{b}\" ] }}\n\
         routes:\n  - to: {{ split: [ {{ service: old, weight: 90 }}, {{ service: new, weight: 10 }} ]{more} }}\n",
        head()
    ))
}

#[test]
fn a_split_sends_each_service_its_share() {
    let _watchdog = watchdog("a_split_sends_each_service_its_share");
    let endpoints = endpoints(2);
    let proxy = split(&endpoints, "");
    for _ in 0..8 {
        let mut client = Connection::open(proxy.web()).unwrap();
        for _ in 0..250 {
            client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
            let answer = Message::read(&mut client, Kind::Response, Instant::now() + STEP).unwrap();
            assert_eq!(answer.status(), 200, "{answer:?}");
        }
    }
    let (old, new) = (endpoints[0].count(), endpoints[1].count());
    assert_eq!(old + new, 2000);
    // Five standard deviations (13.4) to either side of a tenth.
    assert!((133..=267).contains(&new), "{new} of 2000 went to the new one");
}

/// The endpoint takes connections and never answers; the deadline of its service ends the wait, not the default of 60
/// s.
#[test]
fn a_service_of_a_split_keeps_its_own_timeouts() {
    let _watchdog = watchdog("a_service_of_a_split_keeps_its_own_timeouts");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (url, other) = (silent.local_addr().unwrap(), &endpoints(1)[0]);
    let proxy = Proxy::start(&format!(
        "{}services:\n  \
           old: {{ endpoints: [ \"http://{url}\" ], timeouts: {{ first_byte: 100ms }}, retry: {{ attempts: 1 }} }}\n  \
           new: {{ endpoints: [ \"{}\" ] }}\n\
         routes:\n  - to: {{ split: [ {{ service: new, weight: 0 }}, {{ service: old }} ] }}\n",
        head(),
        other.url()
    ));
    let answer = ask(&proxy, "/", "");
    assert_eq!(answer.status(), 504, "{answer:?}");
}

#[test]
fn a_split_by_key_keeps_a_key_in_one_service() {
    let _watchdog = watchdog("a_split_by_key_keeps_a_key_in_one_service");
    let endpoints = endpoints(2);
    let proxy = split(&endpoints, ", sticky_by: { cookie: session }");
    let request = |key: usize| ("/".to_owned(), format!("Cookie: session=s{key}\r\n"));
    let first = homes(&proxy, 400, &request);
    assert_eq!(homes(&proxy, 400, &request), first);
    let new = first.values().filter(|home| *home == "b").count();
    // Five standard deviations (6) to either side of a tenth.
    assert!((10..=70).contains(&new), "{new} of 400 keys went to the new one");
}
