use super::*;
use crate::tests::{Asked, Beside, built};
use crate::{Call, Job, Work};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt as _;
use std::cell::Cell;
use std::time::{Duration, Instant};
use thalweg_core::{Fault, FaultKind};

/// The hash of `U*U`, and of `password`.
const BCRYPT: &str = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
const ARGON2: &str = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";

fn try_auth(json: &str) -> Result<Arc<dyn Filter>, String> {
    let json = json.replace("BASIC", &format!(r#"{{"users": {{"ada": "{BCRYPT}", "zoë": "{ARGON2}"}}}}"#));
    built::<AuthSpec>(&json).build(&Beside(std::env::temp_dir()))
}

fn auth(json: &str) -> Arc<dyn Filter> {
    try_auth(json).unwrap()
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

/// The status of the refusal; 0: the request goes on.
fn status(verdict: &Verdict) -> u16 {
    match verdict {
        Verdict::Continue => 0,
        Verdict::Fault(fault) => fault.status,
        other => panic!("{other:?}"),
    }
}

fn ask(filter: &dyn Filter, authorization: &str) -> (u16, Asked) {
    let mut asked = Asked::at("/").with("Authorization", authorization);
    let verdict = asked.send_through(filter);
    (status(&verdict), asked)
}

fn challenges(asked: &Asked) -> String {
    String::from_utf8(asked.outcome.fault_fields.clone()).unwrap()
}

#[test]
fn users_with_their_password_pass_and_are_told_to_the_service() {
    let filter = auth(r#"{"basic": BASIC, "forward": {"X-User": "{user}", "X-Plan": "{claim.plan}"}}"#);
    for (user, password) in [("ada", "U*U"), ("zoë", "password")] {
        // The second time without a check.
        for _ in 0..2 {
            let (status, asked) = ask(&*filter, &basic(user, password));
            assert_eq!((status, asked.request_lines()), (0, format!("X-User: {user}\r\n")));
            assert_eq!(asked.outcome.identity.unwrap().method, "basic");
        }
    }
    let mut asked = Asked::at("/").with("Authorization", &basic("ada", "U*U"));
    assert!(matches!(asked.send(&*filter), Verdict::Continue), "it is remembered");
    let kept = auth(r#"{"basic": BASIC, "keep_credentials": true}"#);
    assert!(ask(&*kept, &basic("ada", "U*U")).1.request_lines().starts_with("Authorization: Basic "));
}

#[test]
fn what_clients_say_of_themselves_is_removed_from_every_request() {
    let filter = auth(r#"{"basic": BASIC, "dry_run": true, "forward": {"X-User": "{user}"}}"#);
    let forged = || {
        let asked = Asked::at("/").with("X-User", "root").with("x_user", "root").with("X-USER", "root");
        asked.with("X.User", "root").with("X-Users", "stays")
    };
    let mut asked = forged();
    assert!(matches!(asked.send_through(&*filter), Verdict::Continue));
    assert_eq!(asked.request_lines(), "X-Users: stays\r\n");
    let mut asked = forged().with("Authorization", &basic("ada", "U*U"));
    asked.send_through(&*filter);
    assert_eq!(asked.request_lines(), "X-Users: stays\r\nX-User: ada\r\n");
}

#[test]
fn those_without_a_right_credential_are_asked_for_one_and_the_operator_is_told_why() {
    let filter = auth(r#"{"basic": BASIC, "realm": "a \"shop\""}"#);
    for (authorization, reason) in [
        (basic("ada", "wrong"), "basic: a wrong password for `ada`"),
        (basic("bob", "U*U"), "basic: an unknown user"),
        (basic("", ""), "basic: an unknown user"),
        ("Bearer abc".into(), "no credential (basic)"),
        ("Basic".into(), "basic: a malformed Authorization"),
        ("Basic ".into(), "basic: a malformed Authorization"),
        ("Basic\tYTpi".into(), "basic: a malformed Authorization"),
        ("Basic YTpi YTpi".into(), "basic: a malformed Authorization"),
        ("Basic !!!!".into(), "basic: malformed user and password"),
        ("Basic YWRh".into(), "basic: malformed user and password"),
        (format!("Basic {}", STANDARD.encode(b"a\0da:U*U")), "basic: malformed user and password"),
        (format!("Basic {}", STANDARD.encode(b"ada\xff:U*U")), "basic: malformed user and password"),
        (basic("ada", &"x".repeat(1025)), "basic: malformed user and password"),
        (basic(&"x".repeat(257), "x"), "basic: malformed user and password"),
        (format!("Basic {}", "A".repeat(1024 * 1024)), "basic: a malformed Authorization"),
        ("".into(), "no credential (basic)"),
    ] {
        let (status, asked) = ask(&*filter, &authorization);
        assert_eq!(status, 401, "{reason}");
        assert_eq!(asked.outcome.reason.as_deref(), Some(reason));
        let expected = "WWW-Authenticate: Basic realm=\"a \\\"shop\\\"\", charset=\"UTF-8\"\r\n";
        assert_eq!(challenges(&asked), expected);
        assert!(asked.outcome.identity.is_none());
    }
    // The case of the scheme is nothing, and neither are more spaces and missing padding.
    let sent = basic("ada", "U*U").replace("Basic ", "bAsIc   ").replace('=', "");
    assert_eq!(ask(&*filter, &sent).0, 0);
    let mut twice =
        Asked::at("/").with("Authorization", &basic("ada", "U*U")).with("authorization", "Basic x");
    assert_eq!(status(&twice.send_through(&*filter)), 400);
}

#[test]
fn any_takes_the_first_that_knows_the_client_and_all_needs_each() {
    let any = auth(r#"{"any": [{"network": "10.0.0.0/8"}, {"basic": BASIC}]}"#);
    let all = auth(r#"{"all": [{"basic": BASIC}, {"network": ["10.0.0.0/8", "192.0.2.7"]}]}"#);
    for (client, password, by_any, by_all) in [
        ("10.1.1.1", "", 0, 401),
        ("10.1.1.1", "U*U", 0, 0),
        ("192.0.2.1", "", 401, 401),
        ("192.0.2.1", "U*U", 0, 401),
        ("192.0.2.1", "wrong", 401, 401),
        ("192.0.2.7", "U*U", 0, 0),
    ] {
        for (filter, expected) in [(&any, by_any), (&all, by_all)] {
            let mut asked = Asked::at("/");
            asked.client_ip = client.parse().unwrap();
            if !password.is_empty() {
                asked = asked.with("Authorization", &basic("ada", password));
            }
            let verdict = asked.send_through(&**filter);
            assert_eq!(status(&verdict), expected, "{client} {password} {}", filter.argument());
            assert_eq!(asked.outcome.identity.is_some(), expected == 0);
            assert!(expected != 0 || asked.request_lines().is_empty(), "credentials do not go on");
        }
    }
}

/// Waits as often as it says, at each place of a list, and then knows a client.
#[derive(Debug)]
struct Slow(u32, &'static str);

impl Method for Slow {
    fn name(&self) -> &'static str {
        self.1
    }

    fn argument(&self) -> String {
        String::new()
    }

    fn check(&self, cx: &mut RequestCx<'_>) -> Finding {
        cx.remember(self.0);
        Finding::Wait(Job::Sleep(Duration::ZERO))
    }

    fn resume(&self, cx: &mut RequestCx<'_>, got: JobResult) -> Finding {
        assert!(matches!(got, JobResult::Slept));
        match (cx.recall::<u32>(), self.1) {
            (Some(0), "absent") => Finding::Absent,
            (Some(0), "refused") => Finding::refused(403, "no", "no"),
            (Some(0), name) => {
                let mut identity = Identity::new("slow", name);
                identity.scopes.push(name.into());
                Finding::Verified(identity)
            }
            (Some(left), _) => {
                cx.remember(left - 1);
                Finding::Wait(Job::Sleep(Duration::ZERO))
            }
            (None, _) => panic!("what was remembered is gone"),
        }
    }

    fn strip(&self, cx: &mut RequestCx<'_>) {
        cx.fields.append("stripped", self.1.as_bytes());
    }
}

fn slow(needs: Needs, names: &[&'static str]) -> Auth {
    let slow = |(at, name): (usize, &&'static str)| Arc::new(Slow(at as u32 % 3, name)) as Arc<dyn Method>;
    Auth {
        methods: names.iter().enumerate().map(slow).collect(),
        needs,
        require: None,
        forward: Forward::new(&BTreeMap::new()).unwrap(),
        keeps_credentials: false,
        realm: "r".into(),
        is_dry: false,
        upkeep: Mutex::default(),
    }
}

#[test]
fn methods_wait_in_every_position_and_remember_for_themselves() {
    for (needs, names, expected) in [
        (Needs::Any, &["absent", "absent", "a", "b"][..], Ok("a")),
        (Needs::Any, &["absent", "absent"], Err(401)),
        (Needs::Any, &["absent", "refused", "a"], Err(403)),
        (Needs::All, &["a", "b", "c", "d"], Ok("a b c d")),
        (Needs::All, &["a", "absent", "c"], Err(401)),
        (Needs::All, &["a", "b", "refused"], Err(403)),
    ] {
        let mut asked = Asked::at("/");
        let verdict = asked.send_through(&slow(needs, names));
        match expected {
            Ok(scopes) => {
                assert_eq!(status(&verdict), 0, "{names:?}");
                let identity = asked.outcome.identity.as_ref().unwrap();
                assert_eq!((&*identity.user, identity.scopes.join(" ").as_str()), ("a", scopes));
                assert_eq!(asked.request_lines().matches("stripped").count(), names.len());
            }
            Err(code) => {
                assert_eq!(status(&verdict), code, "{names:?}");
                assert!(asked.outcome.identity.is_none());
            }
        }
    }
}

#[test]
fn those_who_are_known_and_lack_something_get_403() {
    for (require, user, expected) in [
        (r#"{"users": "ada"}"#, "ada", 0),
        (r#"{"users": ["bob", "zoë"]}"#, "ada", 403),
        (r#"{"scopes": "read"}"#, "ada", 403),
        (r#"{"claims": {"plan": "gold"}}"#, "ada", 403),
    ] {
        let filter = auth(&format!(r#"{{"basic": BASIC, "require": {require}}}"#));
        let (status, asked) = ask(&*filter, &basic(user, "U*U"));
        assert_eq!(status, expected, "{require}");
        assert_eq!(&*asked.outcome.identity.as_ref().unwrap().user, user, "the log says who it was");
        assert_eq!(challenges(&asked), "");
        assert_eq!(asked.outcome.reason.is_some(), expected != 0);
    }
    let require: RequireSpec =
        built(r#"{"scopes": ["a", "b"], "claims": {"plan": ["gold", "silver"], "groups": "x", "n": "7"}}"#);
    let require = require.build().unwrap();
    let with = |scopes: &[&str], claims: &str| {
        let scopes = scopes.iter().map(ToString::to_string).collect();
        let identity =
            Identity { scopes, claims: serde_json::from_str(claims).unwrap(), ..Identity::default() };
        require.lacking(&identity)
    };
    assert_eq!(with(&["b", "a"], r#"{"plan": "gold", "groups": ["y", "x"], "n": 7}"#), None);
    assert!(with(&["a"], r#"{"plan": "gold", "groups": ["x"], "n": 7}"#).unwrap().contains("scope `b`"));
    assert!(with(&["a", "b"], r#"{"plan": "free", "groups": ["x"], "n": 7}"#).unwrap().contains("`plan`"));
    assert!(
        with(&["a", "b"], r#"{"plan": "gold", "groups": ["y x"], "n": 7}"#).unwrap().contains("`groups`")
    );
}

#[test]
fn a_dry_run_of_the_filter_lets_all_pass_and_says_why_not() {
    let filter = auth(r#"{"basic": BASIC, "dry_run": true, "require": {"users": "zoë"}}"#);
    for (authorization, reason) in [
        (basic("zoë", "password"), None),
        (basic("ada", "U*U"), Some("would not pass: the client is none of the users that may")),
        (basic("ada", "x"), Some("would not pass: basic: a wrong password for `ada`")),
        ("Digest x".into(), Some("would not pass: no credential (basic)")),
    ] {
        let (status, asked) = ask(&*filter, &authorization);
        assert_eq!((status, asked.outcome.reason.as_deref()), (0, reason));
        assert_eq!(challenges(&asked), "");
    }
}

#[test]
fn a_question_of_what_would_happen_checks_no_password() {
    let filter = auth(r#"{"basic": BASIC}"#);
    for (user, password, expected) in [("ada", "whatever", 0), ("bob", "whatever", 401)] {
        let mut asked = Asked::at("/").with("Authorization", &basic(user, password));
        asked.is_dry_run = true;
        assert_eq!(status(&asked.send_through(&*filter)), expected);
        asked = Asked::at("/").with("Authorization", &basic(user, password));
        assert!(matches!(asked.send(&*filter), Verdict::Wait(_)), "and remembers none");
    }
}

/// The mistake: strangers with many wrong passwords take all places for checks, and nobody else can log in.
#[test]
fn clients_of_one_network_have_a_share_of_the_places_for_checks() {
    let filter = auth(r#"{"basic": BASIC}"#);
    let tries = Cell::new(0);
    let from = |client: &str| {
        tries.set(tries.get() + 1);
        let mut asked =
            Asked::at("/").with("Authorization", &basic("nobody", &format!("wrong {}", tries.get())));
        asked.client_ip = client.parse().unwrap();
        (asked.send(&*filter), asked)
    };
    let waits = |verdict: &Verdict| matches!(verdict, Verdict::Wait(_));
    let mut held: Vec<Verdict> = (0..16).map(|at| from(&format!("2001:db8:0:1::{at}")).0).collect();
    assert!(held.iter().all(waits));
    let (refused, asked) = from("2001:db8:0:1:ffff::9");
    assert_eq!((status(&refused), challenges(&asked)), (429, "Retry-After: 1\r\n".to_owned()));
    assert!(waits(&from("2001:db8:0:2::1").0) && waits(&from("192.0.2.7").0), "others have their own share");
    held.pop();
    assert!(waits(&from("2001:db8:0:1::1").0), "a place is free again");
}

/// The mistake: a page opens twenty connections with the right password, and four of them get 429.
#[test]
fn the_same_login_of_many_at_once_is_checked_once() {
    let filter = auth(r#"{"basic": BASIC}"#);
    for (password, expected) in [("wrong", 401), ("U*U", 0)] {
        let from = |client: &str| {
            let mut asked = Asked::at("/").with("Authorization", &basic("ada", password));
            asked.client_ip = client.parse().unwrap();
            (asked.send(&*filter), asked)
        };
        let (first, mut asked) = from("198.51.100.1");
        let Verdict::Wait(Job::Call(Call { work: Work::Blocking(check), .. })) = first else {
            panic!("{first:?}")
        };
        let mut others: Vec<_> = (0..256).map(|_| from("198.51.100.1")).collect();
        let (refused, challenged) = from("198.51.100.1");
        assert_eq!((status(&refused), challenges(&challenged)), (429, "Retry-After: 1\r\n".to_owned()));
        others.push(from("198.51.100.2"));
        let got = JobResult::Called(Ok(check()));
        assert_eq!(status(&asked.call(|cx| filter.resume(cx, got))), expected);
        for (verdict, mut asked) in others {
            let Verdict::Wait(Job::Call(Call { work: Work::Future(other), .. })) = verdict else {
                panic!("{verdict:?}")
            };
            let got = JobResult::Called(Ok(other.now_or_never().unwrap()));
            assert_eq!(status(&asked.call(|cx| filter.resume(cx, got))), expected);
        }
        assert_eq!(matches!(from("198.51.100.1").0, Verdict::Wait(_)), expected == 401);
    }
}

/// The mistake: the one whose password is checked cannot be, and those who wait for that are let in or wait on.
#[test]
fn those_who_wait_for_a_check_that_is_given_up_are_told() {
    let filter = auth(r#"{"basic": BASIC}"#);
    let send = || {
        let mut asked = Asked::at("/").with("Authorization", &basic("ada", "U*U"));
        (asked.send(&*filter), asked)
    };
    let first = send();
    let (other, mut asked) = send();
    drop(first);
    let Verdict::Wait(Job::Call(Call { work: Work::Future(other), .. })) = other else { panic!("{other:?}") };
    let got = JobResult::Called(Ok(other.now_or_never().unwrap()));
    let verdict = asked.call(|cx| filter.resume(cx, got));
    let Verdict::Fault(fault) = verdict else { panic!("{verdict:?}") };
    assert_eq!(fault.kind, FaultKind::ConnectionLimitReached);
}

/// The mistake: every five minutes, all clients wait for a check.
#[test]
fn a_login_is_checked_again_by_one_before_its_time_is_over() {
    let filter = auth(r#"{"basic": BASIC}"#);
    let begin = Instant::now();
    let at = |second: u64| {
        let mut asked = Asked::at("/").with("Authorization", &basic("ada", "U*U"));
        asked.now = Some(begin + Duration::from_secs(second));
        (asked.send(&*filter), asked)
    };
    let (Verdict::Wait(Job::Call(Call { work: Work::Blocking(check), .. })), _) = at(0) else { panic!() };
    drop(check());
    assert!(matches!(at(260).0, Verdict::Continue));
    let (one, mut asked) = at(280);
    assert!(matches!(one, Verdict::Wait(_)));
    assert!(matches!(at(280).0, Verdict::Continue), "and the others do not wait");
    // No thread has had time: it was right lately.
    let full = JobResult::Called(Err(Fault::new(FaultKind::ConnectionLimitReached, "full")));
    assert!(matches!(asked.call(|cx| filter.resume(cx, full)), Verdict::Continue));
    drop(one);
    assert!(matches!(at(400).0, Verdict::Wait(_)));
}

#[test]
fn a_login_outlives_a_reload_unless_its_password_was_changed() {
    let before = auth(r#"{"basic": BASIC}"#);
    assert_eq!(ask(&*before, &basic("ada", "U*U")).0, 0);
    let (same, changed) = (auth(r#"{"basic": BASIC}"#), {
        let json = format!(r#"{{"basic": {{"users": {{"ada": "{ARGON2}"}}}}}}"#);
        auth(&json)
    });
    for (after, waits) in [(same, false), (changed, true)] {
        after.adopt(&*before);
        after.adopt(&*before);
        let mut asked = Asked::at("/").with("Authorization", &basic("ada", "U*U"));
        assert_eq!(matches!(asked.send(&*after), Verdict::Wait(_)), waits);
    }
}

#[test]
fn a_file_of_users_is_read_again_and_its_logins_are_those_of_its_users() {
    let name = format!("thalweg-htpasswd-{}", std::process::id());
    let path = std::env::temp_dir().join(&name);
    std::fs::write(&path, format!("ada:{BCRYPT}\n")).unwrap();
    let filter = auth(&format!(r#"{{"basic": {{"file": "{name}"}}}}"#));
    assert_eq!(filter.argument(), format!("basic (users of {name}, remembered for 5m)"));
    assert!(filter.upkeep().is_some());
    assert_eq!(ask(&*filter, &basic("ada", "U*U")).0, 0);
    std::fs::write(&path, "ada:hunter2\n").unwrap();
    let bad = try_auth(&format!(r#"{{"basic": {{"file": "{name}"}}}}"#)).unwrap_err();
    assert!(bad.contains("line 1: the hash of `ada` is missing") && bad.contains("htpasswd -B"), "{bad}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn arguments_that_are_wrong_are_refused_and_secrets_are_not_shown() {
    for (json, part) in [
        (r#"{}"#, "`auth` has no method; write one of `basic`"),
        (r#"{"any": []}"#, "from 1 to 16 methods"),
        (r#"{"basic": BASIC, "any": [{"basic": BASIC}]}"#, "takes one method"),
        (r#"{"basic": BASIC, "network": "10.0.0.0/8"}"#, "takes one method"),
        (r#"{"any": [{"network": "10.0.0.0/8"}], "all": [{"network": "10.0.0.0/8"}]}"#, "takes one method"),
        (r#"{"network": "10.0.0.0/99"}"#, "not a network"),
        (r#"{"basic": {}}"#, "has no users"),
        (r#"{"basic": {"users": {"ada": "hunter2"}}}"#, "never written as it is"),
        (r#"{"basic": {"file": "/nowhere", "users": {"a": "b"}}}"#, "not both"),
        (r#"{"basic": {"file": "/nowhere"}}"#, "cannot read the file"),
        (r#"{"basic": BASIC, "realm": "ä"}"#, "ASCII"),
        (r#"{"basic": BASIC, "forward": {"Host": "{user}"}}"#, "the proxy's own"),
        (r#"{"basic": BASIC, "forward": {"X-User": "{nobody}"}}"#, "no placeholder"),
        (r#"{"basic": BASIC, "forward": {"X-User": "a", "x_user": "b"}}"#, "the same field"),
        (r#"{"basic": BASIC, "require": {}}"#, "requires nothing"),
        (r#"{"basic": BASIC, "require": {"scopes": []}}"#, "from 1 to 1024"),
    ] {
        let error = try_auth(json).unwrap_err();
        assert!(error.contains(part), "{json}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    let filter = auth(r#"{"basic": BASIC, "forward": {"X-User": "{user}"}, "require": {"users": "ada"}}"#);
    assert_eq!(
        filter.argument(),
        "basic (2 users, 84295f0d, remembered for 5m), requires user ada, forwards X-User: {user}"
    );
    let json = format!(r#"{{"basic": {{"users": {{"ada": "{BCRYPT}"}}}}}}"#);
    let shown = format!("{:?} {:?}", built::<AuthSpec>(&json), auth(&json));
    assert!(!shown.contains("CCCC"), "{shown}");
}
