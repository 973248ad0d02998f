//! Tokens of every kind that must not pass, and some that must.

use super::*;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RSA_PSS_SHA256, RsaKeyPair,
};
use aws_lc_rs::{encoding::AsDer as _, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use std::sync::LazyLock;

pub(crate) const NOW: u64 = 1_800_000_000;
const SECRET: &[u8] = b"a secret of thirty-two bytes or more";

pub(crate) fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Somebody who signs.
pub(crate) struct Signers {
    pub(crate) rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
    ed: Ed25519KeyPair,
}

pub(crate) static SIGNERS: LazyLock<Signers> = LazyLock::new(|| Signers {
    rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
    ec: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
    ed: Ed25519KeyPair::generate().unwrap(),
});

impl Signers {
    /// The public keys, as a provider publishes them.
    pub(crate) fn jwks(&self) -> Value {
        use x509_parser::prelude::FromDer as _;
        let point = self.ec.public_key().as_ref();
        let rsa = x509_parser::public_key::RSAPublicKey::from_der(self.rsa.public_key().as_ref()).unwrap().1;
        let n = b64(rsa.modulus.strip_prefix(&[0]).unwrap_or(rsa.modulus));
        json!({ "keys": [
            { "kty": "oct", "kid": "shared", "k": b64(SECRET) },
            { "kty": "RSA", "kid": "old", "use": "enc", "n": n, "e": "AQAB" },
            { "kty": "RSA", "kid": "rsa", "use": "sig", "x5u": "http://127.0.0.1/never",
              "n": n, "e": b64(rsa.exponent) },
            { "kty": "EC", "kid": "ec", "crv": "P-256", "x": b64(&point[1..33]), "y": b64(&point[33..]) },
            { "kty": "OKP", "kid": "ed", "crv": "Ed25519", "x": b64(self.ed.public_key().as_ref()) },
            { "kty": "AKP", "kid": "new", "alg": "ML-DSA-44", "pub": "AA" },
        ]})
    }

    /// The public key of RSA in PEM.
    fn rsa_pem(&self) -> String {
        let der: aws_lc_rs::encoding::PublicKeyX509Der<'_> = self.rsa.public_key().as_der().unwrap();
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der.as_ref()))
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        let rsa = |how: &'static dyn aws_lc_rs::signature::RsaEncoding| {
            let mut signature = vec![0; self.rsa.public_modulus_len()];
            self.rsa.sign(how, &random, message, &mut signature).unwrap();
            signature
        };
        match algorithm {
            "RS256" => rsa(&RSA_PKCS1_SHA256),
            "PS256" => rsa(&RSA_PSS_SHA256),
            "ES256" => self.ec.sign(&random, message).unwrap().as_ref().to_vec(),
            "EdDSA" => self.ed.sign(message).as_ref().to_vec(),
            _ => shared(SECRET, message),
        }
    }
}

fn shared(secret: &[u8], message: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message).as_ref().to_vec()
}

/// A token as it is signed; head and claims as text, so that they may be wrong.
pub(crate) fn signed(head: &str, claims: &str) -> String {
    let algorithm = serde_json::from_str::<Value>(head).ok();
    let algorithm = algorithm.and_then(|head| Some(head.get("alg")?.as_str()?.to_owned()));
    let message = format!("{}.{}", b64(head), b64(claims));
    let signature = SIGNERS.sign(algorithm.as_deref().unwrap_or("RS256"), message.as_bytes());
    format!("{message}.{}", b64(signature))
}

pub(crate) const HEAD: &str = r#"{"alg":"RS256","kid":"rsa","typ":"JWT"}"#;

pub(crate) fn claims(change: impl FnOnce(&mut Value)) -> String {
    let mut claims = json!({ "iss": "https://id.test", "sub": "ada", "aud": ["api", "other"], "exp": NOW + 60, "iat": NOW - 60 });
    change(&mut claims);
    claims.to_string()
}

