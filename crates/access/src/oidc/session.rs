//! A session: what the browser's sealed cookie holds after a login.

use super::Sealer;
use crate::jwt::object;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

const PURPOSE: &str = "session";
/// Before the end of its tokens, a session is refreshed: so many seconds, or a tenth of the time that they last.
const EARLY: u64 = 60;

/// A session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Session {
    /// The provider, by its mark.
    pub provider: String,
    /// The token that says who it is; it was verified when it came.
    pub id_token: String,
    /// For the service, where it is to have it.
    pub access_token: Option<String>,
    /// For new tokens.
    pub refresh_token: Option<String>,
    /// When the login was, in seconds since the Unix epoch.
    pub begun: u64,
    /// When its tokens came.
    pub renewed: u64,
    /// When they end.
    pub ends: u64,
}

/// How far a session is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stage {
    /// It counts.
    Fresh,
    /// It counts, and should be refreshed.
    Ending,
    /// It counts no more unless it can be refreshed.
    Ended,
    /// It counts no more.
    Over,
}

impl Session {
    /// How far it is, where it may last `longest` seconds from the login on.
    pub fn stage(&self, longest: u64, now: u64) -> Stage {
        let early = EARLY.min(self.ends.saturating_sub(self.renewed) / 10);
        match self.refresh_token {
            _ if now >= self.begun.saturating_add(longest) => Stage::Over,
            None if now >= self.ends => Stage::Over,
            None => Stage::Fresh,
            Some(_) if now >= self.ends => Stage::Ended,
            Some(_) if now.saturating_add(early) >= self.ends => Stage::Ending,
            Some(_) => Stage::Fresh,
        }
    }

    /// What the token claims that it holds.
    pub fn claims(&self) -> Option<Map<String, Value>> {
        let part = self.id_token.split('.').nth(1)?;
        object(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
    }

    /// The value of its cookie.
    pub fn seal(&self, sealer: &Sealer) -> Option<String> {
        let plain = json!([
            self.provider,
            self.id_token,
            self.access_token,
            self.refresh_token,
            self.begun,
            self.renewed,
            self.ends
        ]);
        sealer.seal(PURPOSE, plain.to_string().as_bytes())
    }

    /// The session of a cookie. `None`: it was not made here.
    pub fn open(sealer: &Sealer, cookie: &[u8]) -> Option<Self> {
        let plain = sealer.open(PURPOSE, cookie)?;
        let Value::Array(parts) = serde_json::from_slice(&plain).ok()? else { return None };
        let text = |at: usize| parts.get(at).and_then(Value::as_str).map(str::to_owned);
        let number = |at: usize| parts.get(at).and_then(Value::as_u64);
        Some(Self {
            provider: text(0)?,
            id_token: text(1)?,
            access_token: text(2),
            refresh_token: text(3),
            begun: number(4)?,
            renewed: number(5)?,
            ends: number(6)?,
        })
    }
}
