//! Logins with an identity provider: its document, cookies, callbacks, and the paths of the filter.
//!
//! Input: a byte that chooses the check, and bytes. Asserts: an accepted document has the expected issuer and
//! endpoints with TLS; the address of the login has each parameter once, escaped; a value is read back from its
//! cookies; a sealed text opens only with its secret and purpose, and not after a change of one character; a login
//! returns to this host; no request passes the filter without a session; an answer of the filter consists of whole
//! lines.

use std::sync::{Arc, LazyLock};

use crate::filter_side::{Asked, Asking, NOW, ask, filter, lines};
use thalweg_access::oidc::{
    Callback, Client, Cookies, LOGIN_LASTS, Login, Metadata, Provider, Sealer, Session, encoded, join,
    parameters, safe_target,
};
use thalweg_access::{Times, https};
use thalweg_filter::{Filter, ReplyBody, Verdict};
use thalweg_http::HttpUrl;

const ISSUER: &str = "https://id.test";
const SECRET: &str = "a secret of this target, of thirty-two bytes or more";
/// Seals nothing, so that the fuzzer cannot copy a sealed text.
const STRANGE_SECRET: &str = "a secret that seals nothing, of thirty-two bytes";

static FILTER: LazyLock<Arc<dyn Filter>> = LazyLock::new(|| logs_in(SECRET));
static STRANGE_FILTER: LazyLock<Arc<dyn Filter>> = LazyLock::new(|| logs_in(STRANGE_SECRET));
static SEALER: LazyLock<Sealer> = LazyLock::new(|| sealer(SECRET));
static STRANGE: LazyLock<Sealer> = LazyLock::new(|| sealer(STRANGE_SECRET));
/// The numbers of opening and closing tags of the pages for the choice of a provider and for the logout.
static TAGS: LazyLock<[usize; 2]> = LazyLock::new(|| {
    [&b"/.auth/login"[..], b"/.auth/logout"].map(|path| {
        let asking = Asking { method: b"GET", host: b"a.test", path, query: None, cookie: b"" };
        match ask(&**FILTER, &asking).verdict {
            Verdict::Reply(reply) => page(&reply.body).matches('<').count(),
            other => panic!("{other:?}"),
        }
    })
});
/// The mark of the provider `a` in sessions.
static MARK: LazyLock<String> = LazyLock::new(|| {
    let client = Client { id: "c".into(), secret: None, scopes: String::new(), parameters: Vec::new() };
    let time = std::time::Duration::from_secs(60);
    let http = https(None).unwrap_or_else(|why| panic!("{why}"));
    let times = Times { refresh: time, stale: time };
    let provider = Provider::new(("a", &format!("{ISSUER}/a")), client, http, (times, 0), false);
    provider.unwrap_or_else(|why| panic!("{why}")).mark().to_owned()
});

fn logs_in(secret: &str) -> Arc<dyn Filter> {
    let provider = |name: &str| format!(r#""{name}":{{"issuer":"{ISSUER}/{name}","client_id":"c"}}"#);
    filter(&format!(
        r#"{{"auth":{{"oidc":{{"secret":{{"value":"{secret}"}},"providers":{{{},{}}}}}}}}}"#,
        provider("a"),
        provider("b")
    ))
}

fn page(body: &ReplyBody) -> &str {
    match body {
        ReplyBody::Bytes(page) => std::str::from_utf8(page).expect("a page is text"),
        _ => "",
    }
}

fn sealer(secret: &str) -> Sealer {
    Sealer::new(vec![secret.as_bytes().to_vec()]).unwrap_or_else(|why| panic!("{why}"))
}

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else { return };
    match kind % 6 {
        0 => document(bytes),
        1 => cookies(bytes),
        2 => sealed(bytes),
        3 => callback(bytes),
        4 => strangers(bytes),
        _ => session(bytes),
    }
}

