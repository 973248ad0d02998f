//! A token in its parts, before anything in it is believed.

use super::{Algorithm, Flaw, object};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// Longest token, in bytes.
pub const TOKEN: usize = 16 * 1024;
/// Longest `kid`, in bytes.
const KEY_ID: usize = 512;

/// A token whose form is right. Its signature is not verified.
#[derive(Debug)]
pub struct Token<'t> {
    /// How it says that it is signed.
    pub algorithm: Algorithm,
    /// The key that it says it is signed with; a name to look up, and nothing else.
    pub key_id: Option<Box<str>>,
    /// What is signed.
    pub(super) message: &'t [u8],
    pub(super) signature: Vec<u8>,
    claims: &'t [u8],
}

impl<'t> Token<'t> {
    /// Reads it.
    ///
    /// # Errors
    /// Its form is not that of a signed token.
    pub fn read(text: &'t [u8]) -> Result<Self, Flaw> {
        if text.len() > TOKEN {
            return Err(Flaw::TooLong);
        }
        let mut parts = text.split(|byte| *byte == b'.');
        let three = (parts.next(), parts.next(), parts.next(), parts.next());
        let (Some(head), Some(claims), Some(signature), None) = three else { return Err(Flaw::Form) };
        let signature = decoded(signature)?;
        let head = object(&decoded(head)?).map_err(Flaw::Json)?;
        let algorithm = match head.get("alg") {
            Some(Value::String(name)) => Algorithm::named(name).ok_or(Flaw::NoAlgorithm)?,
            _ => return Err(Flaw::NoAlgorithm),
        };
        if head.contains_key("crit") {
            return Err(Flaw::Head("the token's head has extensions that must be understood (`crit`)"));
        }
        if head.contains_key("enc") || head.contains_key("zip") {
            return Err(Flaw::Head("the token is encrypted or compressed, which is not supported"));
        }
        let key_id = match head.get("kid") {
            None => None,
            Some(Value::String(id)) if id.len() <= KEY_ID => Some(id.as_str().into()),
            Some(_) => return Err(Flaw::Head("the token's `kid` is no short text")),
        };
        let message = &text[..text.len() - 1 - signature_length(text)];
        Ok(Self { algorithm, key_id, message, signature, claims })
    }

    /// What it claims.
    pub(super) fn claims(&self) -> Result<Map<String, Value>, Flaw> {
        object(&decoded(self.claims)?).map_err(Flaw::Json)
    }
}

fn signature_length(text: &[u8]) -> usize {
    text.iter().rev().take_while(|byte| **byte != b'.').count()
}

/// Base64url as RFC 7515 §2 has it: without padding, and without bits behind its end.
fn decoded(part: &[u8]) -> Result<Vec<u8>, Flaw> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| Flaw::Base64)
}
