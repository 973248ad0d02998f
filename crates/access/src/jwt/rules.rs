//! What a token must claim (RFC 7519 §4.1).

use super::{Algorithm, Flaw};
use serde_json::{Map, Value};

/// What is asked of tokens.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Algorithms that are allowed.
    pub algorithms: Vec<Algorithm>,
    /// One of these must be `iss`; empty: any, or none.
    pub issuers: Vec<String>,
    /// One of these must be among `aud`; empty: any, or none.
    pub audiences: Vec<String>,
    /// Clocks may differ by this, in seconds.
    pub leeway: u64,
    /// Claims that must be there.
    pub required: Vec<String>,
}

/// What a verified token claims.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    /// Its claims.
    pub claims: Map<String, Value>,
    /// From this second since the Unix epoch on it proves nothing; the leeway is in it.
    pub ends: u64,
}

impl Rules {
    /// Whether the algorithm may be used at all.
    ///
    /// # Errors
    /// It may not.
    pub(super) fn allow(&self, algorithm: Algorithm) -> Result<(), Flaw> {
        if self.algorithms.contains(&algorithm) { Ok(()) } else { Err(Flaw::Algorithm(algorithm)) }
    }

    /// Checks what a token claims whose signature is right.
    ///
    /// # Errors
    /// What is wrong.
    pub fn claims(&self, claims: Map<String, Value>, now: u64) -> Result<Verified, Flaw> {
        for name in &self.required {
            if matches!(claims.get(name), None | Some(Value::Null)) {
                return Err(Flaw::Missing(name.as_str().into()));
            }
        }
        let ends = seconds(&claims, "exp")?.map_or(u64::MAX, |ends| ends.saturating_add(self.leeway));
        if now >= ends {
            return Err(Flaw::Expired((now - ends).saturating_add(self.leeway)));
        }
        let latest = now.saturating_add(self.leeway);
        match seconds(&claims, "nbf")? {
            Some(begins) if begins > latest => return Err(Flaw::NotYet(begins - now)),
            _ => {}
        }
        match seconds(&claims, "iat")? {
            Some(issued) if issued > latest => return Err(Flaw::FromTheFuture(issued - now)),
            _ => {}
        }
        self.parties(&claims)?;
        Ok(Verified { claims, ends })
    }

    /// From whom and for whom it is.
    fn parties(&self, claims: &Map<String, Value>) -> Result<(), Flaw> {
        let issuer = match claims.get("iss") {
            None => None,
            Some(Value::String(issuer)) => Some(issuer),
            Some(_) => return Err(Flaw::Type("iss")),
        };
        if !self.issuers.is_empty() && !issuer.is_some_and(|issuer| self.issuers.contains(issuer)) {
            return Err(Flaw::Issuer);
        }
        if !matches!(claims.get("sub"), None | Some(Value::String(_))) {
            return Err(Flaw::Type("sub"));
        }
        let is_ours = |audience: &Value| match audience {
            Value::String(audience) => Ok(self.audiences.contains(audience)),
            _ => Err(Flaw::Type("aud")),
        };
        let mut is_for_us = false;
        match claims.get("aud") {
            None => {}
            Some(Value::Array(list)) => {
                for audience in list {
                    is_for_us |= is_ours(audience)?;
                }
            }
            Some(one) => is_for_us = is_ours(one)?,
        }
        if self.audiences.is_empty() || is_for_us { Ok(()) } else { Err(Flaw::Audience) }
    }
}

/// A time (RFC 7519 §2, NumericDate), in whole seconds; fractions are cut off.
fn seconds(claims: &Map<String, Value>, name: &'static str) -> Result<Option<u64>, Flaw> {
    /// The year 9999 and more: beyond it, milliseconds were meant or nothing.
    const LAST: f64 = 1e12;
    let Some(value) = claims.get(name) else { return Ok(None) };
    match value.as_f64() {
        Some(time) if (0.0..=LAST).contains(&time) => Ok(Some(time as u64)),
        _ => Err(Flaw::Type(name)),
    }
}
