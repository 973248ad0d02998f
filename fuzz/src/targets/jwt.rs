//! Signed tokens (JWT), sets of keys (JWK) and keys in PEM.
//!
//! Input: a byte that chooses the check, and a text: an unsigned token; claims, which are signed here; a set of keys;
//! keys in PEM. Asserts: only a token signed with one of the keys is accepted, and it is refused with one of its
//! characters changed, under another key, or with the public key as an HMAC secret; the claims of an accepted token
//! satisfy the rules to a plain reader too; published keys are bounded in number and verify no HMAC.

use std::sync::LazyLock;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use thalweg_access::jwt::{Algorithm, Flaw, Key, KeySet, Rules, TOKEN, Token, unverified, verify};

const NOW: u64 = 1_800_000_000;
const LEEWAY: u64 = 30;
const ISSUER: &str = "https://id.test";
const AUDIENCE: &str = "api";
/// Signs and verifies.
const SECRET: &[u8] = b"a secret of this target, of thirty-two bytes or more";
/// Verifies and never signs, so that the fuzzer cannot copy a signature.
const OTHER_SECRET: &[u8] = b"another secret that signs nothing, of thirty-two bytes or more";
/// Public keys whose private keys are gone.
const PUBLISHED: &str = "{\"keys\":[{\"kty\":\"RSA\",\"kid\":\"rsa\",\"e\":\"AQAB\",\"n\":\"\
     vqbQ6o3IR--kZtDD3e4WZR-gc1-4I3u94YgjXmIJmwKvlQRqjkv2MKZvB5BmdBqYYr45cI2r-gTRX-xvYvTICM8mVvI3m894\
     IxhM9pI86nnPHaA7hNqC7hljEZZu6qlmrPGvbY7hAxg5B3u9Gh4KlWw9rQ_Q0lum_r88LBOwcKs4QHHx9bwO_oFnmYgo9zlL\
     FzPo7kZndJsYZXW-Q1SQ0RiMdSOzFyqzqFoRMpTtNuYs2xlklOOxUXXHIn3qIMTv6tf-qfe6vnbHxENnn-zgIAm1fj7biqul\
     P3LkW3Ko1OWDBiREkHnynRzVLVqLUg7VuVSJd30K6EPt4u5WOgBlIw\"},\
    {\"kty\":\"EC\",\"kid\":\"ec\",\"crv\":\"P-256\",\"x\":\"huSUR-oos538O7_hcYJKTQuR6r3dDs1eKYFT1RGSbkI\",\
     \"y\":\"tfmD48MLjFDmwoNSmIUONtv_ym5JKXRha1tyoCzUyOM\"},\
    {\"kty\":\"OKP\",\"kid\":\"ed\",\"crv\":\"Ed25519\",\"x\":\"ojQZ5lz7d2q8qDyDfsDlYOR7yLeqEP9LDQawqVaq3ng\"}]}";

static SHARED: LazyLock<KeySet> = LazyLock::new(|| shared(SECRET));
static OTHER: LazyLock<KeySet> = LazyLock::new(|| shared(OTHER_SECRET));
static PUBLIC: LazyLock<KeySet> = LazyLock::new(|| set(PUBLISHED.as_bytes()));

fn shared(secret: &[u8]) -> KeySet {
    KeySet::new(vec![Key::shared(secret).unwrap_or_else(|why| panic!("{why}"))])
}

fn set(text: &[u8]) -> KeySet {
    KeySet::jwks(text).unwrap_or_else(|why| panic!("{why}"))
}

/// Rules that allow every algorithm: the keys alone decide.
fn rules(required: &[&str]) -> Rules {
    Rules {
        algorithms: Algorithm::ALL.map(|(_, algorithm)| algorithm).to_vec(),
        issuers: vec![ISSUER.into()],
        audiences: vec![AUDIENCE.into()],
        leeway: LEEWAY,
        required: required.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// Rules without requirements.
fn no_rules() -> Rules {
    Rules { issuers: Vec::new(), audiences: Vec::new(), ..rules(&[]) }
}

/// Checks one input.
pub(super) fn fuzz(input: &[u8]) {
    let Some((kind, text)) = input.split_first() else { return };
    match kind % 4 {
        0 => token(text),
        1 => claims(text),
        2 => published(text),
        _ => pem(text),
    }
}

fn is_accepted(token: &[u8], keys: &KeySet, rules: &Rules) -> bool {
    Token::read(token).is_ok_and(|token| verify(&token, keys, rules, NOW).is_ok())
}

fn token(text: &[u8]) {
    for keys in [&*OTHER, &*PUBLIC, &KeySet::default()] {
        assert!(!is_accepted(text, keys, &no_rules()), "an unsigned token is accepted");
    }
    let token = match Token::read(text) {
        Ok(token) => token,
        Err(flaw) => return assert!(!flaw.reason().is_empty()),
    };
    let _ = unverified(&token, &rules(&["exp"]), NOW);
    let parts: Vec<_> = text.split(|byte| *byte == b'.').collect();
    assert!(text.len() <= TOKEN && parts.len() == 3);
    let head = URL_SAFE_NO_PAD.decode(parts[0]).expect("the head is base64url");
    let head: Map<String, Value> = serde_json::from_slice(&head).expect("the head is an object");
    let named = head["alg"].as_str().expect("an algorithm");
    assert!(named == token.algorithm.to_string() || named == "Ed25519", "{named}");
    assert_eq!(head.get("kid").and_then(Value::as_str), token.key_id.as_deref());
    assert!(!head.contains_key("crit"));
}

/// The token of a head and claims, with an HMAC.
fn signed(head: &str, claims: &[u8], secret: &[u8]) -> Vec<u8> {
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(head), URL_SAFE_NO_PAD.encode(claims));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag.as_ref())).into_bytes()
}

