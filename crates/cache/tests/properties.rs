//! A cache on the decisions of the crate and one that is written from the text of the RFCs do the same, for any
//! sequence of requests, responses and times. They share no code.
#![allow(clippy::unwrap_used, reason = "a test; clippy does not see that its strategies are one too")]

mod model;
mod simulated;

use model::Rules;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use simulated::Outcome;
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};
use thalweg_cache::{
    DefaultLifetime, Forward, Hit, NotStored, Policy, Request, Response, SetCookie, StoredHead, UnixMillis,
};
use thalweg_http::Method;

/// Milliseconds at which each sequence begins, within a second.
const BEGIN: i64 = 1_790_000_000_300;

const RESPONSE_DIRECTIVES: &[&str] = &[
    "max-age=2",
    "max-age=60",
    "MAX-AGE=5",
    "max-age=0",
    "max-age=abc",
    "max-age=\"60\"",
    "max-age=",
    "max-age=-1",
    "max-age =7",
    "max-age=99999999999",
    "s-maxage=3",
    "s-maxage=x",
    "no-store",
    "no-cache",
    "no-cache=\"a\"",
    "private",
    "private=\"a, b\"",
    "private=\"\"",
    "public",
    "public=1",
    "must-revalidate",
    "proxy-revalidate",
    "must-understand",
    "immutable",
    "stale-while-revalidate=4",
    "stale-while-revalidate=0",
    "stale-if-error=10",
    "stale-if-error=x",
    "x=\"no-store, max-age=99\"",
    "y",
    "",
];
/// Ordinary ones: most responses are stored.
const LIFETIMES: &[&str] = &[
    "max-age=2",
    "max-age=60",
    "s-maxage=3, max-age=9",
    "max-age=5, stale-while-revalidate=4",
    "max-age=2, stale-if-error=10",
    "public, max-age=10",
    "max-age=4, no-store, must-understand",
    "max-age=1, stale-while-revalidate=3600",
];
const TARGETED: &[&str] = &[
    "max-age=60",
    "max-age=2, stale-while-revalidate=5",
    "no-store",
    "private",
    "no-cache",
    "MAX-AGE=1",
    "max-age=1, &",
    "",
    "none",
    "max-age=\"60\"",
    "max-age=1, max-age=30",
    "private=\"a\", max-age=9",
    "max-age=5,",
    "public, max-age=3",
];
/// `{n}` stands for the date so many seconds after the response.
const OTHER_FIELDS: &[&str] = &[
    "date: {0}",
    "date: {-7}",
    "date: {5}",
    "date: foo",
    "expires: {10}",
    "expires: {-5}",
    "expires: 0",
    "last-modified: {-1000}",
    "last-modified: {-30}",
    "last-modified: {50}",
    "last-modified: foo",
    "age: 0",
    "age: 3",
    "age: abc",
    "age: 5, 1",
    "age: -1",
    "etag: \"a\"",
    "ETag: \"a\"",
    "etag: \"b\"",
    "etag: W/\"a\"",
    "etag: a",
    "vary: accept",
    "vary: Accept, foo",
    "vary: foo,accept",
    "vary: *",
    "set-cookie: c=d",
    "a: 1",
    "b: 2",
    "connection: a",
    "content-encoding: gzip",
    "location: /b",
    "content-location: http://a.example/a",
    "location: http://b.example/a",
];
const WANTED: &[&str] = &[
    "no-cache",
    "no-store",
    "max-age=0",
    "max-age=3",
    "max-age=x",
    "min-fresh=2",
    "min-fresh=x",
    "max-stale",
    "max-stale=5",
    "max-stale=x",
    "only-if-cached",
    "stale-if-error=10",
    "foo",
];
const REQUEST_FIELDS: &[&str] = &[
    "pragma: no-cache",
    "accept: a",
    "Accept: a,b",
    "accept:  a ,  b",
    "foo: 1",
    "authorization: x",
    "if-none-match: \"a\"",
    "if-none-match: \"z\", W/\"a\"",
    "if-none-match: *",
    "if-modified-since: {-1000}",
    "if-modified-since: {0}",
    "if-modified-since: foo",
];

/// What the service says to the question of a step.
#[derive(Clone, Debug)]
struct Answer {
    confirms: bool,
    status: u16,
    fields: Vec<String>,
    delay: i64,
}

#[derive(Clone, Debug)]
struct Step {
    advance: i64,
    method: &'static str,
    path: &'static str,
    has_body: bool,
    fields: Vec<String>,
    answer: Option<Answer>,
}

/// A subsequence keeps the order of the list; which of two comes first is varied by turning it around.
fn some(of: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<&'static str>> {
    (subsequence(of, 0..=most), any::<bool>()).prop_map(|(mut chosen, turned)| {
        if turned {
            chosen.reverse();
        }
        chosen
    })
}