fn document(text: &[u8]) {
    let metadata = match Metadata::read(text, ISSUER) {
        Ok(metadata) => metadata,
        Err(why) => return assert!(!why.is_empty()),
    };
    let plain: serde_json::Value = serde_json::from_slice(text).expect("an object");
    assert_eq!((&*metadata.issuer, &plain["issuer"]), (ISSUER, &ISSUER.into()));
    let found = [
        (&metadata.authorization, "authorization_endpoint"),
        (&metadata.token, "token_endpoint"),
        (&metadata.keys, "jwks_uri"),
    ];
    let all = found.into_iter().chain(metadata.end_session.iter().map(|url| (url, "end_session_endpoint")));
    for (url, name) in all {
        assert!(url.tls());
        let written = plain[name].as_str().expect("a text");
        assert_eq!(HttpUrl::parse(written).as_ref(), Ok(url), "{name}");
    }
    let login = Login::begin("p", "/", 0).expect("randomness");
    let redirect = "https://a.test/cb?&=#\r\n";
    let sent = login.url(&metadata, ("id &\r\n", "openid", redirect), &[("prompt", "\r\n&state=x")]);
    assert!(sent.bytes().all(|byte| byte.is_ascii_graphic()), "{sent:?}");
    let own = metadata.authorization.text();
    let added =
        sent.strip_prefix(&own).and_then(|rest| rest.strip_prefix(['?', '&'])).expect("it is appended");
    let added: Vec<_> = parameters(added.as_bytes()).collect();
    assert_eq!(added.len(), 9, "{sent}");
    for (name, value) in [
        ("state", &*login.state),
        ("nonce", &*login.nonce),
        ("redirect_uri", redirect),
        ("prompt", "\r\n&state=x"),
    ] {
        let values: Vec<_> =
            added.iter().filter(|(known, _)| known == name).map(|(_, value)| value).collect();
        assert_eq!(values, [value]);
    }
}

/// A byte for the number of repetitions, and the value, which is also parsed as a browser's cookies.
fn cookies(bytes: &[u8]) {
    let Some((times, value)) = bytes.split_first() else { return };
    let browser: Vec<(&[u8], &[u8])> = value
        .split(|byte| *byte == b';')
        .filter_map(|pair| Some(pair.split_at(pair.iter().position(|byte| *byte == b'=')?)))
        .map(|(name, value)| (name, &value[1..]))
        .collect();
    let sent: usize = browser.iter().map(|(_, value)| value.len()).sum();
    let found =
        join("s", |name| browser.iter().find(|(known, _)| *known == name.as_bytes()).map(|(_, v)| *v));
    assert!(found.is_none_or(|(joined, count)| joined.len() <= sent && (1..=6).contains(&count)));
    // A sealed text has no other characters.
    let text: String =
        value.iter().filter(|byte| byte.is_ascii_alphanumeric()).map(|byte| *byte as char).collect();
    let text = text.repeat(usize::from(*times) + 1);
    for cookies in [Cookies::new("s", true), Cookies::new("s", false)] {
        let Some(set) = cookies.keep(&text, 60, 3) else {
            assert!(text.len() > 6 * 3600);
            continue;
        };
        assert!(set.iter().all(|line| line.ends_with("; HttpOnly; SameSite=Lax") && line.len() < 4096));
        assert!(set.iter().all(|line| line.contains("; Secure;") == cookies.is_secure));
        let kept: Vec<_> = set.iter().map(|line| line.split_once('=').expect("a cookie")).collect();
        assert!(kept.iter().all(|(name, _)| cookies.has(name.as_bytes())));
        let get = |name: &str| kept.iter().find(|(known, _)| *known == name).map(|(_, rest)| rest);
        let joined = join(&cookies.name, |name| Some(get(name)?.split(';').next()?.as_bytes()));
        if !text.is_empty() {
            assert_eq!(joined.map(|(value, _)| value), Some(text.clone().into_bytes()));
        }
    }
}

/// Changes one character of a text; returns whether the text differs.
fn change(text: &mut [u8], [high, low, other]: [u8; 3]) -> bool {
    let place = usize::from(u16::from_be_bytes([high, low])) % text.len();
    std::mem::replace(&mut text[place], other) != other
}

/// Three bytes that choose a character to change, and a plain text.
fn sealed(bytes: &[u8]) {
    for purpose in ["session", "login", "tries"] {
        assert_eq!(STRANGE.open(purpose, bytes), None, "an unsealed text opens");
    }
    assert_eq!((Session::open(&STRANGE, bytes), Login::open(&STRANGE, bytes, 0)), (None, None));
    let Some((place, plain)) = bytes.split_first_chunk::<3>() else { return };
    let mut text = SEALER.seal("session", plain).expect("randomness").into_bytes();
    assert_eq!(SEALER.open("session", &text).as_deref(), Some(plain));
    assert_eq!((SEALER.open("login", &text), STRANGE.open("session", &text)), (None, None));
    let _ = Session::open(&SEALER, &text);
    if change(&mut text, *place) {
        assert_eq!(SEALER.open("session", &text), None, "a changed text opens");
    }
    let login = SEALER.seal("login", plain).expect("randomness");
    if let Some(login) = Login::open(&SEALER, login.as_bytes(), 0) {
        assert_eq!(safe_target(&login.to), login.to);
    }
}