/// Three bytes that choose a character to change, and claims.
fn claims(bytes: &[u8]) {
    let Some(([high, low, other], claims)) = bytes.split_first_chunk::<3>() else { return };
    let head = r#"{"alg":"HS256","typ":"JWT"}"#;
    let text = signed(head, claims, SECRET);
    let rules = rules(&["exp", "sub"]);
    let verdict = Token::read(&text).and_then(|token| verify(&token, &SHARED, &rules, NOW));
    match verdict {
        Ok(verified) => {
            let plain: Map<String, Value> = serde_json::from_slice(claims).expect("an object");
            assert_eq!(plain, verified.claims);
            assert!(is_allowed(&plain), "{plain:?}");
            assert!(verified.ends > NOW);
        }
        Err(flaw) => assert_ne!(flaw, Flaw::Signature),
    }
    let mut changed = text.clone();
    let place = usize::from(u16::from_be_bytes([*high, *low])) % text.len();
    changed[place] = *other;
    assert!(changed == text || !is_accepted(&changed, &SHARED, &no_rules()), "a changed token is accepted");
    for keys in [&*OTHER, &*PUBLIC] {
        assert!(!is_accepted(&text, keys, &no_rules()), "another key verifies it");
    }
    // The public keys are no secret.
    for public in [PUBLISHED.as_bytes(), &PUBLISHED.as_bytes()[9..]] {
        for head in [head, r#"{"alg":"HS256","kid":"rsa"}"#] {
            assert!(!is_accepted(&signed(head, claims, public), &PUBLIC, &no_rules()));
        }
    }
}

/// The rules, applied by a plain reader.
fn is_allowed(claims: &Map<String, Value>) -> bool {
    let time = |name: &str| claims.get(name).map(|time| time.as_f64().unwrap_or(f64::NAN));
    let (now, leeway) = (NOW as f64, LEEWAY as f64);
    let is_for_us = match &claims["aud"] {
        Value::Array(list) => list.iter().any(|one| one == AUDIENCE),
        one => one == AUDIENCE,
    };
    // Fractions of a second are cut off.
    time("exp").is_some_and(|time| time + leeway > now)
        && ["nbf", "iat"].iter().all(|name| time(name).is_none_or(|time| time < now + leeway + 1.0))
        && claims["iss"] == ISSUER
        && claims["sub"].is_string()
        && is_for_us
}

fn published(text: &[u8]) {
    let keys = match KeySet::jwks(text) {
        Ok(keys) => keys,
        Err(why) => return assert!(!why.is_empty()),
    };
    assert!((1..=128).contains(&keys.len()));
    for (name, algorithm) in Algorithm::ALL {
        assert!(!(algorithm.is_shared() && keys.fit(algorithm)), "a published key verifies {name}");
        assert_eq!(keys.candidates(algorithm, None).next().is_some(), keys.fit(algorithm));
        let named = keys.candidates(algorithm, Some("rsa")).count();
        assert!(named <= keys.candidates(algorithm, None).count());
        // Zeros are not a valid signature for any key.
        for length in [64, 96, 132, 256] {
            let head = format!("{{\"alg\":\"{name}\"}}");
            let message = format!("{}.e30", URL_SAFE_NO_PAD.encode(head));
            let zeros = format!("{message}.{}", URL_SAFE_NO_PAD.encode(vec![0; length]));
            let is_weak = algorithm == Algorithm::EdDsa;
            assert!(is_weak || !is_accepted(zeros.as_bytes(), &keys, &no_rules()), "{name}");
        }
    }
    assert!(!is_accepted(&signed(r#"{"alg":"HS256"}"#, b"{}", text), &keys, &no_rules()));
}

fn pem(text: &[u8]) {
    let keys = match Key::pem(text) {
        Ok(keys) => keys,
        Err(why) => return assert!(!why.is_empty()),
    };
    assert!((1..=128).contains(&keys.len()));
    let shared = Algorithm::ALL.into_iter().filter(|(_, algorithm)| algorithm.is_shared());
    for (_, algorithm) in shared {
        assert!(keys.iter().all(|key| !key.fits(algorithm)));
    }
    assert!(!is_accepted(&signed(r#"{"alg":"HS256"}"#, b"{}", text), &KeySet::new(keys), &no_rules()));
}