fn answer() -> impl Strategy<Value = Answer> {
    let control = prop_oneof![
        2 => Just(None),
        3 => some(RESPONSE_DIRECTIVES, 3).prop_map(|directives| Some(directives.join(", "))),
        5 => (select(LIFETIMES), some(RESPONSE_DIRECTIVES, 1))
            .prop_map(|(lifetime, other)| Some([&[lifetime][..], &other].concat().join(","))),
        1 => Just(Some("max-age=60, x=\"y".to_owned())),
    ];
    let target = prop_oneof![5 => Just(None), 1 => select(TARGETED).prop_map(Some)];
    let status = prop_oneof![6 => Just(200), 3 => select(&[203, 204, 299, 301, 302, 404, 500, 503, 599][..])];
    let delay = select(&[0, 0, 0, 100, 700, 1500][..]);
    (any::<bool>(), status, control, target, prop_oneof![some(OTHER_FIELDS, 6), some(OTHER_FIELDS, 2)], delay)
        .prop_map(|(confirms, status, control, target, others, delay)| {
            let control = control.map(|directives| format!("cache-control: {directives}"));
            let target = target.map(|directives| format!("CDN-Cache-Control: {directives}"));
            let others = others.into_iter().map(str::to_owned);
            Answer {
                confirms,
                status,
                fields: control.into_iter().chain(target).chain(others).collect(),
                delay,
            }
        })
}

fn step() -> impl Strategy<Value = Step> {
    let control = prop_oneof![
        8 => Just(None),
        3 => some(WANTED, 2).prop_map(|directives| Some(directives.join(","))),
        1 => Just(Some("only-if-cached, x=\"y".to_owned())),
    ];
    let method = prop_oneof![
        16 => Just("GET"),
        3 => Just("HEAD"),
        1 => select(&["POST", "PUT", "OPTIONS", "M-SEARCH"][..]),
    ];
    (
        select(&[0, 0, 400, 1000, 1600, 3000, 10_000, 100_000, 4_000_000][..]),
        method,
        select(&["/a", "/a", "/a", "/b"][..]),
        prop_oneof![20 => Just(false), 1 => Just(true)],
        (control, some(REQUEST_FIELDS, 2), prop_oneof![20 => Just(None), 1 => Just(Some("if-match: *"))]),
        prop_oneof![8 => answer().prop_map(Some), 1 => Just(None)],
    )
        .prop_map(|(advance, method, path, has_body, (control, others, origin), answer)| {
            let control = control.map(|directives| format!("cache-control: {directives}"));
            let others = others.into_iter().chain(origin).map(str::to_owned);
            Step {
                advance,
                method,
                path,
                has_body,
                fields: control.into_iter().chain(others).collect(),
                answer,
            }
        })
}

fn rules() -> impl Strategy<Value = Rules> {
    (
        prop_oneof![4 => Just(true), 1 => Just(false)],
        prop_oneof![4 => Just(true), 1 => Just(false)],
        any::<bool>(),
        select(&[0, 5, 3600][..]),
        select(&[0, 0, 3][..]),
        select(&[None, Some(4)][..]),
    )
        .prop_map(
            |(honours_clients, uses_target, strips_cookies, unreachable, revalidate, lifetime_of_404)| {
                Rules {
                    honours_clients,
                    uses_target,
                    strips_cookies,
                    stale_when_unreachable: unreachable,
                    stale_while_revalidate: revalidate,
                    lifetime_of_404,
                }
            },
        )
}

fn policy(rules: &Rules) -> Policy {
    let targets = if rules.uses_target { vec!["cdn-cache-control".into()] } else { Vec::new() };
    let lifetime = |seconds: i64| DefaultLifetime { statuses: (404, 404), seconds: seconds as u32 };
    Policy {
        honours_clients: rules.honours_clients,
        targets,
        set_cookie: if rules.strips_cookies { SetCookie::Strip } else { SetCookie::Refuse },
        stale_when_unreachable: rules.stale_when_unreachable as u32,
        stale_while_revalidate: rules.stale_while_revalidate as u32,
        default_lifetimes: rules.lifetime_of_404.map(lifetime).into_iter().collect(),
        ..Policy::default()
    }
}

/// Fields with their dates, as they are at this time.
fn dated(fields: &[String], now: i64) -> Vec<(String, String)> {
    let date = |seconds: &str| {
        let millis = now + seconds.parse::<i64>().unwrap() * 1000;
        httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(millis as u64))
    };
    let pair = |line: &String| {
        let (name, value) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
        let value = match value.strip_prefix('{').and_then(|value| value.strip_suffix('}')) {
            Some(seconds) => date(seconds),
            // A parser takes the whitespace around a value away.
            None => value.trim().to_owned(),
        };
        (name.to_owned(), value)
    };
    fields.iter().map(pair).collect()
}

