use super::*;

#[test]
fn sealed_texts_are_opened_with_every_secret_and_for_their_purpose_only() {
    let secrets = [vec![1; 32], vec![2; 32]];
    let old = Sealer::new(vec![secrets[0].clone()]).unwrap();
    let new = Sealer::new(vec![secrets[1].clone(), secrets[0].clone()]).unwrap();
    let text = old.seal("session", b"hello").unwrap();
    assert_eq!(new.open("session", text.as_bytes()).unwrap(), b"hello");
    assert_eq!(new.open("login", text.as_bytes()), None);
    assert_eq!(old.open("session", new.seal("session", b"x").unwrap().as_bytes()), None);
    assert_ne!(old.seal("session", b"hello"), Some(text.clone()));
    for at in 0..text.len() {
        let mut wrong = text.clone().into_bytes();
        wrong[at] = if wrong[at] == b'A' { b'B' } else { b'A' };
        assert_eq!(new.open("session", &wrong), None, "{at}");
        assert_eq!(new.open("session", &text.as_bytes()[..at]), None, "{at}");
    }
    assert!(Sealer::new(vec![vec![1; 31]]).unwrap_err().contains("32 bytes"));
    assert!(Sealer::new(vec![]).is_err());
}

/// What a browser would have of these.
fn browser(set: &[String]) -> Vec<(String, String)> {
    let pair = |line: &String| {
        let (name, rest) = line.split_once('=').unwrap();
        (name.to_owned(), rest.split(';').next().unwrap().to_owned())
    };
    set.iter().map(pair).filter(|(_, value)| !value.is_empty()).collect()
}

fn joined(name: &str, have: &[(String, String)]) -> Option<(Vec<u8>, usize)> {
    join(name, |name| have.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_bytes()))
}

#[test]
fn large_values_are_split_over_cookies() {
    let cookies = Cookies::new("s", true);
    for length in [1, 3600, 3601, 10_000, 6 * 3600] {
        let value = "v".repeat(length);
        let have = browser(&cookies.keep(&value, 60, 0).unwrap());
        assert_eq!(have.len(), length.div_ceil(3600));
        assert_eq!(joined("__Host-s", &have).unwrap(), (value.into_bytes(), have.len()));
        assert!(have.iter().all(|(name, _)| cookies.has(name.as_bytes())));
        // One that is missing takes all with it.
        assert_eq!(joined("__Host-s", &have[..have.len() - 1]), None);
    }
    assert_eq!(cookies.keep(&"v".repeat(6 * 3600 + 1), 60, 0), None);
    let shrunk = cookies.keep("v", 60, 3).unwrap();
    assert_eq!(shrunk[0], "__Host-s=1.v; Max-Age=60; Path=/; Secure; HttpOnly; SameSite=Lax");
    assert_eq!(shrunk[2], "__Host-s_2=; Max-Age=0; Path=/; Secure; HttpOnly; SameSite=Lax");
    assert_eq!(Cookies::new("s", false).remove(1), ["s=; Max-Age=0; Path=/; HttpOnly; SameSite=Lax"]);
    for wrong in ["", "7.x", "0.x", "x", "-1.x", "99999999999999999999.x", ".x"] {
        assert_eq!(joined("s", &[("s".into(), wrong.into())]), None, "{wrong}");
    }
    assert!(!cookies.has(b"__Host-sx") && !cookies.has(b"__Host-s_x") && !cookies.has(b"s"));
}

#[test]
fn a_login_returns_to_a_place_of_this_host_only() {
    for (to, expected) in [
        ("/a/b?c=d", "/a/b?c=d"),
        ("//evil.test", "/"),
        ("/\\evil.test", "/"),
        ("https://evil.test", "/"),
        ("evil", "/"),
        ("", "/"),
        ("/a\r\nSet-Cookie: x", "/"),
        ("/\tevil", "/"),
        ("/ä", "/"),
        (&format!("/{}", "a".repeat(2048)), "/"),
    ] {
        assert_eq!(safe_target(to), expected, "{to}");
        assert_eq!(Login::begin("p", to, 0).unwrap().to, expected, "{to}");
    }
}

#[test]
fn a_login_is_bound_to_its_cookie_and_ends() {
    let sealer = Sealer::new(vec![vec![7; 32]]).unwrap();
    let login = Login::begin("corp", "/a", 1000).unwrap();
    let cookie = login.seal(&sealer).unwrap();
    assert_eq!(Login::open(&sealer, cookie.as_bytes(), 1000 + LOGIN_LASTS - 1), Some(login.clone()));
    assert_eq!(Login::open(&sealer, cookie.as_bytes(), 1000 + LOGIN_LASTS), None);
    let other = Login::begin("corp", "/a", 1000).unwrap();
    assert!(login.is_answered_by(&login.state) && !login.is_answered_by(&other.state));
    assert!(
        Login::tag(&login.state).is_some() && Login::tag("a").is_none() && Login::tag("a=b;c=d;").is_none()
    );
    // A session is no login.
    let session = session(0, 10).seal(&sealer).unwrap();
    assert_eq!(Login::open(&sealer, session.as_bytes(), 0), None);
    assert_eq!(Session::open(&sealer, cookie.as_bytes()), None);
}

