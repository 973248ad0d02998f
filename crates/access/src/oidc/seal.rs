//! Texts that only those with the secret can read or make: AES-256-GCM, each under a key of its own that HKDF-SHA256
//! (RFC 5869) makes of the secret and a random salt, so that any number of them may be made by any number of replicas.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fmt;

/// Shortest secret, in bytes.
const SECRET: usize = 32;
/// Most secrets.
const SECRETS: usize = 8;
/// Of the form below.
const VERSION: u8 = 1;
const SALT: usize = 16;
const KEY: usize = 32;

/// Seals with its first secret and opens with each.
#[derive(Clone)]
pub struct Sealer(Vec<Box<[u8]>>);

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl Sealer {
    /// With these secrets, the first of which is the one in use.
    ///
    /// # Errors
    /// There is none, or one that is too short.
    pub fn new(secrets: Vec<Vec<u8>>) -> Result<Self, String> {
        if secrets.is_empty() || secrets.len() > SECRETS {
            return Err(format!("there must be from 1 to {SECRETS} secrets"));
        }
        if secrets.iter().any(|secret| secret.len() < SECRET) {
            return Err(format!(
                "a secret of sessions must have at least {SECRET} bytes; `openssl rand -hex 32` makes one"
            ));
        }
        Ok(Self(secrets.into_iter().map(Vec::into_boxed_slice).collect()))
    }

    /// A text that can only be opened for the same purpose. `None`: there is no randomness, and nothing can be sealed.
    pub fn seal(&self, purpose: &str, plain: &[u8]) -> Option<String> {
        let mut text = vec![0; 1 + SALT];
        text[0] = VERSION;
        rand::fill(&mut text[1..]).ok()?;
        let (key, nonce) = key(self.0.first()?, &text[1..], purpose)?;
        let mut sealed = plain.to_vec();
        key.seal_in_place_append_tag(nonce, Aad::from(purpose.as_bytes()), &mut sealed).ok()?;
        text.extend_from_slice(&sealed);
        Some(URL_SAFE_NO_PAD.encode(text))
    }

    /// What was sealed for this purpose with one of the secrets.
    pub fn open(&self, purpose: &str, text: &[u8]) -> Option<Vec<u8>> {
        let text = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (&version, text) = text.split_first()?;
        let (salt, sealed) = text.split_at_checked(SALT)?;
        if version != VERSION {
            return None;
        }
        self.0.iter().find_map(|secret| {
            let (key, nonce) = key(secret, salt, purpose)?;
            let mut plain = sealed.to_vec();
            let length = key.open_in_place(nonce, Aad::from(purpose.as_bytes()), &mut plain).ok()?.len();
            plain.truncate(length);
            Some(plain)
        })
    }
}

fn key(secret: &[u8], salt: &[u8], purpose: &str) -> Option<(LessSafeKey, Nonce)> {
    let mut bytes = [0; KEY + NONCE_LEN];
    let info = [b"thalweg session v1 ".as_slice(), purpose.as_bytes()];
    let made = Salt::new(HKDF_SHA256, salt).extract(secret);
    made.expand(&info, Length(bytes.len())).ok()?.fill(&mut bytes).ok()?;
    let key = UnboundKey::new(&AES_256_GCM, &bytes[..KEY]).ok()?;
    Some((LessSafeKey::new(key), Nonce::try_assume_unique_for_key(&bytes[KEY..]).ok()?))
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}