/// The service's answer: its status, fields and times.
fn told(answer: Option<&Answer>, has_conditions: bool, now: i64) -> Option<model::Told> {
    let answer = answer?;
    let received = now + answer.delay;
    let status = if answer.confirms && has_conditions { 304 } else { answer.status };
    Some(model::Told { status, fields: dated(&answer.fields, received), requested: now, received })
}

fn bytes(fields: &[(String, String)]) -> simulated::Fields {
    fields.iter().map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes())).collect()
}

fn has_conditions(fields: &simulated::Fields) -> bool {
    let is_one = |name: &[u8]| {
        name.eq_ignore_ascii_case(b"if-none-match") || name.eq_ignore_ascii_case(b"if-modified-since")
    };
    fields.iter().any(|(name, _)| is_one(name))
}

/// The fields of an answer but for its age, sorted.
fn shown(fields: &simulated::Fields) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let pair = |(name, value): &(Vec<u8>, Vec<u8>)| (text(name).to_ascii_lowercase(), text(value));
    model::shown(fields.iter().map(pair).filter(|(name, _)| name != "age").collect())
}

/// What the simulated cache does, in the words of the model.
fn simulate(cache: &mut simulated::Simulated, step: &Step, now: i64) -> String {
    let asked = simulated::Asked {
        method: step.method.into(),
        path: step.path.into(),
        query: None,
        fields: bytes(&dated(&step.fields, now)),
        has_body: step.has_body,
    };
    let reply = cache.handle(&asked, UnixMillis(now as u64), &mut |question| {
        let told = told(step.answer.as_ref(), has_conditions(&question.fields), now)?;
        let body = if told.status == 304 || question.method == "HEAD" { "" } else { "0123456789" };
        Some(simulated::Told {
            status: told.status,
            fields: bytes(&told.fields),
            body: body.into(),
            requested: UnixMillis(told.requested as u64),
            received: UnixMillis(told.received as u64),
        })
    });
    let status = reply.status;
    let hit = |how: &str, number: u32, hit: Hit| {
        let Hit { age, is_stale, .. } = hit;
        let fields = shown(&reply.fields);
        format!("{how} {number} age {age} fresh {} status {status} {fields}", !is_stale)
    };
    let word = |why: Forward| why.token();
    match reply.outcome {
        Outcome::Passed => format!("passed {status}"),
        Outcome::Fetched(why) => format!("fetched {} {status}", word(why)),
        Outcome::Served(number, found) if found.refresh => hit("served and fetched again", number, found),
        Outcome::Served(number, found) => hit("served", number, found),
        Outcome::Validated(number, found) => hit("validated", number, found),
        Outcome::Replaced(why) => format!("replaced {} {status}", word(why)),
        Outcome::ServedOnFailure(number, found) => hit("on failure", number, found),
        Outcome::Unavailable => "unavailable".into(),
        Outcome::Failed => "failed".into(),
    }
}

/// Sequences that are tried; `THALWEG_LONG=1` tries fifty times as many.
fn cases() -> u32 {
    if std::env::var("THALWEG_LONG").as_deref() == Ok("1") { 50_000 } else { 1000 }
}