#[test]
fn the_browser_is_sent_with_a_challenge() {
    // RFC 7636 appendix B.
    let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
    let login = Login { verifier, ..Login::begin("corp", "/", 0).unwrap() };
    let metadata = Metadata::read(DOCUMENT.as_bytes(), "https://id.test").unwrap();
    let url = login.url(&metadata, ("my app", "openid email", "https://a.test/cb"), &[("prompt", "login")]);
    assert!(url.starts_with("https://id.test/auth?x=1&response_type=code&client_id=my%20app&redirect_uri=https%3A%2F%2Fa.test%2Fcb"));
    assert!(url.contains(
        "&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256&prompt=login"
    ));
}

const DOCUMENT: &str = r#"{"issuer": "https://id.test", "authorization_endpoint": "https://id.test/auth?x=1",
    "token_endpoint": "https://id.test/token", "jwks_uri": "https://id.test/keys",
    "authorization_response_iss_parameter_supported": true}"#;

#[test]
fn documents_of_providers_are_checked() {
    let read = |text: &str| Metadata::read(text.as_bytes(), "https://id.test");
    assert!(read(DOCUMENT).unwrap().names_itself);
    for (from, to, why) in [
        ("\"https://id.test\"", "\"https://other.test\"", "another issuer"),
        ("https://id.test/token", "http://id.test/token", "`token_endpoint` is without TLS"),
        ("https://id.test/keys", "file:///etc/passwd", "`jwks_uri` is no URL"),
        ("\"authorization_endpoint\"", "\"other\"", "no `authorization_endpoint`"),
        ("\"jwks_uri\"", "\"issuer\"", "a member twice"),
        ("{", "[{", "cannot be read"),
    ] {
        let error = read(&DOCUMENT.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(why), "{why}: {error}");
    }
    let plain = DOCUMENT.replacen("{", r#"{"code_challenge_methods_supported": ["plain"], "#, 1);
    assert!(read(&plain).unwrap_err().contains("S256"));
}

#[test]
fn callbacks_are_read_strictly() {
    let read = |query: &str| Callback::read(query.as_bytes());
    let good = read("state=a%2Fb&code=c+d&iss=https%3A%2F%2Fid.test&session_state=x").unwrap();
    assert_eq!((&*good.state, good.code.as_deref()), ("a/b", Some("c d")));
    assert_eq!(read("state=s&error=access_denied").unwrap().error.as_deref(), Some("access_denied"));
    for wrong in
        ["", "code=c", "state=s", "state=s&state=t&code=c", "state=s&code=c&code=d", "state=s&code=c&error=e"]
    {
        assert_eq!(read(wrong), None, "{wrong}");
    }
    assert_eq!(read(&format!("state=s&code={}", "c".repeat(5000))), None);
    assert_eq!(read("state=%zz&code=c"), None);
    assert_eq!(read("state=%f&code=c"), None);
    assert_eq!(read("state=%ff&code=c"), None);
}

fn session(begun: u64, lasts: u64) -> Session {
    Session {
        provider: "corp".into(),
        id_token: "e30.eyJzdWIiOiJhZGEifQ.x".into(),
        access_token: None,
        refresh_token: Some("r".into()),
        begun,
        renewed: begun,
        ends: begun + lasts,
    }
}

#[test]
fn sessions_come_back_from_their_cookie_and_end() {
    let sealer = Sealer::new(vec![vec![7; 32]]).unwrap();
    let kept = session(1000, 600);
    assert_eq!(Session::open(&sealer, kept.seal(&sealer).unwrap().as_bytes()), Some(kept.clone()));
    assert_eq!(kept.claims().unwrap()["sub"], "ada");
    let longest = 3600;
    for (now, stage) in [
        (1000, Stage::Fresh),
        (1539, Stage::Fresh),
        (1540, Stage::Ending),
        (1600, Stage::Ended),
        (4600, Stage::Over),
    ] {
        assert_eq!(kept.stage(longest, now), stage, "{now}");
    }
    let without = Session { refresh_token: None, ..kept };
    assert_eq!((without.stage(longest, 1599), without.stage(longest, 1600)), (Stage::Fresh, Stage::Over));
}

#[test]
fn requests_of_one_session_share_its_refresh() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (flights, count) = (flights::Flights::default(), Arc::new(AtomicU32::new(0)));
        let now = Instant::now();
        let join = |key: u8, at: Instant, result: Result<Arc<Session>, Failure>| {
            let count = count.clone();
            flights.join([key; 32], at, move || async move {
                count.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                result
            })
        };
        let new = || Ok(Arc::new(session(5, 5)));
        let (one, two) = tokio::join!(join(1, now, new()), join(1, now, new()));
        assert!(one == new() && two == new());
        // Those that come later with the old cookie get the same.
        assert_eq!(join(1, now + Duration::from_secs(59), new()).await, new());
        assert_eq!(count.load(Ordering::Relaxed), 1);
        // What failed is tried again soon.
        let failed = || Err(Failure::Unavailable("down".into()));
        assert_eq!(join(2, now, failed()).await, failed());
        assert_eq!(join(2, now, new()).await, failed());
        assert_eq!(join(2, now + Duration::from_secs(10), new()).await, new());
        // One that nobody waits for goes on.
        drop(tokio::time::timeout(Duration::ZERO, join(3, now, new())).await);
        let before = count.load(Ordering::Relaxed);
        assert_eq!(join(3, now, failed()).await, new());
        assert_eq!(count.load(Ordering::Relaxed), before.max(4));
    });
}
