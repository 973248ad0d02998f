//! Against a provider that behaves badly: what it does is stated to the client and to the operator, and nobody gets in.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use thalweg_tests::upstream::ok;
use thalweg_tests::{Message, Proxy, Upstream};

use super::super::watchdog;
use super::browser::Browser;

/// What the provider does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mood {
    Good,
    WrongNonce,
    WrongAudience,
    WrongParty,
    WrongIssuer,
    Expired,
    Unsigned,
    OtherKey,
    NoToken,
    KeysDown,
    KeysHuge,
    KeysWrong,
    TokenRefused,
    TokenHtml,
    TokenHuge,
    TokenSlow,
    OtherDocument,
    PlainPkce,
}

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn answer(status: &str, body: &str) -> Option<Vec<u8>> {
    Some(format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

/// The token for a code, which is the nonce of the login.
fn token(mood: Mood, issuer: &str, code: &str, key: &Ed25519KeyPair) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let mut claims =
        json!({ "iss": issuer, "sub": "ada", "aud": "shop", "iat": now, "exp": now + 300, "nonce": code });
    match mood {
        Mood::WrongNonce => claims["nonce"] = "another".into(),
        Mood::WrongAudience => claims["aud"] = json!(["shop2"]),
        Mood::WrongParty => (claims["aud"], claims["azp"]) = (json!(["shop", "shop2"]), "shop2".into()),
        Mood::WrongIssuer => claims["iss"] = "http://127.0.0.1:1".into(),
        Mood::Expired => claims["exp"] = (now - 3600).into(),
        _ => {}
    }
    let head = if mood == Mood::Unsigned { r#"{"alg":"none"}"# } else { r#"{"alg":"EdDSA","kid":"k"}"# };
    let message = format!("{}.{}", b64(head), b64(claims.to_string()));
    let other = Ed25519KeyPair::generate().unwrap();
    let signature = match mood {
        Mood::Unsigned => String::new(),
        Mood::OtherKey => b64(other.sign(message.as_bytes()).as_ref()),
        _ => b64(key.sign(message.as_bytes()).as_ref()),
    };
    format!("{message}.{signature}")
}

fn provide(mood: Mood, key: &Ed25519KeyPair, request: &Message) -> Option<Vec<u8>> {
    let issuer = format!("http://{}", request.value("host").unwrap());
    let code = request.text();
    let code = code.split('&').find_map(|pair| pair.strip_prefix("code=")).unwrap_or_default();
    match (request.target(), mood) {
        ("/.well-known/openid-configuration", _) => {
            let named = if mood == Mood::OtherDocument { "http://evil.test" } else { &issuer };
            let challenge = if mood == Mood::PlainPkce { "plain" } else { "S256" };
            let document = json!({
                "issuer": named, "authorization_endpoint": format!("{issuer}/authorize"),
                "token_endpoint": format!("{issuer}/token"), "jwks_uri": format!("{issuer}/keys"),
                "code_challenge_methods_supported": [challenge],
            });
            answer("200 OK", &document.to_string())
        }
        ("/keys", Mood::KeysDown) => answer("503 Service Unavailable", ""),
        ("/keys", Mood::KeysHuge) => answer("200 OK", &" ".repeat(300 * 1024)),
        ("/keys", Mood::KeysWrong) => answer("200 OK", "<html>"),
        ("/keys", _) => {
            let jwk =
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": "k", "x": b64(key.public_key().as_ref()) });
            answer("200 OK", &json!({ "keys": [jwk] }).to_string())
        }
        ("/token", Mood::TokenRefused) => answer("400 Bad Request", r#"{"error":"invalid_grant"}"#),
        ("/token", Mood::TokenHtml) => answer("200 OK", "<html>"),
        ("/token", Mood::TokenHuge) => answer("200 OK", &" ".repeat(300 * 1024)),
        ("/token", Mood::TokenSlow) => {
            // Longer than the proxy waits; nothing waits for this.
            thread::sleep(Duration::from_secs(20));
            None
        }
        ("/token", Mood::NoToken) => answer("200 OK", r#"{"access_token":"a","expires_in":60}"#),
        ("/token", _) => {
            let body: Value = json!({ "id_token": token(mood, &issuer, code, key), "expires_in": 60 });
            answer("200 OK", &body.to_string())
        }
        _ => answer("404 Not Found", ""),
    }
}

fn proxy(provider: &Upstream, service: &Upstream) -> Proxy {
    Proxy::start(&format!(
        "access_log: {{ format: json, path: \"{{log}}\" }}\n\
         listeners: {{ web: {{ address: \"127.0.0.1:0\" }} }}\n\
         services: {{ s: {{ endpoints: \"{}\" }} }}\n\
         routes: [ {{ to: s, filters: [ {{ auth: {{ oidc: {{\n\
         \x20 providers: {{ bad: {{ issuer: \"{}\", client_id: shop, allow_http: true }} }},\n\
         \x20 secret: {{ value: \"0123456789abcdef0123456789abcdef\" }} }} }} }} ] }} ]\n\
         shutdown: {{ delay: 0s, grace: 5s }}\n",
        service.url(),
        provider.url()
    ))
}

/// A value of a query.
fn parameter(url: &str, name: &str) -> String {
    let query = url.split('?').nth(1).unwrap_or_else(|| panic!("{url}"));
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{url}")).1.to_owned()
}

/// What becomes of a login: the status in the end, and the last reason in the log.
fn log_in(mood: Mood) -> (u16, String) {
    let key = Arc::new(Ed25519KeyPair::generate().unwrap());
    let provider = Upstream::start(move |request: &Message| provide(mood, &key, request));
    let service = Upstream::start(|_: &Message| Some(ok("in")));
    let proxy = proxy(&provider, &service);
    let site: SocketAddr = proxy.web();
    let mut browser = Browser::default();
    let first = browser.ask("GET", &format!("http://{site}/"), "Accept: text/html\r\n", "");
    let status = match first.value("location") {
        None => first.status(),
        Some(there) => {
            let (state, nonce) = (parameter(there, "state"), parameter(there, "nonce"));
            let callback = format!("http://{site}/.auth/callback?state={state}&code={nonce}");
            browser.load(&callback).1.status()
        }
    };
    let log = proxy.stop().log;
    // Two workers may have served the requests: their lines are in no order.
    let of_callback = |line: &&Value| line["path"].as_str().is_some_and(|path| path.starts_with("/.auth/"));
    let (callback, others): (Vec<_>, Vec<_>) = log.iter().partition(of_callback);
    let reason = callback.into_iter().chain(others).find_map(|line| line["reason"].as_str());
    let reason = reason.unwrap_or_default().to_owned();
    assert!(mood == Mood::Good || service.served() == 0, "{mood:?} lets in");
    (status, reason)
}

#[test]
fn nobody_gets_in_by_a_provider_that_behaves_badly() {
    let _watchdog = watchdog("nobody_gets_in_by_a_provider_that_behaves_badly");
    let table = [
        (Mood::Good, 200, "oidc: no session"),
        (Mood::WrongNonce, 403, "oidc: the token answers another login"),
        (Mood::WrongAudience, 403, "oidc: the token is for another audience"),
        (Mood::WrongParty, 403, "oidc: the token is for another audience"),
        (Mood::WrongIssuer, 403, "oidc: the token is from another issuer"),
        (Mood::Expired, 403, "oidc: the token expired"),
        (Mood::Unsigned, 403, "oidc: the token names no algorithm"),
        (Mood::OtherKey, 403, "oidc: the token's signature is wrong"),
        (Mood::NoToken, 503, "oidc: the provider gave no `id_token`"),
        (Mood::KeysDown, 503, "answers 503"),
        (Mood::KeysHuge, 503, "larger than 262144 bytes"),
        (Mood::KeysWrong, 503, "cannot be used"),
        (Mood::TokenRefused, 403, "answers 400 invalid_grant"),
        (Mood::TokenHtml, 503, "answers with"),
        (Mood::TokenHuge, 503, "larger than 262144 bytes"),
        (Mood::TokenSlow, 503, "no answer within 5s"),
        (Mood::OtherDocument, 503, "names another issuer"),
        (Mood::PlainPkce, 503, "PKCE"),
    ];
    thread::scope(|scope| {
        for (mood, status, why) in table {
            scope.spawn(move || {
                let (got, reason) = log_in(mood);
                assert!(got == status && reason.contains(why), "{mood:?}: {got} {reason}");
            });
        }
    });
}
