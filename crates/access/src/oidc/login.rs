//! A login under way: what the browser's sealed cookie holds until the provider sends it back.

use super::form::{form, parameters};
use super::{Metadata, Sealer};
use aws_lc_rs::{constant_time, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A login must be done after this time, in seconds.
pub const LOGIN_LASTS: u64 = 600;
/// Longest place to return to, in bytes.
const TARGET: usize = 2048;
/// Longest value that a provider may send back, in bytes.
const PARAMETER: usize = 4096;
const PURPOSE: &str = "login";

/// A login under way.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Login {
    /// The provider, by its mark.
    pub provider: String,
    /// Comes back with the code; the browser that has the cookie is the one that began.
    pub state: String,
    /// Stands in the token that the provider signs.
    pub nonce: String,
    /// The code is worth nothing without it (RFC 7636 §4.1).
    pub verifier: String,
    /// Path and query of this host to return to.
    pub to: String,
    /// When it began, in seconds since the Unix epoch.
    pub since: u64,
}

impl Login {
    /// Begins one. `None`: there is no randomness.
    pub fn begin(provider: &str, to: &str, now: u64) -> Option<Self> {
        let random = || {
            let mut bytes = [0; 32];
            rand::fill(&mut bytes).ok().map(|()| URL_SAFE_NO_PAD.encode(bytes))
        };
        Some(Self {
            provider: provider.to_owned(),
            state: random()?,
            nonce: random()?,
            verifier: random()?,
            to: safe_target(to).to_owned(),
            since: now,
        })
    }

    /// The end of the name of its cookie: each login has its own, so that several tabs may log in at once.
    pub fn tag(state: &str) -> Option<&str> {
        let tag = state.get(..8)?;
        tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)).then_some(tag)
    }

    /// The value of its cookie.
    pub fn seal(&self, sealer: &Sealer) -> Option<String> {
        let plain = json!([self.provider, self.state, self.nonce, self.verifier, self.to, self.since]);
        sealer.seal(PURPOSE, plain.to_string().as_bytes())
    }

    /// The login of a cookie. `None`: it was not made here, or is over.
    pub fn open(sealer: &Sealer, cookie: &[u8], now: u64) -> Option<Self> {
        let plain = sealer.open(PURPOSE, cookie)?;
        let Value::Array(parts) = serde_json::from_slice(&plain).ok()? else { return None };
        let text = |at: usize| parts.get(at).and_then(Value::as_str).map(str::to_owned);
        let since = parts.get(5).and_then(Value::as_u64)?;
        let login = Self {
            provider: text(0)?,
            state: text(1)?,
            nonce: text(2)?,
            verifier: text(3)?,
            to: safe_target(&text(4)?).to_owned(),
            since,
        };
        (now < since.saturating_add(LOGIN_LASTS)).then_some(login)
    }

    /// Whether this is the one that a callback answers.
    pub fn is_answered_by(&self, state: &str) -> bool {
        constant_time::verify_slices_are_equal(self.state.as_bytes(), state.as_bytes()).is_ok()
    }

    /// Where the browser goes to log in.
    pub fn url(
        &self,
        at: &Metadata,
        (client, scopes, redirect): (&str, &str, &str),
        more: &[(&str, &str)],
    ) -> String {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, self.verifier.as_bytes());
        let challenge = URL_SAFE_NO_PAD.encode(digest.as_ref());
        let mut query = vec![
            ("response_type", "code"),
            ("client_id", client),
            ("redirect_uri", redirect),
            ("scope", scopes),
            ("state", &self.state),
            ("nonce", &self.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        query.extend_from_slice(more);
        let url = at.authorization.text();
        let joint = if url.contains('?') { '&' } else { '?' };
        format!("{url}{joint}{}", form(&query))
    }
}

/// The place where it is one of this host, or else the root: what a browser would take for another host never is.
pub fn safe_target(to: &str) -> &str {
    let is_path = to.starts_with('/') && !to.starts_with("//");
    let is_plain = to.bytes().all(|byte| (b'!'..=b'~').contains(&byte) && byte != b'\\');
    if is_path && is_plain && to.len() <= TARGET { to } else { "/" }
}

/// What a provider sends back through the browser (OpenID Connect Core §3.1.2.5, RFC 9207).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Callback {
    /// Of the login.
    pub state: String,
    /// The code.
    pub code: Option<String>,
    /// Why there is none, in the provider's word.
    pub error: Option<String>,
    /// The issuer.
    pub issuer: Option<String>,
}

impl Callback {
    /// Reads the query. `None`: a parameter is missing, there twice, or too long.
    pub fn read(query: &[u8]) -> Option<Self> {
        let mut found = Self::default();
        let mut state = None;
        for (name, value) in parameters(query) {
            let place = match name.as_str() {
                "state" => &mut state,
                "code" => &mut found.code,
                "error" => &mut found.error,
                "iss" => &mut found.issuer,
                _ => continue,
            };
            if value.len() > PARAMETER || place.replace(value).is_some() {
                return None;
            }
        }
        found.state = state?;
        (found.code.is_some() != found.error.is_some()).then_some(found)
    }
}