fn callback(bytes: &[u8]) {
    if let Some(callback) = Callback::read(bytes) {
        assert!(callback.code.is_some() != callback.error.is_some());
        let named = |wanted: &str| parameters(bytes).filter(|(name, _)| name == wanted).count();
        assert_eq!((named("state"), named("code") + named("error")), (1, 1));
        let _ = Login::tag(&callback.state);
    }
    let text = String::from_utf8_lossy(bytes);
    let back: Vec<_> = parameters(encoded(&text).as_bytes()).collect();
    assert_eq!(back, [(text.clone().into_owned(), String::new())]);
    let to = safe_target(&text);
    assert!(to == text || to == "/");
    assert!(to.starts_with('/') && !to.starts_with("//") && !to.contains(['\\', '\r', '\n', '\t', ' ']));
    if let Ok(there) = HttpUrl::parse(&format!("https://a.test{to}")) {
        assert_eq!((there.host(), there.target()), ("a.test", to));
    }
    let Some(login) = Login::begin("p", &text, NOW) else { return };
    let cookie = login.seal(&SEALER).expect("randomness");
    assert_eq!(Login::open(&SEALER, cookie.as_bytes(), NOW), Some(login.clone()));
    assert_eq!(Login::open(&SEALER, cookie.as_bytes(), NOW + LOGIN_LASTS), None);
    assert!(login.to == to && !login.is_answered_by(&text));
}

/// A path, a query and cookies, each on a line.
fn strangers(bytes: &[u8]) {
    let mut lines = bytes.splitn(3, |byte| *byte == b'\n');
    let mut next = || lines.next().unwrap_or_default();
    let (path, query, cookie) = (next(), next(), next());
    let is_target = |text: &[u8]| text.iter().all(u8::is_ascii_graphic);
    if !path.starts_with(b"/") || !is_target(path) || !is_target(query) {
        return;
    }
    let asking = Asking { method: b"GET", host: b"a.test", path, query: Some(query), cookie };
    let Asked { verdict, .. } = ask(&**STRANGE_FILTER, &asking);
    check(verdict);
}

fn check(verdict: Verdict) {
    let reply = match verdict {
        Verdict::Continue => panic!("a stranger passes"),
        Verdict::Fault(fault) => return assert!((400..600).contains(&fault.status)),
        // The provider's endpoints are fetched first.
        Verdict::Wait(_) => return,
        Verdict::Reply(reply) => reply,
    };
    let mut places = 0;
    for (name, value) in lines(&reply.fields) {
        match name {
            "Location" => {
                places += 1;
                assert_eq!(safe_target(value), value);
            }
            "Set-Cookie" => {
                assert!(value.starts_with("__Host-thalweg_session") && value.contains("; Secure"))
            }
            _ => assert!(
                ["Cache-Control", "Content-Security-Policy", "Content-Type"].contains(&name),
                "{name}"
            ),
        }
    }
    assert_eq!(places, usize::from(reply.status == 302));
    let page = page(&reply.body);
    assert!(page.is_empty() || TAGS.contains(&page.matches('<').count()), "{page}");
}

/// Three bytes that choose a character to change, then the claims of a session's token.
fn session(bytes: &[u8]) {
    let Some((place, claims)) = bytes.split_first_chunk::<3>() else { return };
    let claims: String = claims.iter().take(512).map(|byte| format!("{byte:02x}")).collect();
    let token = format!("e30.{}.x", base64_of(&format!("{{\"sub\":\"{claims}\"}}")));
    let session = Session {
        provider: MARK.clone(),
        id_token: token,
        access_token: None,
        refresh_token: None,
        begun: NOW,
        renewed: NOW,
        ends: NOW + 60,
    };
    let sealed = session.seal(&SEALER).expect("randomness");
    assert_eq!(Session::open(&SEALER, sealed.as_bytes()), Some(session.clone()));
    let asked = |value: &[u8]| {
        let cookie = [b"a=1; __Host-thalweg_session=", value].concat();
        ask(&**FILTER, &Asking { method: b"GET", host: b"a.test", path: b"/x", query: None, cookie: &cookie })
    };
    let mut value = format!("1.{sealed}").into_bytes();
    let passed = asked(&value);
    assert!(matches!(passed.verdict, Verdict::Continue), "{:?}", passed.verdict);
    assert_eq!(lines(&passed.fields), [("Accept", "text/html"), ("Cookie", "a=1")]);
    if change(&mut value[2..], *place) {
        let verdict = asked(&value).verdict;
        assert!(!matches!(verdict, Verdict::Continue), "a changed session passes");
        check(verdict);
    }
    let foreign = session.seal(&STRANGE).expect("randomness");
    check(asked(format!("1.{foreign}").as_bytes()).verdict);
}

fn base64_of(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
}