pub(crate) fn rules() -> Rules {
    use Algorithm as A;
    Rules {
        algorithms: vec![A::Rs256, A::Ps256, A::Es256, A::EdDsa],
        issuers: vec!["https://id.test".into()],
        audiences: vec!["api".into()],
        leeway: 30,
        required: vec!["exp".into()],
    }
}

fn keys() -> KeySet {
    KeySet::jwks(SIGNERS.jwks().to_string().as_bytes()).unwrap()
}

fn verdict(token: &[u8], keys: &KeySet, rules: &Rules) -> Result<Arc<Verified>, Flaw> {
    verify(&Token::read(token)?, keys, rules, NOW)
}

#[test]
fn tokens_pass_that_a_known_key_has_signed() {
    assert_eq!(keys().len(), 3);
    for head in [
        HEAD,
        r#"{"alg":"RS256"}"#,
        r#"{"alg":"PS256","kid":"rsa"}"#,
        r#"{"alg":"ES256","kid":"ec"}"#,
        r#"{"alg":"EdDSA","kid":"ed"}"#,
    ] {
        let token = signed(head, &claims(|_| {}));
        let verified = verdict(token.as_bytes(), &keys(), &rules()).unwrap();
        assert_eq!((&verified.claims["sub"], verified.ends), (&json!("ada"), NOW + 90), "{head}");
    }
    let pem = KeySet::new(Key::pem(SIGNERS.rsa_pem().as_bytes()).unwrap());
    verdict(signed(HEAD, &claims(|_| {})).as_bytes(), &pem, &rules()).unwrap();
    let secret = KeySet::new(vec![Key::shared(SECRET).unwrap()]);
    let rules = Rules { algorithms: vec![Algorithm::Hs256], ..rules() };
    verdict(signed(r#"{"alg":"HS256"}"#, &claims(|_| {})).as_bytes(), &secret, &rules).unwrap();
}

#[test]
fn the_example_of_rfc_7515_is_verified() {
    // RFC 7515 appendix A.1: HS256, with the key and the token that stand there.
    let secret = URL_SAFE_NO_PAD
        .decode("AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow");
    let token = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0\
                 dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    let keys = KeySet::new(vec![Key::shared(&secret.unwrap()).unwrap()]);
    let rules = Rules { algorithms: vec![Algorithm::Hs256], issuers: vec!["joe".into()], ..rules() };
    let rules = Rules { audiences: vec![], ..rules };
    let token = Token::read(token.as_bytes()).unwrap();
    assert_eq!(verify(&token, &keys, &rules, 1_300_819_379).unwrap().claims["iss"], "joe");
    assert_eq!(verify(&token, &keys, &rules, 1_300_819_410), Err(Flaw::Expired(30)));
}

/// A token with a head, whose signature is as its `alg` says.
fn with_head(head: &str) -> Vec<u8> {
    signed(head, &claims(|_| {})).into_bytes()
}

/// A token with other claims, signed as it should be.
fn with_claims(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    signed(HEAD, &claims(change)).into_bytes()
}

/// A token with a part replaced after it was signed.
fn with_part(at: usize, part: &str) -> Vec<u8> {
    let token = signed(HEAD, &claims(|_| {}));
    let mut parts: Vec<&str> = token.split('.').collect();
    parts[at] = part;
    parts.join(".").into_bytes()
}

/// What it is, a token, and why it proves nothing.
type Hostile = (&'static str, Vec<u8>, Flaw);

fn json_flaw(why: &'static str) -> Flaw {
    Flaw::Json(why)
}

fn unreadable() -> Flaw {
    Flaw::Json("JSON that cannot be read")
}

/// Of the issue: tokens that strangers send.
fn hostile() -> Vec<Hostile> {
    [hostile_forms(), hostile_algorithms(), hostile_keys(), hostile_signatures(), hostile_claims()].concat()
}

fn hostile_forms() -> Vec<Hostile> {
    let good = signed(HEAD, &claims(|_| {}));
    let padded = good.split('.').map(|part| URL_SAFE.encode(URL_SAFE_NO_PAD.decode(part).unwrap()));
    vec![
        ("empty", b"".to_vec(), Flaw::Form),
        ("one part", b"abc".to_vec(), Flaw::Form),
        ("two dots only", b"..".to_vec(), unreadable()),
        ("five parts, an encrypted token", b"a.b.c.d.e".to_vec(), Flaw::Form),
        ("base64 with padding", padded.collect::<Vec<_>>().join(".").into_bytes(), Flaw::Base64),
        ("base64 with a line break", format!("{good}\n").into_bytes(), Flaw::Base64),
        ("bits behind the end of base64", with_part(2, "AB"), Flaw::Base64),
        ("the standard alphabet", with_part(2, "+/+/"), Flaw::Base64),
        ("bytes that are no text", b"\xff\xfe.\x00.a".to_vec(), Flaw::Base64),
        ("a token in a token", signed(HEAD, &good).into_bytes(), unreadable()),
        ("1 MB", vec![b'a'; 1 << 20], Flaw::TooLong),
        ("16 KB and one byte", vec![b'.'; TOKEN + 1], Flaw::TooLong),
    ]
}

fn hostile_algorithms() -> Vec<Hostile> {
    use Algorithm as A;
    let confused = {
        // The public key, which everybody has, as the secret of an HMAC.
        let message = format!("{}.{}", b64(r#"{"alg":"HS256","kid":"rsa"}"#), b64(claims(|_| {})));
        let signature = shared(SIGNERS.rsa_pem().as_bytes(), message.as_bytes());
        format!("{message}.{}", b64(signature)).into_bytes()
    };
    let none =
        |alg: &str| format!("{}.{}.", b64(format!(r#"{{"alg":"{alg}"}}"#)), b64(claims(|_| {}))).into_bytes();
    vec![
        ("alg none", none("none"), Flaw::NoAlgorithm),
        ("alg None", none("None"), Flaw::NoAlgorithm),
        ("alg NONE with a signature", with_part(0, &b64(r#"{"alg":"NONE"}"#)), Flaw::NoAlgorithm),
        ("no alg", with_head(r#"{"kid":"rsa"}"#), Flaw::NoAlgorithm),
        ("alg null", with_head(r#"{"alg":null}"#), Flaw::NoAlgorithm),
        ("alg a list", with_head(r#"{"alg":["RS256"]}"#), Flaw::NoAlgorithm),
        ("alg in lower case", with_head(r#"{"alg":"rs256"}"#), Flaw::NoAlgorithm),
        ("alg twice", with_head(r#"{"alg":"RS256","alg":"none"}"#), json_flaw("a member twice")),
        ("RS/HS confusion", confused, Flaw::Algorithm(A::Hs256)),
        (
            "HS256 with a secret of the set",
            with_head(r#"{"alg":"HS256","kid":"shared"}"#),
            Flaw::Algorithm(A::Hs256),
        ),
        (
            "an algorithm that is not allowed",
            with_head(r#"{"alg":"RS512","kid":"rsa"}"#),
            Flaw::Algorithm(A::Rs512),
        ),
    ]
}

fn hostile_keys() -> Vec<Hostile> {
    vec![
        ("RS256 with the key of a curve", with_head(r#"{"alg":"RS256","kid":"ec"}"#), Flaw::UnknownKey),
        ("ES256 with the key of RSA", with_head(r#"{"alg":"ES256","kid":"rsa"}"#), Flaw::UnknownKey),
        ("a key for encryption", with_head(r#"{"alg":"RS256","kid":"old"}"#), Flaw::UnknownKey),
        ("unknown kid", with_head(r#"{"alg":"RS256","kid":"x"}"#), Flaw::UnknownKey),
        ("kid that is a path", with_head(r#"{"alg":"RS256","kid":"../../dev/null"}"#), Flaw::UnknownKey),
        ("kid that is SQL", with_head(r#"{"alg":"RS256","kid":"' OR 1=1 --"}"#), Flaw::UnknownKey),
        (
            "kid that is a number",
            with_head(r#"{"alg":"RS256","kid":1}"#),
            Flaw::Head("the token's `kid` is no short text"),
        ),
        (
            "kid of 1 KB",
            with_head(&format!(r#"{{"alg":"RS256","kid":"{}"}}"#, "k".repeat(1024))),
            Flaw::Head("the token's `kid` is no short text"),
        ),
        (
            "crit",
            with_head(r#"{"alg":"RS256","kid":"rsa","crit":["b64"],"b64":false}"#),
            Flaw::Head("the token's head has extensions that must be understood (`crit`)"),
        ),
        (
            "compressed",
            with_head(r#"{"alg":"RS256","kid":"rsa","zip":"DEF"}"#),
            Flaw::Head("the token is encrypted or compressed, which is not supported"),
        ),
        (
            "a key in the head that signed it",
            {
                let own = Ed25519KeyPair::generate().unwrap();
                let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": b64(own.public_key().as_ref()) });
                let head = json!({ "alg": "EdDSA", "jwk": jwk, "jku": "https://evil.test/jwks", "x5u": "https://evil.test/c" });
                let message = format!("{}.{}", b64(head.to_string()), b64(claims(|_| {})));
                format!("{message}.{}", b64(own.sign(message.as_bytes()).as_ref())).into_bytes()
            },
            Flaw::Signature,
        ),
    ]
}

fn hostile_signatures() -> Vec<Hostile> {
    let der_signature = {
        let message = format!("{}.{}", b64(r#"{"alg":"ES256","kid":"ec"}"#), b64(claims(|_| {})));
        format!("{message}.{}", b64([&[0x30, 0x44][..], &[0; 68]].concat())).into_bytes()
    };
    let zeros = format!("{}.{}.{}", b64(r#"{"alg":"ES256","kid":"ec"}"#), b64(claims(|_| {})), b64([0; 64]));
    vec![
        ("no signature", with_part(2, ""), Flaw::Signature),
        ("half a signature", with_part(2, &b64([1; 128])), Flaw::Signature),
        ("a signature in DER", der_signature, Flaw::Signature),
        ("a signature of zeros (CVE-2022-21449)", zeros.into_bytes(), Flaw::Signature),
        (
            "other claims than were signed",
            with_part(1, &b64(claims(|it| it["sub"] = "root".into()))),
            Flaw::Signature,
        ),
    ]
}

fn hostile_claims() -> Vec<Hostile> {
    vec![
        ("claims that are a list", signed(HEAD, "[]").into_bytes(), json_flaw("no object where one must be")),
        ("claims that are text", signed(HEAD, "root").into_bytes(), unreadable()),
        (
            "a claim twice",
            signed(HEAD, r#"{"sub":"ada","exp":1900000000,"sub":"root"}"#).into_bytes(),
            json_flaw("a member twice"),
        ),
        (
            "nested 5,000 deep",
            signed(HEAD, &format!("{{\"a\":{}{}}}", "[".repeat(5000), "]".repeat(5000))).into_bytes(),
            json_flaw("objects too deep"),
        ),
        ("expired", with_claims(|it| it["exp"] = (NOW - 31).into()), Flaw::Expired(31)),
        (
            "no exp",
            with_claims(|it| drop(it.as_object_mut().unwrap().remove("exp"))),
            Flaw::Missing("exp".into()),
        ),
        ("exp null", with_claims(|it| it["exp"] = Value::Null), Flaw::Missing("exp".into())),
        ("exp a text", with_claims(|it| it["exp"] = "1900000000".into()), Flaw::Type("exp")),
        ("exp below zero", with_claims(|it| it["exp"] = (-1).into()), Flaw::Type("exp")),
        ("exp in milliseconds of a far year", with_claims(|it| it["exp"] = 1e300.into()), Flaw::Type("exp")),
        ("not yet", with_claims(|it| it["nbf"] = (NOW + 31).into()), Flaw::NotYet(31)),
        ("issued in the future", with_claims(|it| it["iat"] = (NOW + 31).into()), Flaw::FromTheFuture(31)),
        ("another issuer", with_claims(|it| it["iss"] = "https://id.test.evil".into()), Flaw::Issuer),
        ("a list of issuers", with_claims(|it| it["iss"] = json!(["https://id.test"])), Flaw::Type("iss")),
        ("another audience", with_claims(|it| it["aud"] = "apis".into()), Flaw::Audience),
        ("no audience", with_claims(|it| it["aud"] = json!([])), Flaw::Audience),
        ("an audience that is not text", with_claims(|it| it["aud"] = json!(["api", 1])), Flaw::Type("aud")),
        ("a subject that is not text", with_claims(|it| it["sub"] = json!({ "a": 1 })), Flaw::Type("sub")),
    ]
}

#[test]
fn hostile_tokens_prove_nothing() {
    let (keys, rules) = (keys(), rules());
    let hostile = hostile();
    assert!(hostile.len() >= 40);
    for (what, token, flaw) in hostile {
        assert_eq!(verdict(&token, &keys, &rules), Err(flaw), "{what}");
    }
}

#[test]
fn every_token_that_is_one_bit_off_proves_nothing() {
    let (keys, rules) = (keys(), rules());
    let token = signed(r#"{"alg":"EdDSA","kid":"ed"}"#, &claims(|_| {})).into_bytes();
    for at in 0..token.len() {
        let mut wrong = token.clone();
        wrong[at] ^= 1;
        assert!(verdict(&wrong, &keys, &rules).is_err(), "{at}");
    }
}

#[test]
fn clocks_may_differ_by_the_leeway() {
    for change in [
        |it: &mut Value| it["exp"] = (NOW - 29).into(),
        |it: &mut Value| it["nbf"] = (NOW + 30).into(),
        |it: &mut Value| it["iat"] = (NOW as f64 + 29.9).into(),
    ] {
        verdict(&with_claims(change), &keys(), &rules()).unwrap();
    }
}

#[test]
fn keys_that_cannot_be_used_are_refused_or_left_out() {
    assert!(Key::shared(b"short").unwrap_err().contains("32 bytes"));
    assert!(Key::shared(SIGNERS.rsa_pem().as_bytes()).unwrap_err().contains("PEM"));
    assert!(Key::pem(b"nothing").unwrap_err().contains("no public key"));
    let private = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert!(Key::pem(private.as_bytes()).unwrap_err().contains("private key"));
    for (set, why) in [
        ("[]", "no object"),
        ("{}", "no set of keys"),
        (r#"{"keys": []}"#, "no key that can verify"),
        (r#"{"keys": [1]}"#, "no object"),
        (r#"{"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}]}"#, "2,048"),
        (r#"{"keys": [{"kty": "EC", "crv": "P-256", "x": "AQAB", "y": "AQAB"}]}"#, "wrong length"),
        (r#"{"keys": [{"kty": "EC", "crv": "secp256k1", "x": "AQAB", "y": "AQAB"}]}"#, "no key"),
        (r#"{"keys": [{"kty": "oct", "k": "AQAB"}]}"#, "no key"),
    ] {
        let error = KeySet::jwks(set.as_bytes()).unwrap_err();
        assert!(error.contains(why), "{set}: {error}");
    }
    let many = json!({ "keys": vec![json!({}); 129] }).to_string();
    assert!(KeySet::jwks(many.as_bytes()).unwrap_err().contains("more than 128"));
    // A broken key takes no other with it.
    let mut mixed = SIGNERS.jwks();
    mixed["keys"][0] = json!({ "kty": "RSA", "n": "!", "e": "AQAB" });
    assert_eq!(KeySet::jwks(mixed.to_string().as_bytes()).unwrap().len(), 3);
}
