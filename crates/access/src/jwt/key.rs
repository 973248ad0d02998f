//! Keys that verify, and sets of them (JWK, RFC 7517; RFC 7518 §6; RFC 8037).
//!
//! A key knows which algorithms it is for: what a token names never makes a key of one kind serve as one of another.

use super::{Algorithm, object, pem};
use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{self, UnparsedPublicKey};
use aws_lc_rs::{constant_time, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use std::fmt;

/// Most keys of a set.
const KEYS: usize = 128;
/// Shortest modulus of RSA, in bytes (RFC 7518 §3.3).
const MODULUS: usize = 256;
/// Longest modulus of RSA, in bytes: longer ones take too long.
const LONG_MODULUS: usize = 1024;
/// Shortest shared secret, in bytes (RFC 7518 §3.2).
const SECRET: usize = 32;

/// A key.
#[derive(Clone)]
pub struct Key {
    id: Option<Box<str>>,
    /// The only algorithm that it may be used with, where it names one.
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(Clone, Eq, PartialEq)]
pub(super) enum Material {
    /// Modulus and exponent, big-endian, without leading zeros.
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    Ec(Curve, Vec<u8>),
    Ed25519(Vec<u8>),
    Shared(Vec<u8>),
}

#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Curve {
    P256,
    P384,
    P521,
}

impl Curve {
    /// Bytes of a coordinate.
    pub(super) fn size(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }
}

impl Key {
    /// A secret that those who sign share with us.
    ///
    /// # Errors
    /// It is too short, or a public key, with which everybody could sign.
    pub fn shared(secret: &[u8]) -> Result<Self, String> {
        if secret.len() < SECRET {
            return Err(format!(
                "a shared secret must have at least {SECRET} bytes; `openssl rand -hex 32` makes one"
            ));
        }
        let has = |words: &[u8]| secret.windows(words.len()).any(|window| window == words);
        if has(b"-----BEGIN") {
            return Err("the shared secret is a key in PEM; write it under `file`".into());
        }
        Ok(Self { id: None, algorithm: None, material: Material::Shared(secret.to_vec()) })
    }

    /// Public keys and certificates in PEM.
    ///
    /// # Errors
    /// There is none, or one that cannot be used.
    pub fn pem(text: &[u8]) -> Result<Vec<Self>, String> {
        let found = pem::keys(text)?;
        found.into_iter().map(|material| Self { id: None, algorithm: None, material }.checked()).collect()
    }