/// A test that always meets the same few decisions proves little.
#[test]
fn sequences_reach_every_decision() {
    const SEQUENCES: usize = 800;
    let mut runner = TestRunner::deterministic();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..SEQUENCES {
        let (rules, steps) = (rules(), vec(step(), 1..16)).new_tree(&mut runner).unwrap().current();
        let mut cache = simulated::Simulated { policy: policy(&rules), ..Default::default() };
        let mut now = BEGIN;
        for step in &steps {
            now += step.advance;
            let found = simulate(&mut cache, step, now);
            now += step.answer.as_ref().map_or(0, |answer| answer.delay);
            // Without numbers, ages and most statuses.
            let is_word = |word: &&str| word.parse::<u32>().is_err() || *word == "304";
            let found = found.split(" [").next().unwrap_or_default();
            *seen.entry(found.split(' ').filter(is_word).collect::<Vec<_>>().join(" ")).or_default() += 1;
        }
    }
    for expected in [
        "served age fresh true status",
        "served age fresh true status 304",
        "served age fresh false status",
        "served and fetched again age fresh false status",
        "validated age fresh true status",
        "validated age fresh false status",
        "on failure age fresh false status",
        "replaced stale",
        "replaced request",
        "fetched uri-miss",
        "fetched vary-miss",
        "passed",
        "unavailable",
        "failed",
    ] {
        let count = seen.get(expected).copied().unwrap_or(0);
        assert!(count >= 3, "{expected}: {count} of {seen:#?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decisions_are_those_of_a_model_written_from_the_rfc(rules in rules(), steps in vec(step(), 1..16)) {
        let mut model = model::Model::new(rules);
        let mut cache = simulated::Simulated { policy: policy(&rules), ..Default::default() };
        let mut now = BEGIN;
        for (number, step) in steps.iter().enumerate() {
            now += step.advance;
            let asked = model::Asked {
                method: step.method.into(),
                path: step.path.into(),
                fields: dated(&step.fields, now),
                has_body: step.has_body,
            };
            let expected = model.handle(&asked, now, &mut |conditional| told(step.answer.as_ref(), conditional, now));
            let found = simulate(&mut cache, step, now);
            prop_assert_eq!(&found, &expected, "at step {}", number + 1);
            prop_assert_eq!(cache.stored, model.stored, "stored at step {}", number + 1);
            now += step.answer.as_ref().map_or(0, |answer| answer.delay);
        }
    }
}

/// Why a response may not be stored at all: its fields are only for the client that caused it, or for no client.
fn is_for_one(policy: &Policy, step: &Step, told: &simulated::Told) -> bool {
    // A 304, or an answer to HEAD, is checked as if it had its body.
    let status = if told.status == 304 { 200 } else { told.status };
    let times = (told.requested, told.received);
    let response = Response::read(policy, status, times, simulated::lines(&told.fields));
    let fields = bytes(&dated(&step.fields, told.received.0 as i64));
    let method = if step.method == "HEAD" { Method::Get } else { Method::from_bytes(step.method.as_bytes()) };
    let request = Request::read(method, step.has_body, simulated::lines(&fields));
    match StoredHead::new(policy, &request, &response, simulated::lines(&told.fields)) {
        Ok(_) => false,
        // These mean that the response is useless later; they do not restrict its audience.
        Err(why) => !matches!(why, NotStored::NotFinal | NotStored::NoLifetime | NotStored::Useless),
    }
}

/// Plays steps, each by a different client. Every response has a field with its number. Gives the numbers of refused
/// responses that a later client has seen.
fn leaked(rules: &Rules, steps: &[Step]) -> (Vec<String>, usize) {
    let mut cache = simulated::Simulated { policy: policy(rules), ..Default::default() };
    let (mut now, mut refused, mut leaks, mut count) = (BEGIN, Vec::new(), Vec::new(), 0);
    for step in steps {
        now += step.advance;
        let asked = simulated::Asked {
            method: step.method.into(),
            path: step.path.into(),
            query: None,
            fields: bytes(&dated(&step.fields, now)),
            has_body: step.has_body,
        };
        let (policy, mut marks) = (cache.policy.clone(), Vec::new());
        let reply = cache.handle(&asked, UnixMillis(now as u64), &mut |question| {
            let told = told(step.answer.as_ref(), has_conditions(&question.fields), now)?;
            count += 1;
            let mut fields = bytes(&told.fields);
            fields.push((b"x-mark".to_vec(), count.to_string().into_bytes()));
            let body = if told.status == 304 || question.method == "HEAD" { "" } else { "0123456789" };
            let told = simulated::Told {
                status: told.status,
                fields,
                body: body.into(),
                requested: UnixMillis(told.requested as u64),
                received: UnixMillis(told.received as u64),
            };
            if is_for_one(&policy, step, &told) {
                marks.push(count.to_string().into_bytes());
            }
            Some(told)
        });
        let is_leak = |value: &[u8]| refused.iter().any(|mark: &Vec<u8>| **mark == *value);
        let seen = reply.fields.iter().filter(|(name, value)| name == b"x-mark" && is_leak(value));
        leaks.extend(seen.map(|(_, value)| String::from_utf8_lossy(value).into_owned()));
        refused.append(&mut marks);
        now += step.answer.as_ref().map_or(0, |answer| answer.delay);
    }
    (leaks, refused.len())
}

/// Guards the property against being vacuous: many responses are refused.
#[test]
fn sequences_have_many_responses_that_are_refused() {
    let mut runner = TestRunner::deterministic();
    let mut refused = 0;
    for _ in 0..200 {
        let (rules, steps) = (rules(), vec(step(), 1..16)).new_tree(&mut runner).unwrap().current();
        refused += leaked(&rules, &steps).1;
    }
    assert!(refused > 200, "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_field_of_a_response_that_was_refused_reaches_a_later_client(
        rules in rules(),
        steps in vec(step(), 1..16),
    ) {
        prop_assert_eq!(leaked(&rules, &steps).0, Vec::<String>::new());
    }
}