    /// A key of a set; `Ok(None)`: one that is not for verifying signatures of tokens, or of a kind that is not known.
    fn jwk(jwk: &Map<String, Value>) -> Result<Option<Self>, String> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let operations = jwk.get("key_ops").and_then(Value::as_array);
        if text("use").is_some_and(|what| what != "sig")
            || operations.is_some_and(|list| !list.iter().any(|what| what == "verify"))
        {
            return Ok(None);
        }
        let algorithm = match text("alg").map(Algorithm::named) {
            None => None,
            Some(Some(algorithm)) if !algorithm.is_shared() => Some(algorithm),
            Some(_) => return Ok(None),
        };
        let bytes = |name: &str| {
            let text = text(name).ok_or_else(|| format!("a key without `{name}`"))?;
            URL_SAFE_NO_PAD.decode(text).map_err(|_| format!("a key whose `{name}` is not base64url"))
        };
        let material = match (text("kty"), text("crv")) {
            (Some("RSA"), _) => Material::Rsa { n: trimmed(bytes("n")?), e: trimmed(bytes("e")?) },
            (Some("EC"), Some(curve)) => {
                let curve = match curve {
                    "P-256" => Curve::P256,
                    "P-384" => Curve::P384,
                    "P-521" => Curve::P521,
                    _ => return Ok(None),
                };
                let (x, y) = (bytes("x")?, bytes("y")?);
                if x.len() != curve.size() || y.len() != curve.size() {
                    return Err("a key whose coordinates have a wrong length".into());
                }
                Material::Ec(curve, [&[4][..], &x, &y].concat())
            }
            (Some("OKP"), Some("Ed25519")) => Material::Ed25519(bytes("x")?),
            _ => return Ok(None),
        };
        let id = text("kid").map(Into::into);
        Self { id, algorithm, material }.checked().map(Some)
    }

    fn checked(self) -> Result<Self, String> {
        match &self.material {
            Material::Rsa { n, e } if n.len() < MODULUS || n.len() > LONG_MODULUS || e.is_empty() => {
                Err("an RSA key that has not 2,048 to 8,192 bits".into())
            }
            Material::Ed25519(point) if point.len() != 32 => {
                Err("a key whose coordinates have a wrong length".into())
            }
            _ => Ok(self),
        }
    }

    /// Whether it may be used with this algorithm.
    pub fn fits(&self, algorithm: Algorithm) -> bool {
        use Algorithm as A;
        let is_kind = matches!(
            (&self.material, algorithm),
            (Material::Shared(_), A::Hs256 | A::Hs384 | A::Hs512)
                | (Material::Rsa { .. }, A::Rs256 | A::Rs384 | A::Rs512 | A::Ps256 | A::Ps384 | A::Ps512)
                | (Material::Ec(Curve::P256, _), A::Es256)
                | (Material::Ec(Curve::P384, _), A::Es384)
                | (Material::Ec(Curve::P521, _), A::Es512)
                | (Material::Ed25519(_), A::EdDsa)
        );
        is_kind && self.algorithm.is_none_or(|only| only == algorithm)
    }

    /// Whether this is the signature of the message. A key of another kind verifies nothing.
    pub(super) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        use Algorithm as A;
        if !self.fits(algorithm) {
            return false;
        }
        let rsa = |parameters| match &self.material {
            Material::Rsa { n, e } => {
                PublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok()
            }
            _ => false,
        };
        let point = |how: &'static dyn signature::VerificationAlgorithm| match &self.material {
            Material::Ec(_, point) | Material::Ed25519(point) => {
                UnparsedPublicKey::new(how, point).verify(message, signature).is_ok()
            }
            _ => false,
        };
        let shared = |how| match &self.material {
            Material::Shared(secret) => {
                let expected = hmac::sign(&hmac::Key::new(how, secret), message);
                constant_time::verify_slices_are_equal(expected.as_ref(), signature).is_ok()
            }
            _ => false,
        };
        match algorithm {
            A::Hs256 => shared(hmac::HMAC_SHA256),
            A::Hs384 => shared(hmac::HMAC_SHA384),
            A::Hs512 => shared(hmac::HMAC_SHA512),
            A::Rs256 => rsa(&signature::RSA_PKCS1_2048_8192_SHA256),
            A::Rs384 => rsa(&signature::RSA_PKCS1_2048_8192_SHA384),
            A::Rs512 => rsa(&signature::RSA_PKCS1_2048_8192_SHA512),
            A::Ps256 => rsa(&signature::RSA_PSS_2048_8192_SHA256),
            A::Ps384 => rsa(&signature::RSA_PSS_2048_8192_SHA384),
            A::Ps512 => rsa(&signature::RSA_PSS_2048_8192_SHA512),
            A::Es256 => point(&signature::ECDSA_P256_SHA256_FIXED),
            A::Es384 => point(&signature::ECDSA_P384_SHA384_FIXED),
            A::Es512 => point(&signature::ECDSA_P521_SHA512_FIXED),
            A::EdDsa => point(&signature::ED25519),
        }
    }
}

fn trimmed(mut bytes: Vec<u8>) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.drain(..zeros);
    bytes
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.material {
            Material::Rsa { .. } => "RSA",
            Material::Ec(..) => "EC",
            Material::Ed25519(_) => "Ed25519",
            Material::Shared(_) => "shared",
        };
        write!(f, "{kind} {:?}", self.id)
    }
}

/// Keys, one of which has signed.
#[derive(Clone, Debug, Default)]
pub struct KeySet(Vec<Key>);

impl KeySet {
    /// These.
    pub fn new(keys: Vec<Key>) -> Self {
        Self(keys)
    }

    /// Reads a set as providers publish it (RFC 7517 §5). Keys for other purposes, of unknown kinds and broken ones are
    /// left out, and so are shared secrets, which nobody publishes.
    ///
    /// # Errors
    /// It is no set, or there is no key in it that can be used.
    pub fn jwks(text: &[u8]) -> Result<Self, String> {
        let set = object(text).map_err(|why| format!("it has {why}"))?;
        let Some(Value::Array(list)) = set.get("keys") else {
            return Err("it is no set of keys: it has no list `keys`".into());
        };
        if list.len() > KEYS {
            return Err(format!("it has more than {KEYS} keys"));
        }
        let (mut keys, mut flaw) = (Vec::new(), None);
        for jwk in list {
            let Value::Object(jwk) = jwk else { return Err("it has a key that is no object".into()) };
            match Key::jwk(jwk) {
                Ok(key) => keys.extend(key),
                Err(why) => flaw = Some(why),
            }
        }
        match (keys.is_empty(), flaw) {
            (false, _) => Ok(Self(keys)),
            (true, None) => Err("it has no key that can verify a token".into()),
            (true, Some(why)) => Err(format!("it has {why}")),
        }
    }

    /// The keys that fit an algorithm and a `kid`. A token without one may be signed with any key; a key without one
    /// may have signed any token.
    pub fn candidates(&self, algorithm: Algorithm, id: Option<&str>) -> impl Iterator<Item = &Key> {
        self.0.iter().filter(move |key| {
            let is_named = match (&key.id, id) {
                (Some(own), Some(wanted)) => **own == *wanted,
                _ => true,
            };
            is_named && key.fits(algorithm)
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them may be used with this algorithm.
    pub fn fit(&self, algorithm: Algorithm) -> bool {
        self.0.iter().any(|key| key.fits(algorithm))
    }
}
